"""mma.sync, ldmatrix, stmatrix and movmatrix, against NumPy and the manual's element formulas."""

import numpy as np
import pytest

from checkers.simulator.ptx.modifiers import Unsupported
from tests.simulator.harness import kinds, run_ptx

STEPS = 4  # along K: an accumulation that is lost or done twice shows
BLOCKS, WARPS = 2, 2

# The manual's formulas (9.7.14.5.6 to .10): element i of lane (g, t) = (lane / 4, lane % 4), to
# (row, column) of A, (row = k, column) of B, (row, column) of C.
A_PLACES = {
    ("f16", 16): lambda g, t, i: (g + 8 * (i // 2 % 2), 2 * t + i % 2 + 8 * (i >= 4)),
    ("f16", 8): lambda g, t, i: (g + 8 * (i >= 2), 2 * t + i % 2),
    ("tf32", 8): lambda g, t, i: (g + 8 * (i % 2), t + 4 * (i >= 2)),
    ("tf32", 4): lambda g, t, i: (g + 8 * (i % 2), t),
    ("s8", 32): lambda g, t, i: (g + 8 * (i // 4 % 2), 4 * t + i % 4 + 16 * (i >= 8)),
    ("s8", 16): lambda g, t, i: (g + 8 * (i >= 4), 4 * t + i % 4),
    ("f64", 16): lambda g, t, i: (g + 8 * (i % 2), t + 4 * (i // 2)),
}
B_PLACES = {
    ("f16", 16): lambda g, t, i: (2 * t + i % 2 + 8 * (i >= 2), g),
    ("f16", 8): lambda g, t, i: (2 * t + i, g),
    ("tf32", 8): lambda g, t, i: (t + 4 * i, g),
    ("tf32", 4): lambda g, t, i: (t, g),
    ("s8", 32): lambda g, t, i: (4 * t + i % 4 + 16 * (i >= 4), g),
    ("s8", 16): lambda g, t, i: (4 * t + i, g),
    ("f64", 16): lambda g, t, i: (t + 4 * i, g),
}
ALIKE = {"bf16": "f16", "u8": "s8", "e4m3": "s8", "e5m2": "s8"}
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8}


def random_codes(rng, kind, shape):
    """(codes as unsigned integers, their values as float64): values of modest size."""
    if kind in ("s8", "u8"):
        codes = rng.integers(0, 256, shape).astype(np.uint8)
        return codes, codes.view(np.int8 if kind == "s8" else np.uint8).astype(float)
    values = rng.standard_normal(shape)
    if kind == "f64":
        return values.view(np.uint64), values
    if kind == "f16":
        half = values.astype(np.float16)
        return half.view(np.uint16), half.astype(float)
    word = values.astype(np.float32).view(np.uint32)
    if kind == "bf16":
        word &= np.uint32(0xFFFF0000)
        return (word >> 16).astype(np.uint16), word.view(np.float32).astype(float)
    if kind == "tf32":
        low = rng.integers(0, 1 << 13, shape).astype(np.uint32)  # to be ignored
        word &= np.uint32(0xFFFFE000)
        return word | low, word.view(np.float32).astype(float)
    codes = rng.integers(0, 256, shape).astype(np.uint8)
    codes[(codes & 0x60) == 0x60] &= 0xBF  # neither NaN nor large
    return codes, small_float(codes, kind)


def small_float(codes, kind):
    """Values of e4m3 or e5m2 codes, one by one, as the manual defines the format."""
    bits, bias = (3, 7) if kind == "e4m3" else (2, 15)
    out = np.empty(codes.shape)
    for at, code in np.ndenumerate(codes):
        exponent, fraction = (
            (int(code) & 127) >> bits,
            (int(code) & ((1 << bits) - 1)) / (1 << bits),
        )
        scale = 2.0 ** (max(exponent, 1) - bias)
        out[at] = (fraction + (exponent > 0)) * scale * (-1 if code & 128 else 1)
    return out


def fragments(codes, places, each):
    """(..., 32 lanes, registers) of matrices ``codes`` (..., rows, columns), by ``places``."""
    bits = codes.itemsize * 8
    count = codes.shape[-1] * codes.shape[-2] // 32
    out = np.empty((*codes.shape[:-2], 32, count), codes.dtype)
    for lane in range(32):
        for i in range(count):
            row, column = places(lane // 4, lane % 4, i)
            out[..., lane, i] = codes[..., row, column]
    return np.ascontiguousarray(out).view(f"u{max(bits, each) // 8}") if bits < each else out


def load_registers(name, count, each, step):
    """PTX that fills %{name}0... of this thread from array ``name`` (warps, steps, 32, count)."""
    size = each // 8 * count
    lines = [
        f"mad.lo.u32 %r2, %r1, {STEPS}, {step}; shl.b32 %r2, %r2, 5; add.u32 %r2, %r2, %r0;",
        f"mul.wide.u32 %rd0, %r2, {size}; add.u64 %rd0, %{name}, %rd0;",
    ]
    lines += [f"ld.global.b{each} %{name}{i}, [%rd0+{i * each // 8}];" for i in range(count)]
    return "\n".join(lines)


def run_mma(shape, d_type, a_type, b_type, rng, flags="", start=None):
    """(D of the simulator, the exact A and B): STEPS accumulations in each of 2 x 2 warps."""
    rows, depth = int(shape[1 : shape.index("n")]), int(shape[shape.index("k") + 1 :])
    warps = BLOCKS * WARPS
    a_codes, a = random_codes(rng, a_type, (warps, STEPS, rows, depth))
    b_codes, b = random_codes(rng, b_type, (warps, STEPS, depth, 8))
    key = (ALIKE.get(a_type, a_type), 16 if a_type == "f64" else depth)
    each = 64 if a_type == "f64" else 32
    places = A_PLACES[key]
    if rows == 8:
        places = {"s8": lambda g, t, i: (g, 4 * t + i), "f64": lambda g, t, i: (g, t)}[key[0]]
    a_registers = fragments(a_codes, places, each)
    b_registers = fragments(b_codes, B_PLACES[key], each)
    count = rows * 8 // 32 // (2 if d_type == "f16" else 1)
    out = np.zeros((warps, 32, count), f"u{each // 8}")
    if start is not None:
        out[:] = start
    na, nb = a_registers.shape[-1], b_registers.shape[-1]
    names = {
        n: ", ".join(f"%{n}{i}" for i in range(c)) for n, c in (("a", na), ("b", nb), ("d", count))
    }
    body = [
        f".reg .b{each} %a<{na}>, %b<{nb}>, %d<{count}>;",
        "mov.u32 %r0, %laneid; mov.u32 %r1, %ctaid.x; mov.u32 %r3, %warpid;",
        f"mad.lo.u32 %r1, %r1, {WARPS}, %r3;",
        f"shl.b32 %r4, %r1, 5; add.u32 %r4, %r4, %r0; mul.wide.u32 %rd2, %r4, {count * each // 8};",
        "add.u64 %rd2, %out, %rd2;",
        *(f"ld.global.b{each} %d{i}, [%rd2+{i * each // 8}];" for i in range(count)),
    ]
    for step in range(STEPS):
        body += [load_registers("a", na, each, step), load_registers("b", nb, each, step)]
        body.append(
            f"mma.sync.aligned.{shape}.row.col{flags}.{d_type}.{a_type}.{b_type}.{d_type} "
            f"{{{names['d']}}}, {{{names['a']}}}, {{{names['b']}}}, {{{names['d']}}};"
        )
    body += [f"st.global.b{each} [%rd2+{i * each // 8}], %d{i};" for i in range(count)]
    result = run_ptx(
        "\n".join(body), grid=BLOCKS, block=32 * WARPS, a=a_registers, b=b_registers, out=out
    )
    assert kinds(result) == []
    dtype = {"f32": np.float32, "f16": np.float16, "s32": np.int32, "f64": np.float64}[d_type]
    elements = out.view(dtype)
    d = np.empty((warps, rows, 8), dtype)
    for lane in range(32):
        for i in range(elements.shape[-1]):
            d[:, lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2] = elements[:, lane, i]
    return d, a, b, result


FORMS = [
    ("m16n8k16", "f32", "f16"), ("m16n8k8", "f32", "f16"), ("m16n8k16", "f16", "f16"),
    ("m16n8k8", "f16", "f16"), ("m16n8k16", "f32", "bf16"), ("m16n8k8", "f32", "bf16"),
    ("m16n8k8", "f32", "tf32"), ("m16n8k4", "f32", "tf32"), ("m16n8k32", "s32", "s8"),
    ("m16n8k16", "s32", "u8"), ("m8n8k16", "s32", "s8"), ("m16n8k32", "f32", "e4m3"),
    ("m16n8k16", "f32", "e5m2"), ("m16n8k32", "f16", "e4m3"), ("m16n8k16", "f64", "f64"),
    ("m16n8k8", "f64", "f64"), ("m16n8k4", "f64", "f64"), ("m8n8k4", "f64", "f64"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "d_type", "a_type"), FORMS)
def test_mma_accumulates_what_numpy_does(shape, d_type, a_type):
    rng = np.random.default_rng(1)
    d, a, b, result = run_mma(shape, d_type, a_type, a_type, rng)
    exact = (a @ b).sum(axis=1)
    if d_type == "s32":
        assert (d == exact).all()
    else:
        bound = (np.abs(a) @ np.abs(b)).sum(axis=1)
        tolerance = {"f32": 1e-6, "f16": 2e-3, "f64": 1e-14}[d_type]
        assert (np.abs(d - exact) <= tolerance * bound).all()
        assert np.abs(exact).max() > 1
    rows, depth = exact.shape[1], a.shape[-1]
    family = {"s8": "i8", "u8": "i8", "e4m3": "f8", "e5m2": "f8"}.get(a_type, a_type)
    flops = 2 * rows * 8 * depth * STEPS * BLOCKS * WARPS
    assert result.counters[f"mma_flops_{family}"] == flops
    assert result.counters["mma_instructions"] == STEPS * BLOCKS * WARPS


@pytest.mark.parametrize(("a_type", "b_type"), [("s8", "u8"), ("u8", "s8"), ("e4m3", "e5m2")])
def test_operand_types_may_differ(a_type, b_type):
    d_type = "f32" if a_type == "e4m3" else "s32"
    d, a, b, _ = run_mma("m16n8k32", d_type, a_type, b_type, np.random.default_rng(2))
    bound = (np.abs(a) @ np.abs(b)).sum(axis=1)
    assert (np.abs(d - (a @ b).sum(axis=1)) <= 1e-6 * bound * (d_type == "f32")).all()


def test_integer_sums_wrap_and_saturate_as_asked():
    top = np.uint32(0x7FFFFFFF)
    for flags in ("", ".satfinite"):
        rng = np.random.default_rng(3)
        d, a, b, _ = run_mma("m16n8k32", "s32", "s8", "s8", rng, flags, start=top)
        totals = np.full(d.shape, int(top), dtype=np.int64)
        for step in range(STEPS):
            totals += (a[:, step] @ b[:, step]).astype(np.int64)
            if flags:
                totals = np.clip(totals, -(1 << 31), (1 << 31) - 1)
        assert (d == totals.astype(np.int32)).all()


@pytest.mark.parametrize(
    "name",
    [
        "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32",
        "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32",
        "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.f16.f32",
        "mma.sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16",
    ],
)
def test_what_is_missing_is_named(name):
    registers = "{%r0, %r1, %r2, %r3}"
    with pytest.raises(Unsupported, match="mma"):
        run_ptx(f"{name} {registers}, {registers}, {{%r0, %r1}}, {registers};")
