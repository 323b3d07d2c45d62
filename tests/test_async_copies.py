"""Chapter 5's kernels on the simulator: right and without a fault, whenever copies complete."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest
import torch

from checkers.simulator.launch import simulating
from checkers.simulator.reports.counters import Derived
from solutions import ch05_async_copies as ch05

SCHEDULES = ("latest", "earliest", "random:1", "random:2", "random:3")
# Tiles are 2 KiB (pipelined) and 4 KiB (bulk, ring): more rounds than stages, and ragged ends.
KERNELS = [
    pytest.param(ch05.pipelined_silu, (11 * 1024 + 8,), 2, torch.bfloat16, id="pipelined"),
    pytest.param(ch05.bulk_silu, (7 * 2048,), 2, torch.float16, id="bulk"),
    pytest.param(ch05.ring_silu, (75, 264), 2, torch.bfloat16, id="ring"),
    pytest.param(ch05.ring_silu, (75, 132), 1, torch.float32, id="ring of float32"),
]


def silu_of(function, x: torch.Tensor, blocks: int | None, schedule: str = "latest"):
    """The answer and the launch's result."""
    with simulating("h200", schedule) as launches:
        out = function(x.to("cuda"), blocks)
    return out, launches[0]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("function", "shape", "blocks", "dtype"), KERNELS)
def test_it_is_right_and_silent_whenever_copies_complete(
    function, shape, blocks, dtype, schedule
) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(3)).to(dtype) * 3
    out, result = silu_of(function, x, blocks, schedule)
    assert [fault.message for fault in result.faults] == []
    expected = torch.nn.functional.silu(x.double())
    error = (out.double() - expected).abs().max() / expected.abs().max()
    assert error < 2 * torch.finfo(dtype).eps


def test_every_byte_is_asked_for_once() -> None:
    for function, shape in (
        (ch05.pipelined_silu, (8 * 1024,)),
        (ch05.bulk_silu, (8 * 2048,)),
        (ch05.ring_silu, (32, 512)),
    ):
        x = torch.randn(shape).bfloat16()
        _, result = silu_of(function, x, 2)
        assert Derived(result.counters).global_bytes == 2 * x.nbytes, function.__name__


def test_the_answer_does_not_depend_on_the_number_of_blocks() -> None:
    x = torch.randn(69, 264).bfloat16()
    answers = [silu_of(ch05.ring_silu, x, blocks)[0] for blocks in (1, 3, None)]
    assert torch.equal(answers[0], answers[1]) and torch.equal(answers[0], answers[2])


@pytest.mark.parametrize(
    ("function", "make", "says"),
    [
        (
            ch05.pipelined_silu,
            lambda: torch.ones(12, device="cuda").bfloat16(),
            "multiple of 8 elements",
        ),
        (
            ch05.pipelined_silu,
            lambda: torch.ones(16, dtype=torch.float64, device="cuda"),
            "float32, float16",
        ),
        (ch05.pipelined_silu, lambda: torch.ones(17, device="cuda")[1:], "16-byte boundary"),
        (ch05.bulk_silu, lambda: torch.ones(1024 + 4, device="cuda"), "multiple of 1024 elements"),
        (ch05.ring_silu, lambda: torch.ones(16, device="cuda"), "must be a matrix"),
        (ch05.ring_silu, lambda: torch.ones(16, 16, device="cuda").t()[:8], "x.stride(1) == 1"),
        (ch05.ring_silu, lambda: torch.ones(4, 6, device="cuda"), "multiples of 4 elements"),
        (
            ch05.ring_silu,
            lambda: torch.ones(4, 10, device="cuda")[:, :8],
            "multiples of 4 elements",
        ),
        (
            ch05.ring_silu,
            lambda: torch.ones(1, 8, device="cuda").expand(4, 8),
            "rows must lie apart",
        ),
        (ch05.pipelined_silu, lambda: torch.ones(1, device="cuda").expand(2**33), "under 32 GiB"),
    ],
)
def test_what_it_is_not_made_for_is_refused(function, make, says) -> None:
    with simulating("h200"), pytest.raises(ValueError, match="x must|x's rows") as refused:
        function(make())
    assert says in str(refused.value)


def test_an_empty_tensor_launches_nothing() -> None:
    with simulating("h200") as launches:
        assert ch05.pipelined_silu(torch.empty(0, device="cuda")).numel() == 0
        assert ch05.ring_silu(torch.empty(0, 8, device="cuda")).shape == (0, 8)
        assert ch05.ring_silu(torch.empty(8, 0, device="cuda")).shape == (8, 0)
    assert launches == []


@pytest.mark.parametrize(
    ("tiles", "asked", "blocks"),
    [
        (6 * 4096, None, 4096),
        (6 * 4096 + 1, None, 4097),
        (6 * 100, None, 600),  # fewer tiles a block: the GPU is filled first
        (6 * 2000, None, 2048),
        (13, 5, 5),
        (3, 5, 3),
    ],
)
def test_a_block_walks_over_six_tiles_if_the_gpu_is_full_and_nobody_asks_otherwise(
    tiles, asked, blocks
) -> None:
    assert ch05.blocks_for(tiles, asked) == blocks


@pytest.mark.parametrize("asked", [0, -1])
def test_fewer_blocks_than_one_are_refused(asked) -> None:
    with pytest.raises(ValueError, match="blocks must be 1 or more"):
        ch05.blocks_for(13, asked)


@pytest.fixture
def tuning(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(Path(__file__).parent / "gpu")
    return importlib.import_module("tune_ch05")


def test_the_tuning_walks_over_grids_with_the_kernels_own_tiles(tuning) -> None:
    walks = [v for v in tuning.variants("bfloat16") if v.purpose == "walk"]
    assert {(v.kernel, v.tile, v.stages) for v in walks} == {
        ("pipelined", 2048, 3),
        ("bulk", 4096, 1),
        ("ring", 4096, 3),
    }
    assert {v.tiles_per_block for v in walks} == {0, 1, 2, 4, 6, 8, 16, 32}


def test_a_tuned_grid_is_by_tiles_or_by_sms_and_never_has_idle_blocks(tuning) -> None:
    variant = tuning.Variant("pipelined", 2048, 3, "bfloat16", "walk", tiles_per_block=6)
    assert variant.blocks(13, 132) == 3
    assert variant.in_flight == 16 * 2 * 2048
    persistent = tuning.Variant("ring", 4096, 3, "bfloat16", "walk", blocks_per_sm=12)
    assert (persistent.blocks(2**17, 132), persistent.blocks(13, 132)) == (12 * 132, 13)
    assert persistent.in_flight == 12 * 3 * 4096


def test_every_tuned_variant_fits_an_sm_and_is_tried_once(tuning) -> None:
    variants = list(tuning.variants("float32"))
    assert len(set(variants)) == len(variants)
    for variant in variants:
        most = tuning.most_blocks(variant.kernel, variant.tile, variant.stages)
        assert max(1, variant.blocks_per_sm) <= most, variant
        assert bool(variant.tiles_per_block) != bool(variant.blocks_per_sm), variant
