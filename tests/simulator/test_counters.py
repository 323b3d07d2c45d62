"""Counters: totals, totals by instruction, and what follows from them."""

from __future__ import annotations

import pytest

from checkers.simulator.ptx.program import Instruction, Place
from checkers.simulator.reports.counters import COUNTERS, Counters, Derived
from checkers.simulator.reports.instruction_classes import CLASSES, instruction_class


def instruction(name: str, line: int = 1, *places: Place) -> Instruction:
    opcode, *modifiers = name.split(".")
    return Instruction(opcode, tuple(modifiers), (), None, places, line, f"{name} ...;")


def counted(**amounts: int) -> Counters:
    counters = Counters()
    for name, amount in amounts.items():
        counters.add(name, amount)
    return counters


def test_totals_and_shares_by_instruction():
    near, far = instruction("ld.global", 1), instruction("ld.global", 2)
    counters = Counters()
    counters.add("global_load_sectors", 4, near)
    counters.add("global_load_sectors", 8, far)
    counters.add("global_load_sectors", 8, far)
    assert counters["global_load_sectors"] == 20
    assert list(counters.at("global_load_sectors").items()) == [(far, 16), (near, 4)]


def test_a_name_that_is_not_declared_is_refused():
    with pytest.raises(KeyError, match="declare it"):
        Counters().add("global_laod_bytes", 1)


def test_merging_adds():
    site = instruction("ld.global")
    one, two = Counters(), Counters()
    one.add("atomics", 1, site)
    two.add("atomics", 2, site)
    two.add("blocks", 5)
    one.merge(two)
    assert one.at("atomics") == {site: 3} and one["blocks"] == 5


def test_efficiency_is_needed_over_moved():
    derived = Derived(
        counted(
            global_load_sectors=32,
            global_load_sectors_needed=4,
            global_store_sectors=4,
            global_store_sectors_needed=4,
        )
    )
    assert derived.load_efficiency == 0.125
    assert derived.store_efficiency == 1.0
    assert derived.sector_efficiency == 8 / 36


def test_conflicts_are_wavefronts_over_needed():
    derived = Derived(counted(shared_load_wavefronts=64, shared_load_wavefronts_needed=2))
    assert derived.shared_load_conflicts == 32
    assert derived.shared_store_conflicts is None


def test_global_bytes_are_whole_sectors_and_copies():
    derived = Derived(counted(global_load_sectors=3, tma_load_bytes=128, bulk_store_bytes=64))
    assert derived.global_bytes == 3 * 32 + 128 + 64


def test_lanes_active_is_a_share_of_all_issued():
    derived = Derived(counted(instructions_fp32=2, instructions_load=2, thread_instructions=64))
    assert derived.instructions == 4
    assert derived.lanes_active == 0.5


def test_json_holds_what_is_not_zero():
    data = counted(mma_flops_bf16=1024, atomics=0).to_json()
    assert data["totals"] == {"mma_flops_bf16": 1024}
    assert data["derived"]["flops"] == 1024
    assert "load_efficiency" not in data["derived"]


def test_json_by_instruction_names_line_and_source():
    counters = Counters()
    counters.add("atomics", 2, instruction("atom.add", 7, Place("k.py", 12)))
    assert counters.to_json(sites=True)["by_instruction"] == [
        {"line": 7, "ptx": "atom.add ...;", "file": "k.py", "source_line": 12,
         "counters": {"atomics": 2}}
    ]  # fmt: skip


def test_every_counter_has_a_unit_and_a_meaning():
    assert all(counter.unit and counter.meaning for counter in COUNTERS.values())
    assert all(f"instructions_{name}" in COUNTERS for name in CLASSES)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fma.rn.f32", "fp32"),
        ("add.rn.f32x2", "fp32"),
        ("fma.rn.bf16x2", "fp16"),
        ("add.f64", "fp64"),
        ("mad.lo.s32", "integer"),
        ("setp.lt.f32", "fp32"),
        ("setp.lt.s32", "integer"),
        ("mov.b32", "integer"),
        ("ex2.approx.f32", "special"),
        ("div.full.f32", "special"),
        ("div.s32", "integer"),
        ("cvt.rn.bf16x2.f32", "convert"),
        ("shfl.sync.bfly.b32", "exchange"),
        ("ld.global.v4.b32", "load"),
        ("st.shared.b32", "store"),
        ("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32", "copy"),
        ("cp.async.cg.shared.global", "copy"),
        ("mbarrier.try_wait.parity.shared.b64", "barrier"),
        ("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16", "matrix"),
        ("bra.uni", "control"),
    ],
)
def test_an_instruction_is_counted_under_the_unit_that_it_keeps_busy(name, expected):
    assert instruction_class(instruction(name)) == expected
