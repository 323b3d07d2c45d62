"""Building twice changes no byte, and never loses what a learner wrote."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import nbformat
import pytest

from checkers.course import Course
from checkers.lessons.build import build
from checkers.lessons.directives import LessonError
from tests.lessons_course import LESSON, SOLUTION, write_course

ANSWER = "%%exercise ch90.plus_one\ndef plus_one(a):\n    return a + 1  # mine"


@pytest.fixture
def course(tmp_path: Path) -> Course:
    made = write_course(tmp_path)
    build(made)
    return made


def notebook_of(course: Course) -> nbformat.NotebookNode:
    return nbformat.read(course.chapters[0].notebook, as_version=4)


def cell_with(notebook: nbformat.NotebookNode, text: str) -> nbformat.NotebookNode:
    (found,) = [cell for cell in notebook.cells if text in cell.source]
    return found


def edit(course: Course, changes: dict[str, str], end: str | None = None) -> None:
    """Writes what a learner would: cells by a text in them, with new sources; one more at the end."""
    notebook = notebook_of(course)
    for text, source in changes.items():
        cell_with(notebook, text).source = source
    if end is not None:
        notebook.cells.append(nbformat.v4.new_code_cell(end))
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.execution_count = 7
    nbformat.write(notebook, course.chapters[0].notebook)


def rebuilt(course: Course, lesson: str = LESSON, solution: str = SOLUTION) -> list[str]:
    """Builds the changed course; returns what was said."""
    said: list[str] = []
    build(write_course(course.root, lesson, solution), say=said.append)
    return said


def test_a_second_build_changes_nothing(course):
    before = course.chapters[0].notebook.read_bytes()
    assert build(course) == []
    assert build(course, check=True) == []
    assert course.chapters[0].notebook.read_bytes() == before


def test_the_notebook_is_canonical(course):
    text = course.chapters[0].notebook.read_text()
    data = json.loads(text)
    assert text == json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    assert (data["nbformat"], data["nbformat_minor"]) == (4, 5)
    assert list(data["metadata"]) == ["kernelspec"]
    code = [cell for cell in data["cells"] if cell["cell_type"] == "code"]
    assert [cell["outputs"] for cell in code] == [[]] * 4
    assert [cell["execution_count"] for cell in code] == [None] * 4
    nbformat.validate(nbformat.from_dict(data))


def test_the_notebook_is_the_same_on_every_machine(course):
    digest = hashlib.sha256(course.chapters[0].notebook.read_bytes()).hexdigest()
    assert digest == "bd1a8dc8bc95d09240c682d4913103743972c6724a3473e395b4509124d290f7"


def test_an_exercise_cell_is_marked_with_its_id(course):
    cell = cell_with(notebook_of(course), "%%exercise ch90.plus_two")
    assert cell.id == "ch90-plus_two"
    assert cell.metadata.ladder.exercise == "ch90.plus_two"


def test_a_new_paragraph_leaves_the_other_cells_ids_alone(course):
    before = [cell.id for cell in notebook_of(course).cells]
    rebuilt(course, LESSON.replace("## The end", "## New\n\nA section.\n\n## The end"))
    after = [cell.id for cell in notebook_of(course).cells]
    assert len(after) == len(before) + 1
    assert [identity for identity in after if identity in before] == before


def test_equal_cells_have_different_ids(course):
    twice = '```{code-cell} python3\nprint("ordinary")\n```\n'
    rebuilt(course, LESSON.replace("Done.", twice))
    ids = [cell.id for cell in notebook_of(course).cells]
    assert len(set(ids)) == len(ids)


def test_check_names_the_stale_notebook_and_writes_nothing(course):
    before = course.chapters[0].notebook.read_bytes()
    changed = write_course(course.root, LESSON.replace("Done.", "Finished."))
    assert build(changed, check=True) == [course.chapters[0].notebook]
    assert course.chapters[0].notebook.read_bytes() == before


def test_outputs_alone_make_no_learners_cell(course):
    before = course.chapters[0].notebook.read_bytes()
    edit(course, {})
    assert course.chapters[0].notebook.read_bytes() != before
    assert rebuilt(course) == []
    assert course.chapters[0].notebook.read_bytes() == before


def test_an_untouched_skeleton_follows_the_solution(course):
    rebuilt(course, solution=SOLUTION.replace("add one (1 line)", "one more (1 line)"))
    cell = cell_with(notebook_of(course), "%%exercise ch90.plus_one")
    assert "# YOUR CODE HERE: one more (1 line)" in cell.source


def test_an_answer_survives_a_changed_lesson_and_skeleton(course):
    edit(course, {"%%exercise ch90.plus_one": ANSWER})
    said = rebuilt(
        course,
        LESSON.replace("Done.", "Finished."),
        SOLUTION.replace("add one (1 line)", "one more (1 line)"),
    )
    notebook = notebook_of(course)
    assert cell_with(notebook, "%%exercise ch90.plus_one").source == ANSWER
    assert cell_with(notebook, "## The end").source == "## The end\n\nFinished."
    assert said == [
        "chapters/ch90_adding/lesson.ipynb: kept what you wrote: ch90.plus_one. "
        "`ladder build --fresh ch90` would drop it."
    ]
    after = course.chapters[0].notebook.read_bytes()
    assert rebuilt(
        course,
        LESSON.replace("Done.", "Finished."),
        SOLUTION.replace("add one (1 line)", "one more (1 line)"),
    )
    assert course.chapters[0].notebook.read_bytes() == after


def test_cells_of_ones_own_and_edits_stay_where_they_were(course):
    edit(course, {"ordinary": 'print("edited")'}, end="my_own = 1")
    rebuilt(course, LESSON.replace("Then again.", "And again."))
    sources = [cell.source for cell in notebook_of(course).cells]
    assert 'print("edited")' in sources and 'print("ordinary")' not in sources
    assert sources[-1] == "my_own = 1"
    assert "And again." in sources


def test_an_edit_of_a_cell_that_the_lesson_changed_is_kept_beside_it(course):
    edit(course, {"ordinary": 'print("edited")'})
    rebuilt(course, LESSON.replace('print("ordinary")', 'print("new")'))
    sources = [cell.source for cell in notebook_of(course).cells]
    assert 'print("new")' in sources and 'print("edited")' in sources


def test_an_answer_to_an_exercise_that_is_gone_is_kept(course):
    edit(course, {"%%exercise ch90.plus_one": ANSWER.replace("plus_one", "old_one")})
    rebuilt(course)
    sources = [cell.source for cell in notebook_of(course).cells]
    assert ANSWER.replace("plus_one", "old_one") in sources
    assert sum(text.startswith("%%exercise ch90.plus_one") for text in sources) == 1


def test_a_second_answer_to_an_exercise_is_kept_too(course):
    second = ANSWER.replace("mine", "my second")
    edit(course, {"%%exercise ch90.plus_one": ANSWER}, end=second)
    rebuilt(course)
    sources = [cell.source for cell in notebook_of(course).cells]
    assert ANSWER in sources and second in sources


def test_fresh_drops_what_was_written(course):
    before = course.chapters[0].notebook.read_bytes()
    edit(course, {"%%exercise ch90.plus_one": ANSWER}, end="my_own = 1")
    build(course, fresh=True)
    assert course.chapters[0].notebook.read_bytes() == before


def test_a_damaged_notebook_is_not_overwritten(course):
    course.chapters[0].notebook.write_text('{"cells": [')
    with pytest.raises(LessonError, match="is not a notebook"):
        build(course)
    assert course.chapters[0].notebook.read_text() == '{"cells": ['


def test_a_chapter_without_a_lesson_is_named(course):
    course.chapters[0].lesson.unlink()
    with pytest.raises(LessonError, match="lesson.md is missing"):
        build(course)


def test_marked_blocks_of_the_readme_and_docs_are_built(course):
    readme = course.root / "README.md"
    readme.write_text("It is <!-- data: provenance nothing_here -->old<!-- /data -->.\n")
    said: list[str] = []
    assert build(course, check=True, say=said.append) == [readme]
    assert said == ["not measured yet: nothing_here.json does not exist"]
    assert build(course, say=said.append) == [readme]
    assert "-->(not measured yet)<!--" in readme.read_text()
    assert build(course, check=True, say=said.append) == []


def test_a_chosen_chapter_is_built_alone(course):
    (course.root / "README.md").write_text("<!-- data: bogus -->")
    assert build(course, chapters=["ch90"]) == []
