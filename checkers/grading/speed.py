"""The speed stage: is a right answer fast enough, as a ratio to a ruler measured in the same run.

``check_speed`` is the stage; ``stage_for`` finds its targets and its GPU for a worker's job. Import
this module before a learner's code (see cuda_device.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from checkers import machine
from checkers.exercise import Case, Exercise, Finding, Rung, SpeedTarget, Stage, Verdict
from checkers.grading import timing
from checkers.grading.cuda_device import CudaDevice, Device
from checkers.grading.rulers import RULERS, memory_limit_gbps
from checkers.grading.stages import NEEDS_GPU
from checkers.grading.verify import Wrong, check_values
from checkers.thresholds import FILE, Found, Thresholds

RESAMPLES = 2000
CONFIDENCE = 0.95
IMPOSSIBLE = 1.05  # times what the memory can do
ANSWER = "answer"

# verify(case, output, inputs): what is wrong with an answer, or None
VerifyCase = Callable[[Case, Any, tuple], str | None]


@dataclass(frozen=True)
class Interval:
    """A ratio of medians with its confidence interval."""

    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class CaseResult:
    """The verdict on one timed case, with a sentence and the numbers behind it."""

    case: Case
    verdict: Verdict
    reason: str
    measures: Mapping[str, Any]
    probable: str = ""


def ratio_interval(ruler: Sequence[float], answer: Sequence[float], seed: int) -> Interval:
    """How fast the answer is in rulers: median(ruler) / median(answer), seconds of the same rounds.

    The interval is a percentile bootstrap: rounds are drawn with replacement, both sides of a round
    together, because what disturbs one disturbs the other.
    """
    times = np.array([ruler, answer])
    rng = np.random.default_rng(seed)
    rounds = times.shape[1]
    drawn = rng.integers(0, rounds, size=(RESAMPLES, rounds))
    medians = np.median(times[:, drawn], axis=2)
    tail = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(medians[0] / medians[1], [tail, 100 - tail])
    ratio = float(np.median(times[0]) / np.median(times[1]))
    return Interval(ratio, float(low), float(high))


def judge(interval: Interval, wanted: float) -> Verdict:
    """Pass or fail when the whole interval is on one side, else undecided."""
    if interval.low >= wanted:
        return Verdict.PASS
    return Verdict.FAIL if interval.high < wanted else Verdict.UNDECIDED


def device_inputs(
    inputs: Callable[[Case, torch.Generator], tuple], case: Case, seed: int, device: str
) -> tuple:
    """A case's arguments on ``device``, drawn there when the chapter's function lets its generator
    decide (a gigabyte of random numbers takes seconds on a CPU), else drawn on the CPU and moved."""
    try:
        with torch.device(device):
            arguments = inputs(case, torch.Generator(device).manual_seed(seed))
    except RuntimeError:  # the function asks for CPU tensors itself
        arguments = inputs(case, torch.Generator().manual_seed(seed))
    return tuple(
        found.to(device) if isinstance(found, torch.Tensor) else found for found in arguments
    )


def compile_anew(exercise: Exercise) -> None:
    """Forgets what torch.compile made of other shapes: a case is timed as compiled for itself, not
    as one of many that were seen before it."""
    if exercise.rung is Rung.TORCH:
        torch.compiler.reset()


def check_speed(
    exercise: Exercise,
    function: Callable[..., Any],
    seed: int,
    thresholds: Thresholds,
    arch: str,
    verify: VerifyCase,
    device: Device | None = None,
    gpu: str = "",
    options: timing.Options | None = None,
) -> Stage:
    """Times a right answer on the exercise's speed cases, about 1 to 3 seconds each.

    function: the answer.  arch: "sm_90", which picks the targets.  verify: for the timed outputs.
    gpu: the device's name, for its datasheet's bandwidth.
    The stage's measures hold one entry a case under "cases". The worst case decides: fail, then
    undecided, then skip (not enough memory), then pass.
    """
    began = time.monotonic()
    device = device or CudaDevice()
    gpu = gpu or torch.cuda.get_device_name(device.torch_device)
    limit = memory_limit_gbps(gpu, device)
    results = []
    for target in exercise.speed:
        found = thresholds.find(exercise.id, target.case.name, arch)
        check = CaseCheck(exercise, target, found, seed, device, limit, options)
        results.append(check.run(function, partial(verify, target.case)))
    return _stage(exercise, results, time.monotonic() - began)


@dataclass(frozen=True)
class CaseCheck:
    """One case to be timed. limit: GB/s that this GPU's memory can move at most."""

    exercise: Exercise
    target: SpeedTarget
    found: Found | None
    seed: int
    device: Device
    limit: float
    options: timing.Options | None

    def run(self, function: Callable[..., Any], verify: timing.Verify) -> CaseResult:
        options = self.options or timing.Options()
        try:
            result = self.judged(self.timings(function, verify, options))
            if result.verdict is Verdict.UNDECIDED:  # four times the rounds halve the interval
                longer = replace(
                    options, rounds=4 * options.rounds, budget_seconds=4 * options.budget_seconds
                )
                result = self.judged(self.timings(function, verify, longer))
        except timing.ClockPatched as error:
            return self.failed(f"refused: {error}", "Leave the clock alone.")
        except (timing.NotEnoughMemory, torch.OutOfMemoryError) as error:
            text = str(error).partition("\n")[0]
            return CaseResult(self.target.case, Verdict.SKIP, f"not timed: {text}", {})
        except Exception as error:  # whatever an answer raises is the answer's failure
            text = f"{type(error).__name__}: {error}".partition("\n")[0]
            return self.failed(f"raised while it was timed: {text}", "It ran on smaller cases.")
        return result

    def timings(
        self, function: Callable[..., Any], verify: timing.Verify, options: timing.Options
    ) -> dict[str, timing.Timing]:
        compile_anew(self.exercise)
        call = self.exercise.call
        return timing.measure(
            {ANSWER: lambda *arguments: call(function, arguments)},
            self.inputs,
            self.target.ruler,
            self.target.work(self.inputs(0)),
            options,
            verify,
            self.device,
        )

    def inputs(self, index: int) -> tuple:
        """The index-th working set."""
        case, where = self.target.case, self.device.torch_device
        return device_inputs(self.exercise.inputs, case, self.seed + index, where)

    def judged(self, timings: Mapping[str, timing.Timing]) -> CaseResult:
        """The verdict on what was measured."""
        answer, ruler = timings[ANSWER], timings[self.target.ruler]
        if answer.refused:
            return self.failed(f"refused: {answer.refused}", "")
        interval = ratio_interval(ruler.seconds, answer.seconds, self.seed)
        measures = self.measures(answer, ruler, interval)
        if self.impossible(answer):
            return self.failed(
                f"refused as impossible: {measures['rate']:.0f} GB/s, and this GPU's memory moves "
                f"at most {self.limit:.0f} GB/s",
                "Part of the work isn't done, or isn't done while the clock runs: each input "
                "element must be read and each output element written in every call.",
                measures,
            )
        speed = self.described(interval, measures)
        if self.found is None:
            return CaseResult(self.target.case, Verdict.PASS, f"{speed}; no target yet", measures)
        wanted = self.found.target.pass_ratio
        if not self.found.binding:
            note = f"; advised: {wanted:.2f}, which nobody has measured on this architecture yet"
            return CaseResult(self.target.case, Verdict.PASS, speed + note, measures)
        verdict = judge(interval, wanted)
        if verdict is Verdict.FAIL:
            return self.failed(
                f"too slow: {speed}, {wanted:.2f} asked", explain(interval), measures
            )
        if verdict is Verdict.UNDECIDED:
            speed += (
                f" (between {interval.low:.3f} and {interval.high:.3f} with 95 % confidence), too "
                f"close to the {wanted:.2f} asked: run it again, with nothing else on the GPU"
            )
            return CaseResult(self.target.case, verdict, speed, measures)
        return CaseResult(self.target.case, verdict, f"{speed}, {wanted:.2f} asked", measures)

    def impossible(self, answer: timing.Timing) -> bool:
        """Faster than the memory, over a working set that no cache holds."""
        if self.target.ruler != "copy" or not answer.cold:
            return False
        return answer.rate() / 1e9 > IMPOSSIBLE * self.limit

    def measures(
        self, answer: timing.Timing, ruler: timing.Timing, interval: Interval
    ) -> dict[str, Any]:
        """The numbers behind the verdict, as JSON types; rates in the ruler's unit."""
        scale = RULERS[self.target.ruler].scale
        measured = {
            "case": self.target.case.name,
            "ruler": self.target.ruler,
            "unit": RULERS[self.target.ruler].unit,
            "ratio": interval.ratio,
            "ratio_low": interval.low,
            "ratio_high": interval.high,
            "pass": self.found.target.pass_ratio if self.found else None,
            "rate": answer.rate() / scale,
            "p10": answer.rate(10) / scale,
            "p90": answer.rate(90) / scale,
            "ruler_rate": ruler.rate() / scale,
            "memory_limit": self.limit,
        }
        measured = {
            key: round(found, 4) if isinstance(found, float) else found
            for key, found in measured.items()
        }
        for name in (
            "samples mode why_not_graph sets cold calls warmup_rounds settled clock_before clock_after"
        ).split():
            measured[name] = getattr(answer, name)
        measured["ruler_mode"] = ruler.mode
        return measured

    def described(self, interval: Interval, measures: Mapping[str, Any]) -> str:
        of = "this GPU's copy bandwidth" if self.target.ruler == "copy" else self.target.ruler
        return (
            f"{interval.ratio:.2f} of {of} ({measures['rate']:.0f} of {measures['ruler_rate']:.0f} "
            f"{measures['unit']})"
        )

    def failed(
        self, reason: str, probable: str, measures: Mapping[str, Any] | None = None
    ) -> CaseResult:
        return CaseResult(self.target.case, Verdict.FAIL, reason, measures or {}, probable)


