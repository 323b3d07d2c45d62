"""Calls of the course's reference kernels, on fixed inputs: run once on a GPU and kept, run on the
simulator in the tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

DATA = Path(__file__).resolve().parents[1] / "data" / "course_outputs_h200"


@dataclass(frozen=True)
class Call:
    """name: in the data.  run: makes the output from the inputs, tensors on the GPU.  inputs: (shape, dtype) of
    each.  ulps: how far from the recording, in units of the last place of the output's dtype, a
    Triton may be that sums in another order than the one that was recorded."""

    name: str
    run: Callable[..., torch.Tensor]
    inputs: tuple[tuple[tuple[int, ...], torch.dtype], ...]
    ulps: int = 0

    def make_inputs(self) -> list[torch.Tensor]:
        """The inputs on the CPU: normal, of a seed that is the name's."""
        generator = torch.Generator().manual_seed(sum(self.name.encode()))
        return [
            torch.randn(shape, generator=generator, dtype=torch.float32).to(dtype)
            for shape, dtype in self.inputs
        ]


def calls() -> list[Call]:
    """Every Hopper kernel of the course, at small shapes."""
    import solutions.ch02_triton_softmax as ch02
    import solutions.ch04_vectorized_copies as ch04

    f32, bf16, f16 = torch.float32, torch.bfloat16, torch.float16
    found = []

    def add(name: str, run: Callable[..., torch.Tensor], *inputs, ulps: int = 0) -> None:
        found.append(Call(name, run, inputs, ulps))

    for dtype in (f32, bf16):
        kind = str(dtype).removeprefix("torch.")
        ulps = 4 if dtype is f32 else 1
        add(f"ch02.row_softmax.{kind}", ch02.row_softmax, ((7, 1000), dtype), ulps=ulps)
        add(f"ch02.short_rows.{kind}", ch02.short_rows_softmax, ((33, 100), dtype), ulps=ulps)
        add(f"ch02.long_rows.{kind}", ch02.long_rows_softmax, ((2, 20000), dtype), ulps=ulps)
    for dtype in (f32, f16, bf16):
        kind = str(dtype).removeprefix("torch.")
        add(f"ch04.scalar_copy.{kind}", ch04.scalar_copy, ((1000,), dtype))
        tile = ch04.tile_elements(dtype)
        add(f"ch04.vector_copy.{kind}", ch04.vector_copy, ((3 * tile,), dtype))
        add(f"ch04.ragged_copy.{kind}", ch04.ragged_copy, ((37, 501), dtype))
        pair = ((16, 1024), dtype)
        add(f"ch04.silu_mul.{kind}", ch04.silu_mul, pair, pair)
    return found


def ordered(values: torch.Tensor) -> torch.Tensor:
    """Floats as integers that are one apart where the floats are neighbours."""
    whole = values.view(torch.int32 if values.itemsize == 4 else torch.int16).to(torch.int64)
    lowest = -(1 << (8 * values.itemsize - 1))
    return torch.where(whole < 0, lowest - whole, whole)
