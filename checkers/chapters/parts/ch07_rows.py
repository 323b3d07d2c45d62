"""What the kernels of chapter 7 are given: rows, long and short, harmless and special."""

from __future__ import annotations

import math

import torch

from checkers.chapters.parts import ch02_rows
from checkers.exercise import Case, Floor, SpeedTarget

INF, NAN = math.inf, math.nan
ELEMENTS = 2**29  # of a timed matrix: 1 GiB of bfloat16


def rows(case: Case, generator: torch.Generator) -> tuple[torch.Tensor]:
    """x of the case's M, N, dtype. values: as in chapter 2, or "special" (see special_rows)."""
    if case.parameters.get("values") != "special":
        return ch02_rows.rows(case, generator)
    x = torch.randn(len(SPECIAL), case["N"], generator=generator)
    return (special_rows(x, case.dtype).to(case.dtype),)


SPECIAL = (
    "all minus inf",
    "plus inf",
    "nan",
    "minus inf and nan",
    "the least number",
    "the largest number",
    "one element",
    "plain",
)


def special_rows(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Rows that torch.softmax has an answer for, in the order of SPECIAL. A row of the least number
    is what a mask of that number leaves: all of its elements are 1 / N."""
    middle, last = x.shape[1] // 2, x.shape[1] - 1
    x[0] = -INF
    x[1, middle] = INF
    x[2, last] = NAN
    x[3] = -INF
    x[3, middle] = NAN
    x[4] = torch.finfo(dtype).min
    x[5] = torch.finfo(dtype).max
    x[6] = -INF
    x[6, last] = 1.0
    return x


def rows_and_blocks(case: Case, generator: torch.Generator) -> tuple[torch.Tensor, int]:
    """x, and how many blocks share a row."""
    return (*rows(case, generator), case["blocks"])


def row_pairs(x: torch.Tensor, blocks: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Each row's maximum and sum of exp(x - maximum), in float64, once for each block."""
    wide = x.double()
    m = wide.amax(1, keepdim=True)
    d = (wide - m).exp().sum(1, keepdim=True)
    return m.expand(-1, blocks), d.expand(-1, blocks)


def case(
    name: str, why: str, M: int, N: int, dtype: str, needs_gpu: bool = False, **more: object
) -> Case:
    """A case of M rows of N elements."""
    sparse = bool(more.pop("sparse", False))
    return Case(name, {"M": M, "N": N, "dtype": dtype, **more}, why, needs_gpu, sparse)


def timed(N: int, dtype: str = "bfloat16") -> SpeedTarget:
    """M * N = 2**29 elements, all read and all written."""
    name = f"N={N}" if dtype == "bfloat16" else f"N={N}_{dtype}"
    one = Case(name, {"M": ELEMENTS // N, "N": N, "dtype": dtype}, needs_gpu=True)
    return SpeedTarget(one, lambda arguments: 2 * arguments[0].nbytes)


def timed_reading(N: int, blocks: int) -> SpeedTarget:
    """2**29 elements of bfloat16, read once; next to nothing is written."""
    parameters = {"M": ELEMENTS // N, "N": N, "dtype": "bfloat16", "blocks": blocks}
    return SpeedTarget(Case(f"N={N}", parameters, needs_gpu=True), lambda given: given[0].nbytes)


def counted(M: int, N: int, tensors: int = 2, **more: object) -> Floor:
    """M rows of N bfloat16 elements: each of them is read once, and written once if tensors=2."""
    one = Case(f"N={N}", {"M": M, "N": N, "dtype": "bfloat16", **more})
    return Floor(one, lambda arguments: tensors * arguments[0].nbytes)
