"""The steps of the path to chapter 7's softmax on the simulator, and the rows made of their times."""

from __future__ import annotations

import threading

import pytest
import torch

from checkers.simulator.launch import simulating
from tests.gpu import path_ch07, path_ch07_steps

# Of each step one tile: the last, a block of 1024 threads or the table's.
SOME = {
    (dtype, tile.step): tile
    for dtype, lengths in ((torch.bfloat16, (1024, 65536)), (torch.float32, (1024,)))
    for N in lengths
    for tile in path_ch07_steps.tiles(dtype, N)
}


def launched(dtype: torch.dtype, tile, schedule: str = "latest"):
    """Softmax of a few rows of ``tile.N`` by that step's kernel: x, result, the launch."""
    x = torch.randn(tile.rows + (tile.rows > 1), tile.N, generator=torch.Generator().manual_seed(7))
    x = x.to(dtype)
    with simulating("h200", schedule=schedule) as launches:
        out = torch.full_like(x, float("nan")).cuda()
        path_ch07.bind(path_ch07_steps.compiled(tile, dtype), x.cuda(), out)()
        out = out.cpu()
    return x, out, launches[-1]


@pytest.mark.parametrize("case", SOME, ids=lambda case: f"{case[1]}-{case[0]}")
def test_each_step_is_a_softmax_that_reads_its_rows_once(case):
    x, out, launch = launched(case[0], SOME[case], "random:1")
    assert not [fault.message for fault in launch.faults]
    y = x.double().softmax(-1)
    error = (out.double() - y).abs().amax(-1) / y.amax(-1)
    assert error.max() < 4 * torch.finfo(case[0]).eps
    times = 2 if case[1] == "read_twice" else 1
    assert launch.counters["global_load_bytes"] == times * launch.counters["global_store_bytes"]


def test_each_step_waits_at_fewer_barriers():
    """A row of 8192 in one block of 256 threads: 8 warps."""
    waits = {}
    for tile in path_ch07_steps.tiles(torch.bfloat16, 8192):
        if (tile.block_threads, tile.row_threads) == (256, 256):
            waits[tile.step] = launched(torch.bfloat16, tile)[2].counters["barrier_waits"] / 8
    assert waits == {
        "scalar": 18,
        "vectors": 18,
        "async": 18,
        "kept": 18,
        "shuffles": 2,
        "pairs": 1,
    }


def test_the_best_of_a_step_is_marked_and_a_wrong_one_is_not_timed(monkeypatch, capsys):
    """All of a case but the clock, without the peers."""

    def timed(launches):
        for launch in launches.values():
            launch()
        return {name: [1.0 + place] * 3 for place, name in enumerate(launches)}

    def wrong(job, name, tensors):
        if getattr(name, "step", "") == "kept":
            raise SystemExit("WRONG")

    monkeypatch.setattr(path_ch07, "peers", dict)
    monkeypatch.setattr(path_ch07, "TURN", threading.Lock(), raising=False)
    monkeypatch.setattr(path_ch07, "READY", threading.Barrier(1), raising=False)
    monkeypatch.setattr(path_ch07.tune, "ELEMENTS", 4096)
    monkeypatch.setattr(path_ch07.tune, "timed", timed)
    monkeypatch.setattr(path_ch07.tune, "check", wrong)
    with simulating("h200"):
        rows = path_ch07.measure((torch.bfloat16, 1024))
    best = [row["step"] for row in path_ch07.in_order(rows) if row["best"]]
    assert best == ["scalar", "vectors", "async", "shuffles", "pairs", "clusters", "copy"]
    assert all(row["registers"] > 0 for row in rows if row["step"] != "copy")
    assert "kept" in capsys.readouterr().err
    assert "shuffles" in path_ch07.table(rows)
