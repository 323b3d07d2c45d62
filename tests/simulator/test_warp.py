"""Lanes of a warp that exchange values, vote, and meet: results, late lanes, missing lanes.

What the instructions give on hardware is held against in test_golden.py; here are the cases that
hardware leaves undefined, and sm_100's floating-point reductions.
"""

from __future__ import annotations

import numpy as np
import pytest

from checkers.simulator import Result
from checkers.simulator.instructions.warp import source_lane
from checkers.simulator.ptx.modifiers import Unsupported
from tests.simulator.harness import kinds, run_ptx

# out[global thread] = %r1
STORE = """
    mov.u32 %r100, %ctaid.x; mov.u32 %r101, %ntid.x; mov.u32 %r102, %tid.x;
    mad.lo.u32 %r103, %r100, %r101, %r102;
    mul.wide.u32 %rd50, %r103, 4; add.u64 %rd51, %out, %rd50;
    st.global.u32 [%rd51], %r1;
"""
# %r2 = lane, %r9 = 100 + thread, %p1: lane < 16
LANE = "mov.u32 %r2, %laneid; mov.u32 %r8, %tid.x; add.u32 %r9, %r8, 100; setp.lt.u32 %p1, %r2, 16;"


def run(body: str, threads: int = 64, **more: object) -> tuple[np.ndarray, Result]:
    out = np.zeros(-(-threads // 32) * 32, np.uint32)
    return out, run_ptx(LANE + body + STORE, out=out, block=threads, **more)


def messages(result: Result) -> str:
    return "\n".join(fault.message for fault in result.faults)


def test_the_source_lane_of_each_mode_within_segments_of_eight() -> None:
    lane = np.arange(32)
    c = np.int64(0x181F)  # segments of eight lanes, clamp 31
    source, inside = source_lane("bfly", lane, np.int64(3), c)
    assert (source == lane ^ 3).all() and inside.all()
    source, inside = source_lane("down", lane, np.int64(5), c)
    assert (inside == (lane % 8 < 3)).all() and (source == np.where(inside, lane + 5, lane)).all()
    source, inside = source_lane("up", lane, np.int64(2), np.int64(0x1800))
    assert (inside == (lane % 8 >= 2)).all() and (source == np.where(inside, lane - 2, lane)).all()
    source, inside = source_lane("idx", lane, np.int64(9), c)
    assert (source == lane // 8 * 8 + 1).all() and inside.all()


def test_an_offset_counts_modulo_32() -> None:
    lane = np.arange(32)
    source, inside = source_lane("down", lane, np.int64(33), np.int64(0x1F))
    assert (source[:31] == lane[:31] + 1).all() and not inside[31]


def test_a_sum_over_a_warp() -> None:
    steps = "".join(
        f"shfl.sync.bfly.b32 %r3, %r9, {k}, 0x1f, 0xffffffff; add.u32 %r9, %r9, %r3;"
        for k in (16, 8, 4, 2, 1)
    )
    out, result = run(steps + "mov.b32 %r1, %r9;")
    assert not result.faults
    assert (out[:32] == sum(range(100, 132))).all() and (out[32:] == sum(range(132, 164))).all()


def test_the_two_halves_of_a_warp_shuffle_by_themselves() -> None:
    out, result = run(
        """
        @%p1 bra LOW;
        shfl.sync.idx.b32 %r1, %r9, 17, 0x1f, 0xffff0000;
        bra END;
        LOW: shfl.sync.idx.b32 %r1, %r9, 3, 0x1f, 0x0000ffff;
        END:
        """
    )
    assert not result.faults
    assert (out[:16] == 103).all() and (out[16:32] == 117).all() and (out[48:] == 149).all()


def test_masks_in_a_register_that_differ_in_one_warp() -> None:
    out, result = run(
        """
        mov.u32 %r4, 0xffff0000; @%p1 mov.u32 %r4, 0x0000ffff;
        vote.sync.ballot.b32 %r1, %p1, %r4;
        """
    )
    assert not result.faults
    assert (out[:16] == 0xFFFF).all() and (out[16:32] == 0).all()


def test_lanes_that_come_later_are_waited_for() -> None:
    # The high lanes go round first; the shuffle of all waits for them.
    out, result = run(
        """
        mov.u32 %r5, 0;
        @%p1 bra MEET;
        LOOP: add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 10; @%p2 bra LOOP;
        add.u32 %r9, %r9, 1000;
        bra MEET2;
        MEET: bra MEET2;
        MEET2: shfl.sync.bfly.b32 %r1, %r9, 16, 0x1f, 0xffffffff;
        """,
        threads=32,
    )
    assert not result.faults
    assert (out[:16] == np.arange(1116, 1132)).all() and (out[16:] == np.arange(100, 116)).all()


@pytest.mark.parametrize("schedule", ["latest", "random:3"])
def test_bar_warp_sync_in_two_places_is_one_barrier(schedule: str) -> None:
    out, result = run(
        """
        .shared .align 4 .b8 area[128];
        mov.u32 %r4, area; mad.lo.u32 %r5, %r2, 4, %r4; sub.u32 %r6, 31, %r2; mad.lo.u32 %r6, %r6, 4, %r4;
        @%p1 bra LOW;
        st.shared.u32 [%r5], %r9; bar.warp.sync 0xffffffff;
        bra READ;
        LOW: st.shared.u32 [%r5], %r9; bar.warp.sync 0xffffffff;
        READ: ld.shared.u32 %r1, [%r6];
        """,
        threads=32,
        schedule=schedule,
    )
    assert not result.faults, messages(result)
    assert (out == np.arange(131, 99, -1)).all()


def test_without_bar_warp_sync_the_lanes_race() -> None:
    _, result = run(
        """
        .shared .align 4 .b8 area[128];
        mov.u32 %r4, area; mad.lo.u32 %r5, %r2, 4, %r4; sub.u32 %r6, 31, %r2; mad.lo.u32 %r6, %r6, 4, %r4;
        st.shared.u32 [%r5], %r9; ld.shared.u32 %r1, [%r6];
        """,
        threads=32,
    )
    assert kinds(result) == ["race"]


def test_a_shuffle_orders_no_memory() -> None:
    _, result = run(
        """
        .shared .align 4 .b8 area[128];
        mov.u32 %r4, area; mad.lo.u32 %r5, %r2, 4, %r4; sub.u32 %r6, 31, %r2; mad.lo.u32 %r6, %r6, 4, %r4;
        st.shared.u32 [%r5], %r9; shfl.sync.bfly.b32 %r3, %r9, 1, 0x1f, 0xffffffff;
        ld.shared.u32 %r1, [%r6];
        """,
        threads=32,
    )
    assert kinds(result) == ["race"]


def test_lanes_of_the_mask_in_another_branch_never_come() -> None:
    # Each half shuffles for itself with the mask of all, in two places.
    shuffle = "shfl.sync.bfly.b32 %r1, %r9, 1, 0x1f, 0xffffffff;"
    _, result = run(f"@!%p1 bra HIGH; {shuffle} bra END; HIGH: {shuffle} END:", threads=32)
    assert kinds(result) == ["collective", "deadlock"]
    assert "lanes 16 to 31 never came" in messages(result)
    assert "lanes 0 to 15 never came" in messages(result)


def test_lanes_that_have_exited_are_not_waited_for() -> None:
    out, result = run(
        "@!%p1 exit; vote.sync.ballot.b32 %r1, %p1, 0xffffffff;",
        threads=32,
    )
    assert not result.faults
    assert (out[:16] == 0xFFFF).all() and (out[16:] == 0).all()


def test_lanes_that_exit_later_release_those_who_wait() -> None:
    out, result = run(
        """
        @!%p1 bra LEAVE;
        vote.sync.any.pred %p2, %p1, 0xffffffff; selp.u32 %r1, 7, 0, %p2;
        bra STORE;
        LEAVE: add.u32 %r9, %r9, 1; exit;
        STORE:
        """,
        threads=32,
    )
    assert not result.faults
    assert (out[:16] == 7).all()


def test_a_barrier_that_names_exited_lanes_is_noted() -> None:
    _, result = run("mov.b32 %r1, 1; @!%p1 exit; bar.warp.sync 0xffffffff;", threads=32)
    assert not kinds(result)
    assert "lanes 16 to 31, which have exited" in messages(result)


def test_lanes_that_a_block_does_not_have_are_no_fault() -> None:
    out, result = run("bar.warp.sync 0xffffffff; activemask.b32 %r1;", threads=40)
    assert not result.faults
    assert (out[:32] == 0xFFFFFFFF).all() and (out[32:40] == 0xFF).all()


def test_a_value_from_a_lane_outside_is_undefined() -> None:
    _, result = run("@%p1 shfl.sync.idx.b32 %r1, %r9, 20, 0x1f, 0x0000ffff;", threads=32)
    assert kinds(result) == ["collective"]
    assert "Lane 0 takes its value by shfl.sync from lane 20" in messages(result)


def test_executing_outside_the_mask_is_a_fault() -> None:
    _, result = run("redux.sync.add.u32 %r1, %r9, 0x0000ffff;", threads=32)
    assert kinds(result) == ["collective"]
    assert "Lane 16 executes redux.sync with the mask 0x0000ffff" in messages(result)


def test_votes() -> None:
    body = """
        setp.lt.u32 %p3, %r2, 40; setp.gt.u32 %p4, %r2, 40;
        vote.sync.all.pred %p5, %p3, 0xffffffff; selp.u32 %r1, 1, 0, %p5;
        vote.sync.all.pred %p5, %p1, 0xffffffff; @%p5 or.b32 %r1, %r1, 2;
        vote.sync.any.pred %p5, %p1, 0xffffffff; @%p5 or.b32 %r1, %r1, 4;
        vote.sync.any.pred %p5, %p4, 0xffffffff; @%p5 or.b32 %r1, %r1, 8;
        vote.sync.uni.pred %p5, %p4, 0xffffffff; @%p5 or.b32 %r1, %r1, 16;
        vote.sync.uni.pred %p5, !%p3, 0xffffffff; @%p5 or.b32 %r1, %r1, 32;
        vote.sync.uni.pred %p5, %p1, 0xffffffff; @%p5 or.b32 %r1, %r1, 64;
    """
    out, result = run(body)
    assert not result.faults and (out == 1 + 4 + 16 + 32).all()


def test_matches() -> None:
    out, _ = run("and.b32 %r3, %r2, 3; match.any.sync.b32 %r1, %r3, 0xffffffff;", threads=32)
    assert [hex(v) for v in out[:4]] == ["0x11111111", "0x22222222", "0x44444444", "0x88888888"]
    out, _ = run("cvt.u64.u32 %rd3, %r2; match.all.sync.b64 %r1|%p3, %rd3, 0xffffffff;")
    assert (out == 0).all()
    out, _ = run(
        "mov.b64 %rd3, 5; match.all.sync.b64 _|%p3, %rd3, 0xffffffff; selp.u32 %r1, 1, 2, %p3;"
    )
    assert (out == 1).all()


def test_one_lane_is_elected() -> None:
    out, result = run(
        "elect.sync %r3|%p3, 0xffffffff; selp.u32 %r1, 1, 0, %p3; mad.lo.u32 %r1, %r3, 10, %r1;"
    )
    assert not result.faults
    assert out.sum() == 2 and out[0] == 1 and out[32] == 1


FLOATS = np.array([1.5, -0.0, 0.0, -7.0, np.nan, 3.0, -2.0, 6.5] * 4, np.float32)


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("min.f32", 0xC0E00000),
        ("max.f32", 0x40D00000),
        ("max.abs.f32", 0x40E00000),
        ("min.abs.f32", 0x00000000),
        ("max.NaN.f32", 0x7FFFFFFF),
    ],
)
def test_floating_point_reductions(operation: str, expected: int) -> None:
    out, values = np.zeros(32, np.uint32), FLOATS.copy()
    result = run_ptx(
        "mov.u32 %r2, %tid.x; mul.wide.u32 %rd1, %r2, 4; add.u64 %rd2, %values, %rd1;"
        f"ld.global.b32 %r3, [%rd2]; redux.sync.{operation} %r1, %r3, 0xffffffff;" + STORE,
        out=out,
        values=values,
        target="sm_100a",
    )
    assert not result.faults
    assert [hex(v) for v in np.unique(out)] == [hex(expected)]


def test_zeros_have_an_order_and_nans_alone_give_the_canonical_one() -> None:
    for values, operation, expected in (
        ([-0.0, 0.0], "min", 0x80000000),
        ([-0.0, 0.0], "max", 0),
        ([np.nan, -np.nan], "min", 0x7FFFFFFF),
    ):
        out = np.zeros(32, np.uint32)
        given = np.array(values * 16, np.float32)
        run_ptx(
            "mov.u32 %r2, %tid.x; mul.wide.u32 %rd1, %r2, 4; add.u64 %rd2, %given, %rd1;"
            f"ld.global.b32 %r3, [%rd2]; redux.sync.{operation}.f32 %r1, %r3, 0xffffffff;" + STORE,
            out=out,
            given=given,
            target="sm_100a",
        )
        assert np.unique(out).tolist() == [expected]


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        ("shfl.bfly.b32 %r1, %r9, 1, 0x1f;", "without .sync"),
        ("vote.all.pred %p2, %p1;", "without .sync"),
        ("redux.sync.mul.u32 %r1, %r9, 0xffffffff;", "was expected"),
        ("bar.warp.sync.aligned 0xffffffff;", "not known"),
    ],
)
def test_what_is_not_there_is_refused(instruction: str, why: str) -> None:
    with pytest.raises(Unsupported, match=why):
        run(instruction)
