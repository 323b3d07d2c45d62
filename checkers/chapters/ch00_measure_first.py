"""Chapter 0, measure first: cases, oracles, hints and known mistakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from checkers.exercise import Bench, Case, Diagnosis, Exercise, Mistake, Rung, Tolerance
from checkers.grading.syntax import has_call

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
    diagnoses=(
        Diagnosis(
            "A step has two sides: its inputs are read from memory and its output is written to it.",
            reread="Count the bytes",
            cases=frozenset({"copy_eager"}),
        ),
        Diagnosis(
            "Step by step, an array moves once for every step that reads it and once more when "
            "it is written: what one step writes, the next one reads back.",
            reread="Count the bytes",
            cases=frozenset({"chain_eager", "softmax_eager"}),
        ),
        Diagnosis(
            "A fused kernel keeps what lies between the steps in registers: only arrays that no "
            "step writes are read, and only the results are written.",
            reread="What fusing saves",
            cases=frozenset({"copy_fused", "chain_fused"}),
        ),
        Diagnosis(
            "One kernel reads an input once, however many of its steps use it.",
            reread="What fusing saves",
            cases=frozenset({"softmax_fused"}),
        ),
        Diagnosis(
            "A result has to be in memory at the end even when a later step reads it as well.",
            reread="What fusing saves",
            cases=frozenset({"two_results"}),
        ),
    ),
    mistakes=(
        Mistake(
            "reads_only",
            "run",
            "its inputs are read from memory and its output is written to it",
            replace=(("            total += arrays[step.writes].nbytes\n", ""),),
        ),
        Mistake(
            "every_array_once",
            "run",
            "what one step writes, the next one reads back",
            replace=(
                (
                    "        total = 0\n"
                    "        for step in steps:\n"
                    "            total += sum(arrays[name].nbytes for name in step.reads)\n"
                    "            total += arrays[step.writes].nbytes\n"
                    "        return total\n",
                    "        return sum(array.nbytes for array in arrays.values())\n",
                ),
            ),
        ),
        Mistake(
            "fused_writes_what_lies_between",
            "run",
            "keeps what lies between the steps in registers",
            replace=(("[*inputs, *results]", "[*inputs, *written]"),),
        ),
        Mistake(
            "fused_reads_x_again",
            "run",
            "One kernel reads an input once",
            replace=(
                (
                    "{name for step in steps for name in step.reads} - written",
                    "[n for step in steps for n in step.reads if n not in written]",
                ),
            ),
        ),
        Mistake(
            "results_that_are_read_are_forgotten",
            "run",
            "even when a later step reads it as well",
            replace=(
                (
                    "[*inputs, *results]",
                    "[*inputs, *(written - {n for step in steps for n in step.reads})]",
                ),
            ),
        ),
    ),
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
    diagnoses=(
        Diagnosis(
            "Memory, arithmetic and launches go on at the same time: the whole takes as long as "
            "the slowest, not as long as the fastest.",
            reread="The roofline",
            cases=frozenset({"only_bytes", "only_flops"}),
        ),
        Diagnosis(
            "The three times overlap, so they do not add up: the slowest is the time, and the "
            "others hide behind it.",
            reread="The roofline",
            cases=frozenset({"softmax"}),
        ),
        Diagnosis(
            "More than about 200 operations a byte make an H200 limited by compute, fewer by "
            "memory: compare times, both in seconds.",
            reread="The roofline",
            cases=frozenset({"large_gemm", "thin_gemm"}),
        ),
        Diagnosis(
            "A launch takes the host some microseconds, and work that is shorter than that waits "
            "for the next one: with few bytes and operations the launch is the limit.",
            reread="The third limit: launches",
            cases=frozenset({"tiny"}),
        ),
        Diagnosis(
            "Every kernel of the chain has to be launched: multiply by their number.",
            reread="The third limit: launches",
            cases=frozenset({"many_tiny"}),
        ),
    ),
    mistakes=(
        Mistake(
            "the_fastest",
            "run",
            "not as long as the fastest",
            replace=(("limiter = max(", "limiter = min("),),
        ),
        Mistake(
            "the_sum",
            "run",
            "they do not add up",
            replace=(("return times[limiter], limiter", "return sum(times.values()), limiter"),),
        ),
        Mistake(
            "launches_forgotten",
            "run",
            "with few bytes and operations the launch is the limit",
            replace=(('        "launch": kernels * machine.seconds_per_launch,\n', ""),),
        ),
        Mistake(
            "one_launch",
            "run",
            "multiply by their number",
            replace=(("kernels * machine.seconds_per_launch", "machine.seconds_per_launch"),),
        ),
        Mistake(
            "more_than_one_operation_a_byte",
            "run",
            "More than about 200 operations a byte",
            replace=(
                (
                    "return times[limiter], limiter",
                    'limiter = limiter if limiter == "launch" else '
                    '"compute" if flops > nbytes else "memory"\n'
                    "    return times[limiter], limiter",
                ),
            ),
        ),
    ),
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


WARM_UP = """\
    for index in range(20):
        gpu.launch(buffers[index % len(buffers)])
    gpu.synchronize()
