"""Outcomes as plain data: what crosses the pipe between a worker and the grader, and the points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from checkers.exercise import Exercise, Finding, Report, Stage, Verdict

NEEDS_GPU = "needs a GPU"
# Shares of an exercise's points. A stage that does not apply gives its share to the others.
WEIGHTS = {"source": 0, "compile": 10, "run": 50, "codegen": 15, "speed": 25}


def stage_to_json(stage: Stage) -> dict[str, Any]:
    """A stage as JSON types."""
    return {**asdict(stage), "verdict": stage.verdict.value}


def stage_from_json(data: dict[str, Any]) -> Stage:
    """The stage that ``stage_to_json`` wrote."""
    finding = data["finding"]
    return Stage(
        **{
            **data,
            "verdict": Verdict(data["verdict"]),
            "finding": None if finding is None else Finding(**finding),
        }
    )


def failed(name: str, finding: Finding, **measures: Any) -> Stage:
    """A stage that failed, its reason being the finding's sentence."""
    return Stage(name, Verdict.FAIL, finding.summary, measures=measures, finding=finding)


def skipped(name: str, reason: str) -> Stage:
    """A stage that can't run here; the reason says what would run it."""
    return Stage(name, Verdict.SKIP, reason)


def applicable(exercise: Exercise) -> tuple[str, ...]:
    """Names of the stages that this exercise goes through."""
    stages = exercise.rung.stages
    if not exercise.rules:
        stages = tuple(name for name in stages if name != "codegen")
    if not (exercise.speed or exercise.floors):
        stages = tuple(name for name in stages if name != "speed")
    return stages


def shares(exercise: Exercise) -> dict[str, int]:
    """Points of each applicable stage; they add up to the exercise's points.

    Largest remainder: every stage gets the whole part of its share, the points left over go to
    those that lost the most.
    """
    names = applicable(exercise)
    total = sum(WEIGHTS[name] for name in names)
    exact = {name: exercise.points * WEIGHTS[name] / total for name in names}
    points = {name: int(value) for name, value in exact.items()}
    by_loss = sorted(names, key=lambda name: points[name] - exact[name])
    for name in by_loss[: exercise.points - sum(points.values())]:
        points[name] += 1
    return points


def report(exercise: Exercise, seed: int, stages: Sequence[Stage]) -> Report:
    """The verdict and the points over the stages that could run.

    A wrong answer earns nothing, however well it compiles.
    """
    verdicts = {stage.name: stage.verdict for stage in stages}
    share = shares(exercise)
    earned = sum(share[name] for name, verdict in verdicts.items() if verdict is Verdict.PASS)
    still_open = sum(
        share[name]
        for name, verdict in verdicts.items()
        if verdict in (Verdict.SKIP, Verdict.UNDECIDED)
    )
    if Verdict.NOT_ATTEMPTED in verdicts.values():
        verdict = Verdict.NOT_ATTEMPTED
    elif Verdict.FAIL in verdicts.values():
        verdict = Verdict.FAIL
    elif Verdict.UNDECIDED in verdicts.values():
        verdict = Verdict.UNDECIDED
    else:
        verdict = Verdict.PASS
    if verdict is Verdict.NOT_ATTEMPTED or Verdict.FAIL in (
        verdicts.get("source"),
        verdicts.get("compile"),
        verdicts.get("run"),
    ):
        earned = still_open = 0
    return Report(exercise.id, verdict, earned, exercise.points, seed, tuple(stages), still_open)


def with_output(stage: Stage, output: str) -> Stage:
    """The stage with what the answer printed put into its finding, if it has one."""
    if stage.finding is None or not output.strip():
        return stage
    return replace(stage, finding=replace(stage.finding, output=output))
