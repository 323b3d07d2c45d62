"""Numbers reach the texts from data files, and a missing one is reported, never invented."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkers import rendering

MACHINE = {
    "gpu": "NVIDIA H200",
    "driver": "580.1",
    "torch": "2.11.0",
    "triton": "3.6.0",
    "date": "2026-11-30",
}


def row(implementation: str, N: int, median: float) -> dict:
    case = {"M": 4096, "N": N, "dtype": "bfloat16"}
    return {
        "implementation": implementation,
        "case": case,
        "unit": "GB/s",
        "median": median,
        "samples": 60,
    }


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = [row("eager", 256, 1000.0), row("solution", 256, 4233.4), row("solution", 1024, 37.25)]
    (tmp_path / "bench_x.json").write_text(
        json.dumps({"schema": 1, "machine": MACHINE, "rows": rows})
    )
    monkeypatch.setattr(rendering, "REPOSITORY", rendering.DataFolder(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (4233.4, "4230"),
        (9.996, "10.0"),
        (0.95318, "0.953"),
        (37.25, "37.2"),
        (0.0, "0"),
        (60, "60"),
    ],
)
def test_floats_get_three_significant_digits(number: float, text: str) -> None:
    assert rendering.format_number(number) == text


def test_a_query_picks_one_row_by_its_own_and_its_case_entries(repository: Path) -> None:
    assert rendering.value_of("bench_x implementation=solution N=256 : median") == "4230"
    assert rendering.value_of("bench_x implementation=solution N=256 : samples") == "60"
    query = "bench_x implementation=solution N=256 : median / implementation=eager N=256 : median"
    assert rendering.ratio_of(query) == "4.23"
    assert rendering.misses() == []


def test_a_missing_file_or_row_is_rendered_as_not_measured_and_reported(repository: Path) -> None:
    assert rendering.value_of("bench_y N=1 : median") == rendering.NOT_MEASURED
    assert rendering.value_of("bench_x N=7 : median") == rendering.NOT_MEASURED
    assert rendering.bench_table("bench_y") == rendering.NOT_MEASURED
    assert rendering.misses() == [
        "bench_y.json does not exist",
        "bench_x.json has no row with N=7",
    ]
    assert rendering.misses() == []


@pytest.mark.parametrize("query", ["bench_x N=256 : median", "bench_x N=256", "bench_x N : median"])
def test_an_ambiguous_or_malformed_query_is_an_error(repository: Path, query: str) -> None:
    with pytest.raises(ValueError):
        rendering.value_of(query)


def test_bench_table_has_a_line_a_case_and_a_column_an_implementation(repository: Path) -> None:
    assert rendering.bench_table("bench_x", ["solution", "eager"]).splitlines() == [
        "| N | solution | eager |",
        "|---|---|---|",
        "| 256 | 4230 | 1000 |",
        "| 1024 | 37.2 | - |",
        "",
        (
            "Median GB/s; M=4096, dtype=bfloat16. NVIDIA H200, driver 580.1, PyTorch 2.11.0, "
            "Triton 3.6.0, 2026-11-30."
        ),
    ]
    assert "1024" not in rendering.bench_table("bench_x", cases=["N=256"]).split("Median")[0]


def test_markers_are_rewritten_in_place_and_a_second_time_changes_nothing(repository: Path) -> None:
    text = (
        "About <!-- data: value bench_x implementation=eager : median -->?<!-- /data --> GB/s.\n\n"
        "<!-- data: bench-table bench_x implementations=eager cases=N=256&M=4096 -->\nold\n"
        "<!-- /data -->\n```\n<!-- data: value nothing : x -->\n```\n"
    )
    once = rendering.render_markers(text, Path("README.md"))
    assert "median -->1000<!-- /data --> GB/s" in once
    assert "| 1000 |" in once and "old" not in once
    assert once.endswith("```\n<!-- data: value nothing : x -->\n```\n")
    assert rendering.render_markers(once, Path("README.md")) == once


@pytest.mark.parametrize(
    "text", ["<!-- data: value x : y -->", "<!-- data: cake x --><!-- /data -->"]
)
def test_a_marker_that_cannot_be_read_names_the_file(repository: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"README\.md"):
        rendering.render_markers(text, Path("README.md"))
