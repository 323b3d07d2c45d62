"""What the GPU counted while a chapter's kernels ran: Nsight Compute over launches with names.

    python tests/gpu/profile_launches.py ch05 ch07

Writes profile_ch05_h200.json ... to $OUT, or to docs/data. Needs a GPU of capability 9.0 or higher,
16 GiB of its memory, and ncu on the PATH. ncu runs this script again, as the program it watches.
That one makes each call once, to compile, and once more for ncu: between start and stop of the
profiler, in an NVTX range with the call's number. ncu empties the caches before each kernel, runs
it once for each group of counters, and leaves the clocks alone. Its own table stays in $OUT, or in
the folder for temporary files, as profile_ch05_ncu.csv.

A row is a call: name, N, dtype, tiles_per_block, as far as they apply, kernel, kernels (how many it
launched), and FIELDS. The script is not called profile.py, for torch.compile imports the library's.
"""

from __future__ import annotations

import argparse
import csv
import functools
import importlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
machine = importlib.import_module("checkers.machine")

RANGE = "ladder-call-"  # of NVTX, followed by the call's number
SILU_SHAPE = (2**16, 2**12)  # of float32: 1 GiB
Labels = dict[str, Any]


class ProfileError(RuntimeError):
    """ncu is missing, failed, or answered something else than it was asked for."""


