"""Sectors and wavefronts against counts made by hand and by a loop over lanes."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from checkers.simulator.memory.transactions import Transactions, sectors, wavefronts
from tests.simulator.harness import kinds, run_ptx

LANES = np.arange(32)


def slow_sectors(threads, address, width):
    moved, needed = 0, 0
    for warp in {t // 32 for t in threads}:
        mine = [a for t, a in zip(threads, address, strict=True) if t // 32 == warp]
        moved += len({a // 32 for a in mine})
        needed += math.ceil(len({b for a in mine for b in range(a, a + width)}) / 32)
    return moved, needed


def slow_wavefronts(threads, position, width):
    taken, needed = 0, 0
    parts = max(width // 4, 1)
    part_of = lambda t: (t // 32, t % 32 // (32 // parts))  # noqa: E731
    for part in {part_of(t) for t in threads}:
        words = {
            p // 4 + i
            for t, p in zip(threads, position, strict=True)
            if part_of(t) == part
            for i in range(parts)
        }
        banks = [sum(w % 32 == b for w in words) for b in range(32)]
        taken += max(banks)
        needed += math.ceil(len(words) / 32)
    return taken, needed


@pytest.mark.parametrize("seed", range(20))
def test_counts_agree_with_a_loop_over_lanes(seed):
    rng = random.Random(seed)
    width = rng.choice([1, 2, 4, 8, 16])
    threads = sorted(rng.sample(range(128), rng.choice([1, 7, 32, 128])))
    address = [rng.randrange(64) * width * rng.choice([1, 1, 3]) + 4096 for _ in threads]
    arrays = np.array(threads), np.array(address)
    assert sectors(*arrays, width) == slow_sectors(threads, address, width)
    assert wavefronts(*arrays, width) == slow_wavefronts(threads, address, width)


@pytest.mark.parametrize(
    ("address", "width", "wanted"),
    [
        (LANES * 4, 4, (4, 4)),  # neighbouring floats: 128 bytes
        (LANES * 4 + 4, 4, (5, 4)),  # the same, one float further: a fifth sector
        (LANES * 8, 4, (8, 4)),  # every second float
        (LANES * 128, 4, (32, 4)),  # a column: a sector a lane
        (LANES * 0, 4, (1, 1)),  # one float for all
        (LANES * 16, 16, (16, 16)),  # vectors
        (LANES * 2, 2, (2, 2)),  # neighbouring halves
    ],
)
def test_sectors_of_well_known_patterns(address, width, wanted):
    assert sectors(LANES, address, width) == wanted


@pytest.mark.parametrize(
    ("position", "width", "wanted"),
    [
        (LANES * 4, 4, (1, 1)),  # a row
        (LANES * 128, 4, (32, 1)),  # a column of a 32-wide tile: all in one bank
        (LANES * 132, 4, (1, 1)),  # the same with a padding word
        (LANES * 8, 4, (2, 1)),  # every second word
        (LANES * 0, 4, (1, 1)),  # broadcast
        (LANES // 2 * 4, 2, (1, 1)),  # two halves of a word
        (LANES * 8, 8, (2, 2)),  # doubles: half warps
        (LANES * 16, 16, (4, 4)),  # vectors: quarter warps
        (LANES * 32, 16, (8, 4)),  # vectors at twice their width
        (LANES % 8 * 128 + LANES // 8 * 16, 16, (32, 4)),  # a column of 16-byte cells, rows of 128
    ],
)
def test_wavefronts_of_well_known_patterns(position, width, wanted):
    assert wavefronts(LANES, position, width) == wanted


def test_ldmatrix_rows_of_a_swizzled_tile_are_free_of_conflicts():
    row = LANES % 8
    plain = row * 128
    swizzled = row * 128 + (row << 4)
    assert wavefronts(LANES, plain + LANES // 8 * 1024, 16) == (32, 4)
    assert wavefronts(LANES, swizzled + LANES // 8 * 1024, 16) == (4, 4)


def test_a_pattern_is_recognised_at_other_addresses_but_not_at_other_phases():
    counts = Transactions()
    assert counts.sectors(LANES, LANES * 4 + 4096, 4) == (4, 4)
    assert counts.sectors(LANES + 64, LANES * 4 + 8192, 4) == (4, 4)
    assert counts.sectors(LANES, LANES * 4 + 4100, 4) == (5, 4)
    assert counts.sectors(LANES[:8], LANES[:8] * 4 + 4096, 4) == (1, 1)
    assert counts.sectors(LANES[::4], LANES[:8] * 4 + 4096, 4) == (1, 1)
    two_warps = np.arange(64)
    assert counts.sectors(two_warps, two_warps * 4 + 4096, 4) == (8, 8)
    assert counts.wavefronts(LANES, LANES * 8, 4) == (2, 1)
    assert counts.wavefronts(LANES, LANES * 8 + 1280, 4) == (2, 1)


def test_half_a_warp_that_is_masked_off_counts_for_nothing():
    threads = LANES[:16]
    assert sectors(threads, threads * 128, 4) == (16, 2)
    assert wavefronts(threads, threads * 128, 4) == (16, 1)


def test_a_kernel_s_accesses_are_counted():
    x, y = np.zeros(4096, np.float32), np.zeros(4096, np.float32)
    x = x[(-x.ctypes.data // 4) % 8 :][:2048]
    y = y[(-y.ctypes.data // 4) % 8 :][:2048]
    result = run_ptx(
        """
        .shared .align 16 .b8 s[4224];
        mov.u32 %r0, %tid.x; mul.wide.u32 %rd0, %r0, 4; mul.wide.u32 %rd1, %r0, 128;
        add.u64 %rd2, %x, %rd0; ld.global.f32 %f1, [%rd2];
        mul.lo.u32 %r1, %r0, 128; rem.u32 %r1, %r1, 4096; mov.u32 %r2, s; add.u32 %r1, %r1, %r2;
        setp.lt.u32 %p1, %r0, 32; @%p1 st.shared.f32 [%r1], %f1; bar.sync 0; ld.shared.f32 %f2, [%r2];
        add.u64 %rd3, %y, %rd1; @%p1 st.global.f32 [%rd3], %f2;
        """,
        block=64,
        x=x,
        y=y,
    )
    assert kinds(result) == []
    wanted = {
        "global_load_bytes": 256,
        "global_load_sectors": 8,
        "global_load_sectors_needed": 8,
        "global_load_requests": 2,
        "global_store_bytes": 128,
        "global_store_sectors": 32,
        "global_store_sectors_needed": 4,
        "global_store_requests": 1,
        "shared_store_bytes": 128,
        "shared_store_wavefronts": 32,
        "shared_store_wavefronts_needed": 1,
        "shared_load_bytes": 256,
        "shared_load_wavefronts": 2,
        "shared_load_wavefronts_needed": 2,
    }
    assert {name: result.counters[name] for name in wanted} == wanted


def test_another_block_s_shared_memory_is_counted_apart():
    body = """
        .shared .align 16 .b32 s[32]; mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 2; mov.u32 %r2, s;
        add.u32 %r1, %r1, %r2; st.shared.u32 [%r1], %r0; barrier.cluster.arrive; barrier.cluster.wait;
        mov.u32 %r3, %cluster_ctarank; xor.b32 %r3, %r3, 1; mapa.shared::cluster.u32 %r4, %r1, %r3;
        ld.shared::cluster.u32 %r5, [%r4]; barrier.cluster.arrive; barrier.cluster.wait;
    """
    result = run_ptx(body, block=32, grid=2, cluster=2)
    assert kinds(result) == []
    assert result.counters["cluster_load_bytes"] == 256
    assert result.counters["shared_load_bytes"] == 0
    assert result.counters["shared_store_bytes"] == 256
