"""Tensor copies: what lands where, what the mbarrier is told, and what is wrong with a map."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from checkers.simulator.copies.tensormap import replaced
from checkers.simulator.matrices.descriptors import swizzle
from checkers.simulator.ptx.modifiers import Unsupported
from tests.simulator.harness import kinds, run_ptx
from tests.simulator.test_tiles import expected_box
from tests.simulator.tma import aligned, map_bytes_of, map_of

SCHEDULES = ("latest", "earliest", "random:1", "random:6")

# One thread loads a box; all wait for it and copy shared memory out as it lies there.
LOAD = """
    .shared .align 1024 .b8 tile[{bytes}];
    .shared .align 8 .b64 bar;
    mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mov.u32 %r3, bar; setp.eq.u32 %p1, %r1, 0;
    mov.u64 %rd1, k_map;
    @%p1 mbarrier.init.shared.b64 [%r3], 1;
    @%p1 fence.mbarrier_init.release.cluster;
    bar.sync 0;
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], {bytes};
    @%p1 cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}mbarrier::complete_tx::bytes
        [%r2], [%rd1, {{{at}}}], [%r3];
    W: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra W;
    mov.u32 %r5, %r1;
    COPY: setp.ge.u32 %p3, %r5, {words}; @%p3 bra END;
    shl.b32 %r6, %r5, 2; add.u32 %r7, %r2, %r6; ld.shared.u32 %r8, [%r7];
    mul.wide.u32 %rd2, %r5, 4; add.u64 %rd2, %out, %rd2; st.global.u32 [%rd2], %r8;
    add.u32 %r5, %r5, 64; bra.uni COPY;
    END:
"""


def load(array, box, at, *, schedule="latest", mode="", target="sm_90a", size=None, **options):
    """(result, bytes of shared memory as they lie) of loading one box."""
    data = map_bytes_of(array, box, **options)
    count = size or int(np.prod(box)) * array.itemsize
    out = np.zeros(count, np.uint8)
    body = LOAD.format(
        bytes=count,
        words=count // 4,
        rank=array.ndim,
        mode=mode,
        at=", ".join(str(c) for c in at),
    )
    result = run_ptx(
        body,
        block=64,
        out=out,
        x=array,
        raw_parameters={"map": data},
        schedule=schedule,
        target=target,
    )
    return result, out


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_box_lands_row_by_row(schedule):
    x = aligned((40, 64), np.uint16)
    result, out = load(x, (32, 8), (16, 20), schedule=schedule)
    assert kinds(result) == []
    assert np.array_equal(out.view(np.uint16).reshape(8, 32), x[20:28, 16:48])
    assert result.counters["tma_load_bytes"] == 512 and result.counters["tma_requests"] == 1


@pytest.mark.parametrize("at", [(48, 36), (-8, -3), (8, 5), (56, 39), (64, 0)])
def test_outside_is_zero_and_counts_for_the_mbarrier(at):
    x = aligned((40, 64), np.uint16)
    x += 1
    result, out = load(x, (32, 8), at)
    assert kinds(result) == []
    expected = np.zeros((8, 32), np.uint16)
    for r in range(8):
        for c in range(32):
            if 0 <= at[1] + r < 40 and 0 <= at[0] + c < 64:
                expected[r, c] = x[at[1] + r, at[0] + c]
    assert np.array_equal(out.view(np.uint16).reshape(8, 32), expected)


def test_a_row_has_to_be_entered_at_a_multiple_of_16_bytes():
    result, _ = load(aligned((40, 64), np.uint16), (32, 8), (12, 5))
    assert "misaligned" in kinds(result)
    assert "innermost coordinate is 12, 24 bytes into a row" in result.faults[0].message


@pytest.mark.parametrize(("mode", "width"), [("32B", 16), ("64B", 32), ("128B", 64)])
def test_a_swizzled_box_is_found_by_the_same_swizzle(mode, width):
    x = aligned((64, 128), np.uint16)
    result, out = load(x, (width, 16), (64, 32), swizzle=mode)
    assert kinds(result) == []
    linear = np.arange(width * 16 * 2).reshape(-1, 16)[:, 0]  # shared memory begins at 1024
    rows = out.reshape(-1, 16)[swizzle(linear, mode) // 16]
    found = rows.reshape(-1).view(np.uint16).reshape(16, width)
    assert np.array_equal(found, x[32:48, 64 : 64 + width])
    assert not np.array_equal(out.view(np.uint16).reshape(16, width), found)


@pytest.mark.parametrize(
    ("shape", "box", "at"),
    [
        ((256,), (64,), (100,)),
        ((6, 5, 32), (16, 2, 3), (8, 4, 2)),
        ((3, 4, 5, 16), (8, 2, 2, 2), (4, 3, -1, 1)),
        ((2, 3, 4, 5, 16), (8, 2, 2, 2, 2), (0, 1, 2, 1, 1)),
    ],
)
def test_every_rank(shape, box, at):
    x = aligned(shape, np.float32)
    x += 1
    result, out = load(x, box, at, mode="tile.")
    assert kinds(result) == []
    expected = expected_box(x, map_of(x, box), at)
    assert np.array_equal(out.view(np.float32).reshape(expected.shape), expected)


def test_steps_thin_a_box_out():
    x = aligned((40, 64), np.uint16)
    result, out = load(x, (16, 8), (0, 1), steps=(1, 3), size=16 * 3 * 2)
    assert kinds(result) == []
    assert np.array_equal(out.view(np.uint16).reshape(3, 16), x[[1, 4, 7], :16])


def test_four_gathered_rows():
    x = aligned((40, 64), np.uint16)
    result, out = load(
        x, (16, 1), (8, 3, 39, 0, 17), mode="tile::gather4.", target="sm_100a", size=128
    )
    assert kinds(result) == []
    assert np.array_equal(out.view(np.uint16).reshape(4, 16), x[[3, 39, 0, 17], 8:24])


def test_im2col_is_refused_by_name():
    with pytest.raises(Unsupported, match="im2col"):
        load(aligned((4, 4, 64), np.uint16), (16, 2, 2), (0, 0, 0), mode="im2col.")


# --- stores ------------------------------------------------------------------------------------------

STORE = """
    .shared .align 1024 .b8 tile[{bytes}];
    mov.u32 %r1, %tid.x; mov.u32 %r2, tile; setp.eq.u32 %p1, %r1, 0; mov.u64 %rd1, k_map;
    mov.u32 %r5, %r1;
    FILL: setp.ge.u32 %p3, %r5, {words}; @%p3 bra FILLED;
    shl.b32 %r6, %r5, 2; add.u32 %r7, %r2, %r6;
    mul.wide.u32 %rd2, %r5, 4; add.u64 %rd2, %x, %rd2; ld.global.u32 %r8, [%rd2];
    st.shared.u32 [%r7], %r8; add.u32 %r5, %r5, 64; bra.uni FILL;
    FILLED:
    {fence}
    bar.sync 0;
    @!%p1 bra END;
    {op} [%rd1, {{{at}}}], [%r2];
    {commit}
    {wait}
    {after}
    END:
