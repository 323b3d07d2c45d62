"""Control flow: parting and meeting, loops, exits, special registers, limits."""

from __future__ import annotations

import numpy as np
import pytest

from checkers.simulator import BadLaunch, Limits, simulate
from checkers.simulator.ptx.modifiers import Unsupported
from tests.simulator.harness import kinds, launch_of, run_ptx

# out[global thread] = %r1
STORE = """
    mov.u32 %r100, %ctaid.x; mov.u32 %r101, %ntid.x; mov.u32 %r102, %tid.x;
    mad.lo.u32 %r103, %r100, %r101, %r102;
    mul.wide.u32 %rd50, %r103, 4; add.u64 %rd51, %out, %rd50;
    st.global.u32 [%rd51], %r1;
"""


def test_every_thread_of_every_block_stores_its_number() -> None:
    out = np.zeros(1000 * 96, np.uint32)
    body = "mov.u32 %r2, %ctaid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r2, 1000, %r3;" + STORE
    result = run_ptx(body, out=out, grid=1000, block=96)
    assert not result.faults and not result.stopped
    block, thread = np.divmod(np.arange(out.size), 96)
    assert (out == block * 1000 + thread).all()
    assert result.counters["blocks"] == 1000


def test_a_block_that_is_no_whole_number_of_warps() -> None:
    out = np.full(96, 7, np.uint32)
    run_ptx("mov.u32 %r1, %laneid;" + STORE, out=out, block=50)
    assert out[:50].tolist() == [t % 32 for t in range(50)] and (out[50:] == 7).all()


def test_branches_part_and_meet() -> None:
    out = np.zeros(64, np.uint32)
    result = run_ptx(
        """
        mov.u32 %r2, %tid.x; and.b32 %r3, %r2, 1; setp.eq.u32 %p1, %r3, 0;
        mov.u32 %r1, 5;
        @%p1 bra EVEN;
        add.u32 %r1, %r1, 100;
        bra.uni JOIN;
        EVEN: add.u32 %r1, %r1, 200;
        JOIN: add.u32 %r1, %r1, 1000;
        """
        + STORE,
        out=out,
        block=64,
    )
    assert out.tolist() == [1205 if t % 2 == 0 else 1105 for t in range(64)]
    assert result.counters["divergent_branches"] == 2
    # Both paths joined: the store was issued once for each warp.
    stores = [
        count
        for instruction, count in zip(result.kernel.instructions, result.issues, strict=True)
        if instruction.opcode == "st"
    ]
    assert stores == [2]


