"""tcgen05 with block scaling, with operands of under 8 bits, with scale-input-d, and tcgen05.cp."""

import numpy as np
import pytest

from checkers.simulator.ptx.modifiers import Unsupported
from tests.simulator.harness import kinds, run_ptx
from tests.simulator.test_matrix import small_float
from tests.simulator.test_tcgen05 import (
    CG1,
    START,
    TARGET,
    THREADS,
    WORDS,
    allocate,
    free,
    idesc,
    out_registers,
    vector,
    wait_for,
)
from tests.simulator.tiles_in_shared import SHARED, Placed, fill_shared, padded_image

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
COLUMNS = 32


def fp4(codes):
    return np.where(codes & 8, -E2M1[codes & 7], E2M1[codes & 7])


def scale_tile(scales):
    """512 bytes: the scale factors (rows, 4) as tcgen05.cp.32x128b wants them, 128 rows at most."""
    tile = np.zeros((32, 4, 4), np.uint8)
    for row, four in enumerate(scales):
        tile[row % 32, row // 32] = four
    return tile.reshape(32, 16)


def run_scaled(kind, vectors, steps, a_rows, b_rows, a_scales, b_scales, descriptors):
    """D (128, 32) and the result. a_rows, b_rows: bytes of K of all steps."""
    tiles, start = [], START
    for rows in (a_rows, b_rows):
        tiles.append(Placed(rows, "128B", False, start))
        start += tiles[-1].bytes
    for scales in (a_scales, b_scales):
        tiles.append(Placed(scale_tile(scales), "none", False, start))
        start += tiles[-1].bytes
    image = padded_image(tiles, THREADS)
    out = np.zeros((THREADS, COLUMNS), np.uint32)
    body = [
        f".reg .b32 %d<{COLUMNS}>, %idesc, %sa, %sb; .reg .b64 %da, %db; .reg .pred %keep;",
        allocate(128),
        fill_shared(image.size, THREADS),
        "fence.proxy.async; bar.sync 0; @!%p11 bra DONE;",
        "add.u32 %sa, %taddr, 64; add.u32 %sb, %taddr, 96;",
    ]
    for register, tile in (("%sa", tiles[2]), ("%sb", tiles[3])):
        body.append(f"mov.b64 %da, {tile.descriptor(0, True):#x};")
        body.append(f"tcgen05.cp.{CG1}.32x128b.warpx4 [{register}], %da;")
    for step in range(steps):
        body += [
            f"mov.b64 %da, {tiles[0].descriptor(32 * step, True):#x};",
            f"mov.b64 %db, {tiles[1].descriptor(32 * step, True):#x};",
            f"mov.b32 %idesc, {descriptors[step]}; setp.ne.u32 %keep, {step}, 0;",
            f"tcgen05.mma.{CG1}.kind::{kind}.block_scale{vectors} [%taddr], %da, %db, %idesc, "
            "[%sa], [%sb], %keep;",
        ]
    body += [
        f"tcgen05.commit.{CG1}.mbarrier::arrive::one.shared::cluster.b64 [bar];",
        "DONE:",
        wait_for(),
        f"tcgen05.ld.sync.aligned.32x32b.x{COLUMNS}.b32 {vector(COLUMNS)}, [%window];",
        "tcgen05.wait::ld.sync.aligned;",
        free(128),
        out_registers(COLUMNS),
    ]
    result = run_ptx(
        "\n".join(body),
        block=THREADS,
        dynamic_shared=image.size,
        module=SHARED + WORDS,
        target=TARGET,
        image=image,
        out=out,
    )
    return out.view(np.float32), result


def scaled_idesc(a_type, b_type, power_of_two, which):
    bits = which << 4 | a_type << 7 | b_type << 10 | COLUMNS >> 3 << 17
    return bits | int(power_of_two) << 23 | 1 << 27 | which << 29


@pytest.mark.parametrize("vectors", ["", ".scale_vec::1X", ".block32"])
def test_eight_bit_operands_with_a_scale_for_32(vectors):
    rng = np.random.default_rng(0)
    a_codes = rng.integers(0, 256, (128, 128)).astype(np.uint8) & 0xBF
    b_codes = rng.integers(0, 256, (COLUMNS, 128)).astype(np.uint8) & 0xBF
    a_scales = rng.integers(124, 130, (128, 4)).astype(np.uint8)
    b_scales = rng.integers(124, 130, (COLUMNS, 4)).astype(np.uint8)
    descriptors = [scaled_idesc(0, 1, True, step) for step in range(4)]
    d, result = run_scaled(
        "mxf8f6f4", vectors, 4, a_codes, b_codes, a_scales, b_scales, descriptors
    )
    assert kinds(result) == []
    a = small_float(a_codes, "e4m3") * np.repeat(2.0 ** (a_scales.astype(int) - 127), 32, axis=1)
    b = small_float(b_codes, "e5m2") * np.repeat(2.0 ** (b_scales.astype(int) - 127), 32, axis=1)
    assert np.abs(a @ b.T).max() > 1
    assert (np.abs(d - a @ b.T) <= 1e-6 * (np.abs(a) @ np.abs(b).T)).all()


@pytest.mark.parametrize(
    ("kind", "vectors", "power_of_two", "each"),
    [
        ("mxf4", "", True, 32),
        ("mxf4", ".scale_vec::2X", True, 32),
        ("mxf4nvf4", ".scale_vec::4X", False, 16),
        ("mxf4nvf4", ".block16", False, 16),
    ],
)
def test_four_bit_operands(kind, vectors, power_of_two, each):
    rng = np.random.default_rng(1)
    steps = 2 if each == 32 else 1  # one word of scale factors: 2 or 4 of them for each step
    a_codes = rng.integers(0, 16, (128, 64 * steps)).astype(np.uint8)
    b_codes = rng.integers(0, 16, (COLUMNS, 64 * steps)).astype(np.uint8)
    low, high = (124, 130) if power_of_two else (40, 90)
    a_scales = rng.integers(low, high, (128, 4)).astype(np.uint8)
    b_scales = rng.integers(low, high, (COLUMNS, 4)).astype(np.uint8)
    packed = [codes[:, ::2] | codes[:, 1::2] << 4 for codes in (a_codes, b_codes)]
    descriptors = [scaled_idesc(1, 1, power_of_two, 2 * step) for step in range(steps)]
    d, result = run_scaled(kind, vectors, steps, *packed, a_scales, b_scales, descriptors)
    assert kinds(result) == []
    factors = [
        2.0 ** (s.astype(int) - 127) if power_of_two else small_float(s, "e4m3")
        for s in (a_scales, b_scales)
    ]
    a, b = (
        fp4(codes) * np.repeat(factor, each, axis=1)
        for codes, factor in zip((a_codes, b_codes), factors, strict=True)
    )
    assert np.abs(a @ b.T).max() > 1
    assert (np.abs(d - a @ b.T) <= 1e-6 * (np.abs(a) @ np.abs(b).T)).all()


def test_the_scale_vector_of_nvf4_has_to_be_named():
    with pytest.raises(Unsupported, match="scale_vec"):
        run_ptx(
            f"tcgen05.mma.{CG1}.kind::mxf4nvf4.block_scale [%r0], %rd0, %rd1, %r1, [%r2], [%r3], 1;",
            target=TARGET,
        )


def run_plain(a_rows, b_rows, bits, steps, kind, extra=""):
    """D (128, 32) and the result of a multiplication without scale factors."""
    tiles = [Placed(a_rows, "128B", False, START)]
    tiles.append(Placed(b_rows, "128B", False, START + tiles[0].bytes))
    image = padded_image(tiles, THREADS)
    out = np.zeros((THREADS, COLUMNS), np.uint32)
    body = [
        f".reg .b32 %d<{COLUMNS}>, %idesc; .reg .b64 %da, %db; .reg .pred %keep;",
        f"mov.b32 %idesc, {bits};",
        allocate(32),
        fill_shared(image.size, THREADS),
        "fence.proxy.async; bar.sync 0; @!%p11 bra DONE;",
    ]
    for step in range(steps):
        k = 32 * step // a_rows.itemsize
        body += [
            f"mov.b64 %da, {tiles[0].descriptor(k, True):#x};",
            f"mov.b64 %db, {tiles[1].descriptor(k, True):#x}; setp.ne.u32 %keep, {step}, 0;",
            f"tcgen05.mma.{CG1}.kind::{kind} [%taddr], %da, %db, %idesc, %keep{extra};",
        ]
    body += [
        f"tcgen05.commit.{CG1}.mbarrier::arrive::one.shared::cluster.b64 [bar];",
        "DONE:",
        wait_for(),
        f"tcgen05.ld.sync.aligned.32x32b.x{COLUMNS}.b32 {vector(COLUMNS)}, [%window];",
        "tcgen05.wait::ld.sync.aligned;",
        free(32),
        out_registers(COLUMNS),
    ]
    result = run_ptx(
        "\n".join(body),
        block=THREADS,
        dynamic_shared=image.size,
        module=SHARED + WORDS,
        target=TARGET,
        image=image,
        out=out,
    )
    return out.view(np.float32), result


def test_four_bit_elements_lie_in_half_of_their_sixteen_bytes():
    """kind::f8f6f4 with e2m1 in shared memory: 8 bytes of 16 elements, 8 bytes of padding."""
    rng = np.random.default_rng(2)
    rows = {}
    for name, count in (("a", 128), ("b", COLUMNS)):
        codes = rng.integers(0, 16, (count, 128)).astype(np.uint8)
        cells = np.full((count, 8, 16), 0xEE, np.uint8)
        cells[..., :8] = (codes[:, ::2] | codes[:, 1::2] << 4).reshape(count, 8, 8)
        rows[name] = codes, cells.reshape(count, 128)
    bits = 1 << 4 | 5 << 7 | 5 << 10 | COLUMNS >> 3 << 17 | 128 >> 4 << 24
    d, result = run_plain(rows["a"][1], rows["b"][1], bits, 4, "f8f6f4")
    assert kinds(result) == []
    assert (d == fp4(rows["a"][0]) @ fp4(rows["b"][0]).T).all()


def test_the_accumulator_may_be_scaled_down_first():
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-8, 9, (rows, 32)).astype(np.float16) for rows in (128, COLUMNS))
    bits = idesc(128, COLUMNS, "f32", "f16", "f16")
    d, result = run_plain(a.view(np.uint16), b.view(np.uint16), bits, 2, "f16", ", 3")
    assert kinds(result) == []
    first, second = (a[:, k : k + 16].astype(float) @ b[:, k : k + 16].T for k in (0, 16))
    assert (d == first / 8 + second).all()


