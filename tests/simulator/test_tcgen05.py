"""tcgen05: tensor memory's layouts, products against NumPy, its rules, each with a clean twin.

No hardware at hand could confirm this family; what is tested is that it does what the manual says.
"""

import numpy as np
import pytest

from tests.simulator.harness import kinds, run_ptx
from tests.simulator.test_matrix import random_codes
from tests.simulator.tiles_in_shared import BASE, SHARED, Placed, fill_shared, padded_image

TARGET = "sm_100a"
BLOCKS, STEPS, THREADS = 2, 4, 128
DEPTH = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}
KIND = {"f16": "f16", "bf16": "f16", "tf32": "tf32", "e4m3": "f8f6f4", "e5m2": "f8f6f4"}
KIND |= {"s8": "i8", "u8": "i8"}
CODE = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "u8": 0, "s8": 1}
D_CODE = {"f16": 0, "f32": 1, "s32": 2}
WORDS = ".shared .align 8 .b64 bar; .shared .align 4 .b32 taddr;"
START = BASE + 1024  # of dynamic shared memory, behind the static variables
CG1, CG2 = "cta_group::1", "cta_group::2"


def idesc(rows, columns, d_type, a_type, b_type, a_mn=False, b_mn=False, negate=(0, 0)):
    """The instruction descriptor's bits."""
    bits = D_CODE[d_type] << 4 | CODE[a_type] << 7 | CODE[b_type] << 10
    bits |= negate[0] << 13 | negate[1] << 14 | int(a_mn) << 15 | int(b_mn) << 16
    return bits | columns >> 3 << 17 | rows >> 4 << 24


def allocate(columns, group=CG1):
    """PTX: warp 0 allocates and publishes %taddr, thread 0 makes the mbarrier ready."""
    return f"""
    mov.u32 %r80, %tid.x; shr.u32 %r81, %r80, 5;
    setp.eq.u32 %p10, %r81, 0; setp.eq.u32 %p11, %r80, 0;
    @%p10 tcgen05.alloc.{group}.sync.aligned.shared::cta.b32 [taddr], {columns};
    @%p10 tcgen05.relinquish_alloc_permit.{group}.sync.aligned;
    @%p11 mbarrier.init.shared::cta.b64 [bar], 1;
    bar.sync 0;
    .reg .b32 %taddr, %window; ld.shared.b32 %taddr, [taddr];
    and.b32 %r82, %r81, 3; shl.b32 %r82, %r82, 21; add.u32 %window, %taddr, %r82;
    """


def free(columns, group=CG1):
    return f"""
    bar.sync 0;
    @%p10 tcgen05.dealloc.{group}.sync.aligned.b32 %taddr, {columns};
    """


def wait_for(parity=0, label="WAIT"):
    return f"""
    {label}: mbarrier.try_wait.parity.shared::cta.b64 %p12, [bar], {parity};
    @!%p12 bra {label};
    tcgen05.fence::after_thread_sync;
    """


def out_registers(count, name="out"):
    """PTX: stores %d0... of each thread to its place in the array."""
    return "\n".join(
        [
            "mov.u32 %r83, %ctaid.x; mov.u32 %r84, %ntid.x;",
            f"mad.lo.u32 %r83, %r83, %r84, %r80; mul.wide.u32 %rd50, %r83, {4 * count};",
            f"add.u64 %rd50, %{name}, %rd50;",
            *(f"st.global.b32 [%rd50+{4 * i}], %d{i};" for i in range(count)),
        ]
    )


def vector(count):
    return "{" + ", ".join(f"%d{i}" for i in range(count)) + "}"


# --- products --------------------------------------------------------------------------------------


