"""What wgmma demands of registers, shared memory and threads: each rule broken, and kept."""

import numpy as np
import pytest

from checkers.simulator.ptx.modifiers import Unsupported
from tests.simulator.harness import kinds, run_ptx
from tests.simulator.test_matrix import random_codes
from tests.simulator.tiles_in_shared import BASE, SHARED, Placed, fill_shared, padded_image

D = "{%f0, %f1, %f2, %f3}"
FENCE = "wgmma.fence.sync.aligned;"
COMMIT = "wgmma.commit_group.sync.aligned;"
WAIT = "wgmma.wait_group.sync.aligned 0;"
SET_UP = "fence.proxy.async; bar.sync 0;"
STORE = "st.global.v4.f32 [%rd9], {%f0, %f1, %f2, %f3};"


def tiles():
    rng = np.random.default_rng(0)
    a_codes, a = random_codes(rng, "f16", (64, 32))
    b_codes, b = random_codes(rng, "f16", (8, 32))
    first = Placed(a_codes, "64B", False, BASE)
    second = Placed(b_codes, "64B", False, BASE + first.bytes)
    return first, second, a @ b.T


A, B, PRODUCT = tiles()
IMAGE = padded_image([A, B], 128)


def mma(step=0, a=None, b=None, d=D, name="m64n8k16", keep="1"):
    left = f"{A.descriptor(16 * step):#x}" if a is None else a
    right = f"{B.descriptor(16 * step):#x}" if b is None else b
    transposes = "0" if left.startswith("{") else "0, 0"
    return (
        f"wgmma.mma_async.sync.aligned.{name}.f32.f16.f16 {d}, {left}, {right}, {keep}, 1, 1, "
        f"{transposes};"
    )


BOTH = mma(0) + mma(1)
ZERO = "mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;"


def run(*parts, **launch):
    """D (64, 8) as stored, and the result, of a block of 128 threads."""
    out = np.full((128, 4), np.nan, np.float32)
    body = [
        "mov.u32 %r0, %tid.x; mul.wide.u32 %rd9, %r0, 16; add.u64 %rd9, %out, %rd9;",
        fill_shared(IMAGE.size, 128),
        *parts,
    ]
    result = run_ptx(
        "\n".join(body),
        block=launch.pop("block", 128),
        dynamic_shared=IMAGE.size,
        module=SHARED,
        image=IMAGE,
        out=out,
        **launch,
    )
    d = np.empty((64, 8), np.float32)
    for thread in range(128):
        for i in range(4):
            row = thread // 32 * 16 + thread % 32 // 4 + 8 * (i // 2)
            d[row, 2 * (thread % 4) + i % 2] = out[thread, i]
    return d, result


def messages(result, kind):
    return " ".join(f.message for f in result.faults if f.kind == kind)


def assert_clean(d, result, times=1):
    assert [f.message for f in result.faults] == []
    assert np.allclose(d, times * PRODUCT, rtol=1e-5, atol=1e-4)


GOOD = (SET_UP, ZERO, FENCE, BOTH, COMMIT, WAIT, STORE)


def test_the_whole_sequence_is_clean():
    assert_clean(*run(*GOOD))


def test_without_scale_d_the_old_accumulator_does_not_matter():
    first = mma(0, keep="0")
    assert_clean(*run(SET_UP, FENCE, first, mma(1), COMMIT, WAIT, STORE))


@pytest.mark.parametrize("schedule", ["latest", "earliest", "random:0"])
@pytest.mark.parametrize(
    ("missing", "found", "words"),
    [
        (FENCE, ["wgmma_fence"], "wgmma.fence is missing before the first"),
        (COMMIT, ["accumulator", "exit_in_flight"], "never committed"),
        (WAIT, ["accumulator", "exit_in_flight"], "before wgmma.wait_group says"),
        (SET_UP, ["proxy_fence", "race"], "fence.proxy.async"),
    ],
)
def test_each_part_that_is_missing_is_reported_as_what_it_is(missing, found, words, schedule):
    _, result = run(*(part for part in GOOD if part != missing), schedule=schedule)
    assert set(kinds(result)) <= set(found) and found[0] in kinds(result)
    assert words in messages(result, found[0])


def test_only_the_proxy_fence_missing():
    _, result = run("bar.sync 0;", *GOOD[1:])
    assert kinds(result) == ["proxy_fence"]
    assert_clean(*run("fence.proxy.async.shared::cta; bar.sync 0;", *GOOD[1:]))


