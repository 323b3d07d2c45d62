"""The report of a launch: faults first, then what it cost; the same as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

from checkers.simulator.launch.records import Launch
from checkers.simulator.reports.counters import Counters
from checkers.simulator.reports.faults import Faults, Kind, Severity
from checkers.simulator.reports.gpus import gpu
from checkers.simulator.reports.report import as_json, counters_text, text, verdict


def result(*severities: Severity, stopped: str = "", **amounts: int) -> SimpleNamespace:
    faults = Faults()
    for number, severity in enumerate(severities):
        kind = Kind.RACE if severity is Severity.ERROR else Kind.PROXY_FENCE
        faults.report(kind, f"message {number}.", severity=severity)
    counters = Counters()
    for name, amount in amounts.items():
        counters.add(name, amount)
    launch = Launch("", "softmax", (64, 1, 1), (256, 1, 1), (2, 1, 1), 4096, [], [], "sm_90a")
    return SimpleNamespace(
        launch=launch,
        gpu=gpu("h200"),
        schedule="latest",
        faults=list(faults),
        ok=not faults.errors,
        stopped=stopped,
        counters=counters,
        seconds=0.25,
        output="hello\n",
        shared_bytes=1024 + 4096,
    )


def test_the_headline_says_what_ran_where():
    head = text(result()).splitlines()[:3]
    assert head == [
        "softmax",
        "  grid 64, block 256, cluster 2: no fault (0.25 s)",
        "  NVIDIA H200 SXM, sm_90a, completion latest",
    ]


def test_errors_come_before_notes():
    shown = text(result(Severity.NOTE, Severity.ERROR))
    assert 0 < shown.index("FAULT") < shown.index("NOTE ")
    assert "1 fault, 1 note" in shown


def test_a_kind_is_explained_once():
    shown = text(result(Severity.ERROR, Severity.NOTE))
    assert shown.count("  why    ") == 2
    twice = result(Severity.ERROR)
    twice.faults *= 2
    assert text(twice).count("FAULT") == 2 and text(twice).count("  why    ") == 1


def test_what_no_hardware_confirmed_is_said():
    found = result()
    assert "not confirmed" not in text(found).splitlines()[2]
    found.launch = replace(found.launch, arch="sm_100a")
    assert (
        text(found)
        .splitlines()[2]
        .startswith("  NVIDIA H200 SXM, sm_100a (not confirmed on hardware)")
    )


def test_a_run_that_ended_early_says_why():
    assert "The run ended early: 20 different faults." in text(
        result(stopped="20 different faults")
    )


def test_counters_that_are_zero_are_not_shown():
    shown = counters_text(
        result(
            global_load_bytes=16384,
            global_load_sectors=512,
            global_load_sectors_needed=512,
            instructions_fp32=128,
            instructions_load=1000,
        ).counters
    )
    lines = shown.splitlines()
    assert "  global_load_bytes                          16,384 bytes" in lines
    assert "  sectors needed of those loaded             100.0%" in lines
    assert "  warp instructions                           1,128" in lines
    assert "    load 1,000, fp32 128" in lines
    assert "store" not in shown
    assert counters_text(result(blocks=1).counters).splitlines()[1].endswith(" 1 block")


def test_nothing_goes_beyond_80_columns():
    shown = text(
        result(Severity.ERROR, **{f"instructions_{c}": 10**9 for c in ("fp32", "load", "special",
               "integer", "exchange", "matrix", "barrier", "control")}, shared_load_wavefronts=10**12)
    )  # fmt: skip
    assert max(map(len, shown.splitlines())) <= 80


def test_the_closing_line_adds_up_launches():
    assert verdict([result(), result(Severity.ERROR)]) == "2 launches, 1 fault in 0.5 s"
    assert verdict([result(Severity.NOTE)]) == "1 launch, no fault, 1 note in 0.2 s"


def test_json_of_a_script():
    found = json.loads(json.dumps(as_json([result(), result(Severity.ERROR, atomics=3)])))
    assert (found["schema"], found["ok"], found["errors"], found["notes"]) == (1, False, 1, 0)
    first, second = found["launches"]
    assert first["ok"] and first["grid"] == [64, 1, 1] and first["output"] == "hello\n"
    assert second["faults"][0]["kind"] == "race"
    assert second["counters"]["totals"] == {"atomics": 3}
    assert second["roofline"]["occupancy"]["blocks_per_sm"] == 8
