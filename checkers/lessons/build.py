"""Builds what the course derives from its masters, so that building twice changes no byte.

* ``chapters/chNN_name/lesson.ipynb`` from ``lesson.md`` and the chapter's solution;
* the marked blocks of ``README.md`` and ``docs/*.md`` from ``docs/data/``.

A notebook that a learner has written in is not overwritten: their cells move into the rebuilt one
(``checkers/lessons/learner.py``).
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

from checkers import rendering
from checkers.answers import MAGIC, AnswerError
from checkers.course import Chapter, Course, CourseError
from checkers.lessons.directives import LessonError, expand
from checkers.lessons.learner import keep_learners_cells
from checkers.lessons.plots import build_plots

# Whatever else Jupyter writes here (language version, widgets) would change with the machine.
METADATA = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def to_standard_error(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def build(
    course: Course,
    check: bool = False,
    chapters: Iterable[str] = (),
    fresh: bool = False,
    say: Callable[[str], None] = to_standard_error,
) -> list[Path]:
    """Builds every notebook, plot and marked block; returns the paths that changed.

    check: write nothing; the paths returned are those that are stale.
    chapters: only these notebooks ("ch02"), and no plots, README.md or docs.
    fresh: drop what a learner wrote in a notebook instead of keeping it.
    say: told about kept cells, and numbers that nobody has measured yet.
    Raises LessonError with everything that is wrong in any lesson; what is right is built first.
    """
    names = list(chapters)
    chosen = [course.chapter(name) for name in names] if names else list(course.chapters)
    changed: list[Path] = []
    problems: list[str] = []
    rendering.misses()  # of whoever rendered before
    if not names:
        changed += build_plots(course, check)  # first: lessons show them
    for chapter in chosen:
        try:
            changed += _build_notebook(course, chapter, check, fresh, say)
        except LessonError as error:
            problems += error.problems
        except (AnswerError, CourseError) as error:
            problems.append(f"{chapter.name}: {error}")
    if not names:
        for path in _marked_files(course):
            try:
                text = path.read_text(encoding="utf-8")
                changed += _write(path, rendering.render_markers(text, path), check)
            except ValueError as error:
                problems.append(str(error))
    for miss in rendering.misses():
        say(f"not measured yet: {miss}")
    if problems:
        raise LessonError(problems)
    return changed


def notebook_of(course: Course, chapter: Chapter) -> NotebookNode:
    """The chapter's notebook, as the course ships it. Raises LessonError, AnswerError."""
    if not chapter.lesson.is_file():
        where = chapter.lesson.relative_to(course.root)
        raise LessonError([f"{where} is missing: every chapter has a lesson"])
    notebook = jupytext.reads(expand(course, chapter), fmt="md:myst")
    seen: Counter[str] = Counter()
    for cell in notebook.cells:
        mark(cell, chapter)
        seen[cell.id] += 1
        if seen[cell.id] > 1:
            cell.id = f"{cell.id}-{seen[cell.id]}"
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def mark(cell: NotebookNode, chapter: Chapter) -> None:
    """Gives a built cell its id, and the fingerprint by which a later build knows it again.

    The id depends on the cell alone, not on its place, so that a new paragraph in a lesson
    changes one cell of the notebook.
    """
    built = fingerprint(cell)
    cell.metadata["ladder"] = {"built": built}
    cell.id = f"{chapter.short}-{built}"
    first = cell.source.partition("\n")[0].split()
    if cell.cell_type == "code" and first[:1] == [MAGIC]:
        cell.metadata["ladder"]["exercise"] = first[1]
        cell.id = first[1].replace(".", "-")


def fingerprint(cell: NotebookNode) -> str:
    """A short hash of a cell's type and text."""
    return hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:12]


def canonical(notebook: NotebookNode) -> str:
    """The notebook's text: sorted keys, no outputs, no counts, one newline at the end.

    Raises nbformat.ValidationError when it is no notebook of format 4.5.
    """
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.validate(notebook)
    return nbformat.writes(notebook, version=4).rstrip("\n") + "\n"


def _build_notebook(
    course: Course, chapter: Chapter, check: bool, fresh: bool, say: Callable[[str], None]
) -> list[Path]:
    notebook = notebook_of(course, chapter)
    path = chapter.notebook
    where = path.relative_to(course.root)
    if not check and not fresh and path.exists():
        kept = keep_learners_cells(path, notebook, fingerprint)
        if kept:
            say(
                f"{where}: kept what you wrote: {', '.join(kept)}. "
                f"`ladder build --fresh {chapter.short}` would drop it."
            )
    return _write(path, canonical(notebook), check)


def _marked_files(course: Course) -> list[Path]:
    files = [course.root / "README.md", *sorted((course.root / "docs").rglob("*.md"))]
    return [file for file in files if file.is_file()]


def _write(path: Path, text: str, check: bool) -> list[Path]:
    """Writes ``text`` if the file holds anything else; [path] if it did, or would."""
    new = text.encode()
    if path.exists() and path.read_bytes() == new:
        return []
    if not check:
        # Never half a notebook: the old one may be a learner's.
        written = path.with_name(f".{path.name}.new")
        written.write_bytes(new)
        os.replace(written, path)
    return [path]


def main(arguments: list[str]) -> int:
    """``python -m checkers.lessons.build [--check] [CHAPTER ...]``, as `ladder build` does."""
    flags = {argument for argument in arguments if argument.startswith("--")}
    names = [argument for argument in arguments if not argument.startswith("--")]
    course = Course.find()
    try:
        changed = build(course, "--check" in flags, names, "--fresh" in flags)
    except (LessonError, CourseError) as error:
        to_standard_error(str(error))
        return 2
    for path in changed:
        verb = "stale" if "--check" in flags else "built"
        to_standard_error(f"{verb}: {path.relative_to(course.root)}")
    return 1 if changed and "--check" in flags else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
