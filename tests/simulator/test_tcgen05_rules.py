"""What tcgen05 demands: allocation, lane windows, waits, fences; each rule broken, and kept."""

import numpy as np
import pytest

from tests.simulator.harness import kinds, run_ptx
from tests.simulator.test_matrix import random_codes
from tests.simulator.test_tcgen05 import (
    CG1,
    START,
    TARGET,
    WORDS,
    allocate,
    free,
    idesc,
    out_registers,
    vector,
    wait_for,
)
from tests.simulator.tiles_in_shared import SHARED, Placed, fill_shared, padded_image

rng = np.random.default_rng(0)
A_CODES, A_VALUES = random_codes(rng, "f16", (128, 64))
B_CODES, B_VALUES = random_codes(rng, "f16", (8, 64))
A = Placed(A_CODES, "128B", False, START)
B = Placed(B_CODES, "128B", False, START + A.bytes)
IMAGE = padded_image([A, B], 128)
PRODUCT = A_VALUES @ B_VALUES.T

ALLOCATE = allocate(64)
FREE = free(64)
FILL = fill_shared(IMAGE.size, 128) + "fence.proxy.async; bar.sync 0;"
AFTER = "tcgen05.fence::after_thread_sync;"
BEFORE = "tcgen05.fence::before_thread_sync;"
COMMIT = f"@%p11 tcgen05.commit.{CG1}.mbarrier::arrive::one.shared::cluster.b64 [bar];"
WAIT = wait_for()
LD = f"tcgen05.ld.sync.aligned.32x32b.x8.b32 {vector(8)}, [%window];"
WAIT_LD = "tcgen05.wait::ld.sync.aligned;"
ST = f"tcgen05.st.sync.aligned.32x32b.x8.b32 [%window], {vector(8)};"
WAIT_ST = "tcgen05.wait::st.sync.aligned;"
OUT = out_registers(8)


def mma(step=0, keep=None, guard="@%p11", bits=None, d="%taddr", b=None, a=None):
    bits = idesc(128, 8, "f32", "f16", "f16") if bits is None else bits
    left = f"{A.descriptor(16 * step, True):#x}" if a is None else a
    right = f"{B.descriptor(16 * step, True):#x}" if b is None else b
    keep = int(step > 0) if keep is None else keep
    return (
        f"mov.b32 %idesc, {bits}; setp.ne.u32 %p9, {keep}, 0; mov.b64 %db, {right};"
        + (f"mov.b64 %da, {left};" if a is None else "")
        + f"{guard} tcgen05.mma.{CG1}.kind::f16 [{d}], {'%da' if a is None else a}, %db, %idesc, %p9;"
    )


MMA = "".join(mma(step) for step in range(4))


def run(*parts, **launch):
    """D (128, 8) as stored, and the result."""
    out = np.full((128, 8), 7, np.uint32)
    declared = ".reg .b32 %d<64>, %idesc; .reg .b64 %da, %db; mov.b32 %d0, 0;"
    body = "\n".join((declared, *(f"mov.b32 %d{i}, {i};" for i in range(1, 64)), *parts))
    result = run_ptx(
        body,
        block=launch.pop("block", 128),
        dynamic_shared=IMAGE.size,
        module=SHARED + WORDS,
        target=TARGET,
        image=IMAGE,
        out=out,
        **launch,
    )
    return out.view(np.float32), result


def messages(result, kind="tensor_memory"):
    return " ".join(f.message for f in result.faults if f.kind == kind)


GOOD = (ALLOCATE, FILL, AFTER, MMA, COMMIT, WAIT, LD, WAIT_LD, BEFORE, FREE, OUT)


def without(*missing):
    return [part for part in GOOD if part not in missing]


def test_the_whole_sequence_is_clean():
    d, result = run(*GOOD)
    assert [f.message for f in result.faults] == []
    assert np.allclose(d, PRODUCT, rtol=1e-5, atol=1e-4)


# --- allocation ----------------------------------------------------------------------------------


def test_memory_that_is_not_freed():
    _, result = run(*without(FREE))
    assert kinds(result) == ["tensor_memory"]
    assert "ends without tcgen05.dealloc: 64 columns" in messages(result)


