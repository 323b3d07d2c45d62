"""The inputs of chapter 2 are what their cases promise."""

from __future__ import annotations

import pytest
import torch

from checkers.chapters.parts import ch02_rows as given
from checkers.exercise import Case


def made(**parameters: object) -> torch.Tensor:
    case = Case("", {"M": 4, "N": 10, "dtype": "float32", **parameters})
    return given.rows(case, torch.Generator().manual_seed(1))[0]


def test_rows_lie_as_far_apart_as_the_case_says() -> None:
    x = made(row_stride=16)
    assert x.shape == (4, 10)
    assert x.stride() == (16, 1)
    assert torch.equal(x, made())


def test_rows_past_what_is_drawn_repeat_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given, "DRAWN", 20)
    x = made(M=5)
    assert torch.equal(x[2:4], x[:2])
    assert torch.equal(x[4], x[0])
    assert not torch.equal(x[1], x[0])


def test_a_masked_row_keeps_a_finite_element() -> None:
    x = made(values="half_minus_inf", M=6)
    assert (x == -float("inf")).any(dim=1).all()
    assert x.isfinite().any(dim=1).all()
    assert x[0, 0].isfinite() and x[1, 0] == -float("inf")


def test_negative_rows_lie_below_any_padding_with_zero() -> None:
    assert made(values="very_negative").max() < -9000


@pytest.mark.parametrize("values, sign", [("rising", 1), ("falling", -1)])
def test_the_maximum_moves_from_block_to_block(values: str, sign: int) -> None:
    blocks = made(values=values, N=1000).view(4, 10, 100).amax(dim=2)
    steps = blocks[:, -1] - blocks[:, 0]
    assert (sign * steps > 0).all()


def test_the_oracle_is_a_softmax_in_float64() -> None:
    y = given.softmax(torch.tensor([[0.0, 0.0, -float("inf")]]))
    assert y.dtype == torch.float64
    assert y.tolist() == [[0.5, 0.5, 0.0]]
