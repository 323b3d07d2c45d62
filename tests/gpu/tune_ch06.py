"""How many threads a row and a block of ch06's softmax want: the measurements behind its tables.

    python tests/gpu/tune_ch06.py            # writes $OUT/tune_ch06.json (or ./tune_ch06.json)

Needs a CUDA GPU of capability 9.0 or higher and 10 GiB of its memory. Every variant is checked
before it is timed, launch by launch in turn with all the others and with PyTorch's copy, the ruler.
The large grid has 2^29 elements; the small one 4096 rows, timed through CUDA graphs of 100 launches.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import cutlass
import cutlass.cute as cute
import torch
from cutlass import Float32

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
machine = importlib.import_module("checkers.machine")
interleaved = importlib.import_module("tests.gpu.interleaved")
solution = importlib.import_module("solutions.ch06_warp_reductions")

ROUNDS = 21
WARM_UP = 3  # rounds
LAUNCHES = 100  # in a graph
SMALL_ROWS = 4096
LARGE = 2**29
LENGTHS = {"large": (256, 512, 1024, 2048, 4096, 8192), "small": (256, 512, 1024)}


def configurations(N: int, itemsize: int) -> Iterator[tuple[int, int]]:
    """(threads a block, threads a row): 1 to 16 vectors of 16 bytes a thread."""
    vectors = N * itemsize // 16
    for row_threads in (8, 16, 32, 64, 128, 256, 512, 1024):
        if row_threads <= vectors <= 16 * row_threads:
            for block_threads in (64, 128, 256, 512, 1024):
                if block_threads >= row_threads:
                    yield block_threads, row_threads


@cute.jit
def two_exchanges(m: Float32, d: Float32, slots: cute.Tensor, warps: cutlass.Constexpr):
    """What ``whole_row`` does, as it is usually written: the maxima, then the sums, and a barrier
    between the last read of a slot and its next write."""
    warp, lane = cute.arch.warp_idx(), cute.arch.lane_idx()
    row, place = warp // warps, warp % warps
    if lane == 0:
        slots[row, place, 0] = m
    cute.arch.barrier()
    largest, total = -Float32.inf, Float32(0.0)
    if lane < warps:
        largest = slots[row, lane, 0]
    row_m = cute.arch.warp_reduction_max(largest)
    origin = Float32(0.0) if row_m == -Float32.inf else row_m
    cute.arch.barrier()
    if lane == 0:
        slots[row, place, 0] = d * cute.math.exp(m - origin, fastmath=True)
    cute.arch.barrier()
    if lane < warps:
        total = slots[row, lane, 0]
    return row_m, cute.arch.warp_reduction_sum(total)


def measure_exchanges(N: int) -> list[dict]:
    """One exchange of pairs against two, with the table's configuration. bfloat16, large grid."""
    x = torch.randn(LARGE // N, N, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(x)
    runs: dict[str, Callable] = {}
    once = solution.whole_row
    try:
        for exchanges, whole_row in ((1, once), (2, two_exchanges)):
            solution.whole_row = whole_row
            solution.compile_softmax.cache_clear()
            runs[str(exchanges)] = launcher(x, out, *solution.TABLE_16_BIT[N])
    finally:
        solution.whole_row = once
        solution.compile_softmax.cache_clear()
    return [
        {
            "name": f"{exchanges} exchange{'s' * (exchanges != '1')}",
            "gb_s": 2 * x.nbytes / statistics.median(each) / 1e6,
            "exchanges": int(exchanges),
            "N": N,
        }
        for exchanges, each in interleaved.timed(runs, ROUNDS, WARM_UP).items()
    ]


def launcher(x: torch.Tensor, out: torch.Tensor, block_threads: int, row_threads: int) -> Callable:
    """Launches one configuration, compiled and checked, on the current stream."""
    vector = solution.widest_vector(x)
    launch = solution.compile_softmax(x.dtype, x.shape[1], vector, block_threads, row_threads)
    mX, mO = solution.as_rows(x, vector), solution.as_rows(out, vector)

    def run() -> None:
        launch(mX, mO, solution.current_stream())

    out.fill_(float("nan"))
    run()
    head = slice(None, 2048)
    tolerance = 1e-5 if x.dtype == torch.float32 else 1e-2
    torch.testing.assert_close(out[head], x[head].softmax(-1), rtol=tolerance, atol=1e-6)
    return run


def measure(grid: str, N: int, dtype: torch.dtype) -> list[dict]:
    """The rows of one length: the ruler and every configuration."""
    M = LARGE // N if grid == "large" else SMALL_ROWS
    x = torch.randn(M, N, device="cuda", dtype=dtype)
    out = torch.empty_like(x)
    runs: dict[str, Callable] = {"ruler": lambda: out.copy_(x)}
    about: dict[str, dict] = {"ruler": {}}
    for block_threads, row_threads in configurations(N, dtype.itemsize):
        name = f"{block_threads} threads a block, {row_threads} a row"
        runs[name] = launcher(x, out, block_threads, row_threads)
        about[name] = {"block_threads": block_threads, "row_threads": row_threads}
    if grid == "small":
        runs = {name: interleaved.graphed(run, LAUNCHES) for name, run in runs.items()}
    times = interleaved.timed(runs, ROUNDS, WARM_UP)
    moved = 2 * x.nbytes * (LAUNCHES if grid == "small" else 1)
    rows = []
    for name, each in times.items():
        ratio = statistics.median(r / t for r, t in zip(times["ruler"], each, strict=True))
        rows.append(
            {
                "name": name,
                "gb_s": moved / statistics.median(each) / 1e6,
                "ratio_to_ruler": ratio,
                "grid": grid,
                "dtype": str(dtype).removeprefix("torch."),
                "M": M,
                "N": N,
                **about[name],
            }
        )
    return rows


def main() -> None:
    """Measures all lengths, prints the best of each, and writes all rows after each of them."""
    out = Path(os.environ.get("OUT", ".")) / "tune_ch06.json"
    described = machine.describe_machine()
    rows = [row for N in (2048, 8192) for row in measure_exchanges(N)]
    sys.stdout.write("".join(f"N={r['N']}, {r['name']}: {r['gb_s']:.0f}\n" for r in rows))
    for grid, lengths in LENGTHS.items():
        for dtype in (torch.bfloat16, torch.float32):
            for N in lengths:
                found = measure(grid, N, dtype)
                rows += found
                best = sorted(found, key=lambda row: -row["gb_s"])[:6]
                said = "; ".join(f"{row['gb_s']:.0f} {row['name']}" for row in best)
                sys.stdout.write(f"{grid} {dtype} N={N}: {said}\n")
                sys.stdout.flush()
                data = {"schema": 1, "machine": described, "rows": rows}
                out.write_text(json.dumps(data, indent=1) + "\n")
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