def test_more_or_other_columns_are_freed_than_were_allocated():
    _, result = run(*without(FREE, OUT), free(32))
    assert "dealloc of 32 columns, but 64 were allocated" in messages(result)
    _, result = run(*without(OUT), FREE)
    assert "where no allocation begins" in messages(result)
    other = "bar.sync 0; add.u32 %taddr, %taddr, 32;"
    _, result = run(*without(FREE, OUT), other, free(32))
    assert "dealloc of column 32, where no allocation begins" in messages(result)


def more(columns):
    return f"@%p10 tcgen05.alloc.{CG1}.sync.aligned.shared::cta.b32 [taddr], {columns};"


def give(columns, first=0):
    return f"@%p10 tcgen05.dealloc.{CG1}.sync.aligned.b32 {first}, {columns};"


START_UP = (
    "mov.u32 %r80, %tid.x; shr.u32 %r81, %r80, 5; setp.eq.u32 %p10, %r81, 0;"
    "setp.eq.u32 %p11, %r80, 0;"
)


@pytest.mark.parametrize("columns", [0, 16, 48, 1024])
def test_sizes_are_powers_of_two(columns):
    _, result = run(START_UP, more(columns))
    assert kinds(result) == ["tensor_memory"]
    assert f"asks for {columns} columns" in messages(result)


def test_allocations_may_not_grow():
    _, result = run(START_UP, more(32), more(64), give(32), give(64, 32))
    assert kinds(result) == ["tensor_memory"] and "may not grow" in messages(result)
    _, result = run(START_UP, more(64), more(32), give(64), give(32, 64))
    assert kinds(result) == []


def test_no_allocation_after_the_right_to_is_given_away():
    leave = f"@%p10 tcgen05.relinquish_alloc_permit.{CG1}.sync.aligned;"
    _, result = run(START_UP, more(32), leave, more(32), give(32), give(32, 32))
    assert kinds(result) == ["tensor_memory"]
    assert "after tcgen05.relinquish_alloc_permit" in messages(result)


def test_a_full_memory_makes_wait_until_somebody_frees():
    _, result = run(START_UP, more(512), more(32), give(512))
    assert "deadlock" in kinds(result)
    assert "waits for 32 free columns" in str([f.details for f in result.faults])
    swap = """
    setp.eq.u32 %p13, %r81, 1;
    @%p10 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [taddr], 512;
    bar.sync 0;
    @%p13 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [taddr], 32;
    @%p13 bra OVER;
    @%p10 tcgen05.dealloc.cta_group::1.sync.aligned.b32 0, 512;
    OVER: @%p13 tcgen05.dealloc.cta_group::1.sync.aligned.b32 0, 32;
    """
    _, result = run(START_UP, swap)
    assert kinds(result) == []


def test_all_instructions_have_one_cta_group():
    _, result = run(START_UP, more(32), give(32).replace(CG1, "cta_group::2"))
    assert kinds(result) == ["tensor_memory"] and "all have to say the same" in messages(result)


def test_a_whole_warp_allocates():
    _, result = run(START_UP, more(32).replace("%p10", "%p11"), give(32))
    assert "collective" in kinds(result)


def test_memory_in_use_is_not_freed():
    early = give(64).replace(" 0,", " %taddr,")
    _, result = run(ALLOCATE, FILL, AFTER, MMA, COMMIT, early, WAIT)
    assert "dealloc while tcgen05.mma may still use" in messages(result)
    _, result = run(ALLOCATE, FILL, AFTER, MMA, COMMIT, WAIT, "bar.sync 0;", early)
    assert kinds(result) == []


# --- where -----------------------------------------------------------------------------------------


def test_columns_that_are_not_allocated():
    far = LD.replace("[%window]", "[%window+60]")
    _, result = run(*(far if part == LD else part for part in GOOD))
    assert "uses column 64 of tensor memory, but 0 to 63 are allocated" in messages(result)
    _, result = run(*(far.replace("60", "-1") if part == LD else part for part in GOOD))
    assert "tensor_memory" in kinds(result)


