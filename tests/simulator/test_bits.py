"""Bit instructions against the manual's pseudocode, in Python's integers."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from checkers.simulator.ptx.modifiers import Unsupported
from tests.simulator.registers_harness import compute

_RNG = np.random.default_rng(2)
_REGISTER = {16: "%h", 32: "%r", 64: "%rd"}
SHIFTS = [0, 1, 7, 15, 16, 31, 32, 33, 63, 64, 65, 255, 256, 2**31, 2**32 - 1]


def patterns(bits: int) -> list[int]:
    top = 1 << (bits - 1)
    special = [0, 1, 2, top - 1, top, top + 1, 2 * top - 1, 0xAAAAAAAAAAAAAAAA % (2 * top)]
    return special + [int(x) % (1 << bits) for x in _RNG.integers(0, 2**63, 6)]


def signed(pattern: int, bits: int) -> int:
    return pattern - (1 << bits) if pattern >> (bits - 1) else pattern


def check(
    text: str,
    operands: list[tuple[int, list[int]]],
    out_bits: int,
    expected: Callable[..., int],
    tail: str = "",
) -> None:
    """``text`` of operands (bits, values) in all combinations."""
    rows = list(itertools.product(*(values for _, values in operands)))
    names = [f"{_REGISTER[bits]}{at}" for at, (bits, _) in enumerate(operands)]
    inputs = {
        name: np.array([row[at] for row in rows], f"u{operands[at][0] // 8}")
        for at, name in enumerate(names)
    }
    out = f"{_REGISTER[out_bits]}7"
    result = compute(f"{text} {out}, {', '.join(names)}{tail};", out, inputs)
    for row, got in zip(rows, result.tolist(), strict=True):
        assert got == expected(*row) % (1 << out_bits), (text, row, got)


@pytest.mark.parametrize("bits", [32, 64])
class TestCounts:
    def test_popc_clz_brev(self, bits: int) -> None:
        one = [(bits, patterns(bits))]
        check(f"popc.b{bits}", one, 32, lambda a: a.bit_count())
        check(f"clz.b{bits}", one, 32, lambda a: bits - a.bit_length())
        check(f"brev.b{bits}", one, bits, lambda a: int(f"{a:0{bits}b}"[::-1], 2))

    @pytest.mark.parametrize("sign", ["u", "s"])
    def test_bfind(self, bits: int, sign: str) -> None:
        def find(a: int) -> int:
            if sign == "s" and a >> (bits - 1):
                a ^= (1 << bits) - 1
            return a.bit_length() - 1

        one = [(bits, patterns(bits))]
        check(f"bfind.{sign}{bits}", one, 32, find)
        check(
            f"bfind.shiftamt.{sign}{bits}",
            one,
            32,
            lambda a: -1 if find(a) < 0 else bits - 1 - find(a),
        )


def test_fns() -> None:
    def nth(mask: int, base: int, offset: int) -> int:
        offset = signed(offset, 32)
        if offset == 0:
            return base if mask >> base & 1 else -1
        step, left = (1 if offset > 0 else -1), abs(offset)
        place = base
        while 0 <= place < 32:
            left -= mask >> place & 1
            if left == 0:
                return place
            place += step
        return -1

    offsets = [x % 2**32 for x in (0, 1, -1, 2, -3, 5, 32, -33)]
    masks = [0, 0xAAAAAAAA, 0xFFFFFFFF, 1, 0x80000000, *patterns(32)[-3:]]
    check("fns.b32", [(32, masks), (32, [0, 2, 3, 16, 31]), (32, offsets)], 32, nth)


PLACES = [0, 1, 5, 8, 15, 31, 32, 33, 63, 64, 100, 255]


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_bfe(kind: str) -> None:
    bits = int(kind[1:])

    def extract(a: int, place: int, length: int) -> int:
        top = bits - 1
        sign = 0
        if kind[0] == "s" and length:
            sign = a >> min(place + length - 1, top) & 1
        return sum(
            (a >> (place + i) & 1 if i < length and place + i <= top else sign) << i
            for i in range(bits)
        )

    check(f"bfe.{kind}", [(bits, patterns(bits)), (32, PLACES), (32, PLACES)], bits, extract)


@pytest.mark.parametrize("bits", [32, 64])
def test_bfi(bits: int) -> None:
    def insert(a: int, b: int, place: int, length: int) -> int:
        for i in range(length):
            if place + i < bits:
                b = b & ~(1 << (place + i)) | (a >> i & 1) << (place + i)
        return b

    some = patterns(bits)[-5:]
    check(f"bfi.b{bits}", [(bits, some), (bits, some), (32, PLACES), (32, PLACES)], bits, insert)


def test_fields_of_32_bits_use_the_low_8_bits_of_their_place() -> None:
    assert compute("bfe.u32 %r1, %r0, 260, 259;", "%r1", {"%r0": np.uint32(0xABCD)}) == 0x4


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_szext_and_bmsk(mode: str) -> None:
    places = [0, 1, 4, 16, 30, 31, 32, 33, 40, 64, 2**32 - 1]
    ones = 0xFFFFFFFF

    def extend(kind: str):
        def of(a: int, b: int) -> int:
            b1 = b & 31
            large = b >= 32 and mode == "clamp"
            mask = 0 if large else ones << b1 & ones
            sign = kind == "s32" and b1 != 0 and not large and a >> (b1 - 1) & 1
            return a & ~mask | (mask if sign else 0)

        return of

    for kind in ("s32", "u32"):
        check(f"szext.{mode}.{kind}", [(32, patterns(32)), (32, places)], 32, extend(kind))

    def mask_of(a: int, b: int) -> int:
        mask0, b1 = ones << (a & 31) & ones, b & 31
        total = (a & 31) + b1
        mask1 = ones << total
        over = total >= 32
        if mode == "clamp":
            mask0 = 0 if a >= 32 else mask0
            over = over or a >= 32 or b >= 32
        mask1 = 0 if over else ones if b1 == 0 else mask1
        return mask0 & ~mask1

    check(f"bmsk.{mode}.b32", [(32, places), (32, places)], 32, mask_of)


@pytest.mark.parametrize("bits", [16, 32, 64])
class TestLogic:
    def test_bitwise(self, bits: int) -> None:
        two = [(bits, patterns(bits))] * 2
        check(f"and.b{bits}", two, bits, lambda a, b: a & b)
        check(f"or.b{bits}", two, bits, lambda a, b: a | b)
        check(f"xor.b{bits}", two, bits, lambda a, b: a ^ b)
        check(f"not.b{bits}", two[:1], bits, lambda a: ~a)
        check(f"cnot.b{bits}", two[:1], bits, lambda a: int(a == 0))

    def test_shifts_clamp(self, bits: int) -> None:
        two = [(bits, patterns(bits)), (32, SHIFTS)]
        mask = (1 << bits) - 1

        def left(a: int, by: int) -> int:
            return a << min(by, bits) & mask

        check(f"shl.b{bits}", two, bits, left)
        for kind in ("b", "u"):
            check(f"shr.{kind}{bits}", two, bits, lambda a, by: a >> min(by, bits))
        check(f"shr.s{bits}", two, bits, lambda a, by: signed(a, bits) >> min(by, bits))

    def test_a_constant_shift_is_the_same(self, bits: int) -> None:
        for by in (0, 3, 15, 16, 31, 32, 40, 63, 64, 1000):
            one = [(bits, patterns(bits))]
            tail = f", {by}"
            check(f"shl.b{bits}", one, bits, lambda a, n=by: a << min(n, bits), tail)
            check(f"shr.u{bits}", one, bits, lambda a, n=by: a >> min(n, bits), tail)
            check(f"shr.s{bits}", one, bits, lambda a, n=by: signed(a, bits) >> min(n, bits), tail)


def test_predicates() -> None:
    p = np.array([0, 0, 1, 1], bool)
    q = np.array([0, 1, 0, 1], bool)
    body = (
        "and.pred %p2, %p0, %p1; or.pred %p3, %p0, !%p1; xor.pred %p4, %p0, %p1; not.pred %p5, %p0;"
    )
    out = compute(body, ("%p2", "%p3", "%p4", "%p5"), {"%p0": p, "%p1": q})
    for got, want in zip(out, (p & q, p | ~q, p ^ q, ~p), strict=True):
        assert got.tolist() == want.tolist()


def test_lop3_has_all_256_functions() -> None:
    a, b, c = (np.array(x, np.uint32) for x in ([0xF0F0F0F0], [0xCCCCCCCC], [0xAAAAAAAA]))
    for table in range(256):
        body = f"lop3.b32 %r3, %r0, %r1, %r2, {table};"
        got = compute(body, "%r3", {"%r0": a, "%r1": b, "%r2": c})
        assert int(got[0]) == table * 0x01010101, table


def test_lop3_with_a_predicate() -> None:
    a = np.array([0, 5, 0, 5], np.uint32)
    q = np.array([0, 0, 1, 1], bool)
    inputs = {"%r0": a, "%r1": np.uint32(7), "%p0": q}
    body = (
        "lop3.or.b32 %r3|%p1, %r0, %r1, 0, 0xC0, %p0; lop3.and.b32 _|%p2, %r0, %r1, 0, 0xC0, %p0;"
    )
    d, either, both = compute(body, ("%r3", "%p1", "%p2"), inputs)
    assert d.tolist() == [0, 5, 0, 5]
    assert either.tolist() == [False, True, True, True]
    assert both.tolist() == [False, False, False, True]


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_funnel_shifts(mode: str) -> None:
    def amount(by: int) -> int:
        return min(by, 32) if mode == "clamp" else by & 31

    some = patterns(32)[-6:] + [0, 0xFFFFFFFF]
    three = [(32, some), (32, some), (32, SHIFTS)]
    check(f"shf.l.{mode}.b32", three, 32, lambda a, b, n: ((b << 32 | a) << amount(n)) >> 32)
    check(f"shf.r.{mode}.b32", three, 32, lambda a, b, n: (b << 32 | a) >> amount(n))


# The manual's tables: for selector 0 to 3, source bytes d.b3 to d.b0.
PRMT = {
    "f4e": ["3210", "4321", "5432", "6543"],
    "b4e": ["5670", "6701", "7012", "0123"],
    "rc8": ["0000", "1111", "2222", "3333"],
    "ecl": ["3210", "3211", "3222", "3333"],
    "ecr": ["0000", "1110", "2210", "3210"],
    "rc16": ["1010", "3232", "1010", "3232"],
}


@pytest.mark.parametrize("mode", PRMT)
def test_prmt_modes(mode: str) -> None:
    def pick(a: int, b: int, c: int) -> int:
        source = (b << 32 | a).to_bytes(8, "little")
        return int.from_bytes(bytes(source[int(x)] for x in PRMT[mode][c & 3]), "big")

    check(
        f"prmt.b32.{mode}",
        [(32, [0x33221100, 0x81828384]), (32, [0x77665544, 0xFEDCBA98]), (32, [0, 1, 2, 3, 7])],
        32,
        pick,
    )


def test_prmt_picks_bytes_and_signs() -> None:
    def pick(a: int, b: int, c: int) -> int:
        source = (b << 32 | a).to_bytes(8, "little")
        out = 0
        for at in range(4):
            one = c >> 4 * at & 15
            byte = source[one & 7]
            byte = (255 if byte >> 7 else 0) if one & 8 else byte
            out |= byte << 8 * at
        return out

    some = [0x33221100, 0x81028304, 0xFFFFFFFF]
    # Constant selectors: neighbours, words joined and taken apart, and any bytes.
    for constant in (
        0x3210,
        0x5410,
        0x7632,
        0x0123,
        0x4321,
        0x5432,
        0x7777,
        0x1032,
        0x3340,
        0x6420,
    ):
        check(
            "prmt.b32",
            [(32, some), (32, some)],
            32,
            lambda a, b, c=constant: pick(a, b, c),
            f", {constant}",
        )
    selectors = [0x3210, 0x5410, 0x7632, 0xBA98, 0xF0F8, 0x76543210, *patterns(32)[-6:]]
    check("prmt.b32", [(32, some), (32, some), (32, selectors)], 32, pick)


@pytest.mark.parametrize(
    "text",
    [
        "popc.b16 %r0, %h0;",
        "shl.s32 %r0, %r1, %r2;",
        "shf.l.b32 %r0, %r1, %r2, %r3;",
        "lop3.b32 %r0, %r1, %r2, %r3, %r4;",
        "prmt.b32.abc %r0, %r1, %r2, %r3;",
        "and.u32 %r0, %r1, %r2;",
    ],
)
def test_a_form_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(Unsupported):
        compute(text, "%r0")
