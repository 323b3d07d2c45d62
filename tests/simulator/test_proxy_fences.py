"""Generic accesses and the async proxy: where fence.proxy.async must stand, and where it does not help.

A writer (warp 1) fills shared memory and hands over by an mbarrier; warp 0 starts a bulk store of it.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator.harness import kinds, run_ptx

FENCE = "fence.proxy.async.shared::cta;"
STORE = """cp.async.bulk.global.shared::cta.bulk_group [%y], [%r9], 512; cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;"""


def target():
    room = np.zeros(128 + 4, np.uint32)
    return room[(-room.ctypes.data // 4) % 4 :][:128]


def hand_over(before_arrive="", after_arrive="", after_wait=""):
    """Writer and consumer, with a fence at one of three places."""
    return f"""
        .shared .align 16 .b32 s[128]; .shared .align 8 .b64 full;
        mov.u32 %r0, %tid.x; mov.u32 %r9, s; mov.u32 %r10, full; shl.b32 %r8, %r0, 4; add.u32 %r8, %r8, %r9;
        setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared::cta.b64 [%r10], 32; bar.sync 0;
        setp.lt.u32 %p2, %r0, 32; @%p2 bra CONSUMER;
        st.shared.v4.u32 [%r8+-512], {{%r0, %r0, %r0, %r0}}; {before_arrive}
        mbarrier.arrive.shared::cta.b64 _, [%r10]; {after_arrive} exit;
        CONSUMER: @!%p1 exit;
        WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r10], 0; @!%p3 bra WAIT; {after_wait}
        {STORE}
    """


@pytest.mark.parametrize("schedule", ["latest", "earliest", "random:3"])
@pytest.mark.parametrize(
    ("places", "wanted"),
    [
        ({}, ["proxy_fence"]),
        ({"after_arrive": FENCE}, ["proxy_fence"]),
        ({"before_arrive": FENCE}, []),
        ({"after_wait": FENCE}, []),
        ({"before_arrive": "fence.acq_rel.cta;"}, ["proxy_fence"]),
    ],
)
def test_the_fence_stands_on_the_way_from_the_write_to_the_copy(places, wanted, schedule):
    y = target()
    result = run_ptx(hand_over(**places), block=64, y=y, schedule=schedule)
    assert kinds(result) == wanted, [f.message for f in result.faults]
    assert y.tolist() == [32 + i // 4 for i in range(128)]
    if wanted:
        message = result.faults[0].message
        assert message.startswith("A bulk copy reads s[0], which thread 32 wrote")
        assert message.endswith("no fence.proxy.async lies between")


def test_a_fence_before_the_write_covers_nothing():
    body = f"""
        .shared .align 16 .b32 s[128]; mov.u32 %r0, %tid.x; mov.u32 %r9, s; shl.b32 %r8, %r0, 4;
        add.u32 %r8, %r8, %r9; {{early}} st.shared.v4.u32 [%r8], {{%r0, %r0, %r0, %r0}}; {{late}} bar.sync 0;
        setp.eq.u32 %p1, %r0, 0; @!%p1 exit; {STORE}
    """
    early = body.replace("{early}", FENCE).replace("{late}", "")
    late = body.replace("{early}", "").replace("{late}", FENCE)
    assert kinds(run_ptx(early, block=32, y=target())) == ["proxy_fence"]
    assert kinds(run_ptx(late, block=32, y=target())) == []


def test_a_fence_by_the_issuer_covers_what_it_knows_only():
    """Without the barrier the issuer's fence says nothing about the others' writes: a race."""
    body = f"""
        .shared .align 16 .b32 s[128]; mov.u32 %r0, %tid.x; mov.u32 %r9, s; shl.b32 %r8, %r0, 4;
        add.u32 %r8, %r8, %r9; st.shared.v4.u32 [%r8], {{%r0, %r0, %r0, %r0}}; {{edge}} {FENCE}
        setp.eq.u32 %p1, %r0, 0; @!%p1 exit; {STORE}
    """
    assert kinds(run_ptx(body.replace("{edge}", ""), block=32, y=target())) == ["race"]
    assert kinds(run_ptx(body.replace("{edge}", "bar.warp.sync -1;"), block=32, y=target())) == []


def test_shared_memory_is_written_again_after_the_copy_has_read_it():
    body = f"""
        .shared .align 16 .b32 s[128]; mov.u32 %r0, %tid.x; mov.u32 %r9, s; shl.b32 %r8, %r0, 4;
        add.u32 %r8, %r8, %r9; st.shared.v4.u32 [%r8], {{%r0, %r0, %r0, %r0}}; {FENCE} bar.sync 0;
        setp.eq.u32 %p1, %r0, 0; @%p1 cp.async.bulk.global.shared::cta.bulk_group [%y], [%r9], 512;
        @%p1 cp.async.bulk.commit_group; {{wait}} {{meet}} st.shared.u32 [%r8], 1;
        @%p1 cp.async.bulk.wait_group 0;
    """

    def found(wait, meet):
        text = body.replace("{wait}", wait).replace("{meet}", meet)
        result = run_ptx(text, block=32, y=target())
        return kinds(result), [f.message for f in result.faults]

    wait = "@%p1 cp.async.bulk.wait_group.read 0;"
    kind, messages = found("", "bar.sync 0;")
    assert kind == ["overwritten_in_flight"]
    assert "writes s[0], which a bulk copy reads" in messages[0]
    assert found(wait, "")[0] == ["overwritten_in_flight"]  # only the issuer has waited
    assert found(wait, "bar.sync 0;") == ([], [])


def test_generic_reads_before_an_async_write_need_an_order_but_no_fence():
    """As production pipelines do: the manual's letter wants a fence here as well."""
    body = """
        .shared .align 16 .b32 s[128]; .shared .align 8 .b64 full;
        mov.u32 %r0, %tid.x; mov.u32 %r9, s; mov.u32 %r10, full; shl.b32 %r8, %r0, 4; add.u32 %r8, %r8, %r9;
        setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared::cta.b64 [%r10], 1; bar.sync 0; mov.u32 %r11, 0;
        LOOP: @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], 512;
        @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r9], [%x], 512, [%r10];
        WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r10], %r11; @!%p3 bra WAIT;
        ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r8]; {edge}
        add.u32 %r11, %r11, 1; setp.lt.u32 %p4, %r11, 2; @%p4 bra LOOP;
    """
    x = target()
    result = run_ptx(body.replace("{edge}", ""), block=32, x=x)
    assert kinds(result) == ["race"]
    assert "A bulk copy overwrites s[4], which thread 1 read" in result.faults[0].message
    assert kinds(run_ptx(body.replace("{edge}", "bar.sync 0;"), block=32, x=x)) == []


