"""A chapter's speed table: its implementations and the ruler, side by side, as data, table and plot.

    data = run_bench(chapter.bench, chapter.name, progress)      needs a GPU
    table(data)                     a rich Table;  skipped(data) what could not be timed, and why
    plot(data, Path("bench.svg"))   bench.svg and bench.png; returns both paths
    write(data, path)               the JSON file, as docs/data/ holds it; as_text(data) its text

``data`` is {"schema": 1, "chapter", "title", "x_axis", "machine": {...}, "method": {...},
"rows": [{"implementation", "case": {...}, "unit", "median", "p10", "p90", "samples",
"ratio_to_ruler"}], "missing": [{"implementation", "reason", "case"?}]}. p10 is the rate that a tenth
of the rounds stayed below. The ruler is a row like the others ("copy").
"""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import torch

from checkers import machine
from checkers.bench_report import plot, skipped, table
from checkers.exercise import Bench, Case, Tolerance
from checkers.grading import timing
from checkers.grading.compare import compare
from checkers.grading.cuda_device import CudaDevice, Device
from checkers.grading.speed import device_inputs
from checkers.grading.verify import tensors_of

# progress(done, total, what is measured now)
Progress = Callable[[int, int, str], None]

UNITS = {"GB/s": 1e9, "TFLOP/s": 1e12}
SEED = 2026
# Its float64 result is what all are compared with; without it, the first implementation's is.
ORACLE = "eager"


def quiet(done: int, total: int, what: str) -> None:
    """Progress that nobody watches."""


def run_bench(
    bench: Bench,
    chapter: str,
    progress: Progress = quiet,
    device: Device | None = None,
    options: timing.Options | None = None,
) -> dict[str, Any]:
    """Measures every implementation on every case, interleaved with the ruler; a few seconds a case.

    chapter: its name, "ch02_triton_softmax".
    What can't be imported, fails or is wrong on a case is listed under "missing" with the reason.
    """
    device = device or CudaDevice()
    options = options or timing.Options(budget_seconds=4.0)
    loaded, missing = load_implementations(bench)
    rows: list[dict[str, Any]] = []
    clocks: list[int] = []
    for number, case in enumerate(bench.cases):
        progress(number, len(bench.cases), str(case))
        made_for = {one.name for one in bench.implementations if one.covers(case)}
        competing = {name: function for name, function in loaded.items() if name in made_for}
        timings, left_out = time_case(bench, case, competing, device, options)
        missing += [{**entry, "case": plain_case(case)} for entry in left_out]
        rows += rows_of(bench, case, timings)
        for one in timings.values():
            clocks += [clock for clock in (one.clock_before, one.clock_after) if clock]
    progress(len(bench.cases), len(bench.cases), "done")
    described = machine.describe_machine()
    if clocks:
        described["sm_clock_mhz"] = {"lowest": min(clocks), "highest": max(clocks)}
    return {
        "schema": 1,
        "chapter": chapter,
        "title": bench.title,
        "x_axis": bench.x_axis,
        "machine": described,
        "method": {**asdict(options), "interleaved_with": bench.ruler},
        "rows": rows,
        "missing": missing,
    }


def load_implementations(
    bench: Bench,
) -> tuple[dict[str, Callable[..., Any]], list[dict[str, Any]]]:
    """The functions by name, and an entry for each that isn't installed here."""
    loaded: dict[str, Callable[..., Any]] = {}
    missing = []
    for implementation in bench.implementations:
        try:
            loaded[implementation.name] = implementation.load()
        except ImportError as error:
            missing.append({"implementation": implementation.name, "reason": _one_line(error)})
    return loaded, missing


