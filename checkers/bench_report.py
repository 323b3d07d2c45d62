"""A bench's data (see bench.py) as a table for the terminal and a plot for a page."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from checkers.rendering import format_number, provenance_of

# Okabe and Ito's colours: told apart by readers with any colour vision, and in print.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "osD^vPX"
_RULER_COLOUR = "#777777"


def table(data: Mapping[str, Any]) -> Table:
    """A line a case, a column an implementation: the median, and under it the ratio to the ruler.

    Narrow enough for 80 columns: what is the same in all cases stands in the title, and headings
    break after "_" and ".".
    """
    rows = data["rows"]
    units = "/".join(dict.fromkeys(row["unit"] for row in rows))
    values: dict[str, list[str]] = {}
    for row in rows:
        for name, value in row["case"].items():
            values.setdefault(name, []).append(str(value))
    constant = {n: v[0] for n, v in values.items() if len(v) == len(rows) and len(set(v)) == 1}
    parameters = [name for name in values if name not in constant]
    same = "".join(f", {name}={value}" for name, value in constant.items())
    shown = Table(
        title=f"{data['title']}: {units}, and the ratio to the ruler{same}",
        caption=provenance_of(data["machine"]),
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    implementations = list(dict.fromkeys(row["implementation"] for row in rows))
    for name in (*parameters, *implementations):
        heading = name.replace("_", "_\n").replace(".", ".\n")
        shown.add_column(heading, justify="right", overflow="fold")
    by_case: dict[tuple, dict[str, str]] = {}
    for row in rows:
        key = tuple(str(row["case"].get(name, "-")) for name in parameters)
        cell = f"{format_number(float(row['median']))}\n{row['ratio_to_ruler']:.2f}"
        by_case.setdefault(key, {})[row["implementation"]] = cell
    for key, cells in by_case.items():
        shown.add_row(*key, *(cells.get(name, "-") for name in implementations))
    return shown


def skipped(data: Mapping[str, Any]) -> list[str]:
    """A sentence for each implementation that wasn't timed, everywhere or on a case."""
    return [
        f"{entry['implementation']} was not timed{_on(entry)}: {entry['reason']}"
        for entry in data.get("missing", [])
    ]


def _on(entry: Mapping[str, Any]) -> str:
    if "case" not in entry:
        return ""
    return " on " + ", ".join(f"{name}={found}" for name, found in entry["case"].items())


DRAWING = 2  # counted up when _draw draws the same data differently, so that plots are made anew


def plot(data: Mapping[str, Any], path: Path) -> tuple[Path, Path]:
    """Median rate over the bench's x axis, a line an implementation, p10 to p90 as a band.

    Writes ``path`` with the suffixes .svg and .png and returns both. The same data give the same
    bytes: no date, no random ids.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    settings = {
        "svg.hashsalt": "kernel-ladder",
        "svg.fonttype": "path",
        "font.family": "DejaVu Sans",
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a reader's own matplotlibrc doesn't show
        matplotlib.rcParams.update(settings)
        figure = Figure(dpi=120, facecolor="white", layout="constrained")
        FigureCanvasAgg(figure)
        _draw(figure, data)
        svg, png = path.with_suffix(".svg"), path.with_suffix(".png")
        path.parent.mkdir(parents=True, exist_ok=True)
        nameless = {"Date": None, "Creator": None, "Description": digest(data)}
        figure.savefig(svg, format="svg", metadata=nameless)
        figure.savefig(png, format="png", metadata={"Software": None})
    return svg, png


def digest(data: Mapping[str, Any]) -> str:
    """What tells one plot from another, by its data and how it was drawn: an SVG plot carries it."""
    drawn = json.dumps({"drawing": DRAWING, "data": data}, sort_keys=True)
    return hashlib.sha256(drawn.encode()).hexdigest()


def _draw(figure: Any, data: Mapping[str, Any]) -> None:
    """One panel for each value of what differs besides the x axis; a panel of a single point tells
    nothing that the table does not, and is left out when others have more."""
    panels = _panels(data["rows"], data["x_axis"])
    lines = {name: points for name, points in panels.items() if _lengths(points) > 1} or panels
    names = list(dict.fromkeys(row["implementation"] for row in data["rows"]))
    ruler = data.get("method", {}).get("interleaved_with", "copy")
    columns = min(len(lines), 2)
    lines_of_panels = -(-len(lines) // columns)
    figure.set_size_inches(8, 0.9 + 3.2 * lines_of_panels)
    grid = figure.subplots(lines_of_panels, columns, sharey=True, squeeze=False)
    every = list(grid.flat)
    for axes in every[len(lines) :]:
        axes.remove()
    for axes, (panel, series) in zip(every, lines.items(), strict=False):
        _draw_panel(axes, series, names, ruler)
        axes.set_xlabel(data["x_axis"])
        axes.set_title(panel, fontsize=10)
    every[0].set_ylim(bottom=0)  # of all, once all lines are there: it fixes the top
    for axes in grid[:, 0]:
        axes.set_ylabel("/".join(dict.fromkeys(row["unit"] for row in data["rows"])))
    figure.legend(*_labels(every[: len(lines)]), frameon=False, loc="outside right center")
    figure.suptitle(f"{data['title']}\n", x=0.01, ha="left", fontweight="bold")
    below = 1 - 0.32 / figure.get_figheight()
    figure.text(0.01, below, provenance_of(data["machine"]), fontsize=8, va="center")


def _labels(every: list[Any]) -> tuple[list[Any], list[str]]:
    """Each line's handle and label once, of whatever panels have it."""
    found = {}
    for axes in every:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return list(found.values()), list(found)


