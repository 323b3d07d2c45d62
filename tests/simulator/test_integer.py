"""Integer instructions against Python's integers."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest

from checkers.simulator.ptx.modifiers import Unsupported
from tests.simulator.registers_harness import compute

_RNG = np.random.default_rng(1)
_REGISTER = {16: "%h", 32: "%r", 64: "%rd"}


def patterns(bits: int) -> list[int]:
    """Bit patterns with the extremes and some random ones."""
    top = 1 << (bits - 1)
    special = [0, 1, 2, 3, top - 1, top, top + 1, 2 * top - 2, 2 * top - 1, 0x1234 % top]
    return special + [int(x) % (1 << bits) for x in _RNG.integers(0, 2**63, 6)]


def value(pattern: int, kind: str) -> int:
    bits = int(kind[1:])
    return pattern - (1 << bits) if kind[0] == "s" and pattern >> (bits - 1) else pattern


def check(text: str, kinds: list[str], result: str, expected, wanted_bits: int) -> None:
    """``text`` of operands of ``kinds`` over all combinations of special values; ``expected`` of
    Python ints, taken modulo 2**wanted_bits."""
    rows = list(
        itertools.product(
            *(patterns(int(kind[1:]))[: 16 if len(kinds) < 3 else 10] for kind in kinds)
        )
    )
    names = [f"{_REGISTER[int(kind[1:])]}{at}" for at, kind in enumerate(kinds)]
    inputs = {
        name: np.array([row[at] for row in rows], f"u{int(kinds[at][1:]) // 8}")
        for at, name in enumerate(names)
    }
    out = compute(f"{text} {result}, {', '.join(names)};", result, inputs)
    for row, got in zip(rows, out.tolist(), strict=True):
        want = expected(*(value(p, kind) for p, kind in zip(row, kinds, strict=True)))
        assert got == want % (1 << wanted_bits), (text, row)


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
class TestEveryWidth:
    def test_sums_wrap(self, kind: str) -> None:
        bits = int(kind[1:])
        out = f"{_REGISTER[bits]}7"
        check(f"add.{kind}", [kind] * 2, out, operator.add, bits)
        check(f"sub.{kind}", [kind] * 2, out, operator.sub, bits)

    def test_products(self, kind: str) -> None:
        bits = int(kind[1:])
        out = f"{_REGISTER[bits]}7"
        check(f"mul.lo.{kind}", [kind] * 2, out, operator.mul, bits)
        check(f"mul.hi.{kind}", [kind] * 2, out, lambda a, b: (a * b) >> bits, bits)
        check(f"mad.lo.{kind}", [kind] * 3, out, lambda a, b, c: a * b + c, bits)
        check(f"mad.hi.{kind}", [kind] * 3, out, lambda a, b, c: (a * b >> bits) + c, bits)

    def test_wide_products(self, kind: str) -> None:
        bits = int(kind[1:])
        if bits == 64:
            with pytest.raises(Unsupported):
                check(f"mul.wide.{kind}", [kind] * 2, "%rd7", operator.mul, 64)
            return
        wide = f"{kind[0]}{2 * bits}"
        out = f"{_REGISTER[2 * bits]}7"
        check(f"mul.wide.{kind}", [kind] * 2, out, operator.mul, 2 * bits)
        check(f"mad.wide.{kind}", [kind, kind, wide], out, lambda a, b, c: a * b + c, 2 * bits)

    def test_division_rounds_to_zero(self, kind: str) -> None:
        bits = int(kind[1:])
        out = f"{_REGISTER[bits]}7"

        def quotient(a: int, b: int) -> int:
            return -1 if b == 0 else abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)

        def rest(a: int, b: int) -> int:
            return -1 if b == 0 else a - b * quotient(a, b)

        check(f"div.{kind}", [kind] * 2, out, quotient, bits)
        check(f"rem.{kind}", [kind] * 2, out, rest, bits)

    def test_extremes_and_differences(self, kind: str) -> None:
        bits = int(kind[1:])
        out = f"{_REGISTER[bits]}7"
        check(f"min.{kind}", [kind] * 2, out, min, bits)
        check(f"max.{kind}", [kind] * 2, out, max, bits)
        check(f"sad.{kind}", [kind] * 3, out, lambda a, b, c: c + abs(a - b), bits)

    def test_signs(self, kind: str) -> None:
        bits = int(kind[1:])
        out = f"{_REGISTER[bits]}7"
        if kind[0] == "u":
            with pytest.raises(Unsupported):
                check(f"abs.{kind}", [kind], out, abs, bits)
            return
        check(f"abs.{kind}", [kind], out, abs, bits)
        check(f"neg.{kind}", [kind], out, operator.neg, bits)


def clamp(x: int) -> int:
    return max(-(2**31), min(2**31 - 1, x))


def test_saturation() -> None:
    check("add.sat.s32", ["s32"] * 2, "%r7", lambda a, b: clamp(a + b), 32)
    check("sub.sat.s32", ["s32"] * 2, "%r7", lambda a, b: clamp(a - b), 32)
    check("mad.hi.sat.s32", ["s32"] * 3, "%r7", lambda a, b, c: clamp((a * b >> 32) + c), 32)
    check("min.relu.s32", ["s32"] * 2, "%r7", lambda a, b: max(0, min(a, b)), 32)


@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_24_bit_products(kind: str) -> None:
    def low(x: int) -> int:
        x &= 0xFFFFFF
        return x - (1 << 24) if kind == "s32" and x >> 23 else x

    check(f"mul24.lo.{kind}", [kind] * 2, "%r7", lambda a, b: low(a) * low(b), 32)
    check(f"mul24.hi.{kind}", [kind] * 2, "%r7", lambda a, b: low(a) * low(b) >> 16, 32)
    check(f"mad24.lo.{kind}", [kind] * 3, "%r7", lambda a, b, c: low(a) * low(b) + c, 32)


def halves(x: int, signed: bool) -> list[int]:
    return [value(x >> at & 0xFFFF, "s16" if signed else "u16") for at in (0, 16)]


def packed(parts: list[int]) -> int:
    return (parts[0] & 0xFFFF) | (parts[1] & 0xFFFF) << 16


@pytest.mark.parametrize("kind", ["u16x2", "s16x2"])
def test_packed_halves_do_not_carry_over(kind: str) -> None:
    def each(function):
        signed = kind == "s16x2"
        return lambda a, b: packed(
            [function(x, y) for x, y in zip(halves(a, signed), halves(b, signed), strict=True)]
        )

    check(f"add.{kind}", ["u32"] * 2, "%r7", each(operator.add), 32)
    check(f"min.{kind}", ["u32"] * 2, "%r7", each(min), 32)
    check(f"max.{kind}", ["u32"] * 2, "%r7", each(max), 32)
    if kind == "s16x2":
        check("max.relu.s16x2", ["u32"] * 2, "%r7", each(lambda a, b: max(a, b, 0)), 32)


@pytest.mark.parametrize(("kind", "register"), [("u32", "%r"), ("u64", "%rd")])
def test_carries_join_two_words(kind: str, register: str) -> None:
    bits = int(kind[1:])
    some = patterns(bits)[:9]
    rows = list(itertools.product(some, repeat=4))
    inputs = {
        f"{register}{at}": np.array([row[at] for row in rows], f"u{bits // 8}") for at in range(4)
    }
    a, b, c, d = (f"{register}{at}" for at in range(4))
    low, high = f"{register}6", f"{register}7"
    for first, second, function in (
        ("add.cc", "addc", operator.add),
        ("sub.cc", "subc", operator.sub),
    ):
        body = f"{first}.{kind} {low}, {a}, {c}; {second}.{kind} {high}, {b}, {d};"
        lows, highs = compute(body, (low, high), inputs)
        for row, x, y in zip(rows, lows.tolist(), highs.tolist(), strict=True):
            left, right = row[0] | row[1] << bits, row[2] | row[3] << bits
            assert x | y << bits == function(left, right) % (1 << 2 * bits)


def test_a_carry_goes_through_three_words() -> None:
    body = """add.cc.u32 %r3, %r0, 1; addc.cc.u32 %r4, %r1, 0; addc.u32 %r5, %r2, 0;"""
    ones = np.uint32(0xFFFFFFFF)
    out = compute(body, ("%r3", "%r4", "%r5"), {"%r0": ones, "%r1": ones, "%r2": np.uint32(7)})
    assert [int(x[0]) for x in out] == [0, 0, 8]


def test_the_manuals_long_multiplication() -> None:
    body = """
        mul.lo.u32 %r0, %r4, %r6; mul.hi.u32 %r1, %r4, %r6;
        mad.lo.cc.u32 %r1, %r5, %r6, %r1; madc.hi.u32 %r2, %r5, %r6, 0;
        mad.lo.cc.u32 %r1, %r4, %r7, %r1; madc.hi.cc.u32 %r2, %r4, %r7, %r2;
        addc.u32 %r3, 0, 0;
        mad.lo.cc.u32 %r2, %r5, %r7, %r2; madc.hi.u32 %r3, %r5, %r7, %r3;
    """
    words = _RNG.integers(0, 2**32, (4, 64), dtype=np.uint64).astype(np.uint32)
    words[:, :2] = 0xFFFFFFFF
    out = compute(body, ("%r0", "%r1", "%r2", "%r3"), {f"%r{4 + at}": words[at] for at in range(4)})
    for lane in range(64):
        a, b, c, d = (int(w) for w in words[:, lane])
        got = sum(int(part[lane]) << 32 * at for at, part in enumerate(out))
        assert got == (a | b << 32) * (c | d << 32)


def parts(x: int, bits: int, signed: bool) -> list[int]:
    return [
        value(x >> at & ((1 << bits) - 1), f"{'s' if signed else 'u'}{bits}")
        for at in range(0, 32, bits)
    ]


@pytest.mark.parametrize("a", ["u32", "s32"])
@pytest.mark.parametrize("b", ["u32", "s32"])
def test_dot_products(a: str, b: str) -> None:
    left, right = a == "s32", b == "s32"

    def four(x: int, y: int, z: int) -> int:
        pairs = zip(parts(x, 8, left), parts(y, 8, right), strict=True)
        return z + sum(p * q for p, q in pairs)

    def two(x: int, y: int, z: int) -> int:
        return z + sum(
            p * q for p, q in zip(parts(x, 16, left), parts(y, 8, right)[2:], strict=True)
        )

    check(f"dp4a.{a}.{b}", ["u32"] * 3, "%r7", four, 32)
    check(f"dp2a.hi.{a}.{b}", ["u32"] * 3, "%r7", two, 32)


@pytest.mark.parametrize(
    "text",
    [
        "add.u8 %h0, %h1, %h2;",
        "add.sat.u32 %r0, %r1, %r2;",
        "add.frob.u32 %r0, %r1, %r2;",
        "sub.u16x2 %r0, %r1, %r2;",
        "mul.u32 %r0, %r1, %r2;",
        "max.relu.u32 %r0, %r1, %r2;",
        "add.cc.u16 %h0, %h1, %h2;",
        "rem.f32 %f0, %f1, %f2;",
        "add.u32 %r0, %r1;",
        "add.u64 %rd0, %r1, %rd2;",
    ],
)
def test_a_form_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(Unsupported):
        compute(text, "%r0")


def test_inactive_lanes_keep_what_they_had() -> None:
    mask = np.zeros((1, 32), bool)
    mask[0, 3] = True
    lanes = np.arange(32, dtype=np.uint32)
    out = compute("add.u32 %r1, %r0, 100;", "%r1", {"%r0": lanes, "%r1": lanes}, mask=mask)
    assert out.tolist() == [103 if lane == 3 else lane for lane in range(32)]
