"""A whole tile of a matrix product: right, without a fault, counted, and drawn."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from checkers.simulator.launch import simulating
from checkers.simulator.reports.report import card
from checkers.simulator.reports.timeline import Timeline, lay_out

M, N, K = 128, 256, 192


@pytest.fixture(scope="module")
def tile() -> tuple[torch.Tensor, torch.Tensor, Any]:
    """(answer, expected, result)."""
    from tests.simulator.gemm_tile import prepared

    with simulating("h200", log=True) as results:
        call = prepared(M, N, K)
        answer = call().cpu().float()
    return answer, call.expected.cpu(), results[-1]


def test_it_is_right_and_without_a_fault(tile):
    answer, expected, result = tile
    assert [str(fault) for fault in result.faults] == []
    assert (answer - expected).abs().max() <= 2**-8 * expected.abs().max()


def test_its_bytes_and_flop_are_the_products(tile):
    counters = tile[2].counters
    assert counters["mma_flops_bf16"] == 2 * M * N * K
    assert counters["tma_load_bytes"] == counters["global_read_footprint"] == 2 * (M + N) * K
    assert counters["tma_store_bytes"] == counters["global_write_footprint"] == 2 * M * N
    assert counters["wgmma_instructions"] == 2 * K // 16  # 64 rows and 16 of K each
    assert counters["shared_store_wavefronts"] == counters["shared_store_wavefronts_needed"]


def test_its_tensor_cores_are_met_first(tile):
    assert card(tile[2]).floor.name == "tensor cores"


def drawn(result: Any) -> Timeline:
    return lay_out(result.log, result.gpu)


def test_its_timeline_shows_who_copies_and_who_multiplies(tile):
    lanes: dict[str, list] = {}
    for lane in drawn(tile[2]).lanes:
        lanes.setdefault(lane.name or "more", []).extend(lane.spans)
    spans = [span for found in lanes.values() for span in found]
    count = {what: sum(span.what == what for span in spans) for what in ("copy", "store", "tensor")}
    assert count == {"copy": 2 * K // 64, "store": N // 64, "tensor": 2 * K // 16}
    assert [name for name in lanes if name.startswith("warps")] == ["warps 0-3", "warps 4-7"]
    waits = {span.label for span in lanes["warps 0-3"] if span.what == "wait"}
    assert "wgmma" in waits and any("mbarrier" in label for label in waits)


def test_nothing_is_multiplied_before_its_copy_has_landed(tile):
    spans = [span for lane in drawn(tile[2]).lanes for span in lane.spans]
    landed = min(span.end for span in spans if span.what == "copy")
    assert all(span.start >= landed for span in spans if span.what == "tensor")
