"""cp.async: groups, waits, zero fill, and a pipeline with one thing missing at a time."""

from __future__ import annotations

import numpy as np
import pytest

from checkers.simulator.ptx.modifiers import Unsupported
from tests.simulator.harness import kinds, run_ptx
from tests.simulator.tma import aligned

SCHEDULES = ("latest", "earliest", "random:1", "random:5")

HEAD = """
    .shared .align 128 .b8 buffer[4096];
    mov.u32 %r1, %tid.x; mov.u32 %r2, buffer; shl.b32 %r3, %r1, 4; add.u32 %r4, %r2, %r3;
    mul.wide.u32 %rd1, %r1, 16; add.u64 %rd2, %x, %rd1;
"""
# Each thread reads 16 bytes of its neighbour's (thread ^ 1) copy.
READ = """
    xor.b32 %r5, %r4, 16; ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r5];
    add.u64 %rd3, %out, %rd1; st.global.v4.u32 [%rd3], {%r10, %r11, %r12, %r13};
"""
OWN = READ.replace("xor.b32 %r5, %r4, 16;", "mov.u32 %r5, %r4;")


def run(body: str, block: int = 64, schedule: str = "latest", grid: int = 1):
    x, out = aligned((block * 4,), np.uint32), np.zeros(block * 4, np.uint32)
    x += 1
    result = run_ptx(HEAD + body, x=x, out=out, block=block, schedule=schedule, grid=grid)
    return result, x.reshape(-1, 4), out.reshape(-1, 4)


def messages(result, kind: str) -> list[str]:
    return [fault.message for fault in result.faults if fault.kind == kind]


COPY = "cp.async.cg.shared.global [%r4], [%rd2], 16;\n"


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "wait", ["cp.async.commit_group; cp.async.wait_group 0;", "cp.async.wait_all;"]
)
def test_a_copy_waited_for_and_passed_on(wait, schedule):
    result, x, out = run(COPY + wait + "bar.sync 0;" + READ, schedule=schedule)
    assert kinds(result) == []
    assert np.array_equal(out, x[np.arange(64) ^ 1])
    assert result.counters["cp_async_bytes"] == 1024


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_without_the_wait(schedule):
    result, *_ = run(COPY + "cp.async.commit_group; bar.sync 0;" + READ, schedule=schedule)
    assert "read_before_wait" in kinds(result)
    fault = next(f for f in result.faults if f.kind == "read_before_wait")
    assert fault.site.opcode == "ld" and fault.other.site.opcode == "cp"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_without_the_barrier_after_the_wait(schedule):
    wait = "cp.async.commit_group; cp.async.wait_group 0;"
    result, *_ = run(COPY + wait + READ, schedule=schedule)
    assert kinds(result) == ["read_before_wait"]
    assert "has waited for it, but no barrier" in messages(result, "read_before_wait")[0]
    own, x, out = run(COPY + wait + OWN, schedule=schedule)
    assert kinds(own) == [] and np.array_equal(out, x)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_without_the_commit(schedule):
    result, *_ = run(COPY + "cp.async.wait_group 0; bar.sync 0;" + READ, schedule=schedule)
    assert "commit" in kinds(result)
    assert "never committed" in messages(result, "commit")[0]


def test_the_barrier_before_the_wait_is_no_use():
    body = COPY + "cp.async.commit_group; bar.sync 0; cp.async.wait_group 0;" + READ
    assert "read_before_wait" in kinds(run(body)[0])


@pytest.mark.parametrize(
    ("leave", "group", "fine"),
    [(1, 0, True), (1, 1, False), (0, 1, True), (2, 0, False), (2, 1, False)],
)
@pytest.mark.parametrize("schedule", ["latest", "earliest"])
def test_a_wait_covers_all_but_the_newest_groups(leave, group, fine, schedule):
    result, *_ = run(
        f"""
        cp.async.cg.shared.global [%r4], [%rd2], 16; cp.async.commit_group;
        cp.async.cg.shared.global [%r4+1024], [%rd2], 16; cp.async.commit_group;
        cp.async.wait_group {leave};
        ld.shared.u32 %r10, [%r4+{group * 1024}];
        cp.async.wait_all;
        """,
        schedule=schedule,
    )
    assert kinds(result) == ([] if fine else ["read_before_wait"])


