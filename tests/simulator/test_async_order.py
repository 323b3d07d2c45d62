"""What a wait publishes and what it does not: scenarios that Triton's sanitizer ConSan tests too."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator.harness import kinds, run_ptx
from tests.simulator.tma import aligned, map_bytes_of

SCHEDULES = ("latest", "earliest", "random:1", "random:9")

HEAD = """
    .shared .align 1024 .b8 tile[2048]; .shared .align 8 .b64 bar[4];
    mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mov.u32 %r3, bar; setp.eq.u32 %p1, %r1, 0;
    mov.u64 %rd1, k_map;
    @%p1 mbarrier.init.shared.b64 [%r3], 1; @%p1 mbarrier.init.shared.b64 [%r3+8], 1;
    @%p1 mbarrier.init.shared.b64 [%r3+16], 32; @%p1 mbarrier.init.shared.b64 [%r3+24], 32;
    bar.sync 0;
    shl.b32 %r4, %r1, 2; and.b32 %r4, %r4, 127; add.u32 %r4, %r2, %r4;
"""


def load(barrier: int, offset: int = 0, row: int = 0) -> str:
    return f"""
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3+{8 * barrier}], 1024;
    @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
        [%r2+{offset}], [%rd1, {{0, {row}}}], [%r3+{8 * barrier}];
    """


def wait(barrier: int, parity: int = 0, name: str = "W") -> str:
    return f"""
    {name}: mbarrier.try_wait.parity.shared.b64 %p2, [%r3+{8 * barrier}], {parity};
    @!%p2 bra {name};
    """


def run(body: str, schedule: str = "latest", block: int = 64):
    x = aligned((64, 32), np.uint32)
    out = np.zeros(block, np.uint32)
    return run_ptx(
        HEAD + body,
        x=x,
        out=out,
        block=block,
        schedule=schedule,
        raw_parameters={"map": map_bytes_of(x, (32, 8))},
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_wait_publishes_only_its_own_barriers_copies(schedule):
    both = load(0) + load(1, 1024, 8)
    end = "bar.sync 0;" + wait(1, name="V") + wait(0, name="U")
    right = run(both + wait(1) + "ld.shared.u32 %r9, [%r4+1024];" + end, schedule)
    wrong = run(both + wait(1) + "ld.shared.u32 %r9, [%r4];" + end, schedule)
    assert kinds(right) == [] and kinds(wrong) == ["read_before_wait"]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_older_of_two_copies_into_one_buffer_does_not_publish_the_newer(schedule):
    body = load(0) + wait(0) + "bar.sync 0;" + load(1, 0, 8)
    read, end = "ld.shared.u32 %r9, [%r4];", "bar.sync 0;" + wait(1, name="V")
    assert kinds(run(body + wait(0, name="U") + read + end, schedule)) == ["read_before_wait"]
    assert kinds(run(body + wait(1, name="U") + read + end, schedule)) == []


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_two_copies_into_one_buffer_with_no_wait_between(schedule):
    body = load(0) + load(1, 512, 8) + wait(0) + wait(1, name="V")
    assert kinds(run(body, schedule)) == ["race"]
    apart = load(0) + load(1, 1024, 8) + wait(0) + wait(1, name="V")
    assert kinds(run(apart, schedule)) == []


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("synchronised", [True, False])
def test_a_buffer_that_others_still_read(synchronised, schedule):
    body = load(0) + wait(0) + "ld.shared.u32 %r9, [%r4];"
    body += "bar.sync 0;" if synchronised else ""
    body += load(1, 0, 8) + wait(1, name="V")
    assert kinds(run(body, schedule)) == ([] if synchronised else ["race"])


@pytest.mark.parametrize("barrier", ["bar.sync 0;", ""])
def test_a_wait_by_one_thread_is_passed_on_by_a_barrier(barrier):
    body = load(0) + "@!%p1 bra JOIN;" + wait(0)
    result = run(body + f"JOIN: {barrier} ld.shared.u32 %r9, [%r4]; bar.sync 1;")
    assert kinds(result) == ([] if barrier else ["read_before_wait"])


# Warp 1 stores, warp 0 sends it off: where may the proxy fence stand?
SEND = """
    setp.ge.u32 %p3, %r1, 32; @%p3 bra WRITE;
    bra.uni SEND;
    WRITE: st.shared.u32 [%r4], %r1; {before}
    mbarrier.arrive.shared.b64 _, [%r3+16]; {after}
    bra.uni END;
    SEND:
    W: mbarrier.try_wait.parity.shared.b64 %p2, [%r3+16], 0; @!%p2 bra W;
    {consumer}
    @!%p1 bra END;
    cp.async.bulk.global.shared::cta.bulk_group [%out], [%r2], 128;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    END:
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("place", "fine"), [("before", True), ("after", False), ("consumer", True), ("", False)]
)
def test_where_the_proxy_fence_stands(place, fine, schedule):
    parts = {"before": "", "after": "", "consumer": ""}
    if place:
        parts[place] = "fence.proxy.async.shared::cta;"
    result = run(SEND.format(**parts), schedule)
    assert kinds(result) == ([] if fine else ["proxy_fence"])


