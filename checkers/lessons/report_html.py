"""A report as HTML for a notebook: self-contained, readable on light and on dark pages.

Every colour is either inherited from the page or stands on its own filled badge; styles are
attributes, because notebook viewers drop style sheets. All text that comes from an answer is
escaped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from checkers.exercise import Exercise, Finding, Report, Stage, Verdict
from checkers.report_text import WORDS, open_reasons, outcome, points_text

# White text on each of these has a contrast of at least 4.5 to 1.
COLOURS = {
    Verdict.PASS: "#1a7f37",
    Verdict.FAIL: "#c62828",
    Verdict.SKIP: "#6a737d",
    Verdict.UNDECIDED: "#8a5a00",
    Verdict.NOT_ATTEMPTED: "#6a737d",
}

_BOX = (
    "border:1px solid rgba(128,128,128,.4);border-radius:6px;padding:.7em 1em;max-width:60em;"
    "margin:.3em 0;line-height:1.45"
)
_BADGE = (
    "display:inline-block;min-width:4.5em;text-align:center;border-radius:4px;padding:0 .5em;"
    "color:#fff;font-size:.85em"
)
# Notebooks style tables of their own accord: stripes, right-aligned cells, a smaller font.
_TABLE = "border-collapse:collapse;margin:.5em 0;color:inherit;font-size:inherit"
_CELL = (
    "text-align:left;vertical-align:top;padding:.15em .7em .15em 0;border:0;background:none;"
    "color:inherit"
)
_QUIET = "opacity:.75;font-size:.9em"
# Error pictures line up only in a fixed pitch, which some pages take from `pre`.
_MONO = "font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"
_PICTURE = (
    "background:rgba(128,128,128,.12);color:inherit;padding:.5em .8em;margin:.4em 0;"
    "border-radius:4px;overflow-x:auto;font-size:.9em;line-height:1.25;white-space:pre;"
    f"{_MONO}"
)
_FINDING = "border-left:3px solid #c62828;padding-left:.9em;margin:.6em 0 .2em"


def report_html(report: Report, origin: str = "") -> str:
    """The whole report. origin: what was graded, said when it is not the learner's cell."""
    points = points_text(report.points, report.max_points, report.open_points)
    head = (
        f"{badge(report.verdict, outcome(report))} &nbsp;<b>{escape(report.id)}</b> &nbsp;{points}"
    )
    graded = f'<div style="{_QUIET}">Graded: {escape(origin)}.</div>' if origin else ""
    body = ""
    if report.verdict is not Verdict.NOT_ATTEMPTED:
        body = _table(report.stages) + "".join(
            _finding(stage.finding) for stage in report.stages if stage.finding
        )
    return f'<div style="{_BOX}"><div>{head}</div>{graded}{body}{_closing(report)}</div>'


def sentence_html(title: str, text: str, verdict: Verdict, details: str = "") -> str:
    """One sentence in the place of a report; ``details`` can be unfolded."""
    folded = _folded("Details for whoever mends it", details) if details else ""
    shown = f'<div style="margin-top:.4em">{escape(text)}</div>'
    return f'<div style="{_BOX}">{badge(verdict, title)}{shown}{folded}</div>'


def running_html(exercise_id: str, done: list[Stage], now: str) -> str:
    """What stands there while grading goes on: the stages so far, and what is being done."""
    return (
        f'<div style="{_BOX}"><b>{escape(exercise_id)}</b>{_table(done)}'
        f'<div style="{_QUIET}">{escape(now)} …</div></div>'
    )


def hint_html(exercise_id: str, hints: Sequence[str], available: int) -> str:
    """The hints seen so far, and how many there are."""
    items = "".join(f"<li>{escape(hint)}</li>" for hint in hints)
    return (
        f'<div style="{_BOX}"><b>{escape(exercise_id)}</b>: hint {len(hints)} of {available}'
        f'<ol style="margin:.3em 0">{items}</ol></div>'
    )


def progress_html(rows: Sequence[tuple[Exercise, Verdict, int]]) -> str:
    """A line an exercise, given with its best verdict and points; the sum below."""
    lines = "".join(
        f'<tr style="background:none"><td style="{_CELL}">{badge(verdict)}</td>'
        f'<td style="{_CELL}">{escape(exercise.id)}</td>'
        f'<td style="{_CELL}">{escape(exercise.title)}</td>'
        f'<td style="{_CELL}">{points} of {exercise.points}</td></tr>'
        for exercise, verdict, points in rows
    )
    earned = sum(points for _, _, points in rows)
    total = sum(exercise.points for exercise, _, _ in rows)
    return (
        f'<div style="{_BOX}"><table style="{_TABLE}">{lines}</table>'
        f"<b>{points_text(earned, total)}</b></div>"
    )


