"""Every reference passes on the GPU, speed included, and every mistake that running finds is found
beside a GPU too, with the same words as without.

A CuTe DSL mistake is rejected by the simulator before the GPU would run it, so these are graded many at a
time, behind those of Triton, which take their turns on the GPU.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
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
    if exercise.rung is Rung.CUTE:
        run = next(stage for stage in report.stages if stage.name == "run")
        assert [part["verdict"] for part in run.measures["parts"]] == ["pass", "pass"], run.reason
    if exercise.rung is not Rung.PYTHON and exercise.speed:
        assert report.stages[-1].name == "speed"


def mistakes_found_by_running(rung: Rung, needs_gpu: bool) -> list:
    return [
        pytest.param(exercise, mistake, id=f"{exercise.id}-{mistake.name}")
        for exercise in COURSE.exercises
        for mistake in exercise.mistakes
        if (exercise.rung, mistake.stage, mistake.needs_gpu) == (rung, "run", needs_gpu)
    ]


ON_THE_GPU = [
    *mistakes_found_by_running(Rung.TRITON, False),
    *mistakes_found_by_running(Rung.TRITON, True),
    *mistakes_found_by_running(Rung.CUTE, True),
]
ON_THE_SIMULATOR = mistakes_found_by_running(Rung.CUTE, False)


def grade_mistake(grader: Grader, exercise: Exercise, mistake: Mistake) -> Report:
    reference = answers.from_solution(COURSE, exercise.id)
    source = answers.with_mistake(reference.source, mistake.replace, mistake.answer)
    answer = Answer(source, "a test", reference.setup)
    return grader.grade(exercise, answer, "cuda", seed=SEED)


def check_rejected(report: Report, mistake: Mistake) -> None:
    assert report.verdict is Verdict.FAIL
    assert mistake.stage in [s.name for s in report.stages if s.verdict is Verdict.FAIL]
    assert mistake.diagnosis in told(report)


Graded = Callable[[Exercise, Mistake], Report]


@pytest.fixture(scope="module")
def graded_beside(request: pytest.FixtureRequest) -> Iterator[Graded]:
    """The reports on those of ON_THE_SIMULATOR that were selected. A pool of threads, each with a
    grader of its own, begins with them when the first test asks for this."""
    own, graders = threading.local(), []

    def begin() -> None:
        own.grader = Grader(COURSE)
        graders.append(own.grader)

    def grade(exercise: Exercise, mistake: Mistake) -> Report:
        return grade_mistake(own.grader, exercise, mistake)

    name = test_a_mistake_is_rejected_before_the_gpu_runs_it.__name__
    selected = [i for i in request.session.items if getattr(i, "originalname", "") == name]
    # Two cores are left to the Triton mistakes, and to what these tests do themselves.
    with ThreadPoolExecutor(max(2, (os.cpu_count() or 4) - 2), initializer=begin) as pool:
        reports = {}
        for parameters in (item.callspec.params for item in selected):
            exercise, mistake = parameters["exercise"], parameters["mistake"]
            reports[exercise.id, mistake] = pool.submit(grade, exercise, mistake)
        yield lambda exercise, mistake: reports[exercise.id, mistake].result()
        pool.shutdown(cancel_futures=True)
    for grader in graders:
        grader.close()


@pytest.mark.parametrize(("exercise", "mistake"), ON_THE_GPU)
def test_a_mistake_is_explained_by_a_gpu_as_well(
    grader: Grader, exercise: Exercise, mistake: Mistake, graded_beside: Graded
) -> None:
    check_rejected(grade_mistake(grader, exercise, mistake), mistake)


@pytest.mark.parametrize(("exercise", "mistake"), ON_THE_SIMULATOR)
def test_a_mistake_is_rejected_before_the_gpu_runs_it(
    exercise: Exercise, mistake: Mistake, graded_beside: Graded
) -> None:
    report = graded_beside(exercise, mistake)
    check_rejected(report, mistake)
    run = next(stage for stage in report.stages if stage.name == "run")
    assert [part["verdict"] for part in run.measures["parts"]] == ["fail", "skip"]
