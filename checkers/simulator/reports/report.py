"""What a run found, as text for a terminal and as JSON.

The JSON of ``as_json``:

    {"schema": 1, "ok": bool, "errors": int, "notes": int, "launches": [LAUNCH, ...]}
    LAUNCH: {"kernel": its name in the source, "entry": in the PTX, "grid", "block",
             "cluster": [x, y, z], "dynamic_shared": bytes, "arch", "gpu",
             "schedule", "seconds", "stopped": why it ended early or "", "ok": bool,
             "faults": [FAULT, ...], "counters": COUNTERS, "roofline": CARD, "output": printf's}
    FAULT:  {"kind": a value of Kind, "severity": "error" | "note", "title", "message",
             "meaning", "causes": [...], "reread": [chapter, ...], "kernel", "who": WHO | null,
             "place": PLACE | null, "ptx": {"line", "text"} | null,
             "other": {"what", "who", "place", "ptx"} | null, "count", "details": {...},
             "also": [PLACE | null, ...], where those under "waiting" in details wait,
             "follows": which of "faults" it follows from, counted from 0, or null}
    WHO:    {"thread": [x, y, z], "warp", "lane", "block": [x, y, z]}
    PLACE:  {"file", "line", "column", "source": the line's text}
    COUNTERS: {"totals": {name of counters.py: int}, "derived": {property of Derived: number}}
    CARD:   {"kernel", "gpu", "confirmed_on_hardware", "blocks", "sms_busy", "sms",
             "bounds": [{"name", "what", "microseconds", "share"}], largest first,
             "occupancy": {"blocks_per_sm", "warps_per_sm", "warps_most", "limits": {...}}}
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from checkers.simulator.reports.counters import COUNTERS, Counters, Derived
from checkers.simulator.reports.fault_kinds import Kind
from checkers.simulator.reports.faults import Fault, by_cause, in_short
from checkers.simulator.reports.gpus import confirmed
from checkers.simulator.reports.roofline import Roofline, roofline

if TYPE_CHECKING:
    from checkers.simulator.machine.run import Result

WIDTH = 80
SCHEMA = 1


def text(result: Result, every: bool = False) -> str:
    """The whole report of a launch: what ran, its faults, its counters, its roofline card.

    every: faults that follow from others are told whole as well, and not only named.
    """
    parts = [_headline(result)]
    explained: set[Kind] = set()  # once each
    for lead, others in by_cause(result.faults):
        for fault in [lead, *others] if every else [lead]:
            told = fault.text(WIDTH, lore=fault.kind not in explained)
            parts.append(told if every or not others else f"{told}\n{_what_follows(others)}")
            explained.add(fault.kind)
    if result.stopped:
        parts.append(f"The run ended early: {result.stopped}.")
    parts += [counters_text(result.counters), card(result).text()]
    return "\n\n".join(part for part in parts if part) + "\n"


def _what_follows(others: Sequence[Fault]) -> str:
    head = f"  and    {len(others)} more that follow{'s' * (len(others) == 1)} from it:"
    names = dict.fromkeys(in_short(fault) for fault in others)
    lines = [
        textwrap.fill(name, WIDTH, initial_indent="         - ", subsequent_indent=" " * 11)
        for name in names
    ]
    return "\n".join([head, *lines])


def verdict(results: Sequence[Result]) -> str:
    """The closing line of a script: "3 launches, 1 fault, 2 notes in 0.4 s"."""
    errors, notes = _tally(results)
    seconds = sum(result.seconds for result in results)
    parts = [_plural(len(results), "launch", "launches")]
    parts.append(_errors(results))
    if notes:
        parts.append(_plural(notes, "note"))
    return f"{', '.join(parts)} in {seconds:.1f} s"


def as_json(results: Sequence[Result]) -> dict[str, Any]:
    """All launches of a script as plain data; the module's docstring is its schema."""
    errors, notes = _tally(results)
    return {
        "schema": SCHEMA,
        "ok": all(result.ok for result in results),
        "errors": errors,
        "notes": notes,
        "launches": [launch_as_json(result) for result in results],
    }


def launch_as_json(result: Result) -> dict[str, Any]:
    """One launch as plain data."""
    launch = result.launch
    return {
        "kernel": launch.title,
        "entry": launch.kernel,
        "grid": list(launch.grid),
        "block": list(launch.block),
        "cluster": list(launch.cluster),
        "dynamic_shared": launch.dynamic_shared,
        "arch": launch.arch,
        "gpu": result.gpu.name,
        "schedule": result.schedule,
        "seconds": result.seconds,
        "stopped": result.stopped,
        "ok": result.ok,
        "faults": [
            fault.to_json()
            | {"follows": _index(fault.root, result.faults) if fault.follows else None}
            for fault in result.faults
        ],
        "counters": result.counters.to_json(),
        "roofline": card(result).to_json(),
        "output": result.output,
    }


