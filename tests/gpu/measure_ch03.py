"""What a layout alone is worth: the measurements that ch03's lesson quotes.

    python tests/gpu/measure_ch03.py         # writes $OUT/layouts_ch03_h200.json (or into .)

Needs a CUDA GPU of capability 9.0 or higher and 2 GiB of its memory; takes about half a minute.

copy: one kernel, three thread-value layouts; GB/s, bytes read plus bytes written.
columns: one kernel that reads a shared-memory tile by columns, behind three swizzles; microseconds.
Each result is checked before anything is timed, and variants are timed in turn.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack, make_fake_compact_tensor, make_fake_stream

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
machine = importlib.import_module("checkers.machine")

ROUNDS = 15
SIDE = 16384  # of the copied matrix of 16-bit elements: 512 MiB, far more than any L2
M, N, THREADS = 32, 64, 256  # a tile of the copy; 8 values a thread
COPIES = ("along_rows", "down_columns", "values_apart")

ROWS, COLUMNS = 8, 64  # a tile in shared memory: rows of 128 bytes
READS = 4096  # by each thread, of 16 bytes
SWIZZLES = {"plain": (0, 3, 3), "bytes_for_elements": (3, 4, 3), "elements": (3, 3, 3)}


# --- one copy, three thread-value layouts --------------------------------------------------------


def thread_value_layout(name: str) -> cute.Layout:
    """(thread, value) -> element i + j * M of a tile."""
    if name == "along_rows":  # a warp's loads fill 4 lines
        return cute.make_layout(((N // 8, M), 8), stride=((8 * M, 1), M))
    if name == "down_columns":  # a warp's loads are in 32 lines
        return cute.make_layout(((M, N // 8), 8), stride=((1, 8 * M), M))
    # Neighbouring threads on neighbouring elements, so a thread's own are in different rows.
    return cute.make_layout(((N, THREADS // N), 8), stride=((M, 1), THREADS // N))


@cute.kernel
def copy_kernel(mX: cute.Tensor, mO: cute.Tensor, name: cutlass.Constexpr):
    """One tile a block. mX, mO: (SIDE, SIDE)."""
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    tile = (bidx // (SIDE // N), bidx % (SIDE // N))
    gX, gO = (cute.local_tile(tensor, (M, N), tile) for tensor in (mX, mO))
    tv_layout = thread_value_layout(name)
    tXgX, tXgO = (cute.composition(tensor, tv_layout)[(tidx, None)] for tensor in (gX, gO))
    tXrX = cute.make_rmem_tensor_like(tXgX)
    bits = 16 if name == "values_apart" else 128
    atom = cute.make_copy_atom(
        cute.nvgpu.CopyUniversalOp(), mX.element_type, num_bits_per_copy=bits
    )
    cute.copy(atom, tXgX, tXrX)
    cute.copy(atom, tXrX, tXgO)


@cute.jit
def copy_launch(mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream, name: cutlass.Constexpr):
    copy_kernel(mX, mO, name).launch(
        grid=((SIDE // M) * (SIDE // N), 1, 1), block=(THREADS, 1, 1), stream=stream
    )


@functools.cache
def compile_copy(name: str):
    mX = make_fake_compact_tensor(
        cutlass.BFloat16, (SIDE, SIDE), stride_order=(1, 0), assumed_align=16
    )
    return cute.compile(copy_launch, mX, mX, make_fake_stream(), name)


# --- reading a tile by columns, behind three swizzles --------------------------------------------


@cute.kernel
def columns_kernel(mO: cute.Tensor, numbers: cutlass.Constexpr):
    """Each thread reads READS pieces of 16 bytes and adds them up. mO: (blocks, THREADS) int32.

    Lanes 8g to 8g + 7 read the same column of pieces, a row each: one trip if no banks collide.
    """
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    layout = cute.make_composed_layout(
        cute.make_swizzle(*numbers), 0, cute.make_layout((ROWS, COLUMNS), stride=(COLUMNS, 1))
    )
    tile = cute.arch.alloc_smem(cutlass.Int16, ROWS * COLUMNS, alignment=128)
    for step in cutlass.range_constexpr(ROWS * COLUMNS // THREADS):
        number = tidx + step * THREADS
        element = cute.make_tensor(
            tile + layout((number // COLUMNS, number % COLUMNS)), cute.make_layout(1)
        )
        element[0] = cutlass.Int16(number)
    cute.arch.sync_threads()
    words = cute.make_rmem_tensor(cute.make_layout(4), cutlass.Int32)
    found = cutlass.Int32(0)
    for read in cutlass.range(READS):
        piece = (tidx // 8 + read) % (COLUMNS // 8)
        start = (tile + layout((tidx % 8, piece * 8))).align(16)
        sixteen_bytes = cute.make_tensor(
            cute.recast_ptr(start, dtype=cutlass.Int32), cute.make_layout(4)
        )
        cute.autovec_copy(sixteen_bytes, words)
        found = found + words[0] + words[1] + words[2] + (words[3] ^ read)
    mO[bidx, tidx] = found


@cute.jit
def columns_launch(mO: cute.Tensor, stream: cuda.CUstream, numbers: cutlass.Constexpr):
    columns_kernel(mO, numbers).launch(
        grid=(mO.shape[0], 1, 1), block=(THREADS, 1, 1), stream=stream
    )


@functools.cache
def compile_columns(numbers: tuple[int, int, int], blocks: int):
    mO = make_fake_compact_tensor(cutlass.Int32, (blocks, THREADS), stride_order=(1, 0))
    return cute.compile(columns_launch, mO, make_fake_stream(), numbers)


def expected_columns() -> torch.Tensor:
    """What columns_kernel finds, whatever the swizzle: (THREADS,) int32."""
    words = torch.arange(ROWS * COLUMNS, dtype=torch.int16).view(torch.int32).view(ROWS, -1, 4)
    found = torch.zeros(THREADS, dtype=torch.int32)
    thread = torch.arange(THREADS)
    for read in range(READS):
        piece = words[thread % 8, (thread // 8 + read) % (COLUMNS // 8)].clone()
        piece[:, 3] ^= read
        for word in piece.unbind(1):
            found += word  # wraps at 32 bits, as the kernel's does
    return found


# --- timing --------------------------------------------------------------------------------------


def stream_now() -> cuda.CUstream:
    return cuda.CUstream(torch.cuda.current_stream().cuda_stream)


def copy_variants() -> dict[str, Callable[[], None]]:
    """The copies, each checked on its own."""
    x = torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(x)
    mX, mO = (from_dlpack(tensor, assumed_align=16) for tensor in (x, out))
    variants: dict[str, Callable[[], None]] = {"torch": lambda: out.copy_(x)}
    for name in COPIES:
        run = compile_copy(name)
        variants[name] = functools.partial(lambda run: run(mX, mO, stream_now()), run)
    for name, launch in variants.items():
        out.fill_(float("nan"))
        launch()
        if not torch.equal(out, x):
            raise AssertionError(f"the copy {name} is wrong")
    return variants


def column_variants() -> dict[str, Callable[[], None]]:
    """The reads by columns, each checked on its own."""
    blocks = torch.cuda.get_device_properties(0).multi_processor_count
    out = torch.empty(blocks, THREADS, device="cuda", dtype=torch.int32)
    mO = from_dlpack(out)
    expected = expected_columns().cuda().expand(blocks, THREADS)
    variants: dict[str, Callable[[], None]] = {}
    for name, numbers in SWIZZLES.items():
        run = compile_columns(numbers, blocks)
        variants[name] = functools.partial(lambda run: run(mO, stream_now()), run)
        out.zero_()
        variants[name]()
        if not torch.equal(out, expected):
            raise AssertionError(f"the reads behind {name} are wrong")
    return variants


def milliseconds(variants: dict[str, Callable[[], None]]) -> dict[str, list[float]]:
    """Times of each variant, in turn, by events around a launch behind queued work."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for launch in variants.values():
        for _ in range(5):
            launch()
    for _ in range(ROUNDS):
        for name, launch in variants.items():
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            launch()  # keeps the GPU busy until the timed launch is queued too
            begin.record()
            launch()
            end.record()
            end.synchronize()
            times[name].append(begin.elapsed_time(end))
    return times


def rows_of(kind: str, unit: str, times: dict[str, list[float]], rate: Callable) -> list[dict]:
    return [
        {
            "implementation": name,
            "case": {"measured": kind},
            "unit": unit,
            "median": rate(statistics.median(samples)),
            "p10": rate(sorted(samples)[len(samples) // 10]),
            "p90": rate(sorted(samples)[-1 - len(samples) // 10]),
            "samples": len(samples),
        }
        for name, samples in times.items()
    ]


def main() -> None:
    moved = 2 * SIDE * SIDE * 2
    rows = rows_of("copy", "GB/s", milliseconds(copy_variants()), lambda ms: moved / ms / 1e6)
    rows += rows_of("columns", "us", milliseconds(column_variants()), lambda ms: ms * 1e3)
    out = Path(os.environ.get("OUT", ".")) / "layouts_ch03_h200.json"
    described = machine.describe_machine()
    out.write_text(json.dumps({"schema": 1, "machine": described, "rows": rows}, indent=1) + "\n")
    for row in rows:
        sys.stdout.write(f"{row['implementation']:20} {row['median']:10.1f} {row['unit']}\n")


if __name__ == "__main__":
    main()