def run_mma(
    rows,
    columns,
    d_type,
    a_type,
    b_type,
    a_layout,
    b_layout,
    *,
    extra="",
    negate=(0, 0),
    schedule="latest",
):
    """(D, A, B, result): STEPS multiplications of one block, rows 64 or 128, read by 32x32b.

    a_layout, b_layout: (swizzle, mn_major); "tensor" for A in tensor memory.
    """
    rng = np.random.default_rng(columns)
    depth, kind = DEPTH[a_type], KIND[a_type]
    a_codes, a = random_codes(rng, a_type, (BLOCKS, rows, depth * STEPS))
    b_codes, b = random_codes(rng, b_type, (BLOCKS, columns, depth * STEPS))
    images = []
    for block in range(BLOCKS):
        tiles, start = [], START
        if a_layout != "tensor":
            tiles.append(Placed(a_codes[block], *a_layout, start))
            start += tiles[-1].bytes
        tiles.append(Placed(b_codes[block], *b_layout, start))
        images.append(padded_image(tiles, THREADS))
    a_words = np.ascontiguousarray(a_codes).view(np.uint32)
    out = np.zeros((BLOCKS, THREADS, columns), np.uint32)
    a_mn = a_layout != "tensor" and a_layout[1]
    bits = idesc(rows, columns, d_type, a_type, b_type, a_mn, b_layout[1], negate)
    half = rows == 64
    body = [
        f".reg .b32 %d<{max(columns, 32)}>, %idesc; .reg .b64 %da, %db; .reg .pred %keep;",
        f"mov.b32 %idesc, {bits};",
        allocate(512),
        fill_shared(images[0].size, THREADS),
        "fence.proxy.async.shared::cta;",
    ]
    if a_layout == "tensor":
        # Thread = lane = row; with 64 rows each warp has 16 of them, in its first lanes.
        row = "and.b32 %r85, %r80, 15; shl.b32 %r86, %r81, 4; add.u32 %r85, %r85, %r86;"
        body += [
            row if half else "mov.u32 %r85, %r80;",
            f"mov.u32 %r86, %ctaid.x; mad.lo.u32 %r85, %r86, {rows}, %r85;",
            "mul.wide.u32 %rd51, %r85, 128; add.u64 %rd51, %words, %rd51;",
            *(f"ld.global.b32 %d{i}, [%rd51+{4 * i}];" for i in range(32)),
            "add.u32 %r87, %window, 256;",
            f"tcgen05.st.sync.aligned.32x32b.x32.b32 [%r87], {vector(32)};",
            "tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync;",
        ]
    body.append("bar.sync 0; tcgen05.fence::after_thread_sync; @!%p11 bra DONE;")
    for step in range(STEPS):
        left = f"[%taddr+{256 + 8 * step}]"
        if a_layout != "tensor":
            left = "%da"
            body.append(f"mov.b64 %da, {tiles[0].descriptor(step * depth, True):#x};")
        body += [
            f"mov.b64 %db, {tiles[-1].descriptor(step * depth, True):#x};",
            f"setp.ne.u32 %keep, {step}, 0;",
            f"tcgen05.mma.{CG1}.kind::{kind} [%taddr], {left}, %db, %idesc, {extra}%keep;",
        ]
    body += [
        f"tcgen05.commit.{CG1}.mbarrier::arrive::one.shared::cluster.b64 [bar];",
        "DONE:",
        wait_for(),
    ]
    for first in range(0, columns, 8):
        part = "{" + ", ".join(f"%d{first + i}" for i in range(8)) + "}"
        body.append(f"tcgen05.ld.sync.aligned.32x32b.x8.b32 {part}, [%window+{first}];")
    body += ["tcgen05.wait::ld.sync.aligned; tcgen05.fence::before_thread_sync;", free(512)]
    body.append(out_registers(columns))
    result = run_ptx(
        "\n".join(body),
        grid=BLOCKS,
        block=THREADS,
        dynamic_shared=images[0].size,
        module=SHARED + WORDS,
        target=TARGET,
        schedule=schedule,
        image=np.stack(images),
        words=a_words,
        out=out,
    )
    if half:
        out = out.reshape(BLOCKS, 4, 32, columns)[:, :, :16].reshape(BLOCKS, 64, columns)
    if d_type == "f16":
        return out.astype(np.uint16).view(np.float16), a, b, result
    return out.view({"f32": np.float32, "s32": np.int32}[d_type]), a, b, result


def check(d, a, b, tolerance=1e-6, sign=1):
    exact = sign * (a @ b.swapaxes(1, 2))
    bound = np.abs(a) @ np.abs(b).swapaxes(1, 2)
    assert np.abs(exact).max() > 1
    assert (np.abs(d - exact) <= tolerance * bound).all()


