"""cvt against rational arithmetic, Python's integers and the manual's rules, strategy by strategy."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from checkers.simulator.ptx.modifiers import Unsupported
from tests.simulator.rational import BF16, E4M3, E5M2, F16, F32, F64, Binary, interesting
from tests.simulator.registers_harness import compute

FORMS: dict[str, Binary] = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}
REGISTER = {8: "%c", 16: "%h", 32: "%r", 64: "%rd"}
INTEGERS = [f"{sign}{width}" for sign in "us" for width in (8, 16, 32, 64)]


def convert(text: str, codes: list[int], width: int, result: int) -> list[int]:
    """``text`` of one operand of ``width`` bits, as bits of the ``result``-bit register."""
    source, target = f"{REGISTER[width]}0", f"{REGISTER[result]}7"
    return compute(
        f"{text} {target}, {source};", target, {source: np.array(codes, f"u{width // 8}")}
    ).tolist()


def is_negative(code: int, form: Binary) -> bool:
    return bool(code >> (form.bits - 1))


# --- float to float ----------------------------------------------------------------------------

NARROWING = [
    (a, b) for a in FORMS for b in FORMS
    if a != b and (FORMS[b].mantissa < FORMS[a].mantissa or FORMS[b].exponent < FORMS[a].exponent)
]  # fmt: skip
WIDENING = [(a, b) for a in FORMS for b in FORMS if a != b and (a, b) not in NARROWING]


def ties(source: Binary, target: Binary) -> list[int]:
    """Codes of ``source`` that lie between two of ``target``, or just beside."""
    drop = source.mantissa - target.mantissa
    one = ((1 << (source.exponent - 1)) - 1) << source.mantissa
    if drop < 2:
        return []
    half = 1 << (drop - 1)
    return [one + k * (half << 1) + half + d for k in (0, 1, 2, 5) for d in (-1, 0, 1)]


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize(("source", "target"), NARROWING)
def test_narrowing_rounds_once(source: str, target: str, mode: str) -> None:
    wide, narrow = FORMS[source], FORMS[target]
    codes = interesting(wide, 120).tolist() + ties(wide, narrow)
    # The smallest and the largest values of the narrow type, and what lies around them.
    for edge in (1, 1 << narrow.mantissa, narrow.top):
        around = [wide.round(narrow.value(edge) * Fraction(x, 8)) for x in (3, 4, 8, 9)]
        codes += [code + d for code in around for d in (-1, 0, 1) if code]
    got = convert(f"cvt.{mode}.{target}.{source}", codes, wide.bits, narrow.bits)
    for code, result in zip(codes, got, strict=True):
        value = wide.value(code)
        if value == "nan" and source != "f64":
            assert result == narrow.nan
        elif isinstance(value, str):
            assert narrow.value(result) == value
        elif value:
            assert result == narrow.round(value, mode), (hex(code), hex(result))
        else:
            assert result == (code >> (wide.bits - 1)) << (narrow.bits - 1)


@pytest.mark.parametrize(("source", "target"), WIDENING)
def test_widening_is_exact(source: str, target: str) -> None:
    narrow, wide = FORMS[source], FORMS[target]
    codes = interesting(narrow, 120).tolist()
    got = convert(f"cvt.{target}.{source}", codes, narrow.bits, wide.bits)
    for code, result in zip(codes, got, strict=True):
        assert wide.value(result) == narrow.value(code)
        assert is_negative(result, wide) == is_negative(code, narrow) or narrow.value(code) == "nan"


def test_nans() -> None:
    assert convert("cvt.f32.f16", [0x7C01, 0xFE00], 16, 32) == [0x7FFFFFFF] * 2
    assert convert("cvt.f32.bf16", [0x7F81, 0xFFC0], 16, 32) == [0x7F810000, 0xFFC00000]
    assert convert("cvt.rn.bf16.f32", [0x7F800001], 32, 16) == [0x7FFF]
    doubles = [0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF]
    assert convert("cvt.rn.f32.f64", doubles, 64, 32) == [0x7FC00000, 0xFFFFFFFF]
    assert convert("cvt.rn.f16.f64", doubles, 64, 16) == [0x7E00, 0xFFFF]


@pytest.mark.parametrize(
    ("mode", "rule"),
    [("rni", round), ("rzi", math.trunc), ("rmi", math.floor), ("rpi", math.ceil)],
)
@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_rounding_to_an_integral_value(kind: str, mode: str, rule) -> None:
    form = FORMS[kind]
    codes = interesting(form, 120).tolist()
    codes += [form.round(Fraction(x, 2)) for x in (1, 3, 5, -1, -3, 7)]
    got = convert(f"cvt.{mode}.{kind}.{kind}", codes, form.bits, form.bits)
    for code, result in zip(codes, got, strict=True):
        value = form.value(code)
        if isinstance(value, str):
            assert form.value(result) == value
            continue
        assert form.value(result) == rule(value)
        assert is_negative(result, form) == is_negative(code, form)


def test_ftz_and_sat() -> None:
    small = [0x00000001, 0x807FFFFF, 0x00800000]
    assert convert("cvt.ftz.f32.f32", small, 32, 32) == [0, 0x80000000, 0x00800000]
    assert convert("cvt.rn.ftz.f16.f32", small[:2], 32, 16) == [0, 0x8000]
    assert convert("cvt.rp.ftz.f16.f32", small[:2], 32, 16) == [1, 0x8000]  # seen on an H200
    assert convert("cvt.rpi.ftz.s32.f32", small[:1], 32, 32) == [0]
    assert convert("cvt.rpi.s32.f32", small[:1], 32, 32) == [1]
    tiny = np.array([2.0**-130, -(2.0**-130)]).view(np.uint64).tolist()
    assert convert("cvt.rn.ftz.f32.f64", tiny, 64, 32) == [0, 0x80000000]
    values = np.array([-1, 0.5, 2, np.nan, np.inf, -0.0], np.float32).view(np.uint32).tolist()
    want = np.array([0, 0.5, 1, 0, 1, 0], np.float32)
    assert convert("cvt.sat.f32.f32", values, 32, 32) == want.view(np.uint32).tolist()
    assert convert("cvt.ftz.sat.f32.f32", values, 32, 32) == want.view(np.uint32).tolist()
    assert (
        convert("cvt.rn.sat.f16.f32", values, 32, 16)
        == want.astype(np.float16).view(np.uint16).tolist()
    )


def test_relu_and_satfinite() -> None:
    values = np.array([-1, 1, 1e6, -1e6, np.inf, np.nan, -0.0], np.float32).view(np.uint32).tolist()
    assert convert("cvt.rn.relu.f16.f32", values, 32, 16) == [
        0, 0x3C00, 0x7C00, 0, 0x7C00, 0x7FFF, 0,
    ]  # fmt: skip
    assert convert("cvt.rn.satfinite.f16.f32", values, 32, 16) == [
        0xBC00, 0x3C00, 0x7BFF, 0xFBFF, 0x7BFF, 0x7FFF, 0x8000,
    ]  # fmt: skip
    assert convert("cvt.rz.relu.satfinite.f16.f32", values, 32, 16) == [
        0, 0x3C00, 0x7BFF, 0, 0x7BFF, 0x7FFF, 0,
    ]  # fmt: skip
    largest = [0x7F7FFFFF, 0xFF800000]
    assert convert("cvt.rn.satfinite.bf16.f32", largest, 32, 16) == [0x7F7F, 0xFF7F]
    assert convert("cvt.rn.bf16.f32", largest, 32, 16) == [0x7F80, 0xFF80]


# --- float to integer --------------------------------------------------------------------------


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", FORMS)
def test_float_to_integer_clamps(source: str, target: str) -> None:
    form, width, signed = FORMS[source], int(target[1:]), target[0] == "s"
    low = -(1 << (width - 1)) if signed else 0
    high = (1 << (width - signed)) - 1
    codes = interesting(form, 120).tolist()
    for edge in (low, high, Fraction(1, 2), Fraction(5, 2), Fraction(-3, 2)):
        for d in (-1, 0, Fraction(1, 2), 1):
            if edge + d and abs(edge + d) < form.value(form.top):
                codes.append(form.round(Fraction(edge + d)))
    nan = 1 << (width - 1) if source == "f64" or width == 64 else 0
    result = max(width, 16) if width > 8 else 8
    for mode, rule in (
        ("rni", round),
        ("rzi", math.trunc),
        ("rmi", math.floor),
        ("rpi", math.ceil),
    ):
        got = convert(f"cvt.{mode}.{target}.{source}", codes, form.bits, result)
        for code, found in zip(codes, got, strict=True):
            value = form.value(code)
            if value == "nan":
                want = nan
            elif isinstance(value, str):
                want = high if value == "inf" else low
            else:
                want = min(high, max(low, rule(value)))
            assert found == want % (1 << width), (mode, hex(code), hex(found))


# --- integer to float --------------------------------------------------------------------------


@pytest.mark.parametrize("source", INTEGERS)
@pytest.mark.parametrize("target", FORMS)
def test_integer_to_float_rounds_once(source: str, target: str) -> None:
    form, width = FORMS[target], int(source[1:])
    top = 1 << (width - 1)
    codes = [0, 1, 2, 100, top - 1, top, top + 1, 2 * top - 1]
    # Ties, and what is just beside them.
    for place in range(form.mantissa + 1, width - 1):
        tie = (1 << place) + (1 << (place - form.mantissa - 1))
        codes += [tie - 1, tie, tie + 1, (tie + (2 << (place - form.mantissa - 1))) % (2 * top)]
    codes += [int(x) % (2 * top) for x in np.random.default_rng(1).integers(0, 2**63, 60)]
    for mode in ("rn", "rz", "rm", "rp"):
        got = convert(f"cvt.{mode}.{target}.{source}", codes, width, form.bits)
        for code, found in zip(codes, got, strict=True):
            value = code - 2 * top if source[0] == "s" and code >= top else code
            assert found == (form.round(Fraction(value), mode) if value else 0), (mode, code)


def test_a_saturated_integer_is_zero_or_one() -> None:
    got = convert("cvt.rn.sat.f32.s32", [5, 0, 0xFFFFFFFF, 1], 32, 32)
    assert got == np.array([1, 0, 0, 1], np.float32).view(np.uint32).tolist()


# --- integer to integer ------------------------------------------------------------------------


@pytest.mark.parametrize("source", INTEGERS)
def test_integer_to_integer(source: str) -> None:
    width = int(source[1:])
    top = 1 << (width - 1)
    codes = [0, 1, 127, 128 % (2 * top), 255 % (2 * top), top - 1, top, 2 * top - 1]
    for target in INTEGERS:
        bits, signed = int(target[1:]), target[0] == "s"
        low, high = (-(1 << (bits - 1)) if signed else 0), (1 << (bits - signed)) - 1
        plain = convert(f"cvt.{target}.{source}", codes, width, bits)
        clamped = convert(f"cvt.sat.{target}.{source}", codes, width, bits)
        for code, one, other in zip(codes, plain, clamped, strict=True):
            value = code - 2 * top if source[0] == "s" and code >= top else code
            assert one == value % (1 << bits)
            assert other == min(high, max(low, value)) % (1 << bits)


def test_wider_registers_are_cut_and_filled() -> None:
    assert convert("cvt.u32.u8", [0x12345680], 32, 32) == [0x80]
    assert convert("cvt.s32.s8", [0x12345680], 32, 32) == [0xFFFFFF80]
    assert convert("cvt.s8.s32", [0x1FF], 32, 32) == [0xFFFFFFFF]
    assert convert("cvt.u8.u32", [0x1FF], 32, 32) == [0xFF]
    assert convert("cvt.u16.u32", [0x12345], 32, 32) == [0x2345]
    assert convert("cvt.s64.s32", [0x80000000], 32, 64) == [0xFFFFFFFF80000000]


# --- packed ------------------------------------------------------------------------------------


def two(text: str, a: list[float], b: list[float], result: str, **more) -> list[int]:
    inputs = {"%f0": np.array(a, np.float32), "%f1": np.array(b, np.float32)}
    tail = "".join(f", {name}" for name in more)
    inputs |= {name.replace("_", "%"): value for name, value in more.items()}
    return compute(f"{text} {result}, %f0, %f1{tail.replace('_', '%')};", result, inputs).tolist()


def test_the_first_operand_goes_to_the_upper_half() -> None:
    assert two("cvt.rn.bf16x2.f32", [1.0], [-2.0], "%r7") == [0x3F80C000]
    assert two("cvt.rn.f16x2.f32", [1.0], [-2.0], "%r7") == [0x3C00C000]
    assert two("cvt.rz.f16x2.f32", [65519.0], [70000.0], "%r7") == [0x7BFF7BFF]
    assert two("cvt.rn.relu.bf16x2.f32", [-1.0], [np.nan], "%r7") == [0x00007FFF]
    assert two("cvt.rn.satfinite.bf16x2.f32", [np.inf], [-np.inf], "%r7") == [0x7F7FFF7F]


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("mode", ["rn", "rz"])
def test_pairs_round_as_singles_do(kind: str, mode: str) -> None:
    codes = interesting(F32, 200).astype(np.uint32)
    other = codes[::-1].copy()
    inputs = {"%f0": codes, "%f1": other}
    got = compute(f"cvt.{mode}.{kind}x2.f32 %r7, %f0, %f1;", "%r7", inputs)
    upper = convert(f"cvt.{mode}.{kind}.f32", codes.tolist(), 32, 16)
    lower = convert(f"cvt.{mode}.{kind}.f32", other.tolist(), 32, 16)
    assert got.tolist() == [u << 16 | low for u, low in zip(upper, lower, strict=True)]


@pytest.mark.parametrize(("kind", "form"), [("e4m3", E4M3), ("e5m2", E5M2)])
class TestEightBits:
    def test_from_f32(self, kind: str, form: Binary) -> None:
        codes = interesting(F32, 400).tolist() + ties(F32, form)
        codes += [
            F32.round(form.value(c) * Fraction(x, 16))
            for c in range(1, form.top)
            for x in (8, 16, 17, 24)
        ]
        inputs = {"%f0": np.array(codes, np.uint32)}
        got = compute(f"cvt.rn.satfinite.{kind}x2.f32 %h7, %f0, 0f3F800000;", "%h7", inputs)
        one = form.round(Fraction(1))
        for code, pair in zip(codes, got.tolist(), strict=True):
            value, found = F32.value(code), pair >> 8
            assert pair & 0xFF == one
            sign = (code >> 31) << 7
            if value == "nan":
                assert found == 0x7F
            elif isinstance(value, str):
                assert found == sign | form.top
            else:
                assert found == (form.round(value, finite=True) if value else sign)

    def test_to_f16_and_back(self, kind: str, form: Binary) -> None:
        every = np.arange(256, dtype=np.uint16)
        inputs = {"%h0": every | (every[::-1] << 8)}
        got = compute(f"cvt.rn.f16x2.{kind}x2 %r7, %h0;", "%r7", inputs).tolist()
        for code, pair in zip(range(256), got, strict=True):
            for part, half in ((code, pair & 0xFFFF), (255 - code, pair >> 16)):
                value = form.value(part)
                assert F16.value(half) == value
                assert value != "nan" or half == 0x7FFF
        # Back from f16x2, where a NaN is 0x7f and infinity the largest value.
        back = compute(
            f"cvt.rn.satfinite.{kind}x2.f16x2 %h7, %r0;", "%h7", {"%r0": np.array(got, np.uint32)}
        )
        for code, pair in zip(range(256), back.tolist(), strict=True):
            value = form.value(code)
            want = 0x7F if value == "nan" else code
            want = (code & 0x80) | form.top if value in ("inf", "-inf") else want
            assert pair & 0xFF == want

    def test_relu(self, kind: str, form: Binary) -> None:
        one = form.round(Fraction(1))
        got = two(f"cvt.rn.satfinite.relu.{kind}x2.f32", [-1.0, 1.0], [np.nan, -0.0], "%h7")
        assert got == [0x007F, one << 8]
        assert two(f"cvt.rn.satfinite.{kind}x2.f32", [1e30], [-np.inf], "%h7") == [
            form.top << 8 | 0x80 | form.top
        ]


def test_formats_of_six_and_four_bits() -> None:
    # e2m1: 0, 1/2, 1, 3/2, 2, 3, 4, 6.
    pairs = two("cvt.rn.satfinite.e2m1x2.f32", [0.25, 0.75, 5, 7, -2.5, np.nan], [6] * 6, "%c7")
    assert pairs == [0x07, 0x27, 0x67, 0x77, 0xC7, 0x77]
    codes = {"%c0": np.array([0x17, 0x8F], np.uint8)}
    got = compute("cvt.rn.f16x2.e2m1x2 %r7, %c0;", "%r7", codes)
    assert got.view(np.float16).tolist() == [6, 0.5, -6, 0]
    got = two(
        "cvt.rn.satfinite.e2m3x2.f32", [1.0, 7.5, 100, 0.0625], [-1.0, 0.125, np.nan, 0.0], "%h7"
    )
    assert got == [0x0828, 0x1F01, 0x1F1F, 0x0000]
    got = two("cvt.rn.satfinite.e3m2x2.f32", [1.0, 28, 100], [-1.0, 0.0625, np.nan], "%h7")
    assert got == [0x0C2C, 0x1F01, 0x1F1F]
    got = compute("cvt.rn.f16x2.e3m2x2 %r7, %h0;", "%r7", {"%h0": np.array([0x1F2C], np.uint16)})
    assert got.view(np.float16).tolist() == [-1, 28]


def test_powers_of_two() -> None:
    up = two(
        "cvt.rp.satfinite.ue8m0x2.f32", [1.0, 1.5, 2.0**-130, np.nan], [3.0, -4, 3.4e38, 0], "%h7"
    )
    assert up == [0x7F81, 0x8081, 0x00FE, 0xFF00]
    down = two("cvt.rz.ue8m0x2.f32", [1.0, 1.99], [3.0, np.inf], "%h7")
    assert down == [0x7F80, 0x7FFF]
    back = compute(
        "cvt.rn.bf16x2.ue8m0x2 %r7, %h0;", "%r7", {"%h0": np.array([0x7F81, 0x00FF], np.uint16)}
    )
    assert back.tolist() == [0x3F804080, 0x00407FFF]


def test_tf32() -> None:
    def tf32(text: str, codes: list[int]) -> list[int]:
        return convert(text, codes, 32, 32)

    tie = 0x3F801000
    assert tf32("cvt.rna.tf32.f32", [tie, tie - 1, tie | 0x80000000]) == [
        0x3F802000, 0x3F800000, 0xBF802000,
    ]  # fmt: skip
    assert tf32("cvt.rn.tf32.f32", [tie, tie + 1, tie + 0x2000]) == [
        0x3F800000, 0x3F802000, 0x3F804000,
    ]  # fmt: skip
    assert tf32("cvt.rz.tf32.f32", [tie + 0xFFF]) == [0x3F800000]
    assert tf32("cvt.rn.relu.tf32.f32", [0xBF800000, 0x7F800001]) == [0, 0x7FFFE000]
    assert tf32("cvt.rna.satfinite.tf32.f32", [0x7F7FFFFF, 0x7F800000]) == [0x7F7FE000] * 2
    assert tf32("cvt.rna.tf32.f32", [0x7F7FFFFF]) == [0x7F800000]


def test_stochastic_rounding_adds_the_random_bits() -> None:
    # 1 + 1/4 of a last place of bf16: rounds up when the bits carry over 3/4.
    x = 1 + 2.0**-9
    for bits, want in ((0x0000, 0x3F80), (0xBFFF, 0x3F80), (0xC000, 0x3F81), (0xFFFF, 0x3F81)):
        got = two("cvt.rs.bf16x2.f32", [x], [-x], "%r7", _r0=np.uint32(bits << 16 | bits))
        assert got == [want << 16 | want | 0x8000]


def test_pack_clamps() -> None:
    inputs = {
        "%r0": np.array([300, 0xFFFFFF00], np.uint32),
        "%r1": np.array([5, 0xFFFFFFFF], np.uint32),
    }
    got = compute("cvt.pack.sat.u8.s32.b32 %r7, %r0, %r1, 0xABCD;", "%r7", inputs)
    assert got.tolist() == [0xABCDFF05, 0xABCD0000]
    got = compute("cvt.pack.sat.s16.s32 %r7, %r0, %r1;", "%r7", inputs)
    assert got.tolist() == [300 << 16 | 5, 0xFF00FFFF]
    got = compute("cvt.pack.sat.s4.s32.b32 %r7, %r0, %r1, 1;", "%r7", inputs)
    assert got.tolist() == [0x175, 0x18F]


@pytest.mark.parametrize(
    "text",
    [
        "cvt.f16.f32 %h0, %f0;",
        "cvt.rn.f32.f16 %f0, %h0;",
        "cvt.s32.f32 %r0, %f0;",
        "cvt.rn.s32.f32 %r0, %f0;",
        "cvt.f32.s32 %f0, %r0;",
        "cvt.rni.f32.f64 %f0, %fd0;",
        "cvt.rn.relu.f32.f64 %f0, %fd0;",
        "cvt.rn.e4m3x2.f32 %h0, %f0, %f1;",
        "cvt.rn.bf16x2.f32 %r0, %f0;",
        "cvt.rn.f16x2.e4m3 %r0, %h0;",
        "cvt.rn.odd.f16.f32 %h0, %f0;",
        "cvt.ftz.s32.u32 %r0, %r1;",
    ],
)
def test_a_form_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(Unsupported):
        compute(text, "%r0")
