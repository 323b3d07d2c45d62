"""The timeline: waits last until what they wait for, copies overlap, warps that agree share a lane."""

from __future__ import annotations

from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

from checkers.simulator.reports.gpus import gpu
from checkers.simulator.reports.log import NO_LOG, Log
from checkers.simulator.reports.timeline import (
    COPY_LATENCY,
    SIGNAL_LATENCY,
    TENSOR_LATENCY,
    Span,
    draw,
    lay_out,
)

H200 = gpu("h200")
BYTES_A_CYCLE = 5120 / 132


def warps(*indices: int, line: int = 0) -> SimpleNamespace:
    places = (SimpleNamespace(line=line),) if line else ()
    return SimpleNamespace(warps=np.array(indices), site=SimpleNamespace(places=places))


def lanes(log: Log) -> dict[str, list[Span]]:
    found = {}
    for lane in lay_out(log, H200).lanes:
        found.setdefault(lane.name or "more", []).extend(lane.spans)
    return found


def test_instructions_of_a_warp_follow_each_other():
    log = Log(2)
    log.issue(warps(0), 10)
    log.issue(warps(0, 1), 5)
    assert lanes(log) == {
        "warp 0": [Span("compute", 0, 15)],
        "warp 1": [Span("compute", 0, 5)],
    }


def test_a_wait_lasts_until_the_arrive():
    log = Log(2)
    log.issue(warps(0), 100)
    log.signal(warps(0), "full")
    log.waited(warps(1, line=7), "full[0]", "full")
    log.issue(warps(1), 1)
    until = 100 + SIGNAL_LATENCY
    assert lanes(log)["warp 1"] == [
        Span("wait", 0, until, "full[0]", 7),
        Span("compute", until, until + 1),
    ]


def test_a_wait_for_what_is_done_costs_nothing():
    log = Log(2)
    log.signal(warps(0), "full")
    log.issue(warps(1), 100)
    log.waited(warps(1), "full[0]", "full")
    assert [span.what for span in lanes(log)["warp 1"]] == ["compute"]


def test_copies_share_the_bandwidth_and_overlap_their_latencies():
    log = Log(1)
    size = 16384
    for name in ("a", "b"):
        log.start(warps(0), name, "copy", f"tile {name}", bytes=size)
        log.finish(name)
    log.waited(warps(0), "both", "a", "b")
    found = lanes(log)
    time = size / BYTES_A_CYCLE
    assert [(s.start, s.end) for s in found["copies in"]] == [(0, time + COPY_LATENCY)]
    assert [(s.start, s.end) for s in found["more"]] == [(0, 2 * time + COPY_LATENCY)]
    assert found["warp 0"] == [Span("wait", 0, 2 * time + COPY_LATENCY, "both")]


def test_a_copy_signals_its_barrier():
    log = Log(1)
    log.start(warps(0), "op", "copy", "tile", bytes=0)
    log.finish("op", "full")
    log.waited(warps(0), "full[0]", "full")
    assert lanes(log)["warp 0"] == [Span("wait", 0, COPY_LATENCY, "full[0]")]


def test_tensor_cores_take_one_operation_after_another():
    log = Log(1)
    flops = 10**6
    cycles = flops / (989.4e12 / (132 * 1.98e9))
    for op in range(2):
        log.start(warps(0), op, "tensor", f"wgmma {op}", flops=flops)
        log.finish(op)
    spans = [s for name in ("tensor cores", "more") for s in lanes(log)[name]]
    assert [span.start for span in spans] == pytest.approx([0, cycles])
    assert spans[1].end == pytest.approx(2 * cycles + TENSOR_LATENCY)


def test_warps_that_do_the_same_share_a_lane():
    log = Log(8)
    log.issue(warps(0), 3)
    log.issue(warps(1, 2, 3), 9)
    log.issue(warps(5), 9)
    assert list(lanes(log)) == ["warp 0", "warps 1-3", "warp 5"]


def test_a_deadlock_is_seen():
    log = Log(2)
    log.issue(warps(0), 100)
    log.stuck(warps(1), "full[0]")
    (span,) = lanes(log)["warp 1"]
    assert (span.what, span.start, span.end) == ("stuck", 0, pytest.approx(110))


def test_only_the_first_cluster_is_followed_and_only_its_block_drawn():
    log = Log(2, cluster_size=2)
    log.issue(warps(2, 3), 50)  # the other block of the cluster: it may signal
    log.signal(warps(2), "remote")
    log.issue(warps(4, 5), 1000)  # another cluster
    log.waited(warps(0), "remote", "remote")
    found = lanes(log)
    assert found == {"warp 0": [Span("wait", 0, 50 + SIGNAL_LATENCY, "remote")]}


def test_an_unknown_engine_is_refused():
    with pytest.raises(ValueError, match="no engine 'dma'"):
        Log(1).start(warps(0), "op", "dma", "tile")


def test_the_log_that_is_off_takes_everything():
    NO_LOG.issue(warps(0), 1)
    NO_LOG.start(warps(0), "op", "copy", "tile", bytes=1)
    NO_LOG.finish("op", "full")
    NO_LOG.waited(warps(0), "full", "full")
    NO_LOG.signal(warps(0), "full")
    NO_LOG.stuck(warps(0), "full")
    assert not NO_LOG.enabled


def test_the_picture_is_svg_with_a_bar_and_a_tooltip_for_each_span():
    log = Log(1)
    log.issue(warps(0), 10)
    log.start(warps(0, line=12), "op", "copy", "tile <0>", bytes=1024)
    log.finish("op")
    log.waited(warps(0, line=13), "tile <0>", "op")
    svg = draw(lay_out(log, H200), "k & co")
    root = ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    bars = {rect.get("class"): rect for rect in root.iter(f"{space}rect") if rect.get("class")}
    assert set(bars) == {"compute", "wait", "copy"}
    assert bars["copy"].find(f"{space}title").text.startswith("tile <0>, line 12: cycles 10 to ")
    assert "not a measurement" in svg and "k &amp; co" in svg


def test_an_empty_log_has_a_picture():
    assert ElementTree.fromstring(draw(lay_out(Log(1), H200), "nothing")) is not None
