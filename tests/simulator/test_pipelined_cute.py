"""A CuTe DSL kernel with the DSL's own TMA pipelines: right, and with one part left out."""

from __future__ import annotations

import pytest
import torch
from cutlass.cute.runtime import from_dlpack

from checkers.simulator.launch import simulating
from tests.simulator import pipelined_cute
from tests.simulator.harness import kinds


def run(without: str = "", schedule: str = "latest", rows: int = 256):
    """(result, source, target) of doubling a matrix of 2 columns of tiles."""
    source = torch.arange(rows * 128.0).reshape(rows, 128)
    target = torch.zeros(rows, 128)
    with simulating("h100", schedule=schedule) as results:
        pipelined_cute.double(from_dlpack(source), from_dlpack(target), without)
    (result,) = results
    return result, source, target


@pytest.mark.parametrize("schedule", ["latest", "earliest", "random:1"])
def test_tiles_go_through_the_pipeline(schedule):
    result, source, target = run(schedule=schedule)
    assert kinds(result) == []
    assert torch.equal(target, 2 * source)
    assert result.counters["tma_load_bytes"] == result.counters["tma_store_bytes"] == 256 * 128 * 4


@pytest.mark.parametrize(
    ("without", "kind"),
    [
        ("wait", "read_before_wait"),
        ("warp sync", "race"),
        ("release", "deadlock"),
        ("half the bytes", "expect_tx"),
        ("fence", "proxy_fence"),
        ("store wait", "overwritten_in_flight"),
    ],
)
def test_a_part_left_out_is_named_with_its_line(without, kind):
    result, *_ = run(without)
    assert kind in kinds(result)
    fault = next(f for f in result.faults if f.kind == kind)
    assert fault.place is not None
    assert fault.place.file == pipelined_cute.__file__
