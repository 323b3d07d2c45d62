"""A report in a terminal: legible at 80 columns and without colours, and nothing to copy is cut."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console, RenderableType

from checkers.exercise import Finding, Report, Stage, Verdict
from checkers.report_text import Place, render, render_line, render_open, render_summary

FINDING = Finding(
    summary="wrong on 2 of 9 cases",
    case="tail_1 (M=4, N=129): one element past a tile",
    element="[3, 128]: got nan, expected 0.0071",
    picture="0 " + "." * 100 + "\n1 ....N\nrow down, column to the right; 8 x 512 elements a "
    "character, the worst of them shown",
    probable="The load has no `other` [bold]here[/bold].",
    reread="Masks and the tail",
    output="hello\nworld",
)
FAILED = Report(
    "ch02.row_softmax",
    Verdict.FAIL,
    0,
    10,
    123,
    (
        Stage("source", Verdict.PASS, "", 0.01),
        Stage("run", Verdict.FAIL, "wrong on 2 of 9 cases", 0.84, finding=FINDING),
        Stage("speed", Verdict.SKIP, "needs a GPU"),
    ),
)
PASSED = Report(
    "ch02.row_softmax",
    Verdict.PASS,
    8,
    10,
    123,
    (Stage("source", Verdict.PASS), Stage("speed", Verdict.SKIP, "needs a GPU")),
    2,
)
UNTOUCHED = Report("ch02.autotune", Verdict.NOT_ATTEMPTED, 0, 10, 1, ())
PLACE = Place("One row a program", "chapters/ch02_triton_softmax/lesson.ipynb", "Rows")


def printed(what: RenderableType, width: int = 80) -> str:
    file = io.StringIO()
    Console(file=file, width=width).print(what)
    return file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_finding_is_told_in_full_at_any_width(width):
    text = printed(render(FAILED, PLACE), width)
    assert max(map(len, text.splitlines())) <= width
    joined = " ".join(text.split())
    for part in (
        "[3, 128]: got nan, expected 0.0071",
        "The load has no `other` [bold]here[/bold].",
        "one element past a tile",
        "“Masks and the tail”",
        "the worst of them shown",
        "hello world",
        "0 of 10 points",
    ):
        assert part in joined


def test_a_drawing_is_cut_and_never_wrapped():
    lines = printed(render(FAILED, PLACE)).splitlines()
    row = next(number for number, line in enumerate(lines) if line.startswith("  0 ..."))
    assert lines[row].rstrip().endswith("…")
    assert lines[row + 1].strip() == "1 ....N"


def test_the_command_that_replays_a_failure_is_whole():
    path = "/a/rather/long/folder/that/does/not/fit/into/the/width/of/a/terminal/mine.py"
    replay = f"ladder check ch02.row_softmax --file {path} --seed 123"
    text = printed(render(FAILED, PLACE, replay=replay))
    assert replay.replace(" ", "") in "".join(text.split())


def test_the_reason_is_not_said_twice():
    assert printed(render(FAILED, PLACE)).count("wrong on 2 of 9 cases") == 1


def test_a_finding_says_whether_the_simulator_or_the_gpu_made_it():
    assert "Where" not in printed(render(FAILED, PLACE))
    found = replace(FINDING, where="on the GPU; the simulator found no fault on 5 cases")
    failed = replace(FAILED, stages=(replace(FAILED.stages[1], finding=found),))
    text = printed(render(failed, PLACE))
    assert "  Where      on the GPU; the simulator found no fault on 5 cases" in text


def test_what_would_earn_the_open_points_is_said():
    text = printed(render(PASSED, PLACE))
    assert "8 of 10 points, 2 open" in text
    assert "Open       speed: needs a GPU" in text
    assert "Replay" not in text


def test_an_untouched_skeleton_says_where_its_blanks_are():
    assert "chapters/ch02_triton_softmax/lesson.ipynb" in printed(render(UNTOUCHED, PLACE))


def test_a_pass_in_a_long_run_takes_one_line():
    (line,) = printed(render_line(PASSED, PLACE)).splitlines()
    assert line.startswith("✓  ch02.row_softmax")
    assert line.rstrip().endswith("8/10, 2 open")


def test_many_reports_are_summed_up():
    reports = [PASSED, PASSED, FAILED, UNTOUCHED]
    summary = printed(render_summary(reports)).strip()
    assert summary == "2 passed, 1 failed, 1 not attempted, 16 of 40 points, 4 open"
    assert printed(render_open(reports)).strip() == "open  speed: needs a GPU (2 exercises)"


def test_marks_tell_verdicts_apart_without_colours():
    text = printed(render(FAILED, PLACE))
    assert "✓ source" in text
    assert "✗ run" in text
    assert "– speed" in text
    assert "\x1b" not in text