def test_waiting_for_different_phases_is_no_deadlock():
    body = (
        """
    setp.ge.u32 %p3, %r1, 32; @%p3 bra OTHER;
    @%p1 mbarrier.arrive.shared.b64 _, [%r3];
    """
        + wait(0)
        + "@%p1 mbarrier.arrive.shared.b64 _, [%r3+8]; bra.uni END; OTHER:"
        + wait(0, name="A")
        + wait(1, name="B")
        + "END:"
    )
    assert kinds(run(body)) == []


def test_two_roles_that_wait_for_each_other():
    body = (
        """
    setp.ge.u32 %p3, %r1, 32; @%p3 bra OTHER;
    """
        + wait(2)
        + "mbarrier.arrive.shared.b64 _, [%r3+24]; bra.uni END; OTHER:"
        + wait(3, name="A")
        + "mbarrier.arrive.shared.b64 _, [%r3+16]; END:"
    )
    result = run(body)
    assert kinds(result) == ["deadlock"]
    waiting = next(f for f in result.faults if f.kind == "deadlock").details["waiting"]
    assert any("bar[2]" in line for line in waiting) and any("bar[3]" in line for line in waiting)


def test_one_who_left_without_arriving():
    body = "setp.ge.u32 %p3, %r1, 32; @%p3 exit;" + wait(2)
    assert kinds(run(body)) == ["deadlock"]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_results_don_t_depend_on_the_schedule(schedule):
    x = aligned((64, 32), np.uint32)
    out = np.zeros(256, np.uint32)
    body = (
        load(0, 0, 8)
        + load(1, 1024, 24)
        + wait(0)
        + wait(1, name="V")
        + """
    mul.wide.u32 %rd2, %r1, 16; add.u64 %rd2, %out, %rd2; shl.b32 %r5, %r1, 4; add.u32 %r5, %r2, %r5;
    ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r5]; ld.shared.v4.u32 {%r14, %r15, %r16, %r17}, [%r5+1024];
    add.u32 %r10, %r10, %r14; add.u32 %r11, %r11, %r15; add.u32 %r12, %r12, %r16;
    add.u32 %r13, %r13, %r17; st.global.v4.u32 [%rd2], {%r10, %r11, %r12, %r13};
    """
    )
    result = run_ptx(
        HEAD + body,
        x=x,
        out=out,
        block=64,
        schedule=schedule,
        raw_parameters={"map": map_bytes_of(x, (32, 8))},
    )
    assert kinds(result) == []
    assert np.array_equal(out.reshape(8, 32), x[8:16] + x[24:32])
