"""The ladder as README.md shows it: a table made from the course, between two markers."""

from __future__ import annotations

import re
from pathlib import Path

from checkers.course import Chapter, Course
from checkers.rendering import markdown_table

BEGIN, END = "<!-- ladder -->", "<!-- /ladder -->"


def update(course: Course, check: bool = False) -> list[Path]:
    """Write the table into README.md; returns the file if it changed, or would (``check``).

    A README.md without the markers is left alone.
    """
    path = course.root / "README.md"
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    block = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    rendered = block.sub(lambda _: f"{BEGIN}\n\n{table(course)}\n\n{END}", text)
    if rendered == text:
        return []
    if not check:
        path.write_text(rendered, encoding="utf-8")
    return [path]


def table(course: Course) -> str:
    """One line a chapter: what it is called, how much there is to do, what needs no GPU."""
    head = ("rung", "lesson", "exercises", "points", "minutes", "graded without a GPU")
    lines = []
    for chapter in course.chapters:
        notebook = chapter.notebook.relative_to(course.root)
        exercises = chapter.exercises
        lines.append(
            (
                chapter.short,
                f"[{chapter.title}]({notebook})",
                len(exercises),
                sum(exercise.points for exercise in exercises),
                sum(exercise.minutes for exercise in exercises),
                without_gpu(chapter),
            )
        )
    return markdown_table(head, lines)


def without_gpu(chapter: Chapter) -> str:
    """Which stages of the chapter's exercises a machine without a GPU grades, in words."""
    timed = [exercise for exercise in chapter.exercises if exercise.speed]
    if any(not exercise.floors for exercise in timed):
        return "all but speed"
    return "everything; speed is counted" if timed else "everything"
