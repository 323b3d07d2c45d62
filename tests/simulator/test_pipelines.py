"""Whole pipelines: right they pass silently under every schedule, and with any one part of them
taken away the fault is called what it is."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator.harness import kinds, run_ptx
from tests.simulator.tma import aligned, map_bytes_of

SCHEDULES = ("latest", "earliest", "random:1", "random:2", "random:3")
TILES = 6

# --- cp.async, two stages ------------------------------------------------------------------------------

# 64 threads; each copies 16 bytes of every tile and sums what its neighbour copied.
CP_ASYNC = """
    .shared .align 128 .b8 buffer[2048];
    mov.u32 %r1, %tid.x; mov.u32 %r2, buffer; shl.b32 %r3, %r1, 4; add.u32 %r4, %r2, %r3;
    xor.b32 %r5, %r4, 16;
    mul.wide.u32 %rd1, %r1, 16; add.u64 %rd2, %x, %rd1;
    mov.u32 %r6, 0; mov.u32 %r9, 0;
    cp.async.cg.shared.global [%r4], [%rd2], 16;
    cp.async.commit_group;
    LOOP:
    add.u32 %r7, %r6, 1; setp.ge.u32 %p1, %r7, 6; @%p1 bra LAST;
    and.b32 %r8, %r7, 1; shl.b32 %r8, %r8, 10; add.u32 %r10, %r4, %r8;
    mul.wide.u32 %rd3, %r7, 1024; add.u64 %rd4, %rd2, %rd3;
    cp.async.cg.shared.global [%r10], [%rd4], 16;
    LAST:
    {commit}
    {wait}
    {barrier_after_wait}
    and.b32 %r8, %r6, 1; shl.b32 %r8, %r8, 10; add.u32 %r11, %r5, %r8;
    ld.shared.u32 %r12, [%r11]; add.u32 %r9, %r9, %r12;
    {barrier_before_refill}
    add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 6; @%p2 bra LOOP;
    {tail}
    mul.wide.u32 %rd5, %r1, 4; add.u64 %rd5, %out, %rd5; st.global.u32 [%rd5], %r9;