def test_each_warp_has_its_own_lanes():
    _, result = run(*(LD.replace("%window", "%taddr") if part == LD else part for part in GOOD))
    assert kinds(result) == ["tensor_memory"]
    assert "may touch only 32 to 63" in messages(result)


def test_memory_that_nobody_has_written():
    _, result = run(ALLOCATE, LD, WAIT_LD, FREE)
    assert kinds(result) == ["uninitialised"]
    _, result = run(ALLOCATE, ST, WAIT_ST, LD, WAIT_LD, FREE)
    assert kinds(result) == []
    keep = "".join(mma(step, keep=1) for step in range(4))
    _, result = run(*(keep if part == MMA else part for part in GOOD))
    assert kinds(result) == ["uninitialised"]


def test_the_threads_of_a_warp_give_one_address():
    own = "add.u32 %window, %window, %r80;"
    _, result = run(*(own + LD if part == LD else part for part in GOOD))
    assert "collective" in kinds(result)


# --- when ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", ["latest", "earliest", "random:3"])
def test_the_result_is_read_only_after_the_commit_was_waited_for(schedule):
    _, result = run(*without(WAIT), schedule=schedule)
    assert "read by tcgen05.ld before a wait for the mbarrier" in messages(result)
    assert "exit_in_flight" in kinds(result) or schedule != "latest"


def test_a_commit_that_is_missing_is_a_hang():
    _, result = run(*without(COMMIT))
    (fault,) = [fault for fault in result.faults if fault.kind == "deadlock"]
    line = next(i.line for i in result.kernel.instructions if "mma" in i.modifiers)
    told = "\n".join(fault.details["waiting"])
    assert f"the tcgen05.mma of PTX line {line} " in told
    assert "(thread 0) was never committed to an mbarrier (tcgen05.commit)" in told


def test_a_commit_to_another_barrier_is_not_called_missing():
    other = COMMIT.replace("[bar]", "[spare]")
    init = "@%p11 mbarrier.init.shared.b64 [spare], 1;"
    parts = [init + other if part == COMMIT else part for part in GOOD]
    _, result = run(".shared .align 8 .b64 spare;", *parts)
    assert "deadlock" in kinds(result)
    assert "was never committed" not in str([fault.details for fault in result.faults])


def test_a_store_is_waited_for_before_the_cells_are_read():
    _, result = run(ALLOCATE, ST, LD, WAIT_LD, WAIT_ST, FREE)
    assert kinds(result) == ["tensor_memory"]
    assert "with no tcgen05.wait::st after the tcgen05.st" in messages(result)


A_IN = mma(0, a="[%taddr+32]", keep=0)
ST_A = f"add.u32 %r70, %window, 32; {ST.replace('%window', '%r70')}"


@pytest.mark.parametrize("missing", ["wait", "barrier"])
def test_operand_a_in_tensor_memory_is_stored_completely(missing):
    parts = [
        ALLOCATE,
        FILL,
        ST_A,
        WAIT_ST,
        BEFORE + "bar.sync 0;" + AFTER,
        A_IN,
        COMMIT,
        WAIT,
        FREE,
    ]
    _, result = run(*parts)
    assert kinds(result) == []
    left_out = WAIT_ST if missing == "wait" else parts[4]
    _, result = run(*(part for part in parts if part != left_out))
    assert kinds(result) == ["tensor_memory"]
    assert "read by tcgen05.mma with no tcgen05.wait::st" in messages(result)


def test_what_is_still_loaded_is_not_overwritten():
    again = mma(0, keep=0) + COMMIT + wait_for(1, "AGAIN")
    meet = BEFORE + "bar.sync 0;" + AFTER
    parts = [ALLOCATE, FILL, AFTER, MMA, COMMIT, WAIT, LD, WAIT_LD, meet, again, FREE]
    _, result = run(*parts)
    assert kinds(result) == []
    _, result = run(*(part for part in parts if part != WAIT_LD), WAIT_LD)
    assert kinds(result) == ["tensor_memory"]
    assert "overwritten by tcgen05.mma with no tcgen05.wait::ld" in messages(result)


