"""``ladder list``: the rungs, their exercises, and how far a learner is."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from checkers.course import Chapter, Course
from checkers.lessons.directives import needs
from checkers.progress import Entry, Progress
from checkers.report_text import MARKS, STYLES, points_text


def as_json(course: Course, progress: Progress) -> dict[str, Any]:
    """What ``ladder list --json`` writes. status: the verdict of the best report so far."""
    entries = progress.entries()
    return {
        "schema": 1,
        "exercises": [
            {
                "id": exercise.id,
                "title": exercise.title,
                "points": exercise.points,
                "minutes": exercise.minutes,
                "needs": needs(exercise),
                "status": entries.get(exercise.id, Entry()).status,
            }
            for exercise in course.exercises
        ],
    }


def as_table(course: Course, progress: Progress) -> RenderableType:
    """Chapter by chapter, then the sum and what comes next. Fits 80 columns."""
    entries = progress.entries()
    parts: list[RenderableType] = []
    for chapter in course.chapters:
        title = Text(chapter.short, "bold").append(f"  {chapter.title}")
        parts += [title, _exercises(chapter, entries), Text()]
    exercises = course.exercises
    best = [entry.best for entry in entries.values() if entry.best]
    known = {exercise.id for exercise in exercises}
    earned = sum(
        entry.best.points for name, entry in entries.items() if name in known and entry.best
    )
    total = sum(exercise.points for exercise in exercises)
    parts.append(Text(points_text(earned, total) + (", so far" if best else "")))
    parts.append(_next(course, entries))
    return Group(*parts)


def _exercises(chapter: Chapter, entries: dict[str, Entry]) -> RenderableType:
    table = Table.grid(expand=True, padding=(0, 1, 0, 0))
    table.add_column(width=2, justify="right")
    table.add_column(min_width=22, no_wrap=True)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(width=7, justify="right", no_wrap=True)
    table.add_column(width=6, justify="right", no_wrap=True)
    for exercise in chapter.exercises:
        entry = entries.get(exercise.id, Entry())
        earned = entry.best.points if entry.best else 0
        table.add_row(
            Text(MARKS[entry.status], STYLES[entry.status]),
            Text(exercise.id),
            Text(exercise.title),
            Text(f"{earned}/{exercise.points}"),
            Text(f"{exercise.minutes} min", "dim"),
        )
    return table


def _next(course: Course, entries: dict[str, Entry]) -> RenderableType:
    for exercise in course.exercises:
        if entries.get(exercise.id, Entry()).status != "pass":
            notebook = course.chapter(exercise.id).notebook.relative_to(course.root)
            return Text(f"Next: {exercise.id}, in {notebook}", overflow="fold")
    return Text("Every exercise has passed.")
