"""bar, barrier: what they synchronise, and what is wrong with one that never ends."""

from __future__ import annotations

import numpy as np
import pytest

from checkers.simulator.ptx.modifiers import Unsupported
from tests.simulator.harness import kinds, run_ptx

SCHEDULES = ("latest", "earliest", "random:1", "random:2")

# A block-wide exchange: thread t stores t, then reads its neighbour from the far end.
EXCHANGE = """
    .shared .align 16 .b8 buffer[512];
    mov.u32 %r1, %tid.x; mov.u32 %r2, buffer; shl.b32 %r3, %r1, 2; add.u32 %r4, %r2, %r3;
    st.shared.u32 [%r4], %r1;
    {barrier}
    mov.u32 %r5, %ntid.x; sub.u32 %r5, %r5, 1; sub.u32 %r5, %r5, %r1; shl.b32 %r5, %r5, 2;
    add.u32 %r6, %r2, %r5; ld.shared.u32 %r7, [%r6];
    mov.u32 %r8, %ctaid.x; mad.lo.u32 %r8, %r8, 128, %r1;
    mul.wide.u32 %rd1, %r8, 4; add.u64 %rd1, %out, %rd1; st.global.u32 [%rd1], %r7;
"""


def exchange(barrier: str, schedule: str = "latest", blocks: int = 3):
    out = np.zeros(blocks * 128, np.uint32)
    body = EXCHANGE.format(barrier=barrier)
    return run_ptx(body, out=out, block=128, grid=blocks, schedule=schedule), out


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "barrier",
    ["bar.sync 0;", "barrier.sync 0;", "barrier.cta.sync.aligned 3, 128;", "bar.sync 15, 128;"],
)
def test_a_barrier_makes_the_stores_before_it_visible(barrier, schedule):
    result, out = exchange(barrier, schedule)
    assert kinds(result) == []
    assert out.tolist() == list(range(127, -1, -1)) * 3


def test_without_the_barrier_it_is_a_race():
    result, _ = exchange("")
    assert kinds(result) == ["race"] or kinds(result) == ["race", "uninitialised"]


def test_waits_are_counted_by_warps():
    result, _ = exchange("bar.sync 0;", blocks=2)
    assert result.counters["barrier_waits"] == 2 * 4


def test_a_barrier_in_a_loop_is_new_each_time():
    out = np.zeros(64, np.uint32)
    result = run_ptx(
        """
        .shared .align 4 .b8 cell[4];
        mov.u32 %r1, %tid.x; mov.u32 %r2, cell; mov.u32 %r3, 0; mov.u32 %r7, 0;
        LOOP:
        rem.u32 %r4, %r3, 64; setp.eq.u32 %p1, %r4, %r1;
        @%p1 st.shared.u32 [%r2], %r3;
        bar.sync 0;
        ld.shared.u32 %r5, [%r2]; add.u32 %r7, %r7, %r5;
        bar.sync 0;
        add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 70; @%p2 bra LOOP;
        mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %out, %rd1; st.global.u32 [%rd1], %r7;
        """,
        out=out,
        block=64,
    )
    assert kinds(result) == []
    assert (out == sum(range(70))).all()


