"""mbarrier objects: phases, counts, knowledge, and every way to misuse one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator.harness import kinds, run_ptx

SCHEDULES = ("latest", "earliest", "random:1", "random:7")
HEAD = """
    .shared .align 8 .b64 bar[4];
    .shared .align 128 .b8 data[1024];
    mov.u32 %r1, %tid.x; mov.u32 %r2, bar; mov.u32 %r3, data; setp.eq.u32 %p1, %r1, 0;
"""
STORE = "mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %out, %rd1; st.global.u32 [%rd1], %r9;"


def run(body: str, block: int = 64, schedule: str = "latest", **more):
    out = np.zeros(block, np.uint32)
    return run_ptx(HEAD + body, out=out, block=block, schedule=schedule, **more), out


def faults(result, kind: str) -> list[str]:
    return [fault.message for fault in result.faults if fault.kind == kind]


def deadlock(result) -> str:
    (fault,) = [f for f in result.faults if f.kind == "deadlock"]
    return "\n".join(fault.details["waiting"])


# Warp 0 writes, arrives; warp 1 waits, reads. Three rounds over two barriers.
HAND_OVER = """
    @%p1 mbarrier.init.shared.b64 [%r2], 32;
    @%p1 mbarrier.init.shared.b64 [%r2+8], 32;
    bar.sync 0;
    mov.u32 %r4, 0; mov.u32 %r9, 0; and.b32 %r5, %r1, 31; shl.b32 %r6, %r5, 2; add.u32 %r6, %r3, %r6;
    setp.ge.u32 %p2, %r1, 32; @%p2 bra CONSUMER;
    PRODUCER:
    and.b32 %r7, %r4, 1; xor.b32 %r7, %r7, 1;
    EMPTY: mbarrier.try_wait.parity.shared.b64 %p3, [%r2+8], %r7; @!%p3 bra EMPTY;
    add.u32 %r8, %r5, %r4; st.shared.u32 [%r6], %r8;
    mbarrier.arrive.shared.b64 _, [%r2];
    add.u32 %r4, %r4, 1; setp.lt.u32 %p4, %r4, 3; @%p4 bra PRODUCER;
    bra.uni END;
    CONSUMER:
    and.b32 %r7, %r4, 1;
    FULL: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r2], %r7; @!%p3 bra FULL;
    xor.b32 %r10, %r6, 124; ld.shared.u32 %r8, [%r10]; add.u32 %r9, %r9, %r8;
    mbarrier.arrive.shared.b64 _, [%r2+8];
    add.u32 %r4, %r4, 1; setp.lt.u32 %p4, %r4, 3; @%p4 bra CONSUMER;
    END:
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_phases_hand_over_in_both_directions(schedule):
    result, out = run(HAND_OVER + STORE, schedule=schedule)
    assert kinds(result) == []
    assert out[32:].tolist() == [3 * (31 - t) + 3 for t in range(32)]


def test_a_consumer_that_never_frees_the_buffer_leaves_the_producer_waiting():
    missing = HAND_OVER.replace("mbarrier.arrive.shared.b64 _, [%r2+8];", "")
    result, _ = run(missing + STORE)
    assert kinds(result) == ["deadlock"]
    text = deadlock(result)
    assert "phase 0 (parity 0) of the mbarrier bar[1]" in text
    assert "0 of 32 arrivals came; nobody has ever arrived at it" in text


def test_a_producer_that_never_arrives_leaves_the_consumer_waiting():
    missing = HAND_OVER.replace("mbarrier.arrive.shared.b64 _, [%r2];", "")
    result, _ = run(missing + STORE)
    assert "waits for phase 0 (parity 0) of the mbarrier bar[0]" in deadlock(result)


def test_both_sides_starting_with_the_same_parity_is_explained():
    same = HAND_OVER.replace("xor.b32 %r7, %r7, 1;", "")
    result, _ = run(same + STORE)
    assert "the first wait of a producer must ask for parity 1" in deadlock(result)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_producer_that_forgets_to_flip_is_told_so(schedule):
    stuck = HAND_OVER.replace("and.b32 %r7, %r4, 1; xor.b32 %r7, %r7, 1;", "mov.u32 %r7, 1;")
    result, _ = run(stuck + STORE, schedule=schedule)
    message = faults(result, "phase")[0]
    if schedule == "latest":
        assert "this wait was to be for parity 0" in message


