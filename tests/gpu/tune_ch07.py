"""Which threads and blocks share a row: the measurements behind ch07's table of tiles.

    python tests/gpu/tune_ch07.py            # writes $OUT/tune_ch07_h200.json (or ./...)

Needs a CUDA GPU of capability 9.0 or higher and about 8 GiB of its memory. Processes compile side
by side and take turns on the GPU. Each tile is checked, then timed in turn with all the others of its
row length, with PyTorch's copy and with quack, if that is installed. Rates count bytes read plus
bytes written. Small grids are timed in CUDA graphs.
"""

from __future__ import annotations

import functools
import importlib
import json
import math
import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass import Float32
from cutlass.cute.runtime import from_dlpack

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
machine = importlib.import_module("checkers.machine")
interleaved = importlib.import_module("tests.gpu.interleaved")
solution = importlib.import_module("solutions.ch07_cluster_reductions")

ELEMENTS = 2**29
SMALL_ROWS = 4096
ROUNDS = 15
LAUNCHES = 50  # of a graph
PROCESSES = 12
Tiling = tuple[int, int, int]  # threads a block, threads a row, blocks a row


@dataclass(frozen=True)
class Job:
    """One row length in one dtype. op: "forward", "small_grid" or "backward"."""

    op: str
    dtype: torch.dtype
    M: int
    N: int

    @property
    def tensors(self) -> int:
        return 3 if self.op == "backward" else 2

    def tile(self, tiling: Tiling) -> Any:
        return solution.Tile(self.N, 16 // self.dtype.itemsize, *tiling)


def jobs() -> Iterator[Job]:
    """All that are measured, the longest to compile first."""
    for power in range(18, 5, -1):
        for op in ("backward", "forward"):
            for dtype in (torch.bfloat16, torch.float32):
                yield Job(op, dtype, ELEMENTS >> power, 1 << power)
    for N in (256, 512, 1024):
        for dtype in (torch.bfloat16, torch.float32):
            yield Job("small_grid", dtype, SMALL_ROWS, N)


def tilings(job: Job) -> list[Tiling]:
    """The table's choice and what is tried beside it: up to 64 elements a thread (half of that
    backward), and a quarter of it at least in long rows; a block of a cluster has 8192 or more;
    several rows of many warps in a block where that was seen to help."""
    vector, most = 16 // job.dtype.itemsize, 64 if job.op != "backward" else 32
    least = vector if job.N <= 2048 else max(vector, most // 4)
    found = [chosen_tiling(job)]
    for blocks in (1, 2, 4, 8, 16):
        if blocks > 1 and job.N // blocks < 8192:
            continue
        for row_threads in (8, 16, 32, 64, 128, 256, 512, 1024):
            if least <= job.N // (row_threads * blocks) <= most:
                sizes = {row_threads} if row_threads >= 128 else {64, 128}
                if job.op == "forward" and 1024 <= job.N <= 8192:
                    sizes |= {size for size in (512, 1024) if size >= row_threads}
                found += [(size, row_threads, blocks) for size in sorted(sizes)]
    return list(dict.fromkeys(found))


def chosen_tiling(job: Job) -> Tiling:
    """The table's."""
    entry = next(tiles for longest, tiles in solution.TILES.items() if job.N <= longest)
    return entry[2 * (job.op == "backward") + (job.dtype.itemsize == 4)]


LOG2_E = math.log2(math.e)


@cute.jit
def fused_pair(x: cute.TensorSSA, tile: cutlass.Constexpr):
    """warp_pair with one multiply-add in place of a subtraction and a product. It overflows where
    |m| is more than 2.3e38, so the solution doesn't have it."""
    lanes = min(tile.row_threads, 32)
    m = x.reduce(cute.ReductionOp.MAX, -Float32.inf, 0)
    m = cute.arch.warp_reduction_max(m, threads_in_group=lanes)
    shift = Float32(0.0) if m == -Float32.inf else m * LOG2_E
    e = cute.math.exp2(x * LOG2_E - shift, fastmath=True)
    d = e.reduce(cute.ReductionOp.ADD, Float32(0.0), 0)
    return e, m, cute.arch.warp_reduction_sum(d, threads_in_group=lanes)


@cute.jit
def launch_in_clusters(
    kernel: cutlass.Constexpr, tensors, stream: cuda.CUstream, tile: cutlass.Constexpr
):
    """launch, with a cluster also where it has one block."""
    kernel(*tensors, tile).launch(
        grid=(cute.ceil_div(tensors[0].shape[0], tile.rows), tile.blocks, 1),
        block=(tile.block_threads, 1, 1),
        cluster=(1, tile.blocks, 1),
        stream=stream,
    )


def load_past_the_l1(tile, atom, tXgX: cute.Tensor, tXpX: cute.Tensor, padding: float):
    """load, its lines not kept in the L1 cache: no one reads them twice."""
    atom = cute.make_copy_atom(
        cute.nvgpu.CopyG2ROp(),
        tXgX.element_type,
        num_bits_per_copy=tile.vector * tXgX.element_type.width,
        l1c_evict_priority=cute.nvgpu.CacheEvictionPriority.NO_ALLOCATE,
    )
    return OWN_LOAD(tile, atom, tXgX, tXpX, padding)


def store_streaming(atom, values: cute.TensorSSA, tXgO: cute.Tensor, tXpX: cute.Tensor):
    """store, marked as not read soon (st.global.cs)."""
    streaming = cute.make_copy_atom(
        cute.nvgpu.CopyR2GOp(),
        tXgO.element_type,
        num_bits_per_copy=128,
        store_cache_mode=cute.nvgpu.StoreCacheMode.STREAMING,
    )
    OWN_STORE(streaming, values, tXgO, tXpX)


OWN_LOAD, OWN_STORE = solution.load, solution.store
# What is done in another way than in the solution: which of its functions, and by which.
REPLACED: dict[str, tuple[str, Callable]] = {
    "fused": ("warp_pair", fused_pair),
    "cluster_of_1": ("launch", launch_in_clusters),
    "no_allocate": ("load", load_past_the_l1),
    "streaming": ("store", store_streaming),
}


def variants(job: Job) -> list[tuple[Tiling, str]]:
    """What is measured beside the tiles: the ways of REPLACED."""
    chosen = chosen_tiling(job)
    if job.op == "small_grid":
        return [(chosen, "cluster_of_1")]
    if job.op == "forward" and job.N in (1024, 16384, 65536, 262144):
        return [(chosen, way) for way in ("fused", "no_allocate", "streaming")]
    return []


@functools.cache
def compiled_kernel(job: Job, tiling: Tiling, variant: str) -> Callable:
    """The solution's kernel in one of its forms. It is traced with what its module has then."""
    kernel = solution.backward_kernel if job.op == "backward" else solution.softmax_kernel
    forms = ((job.dtype, 16),) * job.tensors
    tile = job.tile(tiling)
    if variant not in REPLACED:
        return solution.compile_kernel(kernel, tile, forms)
    name, other = REPLACED[variant]
    own = getattr(solution, name)
    setattr(solution, name, other)
    try:
        return solution.compile_kernel.__wrapped__(kernel, tile, forms)
    finally:
        setattr(solution, name, own)


def bind(
    job: Job, tiling: Tiling, variant: str, tensors: tuple[torch.Tensor, ...]
) -> Callable[[], None]:
    """A compiled launch on these tensors, without arguments."""
    compiled = compiled_kernel(job, tiling, variant)
    arguments = tuple(from_dlpack(t, assumed_align=16).mark_layout_dynamic(1) for t in tensors)

    def launch() -> None:
        compiled(arguments, cuda.CUstream(torch.cuda.current_stream().cuda_stream))

    return launch


timed = functools.partial(interleaved.timed, rounds=ROUNDS)


def check(job: Job, tiling: Tiling, tensors: tuple[torch.Tensor, ...]) -> None:
    """Stops at a wrong tile: it is not worth timing. The first and the last rows are compared."""
    some = max(1, min(job.M // 2, 2**20 // job.N))
    for rows in (slice(0, some), slice(job.M - some, job.M)):
        wide = [tensor[rows].double() for tensor in tensors]
        if job.op == "backward":
            y, dy, got = wide
            want = y * (dy - (y * dy).sum(-1, keepdim=True))
        else:
            x, got = wide
            want = x.softmax(-1)
        error = (got - want).abs().amax(-1) / want.abs().amax(-1)
        if not error.max() < 4 * torch.finfo(job.dtype).eps + 1e-6 * job.N**0.5:
            raise SystemExit(f"WRONG: {job} {tiling}: {error.max().item()}")


def peers(job: Job, tensors: tuple[torch.Tensor, ...]) -> dict[str, Callable[[], object]]:
    """PyTorch's copy, which moves two tensors, and quack."""
    launches: dict[str, Callable[[], object]] = {"copy": lambda: tensors[-1].copy_(tensors[0])}
    try:
        quack = importlib.import_module("quack.softmax")
        if job.op == "backward":
            launches["quack"] = lambda: quack.softmax_bwd(tensors[1], tensors[0])
        else:
            launches["quack"] = lambda: quack.softmax_fwd(tensors[0])
        launches["quack"]()
    except Exception as error:  # not installed, or not made for this length
        sys.stderr.write(f"quack is left out at {job}: {error!r:.150}\n")
        launches.pop("quack", None)
    return launches


def inputs(job: Job) -> tuple[torch.Tensor, ...]:
    """x, or y and dy, and an output."""
    tensors = [torch.randn(job.M, job.N, device="cuda", dtype=job.dtype) for _ in range(2)]
    if job.op == "backward":
        for part in tensors[0].split(max(1, 2**25 // job.N)):
            part.copy_(part.softmax(-1))
        tensors.append(torch.empty_like(tensors[0]))
    tensors[-1].fill_(float("nan"))
    return tuple(tensors)


def measure(job: Job) -> list[dict[str, Any]]:
    """Compile, then, alone on the GPU, check and time."""
    tried = [(tiling, "") for tiling in tilings(job)]
    tried += variants(job)
    names = {}
    for tiling, variant in tried:
        try:
            compiled_kernel(job, tiling, variant)
            names[f"{tiling} {variant}".strip()] = tiling, variant
        except Exception as error:
            sys.stderr.write(f"{job} {tiling} {variant} does not compile: {error!r:.150}\n")
    with TURN:
        tensors = inputs(job)
        launches = {}
        for name, (tiling, variant) in names.items():
            launch = bind(job, tiling, variant, tensors)
            tensors[-1].fill_(float("nan"))
            launch()
            check(job, tiling, tensors)
            launches[name] = launch
        launches |= peers(job, tensors)
        small_grid = job.op == "small_grid"
        repeated = LAUNCHES if small_grid else 1
        if small_grid:
            launches = {n: interleaved.graphed(f, LAUNCHES) for n, f in launches.items()}
        times = timed(launches)
        moved = {name: job.tensors * tensors[0].nbytes * repeated for name in times}
        moved["copy"] = 2 * tensors[0].nbytes * repeated
        del tensors, launches, launch
        torch.cuda.empty_cache()
    copy = [moved["copy"] / t for t in times["copy"]]
    rows = []
    for name, milliseconds in times.items():
        rates = [moved[name] / t for t in milliseconds]
        row = {
            "op": job.op,
            "dtype": str(job.dtype).removeprefix("torch."),
            "M": job.M,
            "N": job.N,
            "name": (names[name][1] or "tile") if name in names else name,
            "gb_s": round(statistics.median(rates) / 1e6, 1),
            "ratio_to_copy": round(
                statistics.median(a / b for a, b in zip(rates, copy, strict=True)), 4
            ),
            "chosen": names.get(name) == (chosen_tiling(job), ""),
        }
        if name in names:
            keys = ("block_threads", "row_threads", "blocks")
            row |= dict(zip(keys, names[name][0], strict=True))
        rows.append(row)
    best = max((row for row in rows if row["name"] == "tile"), key=lambda row: row["ratio_to_copy"])
    return [row | {"best": row is best} for row in rows]


def start(turn: Any) -> None:
    """Of a process: its context, and the lock that lets one at a time onto the GPU."""
    global TURN
    TURN = turn
    torch.zeros(1, device="cuda")


def table(rows: list[dict[str, Any]]) -> str:
    """A line for each job: the ratios to copy, best first."""
    lines = []
    for key in dict.fromkeys((row["op"], row["dtype"], row["N"]) for row in rows):
        mine = [row for row in rows if (row["op"], row["dtype"], row["N"]) == key]
        mine.sort(key=lambda row: -row["ratio_to_copy"])
        shown = []
        for row in mine[:6] + [row for row in mine[6:] if row["name"] != "tile" or row["chosen"]]:
            tile = row["name"]
            if "blocks" in row:
                tile = f"({row['block_threads']}, {row['row_threads']}, {row['blocks']})"
                tile += f" {row['name']}" * (row["name"] != "tile")
            shown.append(f"{'*' if row['chosen'] else ''}{tile} {row['ratio_to_copy']:.3f}")
        lines.append(f"{key[0]:10} {key[1]:8} {key[2]:6}  {'  '.join(shown)}")
    return "\n".join(lines)


def main() -> None:
    """All jobs, a table on the way, and the file."""
    begin = time.time()
    context = multiprocessing.get_context("spawn")
    rows: list[dict[str, Any]] = []
    out = Path(os.environ.get("OUT", ".")) / "tune_ch07_h200.json"
    with context.Pool(PROCESSES, start, (context.Lock(),)) as pool:
        for found in pool.imap_unordered(measure, jobs(), chunksize=1):
            rows += found
            sys.stdout.write(f"{table(found)}  [{time.time() - begin:.0f} s]\n")
            sys.stdout.flush()
    rows.sort(key=lambda row: (row["op"], row["dtype"], row["N"], -row["ratio_to_copy"]))
    described = machine.describe_machine()
    out.write_text(json.dumps({"schema": 1, "machine": described, "rows": rows}, indent=1) + "\n")
    sys.stdout.write(f"\n{table(rows)}\n{time.time() - begin:.0f} s\n")


if __name__ == "__main__":
    main()