# Warps 0 and 1 produce, warps 2 and 3 consume: the manual's own example.
PRODUCER_CONSUMER = """
    .shared .align 4 .b8 data[256];
    mov.u32 %r1, %tid.x; mov.u32 %r2, data; and.b32 %r3, %r1, 63; shl.b32 %r4, %r3, 2;
    add.u32 %r5, %r2, %r4; mov.u32 %r9, 0; mov.u32 %r10, 0; setp.ge.u32 %p1, %r1, 64;
    @%p1 bra CONSUMER;
    PRODUCE:
    add.u32 %r6, %r3, %r9; st.shared.u32 [%r5], %r6;
    {full}
    bar.sync 2, 128;
    add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 5; @%p2 bra PRODUCE;
    bra.uni END;
    CONSUMER:
    bar.sync 1, 128;
    xor.b32 %r7, %r4, 252; add.u32 %r7, %r2, %r7; ld.shared.u32 %r8, [%r7]; add.u32 %r10, %r10, %r8;
    bar.arrive 2, 128;
    add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 5; @%p2 bra CONSUMER;
    mul.wide.u32 %rd1, %r3, 4; add.u64 %rd1, %out, %rd1; st.global.u32 [%rd1], %r10;
    END:
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_arrive_does_not_wait_and_sync_does(schedule):
    out = np.zeros(64, np.uint32)
    body = PRODUCER_CONSUMER.format(full="bar.arrive 1, 128;")
    result = run_ptx(body, out=out, block=128, schedule=schedule)
    assert kinds(result) == []
    assert out.tolist() == [5 * (63 - t) + 10 for t in range(64)]


def test_an_arrive_that_is_missing_is_a_deadlock_that_says_where_everybody_is():
    result = run_ptx(PRODUCER_CONSUMER.format(full=""), out=np.zeros(64, np.uint32), block=128)
    assert kinds(result) == ["deadlock"]
    (fault,) = [f for f in result.faults if f.kind == "deadlock"]
    text = "\n".join(fault.details["waiting"])
    assert "barrier 1: 64 of 128 threads have arrived" in text
    assert "barrier 2: 64 of 128 threads have arrived" in text
    assert "warps 0 and 1 at PTX line" in text


def test_warps_that_have_exited_are_not_waited_for_without_a_count():
    out = np.zeros(128, np.uint32)
    result = run_ptx(
        """
        mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 80; @%p1 exit;
        bar.sync 0;
        mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %out, %rd1; st.global.u32 [%rd1], 1;
        """,
        out=out,
        block=128,
    )
    assert kinds(result) == [] and out.tolist() == [1] * 80 + [0] * 48


def test_warps_that_exit_later_release_those_who_wait():
    out = np.zeros(64, np.uint32)
    result = run_ptx(
        """
        mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bra WAIT;
        add.u32 %r2, %r1, 1; add.u32 %r2, %r2, 1; exit;
        WAIT: bar.sync 0;
        mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %out, %rd1; st.global.u32 [%rd1], 1;
        """,
        out=out,
        block=64,
        schedule="random:3",
    )
    assert kinds(result) == [] and out.sum() == 32


def test_a_barrier_that_some_end_without_is_noted_as_one_in_a_branch():
    body = "mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 40; @%p1 bra END; bar.sync 0; END:"
    result = run_ptx(body, block=128)
    assert kinds(result) == []
    (note,) = result.faults
    assert note.kind == "barrier" and "for all 128 threads of the block, 40 came" in note.message
    assert not run_ptx("bar.sync 0;", block=128).faults


def test_a_count_that_exited_warps_would_have_filled_names_them():
    result = run_ptx(
        """
        mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 64; @%p1 exit;
        bar.sync 1, 128;
        """,
        out=np.zeros(1, np.uint32),
        block=128,
    )
    assert kinds(result) == ["deadlock"]
    (fault,) = [f for f in result.faults if f.kind == "deadlock"]
    assert "64 of 128 threads have arrived; warps 2 and 3 exited" in fault.details["waiting"][0]


def test_a_count_that_is_no_whole_number_of_warps():
    result = run_ptx("bar.sync 1, 48;", out=np.zeros(1, np.uint32), block=64)
    assert "barrier" in kinds(result)
    assert any("multiple of 32" in f.message for f in result.faults)


def test_a_number_or_a_count_that_cannot_be():
    result = run_ptx("bar.sync 16;", out=np.zeros(1, np.uint32), block=64)
    assert "there is no barrier 16".lower() in result.faults[0].message.lower()
    result = run_ptx("bar.sync 1, 96;", out=np.zeros(1, np.uint32), block=64)
    assert "96 threads, in a block of 64" in result.faults[0].message


def test_consumers_of_many_blocks_meet_among_themselves():
    out = np.zeros(20 * 64, np.uint32)
    body = """
        .shared .align 128 .b8 data[256];
        mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bra END;
        sub.u32 %r2, %r1, 32; mov.u32 %r3, data; shl.b32 %r4, %r2, 2; add.u32 %r5, %r3, %r4;
        mov.u32 %r9, %ctaid.x; mad.lo.u32 %r8, %r9, 100, %r2; st.shared.u32 [%r5], %r8;
        bar.sync 1, 64;
        xor.b32 %r6, %r4, 252; add.u32 %r6, %r3, %r6; ld.shared.u32 %r7, [%r6];
        mad.lo.u32 %r10, %r9, 64, %r2; mul.wide.u32 %rd1, %r10, 4; add.u64 %rd1, %out, %rd1;
        st.global.u32 [%rd1], %r7;
        END:
    """
    for schedule in SCHEDULES:
        result = run_ptx(body, out=out, block=96, grid=20, schedule=schedule)
        assert kinds(result) == []
        assert out.tolist() == [100 * b + 63 - t for b in range(20) for t in range(64)]


def test_two_counts_for_one_barrier():
    body = """
        mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 64; @%p1 bra A;
        bar.sync 1, 64; bra.uni END;
        A: bar.sync 1, 96;
        END:
    """
    result = run_ptx(body, out=np.zeros(1, np.uint32), block=96)
    assert any(
        "for 64 threads" in f.message or "for 96 threads" in f.message for f in result.faults
    )


def test_a_warp_that_arrives_twice_before_the_barrier_is_over():
    body = """
        mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 32; @%p1 bra B;
        bar.arrive 1, 64; bar.sync 1, 64; bra.uni END;
        B: bar.sync 0, 32;
        END:
    """
    result = run_ptx(body, out=np.zeros(1, np.uint32), block=64)
    (fault,) = [f for f in result.faults if f.kind == "barrier"]
    assert "again before the barrier is over" in fault.message


def test_an_aligned_barrier_in_half_a_warp():
    body = """
        mov.u32 %r1, %laneid; setp.lt.u32 %p1, %r1, 16; @%p1 bra A;
        bar.sync 1; bra.uni END;
        A: bar.sync 2;
        END:
    """
    result = run_ptx(body, out=np.zeros(1, np.uint32), block=32)
    assert kinds(result) == ["barrier", "deadlock"]
    assert any("Only 16 lanes of warp 0" in f.message for f in result.faults)


def test_lanes_of_a_warp_from_two_places():
    body = """
        mov.u32 %r1, %laneid; setp.lt.u32 %p1, %r1, 16; @%p1 bra A;
        {form}; bra.uni END;
        A: {form};
        END:
    """
    aligned = run_ptx(body.format(form="bar.sync 1"), out=np.zeros(1, np.uint32), block=32)
    assert any("from two places" in f.message for f in aligned.faults)
    free = run_ptx(body.format(form="barrier.sync 1"), out=np.zeros(1, np.uint32), block=32)
    assert kinds(free) == []


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("bar.red.popc.u32 %r7, 0, {p};", 30),
        ("barrier.red.popc.aligned.u32 %r7, 1, 96, {p};", 30),
        ("bar.red.and.pred %p5, 0, {p}; selp.u32 %r7, 1, 0, %p5;", 0),
        ("bar.red.or.pred %p5, 0, {p}; selp.u32 %r7, 1, 0, %p5;", 1),
    ],
)
def test_reductions(form, expected):
    out = np.full(96, 99, np.uint32)
    body = """
        mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 30; setp.ge.u32 %p2, %r1, 30;
        {form}
        mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %out, %rd1; st.global.u32 [%rd1], %r7;
    """
    result = run_ptx(body.format(form=form.format(p="%p1")), out=out, block=96)
    assert kinds(result) == [] and (out == expected).all()
    if "popc" in form:
        run_ptx(body.format(form=form.format(p="!%p2")), out=out, block=96, schedule="random:5")
        assert (out == expected).all()


def test_a_reduction_mixed_with_a_sync():
    body = """
        mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bra A;
        bar.sync 1, 64; bra.uni END;
        A: bar.red.popc.u32 %r2, 1, 64, %p1;
        END:
    """
    result = run_ptx(body, out=np.zeros(1, np.uint32), block=64)
    assert any("must not be mixed" in f.message for f in result.faults)


def test_an_arrive_without_a_count_is_refused():
    with pytest.raises(Unsupported, match="number of threads"):
        run_ptx("bar.arrive 1;", out=np.zeros(1, np.uint32))


def test_a_barrier_number_in_a_register():
    out = np.zeros(64, np.uint32)
    body = """
        .shared .align 4 .b8 data[256];
        mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; add.u32 %r2, %r2, 1;
        mov.u32 %r3, data; shl.b32 %r4, %r1, 2; add.u32 %r4, %r3, %r4; st.shared.u32 [%r4], %r1;
        bar.sync %r2, 32;
        xor.b32 %r5, %r1, 31; shl.b32 %r5, %r5, 2; add.u32 %r5, %r3, %r5; ld.shared.u32 %r6, [%r5];
        mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %out, %rd1; st.global.u32 [%rd1], %r6;
    """
    result = run_ptx(body, out=out, block=64)
    assert kinds(result) == [] and out.tolist() == [t ^ 31 for t in range(64)]
