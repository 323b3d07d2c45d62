"""Triton kernels whose launches the tests catch."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def scale_add(x_ptr, y_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside)
    y = tl.load(y_ptr + offsets, mask=inside)
    tl.store(out_ptr + offsets, x * factor + y, mask=inside)


@triton.jit
def load_tile(source, out_ptr, pair, ROWS: tl.constexpr, COLS: tl.constexpr):
    tile = source.load([0, 0])
    offsets = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    tl.store(out_ptr + offsets, tile + pair[1])


@triton.jit
def load_tile_on_device(x_ptr, out_ptr, M, N, ROWS: tl.constexpr, COLS: tl.constexpr):
    source = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [ROWS, COLS])
    offsets = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    tl.store(out_ptr + offsets, source.load([0, 0]))


@triton.autotune(
    [triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in [(64, 64), (256, 2)]],
    key=["n"],
)
@triton.jit
def ones(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, 1.0, mask=offsets < n)