def test_a_loop_with_another_trip_count_in_every_thread() -> None:
    out = np.zeros(256, np.uint32)
    run_ptx(
        """
        mov.u32 %r2, %tid.x; mov.u32 %r3, 0; mov.u32 %r1, 0;
        LOOP: setp.ge.u32 %p1, %r3, %r2; @%p1 bra DONE;
        add.u32 %r1, %r1, %r3; add.u32 %r3, %r3, 1; bra LOOP;
        DONE:
        """
        + STORE,
        out=out,
        grid=2,
        block=128,
    )
    assert out.tolist() == [t * (t - 1) // 2 for t in range(128)] * 2


def test_threads_exit_early_and_others_go_on() -> None:
    out = np.zeros(64, np.uint32)
    run_ptx(
        "mov.u32 %r2, %tid.x; setp.lt.u32 %p1, %r2, 40; @%p1 ret; mov.u32 %r1, 9;" + STORE,
        out=out,
        block=64,
    )
    assert out.tolist() == [0] * 40 + [9] * 24


def test_a_guard_writes_only_where_it_holds() -> None:
    out = np.zeros(32, np.uint32)
    run_ptx(
        """
        mov.u32 %r2, %tid.x; setp.gt.u32 %p1, %r2, 9;
        mov.u32 %r1, 1; @%p1 mov.u32 %r1, 2; @!%p1 add.u32 %r1, %r1, 10;
        """
        + STORE,
        out=out,
    )
    assert out.tolist() == [11] * 10 + [2] * 22


def test_a_jump_table() -> None:
    out = np.zeros(32, np.uint32)
    run_ptx(
        """
        mov.u32 %r2, %tid.x; and.b32 %r3, %r2, 3;
        T: .branchtargets A, B, C, D;
        brx.idx %r3, T;
        A: mov.u32 %r1, 10; bra J;
        B: mov.u32 %r1, 11; bra J;
        C: mov.u32 %r1, 12; bra J;
        D: mov.u32 %r1, 13;
        J:
        """
        + STORE,
        out=out,
    )
    assert out.tolist() == [10 + t % 4 for t in range(32)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("%ntid.y", lambda t: 4),
        ("%tid.y", lambda t: t // 8 % 4),
        ("%tid.z", lambda t: t // 32),
        ("%laneid", lambda t: t % 32),
        ("%warpid", lambda t: t // 32),
        ("%nctaid.x", lambda t: 1),
        ("%lanemask_lt", lambda t: (1 << t % 32) - 1),
        ("%lanemask_ge", lambda t: (0xFFFFFFFF << t % 32) & 0xFFFFFFFF),
        ("%cluster_nctarank", lambda t: 1),
    ],
)
def test_special_registers(name: str, value) -> None:
    out = np.zeros(64, np.uint32)
    run_ptx(
        f"""
        mov.u32 %r1, {name};
        mov.u32 %r2, %tid.x; mov.u32 %r3, %tid.y; mov.u32 %r4, %tid.z;
        mad.lo.u32 %r5, %r3, 8, %r2; mad.lo.u32 %r5, %r4, 32, %r5;
        mul.wide.u32 %rd1, %r5, 4; add.u64 %rd1, %rd1, %out; st.global.u32 [%rd1], %r1;
        """,
        out=out,
        block=(8, 4, 2),
    )
    assert out.tolist() == [value(t) for t in range(64)]


def test_blocks_of_a_cluster_lie_side_by_side() -> None:
    out = np.zeros(8 * 6, np.uint32)
    run_ptx(
        """
        mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ctaid.y; mad.lo.u32 %r4, %r3, 8, %r2;
        mov.u32 %r5, %cluster_ctarank; mov.u32 %r6, %clusterid.x; mov.u32 %r7, %clusterid.y;
        mad.lo.u32 %r1, %r6, 10, %r5; mad.lo.u32 %r1, %r7, 100, %r1;
        mul.wide.u32 %rd1, %r4, 4; add.u64 %rd1, %rd1, %out; st.global.u32 [%rd1], %r1;
        """,
        out=out,
        grid=(8, 6),
        block=1,
        cluster=(4, 2),
    )
    expected = [
        (x % 4 + y % 2 * 4) + 10 * (x // 4) + 100 * (y // 2) for y in range(6) for x in range(8)
    ]
    assert out.tolist() == expected


def test_an_endless_loop_is_stopped() -> None:
    launch = launch_of("L: bra L;")
    result = simulate(launch, limits=Limits(steps=1000))
    assert "does a loop never end" in result.stopped


def test_an_endless_poll_is_a_deadlock() -> None:
    flag = np.zeros(1, np.uint32)
    result = run_ptx(
        "L: ld.acquire.gpu.global.u32 %r1, [%flag]; setp.eq.u32 %p1, %r1, 0; @%p1 bra L;",
        flag=flag,
    )
    assert kinds(result) == ["deadlock"]


def test_an_endless_poll_with_a_barrier_in_its_loop_is_a_deadlock() -> None:
    """As in Triton's loop on an atomic: one thread looks, the others wait for what it saw."""
    result = run_ptx(
        """.shared .b32 buffer; mov.u32 %r0, %tid.x;
        L: setp.ne.u32 %p2, %r0, 0; @%p2 bra M;
        atom.acquire.gpu.global.cas.b32 %r1, [%flag], 0, 1; st.shared.u32 [buffer], %r1;
        M: bar.sync 0; ld.shared.u32 %r1, [buffer]; bar.sync 0;
        setp.eq.u32 %p1, %r1, 1; @%p1 bra L;""",
        flag=np.ones(1, np.uint32),
    )
    assert kinds(result) == ["deadlock"]


def test_a_trap_ends_the_run_and_is_a_fault() -> None:
    result = run_ptx("mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 3; @%p1 trap;")
    assert kinds(result) == ["trap"]
    (fault,) = result.faults
    assert fault.who is not None and fault.who.thread == (3, 0, 0)


def test_an_unknown_instruction_names_itself_and_its_line() -> None:
    with pytest.raises(Unsupported, match=r"frobnicate.*PTX line \d+"):
        run_ptx("frobnicate.b32 %r1, %r2;")


def test_an_unknown_modifier_names_itself() -> None:
    with pytest.raises(Unsupported, match=r"the modifier \.wobbly is not known"):
        run_ptx("bra.wobbly L; L:")


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ({"block": 1025}, "1 to 1024 threads"),
        ({"grid": 0}, "at least one block"),
        ({"grid": 3, "cluster": 2}, "not whole clusters"),
        ({"dynamic_shared": 240_000}, "at most 232448 bytes"),
    ],
)
def test_a_launch_that_a_gpu_refuses(shape: dict, words: str) -> None:
    with pytest.raises(BadLaunch, match=words):
        run_ptx("", **shape)


def test_a_deadlock_says_that_further_blocks_have_yet_to_start():
    every_block_arrives = """
        mov.u32 %r0, %tid.x; setp.ne.u32 %p0, %r0, 0; @%p0 bra END;
        atom.add.acq_rel.gpu.u32 %r1, [%out], 1;
        WAIT: ld.acquire.gpu.u32 %r2, [%out];
        mov.u32 %r3, %nctaid.x; setp.lt.u32 %p1, %r2, %r3; @%p1 bra WAIT;
        END:
    """
    out = np.zeros(1, np.uint32)
    assert run_ptx(every_block_arrives, out=out, grid=64, block=256).faults == []
    (fault,) = run_ptx(every_block_arrives, out=out * 0, grid=65, block=256).faults
    assert fault.kind == "deadlock"
    assert fault.details["waiting"][-1].startswith("33 more blocks of the grid start only when")