@pytest.mark.parametrize(("shape", "rows", "width"), [("128x128b", 128, 4), ("128x256b", 128, 8)])
def test_a_copy_from_shared_memory(shape, rows, width):
    data = np.random.default_rng(4).integers(0, 256, (rows, 4 * width)).astype(np.uint8)
    tile = Placed(data, "none", False, START)
    image = padded_image([tile], THREADS)
    out = np.zeros((THREADS, width), np.uint32)
    body = f"""
    .reg .b32 %d<{width}>; .reg .b64 %da; {allocate(32)}
    {fill_shared(image.size, THREADS)} fence.proxy.async; bar.sync 0;
    mov.b64 %da, {tile.descriptor(0, True):#x};
    @%p11 tcgen05.cp.{CG1}.{shape} [%taddr], %da;
    @%p11 tcgen05.commit.{CG1}.mbarrier::arrive::one.shared::cluster.b64 [bar];
    {wait_for()}
    tcgen05.ld.sync.aligned.32x32b.x{width}.b32 {vector(width)}, [%window];
    tcgen05.wait::ld.sync.aligned; {free(32)} {out_registers(width)}
    """
    result = run_ptx(
        body,
        block=THREADS,
        dynamic_shared=image.size,
        module=SHARED + WORDS,
        target=TARGET,
        image=image,
        out=out,
    )
    assert kinds(result) == []
    assert (out.view(np.uint8) == data).all()


@pytest.mark.parametrize(
    "name",
    [
        "mma.ws.cta_group::1.kind::f16 [%r0], %rd0, %rd1, %r1, 1;",
        "mma.sp.cta_group::1.kind::f16 [%r0], %rd0, %rd1, [%r2], %r1, 1;",
        "cp.cta_group::1.4x256b [%r0], %rd0;",
        "shift.cta_group::1.down [%r0];",
        "ld.red.sync.aligned.32x32b.x2.max.u32 {%r0, %r1}, %r2, [%r3];",
    ],
)
def test_what_is_missing_is_named(name):
    with pytest.raises(Unsupported, match="tcgen05"):
        run_ptx("tcgen05." + name, target=TARGET)
