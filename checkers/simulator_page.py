"""Tables and numbers of docs/simulator.md, made from the code and from the recordings.

``<!-- data: simulator NAME -->`` in a text stands for ``render(NAME)``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checkers.rendering import markdown_table

HERE = Path(__file__).parent / "simulator"
GOLDEN = HERE.parents[1] / "tests" / "data" / "golden_h200" / "recording.json"


def render(name: str) -> str:
    """The table, or the number, that is called ``name``. Raises ValueError for another."""
    if name in _TABLES:
        return _TABLES[name]()
    numbers = _numbers()
    if name not in numbers:
        raise ValueError(f"simulator {name!r}: want one of {', '.join([*_TABLES, *numbers])}")
    return f"{numbers[name]:,}"


def faults() -> str:
    """Every kind of fault, how it is found, and in which files."""
    from checkers.simulator.reports.fault_detection import FOUND
    from checkers.simulator.reports.fault_kinds import Kind

    sources = {path: path.read_text(encoding="utf-8") for path in sorted(HERE.rglob("*.py"))}
    lines = []
    for kind in Kind:
        reported = [
            f"`{path.relative_to(HERE)}`"
            for path, text in sources.items()
            if not path.name.startswith("fault_") and re.search(rf"\bKind\.{kind.name}\b", text)
        ]
        lines.append([f"`{kind}`", kind.title, FOUND[kind], ", ".join(reported)])
    return markdown_table(["kind", "says", "how it is found", "in"], lines)


def golden() -> str:
    """The golden vectors: families, cases, bytes of output."""
    recording = _recording()
    lines = [
        [family, str(len(cases)), f"{_bytes(cases):,}"]
        for family, cases in recording.items()
        if family != "machine"
    ]
    return markdown_table(["family", "cases", "bytes of output compared"], lines)


def provenance() -> str:
    """Where the golden vectors were recorded."""
    from checkers.rendering import provenance_of

    return provenance_of(_recording()["machine"])


def instructions() -> str:
    """Opcodes by the module that translates them, with the file's first line."""
    from checkers.simulator.machine import building

    modules: dict[str, list[str]] = {}
    for opcode in _opcodes():
        module = building.TRANSLATORS[opcode].__module__.rpartition(".")[2]
        modules.setdefault(module, []).append(opcode)
    lines = [
        [f"`instructions/{module}.py`", " ".join(f"`{opcode}`" for opcode in opcodes)]
        for module, opcodes in sorted(modules.items())  # whatever was imported first
    ]
    return markdown_table(["file", "opcodes"], lines)


def gpus() -> str:
    """The GPUs that can be stood for."""
    from checkers.simulator.reports.gpus import GPUS

    lines = [
        [
            f"`{gpu.name}`",
            gpu.title,
            gpu.arch,
            str(gpu.sms),
            f"{gpu.hbm_bytes_per_s / 1e12:.3g} TB/s",
            f"{gpu.tensor_flops['bf16'] / 1e12:.0f} TFLOP/s",
            "yes" if gpu.confirmed else "no",
        ]
        for gpu in GPUS.values()
    ]
    head = ["name", "stands for", "arch", "SMs", "HBM", "bf16, dense", "measured on one"]
    return markdown_table(head, lines)


def counters() -> str:
    """Every counter with its unit and meaning."""
    from checkers.simulator.reports.counters import COUNTERS

    lines = [[f"`{c.name}`", c.unit, c.meaning] for c in COUNTERS.values()]
    return markdown_table(["counter", "unit", "meaning"], lines)


def schema() -> str:
    """The JSON of ``ladder simulate --json``, as an indented block."""
    from checkers.simulator.reports import report

    text = report.__doc__ or ""
    start = text.index("    {")
    return text[start:].rstrip()


_TABLES: dict[str, Callable[[], str]] = {
    table.__name__: table
    for table in (faults, golden, provenance, instructions, gpus, counters, schema)
}


def _numbers() -> dict[str, int]:
    """Limits, from the code, and sums over the recording."""
    from checkers.simulator.machine import run
    from checkers.simulator.machine import wave as machine
    from checkers.simulator.memory.rows import COLUMN_MASK
    from checkers.simulator.reports import faults as faults_module
    from checkers.simulator.reports.fault_kinds import Kind
    from checkers.simulator.reports.log import EVENTS_KEPT

    families = {name: cases for name, cases in _recording().items() if name != "machine"}
    return {
        "wave-threads": run.THREADS_A_WAVE,
        "together-threads": run.THREADS_TOGETHER,
        "steps": run.Limits().steps,
        "idle-rounds": machine.IDLE_ROUNDS,
        "distinct-faults": faults_module.DISTINCT_FAULTS,
        "events-kept": EVENTS_KEPT,
        "columns": int(COLUMN_MASK),
        "opcodes": len(_opcodes()),
        "kinds": len(Kind),
        "golden-families": len(families),
        "golden-cases": sum(len(cases) for cases in families.values()),
        "golden-bytes": sum(_bytes(cases) for cases in families.values()),
    }


def _opcodes() -> list[str]:
    """Those of PTX; not those into which the simulator itself fuses others."""
    from checkers.simulator.machine import building

    building.load_families()
    made_here = "checkers.simulator.instructions.contracted"
    return [
        opcode
        for opcode in building.SECTIONS
        if building.TRANSLATORS[opcode].__module__ != made_here
    ]


def _recording() -> dict[str, Any]:
    return json.loads(GOLDEN.read_text(encoding="utf-8"))


def _bytes(cases: dict[str, Any]) -> int:
    return sum(sum(case["bytes"]) for case in cases.values())