# --- what is counted -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """One number of a row: metrics of ncu, in ns or bytes, added up, times scale. over: of several
    kernels their "total", their "mean" by time, or what the "longest" kernel has."""

    name: str
    metrics: tuple[str, ...]
    over: str = "longest"
    scale: float = 1.0
    digits: int = 0


TIME = "gpu__time_duration.sum"
READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
PEAK = ".pct_of_peak_sustained_elapsed"
LOCAL = "l1tex__t_sectors_pipe_lsu_mem_local_op_"
SHARED = "launch__shared_mem_per_block_"
FIELDS = (
    Field("time_us", (TIME,), "total", 1e-3, 2),
    Field("dram_gb_read", (READ,), "total", 1e-9, 4),
    Field("dram_gb_written", (WRITTEN,), "total", 1e-9, 4),
    Field("dram_percent", (READ + PEAK, WRITTEN + PEAK), "mean", digits=2),
    Field("l2_hit_percent", ("lts__t_sector_hit_rate.pct",), digits=2),
    Field("sm_cycles_active_min", ("sm__cycles_active.min",)),
    Field("sm_cycles_active_avg", ("sm__cycles_active.avg",)),
    Field("sm_cycles_active_max", ("sm__cycles_active.max",)),
    Field("occupancy_percent", ("sm__warps_active.avg.pct_of_peak_sustained_active",), digits=2),
    Field("registers", ("launch__registers_per_thread",)),
    Field("shared_bytes", (SHARED + "static", SHARED + "dynamic")),  # without the driver's KiB
    Field("local_bytes", (LOCAL + "ld.sum", LOCAL + "st.sum"), "total", 32),  # sectors of 32 bytes
    Field("blocks", ("launch__grid_size",)),
    Field("threads", ("launch__block_size",)),
    Field("cluster", ("launch__cluster_size",)),  # blocks; ncu's 0 becomes 1
)
METRICS = tuple(metric for field in FIELDS for metric in field.metrics)


# --- what is launched, in the program that ncu watches -------------------------------------------


@dataclass(frozen=True)
class Call:
    """labels: what its row says of it. optional: left out, with a message, where it raises."""

    labels: Labels
    function: Callable[[], object]
    optional: bool = False


def silu_blocks(
    solution: Any, most_blocks: Callable[[str, int, int], int], sms: int
) -> Iterator[tuple[str, int | None, Labels]]:
    """What chapter 5 runs: a function's name, its ``blocks``, and labels."""
    yield "direct_silu", None, {"name": "direct_silu", "dtype": "float32", "tiles_per_block": 1}
    each = solution.TILES_PER_BLOCK
    for kernel, tile, stages in (
        ("pipelined", solution.THREADS * solution.VECTORS * 16, solution.STAGES),
        ("bulk", solution.BULK_BYTES, 1),
        ("ring", solution.RING_ROWS * solution.RING_ROW_BYTES, solution.RING_STAGES),
    ):
        for form, blocks, more in (
            ("persistent", sms * most_blocks(kernel, tile, stages), {}),
            (f"{each} tiles a block", None, {"tiles_per_block": each}),
            ("a block a tile", 4 * math.prod(SILU_SHAPE) // tile, {"tiles_per_block": 1}),
        ):
            labels = {"name": f"{kernel}_silu {form}", "dtype": "float32", **more}
            yield f"{kernel}_silu", blocks, labels


def calls_of_ch05() -> Iterator[Call]:
    """silu without shared memory, and three times with it, each with few, some and many blocks."""
    solution = importlib.import_module("solutions.ch05_async_copies")
    sys.path.insert(0, str(Path(__file__).parent))
    most_blocks = importlib.import_module("tune_ch05").most_blocks
    sms = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
    x = torch.randn(SILU_SHAPE, device="cuda")
    for name, blocks, labels in silu_blocks(solution, most_blocks, sms):
        yield Call(labels, functools.partial(getattr(solution, name), x, blocks=blocks))


# What chapter 7 runs: direction, dtype, N, and whether its peers run too.
SOFTMAX_CASES = (
    *(("forward", "bfloat16", N, True) for N in (1024, 8192, 32768, 131072, 262144)),
    ("forward", "float32", 262144, False),
    *(("backward", "bfloat16", N, False) for N in (16384, 262144)),
)


def calls_of_ch07() -> Iterator[Call]:
    """Softmax by all that the chapter's speed table compares, on what it gives them."""
    chapter = importlib.import_module("checkers.chapters.ch07_cluster_reductions")
    functions = {}
    for implementation in chapter.BENCH.implementations:
        try:
            functions[implementation.name] = implementation.load()
        except ImportError as error:
            sys.stderr.write(f"{implementation.name} is left out: {error}\n")
    for op, dtype, N, peers in SOFTMAX_CASES:
        case = chapter.bench_case(op, chapter.given.ELEMENTS // N, N, dtype)
        operands = chapter.bench_input(case, torch.Generator("cuda").manual_seed(0))
        for name, function in functions.items():
            if peers or name == "solution":
                labels = {"name": name + " backward" * (op == "backward"), "N": N, "dtype": dtype}
                run = functools.partial(function, *operands)
                yield Call(labels, run, optional=name == "quack")
        torch.cuda.empty_cache()  # ncu keeps a copy of what a kernel may write


CALLS: dict[str, Callable[[], Iterator[Call]]] = {"ch05": calls_of_ch05, "ch07": calls_of_ch07}


def launch(calls: Iterable[Call]) -> list[Labels]:
    """Makes each call twice, the second time for ncu. Returns the labels by the calls' numbers."""
    labels: list[Labels] = []
    for call in calls:
        try:
            call.function()  # compiles, tunes, and leaves its output's memory to the next call
        except Exception as error:
            if not call.optional:
                raise
            sys.stderr.write(f"{call.labels} is left out: {error!r:.200}\n")
            continue
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        torch.cuda.nvtx.range_push(f"{RANGE}{len(labels)}")
        call.function()
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()
        torch.cuda.profiler.stop()
        labels.append(call.labels)
    return labels


# --- what ncu says of it -------------------------------------------------------------------------


@dataclass(frozen=True)
class Launch:
    """A line of ncu's table. call: the number in its NVTX range. values: by metric, in bytes and
    nanoseconds, None where ncu has none."""

    call: int
    kernel: str
    values: dict[str, float | None]


UNITS = {"Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
UNITS |= {"us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}


def in_base_unit(cell: str, unit: str) -> float | None:
    """A number in bytes, nanoseconds, or what else it counts; None for what is none, as "n/a"."""
    try:
        value = float(cell.replace(",", ""))
    except ValueError:
        return None
    return value * UNITS.get(unit.split("/")[0], 1.0) if math.isfinite(value) else None


def short_name(kernel: str) -> str:
    """A kernel's function, without its namespaces, types and arguments."""
    name = re.sub(r"^void |\(anonymous namespace\)::|<unnamed>::", "", kernel)
    name = re.split(r"[<(]", name)[0].split("::")[-1].strip()
    if name.startswith("kernel_cutlass_"):  # CuTe DSL appends the arguments' types
        name = re.split(r"_(?:object_at|tensor|CopyAtom|TiledCopy|\d+$)", name)[0]
    return name.removeprefix("kernel_cutlass_")


def read_raw_page(text: str) -> list[Launch]:
    """ncu's raw page as CSV: names, a line of units, a line a kernel; around it lines with ==."""
    table = list(csv.reader(line for line in text.splitlines() if not line.startswith("==")))
    begin = next((i for i, cells in enumerate(table) if {"ID", "Kernel Name"} <= {*cells}), None)
    if begin is None:
        raise ProfileError(f"ncu gave no table of kernels. It said: {complaints(text)}")
    names, lines = table[begin], table[begin + 1 :]
    missing = [metric for metric in METRICS if metric not in names]
    if missing:
        raise ProfileError(f"ncu's table lacks {', '.join(missing)}")
    units = dict.fromkeys(names, "")
    launches = []
    for cells in lines:
        if len(cells) != len(names):
            continue
        row = dict(zip(names, cells, strict=True))
        if not row["ID"]:
            units = row
            continue
        ranges = " ".join(cell for name, cell in row.items() if "Range" in name)
        call = re.search(rf"{RANGE}(\d+)", ranges)
        if call is None:
            raise ProfileError(f"ncu's table has no NVTX range for {row['Kernel Name']}")
        values = {metric: in_base_unit(row[metric], units[metric]) for metric in METRICS}
        launches.append(Launch(int(call[1]), short_name(row["Kernel Name"]), values))
    return launches


def complaints(text: str) -> str:
    """What ncu says went wrong, in its own words."""
    found = [line for line in text.splitlines() if re.match(r"==(ERROR|WARNING)==", line)]
    return " ".join(found) or "nothing"


def rows_of(labels: list[Labels], launches: list[Launch]) -> list[dict[str, Any]]:
    """A row for each call."""
    rows = []
    for index, label in enumerate(labels):
        mine = [launch for launch in launches if launch.call == index]
        if not mine:
            raise ProfileError(f"ncu saw no kernel in the call {label}")
        if any(launch.values[TIME] is None for launch in mine):
            raise ProfileError(f"ncu has no {TIME} for the call {label}")
        longest = max(mine, key=lambda launch: launch.values[TIME])
        row = {**label, "kernel": longest.kernel, "kernels": len(mine)}
        for field in FIELDS:
            value = over_kernels(field, mine, longest)
            row[field.name] = None if value is None else round(value, field.digits or None)
        row["cluster"] = row["cluster"] or 1
        rows.append(row)
    return rows


def over_kernels(field: Field, launches: list[Launch], longest: Launch) -> float | None:
    """One number for all kernels of a call, as the field asks."""
    asked = [longest] if field.over == "longest" else launches
    weights = [launch.values[TIME] if field.over == "mean" else 1.0 for launch in asked]
    total = 0.0
    for launch, weight in zip(asked, weights, strict=True):
        for metric in field.metrics:
            if launch.values[metric] is None:
                return None
            total += field.scale * launch.values[metric] * weight
    return total / sum(weights) if field.over == "mean" else total


# --- the command ---------------------------------------------------------------------------------


def ncu_command(ncu: str, chapter: str, labels: Path, table: Path) -> list[str]:
    """ncu over this script."""
    options = "--csv --page raw --print-units base --clock-control none --nvtx"
    options += " --profile-from-start off --target-processes application-only"
    counted = ["--metrics", ",".join(METRICS), "--log-file", str(table)]
    watched = [sys.executable, str(Path(__file__).resolve()), chapter, "--labels", str(labels)]
    return [ncu, *options.split(), *counted, *watched]


def profile(chapter: str, folder: Path) -> list[dict[str, Any]]:
    """Runs ncu over a chapter's calls. folder: where its table and the calls' labels are kept."""
    ncu = shutil.which("ncu")
    if ncu is None:
        raise ProfileError("ncu is not on the PATH: install Nsight Compute, or the CUDA toolkit")
    labels, table = folder / f"profile_{chapter}_calls.json", folder / f"profile_{chapter}_ncu.csv"
    for old in (labels, table):
        old.unlink(missing_ok=True)
    # Inductor's compiling processes would be of no use to a handful of kernels.
    alone = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    done = subprocess.run(ncu_command(ncu, chapter, labels, table), env=alone)
    text = table.read_text() if table.exists() else ""
    if done.returncode or not labels.exists():
        failed = f"ncu over the launches of {chapter} ended with status {done.returncode}"
        raise ProfileError(f"{failed}. It said: {complaints(text)}")
    return rows_of(json.loads(labels.read_text()), read_raw_page(text))


def line_of(row: dict[str, Any]) -> str:
    """A row for the eye."""
    shown = ("kernels", "time_us", "dram_gb_read", "dram_gb_written", "dram_percent", "local_bytes")
    name = f"{row['name']} {row['dtype']} {row.get('N', '')}"
    return f"{name:40} " + "  ".join(f"{key} {row[key]}" for key in shown) + "\n"


def main() -> None:
    """Profiles the chapters and writes a file for each; or is what ncu watches."""
    begin = time.time()
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("chapters", nargs="+", choices=sorted(CALLS))
    parser.add_argument("--labels", type=Path, help="for ncu: make the calls, write their labels")
    arguments = parser.parse_args()
    if arguments.labels:
        labels = launch(CALLS[arguments.chapters[0]]())
        arguments.labels.write_text(json.dumps(labels))
        return
    out = os.environ.get("OUT")
    for chapter in arguments.chapters:
        try:
            rows = profile(chapter, Path(out or tempfile.gettempdir()))
        except ProfileError as error:
            sys.exit(str(error))
        written = {"schema": 1, "machine": machine.describe_machine(), "rows": rows}
        file = Path(out or ROOT / "docs" / "data") / f"profile_{chapter}_h200.json"
        file.write_text(json.dumps(written, indent=1) + "\n")
        sys.stdout.write("".join(map(line_of, rows)) + f"[{time.time() - begin:.0f} s]\n")


if __name__ == "__main__":
    main()