"""
CP_ASYNC_PARTS = {
    "commit": "cp.async.commit_group;",
    "wait": "cp.async.wait_group 1;",
    "barrier_after_wait": "bar.sync 0;",
    "barrier_before_refill": "bar.sync 0;",
    "tail": "",
}


def cp_async(schedule: str, **parts: str):
    x, out = aligned((TILES, 64, 4), np.uint32), np.zeros(64, np.uint32)
    body = CP_ASYNC.format(**(CP_ASYNC_PARTS | parts))
    result = run_ptx(body, x=x, out=out, block=64, schedule=schedule)
    return result, out, x[:, np.arange(64) ^ 1, 0].sum(axis=0)


def text(result, kind: str) -> str:
    return "\n".join(f.message for f in result.faults if f.kind == kind)


def deadlock(result) -> str:
    return "\n".join(s for f in result.faults if f.kind == "deadlock" for s in f.details["waiting"])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_cp_async_pipeline(schedule):
    result, out, expected = cp_async(schedule)
    assert kinds(result) == [] and np.array_equal(out, expected)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_cp_async_without_the_wait(schedule):
    result, *_ = cp_async(schedule, wait="", tail="cp.async.wait_all;")
    assert kinds(result) == ["read_before_wait"] or kinds(result) == ["race", "read_before_wait"]
    assert "no cp.async.wait_group that covers it" in text(result, "read_before_wait")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_cp_async_waiting_for_one_group_too_few(schedule):
    result, *_ = cp_async(schedule, wait="cp.async.wait_group 2;", tail="cp.async.wait_all;")
    assert "read_before_wait" in kinds(result)
    assert "cp.async.wait_group 2 lets the 2 newest groups go on" in text(
        result, "read_before_wait"
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_cp_async_without_the_barrier_after_the_wait(schedule):
    result, *_ = cp_async(schedule, barrier_after_wait="")
    assert kinds(result) == ["read_before_wait"]
    assert "has waited for it, but no barrier after that wait" in text(result, "read_before_wait")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_cp_async_without_the_commit(schedule):
    result, *_ = cp_async(schedule, commit="", tail="cp.async.wait_all;")
    assert "commit" in kinds(result)
    assert "never committed to a group" in text(result, "commit")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_cp_async_without_the_barrier_before_the_refill(schedule):
    result, *_ = cp_async(schedule, barrier_before_refill="")
    assert set(kinds(result)) <= {"race", "overwritten_in_flight"} and kinds(result)


# --- TMA, two stages, one producer warp, two consumer warps --------------------------------------------

TMA = """
    .shared .align 1024 .b8 stages[4096];
    .shared .align 8 .b64 full[4];
    .shared .align 8 .b64 empty[4];
    mov.u32 %r1, %tid.x; mov.u32 %r2, stages; mov.u32 %r3, full; mov.u32 %r4, empty;
    setp.eq.u32 %p1, %r1, 0; @!%p1 bra READY;
    mov.u32 %r30, 0;
    INIT: shl.b32 %r31, %r30, 3; add.u32 %r32, %r3, %r31; add.u32 %r33, %r4, %r31;
    mbarrier.init.shared.b64 [%r32], 1; mbarrier.init.shared.b64 [%r33], {consumers};
    add.u32 %r30, %r30, 1; setp.lt.u32 %p7, %r30, {stages}; @%p7 bra INIT;
    fence.mbarrier_init.release.cluster;
    READY: bar.sync 0;
    mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, {start}; mov.u64 %rd1, k_map;
    setp.ge.u32 %p2, %r1, 32; @%p2 bra CONSUMER;
    @!%p1 bra END;
    PRODUCER:
    shl.b32 %r8, %r6, 3; add.u32 %r9, %r3, %r8; add.u32 %r10, %r4, %r8; shl.b32 %r11, %r6, 10;
    add.u32 %r12, %r2, %r11; shl.b32 %r13, %r5, 3;
    {empty_wait}
    {expect}
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
        [%r12], [%rd1, {{0, %r13}}], [%r9];
    add.u32 %r6, %r6, 1; setp.eq.u32 %p4, %r6, {stages}; @%p4 mov.u32 %r6, 0; {producer_flip}
    add.u32 %r5, %r5, 1; setp.lt.u32 %p5, %r5, {tiles}; @%p5 bra PRODUCER;
    bra.uni END;
    CONSUMER:
    mov.u32 %r7, 0; mov.u32 %r20, 0; sub.u32 %r21, %r1, 32; shl.b32 %r22, %r21, 2;
    LOOP:
    shl.b32 %r8, %r6, 3; add.u32 %r9, %r3, %r8; add.u32 %r10, %r4, %r8; shl.b32 %r11, %r6, 10;
    {full_wait}
    add.u32 %r12, %r2, %r11; add.u32 %r12, %r12, %r22; ld.shared.u32 %r23, [%r12];
    ld.shared.u32 %r24, [%r12+256]; add.u32 %r23, %r23, %r24; add.u32 %r20, %r20, %r23;
    {empty_arrive}
    add.u32 %r6, %r6, 1; setp.eq.u32 %p4, %r6, {stages}; @%p4 mov.u32 %r6, 0; {consumer_flip}
    add.u32 %r5, %r5, 1; setp.lt.u32 %p5, %r5, {tiles}; @%p5 bra LOOP;
    mul.wide.u32 %rd2, %r21, 4; add.u64 %rd2, %out, %rd2; st.global.u32 [%rd2], %r20;
    END:
