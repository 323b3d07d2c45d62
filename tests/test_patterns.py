"""Wrong answers are recognised by the look of their errors."""

from __future__ import annotations

import math

import pytest
import torch

from checkers.exercise import Tolerance
from checkers.grading.compare import compare
from checkers.grading.patterns import find_patterns
from checkers.grading.poison import poison_


def patterns(
    got: torch.Tensor, expected: torch.Tensor, *arguments: object, **more: torch.Tensor
) -> frozenset[str]:
    mask = compare(got, expected, Tolerance(relative=1e-5)).wrong_mask
    assert mask is not None
    return find_patterns(got, expected, arguments, mask, **more)


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(12, 40, generator=torch.Generator().manual_seed(3))


@pytest.fixture
def right(x: torch.Tensor) -> torch.Tensor:
    return x.double().softmax(-1)


def test_zeros(right: torch.Tensor) -> None:
    found = patterns(torch.zeros(12, 40), right)
    assert {"all_zero", "everything", "rows_do_not_sum_to_one"} <= found
    assert not {"constant_factor", "row_factor", "scattered"} & found


def test_never_written(right: torch.Tensor) -> None:
    got = right.float()
    poison_(got[:, 32:])
    assert patterns(got, right) == {"unwritten", "last_tile"}
    assert patterns(poison_(torch.empty(12, 40)), right) == {"unwritten", "everything"}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_computed_nan_is_not_poison(dtype: torch.dtype, right: torch.Tensor) -> None:
    got = right.to(dtype)
    infinity = torch.full((40,), math.inf, dtype=dtype)
    got[3] = infinity - infinity
    mask = got.isnan()
    assert find_patterns(got, right, (), mask) == {"nan_rows", "one_row"}


def test_nan_everywhere(right: torch.Tensor) -> None:
    infinity = torch.full((12, 40), math.inf)
    assert patterns(infinity - infinity, right) == {"nan_everywhere", "everything"}


def test_infinities(right: torch.Tensor) -> None:
    got = right.float()
    got[2, 3] = math.inf
    assert "inf" in patterns(got, right)


def test_the_last_columns(right: torch.Tensor) -> None:
    got = right.float()
    got[:, 32:] *= 1.5
    assert "last_tile" in patterns(got, right)
    got = right.float()
    got[:, 39] = 0.5
    assert "last_tile" in patterns(got, right)


def test_the_last_rows(right: torch.Tensor) -> None:
    got = right.float()
    got[8:] = 0.3 + right[8:].flip(1).float()
    found = patterns(got, right)
    assert "last_rows" in found and "last_tile" not in found


def test_the_tail_of_a_vector() -> None:
    expected = torch.arange(1.0, 101.0)
    got = expected.clone()
    got[96:] = 0
    assert patterns(got, expected) == {"last_tile"}


@pytest.mark.parametrize("period", [2, 3, 4])
def test_every_kth_row(period: int, right: torch.Tensor) -> None:
    got = right.float()
    got[1::period] = got[1::period].flip(1) + 0.1
    found = patterns(got, right)
    assert "every_kth_row" in found
    assert not {"every_kth_column", "last_rows", "scattered"} & found


def test_every_kth_column(right: torch.Tensor) -> None:
    got = right.float()
    got[:, 3::4] = 0.9 - got[:, 3::4]
    assert "every_kth_column" in patterns(got, right)


def test_blocks_of_rows_that_come_back(right: torch.Tensor) -> None:
    got = right.float()
    for start in (2, 6, 10):
        got[start : start + 2] = got[start : start + 2].flip(1) + 0.1
    assert "every_kth_row" in patterns(got, right)


def test_one_row(right: torch.Tensor) -> None:
    got = right.float()
    got[5] = got[5].flip(0) + 0.1
    assert "one_row" in patterns(got, right)


def test_only_the_first_row_is_right(right: torch.Tensor) -> None:
    got = torch.zeros(12, 40)
    got[0] = right[0].float()
    assert "first_row_only" in patterns(got, right)


def test_one_factor_for_all(right: torch.Tensor) -> None:
    found = patterns(right.float() * 1.44, right)
    assert {"constant_factor", "everything", "rows_do_not_sum_to_one"} <= found


def test_a_factor_of_its_own_for_each_row(x: torch.Tensor, right: torch.Tensor) -> None:
    """Lanes past the end that count as zeros add exp(0 - max) each to the sum."""
    padded = torch.nn.functional.pad(x, (0, 24)).softmax(-1)[:, :40]
    found = patterns(padded, right)
    assert {"row_factor", "rows_do_not_sum_to_one"} <= found
    assert "constant_factor" not in found


def test_the_input_returned(x: torch.Tensor, right: torch.Tensor) -> None:
    assert "input_returned" in patterns(x.clone(), right, 3, x)


def test_transposed() -> None:
    expected = torch.randn(16, 16, generator=torch.Generator().manual_seed(1))
    assert "transposed" in patterns(expected.mT.contiguous(), expected)
    wide = torch.randn(4, 9, generator=torch.Generator().manual_seed(1))
    assert "transposed" in patterns(wide.mT.contiguous().reshape(4, 9), wide)


@pytest.mark.parametrize("shift", [1, -1, 5])
def test_shifted(shift: int, right: torch.Tensor) -> None:
    assert "shifted" in patterns(right.float().roll(shift, dims=1), right)


def test_another_rows_answer(right: torch.Tensor) -> None:
    found = patterns(right.float().roll(1, dims=0), right)
    assert "row_of_another" in found
    assert not {"shifted", "transposed"} & found


def test_the_previous_calls_answer(right: torch.Tensor) -> None:
    stale = right.flip(1).float()
    assert "previous_call" in patterns(stale, right, previous=stale.clone())


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("count", [1, 5, 40, 200])
def test_a_random_scatter_is_only_that(seed: int, count: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    expected = torch.randn(32, 64, generator=generator)
    got = expected.clone().flatten()
    places = torch.randperm(got.numel(), generator=generator)[:count]
    got[places] += torch.randn(count, generator=generator)
    found = patterns(got.reshape(32, 64), expected)
    if count > 1:
        assert found == {"scattered"}
    else:
        assert found <= {"one_row", "last_tile", "scattered", "last_rows"}


def test_more_dimensions_are_rows_of_the_last() -> None:
    expected = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(2))
    got = expected.clone()
    got[1, 2] += 1
    assert {"one_row", "last_rows"} <= patterns(got, expected)


def test_nothing_wrong_has_no_pattern(right: torch.Tensor) -> None:
    nothing = torch.zeros(12, 40, dtype=torch.bool)
    assert find_patterns(right.float(), right, (), nothing) == frozenset()


def test_integers_and_single_numbers() -> None:
    assert {"all_zero", "everything"} <= patterns(torch.tensor([0, 0, 0]), torch.tensor([1, 2, 3]))
    assert "everything" in patterns(torch.tensor(1.0), torch.tensor(2.0))