def explain(interval: Interval) -> str:
    """What a memory-bound kernel that is this much slower than a copy probably does."""
    traffic = 1 / interval.ratio
    took = f"It takes as long as moving {traffic:.1f} times the bytes that it has to move. "
    if traffic < 1.4:
        return took + (
            "Close: more bytes in flight help (wider loads, more rows or columns a program, another "
            "num_warps), and so does less work between a load and its store."
        )
    if traffic < 4:
        return took + (
            "Either something is moved more than once (an input read twice, an intermediate result "
            "written and read again), or too few loads are in flight to keep the memory busy."
        )
    return took + (
        "So much is seldom traffic: neighbouring threads that don't read neighbouring addresses, a "
        "loop over single elements, too few programs for the GPU, or values spilled from registers."
    )


_WORST_FIRST = (Verdict.FAIL, Verdict.UNDECIDED, Verdict.SKIP, Verdict.PASS)


def _stage(exercise: Exercise, results: Sequence[CaseResult], seconds: float) -> Stage:
    """The stage of all timed cases: the worst one's verdict and reason."""
    worst = min(results, key=lambda result: _WORST_FIRST.index(result.verdict))
    reason = f"{worst.case.name}: {worst.reason}" if len(results) > 1 else worst.reason
    finding = None
    if worst.verdict is Verdict.FAIL:
        finding = Finding(
            reason, case=str(worst.case), probable=worst.probable, reread=exercise.section
        )
    measures = {"cases": [dict(result.measures) for result in results if result.measures]}
    return Stage("speed", worst.verdict, reason, seconds, measures, finding)


