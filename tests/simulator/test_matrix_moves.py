"""ldmatrix, stmatrix and movmatrix: who gets which element, bank conflicts, who takes part."""

import numpy as np
import pytest

from checkers.simulator.ptx.modifiers import Unsupported
from tests.simulator.harness import kinds, run_ptx

SHARED = ".extern .shared .align 1024 .b8 smem[];"


def matrices(words):
    """(..., 8, 8) uint16 of what the lanes hold, (..., 32) uint32."""
    return np.ascontiguousarray(words).view(np.uint16).reshape(*words.shape[:-1], 8, 8)


def load_matrices(count, pitch, flags="", space=".shared", rows="%r1"):
    """What ldmatrix gives two warps, (2, count, 8, 8), the memory as (rows, 8) and the result."""
    rng = np.random.default_rng(count)
    memory = rng.integers(0, 1 << 16, (2, 32 * pitch // 2)).astype(np.uint16)
    out = np.zeros((2, count, 32), np.uint32)
    names = "{" + ", ".join(f"%r{10 + i}" for i in range(count)) + "}"
    pieces = 32 * pitch // 16
    body = f"""
    mov.u32 %r0, %warpid; mov.u32 %r1, %laneid; mov.u32 %r2, smem;
    mad.lo.u32 %r2, %r0, {32 * pitch}, %r2;
    mul.wide.u32 %rd0, %r0, {32 * pitch}; add.u64 %rd0, %memory, %rd0;
    mov.u32 %r3, %r1;
    FILL:
    shl.b32 %r4, %r3, 4; cvt.u64.u32 %rd1, %r4; add.u64 %rd1, %rd0, %rd1; add.u32 %r4, %r2, %r4;
    ld.global.v4.b32 {{%r5, %r6, %r7, %r8}}, [%rd1]; st.shared.v4.b32 [%r4], {{%r5, %r6, %r7, %r8}};
    add.u32 %r3, %r3, 32; setp.lt.u32 %p0, %r3, {pieces}; @%p0 bra FILL;
    bar.warp.sync -1;
    mad.lo.u32 %r9, {rows}, {pitch}, %r2;
    cvt.u64.u32 %rd5, %r9; cvta.shared.u64 %rd5, %rd5;
    ldmatrix.sync.aligned.m8n8.x{count}{flags}{space}.b16 {names}, [{"%r9" if space else "%rd5"}];
    mad.lo.u32 %r3, %r0, {32 * count}, %r1; mul.wide.u32 %rd2, %r3, 4; add.u64 %rd2, %out, %rd2;
    """
    body += "".join(f"st.global.b32 [%rd2+{128 * i}], %r{10 + i};\n" for i in range(count))
    result = run_ptx(
        body, block=64, dynamic_shared=64 * pitch, module=SHARED, memory=memory, out=out
    )
    return matrices(out), memory.reshape(2, 32, -1)[:, :, :8], result


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("flags", ["", ".trans"])
@pytest.mark.parametrize("space", [".shared", ""])
def test_ldmatrix_gives_the_rows_that_the_lanes_name(count, flags, space):
    found, rows, result = load_matrices(count, 16, flags, space)
    assert kinds(result) == []
    expected = rows[:, : 8 * count].reshape(2, count, 8, 8)
    assert (found == (expected.swapaxes(-1, -2) if flags else expected)).all()
    assert result.counters["ldmatrix_bytes"] == 2 * count * 128


@pytest.mark.parametrize(("pitch", "passes"), [(16, 1), (32, 2), (128, 8), (144, 1)])
def test_rows_in_the_same_banks_are_counted_as_conflicts(pitch, passes):
    _, _, result = load_matrices(4, pitch)
    assert result.counters["shared_load_wavefronts_needed"] == 2 * 4
    assert result.counters["shared_load_wavefronts"] == 2 * 4 * passes


def test_a_row_that_is_not_aligned_is_reported():
    _, _, result = load_matrices(4, 24)
    assert kinds(result) == ["misaligned"]


STORE = """
    mov.u32 %r1, %laneid; mov.u32 %r2, smem; mad.lo.u32 %r9, %r1, {pitch}, %r2;
    shl.b32 %r3, %r1, 2; cvt.u64.u32 %rd0, %r3; add.u64 %rd1, %words, %rd0; add.u64 %rd2, %out, %rd0;
    {loads}
    stmatrix.sync.aligned.m8n8.x{count}{flags}.shared.b16 [%r9], {names};
    bar.warp.sync -1;
    shl.b32 %r4, %r1, 4; add.u32 %r4, %r2, %r4; mul.wide.u32 %rd3, %r1, 16; add.u64 %rd3, %out, %rd3;
    setp.lt.u32 %p0, %r1, {rows};
    @%p0 ld.shared.v4.b32 {{%r5, %r6, %r7, %r8}}, [%r4];
    @%p0 st.global.v4.b32 [%rd3], {{%r5, %r6, %r7, %r8}};
"""


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("flags", ["", ".trans"])
def test_stmatrix_is_the_inverse_of_ldmatrix(count, flags):
    words = np.random.default_rng(count).integers(0, 1 << 32, (count, 32)).astype(np.uint32)
    out = np.zeros((8 * count, 8), np.uint16)
    body = STORE.format(
        pitch=16,
        count=count,
        flags=flags,
        rows=8 * count,
        loads="".join(f"ld.global.b32 %r{10 + i}, [%rd1+{128 * i}];\n" for i in range(count)),
        names="{" + ", ".join(f"%r{10 + i}" for i in range(count)) + "}",
    )
    result = run_ptx(body, dynamic_shared=512, module=SHARED, words=words, out=out)
    assert kinds(result) == []
    held = matrices(words)
    expected = held.swapaxes(-1, -2) if flags else held
    assert (out.reshape(count, 8, 8) == expected).all()
    assert result.counters["stmatrix_bytes"] == count * 128


def test_movmatrix_transposes():
    words = np.random.default_rng(5).integers(0, 1 << 32, 32).astype(np.uint32)
    out = np.zeros(32, np.uint32)
    body = """
    mov.u32 %r1, %laneid; mul.wide.u32 %rd0, %r1, 4;
    add.u64 %rd1, %words, %rd0; add.u64 %rd2, %out, %rd0; ld.global.b32 %r2, [%rd1];
    movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r2;
    st.global.b32 [%rd2], %r3;
    """
    assert kinds(run_ptx(body, words=words, out=out)) == []
    assert (matrices(out) == matrices(words).T).all()


# --- who takes part ----------------------------------------------------------------------------

PARTLY = """
    mov.u32 %r1, %laneid; mov.b32 %r2, 0; setp.lt.u32 %p0, %r1, {lanes};
    @!%p0 bra SKIP;
    movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r1;
    SKIP: {after}
"""


@pytest.mark.parametrize("after", ["", "bar.sync 0;"])
def test_a_matrix_instruction_wants_the_whole_warp(after):
    result = run_ptx(PARTLY.format(lanes=16, after=after))
    assert "collective" in kinds(result)
    fault = next(f for f in result.faults if f.kind == "collective")
    assert "movmatrix" in fault.message and "16 of them" in fault.message
    assert kinds(run_ptx(PARTLY.format(lanes=32, after=after))) == []


@pytest.mark.parametrize("seed", range(4))
def test_lanes_that_come_one_after_another_meet_at_it(seed):
    body = """
    mov.u32 %r1, %laneid; setp.lt.u32 %p0, %r1, 7; @%p0 bra ON;
    add.u32 %r4, %r1, 0;
    ON: movmatrix.sync.aligned.m8n8.trans.b16 %r3, %r1;
    mul.wide.u32 %rd0, %r1, 4; add.u64 %rd0, %out, %rd0; st.global.b32 [%rd0], %r3;
    """
    out = np.zeros(32, np.uint32)
    assert kinds(run_ptx(body, out=out, schedule=f"random:{seed}")) == []
    assert (matrices(out) == matrices(np.arange(32, dtype=np.uint32)).T).all()


# --- 8-bit forms -------------------------------------------------------------------------------

FILL_8 = """
    mov.u32 %r1, %laneid; mov.u32 %r2, smem; shl.b32 %r3, %r1, 4; cvt.u64.u32 %rd0, %r3;
    add.u64 %rd1, %memory, %rd0; add.u32 %r4, %r2, %r3;
    ld.global.v4.b32 {%r5, %r6, %r7, %r8}, [%rd1]; st.shared.v4.b32 [%r4], {%r5, %r6, %r7, %r8};
    bar.warp.sync -1;
"""


@pytest.mark.parametrize("count", [1, 2])
def test_ldmatrix_of_bytes_transposes(count):
    """A thread gets four columns of two rows (figure 105)."""
    memory = np.random.default_rng(0).integers(0, 256, (32, 16)).astype(np.uint8)
    out = np.zeros((32, 2 * count), np.uint32)
    names = "{" + ", ".join(f"%r{10 + i}" for i in range(2 * count)) + "}"
    body = (
        FILL_8
        + f"""
    ldmatrix.sync.aligned.m16n16.x{count}.trans.shared.b8 {names}, [%r4];
    mul.wide.u32 %rd2, %r1, {8 * count}; add.u64 %rd2, %out, %rd2;
    """
    )
    body += "".join(f"st.global.b32 [%rd2+{4 * i}], %r{10 + i};\n" for i in range(2 * count))
    result = run_ptx(
        body, target="sm_100a", dynamic_shared=512, module=SHARED, memory=memory, out=out
    )
    assert kinds(result) == []
    held = out.view(np.uint8).reshape(32, count, 2, 2, 2)  # register, row half, column
    for m in range(count):
        matrix = memory[16 * m : 16 * m + 16].T  # memory holds its columns
        for lane in range(32):
            g, t = divmod(lane, 4)
            for register, half, column in np.ndindex(2, 2, 2):
                element = matrix[g + 8 * half, 4 * t + 2 * register + column]
                assert held[lane, m, register, half, column] == element


@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix_of_bytes_stores_accumulator_fragments_by_columns(count):
    words = np.random.default_rng(1).integers(0, 1 << 32, (count, 32)).astype(np.uint32)
    out = np.zeros((8 * count, 16), np.uint8)
    body = (
        STORE.format(
            pitch=16,
            count=count,
            flags=".trans",
            rows=8 * count,
            loads="".join(f"ld.global.b32 %r{10 + i}, [%rd1+{128 * i}];\n" for i in range(count)),
            names="{" + ", ".join(f"%r{10 + i}" for i in range(count)) + "}",
        )
        .replace("m8n8", "m16n8")
        .replace(".b16", ".b8")
    )
    result = run_ptx(
        body, target="sm_100a", dynamic_shared=512, module=SHARED, words=words, out=out
    )
    assert kinds(result) == []
    data = words.view(np.uint8).reshape(count, 32, 4)
    for m in range(count):
        for lane in range(32):
            g, t = divmod(lane, 4)
            for i in range(4):
                assert out[8 * m + 2 * t + i % 2, g + 8 * (i // 2)] == data[m, lane, i]


@pytest.mark.parametrize(
    "name",
    [
        "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64 {%r0}, [%r1];",
        "ldmatrix.sync.aligned.m16n16.x1.shared.b8 {%r0, %r1}, [%r2];",
        "stmatrix.sync.aligned.m16n8.x1.shared.b8 [%r0], {%r1};",
    ],
)
def test_what_is_missing_is_named(name):
    with pytest.raises(Unsupported, match="matrix"):
        run_ptx(name, target="sm_100a")