MODES = ("none", "32B", "64B", "128B")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("a_type", ["f16", "tf32", "e4m3"])
def test_k_major_operands_in_every_swizzle(mode, a_type):
    d, a, b, result = run_mma(128, 32, "f32", a_type, a_type, (mode, False), (mode, False))
    assert kinds(result) == []
    check(d, a, b)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("a_type", ["bf16", "e5m2"])
def test_mn_major_operands_in_every_swizzle(mode, a_type):
    d, a, b, result = run_mma(128, 128, "f32", a_type, a_type, (mode, True), (mode, True))
    assert kinds(result) == []
    check(d, a, b)


def test_mn_major_tf32_has_a_swizzle_of_its_own():
    layout = ("128B-32B-atom", True)
    d, a, b, result = run_mma(128, 32, "f32", "tf32", "tf32", layout, layout)
    assert kinds(result) == []
    check(d, a, b)
    result = run_mma(128, 32, "f32", "tf32", "tf32", ("128B", True), layout)[3]
    assert kinds(result) == ["descriptor"]


@pytest.mark.parametrize("rows", [64, 128])
@pytest.mark.parametrize("a_type", ["f16", "tf32", "e4m3", "s8"])
def test_operand_a_from_tensor_memory(rows, a_type):
    d_type = "s32" if a_type == "s8" else "f32"
    d, a, b, result = run_mma(rows, 48, d_type, a_type, a_type, "tensor", ("128B", False))
    assert kinds(result) == []
    check(d, a, b, 0 if d_type == "s32" else 1e-6)


@pytest.mark.parametrize(
    ("rows", "columns", "d_type", "a_type", "b_type"),
    [
        (128, 256, "f32", "f16", "f16"),
        (64, 8, "f32", "bf16", "bf16"),
        (64, 64, "f16", "f16", "f16"),
        (128, 16, "f16", "e5m2", "e4m3"),
        (128, 64, "s32", "u8", "s8"),
    ],
)
def test_shapes_and_types(rows, columns, d_type, a_type, b_type):
    layout = ("128B", False)
    d, a, b, result = run_mma(rows, columns, d_type, a_type, b_type, layout, layout)
    assert kinds(result) == []
    check(d, a, b, {"f32": 1e-6, "f16": 2e-3, "s32": 0}[d_type])
    assert result.counters["tcgen05_instructions"] == STEPS * BLOCKS


def test_negated_operands_and_lanes_left_out():
    layout = ("128B", False)
    d, a, b, result = run_mma(128, 8, "f32", "f16", "f16", layout, layout, negate=(1, 0))
    assert kinds(result) == []
    check(d, a, b, sign=-1)
    off = "{0, -1, 0, 1}, "
    d, a, b, result = run_mma(128, 8, "f32", "f16", "f16", layout, layout, extra=off)
    left_out = np.r_[32:64, 96]
    assert (d.view(np.uint32)[:, left_out] == 0xFFFFFFFF).all()
    kept = np.setdiff1d(np.arange(128), left_out)
    check(d[:, kept], a[:, kept], b)


@pytest.mark.parametrize("schedule", ["earliest", "random:1", "random:2"])
def test_the_schedule_changes_nothing_in_a_correct_kernel(schedule):
    layout = ("128B", False)
    d, a, b, result = run_mma(128, 32, "f32", "f16", "f16", layout, layout, schedule=schedule)
    assert kinds(result) == []
    check(d, a, b)


# --- a pair of blocks ------------------------------------------------------------------------------