def _draw_panel(
    axes: Any, series: Mapping[str, list[tuple[float, ...]]], names: list[str], ruler: str
) -> None:
    """A line an implementation; its colour and marker are the same in every panel."""
    ticks: set[float] = set()
    for name, points in series.items():
        x, median, p10, p90 = (list(column) for column in zip(*sorted(points), strict=True))
        ticks.update(x)
        if name == ruler:
            axes.plot(x, median, color=_RULER_COLOUR, linestyle="--", label=name, zorder=1)
            continue
        place = names.index(name)
        colour, marker = _COLOURS[place % len(_COLOURS)], _MARKERS[place % len(_MARKERS)]
        front = 3 if name == "solution" else 2
        axes.plot(x, median, color=colour, marker=marker, markersize=5, label=name, zorder=front)
        axes.fill_between(x, p10, p90, color=colour, alpha=0.15, linewidth=0)
    if len(ticks) > 1 and min(ticks) > 0:
        axes.set_xscale("log", base=2)
    shown = sorted(ticks)[:: 1 + (len(ticks) > 7)]  # every other one has room
    axes.set_xticks(shown, [_tick(tick) for tick in shown])
    axes.minorticks_off()
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)


def _lengths(series: Mapping[str, list[tuple[float, ...]]]) -> int:
    """Points of the longest line."""
    return max(len(points) for points in series.values())


def _panels(
    rows: list[dict[str, Any]], x_axis: str
) -> dict[str, dict[str, list[tuple[float, ...]]]]:
    """Points (x, median, p10, p90) by what differs besides the x axis, and by implementation."""
    differs = _differing(rows, x_axis)
    panels: dict[str, dict[str, list[tuple[float, ...]]]] = {}
    for position, row in enumerate(rows):
        case = row["case"]
        x = case.get(x_axis)
        panel = ", ".join(f"{n}={case.get(n)}" for n in differs)
        point = (x if isinstance(x, int | float) else position, row["median"])
        series = panels.setdefault(panel, {})
        series.setdefault(row["implementation"], []).append((*point, row["p10"], row["p90"]))
    return panels


def _differing(rows: list[dict[str, Any]], x_axis: str) -> list[str]:
    """The parameters that tell panels apart. One that the x axis and the others decide, as N and the
    kind of grid decide M at a fixed M*N, isn't one; of two that decide each other the name is."""
    names = [
        name for name in dict.fromkeys(n for row in rows for n in row["case"]) if name != x_axis
    ]
    numbers_first = sorted(names, key=lambda name: isinstance(rows[0]["case"].get(name), str))
    for name in numbers_first:
        others = [x_axis, *(other for other in names if other != name)]
        decided: dict[tuple[str, ...], set[str]] = {}
        for row in rows:
            given = tuple(str(row["case"].get(other)) for other in others)
            decided.setdefault(given, set()).add(str(row["case"].get(name)))
        if all(len(found) == 1 for found in decided.values()):
            names.remove(name)
    return names


def _tick(value: float) -> str:
    """256, 1K, 64K, 1M; other numbers as they are."""
    for factor, letter in ((1 << 20, "M"), (1 << 10, "K")):
        if value >= factor and value % factor == 0:
            return f"{value // factor:g}{letter}"
    return f"{value:g}"
