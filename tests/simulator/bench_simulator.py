"""How fast the simulator is: docs/data/simulator_speed.json.

    python -m tests.simulator.bench_simulator [--out FILE]

Measures the checks of ch02 and ch04, a GEMM tile, a softmax, and how time grows with threads and with
instructions. It is a script and no test: a slow machine is no fault. Rows are as docs/data has
them: {"implementation": "simulator", "case": {"measured": ..., ...}, "unit": "s", "median": ...,
"samples": n}, with further numbers beside them. Memory is the peak of this process, workers of the
grader not included.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from checkers import answers, machine
from checkers.course import Course
from checkers.exercise import Verdict
from checkers.grading.grader import Grader
from checkers.simulator.launch import simulating
from tests.simulator.harness import run_ptx

ROOT = Path(__file__).parents[2]
OUT = ROOT / "docs" / "data" / "simulator_speed.json"
SAMPLES = 3
CHAPTERS = ("ch02", "ch04")

# Multiplies and adds in a loop: 5 instructions a round.
LOOP = """
    mov.u32 %r0, 0; mov.u32 %r1, %tid.x;
AGAIN:
    mad.lo.u32 %r1, %r1, 3, 1; add.u32 %r0, %r0, 1; xor.b32 %r1, %r1, %r0;
    setp.lt.u32 %p0, %r0, %rounds; @%p0 bra AGAIN;
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
    mad.lo.u32 %r2, %r2, %r3, %r4; mad.wide.u32 %rd0, %r2, 4, %out; st.global.b32 [%rd0], %r1;
"""
ROUND = 5


def row(
    measured: str, seconds: list[float], case: dict[str, Any] | None = None, **more: Any
) -> dict:
    """A row of the file."""
    return {
        "implementation": "simulator",
        "case": {"measured": measured, **(case or {})},
        "unit": "s",
        "median": round(statistics.median(seconds), 4),
        "samples": len(seconds),
        **more,
    }


def timed(call: Callable[[], Any], samples: int = SAMPLES) -> list[float]:
    """Seconds of each of ``samples`` calls, after one that compiles."""
    call()
    seconds = []
    for _ in range(samples):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return seconds


def checks() -> Iterator[dict]:
    """A whole ``ladder check`` of each reference solution, workers warm."""
    course = Course(ROOT)
    with Grader(course) as grader:
        for exercise in course.select(CHAPTERS):
            answer = answers.from_solution(course, exercise.id)
            seconds, runs = [], []
            for _ in range(1 + SAMPLES):
                began = time.perf_counter()
                report = grader.grade(exercise, answer, "simulator", seed=1)
                seconds.append(time.perf_counter() - began)
                assert report.verdict is Verdict.PASS, report
                runs.append(next(s.seconds for s in report.stages if s.name == "run"))
            yield row(
                "check",
                seconds[1:],
                {"exercise": exercise.id},
                run_stage=round(statistics.median(runs[1:]), 3),
            )


def softmax() -> dict:
    """Chapter 2's one row a program, 8 rows of 8192."""
    solution = importlib.import_module("solutions.ch02_triton_softmax")
    with simulating("h200"):
        x = torch.randn(8, 8192, device="cuda")
        return row("softmax", timed(lambda: solution.row_softmax(x)), {"rows": 8, "columns": 8192})


def threads() -> Iterator[dict]:
    """A copy of more and more tiles: the same instructions, more threads."""
    for blocks in (1, 4, 16, 64, 256, 1024):
        out = np.zeros(blocks * 256, np.uint32)
        seconds = timed(lambda b=blocks, o=out: run_ptx(LOOP, grid=b, block=256, out=o, rounds=20))
        yield row("threads", seconds, {"threads": blocks * 256, "instructions": 20 * ROUND})


def instructions() -> Iterator[dict]:
    """One block that runs a loop for longer and longer."""
    for rounds in (10, 100, 1000, 10_000):
        out = np.zeros(256, np.uint32)
        seconds = timed(lambda r=rounds, o=out: run_ptx(LOOP, block=256, out=o, rounds=r))
        yield row("instructions", seconds, {"threads": 256, "instructions": rounds * ROUND})


def gemm() -> Iterator[dict]:
    """A 128x256x128 tile with TMA and wgmma."""
    kernel = importlib.import_module("tests.simulator.gemm_tile")
    with simulating("h200"):
        call = kernel.prepared(128, 256, 128)
        yield row("gemm", timed(call), {"M": 128, "N": 256, "K": 128})


def measure() -> dict[str, Any]:
    rows = [softmax(), *gemm(), *threads(), *instructions()]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows.append(
        {
            "implementation": "simulator",
            "case": {"measured": "memory"},
            "unit": "MiB",
            "median": round(peak / 1024),
            "samples": 1,
        }
    )
    rows += checks()
    return {"schema": 1, "machine": described(), "rows": rows}


def described() -> dict[str, Any]:
    """The machine, with its CPU in the place of the GPU."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].partition(":")[2].strip() if names else cpu
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found = {key: value for key, value in machine.describe_machine().items() if value is not None}
    return found | {"gpu": f"no GPU, {cores} cores of {cpu}", "numpy": np.__version__}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=OUT)
    out = parser.parse_args().out
    data = measure()
    out.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    for each in data["rows"]:
        print(each["case"], each["median"], each["unit"])


if __name__ == "__main__":
    main()