def badge(verdict: Verdict, word: str = "") -> str:
    shown = escape(word or WORDS[verdict.value])
    return f'<span style="{_BADGE};background:{COLOURS[verdict]}">{shown}</span>'


def measures_text(measures: Mapping[str, Any]) -> str:
    """The plain numbers and words among a stage's measures, "registers 32 · spill bytes 0"."""
    shown = []
    for name, found in measures.items():
        if isinstance(found, float):
            found = f"{found:.3g}"
        if isinstance(found, int | str) and str(found):
            shown.append(f"{name.replace('_', ' ')} {found}")
    return " · ".join(shown)


def _table(stages: Sequence[Stage]) -> str:
    rows = "".join(_stage_row(stage) for stage in stages)
    return f'<table style="{_TABLE}">{rows}</table>' if rows else ""


def _stage_row(stage: Stage) -> str:
    # The finding below says the reason of a failure at length.
    reason = "" if stage.finding else escape(stage.reason)
    seconds = f"{stage.seconds:.1f} s" if stage.seconds >= 0.05 else ""
    return (
        f'<tr style="background:none"><td style="{_CELL}">'
        f'{badge(stage.verdict)}</td><td style="{_CELL}"><b>{escape(stage.name)}</b></td>'
        f'<td style="{_CELL};{_QUIET};white-space:nowrap">{seconds}</td>'
        f'<td style="{_CELL}">{reason}</td></tr>'
    )


def _finding(finding: Finding) -> str:
    parts = [f"<b>{escape(finding.summary)}</b>"]
    if finding.where:
        parts.append(f"Where: {escape(finding.where)}")
    if finding.case:
        parts.append(f"Case {escape(finding.case)}")
    if finding.element:
        parts.append(f"<code>{escape(finding.element)}</code>")
    lines = "<br>".join(parts)
    if finding.picture:
        lines += f'<pre style="{_PICTURE}">{escape(finding.picture)}</pre>'
    if finding.probable:
        lines += f"<div><b>Probably:</b> {escape(finding.probable)}</div>"
    if finding.reread:
        lines += f"<div><b>Reread:</b> {_heading_link(finding.reread)}</div>"
    if finding.output:
        lines += _folded("What your code printed", finding.output)
    return f'<div style="{_FINDING}">{lines}</div>'


def anchor(heading: str) -> str:
    """The fragment that Jupyter gives a heading: its text, without marks, joined by dashes."""
    return re.sub(r"[*_`]", "", heading.lstrip("# ")).strip().replace(" ", "-")


def _heading_link(heading: str) -> str:
    text = heading.lstrip("# ")
    return f'<a style="color:inherit" href="#{escape(anchor(heading))}">{escape(text)}</a>'


def _folded(title: str, text: str) -> str:
    return (
        f'<details style="margin-top:.4em"><summary>{escape(title)}</summary>'
        f'<pre style="{_PICTURE}">{escape(text)}</pre></details>'
    )


def _closing(report: Report) -> str:
    """What to do next; the numbers behind the verdicts, folded."""
    hint = _command(f"%hint {report.id}")
    if report.verdict is Verdict.NOT_ATTEMPTED:
        return _quiet(
            "The blank is as it was shipped: fill it in and run the cell again. "
            f"A first hint: {hint}"
        )
    lines = []
    if report.open_points:
        lines.append(f"Open points: {escape('; '.join(open_reasons(report.stages)))}")
    if report.verdict is Verdict.PASS:
        lines.append(f"Seed {report.seed}")
    else:
        again = _command(f"%%exercise {report.id} --seed {report.seed}")
        lines.append(f"The same inputs again: {again} &nbsp;·&nbsp; a hint: {hint}")
    measured = [(stage.name, measures_text(stage.measures)) for stage in report.stages]
    shown = "\n".join(f"{name}: {text}" for name, text in measured if text)
    return _quiet("<br>".join(lines)) + (_folded("Measured", shown) if shown else "")


def _command(text: str) -> str:
    return f'<code style="white-space:nowrap;{_MONO}">{escape(text)}</code>'


def _quiet(html: str) -> str:
    return f'<div style="{_QUIET};margin-top:.4em">{html}</div>'
