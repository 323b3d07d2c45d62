"""Whatever a learner does to a notebook and whatever the course does to its lesson: nothing that was
written is lost, and building once more changes nothing."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nbformat import NotebookNode

from checkers.answers import AnswerError
from checkers.lessons.build import canonical, fingerprint, notebook_of
from checkers.lessons.learner import keep_learners_cells, read_notebook
from tests.lessons_course import LESSON, SOLUTION, write_course

LESSONS = (
    LESSON,
    LESSON.replace("Done.", "Finished."),
    LESSON.replace('print("ordinary")', 'print("other")').replace("Then again.", ""),
    LESSON.replace("## The end", "## Another end\n\nMore.\n\n## The end"),
)
SOLUTIONS = (SOLUTION, SOLUTION.replace("add one (1 line)", "one more (1 line)"))

texts = st.sampled_from(
    ["x = 1", "# thoughts", "%%exercise ch90.plus_one\nmine", "%%exercise ch90.gone\nmine too", ""]
)
deeds = st.tuples(
    st.sampled_from(["edit", "add code", "add text", "delete", "copy", "move to the end"]),
    st.integers(0, 30),
    texts,
)


def do(notebook: NotebookNode, deed: str, number: int, text: str, serial: int) -> None:
    """One thing that a learner may do, to a cell chosen by ``number``."""
    place = number % len(notebook.cells)
    written = f"{text}  # {serial}" if text else ""
    if deed == "edit":
        notebook.cells[place].source = written
    elif deed == "add code":
        notebook.cells.insert(place, nbformat.v4.new_code_cell(written))
    elif deed == "add text":
        notebook.cells.insert(place, nbformat.v4.new_markdown_cell(written))
    elif deed == "copy":
        notebook.cells.append(nbformat.from_dict({**notebook.cells[place], "id": f"copy-{serial}"}))
    elif len(notebook.cells) > 1:
        cell = notebook.cells.pop(place)
        if deed == "move to the end":
            notebook.cells.append(cell)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    done=st.lists(deeds, max_size=8),
    lesson=st.sampled_from(LESSONS),
    solution=st.sampled_from(SOLUTIONS),
)
def test_nothing_that_was_written_is_lost(tmp_path, done, lesson, solution):
    old = write_course(tmp_path / "old")
    notebook = notebook_of(old, old.chapters[0])
    shipped = {cell.source for cell in notebook.cells}
    for serial, (deed, number, text) in enumerate(done):
        do(notebook, deed, number, text, serial)
    written = {cell.source for cell in notebook.cells if cell.source.strip()} - shipped
    path = tmp_path / "lesson.ipynb"
    path.write_text(canonical(notebook), encoding="utf-8")

    new = write_course(tmp_path / "new", lesson, solution)
    rebuilt = notebook_of(new, new.chapters[0])
    wanted = {cell.source for cell in rebuilt.cells}
    kept = keep_learners_cells(path, rebuilt, fingerprint)
    found = {cell.source for cell in rebuilt.cells}
    assert written <= found
    assert bool(kept) == bool(written)
    assert found - written <= wanted, "an old lesson's text was taken for the learner's"

    path.write_text(canonical(rebuilt), encoding="utf-8")
    again = notebook_of(new, new.chapters[0])
    keep_learners_cells(path, again, fingerprint)
    assert canonical(again) == canonical(rebuilt)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"nbformat": 4}', "# no notebook"])
def test_a_file_that_is_no_notebook_is_said_to_be_none(tmp_path: Path, text: str):
    path = tmp_path / "lesson.ipynb"
    path.write_text(text)
    with pytest.raises(AnswerError, match="is not a notebook"):
        read_notebook(path)


def test_a_notebook_without_the_builds_marks_keeps_its_answers(tmp_path):
    """Some services drop metadata and rename cells when they save."""
    course = write_course(tmp_path)
    notebook = notebook_of(course, course.chapters[0])
    for number, cell in enumerate(notebook.cells):
        cell.metadata, cell.id = nbformat.from_dict({}), f"renamed-{number}"
    answer = "%%exercise ch90.plus_one\nmine"
    notebook.cells[4].source = answer
    path = tmp_path / "lesson.ipynb"
    path.write_text(canonical(notebook), encoding="utf-8")
    rebuilt = notebook_of(course, course.chapters[0])
    assert keep_learners_cells(path, rebuilt, fingerprint) == ["ch90.plus_one"]
    assert rebuilt.cells[4].source == answer
    assert len(rebuilt.cells) == len(notebook.cells)


def test_pasted_pictures_come_along(tmp_path):
    course = write_course(tmp_path)
    notebook = notebook_of(course, course.chapters[0])
    picture = {"a.png": {"image/png": "AAAA"}}
    notebook.cells[0].source += "\n![a](attachment:a.png)"
    notebook.cells[0].attachments = picture
    path = tmp_path / "lesson.ipynb"
    path.write_text(canonical(notebook), encoding="utf-8")
    rebuilt = notebook_of(course, course.chapters[0])
    keep_learners_cells(path, rebuilt, fingerprint)
    assert rebuilt.cells[0].attachments == picture
