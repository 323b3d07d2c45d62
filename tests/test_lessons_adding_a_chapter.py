"""The chapter in docs/adding_a_chapter.md is taken out of the page, built and graded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from checkers.answers import Answer, from_solution, skeleton_of, with_mistake
from checkers.course import Course
from checkers.exercise import Report, Verdict
from checkers.grading.grader import Grader
from checkers.lessons.build import build
from checkers.lessons.directives import DIRECTIVES, ROLES

PAGE = Path(__file__).resolve().parent.parent / "docs" / "adding_a_chapter.md"
FILE = re.compile(r"<!-- file: (\S+) -->\s*")


def files_on_the_page() -> dict[str, str]:
    """The blocks that stand below a ``<!-- file: PATH -->``."""
    tokens = MarkdownIt("commonmark").parse(PAGE.read_text(encoding="utf-8"))
    found = {}
    for marker, fence in zip(tokens, tokens[1:], strict=False):
        named = FILE.fullmatch(marker.content) if marker.type == "html_block" else None
        if named:
            assert fence.type == "fence", f"no code block below {marker.content}"
            found[named[1]] = fence.content
    return found


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    root = tmp_path_factory.mktemp("course")
    for name, text in files_on_the_page().items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Course(root)


@pytest.fixture(scope="module")
def grader(course: Course) -> Iterator[Grader]:
    with Grader(course) as warm:
        yield warm


def explained(report: Report) -> str:
    return "\n".join(
        f"{stage.name}: {stage.finding.summary} {stage.finding.probable}"
        for stage in report.stages
        if stage.finding
    )


def test_a_chapter_is_one_folder_and_two_files():
    assert sorted(files_on_the_page()) == [
        "chapters/ch13_triton_axpy/lesson.md",
        "checkers/chapters/ch13_triton_axpy.py",
        "solutions/ch13_triton_axpy.py",
    ]


def test_it_builds(course):
    (chapter,) = course.chapters
    assert build(course) == [chapter.notebook]
    assert build(course, check=True) == []
    assert "%%exercise ch13.axpy" in chapter.notebook.read_text()


def test_it_has_what_every_exercise_has(course):
    (exercise,) = course.exercises
    assert len(exercise.mistakes) >= 5
    assert all(exercise.hints)
    assert {mistake.stage for mistake in exercise.mistakes} <= set(exercise.rung.stages)


@pytest.mark.slow
def test_its_reference_passes_and_its_blank_is_not_attempted(course, grader):
    (exercise,) = course.exercises
    reference = from_solution(course, exercise.id)
    solved = grader.grade(exercise, reference, device="simulator")
    assert solved.verdict is Verdict.PASS, explained(solved)
    blank = Answer(skeleton_of(course, exercise.id), "a test", reference.setup)
    assert grader.grade(exercise, blank, device="simulator").verdict is Verdict.NOT_ATTEMPTED


@pytest.mark.slow
def test_its_known_mistakes_are_rejected_and_explained(course, grader):
    (exercise,) = course.exercises
    reference = from_solution(course, exercise.id)
    for mistake in exercise.mistakes:
        source = with_mistake(reference.source, mistake.replace, mistake.answer)
        answer = Answer(source, mistake.name, reference.setup)
        report = grader.grade(exercise, answer, device="simulator")
        failed = [stage.name for stage in report.stages if stage.verdict is Verdict.FAIL]
        assert failed == [mistake.stage], (mistake.name, explained(report))
        assert mistake.diagnosis in explained(report), (mistake.name, explained(report))


def test_every_directive_and_role_is_on_the_page():
    text = PAGE.read_text(encoding="utf-8")
    for directive in (*DIRECTIVES, "code-cell"):
        assert f"```{{{directive}}}" in text, directive
    for role in ROLES:
        assert f"{{{role}}}`" in text, role
