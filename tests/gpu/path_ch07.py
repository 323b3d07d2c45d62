"""What each technique from chapter 4 to chapter 7 bought the softmax, one step after the other.

    python tests/gpu/path_ch07.py            # writes $OUT/path_ch07_h200.json (or ./...)

The steps are in path_ch07_steps.py. Beside them what a learner would use instead, and PyTorch's copy.
Each step is compiled for a few numbers of threads a row; the fastest has ``best``. Every kernel is
checked against float64, then all of one row length are timed in turn. Rates count bytes read plus
bytes written.

A row: step, dtype, M, N, gb_s, ratio_to_copy, best; and of the steps threads (of a row, in one block),
block_threads, blocks (of a row), loads (of a thread; of read_twice in a chunk), registers (of a thread),
spilled_bytes (that a thread stores to local memory for want of more) and reloaded_bytes (that it
loads from there), counted in the machine code.

Needs a CUDA GPU of capability 9.0 or higher and about 60 GiB of its memory: a process for each row
length and dtype compiles, all at once; then they take turns on the GPU. Exits with 1 when a kernel
was wrong, or couldn't run: its row is missing then.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cuda.bindings.driver as cuda
import torch
from cutlass.cute.runtime import from_dlpack

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
machine = importlib.import_module("checkers.machine")
steps = importlib.import_module("tests.gpu.path_ch07_steps")
tune = importlib.import_module("tests.gpu.tune_ch07")

Case = tuple[torch.dtype, int]  # and the length of a row
READY_SECONDS = 300  # for all to compile; then the run is given up


def bind(launch: Any, x: torch.Tensor, out: torch.Tensor) -> Callable[[], None]:
    """A compiled launch on these matrices, on the current stream, without arguments."""
    arguments = tuple(from_dlpack(t, assumed_align=16).mark_layout_dynamic(1) for t in (x, out))
    return lambda: launch(arguments, cuda.CUstream(torch.cuda.current_stream().cuda_stream))


def softmax_of(x: torch.Tensor) -> torch.Tensor:
    """What eager runs and torch.compile compiles."""
    return torch.softmax(x, dim=-1)


def peers() -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    """What a learner would use instead; quack only where it is installed."""
    triton = importlib.import_module("solutions.ch02_triton_softmax")
    found = {
        "eager": softmax_of,
        "torch.compile": torch.compile(softmax_of, dynamic=False),
        "triton": triton.tuned_softmax,
    }
    try:
        found["quack"] = importlib.import_module("quack.softmax").softmax_fwd
    except Exception as error:
        left_out("quack", error)
    return found


def left_out(what: object, error: Exception) -> None:
    """Says so, and that the run isn't whole."""
    sys.stderr.write(f"left out: {what}: {error!r:.300}\n")


def compiled(case: Case) -> tuple[dict[Any, Any], dict[Any, dict[str, int]]]:
    """The launches by tile, and what their machine code uses."""
    dtype, N = case
    launches, used = {}, {}
    for tile in steps.tiles(dtype, N):
        try:
            launches[tile] = steps.compiled(tile, dtype)
            used[tile] = steps.usage(launches[tile].artifacts.CUBIN)
        except Exception as error:  # without a disassembler the times are still worth having
            left_out(f"{dtype} {tile}{', its registers' if tile in launches else ''}", error)
    return launches, used


