"""Every reference passes on the GPU, speed included, and every mistake that running finds is found there
too, with the same words as on the simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from checkers import answers
from checkers.answers import Answer
from checkers.course import Course
from checkers.exercise import Exercise, Mistake, Report, Rung, Verdict
from checkers.grading.grader import Grader

COURSE = Course(Path(__file__).parents[2])
SEED = 2026


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(COURSE) as warm:
        yield warm


def told(report: Report) -> str:
    """All that the report says about stages that didn't pass."""
    lines = []
    for stage in report.stages:
        if stage.verdict is not Verdict.PASS:
            lines.append(f"{stage.name}: {stage.verdict.value}: {stage.reason}")
        if stage.finding is not None:
            finding = stage.finding
            lines += [finding.case, finding.element, finding.probable, finding.output]
    return "\n".join(lines)


@pytest.mark.parametrize("exercise", COURSE.exercises, ids=lambda exercise: exercise.id)
def test_a_reference_passes_every_stage(
    grader: Grader, exercise: Exercise, record_property: Callable[[str, object], None]
) -> None:
    answer = answers.from_solution(COURSE, exercise.id)
    report = grader.grade(exercise, answer, "cuda", seed=SEED)
    for stage in report.stages:
        for case in stage.measures.get("cases", ()) if stage.name == "speed" else ():
            record_property(f"ratio {case['case']}", case["ratio"])
    assert report.verdict is Verdict.PASS, told(report)
    assert [stage.verdict for stage in report.stages] == [Verdict.PASS] * len(report.stages), told(
        report
    )
    assert report.points == exercise.points
    if exercise.rung is not Rung.PYTHON and exercise.speed:
        assert report.stages[-1].name == "speed"


FOUND_BY_RUNNING = [
    pytest.param(exercise, mistake, id=f"{exercise.id}-{mistake.name}")
    for exercise in COURSE.exercises
    for mistake in exercise.mistakes
    if mistake.stage == "run" and exercise.rung in (Rung.TRITON, Rung.CUTE)
]


@pytest.mark.parametrize(("exercise", "mistake"), FOUND_BY_RUNNING)
def test_a_mistake_is_explained_by_a_gpu_as_well(
    grader: Grader, exercise: Exercise, mistake: Mistake
) -> None:
    reference = answers.from_solution(COURSE, exercise.id)
    source = answers.with_mistake(reference.source, mistake.replace, mistake.answer)
    answer = Answer(source, "a test", reference.setup)
    report = grader.grade(exercise, answer, "cuda", seed=SEED)
    assert report.verdict is Verdict.FAIL
    assert mistake.stage in [s.name for s in report.stages if s.verdict is Verdict.FAIL]
    assert mistake.diagnosis in told(report)
