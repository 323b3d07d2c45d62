"""A report as HTML: everything escaped, legible on light and dark, every part in its place."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from checkers.exercise import Finding, Report, Stage, Verdict
from checkers.lessons.report_html import (
    COLOURS,
    measures_text,
    report_html,
    running_html,
    sentence_html,
)

FINDING = Finding(
    summary="14 of 516 elements are wrong & <script>alert(1)</script>",
    case="tail_1 (M=4, N=129)",
    element="[3, 128]: got nan, expected 0.0071",
    picture="....#\n....#",
    probable="The last tile is not masked.",
    reread="## Masks and the tail",
    output="<b>printed</b>",
)
FAILED = Report(
    "ch02.row_softmax",
    Verdict.FAIL,
    1,
    10,
    123,
    (
        Stage("source", Verdict.PASS),
        Stage("compile", Verdict.PASS, "32 registers", 1.25, {"registers": 32, "ratio": 0.93456}),
        Stage("run", Verdict.FAIL, FINDING.summary, 0.5, {}, FINDING),
        Stage("codegen", Verdict.PASS),
        Stage("speed", Verdict.SKIP, "needs a GPU"),
    ),
    open_points=3,
)


class Balanced(HTMLParser):
    """Fails on tags that are not closed in order; collects all text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def luminance(colour: str) -> float:
    def linear(channel: float) -> float:
        return channel / 12.92 if channel <= 0.03928 else ((channel + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(colour[i : i + 2], 16) / 255) for i in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_a_failure_shows_every_part_of_the_finding():
    text = Balanced(report_html(FAILED)).text
    for part in (
        "failed", "1 of 10 points, 3 open", FINDING.summary, "Case tail_1 (M=4, N=129)",
        FINDING.element, FINDING.picture, "Probably: The last tile is not masked.",
        "Masks and the tail", "<b>printed</b>", "%%exercise ch02.row_softmax --seed 123",
        "%hint ch02.row_softmax", "speed: needs a GPU", "compile: registers 32 · ratio 0.935",
    ):  # fmt: skip
        assert part in text, part


def test_what_an_answer_printed_is_escaped():
    html = report_html(FAILED)
    assert "<script" not in html and "<b>printed" not in html


def test_the_heading_to_reread_is_a_link_within_the_notebook():
    assert (
        '<a style="color:inherit" href="#Masks-and-the-tail">Masks and the tail</a>'
        in report_html(FAILED)
    )


def test_not_attempted_is_no_failure():
    stage = Stage("source", Verdict.NOT_ATTEMPTED, "as shipped")
    report = Report("ch02.row_softmax", Verdict.NOT_ATTEMPTED, 0, 10, 1, (stage,), 10)
    html = report_html(report)
    assert "not attempted" in Balanced(html).text
    assert COLOURS[Verdict.FAIL] not in html and "fail" not in html


def test_a_pass_names_what_was_graded_when_it_was_not_the_cell():
    report = Report("a.b", Verdict.PASS, 5, 5, 9, (Stage("run", Verdict.PASS, "right", 0.1),))
    assert "Graded: the reference solution." in report_html(report, "the reference solution")
    assert "Graded" not in report_html(report)
    assert "0.1 s" in report_html(report) and "Seed 9" in report_html(report)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_badges_are_legible_on_any_page(verdict):
    assert 1.05 / (luminance(COLOURS[verdict]) + 0.05) >= 4.5


def test_no_colour_is_set_without_its_own_background():
    for style in re.findall(r'style="([^"]*)"', report_html(FAILED)):
        if re.search(r"(^|;)color:(?!inherit)", style):
            assert "background:#" in style


def test_no_style_sheet_and_no_script_is_needed():
    assert not re.search(r"<(style|script|link)|class=|https?:", report_html(FAILED))


def test_what_is_running_shows_the_stages_so_far():
    text = Balanced(running_html("a.b", list(FAILED.stages[:2]), "grading")).text
    assert "32 registers" in text and "grading …" in text


def test_a_sentence_folds_its_details():
    html = sentence_html("stopped", "You stopped it.", Verdict.UNDECIDED, "Traceback <x>")
    assert "Traceback &lt;x&gt;" in html and "<details" in html
    assert Balanced(html).text.startswith("stopped")


def test_measures_are_words_and_three_digits():
    assert measures_text({"spill_bytes": 0, "ratio": 0.123456, "list": [1], "none": None}) == (
        "spill bytes 0 · ratio 0.123"
    )


def test_a_finding_says_whether_the_simulator_or_the_gpu_made_it():
    assert "Where:" not in report_html(FAILED)
    found = replace(FINDING, where="on the GPU; the simulator found no fault on 5 cases")
    failed = replace(FAILED, stages=(Stage("run", Verdict.FAIL, found.summary, finding=found),))
    assert f"Where: {found.where}" in Balanced(report_html(failed)).text
