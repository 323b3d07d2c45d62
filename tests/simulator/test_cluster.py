"""Clusters: their barrier, each other's shared memory, multicast, remote arrivals and stores."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator.harness import kinds, run_ptx
from tests.simulator.tma import aligned, map_bytes_of

SCHEDULES = ("latest", "earliest", "random:1", "random:8")

HEAD = """
    .shared .align 1024 .b8 buffer[2048]; .shared .align 8 .b64 bar;
    mov.u32 %r1, %tid.x; mov.u32 %r2, buffer; mov.u32 %r3, bar; setp.eq.u32 %p1, %r1, 0;
    mov.u32 %r4, %cluster_ctarank; xor.b32 %r5, %r4, 1; mov.u32 %r6, %ctaid.x;
    shl.b32 %r7, %r1, 2; add.u32 %r8, %r2, %r7;
    mapa.shared::cluster.u32 %r9, %r8, %r5;
"""
STORE = """
    mad.lo.u32 %r100, %r6, 64, %r1; mul.wide.u32 %rd50, %r100, 4; add.u64 %rd51, %out, %rd50;
    st.global.u32 [%rd51], %r10;
"""
SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"


def run(body: str, *, schedule: str = "latest", grid: int = 4, cluster: int = 2, **more):
    out = np.zeros(grid * 64, np.uint32)
    result = run_ptx(
        HEAD + body, out=out, block=64, grid=grid, cluster=cluster, schedule=schedule, **more
    )
    return result, out.reshape(grid, 64)


def message(result, kind: str) -> str:
    return next(f.message for f in result.faults if f.kind == kind)


# Each block fills its buffer and reads its neighbour's.
EXCHANGE = """
    mad.lo.u32 %r11, %r6, 1000, %r1; st.shared.u32 [%r8], %r11;
    {first}
    ld.shared::cluster.u32 %r10, [%r9];
    {last}
"""
EXPECTED = np.array([[(b ^ 1) * 1000 + t for t in range(64)] for b in range(4)])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_blocks_read_each_other(schedule):
    result, out = run(EXCHANGE.format(first=SYNC, last=SYNC) + STORE, schedule=schedule)
    assert kinds(result) == [] and np.array_equal(out, EXPECTED)
    assert result.counters["cluster_waits"] == 2 * 4 * 2


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_without_the_first_barrier_they_race_and_may_not_have_started(schedule):
    result, _ = run(EXCHANGE.format(first="", last=SYNC) + STORE, schedule=schedule)
    assert {"race", "cluster"} & set(kinds(result)) or "uninitialised" in kinds(result)


def test_a_relaxed_arrive_releases_nothing():
    relaxed = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;"
    result, _ = run(EXCHANGE.format(first=relaxed, last=SYNC) + STORE)
    assert kinds(result) == ["race"]
    fenced = "fence.acq_rel.cluster;" + relaxed
    result, out = run(EXCHANGE.format(first=fenced, last=SYNC) + STORE)
    assert kinds(result) == [] and np.array_equal(out, EXPECTED)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_neighbour_that_could_have_left(schedule):
    """The load comes first on every schedule that was tried, but nothing says that it must."""
    result, out = run(EXCHANGE.format(first=SYNC, last="") + STORE, schedule=schedule)
    assert set(kinds(result)) == {"cluster"} and np.array_equal(out[:2], EXPECTED[:2])
    fault = next(f for f in result.faults if "ending before" in f.message)
    assert fault.other is not None and fault.other.what == "the block's end"
    arrive_only = "barrier.cluster.arrive.release.aligned;"
    result, _ = run(EXCHANGE.format(first=SYNC, last=arrive_only) + STORE, schedule=schedule)
    assert set(kinds(result)) == {"cluster"}


def test_a_neighbour_that_has_left():
    body = EXCHANGE.format(
        first=SYNC + "setp.eq.u32 %p2, %r4, 1; @%p2 exit; nanosleep.u32 20; nanosleep.u32 20;",
        last="",
    )
    result, _ = run(body + STORE, grid=2)
    assert "cluster" in kinds(result)
    assert "have exited" in message(result, "cluster")


def test_a_barrier_that_one_block_does_not_reach():
    body = "setp.eq.u32 %p2, %r4, 1; @%p2 bra END; " + SYNC + "END: bar.sync 1, 128;"
    result, _ = run(body, grid=2)
    (fault,) = [f for f in result.faults if f.kind == "deadlock"]
    words = "\n".join(fault.details["waiting"])
    assert "barrier.cluster: 64 of 128 threads have arrived, those of the block of rank 1" in words


def test_exited_threads_are_not_waited_for():
    result, out = run("setp.ge.u32 %p2, %r1, 40; @%p2 exit;" + SYNC + "mov.u32 %r10, 1;" + STORE)
    assert kinds(result) == [] and out.sum() == 4 * 40


def test_arriving_twice_and_waiting_without_arriving():
    result, _ = run("barrier.cluster.arrive; barrier.cluster.arrive; barrier.cluster.wait;")
    assert "second time" in message(result, "cluster")
    result, _ = run("barrier.cluster.wait;")
    assert "without an arrive" in message(result, "cluster")


def test_addresses_name_their_block():
    result, out = run(
        """
        getctarank.shared::cluster.u32 %r10, %r9; getctarank.shared::cluster.u32 %r11, %r8;
        mad.lo.u32 %r10, %r10, 10, %r11;
        cvt.u64.u32 %rd1, %r8; cvta.shared.u64 %rd2, %rd1; mapa.u64 %rd3, %rd2, %r5;
        getctarank.u64 %r12, %rd3; mad.lo.u32 %r10, %r10, 10, %r12;
        """
        + STORE
    )
    assert kinds(result) == []
    assert out[:, 0].tolist() == [101, 10, 101, 10]


@pytest.mark.parametrize("rank", [5, 256])
def test_a_rank_beyond_the_cluster_is_a_fault_of_who_uses_it(rank):
    beyond = f"mov.u32 %r5, {rank}; mapa.shared::cluster.u32 %r9, %r8, %r5;"
    result, _ = run(beyond)
    assert kinds(result) == []
    result, _ = run(beyond + SYNC + "ld.shared::cluster.u32 %r10, [%r9];" + SYNC)
    assert "of a cluster of 2" in message(result, "out_of_bounds")
    result, _ = run(beyond + SYNC + "mbarrier.arrive.shared::cluster.b64 _, [%r9];" + SYNC)
    assert "in the shared memory of any block" in message(result, "out_of_bounds")


# Rank 1 hands its buffer to rank 0 through an mbarrier in rank 0.
REMOTE = """
    @%p1 mbarrier.init.shared.b64 [%r3], 64;
    {sync}
    setp.eq.u32 %p2, %r4, 0; @%p2 bra TAKE;
    add.u32 %r11, %r1, 7; st.shared::cluster.u32 [%r9], %r11;
    mapa.shared::cluster.u32 %r12, %r3, 0;
    mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r12];
    bra.uni END;
    TAKE:
    W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%r3], 0; @!%p3 bra W;
    ld.shared.u32 %r10, [%r8];
    END:
    barrier.cluster.arrive; barrier.cluster.wait;
