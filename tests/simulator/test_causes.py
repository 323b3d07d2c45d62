"""One mistake is told as one fault, with those that follow from it; two mistakes as two."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkers.cli import run
from checkers.simulator.reports.faults import by_cause
from checkers.simulator.reports.report import as_json, text
from tests.simulator import pipelined_cute, test_pipelined_cute, test_pipelines
from tests.simulator.test_pipelines import SCHEDULES, cp_async, tma


def told(result) -> list[tuple[str, list[str]]]:
    """The kinds of the faults that follow from none, each with the kinds of those that follow."""
    errors = [fault for fault in result.faults if fault.is_error]
    return [(str(f.kind), [str(g.kind) for g in others]) for f, others in by_cause(errors)]


def test_a_missing_wait_for_a_tma_copy_is_one_fault():
    result, *_ = tma("latest", full_wait="")
    assert told(result) == [
        ("read_before_wait", ["read_before_wait", "mbarrier", "race", "exit_in_flight"])
    ]


@pytest.mark.parametrize("schedule", ["latest", "earliest"])
def test_a_missing_wait_for_cp_async_is_one_fault(schedule):
    result, *_ = cp_async(schedule, wait="", tail="cp.async.wait_all;")
    assert told(result) == [("read_before_wait", ["race", "read_before_wait", "race"])]


def test_a_wait_for_the_old_parity_is_the_cause_of_what_is_read_too_early():
    result, *_ = tma("latest", consumer_flip="")
    (lead, others), *more = told(result)
    assert (lead, more) == ("phase", [])
    assert sorted(set(others)) == ["exit_in_flight", "mbarrier", "race", "read_before_wait"]


def test_bytes_that_nobody_announced_are_the_cause_of_what_is_read_too_early():
    result, *_ = tma("latest", expect="mbarrier.arrive.shared::cta.b64 _, [%r9];")
    (lead, others), *more = told(result)
    assert (lead, more) == ("expect_tx", [])
    assert sorted(set(others)) == ["exit_in_flight", "race", "read_before_wait"]


@pytest.mark.parametrize(("schedule", "lead"), [("latest", "mbarrier"), ("earliest", "race")])
def test_a_producer_that_overtakes_is_the_cause_of_the_deadlock(schedule, lead):
    result, *_ = tma(schedule, empty_wait="")
    ((first, others),) = told(result)
    assert first == lead and others[-1] == "deadlock"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_two_missing_waits_are_two_faults(schedule):
    """The consumers read too early, and the producer overwrites what they still read."""
    result, *_ = tma(schedule, full_wait="", empty_wait="")
    leads = {(str(f.kind), f.site.line) for f, _ in by_cause(result.faults) if f.is_error}
    read = next(f for f in result.faults if f.kind == "read_before_wait")
    assert ("read_before_wait", read.site.line) in leads
    assert leads & {("race", read.other.site.line), ("mbarrier", read.other.site.line - 1)}


def test_the_last_store_is_not_overwritten_so_its_missing_wait_is_another_fault():
    result, *_ = test_pipelined_cute.run("store wait")
    assert told(result) == [("overwritten_in_flight", []), ("exit_in_flight", [])]
    assert result.faults[0].place.file == pipelined_cute.__file__


# A second tile, copied under a barrier of its own, that is read without a wait as well.
SECOND = """
    bar.sync 0;
    .shared .align 1024 .b8 other[1024]; .shared .align 8 .b64 own;
    mov.u32 %r40, other; mov.u32 %r41, own; setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared.b64 [%r41], 1;
    @%p1 fence.mbarrier_init.release.cluster;
    bar.sync 0;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r41], 1024;
    @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
        [%r40], [%rd1, {0, 0}], [%r41];
    ld.shared.u32 %r42, [%r40];
"""


def test_a_copy_of_another_barrier_is_a_fault_of_its_own(monkeypatch):
    monkeypatch.setattr(
        test_pipelines,
        "TMA",
        test_pipelines.TMA.rstrip() + SECOND.replace("{", "{{").replace("}", "}}"),
    )
    result, *_ = tma("latest", full_wait="")
    leads = [lead for lead, _ in told(result)]
    assert leads.count("read_before_wait") == 2


def test_a_report_names_what_follows_and_tells_it_whole_on_request():
    result, *_ = tma("latest", full_wait="")
    short, whole = text(result), text(result, every=True)
    assert ": 1 fault and 4 that follow from it (" in short
    assert short.count("FAULT") == 1 and whole.count("FAULT") == 5
    assert "  and    4 more that follow from it:\n         - The copy had not landed" in short
    assert "         - The block ended with work in flight, PTX line" in short
    assert max(map(len, short.splitlines())) <= 80


@pytest.mark.parametrize(("option", "whole"), [((), 1), (("--every-fault",), 4)])
def test_the_command_tells_every_fault_whole_on_request(capsys, option, whole):
    script = Path(__file__).parents[2] / "docs" / "examples" / "pipeline.py"
    assert run(["simulate", *option, str(script), "wait"]) == 1
    told = capsys.readouterr().out
    assert told.count("FAULT  ") == whole
    assert "1 launch, 1 fault and 3 that follow from it in" in told


def test_json_has_every_fault_and_says_what_it_follows_from():
    result, *_ = tma("latest", full_wait="")
    (launch,) = json.loads(json.dumps(as_json([result])))["launches"]
    assert [fault["follows"] for fault in launch["faults"]] == [None, 0, 0, 0, 0]
