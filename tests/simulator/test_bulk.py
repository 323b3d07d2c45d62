"""Bulk copies without a map: directions, sizes, reductions, groups."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.simulator.harness import kinds, run_ptx
from tests.simulator.tma import aligned

SCHEDULES = ("latest", "earliest", "random:1", "random:4")

HEAD = """
    .shared .align 128 .b8 buffer[2048]; .shared .align 8 .b64 bar;
    mov.u32 %r1, %tid.x; mov.u32 %r2, buffer; mov.u32 %r3, bar; setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared.b64 [%r3], 1; bar.sync 0;
"""
IN = """
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], {size};
    @%p1 cp.async.bulk.shared::{space}.global.mbarrier::complete_tx::bytes [%r2], [%x], {size}, [%r3];
    W: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra W;
"""
OUT = """
    shl.b32 %r4, %r1, 4; add.u32 %r5, %r2, %r4; mul.wide.u32 %rd1, %r1, 16;
    ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r5];
    add.u64 %rd2, %out, %rd1; st.global.v4.u32 [%rd2], {%r10, %r11, %r12, %r13};
"""


def run(body: str, *, schedule: str = "latest", dtype=np.uint32, words: int = 256):
    x = aligned((words * 4 // np.dtype(dtype).itemsize,), dtype)
    out = aligned(x.shape, dtype, "zeros")
    result = run_ptx(HEAD + body, x=x, out=out, block=64, schedule=schedule)
    return result, x, out


def message(result, kind: str) -> str:
    return next(f.message for f in result.faults if f.kind == kind)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("space", ["cta", "cluster"])
def test_into_shared_memory(space, schedule):
    result, x, out = run(IN.format(size=1024, space=space) + OUT, schedule=schedule)
    assert kinds(result) == [] and np.array_equal(out, x)
    assert result.counters["bulk_load_bytes"] == 1024 and result.counters["bulk_requests"] == 1


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_out_of_shared_memory(schedule):
    back = """
        @!%p1 bra END;
        cp.async.bulk.global.shared::cta.bulk_group [%out], [%r2], 1024;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
        END:
    """
    result, x, out = run(IN.format(size=1024, space="cta") + back, schedule=schedule)
    assert kinds(result) == [] and np.array_equal(out, x)
    assert result.counters["bulk_store_bytes"] == 1024


def test_what_a_bulk_copy_brought_needs_no_fence_for_the_next():
    back = """
        @!%p1 bra END; {write}
        cp.async.bulk.global.shared::cta.bulk_group [%out], [%r2], 1024;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
        END:
    """
    fine, *_ = run(IN.format(size=1024, space="cta") + back.format(write=""))
    assert kinds(fine) == []
    store = "st.shared.u32 [%r2+64], 5;"
    wrong, *_ = run(IN.format(size=1024, space="cta") + back.format(write=store))
    assert kinds(wrong) == ["proxy_fence"]
    fenced, _, out = run(
        IN.format(size=1024, space="cta") + back.format(write=store + "fence.proxy.async;")
    )
    assert kinds(fenced) == [] and out[16] == 5


def test_sizes_and_addresses_are_multiples_of_sixteen():
    result, *_ = run(IN.format(size=1000, space="cta").replace("_, [%r3], 1000", "_, [%r3], 992"))
    assert kinds(result) == ["misaligned"]
    body = IN.format(size=64, space="cta").replace("[%r2], [%x]", "[%r2+8], [%x]")
    assert "misaligned" in kinds(run(body)[0])


def test_out_of_bounds_of_either_side():
    result, *_ = run(IN.format(size=1040, space="cta"))
    assert "the end of x" in message(result, "out_of_bounds")
    body = IN.format(size=1024, space="cta").replace("[%r2], [%x]", "[%r2+1152], [%x]")
    assert "beyond the block's" in message(run(body)[0], "out_of_bounds")


def test_groups_complete_in_order_and_a_wait_may_leave_some():
    stores = """
        @!%p1 bra END;
        cp.async.bulk.global.shared::cta.bulk_group [%out], [%r2], 256; cp.async.bulk.commit_group;
        cp.async.bulk.global.shared::cta.bulk_group [%out+256], [%r2+256], 256;
        cp.async.bulk.commit_group;
        cp.async.bulk.wait_group.read {leave};
        st.shared.u32 [%r2], 1;
        {second}
        cp.async.bulk.wait_group 0;
        END:
    """
    load = IN.format(size=1024, space="cta")
    assert kinds(run(load + stores.format(leave=1, second=""))[0]) == []
    late = stores.format(leave=1, second="st.shared.u32 [%r2+256], 1;")
    assert kinds(run(load + late)[0]) == ["overwritten_in_flight"]
    assert "overwritten_in_flight" in kinds(run(load + stores.format(leave=2, second=""))[0])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("dtype", "operation", "expected"),
    [
        (np.uint32, "add.u32", lambda old, new: old + new),
        (np.int32, "min.s32", np.minimum),
        (np.uint64, "max.u64", np.maximum),
        (np.float32, "add.f32", np.add),
        (np.float16, "add.noftz.f16", np.add),
        (ml_dtypes.bfloat16, "add.noftz.bf16", np.add),
        (np.uint32, "and.b32", np.bitwise_and),
        (np.uint32, "inc.u32", lambda old, new: np.where(old >= new, 0, old + 1)),
    ],
)
def test_reductions(dtype, operation, expected, schedule):
    body = f"""
        @!%p1 bra END;
        cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation} [%out], [%r2], 1024;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
        END:
    """
    x = aligned((1024 // np.dtype(dtype).itemsize,), dtype)
    out = aligned(x.shape, dtype)
    out[...] = out[::-1].copy()
    before = out.copy()
    result = run_ptx(
        HEAD + IN.format(size=1024, space="cta") + body, x=x, out=out, block=64, schedule=schedule
    )
    assert kinds(result) == []
    assert np.array_equal(out, np.asarray(expected(before, x), dtype))
    assert result.counters["bulk_reduce_bytes"] == 1024


def test_prefetch_only_counts():
    result, *_ = run("@%p1 cp.async.bulk.prefetch.L2.global [%x], 512;")
    assert kinds(result) == [] and result.counters["bulk_prefetch_bytes"] == 512


def test_every_lane_may_copy():
    body = """
        @%p1 mbarrier.expect_tx.shared.b64 [%r3], 1024;
        @%p1 mbarrier.arrive.shared.b64 _, [%r3];
        bar.sync 0;
        shl.b32 %r4, %r1, 4; add.u32 %r5, %r2, %r4; mul.wide.u32 %rd1, %r1, 16; add.u64 %rd2, %x, %rd1;
        cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r5], [%rd2], 16, [%r3];
        W: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra W;
    """
    result, x, out = run(body + OUT)
    assert kinds(result) == [] and np.array_equal(out, x)


def test_reductions_of_several_blocks_into_one_place_are_no_race():
    body = """
        @!%p1 bra END;
        cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out], [%r2], 1024;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
        END:
    """
    x, out = aligned((256,), np.uint32), aligned((256,), np.uint32, "zeros")
    result = run_ptx(
        HEAD + IN.format(size=1024, space="cta") + body, x=x, out=out, block=64, grid=5
    )
    assert kinds(result) == [] and np.array_equal(out, 5 * x)
    plain = body.replace("cp.reduce", "cp").replace(".add.u32", "")
    result = run_ptx(
        HEAD + IN.format(size=1024, space="cta") + plain, x=x, out=out, block=64, grid=2
    )
    assert kinds(result) == ["race"]


def test_a_store_by_a_whole_warp_is_one_store():
    body = """
        setp.lt.u32 %p3, %r1, 32; @!%p3 bra END;
        cp.async.bulk.global.shared::cta.bulk_group [%out], [%r2], 1024;
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
        END:
    """
    result, x, out = run(IN.format(size=1024, space="cta") + body)
    assert kinds(result) == [] and np.array_equal(out, x)
    assert result.counters["bulk_store_bytes"] == 1024