"""
INIT_SYNC = (
    "fence.mbarrier_init.release.cluster; barrier.cluster.arrive.relaxed.aligned; "
    "barrier.cluster.wait.acquire.aligned;"
)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("sync", [SYNC, INIT_SYNC])
def test_an_arrival_at_another_blocks_mbarrier(sync, schedule):
    result, out = run(REMOTE.format(sync=sync) + STORE, schedule=schedule)
    assert kinds(result) == []
    assert out[0].tolist() == out[2].tolist() == [t + 7 for t in range(64)]


def test_an_init_that_the_neighbour_does_not_see():
    unfenced = "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;"
    result, _ = run(REMOTE.format(sync=unfenced + "bar.sync 0;") + STORE)
    assert "mbarrier" in kinds(result)
    assert "fence.mbarrier_init and a barrier of the cluster" in message(result, "mbarrier")


def test_waiting_at_another_blocks_mbarrier():
    body = (
        """
        @%p1 mbarrier.init.shared.b64 [%r3], 1;
    """
        + SYNC
        + """
        mapa.shared::cluster.u32 %r12, %r3, %r5;
        mbarrier.test_wait.parity.shared::cta.b64 %p3, [%r12], 1;
    """
        + SYNC
    )
    result, _ = run(body)
    assert "of another block" in message(result, "mbarrier")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_asynchronous_stores(schedule):
    body = (
        """
        @%p1 mbarrier.init.shared.b64 [%r3], 1;
        @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], {bytes};
    """
        + SYNC
        + """
        add.u32 %r11, %r1, 3; mapa.shared::cluster.u32 %r12, %r3, %r5;
        st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r9], %r11, [%r12];
        {wait}
        ld.shared.u32 %r10, [%r8];
    """
        + STORE
        + "W2: mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0; @!%p3 bra W2;"
        + SYNC
    )
    wait = "W: mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0; @!%p3 bra W;"
    result, out = run(body.format(bytes=256, wait=wait), schedule=schedule)
    assert kinds(result) == [] and (out == np.arange(64) + 3).all()
    early, _ = run(body.format(bytes=256, wait=""), schedule=schedule)
    assert {"read_before_wait", "uninitialised"} & set(kinds(early))
    short, _ = run(body.format(bytes=240, wait=wait), schedule=schedule)
    assert "expect_tx" in kinds(short)  # at the end, if not before


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_asynchronous_reductions(schedule):
    body = (
        """
        @%p1 mbarrier.init.shared.b64 [%r3], 1;
        @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 256;
        mov.u32 %r13, 100; st.shared.u32 [%r8], %r13;
    """
        + SYNC
        + """
        mapa.shared::cluster.u32 %r12, %r3, %r5;
        red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r9], %r1, [%r12];
        W: mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0; @!%p3 bra W;
        ld.shared.u32 %r10, [%r8];
    """
        + STORE
        + SYNC
    )
    result, out = run(body, schedule=schedule)
    assert kinds(result) == [] and (out == np.arange(64) + 100).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_bulk_copy_to_the_neighbour(schedule):
    body = (
        """
        @%p1 mbarrier.init.shared.b64 [%r3], 1;
        @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 256;
        mad.lo.u32 %r11, %r6, 1000, %r1; st.shared.u32 [%r8], %r11;
        fence.proxy.async.shared::cta;
    """
        + SYNC
        + """
        @!%p1 bra WAIT;
        add.u32 %r14, %r2, 1024; mapa.shared::cluster.u32 %r14, %r14, %r5;
        mapa.shared::cluster.u32 %r12, %r3, %r5;
        cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes
            [%r14], [%r2], 256, [%r12];
        WAIT:
        W: mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0; @!%p3 bra W;
        ld.shared.u32 %r10, [%r8+1024];
    """
        + STORE
        + SYNC
    )
    result, out = run(body, schedule=schedule)
    assert kinds(result) == [] and np.array_equal(out, EXPECTED)
    assert result.counters["bulk_cluster_bytes"] == 4 * 256


# Rank 0 loads a tile into both blocks; each waits at its own mbarrier.
MULTICAST = (
    """
    @%p1 mbarrier.init.shared.b64 [%r3], 1;
    @%p1 fence.mbarrier_init.release.cluster;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 256;
