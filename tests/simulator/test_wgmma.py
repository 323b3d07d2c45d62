"""wgmma: products against NumPy for every layout, and its register rules, each with a clean twin."""

import numpy as np
import pytest

from tests.simulator.harness import kinds, run_ptx
from tests.simulator.test_matrix import random_codes
from tests.simulator.tiles_in_shared import (
    BASE,
    SHARED,
    Placed,
    fill_shared,
    padded_image,
    registers,
)

BLOCKS, WARPGROUPS, STEPS = 2, 2, 4
THREADS = 128 * WARPGROUPS
DEPTH = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}


def accumulator_of(out, columns, packed):
    """(blocks, warpgroups * 64, columns) of D registers (blocks, threads, registers)."""
    elements = out.reshape(BLOCKS, WARPGROUPS, 4, 8, 4, -1)
    d = np.empty((BLOCKS, WARPGROUPS, 64, columns), out.dtype)
    for i in range(elements.shape[-1]):
        for warp in range(4):
            for g in range(8):
                for t in range(4):
                    row = 16 * warp + g + 8 * (i // 2 % 2)
                    d[:, :, row, 8 * (i // 4) + 2 * t + i % 2] = elements[:, :, warp, g, t, i]
    return d.reshape(BLOCKS, WARPGROUPS * 64, columns)


def a_registers(codes):
    """(blocks, threads, steps * 4) uint32: A (blocks, rows, K) as fragments, step by step."""
    words = np.ascontiguousarray(codes).view(np.uint32)
    words = words.reshape(BLOCKS, WARPGROUPS, 4, 16, STEPS, 8)
    out = np.empty((BLOCKS, WARPGROUPS, 4, 8, 4, STEPS, 4), np.uint32)
    for g in range(8):
        for t in range(4):
            for r in range(4):
                row, word = g + 8 * (r % 2), t + 4 * (r // 2)
                out[..., g, t, :, r] = words[:, :, :, row, :, word]
    return out.reshape(BLOCKS, THREADS, STEPS * 4)


def run_wgmma(columns, d_type, a_type, b_type, a_layout, b_layout, signs=(1, 1), schedule="latest"):
    """(D, A, B, result): STEPS multiplications into one accumulator, two warpgroups a block.

    a_layout, b_layout: (swizzle, mn_major), or "registers" for A.
    """
    rng = np.random.default_rng(columns)
    depth = DEPTH[a_type]
    a_codes, a = random_codes(rng, a_type, (BLOCKS, 64 * WARPGROUPS, depth * STEPS))
    b_codes, b = random_codes(rng, b_type, (BLOCKS, columns, depth * STEPS))
    images, fragments = [], a_registers(a_codes)
    for block in range(BLOCKS):
        tiles, start = [], BASE
        if a_layout != "registers":
            for w in range(WARPGROUPS):
                tiles.append(Placed(a_codes[block, 64 * w : 64 * w + 64], *a_layout, start))
                start += tiles[-1].bytes
        tiles.append(Placed(b_codes[block], *b_layout, start))
        images.append(padded_image(tiles, THREADS))
    count = columns // 2 // (2 if d_type == "f16" else 1)
    out = np.zeros((BLOCKS, THREADS, count), np.uint32)
    body = [
        f".reg .b32 %d<{count}>, %a<{STEPS * 4}>; .reg .b64 %da, %db;",
        fill_shared(images[0].size, THREADS),
        "mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 7;",
        f"mad.lo.u32 %r3, %r0, {THREADS}, %r1; mul.wide.u32 %rd0, %r3, {STEPS * 16};",
        "add.u64 %rd0, %fragments, %rd0; setp.ne.u32 %p1, %r2, 0;",
        *(f"ld.global.b32 %a{i}, [%rd0+{4 * i}];" for i in range(STEPS * 4)),
        "fence.proxy.async.shared::cta; bar.sync 0; wgmma.fence.sync.aligned;",
    ]
    signed = "" if d_type == "s32" else f", {signs[0]}, {signs[1]}"
    transposes = ""
    if a_type in ("f16", "bf16"):
        transposes = f", {int(b_layout[1])}"
        if a_layout != "registers":
            transposes = f", {int(a_layout[1])}" + transposes
    for step in range(STEPS):
        k = step * depth
        left = "{" + ", ".join(f"%a{4 * step + i}" for i in range(4)) + "}"
        if a_layout != "registers":
            one, two = (tiles[w].descriptor(k) for w in range(2))
            body.append(f"mov.b64 %rd1, {one:#x}; mov.b64 %rd2, {two:#x};")
            body.append("selp.b64 %da, %rd2, %rd1, %p1;")
            left = "%da"
        body.append(f"mov.b64 %db, {tiles[-1].descriptor(k):#x};")
        body.append(f"setp.ne.u32 %p0, {step}, 0;")
        body.append(
            f"wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.{d_type}.{a_type}.{b_type} "
            f"{registers('d', count)}, {left}, %db, %p0{signed}{transposes};"
        )
    body += [
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
        f"mul.wide.u32 %rd0, %r3, {4 * count}; add.u64 %rd0, %out, %rd0;",
        *(f"st.global.b32 [%rd0+{4 * i}], %d{i};" for i in range(count)),
    ]
    result = run_ptx(
        "\n".join(body),
        grid=BLOCKS,
        block=THREADS,
        dynamic_shared=images[0].size,
        module=SHARED,
        schedule=schedule,
        image=np.stack(images),
        fragments=fragments,
        out=out,
    )
    dtype = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[d_type]
    elements = out.view(dtype)
    return accumulator_of(elements, columns, d_type == "f16"), a, b, result


def check(d, a, b, tolerance, sign=1):
    exact = sign * (a @ b.swapaxes(1, 2))
    bound = np.abs(a) @ np.abs(b).swapaxes(1, 2)
    assert np.abs(exact).max() > 1
    assert (np.abs(d - exact) <= tolerance * bound).all()


# Relative to the sum of magnitudes: 8-bit operands keep 13 bits of each sum.
CLOSE = dict.fromkeys(("f16", "bf16", "tf32"), 1e-6) | dict.fromkeys(("e4m3", "e5m2"), 2e-3)
CLOSE["s8"] = CLOSE["u8"] = 0

MODES = ("none", "32B", "64B", "128B")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("a_type", ["f16", "tf32", "e4m3"])
def test_k_major_operands_in_every_swizzle(mode, a_type):
    d, a, b, result = run_wgmma(32, "f32", a_type, a_type, (mode, False), (mode, False))
    assert kinds(result) == []
    check(d, a, b, CLOSE[a_type])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("which", ["A", "B", "both"])
def test_mn_major_operands_in_every_swizzle(mode, which):
    layouts = ((mode, which != "B"), (mode, which != "A"))
    d, a, b, result = run_wgmma(64, "f32", "bf16", "bf16", *layouts)
    assert kinds(result) == []
    check(d, a, b, 1e-6)


@pytest.mark.parametrize("a_type", ["f16", "bf16", "tf32", "e4m3", "s8"])
def test_operand_a_from_registers(a_type):
    d_type = "s32" if a_type == "s8" else "f32"
    d, a, b, result = run_wgmma(16, d_type, a_type, a_type, "registers", ("128B", False))
    assert kinds(result) == []
    check(d, a, b, CLOSE[a_type])


@pytest.mark.parametrize(
    ("columns", "d_type", "a_type", "b_type"),
    [
        (8, "f32", "f16", "f16"),
        (256, "f32", "f16", "f16"),
        (72, "f16", "f16", "f16"),
        (128, "f16", "e5m2", "e4m3"),
        (24, "f32", "e4m3", "e5m2"),
        (96, "s32", "u8", "s8"),
    ],
)
def test_widths_and_types(columns, d_type, a_type, b_type):
    d, a, b, result = run_wgmma(columns, d_type, a_type, b_type, ("128B", False), ("64B", False))
    assert kinds(result) == []
    check(d, a, b, 2e-3 if d_type == "f16" else CLOSE[a_type])
    family = {"f16": "f16", "e5m2": "f8", "e4m3": "f8", "u8": "i8"}[a_type]
    flops = 2 * 64 * columns * DEPTH[a_type] * STEPS * BLOCKS * WARPGROUPS
    assert result.counters[f"mma_flops_{family}"] == flops


@pytest.mark.parametrize("signs", [(-1, 1), (1, -1), (-1, -1)])
def test_operands_may_be_negated(signs):
    d, a, b, result = run_wgmma(8, "f32", "f16", "f16", ("128B", False), ("128B", False), signs)
    assert kinds(result) == []
    check(d, a, b, 1e-6, signs[0] * signs[1])


@pytest.mark.parametrize("schedule", ["earliest", "random:1", "random:2"])
def test_the_schedule_changes_nothing_in_a_correct_kernel(schedule):
    layouts = (("128B", False), ("128B", True))
    d, a, b, result = run_wgmma(64, "f32", "f16", "f16", *layouts, schedule=schedule)
    assert kinds(result) == []
    check(d, a, b, 1e-6)