def stage_for(
    exercise: Exercise, function: Callable[..., Any], job: Mapping[str, Any], device: str
) -> Stage:
    """The stage for a worker's job ("root", "seed"); skipped unless ``device`` is "cuda"."""
    if device != "cuda" or not torch.cuda.is_available():
        return Stage("speed", Verdict.SKIP, NEEDS_GPU)
    own = Path(job["root"]) / "checkers" / "thresholds.toml"
    thresholds = Thresholds.read(own if own.exists() else FILE)
    arch = machine.arch_of(torch.cuda.get_device_capability())
    verify = partial(verified, exercise)
    return check_speed(exercise, function, job["seed"], thresholds, arch, verify)


def verified(exercise: Exercise, case: Case, output: Any, arguments: tuple) -> str | None:
    """What the run stage would say against an output, or None."""
    clones = tuple(
        found.detach().clone() if isinstance(found, torch.Tensor) else found for found in arguments
    )
    try:
        check_values(exercise, case, output, exercise.oracle(*clones), arguments)
    except Wrong as wrong:
        element = f" {wrong.finding.element}" if wrong.finding.element else ""
        return f"{wrong.finding.summary}{element}"
    says = (invariant.holds(output, clones) for invariant in exercise.invariants)
    return next(filter(None, says), None)