def test_the_data_is_not_ordered_by_a_relaxed_wait():
    relaxed = HAND_OVER.replace(
        "mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r2]",
        "mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 %p3, [%r2]",
    )
    result, _ = run(relaxed + STORE)
    assert "race" in kinds(result)


def test_the_data_is_not_ordered_by_a_relaxed_arrive():
    relaxed = HAND_OVER.replace(
        "mbarrier.arrive.shared.b64 _, [%r2];", "mbarrier.arrive.relaxed.cta.shared.b64 _, [%r2];"
    )
    result, _ = run(relaxed + STORE)
    assert "race" in kinds(result)


def test_a_state_names_its_phase():
    result, out = run(
        """
        @%p1 mbarrier.init.shared.b64 [%r2], 64;
        bar.sync 0;
        shl.b32 %r4, %r1, 2; add.u32 %r4, %r3, %r4; st.shared.u32 [%r4], %r1;
        mbarrier.arrive.shared.b64 %rd5, [%r2];
        W: mbarrier.test_wait.shared.b64 %p3, [%r2], %rd5; @!%p3 bra W;
        xor.b32 %r5, %r1, 63; shl.b32 %r5, %r5, 2; add.u32 %r5, %r3, %r5; ld.shared.u32 %r9, [%r5];
        """
        + STORE
    )
    assert kinds(result) == [] and out.tolist() == [t ^ 63 for t in range(64)]


def test_test_wait_never_blocks():
    result, out = run(
        """
        @%p1 mbarrier.init.shared.b64 [%r2], 1;
        bar.sync 0;
        mbarrier.test_wait.parity.shared.b64 %p3, [%r2], 0; selp.u32 %r9, 1, 0, %p3;
        mbarrier.test_wait.parity.shared.b64 %p4, [%r2], 1; selp.u32 %r5, 2, 0, %p4;
        add.u32 %r9, %r9, %r5;
        """
        + STORE
    )
    assert kinds(result) == [] and (out == 2).all()


def test_try_wait_may_time_out_but_not_for_ever():
    body = """
        @%p1 mbarrier.init.shared.b64 [%r2], 1;
        bar.sync 0;
        mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0, 1000; selp.u32 %r9, 1, 0, %p3;
    """
    result, out = run(body + STORE)
    assert kinds(result) == [] and (out == 0).all()
    loop, _ = run(body + "W: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0; @!%p3 bra W;")
    assert kinds(loop) == ["deadlock"]
    assert "its one arrival is missing" in deadlock(loop)


def test_a_test_wait_that_polls_for_ever_says_what_for():
    body = "@%p1 mbarrier.init.shared.b64 [%r2], 3; bar.sync 0;"
    loop = "W: mbarrier.test_wait.parity.shared.b64 %p3, [%r2], 0; @!%p3 nanosleep.u32 20; @!%p3 bra W;"
    result, _ = run(body + loop.replace("@!%p3 nanosleep.u32 20; ", ""))
    assert kinds(result) == ["deadlock"] and "0 of 3 arrivals came" in deadlock(result)
    slow, _ = run(body + loop)
    assert kinds(slow) == ["deadlock"]


def test_counts_of_arrivals_and_of_pending_ones():
    result, out = run(
        """
        @%p1 mbarrier.init.shared.b64 [%r2], 10;
        bar.sync 0;
        mov.u32 %r9, 0;
        @!%p1 bra JOIN;
        mbarrier.arrive.noComplete.shared.b64 %rd5, [%r2], 3;
        mbarrier.pending_count.b64 %r9, %rd5;
        mbarrier.arrive.noComplete.shared.b64 %rd5, [%r2], 2;
        mbarrier.pending_count.b64 %r5, %rd5; mad.lo.u32 %r9, %r9, 100, %r5;
        mbarrier.arrive.shared.b64 _, [%r2], 5;
        JOIN:
        W: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0; @!%p3 bra W;
        """
        + STORE,
        block=32,
    )
    assert kinds(result) == [] and out[0] == 1007


