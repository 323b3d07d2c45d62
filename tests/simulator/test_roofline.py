"""The roofline card: floors by hand, occupancy by hand, and honest words."""

from __future__ import annotations

import pytest

from checkers.simulator.reports.counters import Counters
from checkers.simulator.reports.gpus import GPUS, gpu
from checkers.simulator.reports.roofline import Roofline, occupancy, roofline

H200 = gpu("h200")


def card(on=H200, blocks: int = 1320, **amounts: int) -> Roofline:
    counters = Counters()
    for name, amount in amounts.items():
        counters.add(name, amount)
    return roofline(counters, on, kernel="k", blocks=blocks, threads=256)


def test_memory_is_bytes_over_bandwidth():
    floor = card(global_read_footprint=4_800_000).floor
    assert floor.name == "HBM bandwidth" and floor.microseconds == pytest.approx(1.0)


def test_sectors_count_whole_however_little_of_them_is_wanted():
    floor = card(global_load_sectors=1_000_000, global_load_sectors_needed=1).floor
    assert floor.name == "L2 bandwidth"
    assert floor.microseconds == pytest.approx(32e6 / (5120 * 1980))


def test_tensor_cores_are_flop_over_the_types_rate():
    slow = card(mma_flops_bf16=989_400_000).floor
    fast = card(mma_flops_f8=989_400_000).floor
    assert slow.name == fast.name == "tensor cores"
    assert slow.microseconds == pytest.approx(1.0)
    assert fast.microseconds == pytest.approx(0.5, rel=1e-3)


def test_a_grid_of_few_blocks_has_few_sms():
    full, one = card(shared_load_wavefronts=1320), card(blocks=1, shared_load_wavefronts=1320)
    assert full.floor.microseconds == pytest.approx(10 / 1980)
    assert one.floor.microseconds == pytest.approx(1320 / 1980)
    assert one.sms_busy == 1 and "Only 1 of 132 SMs" in one.text()


def test_special_functions_are_an_eighth_as_fast_as_fma():
    found = {
        b.name: b.microseconds for b in card(instructions_special=80, instructions_fp32=80).bounds
    }
    assert found["special function"] == pytest.approx(8 * found["fp32 units"])
    assert found["issue"] == pytest.approx(160 / (4 * 132 * 1980))


def test_bounds_come_largest_first_with_shares():
    found = card(global_read_footprint=4_800_000, mma_flops_bf16=494_700_000)
    assert [bound.name for bound in found.bounds] == ["HBM bandwidth", "tensor cores"]
    assert found.share(found.bounds[1]) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("threads", "shared", "registers", "blocks", "limited_by"),
    [
        (256, 0, None, 8, ["threads"]),
        (32, 0, None, 32, ["blocks"]),
        (256, 100 * 1024, None, 2, ["shared memory"]),
        (256, 227 * 1024, None, 1, ["shared memory"]),
        (256, 227 * 1024 + 1, None, 0, ["shared memory"]),
        (256, 0, 128, 2, ["registers"]),
        (256, 0, 255, 1, ["registers"]),
        (384, 0, 168, 1, ["registers"]),
        (1024, 0, 32, 2, ["threads", "registers"]),
    ],
)
def test_occupancy_as_the_calculator_has_it(threads, shared, registers, blocks, limited_by):
    found = occupancy(H200, threads, shared, registers)
    assert (found.blocks, found.limited_by) == (blocks, limited_by)
    assert found.warps == blocks * -(-threads // 32)


def test_the_card_fits_80_columns_and_says_what_it_is():
    text = card(
        gpu("b200"), global_read_footprint=10**9, shared_load_wavefronts=10**7, mma_flops_f4=10**12
    ).text()
    assert max(map(len, text.splitlines())) <= 80
    assert "A floor from counts, not a prediction" in text
    assert "not confirmed on hardware here" in text
    assert "Met first: HBM bandwidth (each of 1 G bytes once, from cold caches)." in text


def test_a_gpu_that_was_measured_needs_no_warning():
    assert "not confirmed" not in card(global_read_footprint=1).text()


def test_nothing_counted_says_so():
    found = card()
    assert found.floor is None and "nothing was counted" in found.text()
    assert found.to_json()["bounds"] == []


def test_an_unknown_gpu_is_named_with_those_there_are():
    with pytest.raises(ValueError, match="'a100'.*h100, h200, b200"):
        gpu("a100")
    assert gpu("H100") is GPUS["h100"]
