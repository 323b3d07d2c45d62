"""The speed table: what is measured, what is left out and said so, its file and its plot."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure
from rich.console import Console

from checkers import bench as bench_module
from checkers.bench import plot, run_bench, skipped, table, write
from checkers.bench_report import _draw, _panels
from checkers.exercise import Bench, Case, Implementation
from checkers.grading import rulers
from checkers.grading.timing import Options
from checkers.machine import describe_machine
from tests.fake_gpu import FakeDevice, copy_ruler, kernel

RATE = 80e6
OPTIONS = Options(batch_seconds=1e-3, rounds=12)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    fake = FakeDevice(noise=0.01)
    ruler = replace(rulers.RULERS["copy"], prepare=copy_ruler(fake, RATE))
    monkeypatch.setitem(rulers.RULERS, "copy", ruler)
    monkeypatch.setitem(bench_module.UNITS, "GB/s", 1e3)  # the fake GPU is slow
    return fake


def not_installed():
    raise ImportError("No module named 'quack'")


def only_small(double):
    def function(x: torch.Tensor) -> torch.Tensor:
        if x.numel() > 100:
            raise ValueError("N must be at most 100")
        return double(x)

    return function


def made_up(device: FakeDevice) -> Bench:
    return Bench(
        title="Doubling",
        cases=(Case("small", {"N": 100, "shape": (1, 2)}), Case("large", {"N": 200})),
        inputs=lambda case, generator: (torch.randn(case["N"], generator=generator),),
        work=lambda case: 8 * case["N"],
        implementations=(
            Implementation("eager", lambda: lambda x: 2 * x),
            Implementation("solution", lambda: kernel(device, "solution", 20e-6)),
            Implementation("wrong", lambda: kernel(device, "wrong", 1e-6, right=False)),
            Implementation("short", lambda: only_small(kernel(device, "short", 40e-6))),
            Implementation("quack", not_installed),
        ),
    )


@pytest.fixture
def data(device: FakeDevice) -> dict:
    return run_bench(made_up(device), "ch99_doubling", device=device, options=OPTIONS)


def row(data: dict, implementation: str, N: int) -> dict:
    (found,) = (
        row
        for row in data["rows"]
        if row["implementation"] == implementation and row["case"]["N"] == N
    )
    return found


def test_rows_have_exactly_the_promised_keys_and_json_types(data: dict) -> None:
    assert {"schema", "chapter", "machine", "rows"} <= data.keys()
    assert (data["schema"], data["chapter"]) == (1, "ch99_doubling")
    assert {"gpu", "driver", "torch", "triton", "cutlass_dsl", "python", "date"} <= data[
        "machine"
    ].keys()
    assert data["machine"]["sm_clock_mhz"] == {"lowest": 1980, "highest": 1980}
    for entry in data["rows"]:
        assert list(entry) == [
            "implementation",
            "case",
            "unit",
            "median",
            "p10",
            "p90",
            "samples",
            "ratio_to_ruler",
        ]
        assert entry["p10"] <= entry["median"] <= entry["p90"]
        assert entry["samples"] == 12
    assert json.loads(json.dumps(data)) == data


def test_the_ruler_is_a_row_and_ratios_are_to_it(data: dict) -> None:
    assert row(data, "copy", 100)["ratio_to_ruler"] == 1.0
    assert row(data, "copy", 100)["median"] == pytest.approx(RATE / 1e3, rel=0.02)
    assert row(data, "solution", 100)["ratio_to_ruler"] == pytest.approx(0.5, rel=0.02)
    assert row(data, "solution", 200)["ratio_to_ruler"] == pytest.approx(1.0, rel=0.02)


def test_what_is_not_timed_is_named_with_the_reason(data: dict) -> None:
    said = skipped(data)
    assert "quack was not timed: ImportError: No module named 'quack'" in said
    assert "short was not timed on N=200: ValueError: N must be at most 100" in said
    (wrong, _) = (sentence for sentence in said if sentence.startswith("wrong"))
    assert "is not timed" in wrong
    assert not [row for row in data["rows"] if row["implementation"] == "wrong"]
    assert row(data, "short", 100)["samples"] == 12


def test_without_eager_all_are_compared_with_the_first(device: FakeDevice) -> None:
    whole = made_up(device)
    others = replace(whole, implementations=whole.implementations[1:3])
    data = run_bench(others, "ch99_doubling", device=device, options=OPTIONS)
    assert {entry["implementation"] for entry in data["rows"]} == {"solution", "copy"}


def test_progress_counts_cases(device: FakeDevice) -> None:
    seen = []
    run_bench(made_up(device), "x", lambda *now: seen.append(now), device, OPTIONS)
    assert [(done, total) for done, total, _ in seen] == [(0, 2), (1, 2), (2, 2)]


def test_the_file_is_read_back_whole_with_a_row_a_line(data: dict, tmp_path: Path) -> None:
    write(data, tmp_path / "new" / "bench.json")
    text = (tmp_path / "new" / "bench.json").read_text()
    assert json.loads(text) == data
    assert sum('{"implementation": "solution"' in line for line in text.splitlines()) == 2


def test_the_table_shows_medians_and_ratios(data: dict) -> None:
    console = Console(width=200, record=True, file=open("/dev/null", "w"))
    console.print(table(data))
    text = console.export_text()
    assert "1.00" in text.split() and "solution" in text and "copy" in text


def test_a_plot_of_the_same_data_has_the_same_bytes(data: dict, tmp_path: Path) -> None:
    first = plot(data, tmp_path / "a.svg")
    second = plot(data, tmp_path / "b.png")
    assert [path.name for path in first] == ["a.svg", "a.png"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()
    svg = first[0].read_text()
    assert "<dc:date>" not in svg and "Matplotlib" not in svg


def rows_of(*cases: tuple[str, int, int, float]) -> list[dict]:
    """Bench rows of (op, M, N, median)."""
    return [
        {
            "implementation": "solution",
            "case": {"op": op, "M": M, "N": N},
            "unit": "GB/s",
            **dict.fromkeys(("median", "p10", "p90"), median),
        }
        for op, M, N, median in cases
    ]


def test_a_parameter_that_the_others_decide_makes_no_panel() -> None:
    rows = rows_of(("large", 64, 1, 5.0), ("large", 32, 2, 6.0), ("small", 4, 1, 1.0))
    panels = _panels(rows, "N")
    assert {panel: len(series["solution"]) for panel, series in panels.items()} == {
        "op=large": 2,
        "op=small": 1,
    }


def test_a_parameter_of_one_value_makes_no_panel() -> None:
    assert list(_panels(rows_of(("large", 64, 1, 5.0), ("large", 32, 2, 6.0)), "N")) == [""]


def test_every_panel_shows_its_highest_point() -> None:
    rows = rows_of(("a", 1, 1, 5.0), ("a", 1, 2, 6.0), ("b", 1, 1, 50.0), ("b", 1, 2, 60.0))
    machine = describe_machine()
    figure = Figure(layout="constrained")
    _draw(figure, {"title": "t", "x_axis": "N", "rows": rows, "machine": machine})
    assert [axes.get_title() for axes in figure.axes] == ["op=a", "op=b"]
    for axes in figure.axes:
        bottom, top = axes.get_ylim()
        assert bottom == 0 and top > 60