@pytest.mark.parametrize(
    ("own", "issuer", "wanted"),
    [("", "", ["proxy_fence"]), (FENCE, "", []), ("", FENCE, [])],
)
def test_what_cp_async_brought_is_generic_too(own, issuer, wanted):
    """cp.async writes through the generic proxy: a bulk store of it needs the fence after the wait."""
    body = f"""
        .shared .align 16 .b32 s[128]; mov.u32 %r0, %tid.x; mov.u32 %r9, s; shl.b32 %r8, %r0, 4;
        add.u32 %r8, %r8, %r9; mul.wide.u32 %rd0, %r0, 16; add.u64 %rd1, %x, %rd0;
        cp.async.ca.shared.global [%r8], [%rd1], 16; cp.async.wait_all; {own} bar.sync 0;
        setp.eq.u32 %p1, %r0, 0; @!%p1 exit; {issuer} {STORE}
    """
    x, y = target(), target()
    x[:] = np.arange(128)
    result = run_ptx(body, block=32, x=x, y=y)
    assert kinds(result) == wanted, [f.message for f in result.faults]
    assert np.array_equal(x, y)
    if wanted:
        assert "which a cp.async copy of thread 0 wrote" in result.faults[0].message


def test_a_fence_before_the_wait_does_not_cover_the_copy():
    body = f"""
        .shared .align 16 .b32 s[128]; mov.u32 %r0, %tid.x; mov.u32 %r9, s; shl.b32 %r8, %r0, 4;
        add.u32 %r8, %r8, %r9; mul.wide.u32 %rd0, %r0, 16; add.u64 %rd1, %x, %rd0;
        cp.async.ca.shared.global [%r8], [%rd1], 16; {{early}} cp.async.wait_all; {{late}} bar.sync 0;
        setp.eq.u32 %p1, %r0, 0; @!%p1 exit; {STORE}
    """
    early = body.replace("{early}", FENCE).replace("{late}", "")
    late = body.replace("{early}", "").replace("{late}", FENCE)
    assert kinds(run_ptx(early, block=32, x=target(), y=target())) == ["proxy_fence"]
    assert kinds(run_ptx(late, block=32, x=target(), y=target())) == []