def test_a_wait_that_leaves_a_group_in_flight_does_not_cover_it():
    lax = "wgmma.wait_group.sync.aligned 1;"
    _, result = run(SET_UP, ZERO, FENCE, BOTH, COMMIT, lax, STORE, WAIT)
    assert kinds(result) == ["accumulator"]
    assert "wgmma.wait_group 1 lets the newest group go on" in messages(result, "accumulator")
    # Two groups: the wait for all but one covers the first.
    other = "{%f4, %f5, %f6, %f7}"
    second = mma(0, d=other, keep="0") + COMMIT
    assert_clean(*run(SET_UP, ZERO, FENCE, BOTH, COMMIT, second, lax, STORE, WAIT))


def test_an_empty_group_counts_as_one():
    lax = "wgmma.wait_group.sync.aligned 1;"
    assert_clean(*run(SET_UP, ZERO, FENCE, BOTH, COMMIT, COMMIT, lax, STORE))


def test_a_fence_is_needed_again_after_the_accumulator_was_touched():
    double = "".join(f"add.f32 %f{i}, %f{i}, %f{i};" for i in range(4))
    again = (double, FENCE, BOTH, COMMIT, WAIT, STORE)
    assert_clean(*run(*GOOD[:-1], *again), times=3)
    _, result = run(*GOOD[:-1], *(part for part in again if part != FENCE))
    assert kinds(result) == ["wgmma_fence"]
    assert "between the last access to its registers" in messages(result, "wgmma_fence")


def test_a_constant_that_the_compiler_moved_behind_the_fence_is_no_access():
    """acc.fill(0), fence, gemm becomes this in CuTe DSL: one zero is copied to all registers."""
    zero = "mov.b32 %f5, 0;" + "".join(f"mov.b32 %f{i}, %f5;" for i in range(4))
    assert_clean(*run(SET_UP, FENCE, zero, BOTH, COMMIT, WAIT, STORE))
    assert_clean(
        *run(SET_UP, FENCE, ZERO.replace("%f0;", "0f00000000;"), BOTH, COMMIT, WAIT, STORE)
    )
    _, result = run(SET_UP, FENCE, BOTH, COMMIT, WAIT, zero, BOTH, COMMIT, WAIT, STORE)
    assert "wgmma_fence" in kinds(result)
    computed = "mov.b32 %f5, %r0;" + "".join(f"mov.b32 %f{i}, %f5;" for i in range(4))
    _, result = run(SET_UP, FENCE, computed, BOTH, COMMIT, WAIT, STORE)
    assert kinds(result) == ["wgmma_fence"]


def test_chains_into_one_accumulator_need_neither_fence_nor_wait():
    chain = (COMMIT + BOTH) * 3 + COMMIT
    assert_clean(*run(SET_UP, ZERO, FENCE, BOTH, chain, WAIT, STORE), times=4)


def test_another_shape_into_the_same_accumulator_needs_a_fence():
    wide = "{%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}"
    b = Placed(np.repeat(B.codes, 2, axis=0), "64B", False, B.start)
    other = mma(0, d=wide, b=f"{b.descriptor(0):#x}", name="m64n16k16", keep="0")
    _, result = run(SET_UP, ZERO, FENCE, BOTH, other, COMMIT, WAIT, STORE)
    assert "different shapes" in messages(result, "wgmma_fence")
    _, result = run(SET_UP, ZERO, FENCE, BOTH, FENCE, other, COMMIT, WAIT, STORE)
    assert "wgmma_fence" not in kinds(result)


def test_operand_a_in_registers_must_stay_until_the_wait():
    load = "mov.b32 %r10, 0x3c003c00; mov.b32 %r11, %r10; mov.b32 %r12, %r10; mov.b32 %r13, %r10;"
    one = mma(0, a="{%r10, %r11, %r12, %r13}", keep="0")
    change = "mov.b32 %r12, 0;"
    _, result = run(SET_UP, load, FENCE, one, COMMIT, change, WAIT, STORE)
    assert kinds(result) == ["accumulator"]
    assert "operand A of wgmma is overwritten" in messages(result, "accumulator")
    d, result = run(SET_UP, load, FENCE, one, COMMIT, WAIT, change, STORE)
    assert kinds(result) == []
    codes = B.codes.view(np.float16).astype(np.float64)[:, :16]
    assert np.allclose(d, np.tile(codes.sum(axis=1), (64, 1)), atol=1e-3)
    # Reading it is against the manual too, but harmless: a note.
    _, result = run(SET_UP, load, FENCE, one, COMMIT, "mov.b32 %r14, %r12;", WAIT, STORE)
    assert kinds(result) == [] and len(result.faults) == 1


