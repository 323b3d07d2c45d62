"""The softmax kernels of the path from chapter 4 to chapter 7, and what each is compiled for.

A step changes one thing of the step before it, and keeps what doesn't depend on it:

    scalar    loads and stores of one element; a row belongs to one block, and lies in its registers.
              Each reduction is a tree in shared memory with a barrier a level; first the maximum,
              then the sum
    vectors   loads and stores of 16 bytes (chapter 4)
    async     the row comes through shared memory, by cp.async (chapter 5), into the same registers
    kept      it stays in shared memory, and is read from there three times: no register holds it
    shuffles  out of registers again; reductions by shuffles, then a slot a warp (chapter 6)
    pairs     maximum and sum together: one exchange, and so one barrier (chapters 6 and 7)
    clusters  the solution, with its own table of tiles (chapter 7)

Against the path: ``read_twice``, a block of moderate size that reads the row twice, chapter 2's way,
for rows that no block can hold. tests/gpu/path_ch07.py measures them all.
"""

from __future__ import annotations

import importlib
import math
import operator
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cutlass
import cutlass.cute as cute
import torch
from cutlass import Float32, const_expr
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor
from cutlass.memory import SmemAllocator

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
resources = importlib.import_module("checkers.grading.resources")
sass = importlib.import_module("checkers.grading.sass")
solution = importlib.import_module("solutions.ch07_cluster_reductions")

# Rows of N elements: threads a row in a block, 16 or 32 elements each, then all that a block has.
ROW_THREADS = {262144: (1024,), 65536: (512, 1024), 8192: (256, 512), 1024: (32, 64)}
DTYPES = (torch.bfloat16, torch.float32)
ONE_BLOCK = ("scalar", "vectors", "async", "kept", "shuffles", "pairs")
STAGED, TREES = ("async", "kept"), ("scalar", "vectors", "async", "kept")
STEPS = (*ONE_BLOCK, "clusters", "read_twice")
SHARED_BYTES = 227 * 1024 - 8192  # a block's, less the slots of two trees of 1024 threads


@dataclass(frozen=True)
class PathTile(solution.Tile):
    """The solution's tile, and which step it is of. read_twice has N in chunks of a block's loads."""

    step: str
    loads: int = 0  # vectors of a thread in a chunk

    chunk = property(lambda tile: tile.block_threads * tile.vector * tile.loads)


@dataclass(frozen=True)
class Reduction:
    """Of a thread's values, of two values, of a warp."""

    op: Any
    neutral: float
    combine: Callable
    of_a_warp: Callable


MAXIMUM = Reduction(cute.ReductionOp.MAX, -math.inf, cute.arch.fmax, cute.arch.warp_reduction_max)
SUM = Reduction(cute.ReductionOp.ADD, 0.0, operator.add, cute.arch.warp_reduction_sum)


# --- the steps -----------------------------------------------------------------------------------


@cute.jit
def tree(value: Float32, how: cutlass.Constexpr, tile: cutlass.Constexpr):
    """A slot a thread, and half as many threads at each level: log2(threads) + 1 barriers."""
    tidx, _, _ = cute.arch.thread_idx()
    row, place = tidx // tile.row_threads, tidx % tile.row_threads
    layout = cute.make_ordered_layout((tile.rows, tile.row_threads), order=(1, 0))
    slots = SmemAllocator().allocate_tensor(Float32, layout, byte_alignment=16)
    slots[row, place] = value
    cute.arch.barrier()
    for level in cutlass.range_constexpr(tile.row_threads.bit_length() - 1):
        distance = tile.row_threads >> (level + 1)
        if place < distance:
            slots[row, place] = how.combine(slots[row, place], slots[row, place + distance])
        cute.arch.barrier()
    return slots[row, 0]


@cute.jit
def shuffled(value: Float32, how: cutlass.Constexpr, tile: cutlass.Constexpr):
    """Five shuffles, a slot a warp, one barrier, five shuffles; a warp alone needs no slot."""
    warp, lane = cute.arch.warp_idx(), cute.arch.lane_idx()
    value = how.of_a_warp(value)
    if const_expr(tile.warps > 1):
        row, place = warp // tile.warps, warp % tile.warps
        layout = cute.make_ordered_layout((tile.rows, tile.warps), order=(1, 0))
        slots = SmemAllocator().allocate_tensor(Float32, layout, byte_alignment=16)
        if lane == 0:
            slots[row, place] = value
        cute.arch.barrier()
        value = Float32(how.neutral)
        if lane < tile.warps:
            value = slots[row, lane]
        value = how.of_a_warp(value)
    return value