"""
    + SYNC
    + """
    setp.eq.and.u32 %p4, %r4, 0, %p1; mov.u16 %h1, {mask}; mov.u64 %rd1, k_map;
    shr.u32 %r20, %r6, 1; shl.b32 %r20, %r20, 1;
    @%p4 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
        [%r2], [%rd1, {{0, %r20}}], [%r3], %h1;
    W: mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0; @!%p3 bra W;
    ld.shared.u32 %r10, [%r8];
"""
    + STORE
    + SYNC
)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_multicast_writes_and_signals_every_block_of_the_mask(schedule):
    x = aligned((4, 32), np.uint32)
    maps = {"map": map_bytes_of(x, (32, 2))}
    result, out = run(MULTICAST.format(mask=3), schedule=schedule, x=x, raw_parameters=maps)
    assert kinds(result) == []
    assert np.array_equal(out, np.repeat(x.reshape(2, 64), 2, axis=0))
    assert result.counters["tma_load_bytes"] == 512
    assert result.counters["tma_multicast_bytes"] == 512


def test_a_mask_without_the_neighbour_leaves_it_waiting():
    x = aligned((4, 32), np.uint32)
    maps = {"map": map_bytes_of(x, (32, 2))}
    result, _ = run(MULTICAST.format(mask=1), x=x, raw_parameters=maps)
    assert "deadlock" in kinds(result)
    (fault,) = [f for f in result.faults if f.kind == "deadlock"]
    assert "it expects 256 bytes, 0 arrived" in "\n".join(fault.details["waiting"])


def test_a_mask_beyond_the_cluster():
    x = aligned((4, 32), np.uint32)
    maps = {"map": map_bytes_of(x, (32, 2))}
    result, _ = run(MULTICAST.format(mask=7), x=x, raw_parameters=maps)
    assert "rank 2: the cluster has 2" in message(result, "cluster")


def test_cluster_launch_control_refuses():
    body = """
        @%p1 mbarrier.init.shared.b64 [%r3], 1; bar.sync 0;
        @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 16;
        @%p1 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128
            [%r2], [%r3];
        W: mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0; @!%p3 bra W;
        ld.shared.b128 %q1, [%r2];
        clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p5, %q1;
        selp.u32 %r10, 1, 2, %p5;
    """
    result, out = run(body + STORE, target="sm_100a")
    assert kinds(result) == [] and (out == 2).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_asynchronous_stores_of_vectors(schedule):
    body = (
        """
        @%p1 mbarrier.init.shared.b64 [%r3], 1;
        @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 1024;
    """
        + SYNC
        + """
        shl.b32 %r14, %r1, 4; add.u32 %r15, %r2, %r14; mapa.shared::cluster.u32 %r16, %r15, %r5;
        mapa.shared::cluster.u32 %r12, %r3, %r5; add.u32 %r20, %r1, 1; add.u32 %r21, %r1, 2;
        st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32
            [%r16], {%r1, %r20, %r21, %r6}, [%r12];
        W: mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0; @!%p3 bra W;
        ld.shared.v4.u32 {%r22, %r23, %r24, %r25}, [%r15];
        mad.lo.u32 %r10, %r22, 100, %r23; mad.lo.u32 %r10, %r10, 100, %r24;
        mad.lo.u32 %r10, %r10, 10, %r25;
    """
        + STORE
        + SYNC
    )
    result, out = run(body, schedule=schedule)
    assert kinds(result) == []
    t, b = np.arange(64), np.arange(4)[:, None]
    assert np.array_equal(out, ((t * 100 + t + 1) * 100 + t + 2) * 10 + (b ^ 1))