def run_pair(rows, columns, a_layout):
    """(D, A, B, result) of one pair: each block holds half of A's rows and half of B's columns."""
    rng = np.random.default_rng(rows)
    a_codes, a = random_codes(rng, "bf16", (rows, 64))
    b_codes, b = random_codes(rng, "bf16", (columns, 64))
    half, images = rows // 2, []
    wide = columns if rows == 256 else columns // 2  # columns of tensor memory
    a_mn = a_layout != "tensor" and a_layout[1]
    for block in range(2):
        tiles, start = [], START
        if a_layout != "tensor":
            tiles.append(Placed(a_codes[half * block : half * block + half], *a_layout, start))
            start += tiles[-1].bytes
        part = b_codes[columns // 2 * block : columns // 2 * (block + 1)]
        tiles.append(Placed(part, "128B", False, start))
        images.append(padded_image(tiles, THREADS))
    out = np.zeros((2, THREADS, wide), np.uint32)
    words = np.ascontiguousarray(a_codes).view(np.uint32)
    body = [
        f".reg .b32 %d<{max(columns, 32)}>, %idesc; .reg .b64 %da, %db; .reg .pred %keep;",
        f"mov.b32 %idesc, {idesc(rows, columns, 'f32', 'bf16', 'bf16', a_mn)};",
        allocate(512, CG2),
        fill_shared(images[0].size, THREADS),
        "fence.proxy.async.shared::cta; mov.u32 %r70, %cluster_ctarank;",
    ]
    if a_layout == "tensor":
        # M = 128: 64 rows a block, in lanes 0 to 63 and again in 64 to 127.
        body += [
            f"and.b32 %r85, %r80, {half - 1}; mad.lo.u32 %r85, %r70, {half}, %r85;",
            "mul.wide.u32 %rd51, %r85, 128; add.u64 %rd51, %words, %rd51;",
            *(f"ld.global.b32 %d{i}, [%rd51+{4 * i}];" for i in range(32)),
            "add.u32 %r87, %window, 256;",
            f"tcgen05.st.sync.aligned.32x32b.x32.b32 [%r87], {vector(32)};",
            "tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync;",
        ]
    body.append(
        "fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; "
        "barrier.cluster.wait.aligned; tcgen05.fence::after_thread_sync;"
        "setp.eq.and.u32 %p11, %r70, 0, %p11; @!%p11 bra DONE;"
    )
    for step in range(STEPS):
        left = f"[%taddr+{256 + 8 * step}]"
        if a_layout != "tensor":
            left = "%da"
            body.append(f"mov.b64 %da, {tiles[0].descriptor(step * 16, True):#x};")
        body += [
            f"mov.b64 %db, {tiles[-1].descriptor(step * 16, True):#x};",
            f"setp.ne.u32 %keep, {step}, 0;",
            f"tcgen05.mma.{CG2}.kind::f16 [%taddr], {left}, %db, %idesc, %keep;",
        ]
    body += [
        f"mov.b16 %h0, 3; tcgen05.commit.{CG2}.mbarrier::arrive::one.shared::cluster"
        ".multicast::cluster.b64 [bar], %h0;",
        "DONE:",
        wait_for(),
    ]
    for first in range(0, wide, 8):
        part = "{" + ", ".join(f"%d{first + i}" for i in range(8)) + "}"
        body.append(f"tcgen05.ld.sync.aligned.32x32b.x8.b32 {part}, [%window+{first}];")
    body += [
        "tcgen05.wait::ld.sync.aligned; tcgen05.fence::before_thread_sync;",
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        free(512, CG2),
        out_registers(wide),
    ]
    result = run_ptx(
        "\n".join(body),
        grid=2,
        cluster=2,
        block=THREADS,
        dynamic_shared=images[0].size,
        module=SHARED + WORDS,
        target=TARGET,
        image=np.stack(images),
        words=words,
        out=out,
    )
    d = out.view(np.float32)
    if rows == 128:  # lanes 64 to 127 have the right half of the columns
        d = d.reshape(2, 2, 64, wide)
        d = np.concatenate([d[:, 0], d[:, 1]], axis=-1)
    return d.reshape(rows, columns), a, b, result


@pytest.mark.parametrize("rows", [128, 256])
@pytest.mark.parametrize("a_layout", [("128B", False), ("64B", True), "tensor"], ids=str)
def test_a_pair_of_blocks_multiplies_together(rows, a_layout):
    d, a, b, result = run_pair(rows, 64, a_layout)
    assert kinds(result) == []
    check(d[None], a[None], b[None])


# --- loads and stores ------------------------------------------------------------------------------


def cells_of(shape, lane, register, split):
    """(row, column) of a register by the figures 183 to 187, told bit by bit."""
    quad, pair = lane >> 2, lane & 3
    if shape == "32x32b":
        return lane, register
    if shape == "16x32bx2":
        return lane & 15, register + split * (lane >> 4)
    if shape == "16x64b":
        return quad + 8 * (lane & 1), (lane >> 1 & 1) + 2 * register
    if shape == "16x128b":
        return quad + 8 * (register & 1), pair + 4 * (register >> 1)
    return quad + 8 * (register >> 1 & 1), 2 * pair + (register & 1) + 8 * (register >> 2)


EACH = {"32x32b": 1, "16x32bx2": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4}


@pytest.mark.parametrize("shape", EACH)
@pytest.mark.parametrize("repeat", [1, 4, 16])
def test_loads_see_the_cells_of_their_shape(shape, repeat):
    count = EACH[shape] * repeat
    split = repeat + 2 if shape == "16x32bx2" else 0
    immediate = f", {split}" if split else ""
    width, first = 128, 0 if repeat == 16 else 3
    out = np.zeros((THREADS, count), np.uint32)
    body = [
        f".reg .b32 %d<{max(width, count)}>; {allocate(128)}",
        # Each cell holds lane << 16 | column.
        *(f"shl.b32 %d{i}, %r80, 16; or.b32 %d{i}, %d{i}, {i};" for i in range(width)),
        f"tcgen05.st.sync.aligned.32x32b.x{width}.b32 [%window], {vector(width)};",
        "tcgen05.wait::st.sync.aligned;",
        f"tcgen05.ld.sync.aligned.{shape}.x{repeat}.b32 {vector(count)}, [%window+{first}]{immediate};",
        "tcgen05.wait::ld.sync.aligned;",
        free(128),
        out_registers(count),
    ]
    result = run_ptx("\n".join(body), block=THREADS, module=SHARED + WORDS, target=TARGET, out=out)
    assert kinds(result) == []
    for thread in range(THREADS):
        for register in range(count):
            row, column = cells_of(shape, thread % 32, register, split)
            expected = (thread // 32 * 32 + row) << 16 | column + first
            assert out[thread, register] == expected


@pytest.mark.parametrize("shape", EACH)
@pytest.mark.parametrize("packed", [False, True])
def test_a_store_is_undone_by_the_load_of_its_shape(shape, packed):
    repeat = 2
    count = EACH[shape] * repeat
    load, store = (".pack::16b", ".unpack::16b") if packed else ("", "")
    split = ", 8" if shape == "16x32bx2" else ""
    out = np.zeros((THREADS, 8), np.uint32)
    body = [
        f".reg .b32 %d<32>; {allocate(64)}",
        *(f"mad.lo.u32 %d{i}, %r80, 65537, {i << 20 | i};" for i in range(32)),
        # The other half of the lanes, for shapes of 16, is left as it is.
        f"tcgen05.st.sync.aligned.{shape}.x{repeat}{store}.b32 [%window]{split}, {vector(count)};",
        "tcgen05.wait::st.sync.aligned;",
        *(f"mov.b32 %d{i}, 0;" for i in range(count)),
        f"tcgen05.ld.sync.aligned.{shape}.x{repeat}{load}.b32 {vector(count)}, [%window]{split};",
        "tcgen05.wait::ld.sync.aligned;",
        free(64),
        out_registers(8),
    ]
    result = run_ptx("\n".join(body), block=THREADS, module=SHARED + WORDS, target=TARGET, out=out)
    assert kinds(result) == []
    thread, i = np.arange(THREADS)[:, None], np.arange(count)
    assert (out[:, :count] == thread * 65537 + (i << 20 | i)).all()


def test_packing_takes_the_low_halves_of_two_columns():
    out = np.zeros((THREADS, 2), np.uint32)
    body = f"""
    .reg .b32 %d<32>; {allocate(32)}
    mov.b32 %d0, 0x11110001; mov.b32 %d1, 0x22220002; mov.b32 %d2, 0x33330003;
    mov.b32 %d3, 0x44440004;
    tcgen05.st.sync.aligned.32x32b.x4.b32 [%window], {vector(4)};
    tcgen05.wait::st.sync.aligned;
    tcgen05.ld.sync.aligned.32x32b.x2.pack::16b.b32 {vector(2)}, [%window];
    tcgen05.wait::ld.sync.aligned; {free(32)} {out_registers(2)}
    """
    result = run_ptx(body, block=THREADS, module=SHARED + WORDS, target=TARGET, out=out)
    assert kinds(result) == []
    assert (out == [0x00020001, 0x00040003]).all()
