"""The course checks itself: nothing passes that should not, and everything that should does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from checkers import answers
from checkers.answers import Answer
from checkers.course import Course, CourseError
from checkers.exercise import Exercise, Mistake, Report, Rung, Verdict
from checkers.grading.grader import Grader

COURSE = Course(Path(__file__).parent.parent)
KERNELS = (Rung.TRITON, Rung.CUTE)


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(COURSE) as warm:
        yield warm


def by_id(exercise: Exercise) -> str:
    return exercise.id


def grade(grader: Grader, exercise: Exercise, source: str) -> Report:
    reference = answers.from_solution(COURSE, exercise.id)
    return grader.grade(exercise, Answer(source, "a test", reference.setup), "simulator", seed=11)


def lesson_text(report: Report) -> str:
    """All that the report tells a learner about what failed."""
    findings = [stage.finding for stage in report.stages if stage.finding is not None]
    return "\n".join(f"{f.summary}\n{f.element}\n{f.probable}\n{f.reread}" for f in findings)


@pytest.mark.parametrize("exercise", COURSE.exercises, ids=by_id)
def test_a_reference_passes(grader, exercise):
    report = grader.grade(exercise, answers.from_solution(COURSE, exercise.id), "simulator")
    assert report.verdict is Verdict.PASS, lesson_text(report)
    for stage in report.stages:
        assert stage.verdict in (Verdict.PASS, Verdict.SKIP)
        if stage.verdict is Verdict.SKIP:
            assert (stage.name, stage.reason) == ("speed", "needs a GPU")
            assert exercise.rung not in KERNELS


@pytest.mark.parametrize("exercise", COURSE.exercises, ids=by_id)
def test_an_exercise_as_shipped_is_not_attempted(grader, exercise):
    report = grader.grade(exercise, answers.from_notebook(COURSE, exercise.id), "simulator")
    assert (report.verdict, report.points) == (Verdict.NOT_ATTEMPTED, 0)


TRIVIAL = {
    "a constant": "    return 0",
    "nothing": "    return None",
    "its input": "    return arguments[0] if arguments else None",
    "zeros": "    import torch\n    return torch.zeros_like(arguments[0])",
}


def commented_out(exercise: Exercise) -> str:
    cell = answers.without_markers(answers.solution_cell(COURSE, exercise.id))
    return "".join(f"# {line}" for line in cell.splitlines(keepends=True))


@pytest.mark.parametrize("exercise", COURSE.exercises, ids=by_id)
def test_an_empty_and_a_commented_out_answer_fail(grader, exercise):
    for source in ("\n", commented_out(exercise)):
        report = grade(grader, exercise, source)
        assert (report.verdict, report.points) == (Verdict.FAIL, 0)
        assert exercise.function in lesson_text(report)


@pytest.mark.slow
@pytest.mark.parametrize("returned", TRIVIAL)
@pytest.mark.parametrize("exercise", COURSE.exercises, ids=by_id)
def test_a_trivial_answer_fails(grader, exercise, returned):
    cell = answers.without_markers(answers.solution_cell(COURSE, exercise.id))
    trivial = f"def {exercise.function}(*arguments, **named):\n{TRIVIAL[returned]}\n"
    report = grade(grader, exercise, f"{cell}\n\n{trivial}")
    assert (report.verdict, report.points) == (Verdict.FAIL, 0)


MISTAKES = [
    pytest.param(exercise, mistake, id=f"{exercise.id}-{mistake.name}")
    for exercise in COURSE.exercises
    for mistake in exercise.mistakes
]


def mistaken(exercise: Exercise, mistake: Mistake) -> str:
    cell = answers.without_markers(answers.solution_cell(COURSE, exercise.id))
    return answers.with_mistake(cell, mistake.replace, mistake.answer)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("exercise", "mistake"), [p for p in MISTAKES if not p.values[1].needs_gpu]
)
def test_a_known_mistake_is_rejected_with_its_diagnosis(grader, exercise, mistake):
    report = grade(grader, exercise, mistaken(exercise, mistake))
    assert report.verdict is Verdict.FAIL
    failing = [stage.name for stage in report.stages if stage.verdict is Verdict.FAIL]
    assert mistake.stage in failing
    assert mistake.diagnosis in lesson_text(report)


@pytest.mark.parametrize(("exercise", "mistake"), MISTAKES)
def test_a_known_mistake_is_a_change_of_the_reference(exercise, mistake):
    assert mistaken(exercise, mistake) != answers.solution_cell(COURSE, exercise.id)


@pytest.mark.parametrize("exercise", COURSE.exercises, ids=by_id)
def test_an_exercise_is_complete(exercise):
    assert exercise.id.startswith(f"{exercise.chapter}.")
    assert exercise.points > 0 and 1 <= exercise.minutes <= 30
    assert len(set(exercise.hints)) == 3 and all(hint.strip() for hint in exercise.hints)
    assert exercise.hints[0].rstrip().endswith("?"), "the first hint is a question"
    names = [case.name for case in exercise.cases]
    assert len(set(names)) == len(names)
    least = 5 if exercise.rung in KERNELS else 2
    assert len({mistake.name for mistake in exercise.mistakes}) >= least
    lesson = COURSE.chapter(exercise.id).lesson.read_text(encoding="utf-8")
    headings = {line.lstrip("# ").strip() for line in lesson.splitlines() if line.startswith("#")}
    named = {exercise.section, *(diagnosis.reread for diagnosis in exercise.diagnoses)} - {""}
    assert named <= headings, f"no such heading in the lesson: {named - headings}"


@pytest.mark.parametrize("exercise", COURSE.exercises, ids=by_id)
def test_inputs_are_the_same_for_the_same_seed_and_fresh_for_another(exercise):
    case = next(case for case in exercise.cases if not case.needs_gpu)

    def tensors(seed: int) -> list[torch.Tensor]:
        arguments = exercise.inputs(case, torch.Generator().manual_seed(seed))
        return [a for a in arguments if isinstance(a, torch.Tensor) and a.numel() > 8]

    for first, again in zip(tensors(1), tensors(1), strict=True):
        assert torch.equal(torch.nan_to_num(first), torch.nan_to_num(again))


@pytest.mark.parametrize("exercise", COURSE.exercises, ids=by_id)
def test_every_case_has_inputs_and_an_oracle(exercise):
    for case in exercise.cases:
        if not case.needs_gpu:
            arguments = exercise.inputs(case, torch.Generator().manual_seed(1))
            assert exercise.oracle(*arguments) is not None


def test_a_chapter_is_found_by_its_files_alone(tmp_path):
    (tmp_path / "checkers" / "chapters").mkdir(parents=True)
    (tmp_path / "checkers" / "chapters" / "ch07_new.py").write_text("EXERCISES = ()\n")
    course = Course(tmp_path)
    assert [chapter.name for chapter in course.chapters] == ["ch07_new"]
    assert course.chapter("ch07").title == "new"


def test_an_unknown_name_gets_the_closest_ones():
    with pytest.raises(CourseError, match="did you mean ch02.row_softmax"):
        COURSE.exercise("ch02.row_sofmax")
    with pytest.raises(CourseError, match="did you mean"):
        COURSE.chapter("ch22")


def test_a_skeleton_needs_its_markers_closed():
    cell = f"def f():\n    {answers.BEGIN} fill it in (1 line)\n    return 1\n"
    with pytest.raises(answers.AnswerError, match="never closed"):
        answers.skeleton(cell)
    closed = cell + f"    {answers.END}\n"
    assert answers.skeleton(closed) == (
        "def f():\n    # YOUR CODE HERE: fill it in (1 line)\n"
        '    raise NotImplementedError("fill it in (1 line)")\n'
    )


def test_a_mistake_must_replace_text_that_is_there_once():
    with pytest.raises(answers.AnswerError, match="occurs 2 times"):
        answers.with_mistake("a = 1\nb = 1\n", (("= 1", "= 2"),), "")


def test_reports_replay_and_fields_survive_json(grader):
    exercise = COURSE.exercises[0]
    report = grader.grade(exercise, answers.from_solution(COURSE, exercise.id), "simulator", seed=3)
    data = report.to_json()
    assert data["seed"] == 3
    assert data["max_points"] == exercise.points
    assert replace(report, stages=()).to_json()["stages"] == []
