"""The plots of the speed tables follow their data."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from checkers.course import Course
from checkers.lessons.plots import build_plots

ROOT = Path(__file__).parent.parent
TABLE = "bench_ch01_torch_compile_h200"


def test_a_plot_is_drawn_once_and_again_when_its_data_change(tmp_path):
    (tmp_path / "checkers" / "chapters").mkdir(parents=True)
    (tmp_path / "docs" / "data").mkdir(parents=True)
    data = tmp_path / "docs" / "data" / f"{TABLE}.json"
    shutil.copy(ROOT / "docs" / "data" / data.name, data)
    course = Course(tmp_path)
    plot = tmp_path / "docs" / "pictures" / f"{TABLE}.svg"
    assert build_plots(course, check=True) == [plot]
    assert not plot.exists()
    assert build_plots(course, check=False) == [plot]
    assert plot.read_text(encoding="utf-8").startswith("<?xml")
    assert build_plots(course, check=True) == []

    table = json.loads(data.read_text(encoding="utf-8"))
    table["rows"][0]["median"] += 1
    data.write_text(json.dumps(table), encoding="utf-8")
    assert build_plots(course, check=True) == [plot]