def warmed(case: Case) -> tuple[torch.Tensor, dict[str, Callable]]:
    """x, and the peers, compiled by their first call. Not Triton's: it times its configurations,
    and wants the GPU for itself."""
    dtype, N = case
    x = torch.randn(tune.ELEMENTS // N, N, device="cuda", dtype=dtype)
    able = {}
    for name, softmax in peers().items():
        try:
            if name != "triton":
                softmax(x)
            able[name] = softmax
        except Exception as error:
            left_out(f"{dtype} {N} {name}", error)
    torch.cuda.synchronize()
    return x, able


def check(job: Any, name: object, x: torch.Tensor, result: torch.Tensor) -> None:
    """Raises RuntimeError at a wrong result."""
    torch.cuda.synchronize()
    try:
        tune.check(job, name, (x, result))
    except SystemExit as wrong:  # of a pool's process nobody would hear it
        raise RuntimeError(str(wrong)) from wrong


def times_of(
    job: Any, launches: dict[Any, Any], able: dict[str, Callable], x: torch.Tensor
) -> dict[Any, list[float]]:
    """Milliseconds of all that are right, by tile or name."""
    out = torch.empty_like(x)
    bound: dict[Any, Callable[[], object]] = {"copy": lambda: out.copy_(x)}
    for tile, compiled_launch in launches.items():
        try:
            launch = bind(compiled_launch, x, out)
            out.fill_(float("nan"))
            launch()
            check(job, tile, x, out)
            bound[tile] = launch
        except Exception as error:
            left_out(f"{job} {tile}", error)
    for name, softmax in able.items():
        try:
            check(job, name, x, softmax(x))
            bound[name] = lambda softmax=softmax: softmax(x)
        except Exception as error:
            left_out(f"{job} {name}", error)
    return tune.timed(bound)


def rows_of(
    job: Any, times: dict[Any, list[float]], used: dict[Any, dict[str, int]]
) -> list[dict[str, Any]]:
    """A row for each tile and each peer."""
    rows = []
    for name, milliseconds in times.items():
        gb_s = statistics.median(2 * tune.ELEMENTS * job.dtype.itemsize / t for t in milliseconds)
        ratios = [c / t for c, t in zip(times["copy"], milliseconds, strict=True)]
        row = {
            "step": name if isinstance(name, str) else name.step,
            "dtype": str(job.dtype).removeprefix("torch."),
            "M": job.M,
            "N": job.N,
            "gb_s": round(gb_s / 1e6, 1),
            "ratio_to_copy": round(statistics.median(ratios), 4),
        }
        if not isinstance(name, str):
            row["threads"], row["block_threads"] = name.row_threads, name.block_threads
            row["blocks"], row["loads"] = name.blocks, name.loads or name.steps
            row |= used.get(name, {})
        rows.append(row)
    best: dict[str, dict] = {}
    for row in sorted(rows, key=lambda row: -row["ratio_to_copy"]):
        best.setdefault(row["step"], row)
    return [row | {"best": row is best[row["step"]]} for row in rows]


def measure(case: Case) -> list[dict[str, Any]]:
    """The rows of one row length and dtype: compiled, then timed alone on the GPU; none if it
    can't be done."""
    dtype, N = case
    job = tune.Job("forward", dtype, tune.ELEMENTS // N, N)
    try:
        try:
            launches, used = compiled(case)
            x, able = warmed(case)
        finally:
            READY.wait(READY_SECONDS)
        with TURN:
            times = times_of(job, launches, able, x)
            del x
            torch.cuda.empty_cache()
    except Exception:
        sys.stderr.write(f"left out: {job}\n{traceback.format_exc()}\n")
        return []
    return rows_of(job, times, used)


def start(turn: Any, ready: Any) -> None:
    """Of a process: the lock that lets one at a time onto the GPU, and the barrier before it."""
    global TURN, READY
    TURN, READY = turn, ready


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By dtype, length and step, the fastest of a step first."""
    order = {step: place for place, step in enumerate(steps.STEPS)}

    def place(row: dict[str, Any]) -> tuple:
        step = order.get(row["step"], len(order))
        return row["dtype"], row["N"], step, row["step"], -row["ratio_to_copy"]

    return sorted(rows, key=place)


def table(rows: list[dict[str, Any]]) -> str:
    """A line a dtype and step: at each length the best's ratio to copy, (threads, blocks) of a row, and
    the bytes that a thread spills."""
    best = {(r["dtype"], r["step"], r["N"]): r for r in in_order(rows) if r["best"]}
    lengths = sorted({N for _, _, N in best})
    lines = ["".join([f"{'':24}", *(f"{N:>24}" for N in lengths)])]
    for dtype, step in dict.fromkeys((dtype, step) for dtype, step, _ in best):
        cells = [f"{dtype:10}{step:14}"]
        for N in lengths:
            row = best.get((dtype, step, N))
            shown = "-" if row is None else f"{row['ratio_to_copy']:.3f}"
            if row is not None and "threads" in row:
                shown += f" ({row['threads']}, {row['blocks']}) {row.get('spilled_bytes', '?'):4}"
            cells.append(f"{shown:>24}")
        lines.append("".join(cells))
    return "\n".join(lines)


def main() -> None:
    """All lengths and dtypes, a table, and the file."""
    begin = time.time()
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # a pool's process may have no children
    context = multiprocessing.get_context("spawn")
    cases = [(dtype, N) for N in steps.ROW_THREADS for dtype in steps.DTYPES]
    out = Path(os.environ.get("OUT", ".")) / "path_ch07_h200.json"
    rows: list[dict[str, Any]] = []
    # As many processes as cases: each waits at the barrier with one of them.
    shared = context.Lock(), context.Barrier(len(cases))
    with context.Pool(len(cases), start, shared) as pool:
        for found in pool.imap_unordered(measure, cases, chunksize=1):
            rows += found
            sys.stdout.write(f"{len(found)} rows  [{time.time() - begin:.0f} s]\n")
            sys.stdout.flush()
    rows = in_order(rows)
    described = machine.describe_machine()
    out.write_text(json.dumps({"schema": 1, "machine": described, "rows": rows}, indent=1) + "\n")
    sys.stdout.write(f"\n{table(rows)}\n{time.time() - begin:.0f} s\n")
    wanted = sum(len(steps.tiles(*case)) for case in cases)
    measured = sum("threads" in row for row in rows)
    if measured < wanted:
        raise SystemExit(f"{wanted - measured} kernels are missing: see above")


if __name__ == "__main__":
    main()