def time_case(
    bench: Bench,
    case: Case,
    loaded: Mapping[str, Callable[..., Any]],
    device: Device,
    options: timing.Options,
) -> tuple[dict[str, timing.Timing], list[dict[str, Any]]]:
    """Timings of those that are right on this case, and why the others are left out."""
    make_inputs = partial(_inputs, bench, case, device)
    torch.compiler.reset()  # each case compiled for itself, not as one of many shapes
    left_out = []
    works: dict[str, Callable[..., Any]] = {}
    arguments = make_inputs(0)
    for name, function in loaded.items():
        try:
            function(*arguments)
            device.synchronize()
            works[name] = function
        except Exception as error:  # of any kind: it is a row of the report
            left_out.append({"implementation": name, "reason": _one_line(error)})
    oracle = Oracle(loaded)
    del arguments
    try:
        timings = timing.measure(
            works, make_inputs, bench.ruler, bench.work(case), options, oracle.verify, device
        )
    except (timing.NotEnoughMemory, torch.OutOfMemoryError) as error:
        reason = _one_line(error)
        left_out += [{"implementation": name, "reason": reason} for name in works]
        timings = {}
    oracle.expected.clear()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    for name, one in list(timings.items()):
        if one.refused:
            left_out.append({"implementation": name, "reason": one.refused})
            del timings[name]
    return timings, left_out


class Oracle:
    """What is right on one case: eager PyTorch in float64, or the first implementation's answer."""

    def __init__(self, loaded: Mapping[str, Callable[..., Any]]) -> None:
        self.name = ORACLE if ORACLE in loaded else next(iter(loaded), "")
        self.function = loaded.get(self.name)
        self.expected: dict[int, list[torch.Tensor]] = {}

    def verify(self, output: Any, arguments: tuple) -> str | None:
        """What is wrong with an output, or None."""
        tensors = tensors_of(output)
        first = tensors_of(arguments)[0]
        wanted = self._expected(first.data_ptr(), arguments)
        if [tensor.shape for tensor in tensors] != [tensor.shape for tensor in wanted]:
            return "an output of another shape than the others'"
        for got, expected in zip(tensors, wanted, strict=True):
            length = first.shape[-1] if first.ndim else 1
            compared = compare(got, expected, Tolerance(), got.dtype, length)
            if not compared.ok:
                return f"{compared.wrong} of {compared.total} elements; {compared}"
        return None

    def _expected(self, key: int, arguments: tuple) -> list[torch.Tensor]:
        if key not in self.expected:
            assert self.function is not None
            if self.name == ORACLE:
                arguments = tuple(_in_float64(argument) for argument in arguments)
            self.expected[key] = [t.clone() for t in tensors_of(self.function(*arguments))]
        return self.expected[key]


def _in_float64(argument: Any) -> Any:
    is_float = isinstance(argument, torch.Tensor) and argument.is_floating_point()
    return argument.double() if is_float else argument


def _inputs(bench: Bench, case: Case, device: Device, index: int) -> tuple:
    return device_inputs(bench.inputs, case, SEED + index, device.torch_device)


def rows_of(bench: Bench, case: Case, timings: Mapping[str, timing.Timing]) -> list[dict[str, Any]]:
    """A row for each timing, the ruler's last."""
    if bench.ruler not in timings:
        return []
    scale = UNITS[bench.unit]
    ruler = timings[bench.ruler]
    order = [name for name in timings if name != bench.ruler] + [bench.ruler]
    return [
        {
            "implementation": name,
            "case": plain_case(case),
            "unit": bench.unit,
            "median": round(timings[name].rate() / scale, 2),
            "p10": round(timings[name].rate(10) / scale, 2),
            "p90": round(timings[name].rate(90) / scale, 2),
            "samples": timings[name].samples,
            "ratio_to_ruler": round(ruler.median / timings[name].median, 4),
        }
        for name in order
    ]


def plain_case(case: Case) -> dict[str, Any]:
    """A case's parameters as JSON types; its name where it has none."""
    parameters = dict(case.parameters) or {"case": case.name}
    return json.loads(json.dumps(parameters, default=str))


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def write(data: Mapping[str, Any], path: Path) -> None:
    """Writes the data as a JSON file, with its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(as_text(data), encoding="utf-8")


def as_text(data: Mapping[str, Any]) -> str:
    """The data as JSON, a row a line, so that a new measurement reads well in a diff."""
    head = {key: found for key, found in data.items() if key not in ("rows", "missing")}
    text = json.dumps(head, indent=1, ensure_ascii=False).removesuffix("\n}")
    for key in ("rows", "missing"):
        if key in data:
            lines = [json.dumps(row, ensure_ascii=False) for row in data[key]]
            body = ",\n  ".join(lines)
            text += f',\n "{key}": [\n  {body}\n ]' if lines else f',\n "{key}": []'
    return text + "\n}\n"


__all__ = ["as_text", "load_implementations", "plot", "run_bench", "skipped", "table", "write"]
