"""What was never written can be told from what was computed."""

from __future__ import annotations

import pytest
import torch

from checkers.grading.poison import poison_, poisoned

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_poison_is_seen_until_it_is_written_over(dtype: torch.dtype) -> None:
    tensor = poison_(torch.zeros(3, 4, dtype=dtype))
    assert bool(poisoned(tensor).all())
    tensor[1] = 0
    assert poisoned(tensor).tolist() == [[True] * 4, [False] * 4, [True] * 4]


@pytest.mark.parametrize("dtype", FLOATS)
def test_poison_is_a_nan(dtype: torch.dtype) -> None:
    assert bool(poison_(torch.zeros(5, dtype=dtype)).isnan().all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_computed_nan_is_not_poison(dtype: torch.dtype) -> None:
    infinity = torch.full((4,), float("inf"), dtype=dtype)
    assert not bool(poisoned(infinity - infinity).any())
    on_nvidia = torch.full((4,), 0x7FFFFFFF, dtype=torch.int32).view(torch.float32)
    assert not bool(poisoned(on_nvidia).any())


def test_a_part_of_a_tensor_is_poisoned_in_place() -> None:
    tensor = torch.zeros(4, 6)
    poison_(tensor[:, 2:4])
    assert poisoned(tensor).sum(dim=1).tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("dtype", [torch.bool, torch.complex64, torch.float8_e4m3fn])
def test_a_dtype_without_poison_never_holds_any(dtype: torch.dtype) -> None:
    assert not bool(poisoned(poison_(torch.zeros(2, dtype=dtype))).any())