@cute.jit
def of_row(values: cute.TensorSSA, how: cutlass.Constexpr, tile: cutlass.Constexpr):
    """The row's maximum or sum, in every thread that has a part of the row."""
    value = values.reduce(how.op, Float32(how.neutral), 0)
    if const_expr(tile.step in TREES):
        value = tree(value, how, tile)
    else:
        value = shuffled(value, how, tile)
    return value


@cute.jit
def stage(tile: cutlass.Constexpr, mX: cute.Tensor, tXpX: cute.Tensor):
    """This thread's part of the block's rows, in shared memory. Nobody else reads it."""
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    dtype, shape = mX.element_type, (tile.rows, tile.columns)
    copy_bits = tile.vector * dtype.width
    atom = cute.make_copy_atom(cpasync.CopyG2SOp(), dtype, num_bits_per_copy=copy_bits)
    threads = cute.make_ordered_layout((tile.rows, tile.row_threads), order=(1, 0))
    tiled_copy = cute.make_tiled_copy_tv(atom, threads, cute.make_layout((1, tile.vector)))
    layout = cute.make_ordered_layout(shape, order=(1, 0))
    sX = SmemAllocator().allocate_tensor(dtype, layout, byte_alignment=16)
    thr_copy = tiled_copy.get_slice(tidx)
    tXgX = thr_copy.partition_S(cute.local_tile(mX, shape, (bidx, 0)))
    tXsX = thr_copy.partition_D(sX)
    cute.copy(atom, tXgX, tXsX, pred=tXpX)
    cute.arch.cp_async_commit_group()
    cute.arch.cp_async_wait_group(0)
    return tXsX


def staged(tXsX: cute.Tensor):
    """The thread's elements out of shared memory, as float32."""
    tXrX = cute.make_rmem_tensor_like(tXsX)
    cute.autovec_copy(tXsX, tXrX)
    return tXrX.load().to(Float32)


@cute.kernel
def two_reductions_kernel(mX: cute.Tensor, mO: cute.Tensor, tile: cutlass.Constexpr):
    """O = softmax of X's rows, the row's maximum first, then the sum: scalar, vectors, async, kept
    and shuffles. mX, mO: (M, N), N whole tiles."""
    atom, tXpX, tXgX, tXgO = solution.partition(tile, mX, mO)
    if const_expr(tile.step in STAGED):
        tXsX = stage(tile, mX, tXpX)
        x = staged(tXsX)
    else:
        x = solution.load(tile, atom, tXgX, tXpX, -math.inf)
    m = of_row(x, MAXIMUM, tile)
    if const_expr(tile.step == "kept"):
        d = of_row(cute.math.exp(staged(tXsX) - m, fastmath=True), SUM, tile)
        e = cute.math.exp(staged(tXsX) - m, fastmath=True)
    else:
        e = cute.math.exp(x - m, fastmath=True)
        d = of_row(e, SUM, tile)
    solution.store(atom, e * cute.arch.rcp_approx(d), tXgO, tXpX)


@cute.jit
def chunk_of(tile: cutlass.Constexpr, tiled_copy: cute.TiledCopy, mX: cute.Tensor, chunk):
    """This thread's part of one chunk of the block's row: ((vector, 1), 1, loads)."""
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    return tiled_copy.get_slice(tidx).partition_S(
        cute.local_tile(mX, (1, tile.chunk), (bidx, chunk))
    )