def test_a_buffer_that_wgmma_still_reads_may_not_be_overwritten():
    store = f"@%p0 st.shared.b32 [%r20+{B.start - BASE}], %r0;"
    one = f"mov.u32 %r20, smem; setp.eq.u32 %p0, %r0, 0; {store}"
    _, result = run(SET_UP, ZERO, FENCE, BOTH, COMMIT, one, WAIT, STORE)
    assert kinds(result) == ["overwritten_in_flight"]
    assert_clean(*run(SET_UP, ZERO, FENCE, BOTH, COMMIT, WAIT, STORE, "bar.sync 0;", one))


def test_a_block_may_not_end_with_wgmma_in_flight():
    _, result = run(SET_UP, FENCE, BOTH, COMMIT)
    assert kinds(result) == ["exit_in_flight"]
    _, result = run(SET_UP, FENCE, BOTH, COMMIT, WAIT)
    assert kinds(result) == []


def test_all_four_warps_of_the_warpgroup_take_part():
    leave = "setp.ge.u32 %p0, %r0, 96; @%p0 ret;"
    _, result = run(SET_UP, ZERO, leave, FENCE, BOTH, COMMIT, WAIT, STORE)
    assert kinds(result) == ["collective"]
    assert "all 4 warps of its warpgroup, but warp 3 didn't" in messages(result, "collective")
    skip = "setp.ge.u32 %p0, %r0, 96; @%p0 bra SKIP;"
    _, result = run(SET_UP, ZERO, skip, FENCE, BOTH, COMMIT, WAIT, "SKIP: bar.sync 0;", STORE)
    assert "collective" in kinds(result)


def test_the_threads_give_one_descriptor():
    own = f"mov.b64 %rd1, {B.descriptor(0):#x}; cvt.u64.u32 %rd2, %r0; add.u64 %rd1, %rd1, %rd2;"
    _, result = run(SET_UP, ZERO, FENCE, own, mma(0, b="%rd1"), COMMIT, WAIT, STORE)
    assert "collective" in kinds(result)
    assert "different descriptors" in messages(result, "collective")


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (64 >> 4, "descriptor", "no multiple of 512"),
        (1 << 46, "descriptor", "tcgen05"),
        ((1 << 17) >> 4, "out_of_bounds", "operand B"),
    ],
)
def test_a_descriptor_that_misses_the_tile(change, kind, words):
    bad = f"{B.descriptor(0) + change:#x}"
    _, result = run(SET_UP, ZERO, FENCE, mma(0, b=bad), COMMIT, WAIT, STORE)
    assert kind in kinds(result) and words in messages(result, kind)


def test_the_accumulator_of_another_warpgroup_is_its_own():
    """Two warpgroups, of which one reads its result while the other's is in flight."""
    second = "setp.lt.u32 %p0, %r0, 128; @!%p0 bra OVER;"
    body = (SET_UP, ZERO, FENCE, BOTH, COMMIT, WAIT, "bar.sync 1, 256;", second, STORE, "OVER:")
    out = np.zeros((256, 4), np.float32)
    image = padded_image([A, B], 256)
    result = run_ptx(
        "\n".join(
            [
                "mov.u32 %r0, %tid.x; mul.wide.u32 %rd9, %r0, 16; add.u64 %rd9, %out, %rd9;",
                fill_shared(image.size, 256),
                *body,
            ]
        ),
        block=256,
        dynamic_shared=image.size,
        module=SHARED,
        image=image,
        out=out,
    )
    assert kinds(result) == []
    assert np.abs(out[:128]).max() > 1 and (out[128:] == 0).all()


@pytest.mark.parametrize(
    "name",
    [
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16",
        "wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16",
        "wgmma.mma_async.sync.aligned.m64n8k16.f16.bf16.bf16",
        "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc",
    ],
)
def test_what_is_missing_is_named(name):
    with pytest.raises(Unsupported, match="wgmma"):
        run_ptx(f"{name} {D}, %rd0, %rd1, 1, 1, 1, 0, 0;")
