"""``ladder bench`` and ``ladder calibrate`` on a made-up course, with what was measured elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from checkers.course import Course
from tests.lessons_course import write_course


@pytest.fixture
def course(tmp_path: Path, in_course: Callable[[Path], None]) -> Course:
    made = write_course(tmp_path)
    in_course(tmp_path)
    return made


MEASURED = {
    "schema": 1,
    "chapter": "ch90_adding",
    "title": "Adding",
    "x_axis": "N",
    "machine": {"gpu": "NVIDIA H200", "driver": "580.1", "date": "2026-11-30"},
    "rows": [
        {
            "implementation": name,
            "case": {"N": n},
            "unit": "GB/s",
            "median": median,
            "p10": median - 10,
            "p90": median + 10,
            "samples": 100,
            "ratio_to_ruler": ratio,
        }
        for n in (256, 1024)
        for name, median, ratio in (("solution", 4100.0, 0.97), ("copy", 4227.0, 1.0))
    ],
    "missing": [{"implementation": "quack", "reason": "ImportError: no quack"}],
}


def test_a_speed_table_measured_elsewhere_is_shown_drawn_and_written(course, ladder, tmp_path):
    before = tmp_path / "before.json"
    before.write_text(json.dumps(MEASURED))
    after = tmp_path / "new" / "after.json"
    outcome = ladder("bench", "ch90", "--from", str(before), "--json", str(after), "--plot")
    assert outcome.status == 0, outcome.err
    words = " ".join(outcome.out.split())
    assert "solution copy" in words and "4100 4230 0.97 1.00" in words
    assert "NVIDIA H200, driver 580.1" in words
    assert "quack was not timed: ImportError: no quack" in outcome.err
    assert json.loads(after.read_text()) == MEASURED
    assert after.with_suffix(".svg").exists()
    assert after.with_suffix(".png").exists()


def test_bench_as_json_leaves_standard_output_clean(course, ladder, tmp_path):
    before = tmp_path / "before.json"
    before.write_text(json.dumps(MEASURED))
    outcome = ladder("bench", "ch90", "--from", str(before), "--json", "-")
    assert json.loads(outcome.out) == MEASURED


def test_measuring_without_a_gpu_says_so(course, ladder, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    outcome = ladder("calibrate")
    assert outcome.status == 2
    assert "measured on an NVIDIA GPU" in outcome.err
