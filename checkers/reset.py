"""Puts the blank of an exercise back into its notebook, after keeping what the learner wrote."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import nbformat

from checkers.answers import MAGIC, skeleton_of
from checkers.course import Course
from checkers.lessons.build import build
from checkers.lessons.learner import exercise_of, read_notebook
from checkers.progress import Progress


@dataclass(frozen=True)
class Reset:
    """What was done. kept: the copies of what stood there.  state: "reset", "already blank" or
    "put back" (there was no such cell)."""

    exercise: str
    state: str
    kept: tuple[Path, ...] = ()


def reset(course: Course, exercise_id: str) -> Reset:
    """Make the exercise's cell in the chapter's notebook the untouched skeleton again.

    Every other cell stays as it is. Raises CourseError for an unknown exercise, AnswerError for a
    notebook that can't be read.
    """
    chapter = course.chapter(course.exercise(exercise_id).id)
    blank = skeleton_of(course, exercise_id).strip("\n")
    if not chapter.notebook.exists():
        build(course, chapters=[chapter.short], say=lambda text: None)
        return Reset(exercise_id, "put back")
    notebook = read_notebook(chapter.notebook)
    cells = [cell for cell in notebook.cells if exercise_of(cell) == exercise_id]
    if not cells:
        build(course, chapters=[chapter.short], say=lambda text: None)
        return Reset(exercise_id, "put back")
    progress = Progress(course.root)
    kept: list[Path] = []
    for cell in cells:
        _, _, written = cell.source.partition("\n")
        if written.strip("\n") != blank:
            kept.append(progress.save_answer(exercise_id, written))
            cell.source = f"{MAGIC} {exercise_id}\n{blank}"
            cell.outputs, cell.execution_count = [], None
    # A copy of the exercise further down would make the answer ambiguous.
    notebook.cells = [cell for cell in notebook.cells if cell not in cells[1:]]
    if kept or len(cells) > 1:
        written_to = chapter.notebook.with_name(f".{chapter.notebook.name}.new")
        written_to.write_text(nbformat.writes(notebook).rstrip("\n") + "\n", encoding="utf-8")
        os.replace(written_to, chapter.notebook)
    return Reset(exercise_id, "reset" if kept else "already blank", tuple(kept))
