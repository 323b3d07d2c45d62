"""A Report as text for a terminal: what each stage said, then the finding as a lesson.

Everything is legible without colour, at 80 columns, and in a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from checkers.exercise import Verdict

if TYPE_CHECKING:  # checkers.exercise imports torch; `ladder list` has no need of it here
    from checkers.exercise import Finding, Report, Stage

MARKS = {"pass": "✓", "fail": "✗", "skip": "–", "undecided": "?", "not_attempted": "·"}
STYLES = {
    "pass": "green",
    "fail": "red",
    "skip": "dim",
    "undecided": "yellow",
    "not_attempted": "dim",
}
WORDS = {
    "pass": "passed",
    "fail": "failed",
    "skip": "skipped",
    "undecided": "undecided",
    "not_attempted": "not attempted",
}


@dataclass(frozen=True)
class Place:
    """Where an exercise stands in the course, for the words around its report.

    title: of the exercise.  lesson: its notebook, relative to the course.  section: the heading
    that teaches it.
    """

    title: str = ""
    lesson: str = ""
    section: str = ""


def points_text(points: int, max_points: int, open_points: int = 0) -> str:
    """ "6 of 10 points, 4 open": what is earned, and what another machine could still give."""
    text = f"{points} of {max_points} point{'' if max_points == 1 else 's'}"
    return f"{text}, {open_points} open" if open_points else text


def render(
    report: Report, place: Place | None = None, *, replay: str | None = None
) -> RenderableType:
    """The whole report as something a rich console prints.

    replay: the command that repeats this run; by default a check of the notebook with its seed.
    """
    place = place or Place()
    if report.verdict.value == "not_attempted":
        return _not_attempted(report, place)
    parts: list[RenderableType] = [_headline(report, place), _stages(report.stages)]
    for stage in report.stages:
        if stage.finding is not None:
            parts += [Text(), Padding(_finding(stage.finding, place), (0, 0, 0, 2))]
    closing = _closing(report, replay or f"ladder check {report.id} --seed {report.seed}")
    parts += [Text(), Padding(closing, (0, 0, 0, 2))]
    return Group(*parts)


def render_line(report: Report, place: Place | None = None) -> RenderableType:
    """A report that needs no explaining in one line: a pass, or an untouched skeleton."""
    verdict = report.verdict.value
    table = Table.grid(expand=True, padding=(0, 2, 0, 0))
    table.add_column(width=1)
    table.add_column(min_width=22, no_wrap=True)  # lines of many reports form a table
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", no_wrap=True)
    points = f"{report.points}/{report.max_points}"
    points += f", {report.open_points} open" if report.open_points else ""
    table.add_row(
        Text(MARKS[verdict], STYLES[verdict]),
        Text(report.id, "bold"),
        Text(WORDS[verdict] if verdict != "pass" or place is None else place.title),
        Text(points),
    )
    return table


def render_open(reports: Sequence[Report]) -> RenderableType:
    """What was left open in many reports, each reason once: "speed: needs a GPU (5 exercises)"."""
    counts: dict[str, int] = {}
    for report in reports:
        for reason in open_reasons(report.stages) if report.open_points else []:
            counts[reason] = counts.get(reason, 0) + 1
    lines = [
        f"open  {reason} ({count} exercise{'' if count == 1 else 's'})"
        for reason, count in counts.items()
    ]
    return Text("\n".join(lines))


def render_summary(reports: Sequence[Report]) -> RenderableType:
    """One line for many reports: how many passed, failed, wait; the points; what is still open."""
    text = Text()
    for verdict in ("pass", "fail", "undecided", "not_attempted"):
        count = sum(report.verdict.value == verdict for report in reports)
        if count:
            text.append(f"{count} {WORDS[verdict]}", STYLES[verdict]).append(", ")
    points = points_text(
        sum(report.points for report in reports),
        sum(report.max_points for report in reports),
        sum(report.open_points for report in reports),
    )
    return text.append(points)


def open_reasons(stages: Iterable[Stage]) -> list[str]:
    """For each skipped stage that could still be earned elsewhere: "speed: needs a GPU"."""
    return [f"{stage.name}: {stage.reason}" for stage in stages if stage.verdict.value == "skip"]


def outcome(report: Report) -> str:
    """The verdict in a word or two; one that rests on no run says so."""
    skipped = {stage.name for stage in report.stages if stage.verdict is Verdict.SKIP}
    unrun = report.verdict is Verdict.PASS and "run" in skipped
    return "passed, not run yet" if unrun else WORDS[report.verdict.value]


def _headline(report: Report, place: Place) -> RenderableType:
    verdict = report.verdict.value
    left = Text(report.id, "bold")
    if place.title:
        left.append(f"  {place.title}", "not bold")
    right = Text(outcome(report), f"bold {STYLES[verdict]}")
    table = Table.grid(expand=True, padding=(0, 2, 0, 0))
    table.add_column(ratio=1)
    table.add_column(justify="right", no_wrap=True)
    table.add_row(left, right)
    return table


def _not_attempted(report: Report, place: Place) -> RenderableType:
    text = Text("· ", "dim").append(report.id, "bold").append("  not attempted yet")
    if place.lesson:
        text.append(f": its blanks are in {place.lesson}")
    return text


def _stages(stages: Sequence[Stage]) -> RenderableType:
    table = Table.grid(expand=True, padding=(0, 1, 0, 0))
    table.add_column(width=3, justify="right")
    table.add_column(width=8)
    table.add_column(ratio=1, overflow="fold")
    table.add_column(width=8, justify="right", no_wrap=True)
    for stage in stages:
        style = STYLES[stage.verdict.value]
        table.add_row(
            Text(MARKS[stage.verdict.value], style),
            Text(stage.name, style),
            Text(_in_a_line(stage)),
            Text(f"{stage.seconds:.1f} s" if stage.seconds >= 0.05 else "", "dim"),
        )
    return table


def _in_a_line(stage: Stage) -> str:
    if stage.finding is not None and stage.reason == stage.finding.summary:
        return f"{WORDS[stage.verdict.value]}, see below"
    return stage.reason or WORDS[stage.verdict.value]


def _finding(finding: Finding, place: Place) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=9, no_wrap=True)
    table.add_column(overflow="fold")  # a cut path or command can't be copied

    def row(label: str, content: str, style: str = "") -> None:
        if content:
            table.add_row(Text(label, "dim"), Text(content.strip("\n"), style))

    row("Wrong", finding.summary, "bold")
    row("Where", finding.where)
    row("Case", finding.case)
    row("Element", finding.element)
    parts: list[RenderableType] = [table]
    if finding.picture:
        parts += [Text(), *_picture(finding.picture), Text()]
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=9, no_wrap=True)
        table.add_column(overflow="fold")
        parts.append(table)
    row("Probably", finding.probable, "bold")
    if finding.reread or place.section:
        where = f" in {place.lesson}" if place.lesson else ""
        row("Reread", f"“{finding.reread or place.section}”{where}")
    row("Printed", finding.output)
    return Group(*parts)


def _picture(picture: str) -> list[RenderableType]:
    """Line by line: a cut line of a drawing is still a picture, a wrapped one is not. Lines that
    begin with a letter are words about it."""
    return [
        Text(line) if line.lstrip()[:1].isalpha() else Text(line, no_wrap=True, overflow="ellipsis")
        for line in picture.strip("\n").splitlines()
    ]


def _closing(report: Report, replay: str) -> RenderableType:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(width=9, no_wrap=True)
    table.add_column(overflow="fold")  # a cut path or command can't be copied
    points = points_text(report.points, report.max_points, report.open_points)
    table.add_row(Text("Points", "dim"), Text(points))
    for reason in open_reasons(report.stages) if report.open_points else []:
        table.add_row(Text("Open", "dim"), Text(reason))
    if report.verdict.value in ("fail", "undecided"):
        table.add_row(Text("Replay", "dim"), Text(replay))
    return table