def test_arrive_drop_lowers_later_phases():
    result, _ = run(
        """
        @%p1 mbarrier.init.shared.b64 [%r2], 64;
        bar.sync 0;
        setp.ge.u32 %p2, %r1, 32;
        @%p2 mbarrier.arrive_drop.shared.b64 _, [%r2];
        @%p2 exit;
        mbarrier.arrive.shared.b64 _, [%r2];
        W: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0; @!%p3 bra W;
        mbarrier.arrive.shared.b64 _, [%r2];
        V: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 1; @!%p3 bra V;
        """
    )
    assert kinds(result) == []


def test_transactions_hold_the_phase_open():
    body = """
        @%p1 mbarrier.init.shared.b64 [%r2], 1;
        bar.sync 0;
        @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;
        mbarrier.test_wait.parity.shared.b64 %p3, [%r2], 0; selp.u32 %r9, 1, 0, %p3;
        bar.sync 0;
        @%p1 mbarrier.complete_tx.shared.b64 [%r2], 100;
        @%p1 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r2], {rest};
        W: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0; @!%p3 bra W;
    """
    result, out = run(body.format(rest=156) + STORE)
    assert kinds(result) == [] and (out == 0).all()
    short, _ = run(body.format(rest=100) + STORE)
    assert kinds(short) == ["deadlock", "expect_tx"]
    assert "it expects 256 bytes, 200 arrived" in faults(short, "expect_tx")[0]
    assert "it expects 256 bytes, 200 arrived" in deadlock(short)


def test_bytes_may_arrive_before_they_are_expected():
    result, _ = run(
        """
        @%p1 mbarrier.init.shared.b64 [%r2], 1;
        bar.sync 0;
        @%p1 mbarrier.complete_tx.shared.b64 [%r2], 64;
        @%p1 mbarrier.expect_tx.shared.b64 [%r2], 64;
        @%p1 mbarrier.arrive.shared.b64 _, [%r2];
        W: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0; @!%p3 bra W;
        """
    )
    assert kinds(result) == []


# --- misuse ----------------------------------------------------------------------------------------


def test_used_before_init():
    result, _ = run("bar.sync 0; @%p1 mbarrier.arrive.shared.b64 _, [%r2];")
    assert faults(result, "mbarrier") == [
        "mbarrier.arrive on an mbarrier before it was initialised"
    ]


def test_used_after_inval():
    result, _ = run(
        """
        @%p1 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0;
        @%p1 mbarrier.inval.shared.b64 [%r2]; bar.sync 0;
        @%p1 mbarrier.arrive.shared.b64 _, [%r2];
        """
    )
    assert "after it was invalidated" in faults(result, "mbarrier")[0]


def test_initialised_twice():
    twice = """
        @%p1 mbarrier.init.shared.b64 [%r2], 1; {between}
        @%p1 mbarrier.init.shared.b64 [%r2], 1;
    """
    result, _ = run(twice.format(between=""))
    assert "initialised again" in faults(result, "mbarrier")[0]
    fine, _ = run(twice.format(between="@%p1 mbarrier.inval.shared.b64 [%r2];"))
    assert kinds(fine) == []


def test_used_where_init_is_not_visible():
    body = """
        @%p1 mbarrier.init.shared.b64 [%r2], 64; {barrier}
        mbarrier.arrive.shared.b64 _, [%r2];
    """
    result, _ = run(body.format(barrier=""))
    (message,) = faults(result, "mbarrier")
    assert "initialisation is not visible" in message and "barrier of the block" in message
    fine, _ = run(body.format(barrier="bar.sync 0;"))
    assert kinds(fine) == []


