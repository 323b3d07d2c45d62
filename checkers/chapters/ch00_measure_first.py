"""Chapter 0, measure first: cases, oracles, hints and known mistakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from checkers.chapters.parts import ch00_mistakes
from checkers.exercise import Bench, Case, Exercise, Rung, Tolerance

# --- bytes_moved -------------------------------------------------------------------------------

M, N = 1024, 4096
ROWS, MATRIX = M, M * N

# name -> (steps as (reads, writes), arrays as name -> (elements, itemsize), results)
PROGRAMS: dict[str, tuple] = {
    "copy": ([(("x",), "y")], {"x": (MATRIX, 2), "y": (MATRIX, 2)}, ("y",)),
    "chain": (
        [(("x",), "scaled"), (("scaled",), "shifted"), (("shifted",), "y")],
        {name: (MATRIX, 2) for name in ("x", "scaled", "shifted", "y")},
        ("y",),
    ),
    "scale_and_add": (
        [(("x",), "scaled"), (("scaled", "residual"), "y")],
        {name: (MATRIX, 2) for name in ("x", "scaled", "residual", "y")},
        ("y",),
    ),
    "softmax": (
        [
            (("x",), "wide"),
            (("wide",), "row_max"),
            (("wide", "row_max"), "shifted"),
            (("shifted",), "numerator"),
            (("numerator",), "row_sum"),
            (("numerator", "row_sum"), "quotient"),
            (("quotient",), "y"),
        ],
        {
            "x": (MATRIX, 2),
            "y": (MATRIX, 2),
            "row_max": (ROWS, 4),
            "row_sum": (ROWS, 4),
            **{name: (MATRIX, 4) for name in ("wide", "shifted", "numerator", "quotient")},
        },
        ("y",),
    ),
    "softmax_16_bit": (
        [
            (("x",), "row_max"),
            (("x", "row_max"), "numerator"),
            (("numerator",), "row_sum"),
            (("numerator", "row_sum"), "y"),
        ],
        {
            **{name: (MATRIX, 2) for name in ("x", "numerator", "y")},
            **{name: (ROWS, 2) for name in ("row_max", "row_sum")},
        },
        ("y",),
    ),
    "normalised_and_scale": (
        [(("x",), "scale"), (("x", "scale"), "y")],
        {"x": (MATRIX, 2), "scale": (ROWS, 4), "y": (MATRIX, 1)},
        ("scale", "y"),
    ),
}


def bytes_inputs(case: Case, generator: torch.Generator) -> tuple:
    from solutions.ch00_measure_first import Array, Step

    steps, arrays, results = PROGRAMS[case["program"]]
    return (
        [Step(reads, writes) for reads, writes in steps],
        {name: Array(*size) for name, size in arrays.items()},
        results,
        case["fused"],
    )


def bytes_oracle(steps: Any, arrays: Any, results: Any, fused: bool) -> int:
    if not fused:
        names = [name for step in steps for name in (*step.reads, step.writes)]
    else:
        made = {step.writes for step in steps}
        names = sorted({name for step in steps for name in step.reads} - made) + list(results)
    return sum(arrays[name].elements * arrays[name].itemsize for name in names)


BYTES_MOVED = Exercise(
    id="ch00.bytes_moved",
    title="Count the bytes, step by step and fused",
    points=5,
    minutes=12,
    rung=Rung.PYTHON,
    function="bytes_moved",
    section="Count the bytes",
    cases=(
        Case("copy_eager", {"program": "copy", "fused": False}, "one read and one write"),
        Case("chain_eager", {"program": "chain", "fused": False}, "what lies between is moved too"),
        Case("softmax_eager", {"program": "softmax", "fused": False}, "two sizes of element"),
        Case(
            "residual_fused",
            {"program": "scale_and_add", "fused": True},
            "an input that only a later step reads",
        ),
        Case("copy_fused", {"program": "copy", "fused": True}, "nothing to fuse"),
        Case("chain_fused", {"program": "chain", "fused": True}, "what lies between stays inside"),
        Case(
            "softmax_fused",
            {"program": "softmax_16_bit", "fused": True},
            "two steps read x; a kernel needs to read it once",
        ),
        Case(
            "two_results",
            {"program": "normalised_and_scale", "fused": True},
            "a result that a later step reads as well",
        ),
    ),
    inputs=bytes_inputs,
    oracle=bytes_oracle,
    hints=(
        "Which of the arrays never need to leave the chip when all steps are in one kernel?",
        "A name is an input of the whole chain if some step reads it and no step writes it.",
        "inputs = {name for step in steps for name in step.reads} - {step.writes for step in steps}",
    ),
    diagnoses=ch00_mistakes.BYTES_MOVED_DIAGNOSES,
    mistakes=ch00_mistakes.BYTES_MOVED_MISTAKES,
)

# --- roofline_time -----------------------------------------------------------------------------


def gemm(m: int, n: int, k: int, itemsize: int = 2) -> dict[str, int]:
    """Bytes and operations of one matrix product."""
    nbytes = itemsize * (m * k + k * n + m * n)
    return {"nbytes": nbytes, "flops": 2 * m * n * k, "kernels": 1}


def roofline_inputs(case: Case, generator: torch.Generator) -> tuple:
    from solutions.ch00_measure_first import H200, Machine

    free_launches = Machine(100e9, 1e12, 0.0)
    machine = free_launches if case["machine"] == "laptop" else H200
    return case["nbytes"], case["flops"], case["kernels"], machine


def roofline_oracle(nbytes: int, flops: int, kernels: int, machine: Any) -> tuple[float, str]:
    return max(
        (nbytes / machine.bytes_per_second, "memory"),
        (flops / machine.flops_per_second, "compute"),
        (kernels * machine.seconds_per_launch, "launch"),
    )


ROOFLINE_TIME = Exercise(
    id="ch00.roofline_time",
    title="The time that nothing can beat, and what sets it",
    points=5,
    minutes=10,
    rung=Rung.PYTHON,
    function="roofline_time",
    section="The roofline",
    cases=(
        Case(
            "only_bytes",
            {"nbytes": 2_000_000_000, "flops": 0, "kernels": 1, "machine": "laptop"},
            "a copy where launches cost nothing: bytes alone",
        ),
        Case(
            "only_flops",
            {"nbytes": 0, "flops": 4_000_000_000_000, "kernels": 1, "machine": "laptop"},
            "arithmetic alone",
        ),
        Case(
            "softmax",
            {"nbytes": 2**31, "flops": 3 * 2**29, "kernels": 1, "machine": "H200"},
            "three operations an element hide behind four bytes",
        ),
        Case(
            "large_gemm", {**gemm(8192, 8192, 8192), "machine": "H200"}, "each byte is used often"
        ),
        Case(
            "thin_gemm", {**gemm(16, 8192, 8192), "machine": "H200"}, "each weight is used 16 times"
        ),
        Case(
            "tiny",
            {"nbytes": 4096, "flops": 1024, "kernels": 1, "machine": "H200"},
            "done before the next launch arrives",
        ),
        Case(
            "many_tiny",
            {"nbytes": 300_000_000, "flops": 1_000_000, "kernels": 200, "machine": "H200"},
            "each of the launches counts",
        ),
    ),
    inputs=roofline_inputs,
    oracle=roofline_oracle,
    hints=(
        "If bytes alone take 3 ms and arithmetic alone 2 ms, and both go on at once, how long is "
        "the whole?",
        "Work out three times in seconds: bytes over bytes per second, operations over operations "
        "per second, launches times seconds per launch. Then take the largest.",
        "limiter = max(times, key=times.__getitem__) for a dictionary of the three times.",
    ),
    diagnoses=ch00_mistakes.ROOFLINE_TIME_DIAGNOSES,
    mistakes=ch00_mistakes.ROOFLINE_TIME_MISTAKES,
)

# --- fix_the_timer -----------------------------------------------------------------------------

BUFFERS, BUFFER_BYTES = 8, 20_000_000  # 160 MB against 50 MB of L2


def timer_inputs(case: Case, generator: torch.Generator) -> tuple:
    options = {key: value for key, value in case.parameters.items() if key != "samples"}
    return options, case["samples"]


def timer_oracle(options: dict[str, Any], samples: int) -> float:
    return options["kernel_us"]


def call_timer(function: Callable, arguments: tuple) -> Any:
    """On a simulated GPU of its own for every case."""
    from solutions.ch00_measure_first import SimulatedGpu, make_buffers

    options, samples = arguments
    return function(SimulatedGpu(**options), make_buffers(BUFFERS, BUFFER_BYTES), samples)


FIX_THE_TIMER = Exercise(
    id="ch00.fix_the_timer",
    title="A timer that can't be fooled",
    points=6,
    minutes=15,
    rung=Rung.PYTHON,
    function="time_kernel",
    section="A timer to trust",
    cases=(
        Case(
            "long_kernel", {"kernel_us": 800.0, "samples": 30}, "the host is far ahead of the GPU"
        ),
        Case(
            "first_call_compiles",
            {"kernel_us": 300.0, "compile_us": 250_000.0, "samples": 1},
            "a single sample, and the first launch compiles",
        ),
        Case(
            "cold_clocks",
            {"kernel_us": 300.0, "slow_launches": 15, "samples": 9},
            "the first fifteen launches run at low clocks",
        ),
        Case(
            "data_in_cache",
            {"kernel_us": 300.0, "cache_speedup": 2.5, "samples": 20},
            "a buffer that was just used is still in L2",
        ),
        Case(
            "shorter_than_a_launch",
            {"kernel_us": 3.0, "samples": 50},
            "the GPU is done before the host has queued the next launch",
        ),
        Case(
            "stray_samples",
            {"kernel_us": 300.0, "strays": True, "samples": 50},
            "one launch in seven is slow, one in eleven is fast",
        ),
        Case(
            "all_at_once",
            {
                "kernel_us": 12.0,
                "compile_us": 250_000.0,
                "slow_launches": 15,
                "cache_speedup": 2.5,
                "strays": True,
                "samples": 50,
            },
            "a real GPU does all of it",
        ),
    ),
    inputs=timer_inputs,
    oracle=timer_oracle,
    call=call_timer,
    tolerance=Tolerance(relative=0.02),
    hints=(
        "When the host's clock is read right after a launch, what has the GPU done so far?",
        "Six things, in this order: warm up, wait, pause, marks around every launch on the next "
        "buffer, wait, median.",
        "start = gpu.record(); gpu.launch(buffers[index % len(buffers)]); end = gpu.record(), all "
        "behind one gpu.pause(10.0 * samples)",
    ),
    diagnoses=ch00_mistakes.FIX_THE_TIMER_DIAGNOSES,
    mistakes=ch00_mistakes.FIX_THE_TIMER_MISTAKES,
)

EXERCISES: tuple[Exercise, ...] = (BYTES_MOVED, ROOFLINE_TIME, FIX_THE_TIMER)
BENCH: Bench | None = None
