"""The inputs of ch05's exercises, how answers are called, and what is right."""

from __future__ import annotations

from collections.abc import Callable

import torch

from checkers.exercise import Case

A_BLOCK_A_TILE = 2**30  # more than there are tiles


def silu_input(case: Case, generator: torch.Generator) -> tuple[torch.Tensor, int | None]:
    """x of the case's ``shape``, and how many blocks walk over it; None: what the answer chooses.

    With ``scale`` x reaches where exp overflows. A huge one repeats a block whose length is no
    power of two: an address that wrapped around never holds the right value by chance. Of one with a window
    only the ends are filled."""
    shape = case["shape"]
    numel = torch.Size(shape).numel()
    scale = case.parameters.get("scale", 1)

    def numbers(*size: int) -> torch.Tensor:
        return (torch.randn(size, generator=generator) * scale).to(case.dtype)

    x = torch.empty(numel, dtype=case.dtype)
    if case.window:
        x[: case.window], x[-case.window :] = numbers(2, case.window)
    else:
        block = numbers(min(numel, 1_000_003))
        for begin in range(0, numel, max(1, len(block))):
            x[begin : begin + len(block)] = block[: numel - begin]
    return (x.view(shape),) if case.window else (x.view(shape), case.parameters.get("blocks"))


def call_with_blocks(function: Callable, arguments: tuple) -> torch.Tensor:
    """Calls an answer with its number of blocks, where the case has one; with a block a tile where
    only the ends of the grid run."""
    x, blocks = arguments if len(arguments) == 2 else (*arguments, A_BLOCK_A_TILE)
    return function(x) if blocks is None else function(x, blocks)


def call_on_view(function: Callable, arguments: tuple) -> torch.Tensor:
    """Calls ring_silu on the columns asked for: the view shares the matrix's memory."""
    x, blocks, columns = arguments
    return call_with_blocks(function, (x[:, :columns], blocks))


def silu(x: torch.Tensor, blocks: int | None = None) -> torch.Tensor:
    """x * sigmoid(x), in float64 for float32 inputs; float32 is exact enough for 16 bits, and an
    oracle of 2**32 elements has to fit beside the answer."""
    x = x.to(torch.float64 if x.dtype == torch.float32 else torch.float32)
    return x.sigmoid().mul_(x)


def silu_of_columns(x: torch.Tensor, blocks: int | None, columns: int) -> torch.Tensor:
    """silu of a view."""
    return silu(x[:, :columns], blocks)


def matrix_input(case: Case, generator: torch.Generator) -> tuple[torch.Tensor, int | None, int]:
    """A matrix of M rows of ``pitch`` elements, the blocks, and how many of the columns are given."""
    M, N = case["M"], case["N"]
    pitch = case.parameters.get("pitch", N)
    flat = Case(case.name, {**case.parameters, "shape": (M, pitch)})
    return (*silu_input(flat, generator), N)


def bytes_moved(arguments: tuple) -> int:
    """x is read and the output written."""
    return 2 * arguments[0].numel() * arguments[0].itemsize


def case(name: str, why: str, shape: tuple[int, ...], dtype: str, **options: object) -> Case:
    """A case of the flat exercises."""
    flags = {name: options.pop(name) for name in ("needs_gpu", "window") if name in options}
    return Case(name, {"shape": shape, "dtype": dtype, **options}, why, **flags)


def matrix(name: str, why: str, M: int, N: int, dtype: str, **options: object) -> Case:
    """A case of the ring."""
    needs_gpu = bool(options.pop("needs_gpu", False))
    return Case(name, {"M": M, "N": N, "dtype": dtype, **options}, why, needs_gpu)