def test_more_arrivals_than_the_count():
    result, _ = run(
        """
        @%p1 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0;
        @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 16;
        @%p1 mbarrier.arrive.shared.b64 _, [%r2];
        """
    )
    assert (
        "1 more arrival at the mbarrier bar[0] than the 1 of phase 0"
        in faults(result, "mbarrier")[0]
    )


def test_every_lane_arrives_where_one_was_meant_to():
    result, _ = run(
        "@%p1 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0; mbarrier.arrive.shared.b64 _, [%r2];",
        block=32,
    )
    assert "more lanes arrive at once" in faults(result, "mbarrier")[0]


@pytest.mark.parametrize("access", ["st.shared.u32 [%r2], 5;", "ld.shared.u32 %r9, [%r2+4];"])
def test_ordinary_access_to_a_live_barrier(access):
    result, _ = run(f"@%p1 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0; @%p1 {access}")
    assert "mbarrier" in kinds(result)


def test_a_count_of_zero_and_a_parity_of_two():
    result, _ = run("@%p1 mbarrier.init.shared.b64 [%r2], 0;")
    assert "count of 0" in faults(result, "mbarrier")[0]
    result, _ = run(
        """
        @%p1 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0;
        mbarrier.test_wait.parity.shared.b64 %p3, [%r2], 3;
        """
    )
    assert "asks for parity 3" in faults(result, "phase")[0]


def test_transactions_out_of_range():
    result, _ = run(
        """
        @%p1 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0;
        @%p1 mbarrier.expect_tx.shared.b64 [%r2], 1048575;
        @%p1 mbarrier.expect_tx.shared.b64 [%r2], 1;
        """
    )
    assert "tx-count" in faults(result, "expect_tx")[0]


def test_a_no_complete_that_completes():
    result, _ = run(
        """
        @%p1 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0;
        @%p1 mbarrier.arrive.noComplete.shared.b64 %rd5, [%r2], 1;
        """
    )
    assert "noComplete" in faults(result, "mbarrier")[0]


def test_a_thread_two_phases_behind_cannot_tell():
    # Warp 1 arrives for both: warp 0 is not needed for the phases to go on.
    result, _ = run(
        """
        @%p1 mbarrier.init.shared.b64 [%r2], 1;
        @%p1 mbarrier.init.shared.b64 [%r2+8], 1;
        bar.sync 0;
        setp.lt.u32 %p2, %r1, 32; @%p2 bra LATE;
        setp.eq.u32 %p4, %r1, 32;
        @%p4 mbarrier.arrive.shared.b64 _, [%r2];
        A: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0; @!%p3 bra A;
        @%p4 mbarrier.arrive.shared.b64 _, [%r2];
        B: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 1; @!%p3 bra B;
        bar.arrive 1, 64;
        bra.uni END;
        LATE:
        bar.sync 1, 64;
        add.u32 %r9, %r9, 1;
        END:
        """
    )
    assert kinds(result) == []
    behind, _ = run(
        """
        @%p1 mbarrier.init.shared.b64 [%r2], 1;
        bar.sync 0;
        setp.ge.u32 %p2, %r1, 32; @%p2 bra LATE;
        @%p1 mbarrier.arrive.shared.b64 _, [%r2];
        A: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0; @!%p3 bra A;
        @%p1 mbarrier.arrive.shared.b64 _, [%r2];
        B: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 1; @!%p3 bra B;
        bra.uni END;
        LATE:
        mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0;
        END:
        """
    )
    assert "went on without this thread" in faults(behind, "phase")[0]


def test_generic_addresses_reach_the_same_object():
    result, _ = run(
        """
        cvt.u64.u32 %rd4, %r2; cvta.shared.u64 %rd5, %rd4;
        @%p1 mbarrier.init.b64 [%rd5], 64; bar.sync 0;
        mbarrier.arrive.b64 %rd6, [%rd5];
        W: mbarrier.try_wait.b64 %p3, [%rd5], %rd6; @!%p3 bra W;
        """
    )
    assert kinds(result) == []


def test_waits_are_counted():
    result, _ = run(HAND_OVER + STORE)
    assert result.counters["mbarrier_waits"] == 6
