"""Is an answer right: tolerance by row, NaN, infinities, bits, and large tensors in pieces."""

from __future__ import annotations

import math

import pytest
import torch

from checkers.exercise import Tolerance
from checkers.grading import compare as module
from checkers.grading.compare import compare


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)


def test_zeros_are_not_a_softmax() -> None:
    """Every probability is 2.5e-6: an absolute tolerance of 1e-2 would take zeros for right."""
    expected = torch.full((2, 393216), 1 / 393216, dtype=torch.float64)
    result = compare(torch.zeros(2, 393216), expected, Tolerance())
    assert result.wrong == 2 * 393216
    assert result.worst_error == pytest.approx(1.0)


def test_a_reordered_float32_softmax_is_right(generator: torch.Generator) -> None:
    x = torch.randn(8, 4096, generator=generator)
    expected = x.double().softmax(-1)
    permutation = torch.randperm(4096, generator=generator)
    shuffled = torch.empty_like(x)
    shuffled[:, permutation] = x[:, permutation].softmax(-1)
    assert compare(shuffled, expected, Tolerance(), reduction_length=4096).ok


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_rounded_oracle_is_right_in_every_dtype(
    dtype: torch.dtype, generator: torch.Generator
) -> None:
    expected = torch.randn(16, 33, generator=generator, dtype=torch.float64)
    assert compare(expected.to(dtype), expected, Tolerance()).ok


def test_each_row_has_its_own_scale() -> None:
    expected = torch.tensor([[1000.0, 1.0], [1.0, 0.5]], dtype=torch.float64)
    got = expected.float() + torch.tensor([[1e-4, 1e-4], [1e-4, 0.0]])
    result = compare(got, expected, Tolerance(relative=1e-5))
    assert result.wrong_mask is not None
    assert result.wrong_mask.tolist() == [[False, False], [True, False]]
    assert result.worst_index == (1, 0)
    assert result.worst_error == pytest.approx(1e-4, rel=1e-2)
    assert str(result) == "[1, 0]: got 1.0001, expected 1"


def test_the_scale_can_span_the_whole_tensor() -> None:
    expected = torch.tensor([[1000.0, 1.0], [1.0, 0.5]], dtype=torch.float64)
    got = expected.float() + 1e-3
    assert compare(got, expected, Tolerance(relative=1e-5, scale_dims=(0, 1))).ok


def test_nan_must_match_nan() -> None:
    expected = torch.tensor([[math.nan, 1.0, 2.0]], dtype=torch.float64)
    assert compare(torch.tensor([[math.nan, 1.0, 2.0]]), expected, Tolerance()).ok
    missing = compare(torch.tensor([[0.0, 1.0, 2.0]]), expected, Tolerance())
    extra = compare(torch.tensor([[math.nan, math.nan, 2.0]]), expected, Tolerance())
    assert (missing.wrong, missing.worst_index) == (1, (0, 0))
    assert (extra.wrong, extra.worst_index, extra.worst_error) == (1, (0, 1), math.inf)


def test_infinities_must_match_in_sign() -> None:
    expected = torch.tensor([-math.inf, 1.0, math.inf], dtype=torch.float64)
    assert compare(expected.float(), expected, Tolerance()).ok
    result = compare(torch.tensor([math.inf, 1.0, 5.0]), expected, Tolerance())
    assert result.wrong_mask is not None
    assert result.wrong_mask.tolist() == [True, False, True]


def test_an_infinity_in_the_oracle_does_not_widen_the_tolerance() -> None:
    expected = torch.tensor([[math.inf, 1.0]], dtype=torch.float64)
    assert compare(torch.tensor([[math.inf, 1.1]]), expected, Tolerance()).wrong == 1


def test_what_overflows_the_answers_dtype_may_be_infinite() -> None:
    expected = torch.tensor([70000.0], dtype=torch.float64)
    assert compare(torch.tensor([math.inf], dtype=torch.float16), expected, Tolerance()).ok


def test_exact_tells_minus_zero_from_zero_and_takes_any_nan() -> None:
    exact = Tolerance(exact=True)
    expected = torch.tensor([0.0, -0.0, math.nan], dtype=torch.float64)
    payload = torch.tensor([0, -(2**31), 0x7FC12345], dtype=torch.int32).view(torch.float32)
    assert compare(payload, expected, exact).ok
    result = compare(torch.tensor([0.0, 0.0, math.nan]), expected, exact)
    assert (result.wrong, result.worst_index) == (1, (1,))


def test_exact_rejects_one_ulp() -> None:
    x = torch.tensor([1.0, 2.0])
    assert compare(torch.nextafter(x, x + 1), x.double(), Tolerance(exact=True)).wrong == 2


def test_integers_must_be_equal_whatever_the_tolerance() -> None:
    expected = torch.tensor([2508718080, 3])
    result = compare(torch.tensor([-1786249216, 3]), expected, Tolerance(relative=10.0))
    assert result.wrong == 1
    assert str(result) == "[0]: got -1786249216, expected 2508718080"
    assert compare(torch.tensor([3], dtype=torch.int32), torch.tensor([3]), Tolerance()).ok
    assert compare(torch.tensor([True]), torch.tensor([False]), Tolerance()).wrong == 1


def test_scalars_and_empty_tensors() -> None:
    assert compare(torch.tensor(2.0), torch.tensor(2.0), Tolerance()).ok
    result = compare(torch.tensor(2.0), torch.tensor(3.0), Tolerance())
    assert (result.wrong, result.worst_index, result.wrong_mask) == (1, (), torch.tensor(True))
    assert compare(torch.empty(0, 5), torch.empty(0, 5), Tolerance()).total == 0


def test_other_shapes_are_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(3, 2\)"):
        compare(torch.zeros(2, 3), torch.zeros(3, 2), Tolerance())


@pytest.mark.parametrize("shape", [(50, 7), (7, 50), (2, 31, 3), (301,)])
@pytest.mark.parametrize("scale_dims", [(-1,), (0,), (-1, 0)])
def test_in_pieces_as_in_one(
    shape: tuple[int, ...],
    scale_dims: tuple[int, ...],
    generator: torch.Generator,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = torch.randn(shape, generator=generator, dtype=torch.float64)
    got = expected.float() + 1e-6 * torch.randn(shape, generator=generator)
    tolerance = Tolerance(relative=5e-7, scale_dims=scale_dims)
    whole = compare(got, expected, tolerance)
    monkeypatch.setattr(module, "CHUNK_ELEMENTS", 20)
    pieces = compare(got, expected, tolerance)
    assert whole.wrong_mask is not None and pieces.wrong_mask is not None
    assert torch.equal(whole.wrong_mask, pieces.wrong_mask)
    assert 0 < whole.wrong < whole.total
    assert (whole.worst_index, whole.worst_error) == (pieces.worst_index, pieces.worst_error)
    size = (got.double() - expected).abs() / module.scale_of(expected, tolerance)
    assert whole.worst_error == size.max().item()
