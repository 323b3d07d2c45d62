"""The run stage of a CuTe DSL answer on a machine with a GPU: simulated first, then run on the GPU.

A missing wait or a wrong phase often happens to work on a GPU, or hangs it. So the cases that the
simulator can run run there, with its diagnoses; only an answer without faults reaches the GPU, in a
process of its own. Here the outcomes of the two parts become one stage.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from checkers.exercise import Exercise, Rung, Stage, Verdict
from checkers.grading import stages
from checkers.grading.worker import WorkerError

LEFT_ALONE = "the GPU was left alone"
OPEN = f"{stages.NEEDS_GPU}: "  # how the simulator's part begins when it has no verdict


def is_simulated_first(exercise: Exercise) -> bool:
    """Whether there is something to simulate before the GPU runs it."""
    small = any(not case.needs_gpu for case in exercise.cases)
    return exercise.rung is Rung.CUTE and small


def broke(error: WorkerError) -> Stage:
    """The simulator's part when the simulator itself failed: that is not the answer's fault."""
    last_line = str(error).strip().splitlines()[-1]
    return stages.skipped("run", f"{OPEN}the simulator failed ({last_line})")


def rejected(simulated: Stage) -> Stage:
    """The stage of an answer that the simulator found wrong: nothing ran on the GPU."""
    assert simulated.finding is not None
    where = f"on the simulator, where it runs first; {LEFT_ALONE}"
    untried = {"where": "cuda", "verdict": Verdict.SKIP.value, "reason": LEFT_ALONE}
    return replace(
        simulated,
        measures={
            **simulated.measures,
            "where": "simulator",
            "parts": [_part(simulated, "simulator"), untried],
        },
        finding=replace(simulated.finding, where=where),
    )


def joined(simulated: Stage, on_gpu: Stage) -> Stage:
    """The GPU's verdict, with what the simulator said before.

    simulated: passed, or skipped with the reason why the simulator can't tell.
    """
    if simulated.verdict is Verdict.PASS:
        count = simulated.measures["cases"]
        free_of_faults = f"no fault on {count} case{'' if count == 1 else 's'}"
        reason = f"simulator: {free_of_faults}; GPU: {on_gpu.reason}"
        where = f"on the GPU; the simulator found {free_of_faults}"
    else:
        not_simulated = simulated.reason.removeprefix(OPEN)
        reason = f"GPU: {on_gpu.reason}; not simulated: {not_simulated}"
        where = f"on the GPU; not simulated: {not_simulated}"
    finding = on_gpu.finding
    return replace(
        on_gpu,
        reason=reason if finding is None else on_gpu.reason,  # the finding's own sentence
        seconds=simulated.seconds + on_gpu.seconds,
        measures={
            **on_gpu.measures,
            "where": "cuda",
            "parts": [_part(simulated, "simulator"), _part(on_gpu, "cuda")],
        },
        finding=finding and replace(finding, where=where),
    )


def _part(stage: Stage, where: str) -> dict[str, Any]:
    """One of the two parts, for the JSON report."""
    part: dict[str, Any] = {"where": where, "verdict": stage.verdict.value}
    if "cases" in stage.measures:
        part["cases"] = stage.measures["cases"]
    if stage.verdict is Verdict.SKIP:
        part["reason"] = stage.reason.removeprefix(OPEN)
    return {**part, "seconds": round(stage.seconds, 3)}