"""
TMA_PARTS = {
    "stages": "2",
    "tiles": str(TILES),
    "consumers": "64",
    "start": "1",
    "empty_wait": "E: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r10], %r7; @!%p3 bra E;",
    "expect": "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], 1024;",
    "producer_flip": "@%p4 xor.b32 %r7, %r7, 1;",
    "full_wait": "F: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r9], %r7; @!%p3 bra F;",
    "empty_arrive": "mbarrier.arrive.shared::cta.b64 _, [%r10];",
    "consumer_flip": "@%p4 xor.b32 %r7, %r7, 1;",
}


def tma(schedule: str, tiles: int = TILES, **parts: str):
    x, out = aligned((tiles * 8, 32), np.uint32), np.zeros(64, np.uint32)
    parts["tiles"] = str(tiles)
    result = run_ptx(
        TMA.format(**(TMA_PARTS | parts)),
        x=x,
        out=out,
        block=96,
        schedule=schedule,
        raw_parameters={"map": map_bytes_of(x, (32, 8))},
    )
    halves = x.reshape(tiles, 4, 64)
    return result, out, (halves[:, 0] + halves[:, 1]).sum(axis=0)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_tma_pipeline(schedule):
    result, out, expected = tma(schedule)
    assert kinds(result) == [] and np.array_equal(out, expected)
    assert result.counters["tma_load_bytes"] == TILES * 1024


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("stages", "tiles"), [(1, 1), (1, 4), (3, 2), (3, 10), (4, 9)])
def test_tma_pipelines_of_any_depth(stages, tiles, schedule):
    result, out, expected = tma(schedule, tiles, stages=str(stages))
    assert kinds(result) == [] and np.array_equal(out, expected)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_tma_arrivals_of_one_elected_lane_a_warp(schedule):
    elected = """
        bar.warp.sync 0xffffffff;
        mov.u32 %r25, %laneid; setp.eq.u32 %p6, %r25, 0;
        @%p6 mbarrier.arrive.shared::cta.b64 _, [%r10];
    """
    result, out, expected = tma(schedule, consumers="2", empty_arrive=elected)
    assert kinds(result) == [] and np.array_equal(out, expected)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_tma_without_expect_tx(schedule):
    result, *_ = tma(schedule, expect="mbarrier.arrive.shared::cta.b64 _, [%r9];")
    assert "expect_tx" in kinds(result)
    assert "expect" in text(result, "expect_tx")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_tma_without_arrive_and_expect_tx(schedule):
    result, *_ = tma(schedule, expect="")
    assert kinds(result) == ["deadlock", "expect_tx"]
    assert "nobody told it to expect bytes, yet 1024 arrived" in text(result, "expect_tx")


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("promised", [512, 2048])
def test_tma_with_the_wrong_number_of_bytes(schedule, promised):
    wrong = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r9], {promised};"
    result, *_ = tma(schedule, expect=wrong)
    assert kinds(result) == ["deadlock", "expect_tx"]
    assert f"it expects {promised} bytes, 1024 arrived" in text(result, "expect_tx")
    assert f"it expects {promised} bytes, 1024 arrived" in deadlock(result)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_tma_without_the_full_wait(schedule):
    result, *_ = tma(schedule, full_wait="")
    assert "read_before_wait" in kinds(result) or "uninitialised" in kinds(result)
    if schedule == "latest":
        assert "read_before_wait" in kinds(result)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_tma_without_the_empty_wait(schedule):
    result, *_ = tma(schedule, empty_wait="")
    assert {"race", "mbarrier", "overwritten_in_flight", "read_before_wait"} & set(kinds(result))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_tma_without_the_consumers_flip(schedule):
    result, *_ = tma(schedule, consumer_flip="")
    named = set(kinds(result))
    assert "phase" in named or "does the parity flip" in text(result, "read_before_wait")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_tma_without_the_producers_flip(schedule):
    result, *_ = tma(schedule, producer_flip="")
    assert "phase" in kinds(result)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_tma_without_the_empty_arrive(schedule):
    result, *_ = tma(schedule, empty_arrive="")
    assert kinds(result) == ["deadlock"]
    words = deadlock(result)
    assert "phase 0 (parity 0) of the mbarrier empty[0]" in words
    assert "0 of 64 arrivals came; nobody has ever arrived at it" in words


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_tma_with_too_high_a_count(schedule):
    result, *_ = tma(schedule, consumers="96")
    assert kinds(result) == ["deadlock"]
    assert "64 of 96 arrivals came" in deadlock(result)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_tma_with_both_sides_starting_at_the_same_parity(schedule):
    result, *_ = tma(schedule, start="0")
    assert kinds(result) == ["deadlock"]
    assert "the first wait of a producer must ask for parity 1" in deadlock(result)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_tma_that_nobody_waits_for_is_in_flight_at_the_end(schedule):
    body = """
        .shared .align 1024 .b8 tile[1024]; .shared .align 8 .b64 bar;
        mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @!%p1 bra END;
        mov.u32 %r2, tile; mov.u32 %r3, bar; mov.u64 %rd1, k_map;
        mbarrier.init.shared.b64 [%r3], 1;
        mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 1024;
        cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
            [%r2], [%rd1, {0, 0}], [%r3];
        END:
    """
    x = aligned((8, 32), np.uint32)
    result = run_ptx(body, x=x, raw_parameters={"map": map_bytes_of(x, (32, 8))}, schedule=schedule)
    assert kinds(result) == ["exit_in_flight"]