@cute.kernel
def read_twice_kernel(mX: cute.Tensor, mO: cute.Tensor, tile: cutlass.Constexpr):
    """O = softmax of X's rows, a block a row: once through it for (m, d), and back to write what the
    L2 cache may still have. mX, mO: (M, N), N whole chunks."""
    dtype, bits = mX.element_type, tile.vector * mX.element_type.width
    slots, mbar = solution.open_exchange(tile)
    keep = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), dtype, num_bits_per_copy=bits)
    last_use = cute.make_copy_atom(
        cute.nvgpu.CopyG2ROp(),
        dtype,
        num_bits_per_copy=bits,
        load_cache_mode=cute.nvgpu.LoadCacheMode.STREAMING,
    )
    passing = cute.make_copy_atom(
        cute.nvgpu.CopyR2GOp(),
        dtype,
        num_bits_per_copy=bits,
        store_cache_mode=cute.nvgpu.StoreCacheMode.STREAMING,
    )
    owners = cute.make_ordered_layout((1, tile.row_threads), order=(1, 0))
    tiled_copy = cute.make_tiled_copy_tv(keep, owners, cute.make_layout((1, tile.vector)))
    chunks = tile.N // tile.chunk
    m, d = -Float32.inf, Float32(0.0)  # of what this thread has seen
    for chunk in cutlass.range(chunks, unroll=1):
        tXgX = chunk_of(tile, tiled_copy, mX, chunk)
        tXrX = cute.make_rmem_tensor_like(tXgX)
        cute.copy(keep, tXgX, tXrX)
        x = tXrX.load().to(Float32)
        larger = x.reduce(cute.ReductionOp.MAX, m, 0)
        e = cute.math.exp(x - larger, fastmath=True)
        d = e.reduce(cute.ReductionOp.ADD, d * cute.math.exp(m - larger, fastmath=True), 0)
        m = larger
    warp_m = cute.arch.warp_reduction_max(m)
    d = cute.arch.warp_reduction_sum(d * cute.math.exp(m - warp_m, fastmath=True))
    row_m, row_d = solution.row_pair(warp_m, d, slots, mbar, tile)
    scale = cute.arch.rcp_approx(row_d)
    for step in cutlass.range(chunks, unroll=1):
        chunk = chunks - 1 - step
        tXgX, tXgO = (chunk_of(tile, tiled_copy, t, chunk) for t in (mX, mO))
        tXrX, tXrO = cute.make_rmem_tensor_like(tXgX), cute.make_rmem_tensor_like(tXgO)
        cute.copy(last_use, tXgX, tXrX)
        e = cute.math.exp(tXrX.load().to(Float32) - row_m, fastmath=True)
        tXrO.store((e * scale).to(dtype))
        cute.copy(passing, tXrO, tXgO)


# --- what is compiled ----------------------------------------------------------------------------


def tiles(dtype: torch.dtype, N: int) -> list[PathTile]:
    """All that are tried."""
    vector = 16 // dtype.itemsize
    entry = next(tiles for longest, tiles in solution.TILES.items() if longest >= N)
    table = entry[dtype.itemsize == 4]
    in_one_block = [(max(threads, 128), threads, 1) for threads in ROW_THREADS[N]]
    if table[2] == 1:
        in_one_block.append(table)
    found = []
    for step in ONE_BLOCK:
        for tiling in dict.fromkeys(in_one_block):
            tile = PathTile(N, 1 if step == "scalar" else vector, *tiling, step)
            if step not in STAGED or tile.rows * N * dtype.itemsize <= SHARED_BYTES:
                found.append(tile)
    found.append(PathTile(N, vector, *table, "clusters"))
    if N >= 65536:
        for threads, loads in ((256, 4), (512, 2), (512, 4), (1024, 2), (1024, 4)):
            found.append(PathTile(N, vector, threads, threads, 1, "read_twice", loads))
    return found


def compiled(tile: PathTile, dtype: torch.dtype, options: str = "") -> Any:
    """The launch for matrices of aligned rows, its machine code kept."""
    kernel = {
        "pairs": solution.softmax_kernel,
        "clusters": solution.softmax_kernel,
        "read_twice": read_twice_kernel,
    }.get(tile.step, two_reductions_kernel)
    shape = (cute.sym_int(), cute.sym_int())
    strides = (cute.sym_int64(divisibility=16 // dtype.itemsize), 1)
    fakes = tuple(
        make_fake_tensor(solution.CUTE_DTYPE[dtype], shape, strides, assumed_align=16)
        for _ in range(2)
    )
    with tempfile.TemporaryDirectory() as folder:
        kept = f"--keep-cubin --dump-dir {folder} {options}".strip()
        return cute.compile(solution.launch, kernel, fakes, make_fake_stream(), tile, options=kept)


def usage(cubin: bytes) -> dict[str, int]:
    """Registers of a thread, and the bytes that it moves to and from local memory."""
    printed = sass.run_tool("cuobjdump", ("--dump-resource-usage",), cubin)
    (used,) = resources.parse_resource_usage(printed).values()
    moved = {"STL": 0, "LDL": 0}
    if used["STACK"] or used["LOCAL"]:
        (instructions,) = sass.disassemble(cubin).values()
        for instruction in instructions:
            if instruction.parts[0] in moved:
                widths = [int(part) for part in instruction.parts if part in ("64", "128")]
                moved[instruction.parts[0]] += (widths or [32])[0] // 8
    return {
        "registers": used["REG"],
        "spilled_bytes": moved["STL"],
        "reloaded_bytes": moved["LDL"],
    }