def test_an_empty_group_counts():
    result, *_ = run(
        COPY + "cp.async.commit_group; cp.async.commit_group; cp.async.wait_group 1;" + OWN
    )
    assert kinds(result) == []


@pytest.mark.parametrize(("size", "op"), [(4, "ca"), (8, "ca"), (16, "ca"), (16, "cg")])
def test_sizes_and_zero_fill(size, op):
    body = f"""
        st.shared.v4.u32 [%r4], {{1, 2, 3, 4}};
        and.b32 %r20, %r1, 3; min.u32 %r20, %r20, {size // 4}; shl.b32 %r20, %r20, 2;
        cp.async.{op}.shared.global.L2::128B [%r4], [%rd2], {size}, %r20;
        cp.async.wait_all;
    """
    result, x, out = run(body + OWN)
    assert kinds(result) == []
    words = size // 4
    for t in range(64):
        count = min(t & 3, words)
        expected = [1, 2, 3, 4]
        expected[:words] = [*x[t][:count].tolist(), *[0] * (words - count)]
        assert out[t].tolist() == expected


def test_an_ignored_source_gives_zeros_and_is_not_read():
    body = """
        setp.ge.u32 %p1, %r1, 40; @%p1 mov.u64 %rd2, 64;
        cp.async.ca.shared.global [%r4], [%rd2], 16, %p1;
        cp.async.wait_all;
    """
    result, x, out = run(body + OWN)
    assert kinds(result) == []
    assert np.array_equal(out[:40], x[:40]) and not out[40:].any()


def test_a_source_of_no_bytes_is_not_read():
    body = """
        mov.u64 %rd2, 64; mov.u32 %r20, 0;
        cp.async.cg.shared.global [%r4], [%rd2], 16, %r20;
        cp.async.wait_all;
    """
    result, _, out = run(body + OWN)
    assert kinds(result) == [] and not out.any()


def test_out_of_bounds_names_the_tensor():
    result, *_ = run(
        "add.u64 %rd2, %rd2, 16; cp.async.cg.shared.global [%r4], [%rd2], 16; cp.async.wait_all;"
    )
    assert kinds(result) == ["out_of_bounds"]
    assert "right at the end of x (shape (256,))" in messages(result, "out_of_bounds")[0]


def test_misaligned():
    result, *_ = run(
        "add.u64 %rd2, %rd2, 4; cp.async.ca.shared.global [%r4], [%rd2], 8; cp.async.wait_all;"
    )
    assert kinds(result) == ["misaligned"]


def test_a_source_larger_than_the_copy():
    result, *_ = run(
        "mov.u32 %r20, 12; cp.async.ca.shared.global [%r4], [%rd2], 8, %r20; cp.async.wait_all;"
    )
    assert "undefined" in kinds(result)


def test_other_sizes_are_refused():
    with pytest.raises(Unsupported, match="4, 8 or 16"):
        run("cp.async.ca.shared.global [%r4], [%rd2], 12;")


def test_a_destination_overwritten_before_the_wait():
    result, *_ = run(COPY + "st.shared.u32 [%r4], 5; cp.async.wait_all;")
    assert kinds(result) != []


def test_a_block_that_ends_with_a_copy_in_flight():
    result, *_ = run(COPY + "cp.async.commit_group;")
    assert kinds(result) == ["exit_in_flight"]
    assert "nobody waited for it" in messages(result, "exit_in_flight")[0]
    result, *_ = run(COPY)
    assert "never committed" in messages(result, "exit_in_flight")[0]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("noinc", [True, False])