"""
MEDIAN = "return statistics.median(times)"

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
        "behind one gpu.pause(1000.0)",
    ),
    diagnoses=(
        Diagnosis(
            "A mark has no time until the GPU has reached it: wait with gpu.synchronize() before "
            "asking for elapsed_us.",
            reread="The queue",
            error="event not reached",
        ),
        Diagnosis(
            "A launch returns before the GPU has done the work: this is the time that it takes to "
            "queue a launch. Take the time with marks in the queue, or wait before reading a clock.",
            reread="The queue",
            cases=frozenset({"long_kernel"}),
        ),
        Diagnosis(
            "The first launch compiles. Launch at least once, and wait, before anything is timed.",
            reread="Warm up",
            cases=frozenset({"first_call_compiles"}),
        ),
        Diagnosis(
            "One launch is not enough to warm up: the clocks rise over the first ones. Give them "
            "twenty.",
            reread="Warm up",
            cases=frozenset({"cold_clocks"}),
        ),
        Diagnosis(
            "The buffer is still in L2 from the launch before, so this times the cache. Go round "
            "all the buffers: together they are more than twice as large as L2.",
            reread="Data from memory",
            cases=frozenset({"data_in_cache"}),
        ),
        Diagnosis(
            "The kernel is shorter than a launch, so this times the gap in which the GPU waits for "
            "the host. Queue a pause first: the launches pile up behind it and run with no gaps.",
            reread="Kernels shorter than a launch",
            cases=frozenset({"shorter_than_a_launch"}),
        ),
        Diagnosis(
            "The fastest sample is luck, a moment of higher clocks: take the median.",
            reread="Median, not mean, not best",
            cases=frozenset({"stray_samples"}),
            source=has_call("min"),
        ),
        Diagnosis(
            "A few slow samples drag the mean up; half the samples would have to be off to move "
            "the median.",
            reread="Median, not mean, not best",
            cases=frozenset({"stray_samples"}),
        ),
    ),
    mistakes=(
        Mistake(
            "the_hasty_timer",
            "run",
            "returns before the GPU has done the work",
            answer="""\
def time_kernel(gpu, buffers, samples=50):
    start = gpu.clock_us()
    for _ in range(samples):
        gpu.launch(buffers[0])
    return (gpu.clock_us() - start) / samples
""",
        ),
        Mistake(
            "asked_too_early",
            "run",
            "A mark has no time until the GPU has reached it",
            replace=(
                (
                    "    gpu.synchronize()\n    times = [",
                    "    times = [",
                ),
            ),
        ),
        Mistake(
            "no_warm_up",
            "run",
            "The first launch compiles",
            replace=((WARM_UP, ""),),
        ),
        Mistake(
            "one_launch_to_warm_up",
            "run",
            "the clocks rise over the first ones",
            replace=(("for index in range(20):", "for index in range(1):"),),
        ),
        Mistake(
            "always_the_same_buffer",
            "run",
            "so this times the cache",
            replace=(
                (
                    "        start = gpu.record()\n        gpu.launch(buffers[index % len(buffers)])",
                    "        start = gpu.record()\n        gpu.launch(buffers[0])",
                ),
            ),
        ),
        Mistake(
            "no_pause",
            "run",
            "Queue a pause first",
            replace=(("    gpu.pause(1000.0)\n", ""),),
        ),
        Mistake(
            "the_mean",
            "run",
            "drag the mean up",
            replace=((MEDIAN, "return statistics.fmean(times)"),),
        ),
        Mistake(
            "the_best",
            "run",
            "a moment of higher clocks",
            replace=((MEDIAN, "return min(times)"),),
        ),
    ),
)

EXERCISES: tuple[Exercise, ...] = (BYTES_MOVED, ROOFLINE_TIME, FIX_THE_TIMER)
BENCH: Bench | None = None