def _index(root: Fault, faults: Sequence[Fault]) -> int | None:
    """Where the fault that another follows from stands."""
    return next((i for i, fault in enumerate(faults) if fault is root), None)


def card(result: Result) -> Roofline:
    """The roofline card of a launch, for the GPU that it was simulated on."""
    launch = result.launch
    return roofline(
        result.counters,
        result.gpu,
        kernel=launch.title,
        blocks=math.prod(launch.grid),
        threads=math.prod(launch.block),
        shared_bytes=max(0, result.shared_bytes - result.gpu.shared_reserved),
        registers=launch.attributes.get("registers"),
    )


def counters_text(counters: Counters) -> str:
    """The counters that are not 0, and what follows from them; "" when there are none."""
    names = [name for name in counters if not name.startswith("instructions_")]
    lines = [
        f"  {name:<32}{counters[name]:>17,} {_unit(COUNTERS[name].unit, counters[name])}"
        for name in names
    ]
    derived = Derived(counters)
    lines += [f"  {label:<32}{value:>17}" for label, value in _derived_rows(derived)]
    classes = [name for name in counters if name.startswith("instructions_")]
    if classes:
        mix = sorted(classes, key=lambda name: -counters[name])
        listed = ", ".join(
            f"{name.removeprefix('instructions_')} {counters[name]:,}" for name in mix
        )
        lead = f"  {'warp instructions':<32}"
        total = f"{derived.instructions:>17,}"
        lines.append(f"{lead}{total}")
        lines += textwrap.wrap(listed, WIDTH, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(["Counters", *lines]) if lines else ""


def _derived_rows(derived: Derived) -> list[tuple[str, str]]:
    """Label and value of each derived number that says something here."""
    shares = {
        "sectors needed of those loaded": derived.load_efficiency,
        "sectors needed of those stored": derived.store_efficiency,
        "lanes active": derived.lanes_active,
    }
    factors = {
        "wavefronts per load, conflicts": derived.shared_load_conflicts,
        "wavefronts per store, conflicts": derived.shared_store_conflicts,
        "bytes a warp's global load": derived.bytes_per_load,
        "bytes a warp's global store": derived.bytes_per_store,
    }
    rows = [(label, f"{value:.1%}") for label, value in shares.items() if value is not None]
    rows += [(label, f"{value:.3g}") for label, value in factors.items() if value is not None]
    return rows


def headline(result: Result) -> str:
    """ "add_kernel, grid 3, block 128": which launch it was."""
    return f"{result.launch.title}, {_shape(result)}"


def _shape(result: Result) -> str:
    launch = result.launch
    shape = f"grid {_dims(launch.grid)}, block {_dims(launch.block)}"
    if math.prod(launch.cluster) > 1:
        shape += f", cluster {_dims(launch.cluster)}"
    return shape


def _headline(result: Result) -> str:
    launch, shape = result.launch, _shape(result)
    errors, notes = _tally([result])
    found = _errors([result])
    found += f", {_plural(notes, 'note')}" if notes else ""
    proof = "" if confirmed(launch.arch) else " (not confirmed on hardware)"
    on = f"{result.gpu.title}, {launch.arch}{proof}, completion {result.schedule}"
    return f"{launch.title}\n  {shape}: {found} ({result.seconds:.2f} s)\n  {on}"


def _dims(dims: Sequence[int]) -> str:
    kept = list(dims)
    while len(kept) > 1 and kept[-1] == 1:
        kept.pop()
    return "x".join(str(size) for size in kept)


def _tally(results: Sequence[Result]) -> tuple[int, int]:
    faults = [fault for result in results for fault in result.faults]
    errors = sum(fault.is_error for fault in faults)
    return errors, len(faults) - errors


def _errors(results: Sequence[Result]) -> str:
    """ "no fault", "1 fault and 3 that follow from it", "2 faults"."""
    errors = [[fault for fault in result.faults if fault.is_error] for result in results]
    grouped = [pair for some in errors for pair in by_cause(some)]
    follow = sum(len(others) for _, others in grouped)
    found = _plural(len(grouped), "fault") if grouped else "no fault"
    if follow:
        verb, whom = "follows" if follow == 1 else "follow", "it" if len(grouped) == 1 else "them"
        found += f" and {follow} that {verb} from {whom}"
    return found


def _unit(unit: str, number: int) -> str:
    """ "1 block", "2 blocks"; the unit of one flop is a flop."""
    return unit.removesuffix("s") if number == 1 else unit


def _plural(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