"""


def store(array, box, at, *, source, schedule="latest", op="", mode="", **parts):
    fields = {
        "fence": "fence.proxy.async.shared::cta;",
        "commit": "cp.async.bulk.commit_group;",
        "wait": "cp.async.bulk.wait_group.read 0;",
        "after": "",
    } | {k: parts.pop(k) for k in list(parts) if k in ("fence", "commit", "wait", "after")}
    count = source.nbytes
    name = op or f"cp.async.bulk.tensor.{array.ndim}d.global.shared::cta.{mode}bulk_group"
    body = STORE.format(
        bytes=count, words=count // 4, op=name, at=", ".join(map(str, at)), **fields
    )
    return run_ptx(
        body,
        block=64,
        x=source,
        y=array,
        raw_parameters={"map": map_bytes_of(array, box, **parts)},
        schedule=schedule,
    )


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("at", [(16, 20), (56, 38)])
def test_a_store_writes_what_lies_inside(at, schedule):
    source = aligned((8, 16), np.uint16)
    source += 1
    y = aligned((40, 64), np.uint16, "zeros")
    result = store(y, (16, 8), at, source=source, schedule=schedule)
    assert kinds(result) == []
    expected = np.zeros((60, 90), np.uint16)
    expected[at[1] : at[1] + 8, at[0] : at[0] + 16] = source
    assert np.array_equal(y, expected[:40, :64])
    inside = (min(40, at[1] + 8) - at[1]) * (min(64, at[0] + 16) - at[0]) * 2
    assert result.counters["tma_store_bytes"] == inside


def test_a_store_may_not_begin_at_negative_coordinates():
    source, y = aligned((8, 16), np.uint16), aligned((40, 64), np.uint16, "zeros")
    result = store(y, (16, 8), (-8, 0), source=source)
    assert kinds(result) == ["out_of_bounds"] and not y.any()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_store_without_the_proxy_fence(schedule):
    source, y = aligned((8, 16), np.uint16), aligned((40, 64), np.uint16, "zeros")
    result = store(y, (16, 8), (0, 0), source=source, fence="", schedule=schedule)
    assert kinds(result) == ["proxy_fence"]


def test_shared_memory_reused_before_the_store_has_read_it():
    source, y = aligned((8, 16), np.uint16), aligned((40, 64), np.uint16, "zeros")
    again = "st.shared.u32 [%r2], 7;"
    fine = store(y, (16, 8), (0, 0), source=source, after=again)
    assert kinds(fine) == []
    result = store(y, (16, 8), (0, 0), source=source, wait="", after=again)
    assert "overwritten_in_flight" in kinds(result)


def test_a_store_without_commit_or_wait():
    source, y = aligned((8, 16), np.uint16), aligned((40, 64), np.uint16, "zeros")
    result = store(y, (16, 8), (0, 0), source=source, commit="")
    assert kinds(result) == ["commit", "exit_in_flight"]
    result = store(y, (16, 8), (0, 0), source=source, wait="")
    assert kinds(result) == ["exit_in_flight"]


def test_reading_the_destination_back_needs_the_whole_wait():
    source, y = aligned((8, 16), np.uint16), aligned((40, 64), np.uint16, "zeros")
    back = "ld.global.u32 %r9, [%y];"
    result = store(y, (16, 8), (0, 0), source=source, after=back)
    assert kinds(result) == ["read_before_wait"]
    whole = store(y, (16, 8), (0, 0), source=source, after=back, wait="cp.async.bulk.wait_group 0;")
    assert kinds(whole) == []


def test_a_swizzled_store_undoes_a_swizzled_load():
    source, y = aligned((16, 64), np.uint16), aligned((32, 64), np.uint16, "zeros")
    lying = np.zeros(2048, np.uint8)
    linear = np.arange(0, 2048, 16)
    lying.reshape(-1, 16)[swizzle(linear, "128B") // 16] = source.view(np.uint8).reshape(-1, 16)
    shared = aligned((16, 64), np.uint16)
    shared[...] = lying.view(np.uint16).reshape(16, 64)
    result = store(y, (64, 16), (0, 16), source=shared, swizzle="128B")
    assert kinds(result) == [] and np.array_equal(y[16:], source) and not y[:16].any()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("dtype", "operation", "function"),
    [
        (np.float32, "add", np.add),
        (np.float16, "add", np.add),
        (ml_dtypes.bfloat16, "max", np.maximum),
        (np.uint32, "min", np.minimum),
        (np.int32, "max", np.maximum),
        (np.uint32, "xor", np.bitwise_xor),
    ],
)
def test_reductions(dtype, operation, function, schedule):
    source, y = aligned((8, 16), dtype), aligned((16, 32), dtype)
    y += np.ones_like(y)
    before = y.copy()
    op = f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{operation}.tile.bulk_group"
    result = store(y, (16, 8), (8, 4), source=source, op=op, schedule=schedule)
    assert kinds(result) == []
    before[4:12, 8:24] = function(before[4:12, 8:24], source)
    assert np.array_equal(y, before)
    assert result.counters["tma_reduce_bytes"] == source.nbytes


# --- maps that don't fit -----------------------------------------------------------------------------


def run_with(data: bytes, x: np.ndarray, offset: int = 0, body: str = ""):
    text = LOAD.format(bytes=512, words=128, rank=2, mode="", at="0, 0")
    if offset:
        text = text.replace("[%r2], [%rd1", f"[%r2+{offset}], [%rd1")
    return run_ptx(
        body or text, block=64, out=np.zeros(512, np.uint8), x=x, raw_parameters={"map": data}
    )


def fault(result, kind: str) -> str:
    return next(f.message for f in result.faults if f.kind == kind)


def test_a_box_wider_than_its_swizzle():
    x = aligned((40, 64), np.uint16)
    data = replaced(map_bytes_of(x, (32, 8)), "swizzle_mode", 1)
    result = run_with(data, x)
    assert "wider than the 32 of its 32B swizzle" in fault(result, "tensor_map")


def test_a_map_of_another_rank():
    x = aligned((4, 8, 32), np.uint16)
    assert "3 dimensions, the copy 2" in fault(
        run_with(map_bytes_of(x, (32, 4, 2)), x), "tensor_map"
    )


def test_bytes_that_are_no_map():
    assert "can't be read" in fault(
        run_with(b"\xff" * 128, aligned((4, 8), np.uint16)), "tensor_map"
    )


def test_a_map_of_memory_that_is_no_tensor():
    x = aligned((40, 64), np.uint16)
    big = map_bytes_of(x, (32, 8), sizes=(64, 1000))
    inside = run_with(big, x)
    assert kinds(inside) == []
    text = LOAD.format(bytes=512, words=128, rank=2, mode="", at="0, 36")
    result = run_with(big, x, body=text)
    assert kinds(result) == ["out_of_bounds"]
    assert "at the end of x (shape (40, 64))" in fault(result, "out_of_bounds")


def test_a_destination_that_is_not_aligned():
    x = aligned((40, 64), np.uint16)
    result = run_with(map_bytes_of(x, (32, 8)), x, offset=16)
    assert "misaligned" in kinds(result)


def test_a_destination_beyond_shared_memory():
    x = aligned((40, 64), np.uint16)
    result = run_with(map_bytes_of(x, (32, 8)), x, offset=384)
    assert "beyond the block's" in fault(result, "out_of_bounds")


# --- maps changed on the device ------------------------------------------------------------------------

CHANGE = """
    .shared .align 128 .b8 scratch[128];
    mov.u32 %r20, scratch; mov.u64 %rd10, k_map; mov.u32 %r30, %tid.x; setp.lt.u32 %p10, %r30, 16;
    setp.ge.u32 %p11, %r30, 32; @%p11 bra READY;
    @!%p10 bra CHANGED;
    mul.wide.u32 %rd11, %r30, 8; add.u64 %rd12, %rd10, %rd11; ld.param.b64 %rd13, [%rd12];
    shl.b32 %r31, %r30, 3; add.u32 %r31, %r20, %r31; st.shared.b64 [%r31], %rd13;
    CHANGED: bar.warp.sync 0xffffffff;
    setp.eq.u32 %p12, %r30, 0;
    @%p12 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r20], %y;
    @%p12 tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r20], 1, 4;
    bar.warp.sync 0xffffffff;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned
        [%changed], [%r20], 128;
    {acquire}
    READY:
"""


@pytest.mark.parametrize("acquires", [True, False])
def test_a_map_changed_on_the_device(acquires):
    x, y = aligned((40, 64), np.uint16), aligned((40, 64), np.uint16)
    y += 7
    memory = aligned((128,), np.uint8, "zeros")
    acquire = "fence.proxy.tensormap::generic.acquire.gpu [%changed], 128;" if acquires else ""
    body = CHANGE.format(acquire=acquire) + LOAD.format(
        bytes=512, words=128, rank=2, mode="", at="0, 0"
    ).replace("mov.u64 %rd1, k_map;", "mov.u64 %rd1, %changed;")
    out = np.zeros(512, np.uint8)
    result = run_ptx(
        body,
        block=64,
        out=out,
        x=x,
        y=y,
        changed=memory,
        raw_parameters={"map": map_bytes_of(x, (32, 8))},
    )
    if acquires:
        assert kinds(result) == []
        found = out.view(np.uint16).reshape(8, 32)
        assert np.array_equal(found[:4], y[:4, :32]) and not found[4:].any()
    else:
        assert kinds(result) == ["tensor_map"]