def test_an_mbarrier_tracks_copies(noinc, schedule):
    body = """
        .shared .align 8 .b64 bar;
        mov.u32 %r8, bar; setp.eq.u32 %p1, %r1, 0;
        @%p1 mbarrier.init.shared.b64 [%r8], {count}; bar.sync 0;
        cp.async.cg.shared.global [%r4], [%rd2], 16;
        cp.async.mbarrier.arrive{noinc}.shared.b64 [%r8];
        mbarrier.arrive.shared.b64 %rd5, [%r8];
        W: mbarrier.try_wait.shared.b64 %p3, [%r8], %rd5; @!%p3 bra W;
    """.format(count=128 if noinc else 64, noinc=".noinc" if noinc else "")
    result, x, out = run(body + READ, schedule=schedule)
    assert kinds(result) == []
    assert np.array_equal(out, x[np.arange(64) ^ 1])


def test_an_mbarrier_that_does_not_track_the_copy():
    body = """
        .shared .align 8 .b64 bar;
        mov.u32 %r8, bar; setp.eq.u32 %p1, %r1, 0;
        @%p1 mbarrier.init.shared.b64 [%r8], 64; bar.sync 0;
        cp.async.cg.shared.global [%r4], [%rd2], 16; cp.async.commit_group;
        mbarrier.arrive.shared.b64 %rd5, [%r8];
        W: mbarrier.try_wait.shared.b64 %p3, [%r8], %rd5; @!%p3 bra W;
    """
    assert "read_before_wait" in kinds(run(body + READ + "cp.async.wait_all;")[0])


# 64 threads copy 16 bytes each; {arrive}, and all wait for the first phase.
TRACKED = """
    .shared .align 8 .b64 bar;
    mov.u32 %r8, bar; setp.eq.u32 %p1, %r1, 0; mov.u32 %r9, 0;
    @%p1 mbarrier.init.shared.b64 [%r8], {count}; bar.sync 0;
    cp.async.cg.shared.global [%r4], [%rd2], 16;
    {arrive}
    W: mbarrier.try_wait.parity.shared.b64 %p3, [%r8], %r9; @!%p3 bra W;
"""


def hang(arrive: str, count: int = 64) -> str:
    result, *_ = run(TRACKED.format(arrive=arrive, count=count) + READ)
    (fault,) = [fault for fault in result.faults if fault.kind == "deadlock"]
    return "\n".join(fault.details["waiting"])


def test_a_hang_names_the_copies_that_no_mbarrier_tracks():
    told = hang("")
    assert "nobody has ever arrived at it; the cp.async of PTX line" in told
    assert "(thread 0 and 63 more threads) was never tied to an mbarrier" in told


def test_a_hang_names_the_arrivals_that_only_undo_themselves():
    told = hang("cp.async.mbarrier.arrive.shared.b64 [%r8];")
    assert "first adds to the count what it then takes" in told and "it has to be .noinc" in told
    assert "never tied" not in told


@pytest.mark.parametrize(
    ("arrive", "count"),
    [
        ("cp.async.mbarrier.arrive.noinc.shared.b64 [%r8];", 65),  # one too few
        ("cp.async.wait_all; mbarrier.arrive.shared.b64 %rd5, [%r8];", 65),  # waited for
        ("mbarrier.arrive.shared.b64 %rd5, [%r8];", 65),  # it is threads that arrive
    ],
)
def test_copies_are_not_named_where_something_else_is_missing(arrive, count):
    told = hang(arrive, count)
    assert "64 of 65 arrivals came" in told and "cp.async" not in told


def test_many_blocks_at_once():
    x, out = aligned((64 * 4,), np.uint32), np.zeros(64 * 4, np.uint32)
    body = HEAD + COPY + "cp.async.wait_all; bar.sync 0;" + READ
    result = run_ptx(body, x=x, out=out, block=64, grid=40)
    assert [k for k in kinds(result) if k != "race"] == []
    assert np.array_equal(out.reshape(-1, 4), x.reshape(-1, 4)[np.arange(64) ^ 1])