def test_accumulations_of_another_shape_wait_for_each_other():
    wide = mma(0, keep=0, d="%taddr+4")
    _, result = run(ALLOCATE, FILL, AFTER, MMA, wide, COMMIT, WAIT, FREE)
    assert kinds(result) == ["tensor_memory"]
    assert "only accumulations of one shape" in messages(result)


def test_a_fence_after_the_wait_is_noted_where_fences_are_used():
    bare = WAIT.replace(AFTER, "")
    _, result = run(*(bare if part == WAIT else part for part in GOOD))
    assert kinds(result) == [] and "fence::after_thread_sync" in messages(result)


def test_shared_memory_is_fenced_and_left_alone():
    _, result = run(*(p.replace("fence.proxy.async;", "") for p in GOOD))
    assert kinds(result) == ["proxy_fence"]
    change = "mov.u32 %r70, smem; @%p11 st.shared.b32 [%r70], %r80;"
    _, result = run(*(part + change if part == COMMIT else part for part in GOOD))
    assert "overwritten_in_flight" in kinds(result)
    _, result = run(*(part + change if part == WAIT else part for part in GOOD))
    assert kinds(result) == []


# --- who -------------------------------------------------------------------------------------------


def test_one_thread_issues_a_multiplication():
    _, result = run(*(MMA.replace("%p11", "%p10") if part == MMA else part for part in GOOD))
    assert "collective" in kinds(result)
    assert "executed by 32 threads" in messages(result, "collective")


def test_a_commit_by_others_tracks_nothing():
    _, result = run(*(COMMIT.replace("%p11", "%p10") if part == COMMIT else part for part in GOOD))
    assert "has issued nothing" in messages(result)
    assert {"mbarrier", "phase"} & set(kinds(result))  # 32 arrivals where one was expected


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (idesc(96, 8, "f32", "f16", "f16"), "M = 96"),
        (idesc(128, 8, "f32", "f16", "f16") | 1 << 22, "N = 264"),
        (idesc(128, 8, "s32", "f16", "f16"), "accumulator is s32"),
        (idesc(128, 8, "f32", "tf32", "tf32"), "operand types"),
        (idesc(128, 8, "f32", "f16", "f16") | 4, "sparse"),
    ],
)
def test_an_instruction_descriptor_that_cannot_be(bits, words):
    _, result = run(*(mma(0, bits=bits) if part == MMA else part for part in GOOD))
    assert "descriptor" in kinds(result) and words in messages(result, "descriptor")


def test_a_descriptor_of_hopper():
    hopper = f"{B.descriptor(0):#x}"
    _, result = run(*(mma(0, b=hopper) if part == MMA else part for part in GOOD))
    assert "descriptor" in kinds(result) and "as in a descriptor of wgmma" in messages(
        result, "descriptor"
    )


def test_a_load_whose_registers_were_used_is_over_but_for_the_letter():
    use = "add.u32 %d9, %d0, 1;"
    parts = [ALLOCATE, ST, WAIT_ST, LD, use, ST, WAIT_ST, WAIT_LD, FREE]
    _, result = run(*parts)
    assert kinds(result) == []
    assert "only the use of its registers" in messages(result)
    _, result = run(*(part for part in parts if part != use))
    assert kinds(result) == ["tensor_memory"]


def test_who_waits_for_a_commit_knows_what_its_thread_knew():
    """Warp 0 knows of warp 1's store from a barrier, warp 2 only from the commit after it."""
    first = "setp.eq.u32 %p13, %r80, 32; mov.u32 %r70, smem; @%p13 st.shared.b32 [%r70+17408], 5;"
    meet = "setp.lt.u32 %p14, %r80, 64; @%p14 bar.sync 2, 64;"
    read = "setp.eq.u32 %p15, %r80, 64; @%p15 ld.shared.b32 %r71, [%r70+17408];"
    parts = [ALLOCATE, FILL, AFTER, first, meet, MMA, COMMIT, WAIT, read, "bar.sync 0;", FREE]
    _, result = run(*parts)
    assert kinds(result) == []
    _, result = run(*(part for part in parts if part != meet))
    assert kinds(result) == ["race"]
