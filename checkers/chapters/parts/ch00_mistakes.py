"""Chapter 0: what goes wrong in its exercises, how it is recognised, and what is said about it."""

from __future__ import annotations

from checkers.exercise import Diagnosis, Mistake
from checkers.grading.syntax import has_call

WARM_UP = """\
    for index in range(20):
        gpu.launch(buffers[index % len(buffers)])
    gpu.synchronize()
"""
MEDIAN = "return statistics.median(times)"

BYTES_MOVED_DIAGNOSES: tuple[Diagnosis, ...] = (
    Diagnosis(
        "Inputs are what no step writes, whichever step reads them: a later one may need an array "
        "that the first does not.",
        reread="What fusing saves",
        cases=frozenset({"residual_fused"}),
        passing=frozenset({"copy_fused", "softmax_fused"}),
    ),
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
)

BYTES_MOVED_MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        "inputs_of_the_first_step",
        "run",
        "Inputs are what no step writes",
        replace=(
            (
                "inputs = {name for step in steps for name in step.reads} - written",
                "inputs = set(steps[0].reads)",
            ),
        ),
    ),
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
)

ROOFLINE_TIME_DIAGNOSES: tuple[Diagnosis, ...] = (
    Diagnosis(
        "Return two things, the seconds first and then the name, both of the slowest of the three: "
        "what goes on at the same time takes as long as the slowest, not as long as the fastest.",
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
)

ROOFLINE_TIME_MISTAKES: tuple[Mistake, ...] = (
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
)

FIX_THE_TIMER_DIAGNOSES: tuple[Diagnosis, ...] = (
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
)

FIX_THE_TIMER_MISTAKES: tuple[Mistake, ...] = (
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
        replace=(("    gpu.pause(10.0 * samples)\n", ""),),
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
)
