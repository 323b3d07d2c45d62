"""Comparisons and selections: setp, set, selp, slct."""

from __future__ import annotations

import operator

import numpy as np
import pytest

from checkers.simulator.ptx.modifiers import Unsupported
from tests.simulator.registers_harness import compute

_NAN = float("nan")
FLOATS = [(1.0, 2.0), (2.0, 1.0), (1.0, 1.0), (0.0, -0.0), (_NAN, 1.0), (1.0, _NAN), (_NAN, _NAN)]
ORDERED = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}


def truth(name: str, a: float, b: float) -> bool:
    """The manual's rules."""
    unordered = a != a or b != b
    if name == "num":
        return not unordered
    if name == "nan":
        return unordered
    if unordered:
        return name.endswith("u")
    return bool(ORDERED[name.removesuffix("u")](a, b))


FLOAT_TESTS = [*ORDERED, *(f"{name}u" for name in ORDERED), "num", "nan"]


def pairs(kind: str) -> dict[str, np.ndarray]:
    a, b = (np.array([pair[at] for pair in FLOATS]) for at in (0, 1))
    if kind == "f64":
        return {"%fd0": a, "%fd1": b}
    a, b = a.astype(np.float32), b.astype(np.float32)
    if kind == "f32":
        return {"%f0": a, "%f1": b}
    if kind == "f16":
        return {"%h0": a.astype(np.float16), "%h1": b.astype(np.float16)}
    return {f"%h{at}": (x.view(np.uint32) >> 16).astype(np.uint16) for at, x in enumerate((a, b))}


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("name", FLOAT_TESTS)
def test_floats(kind: str, name: str) -> None:
    inputs = pairs(kind)
    a, b = inputs
    want = [truth(name, *pair) for pair in FLOATS]
    assert compute(f"setp.{name}.{kind} %p0, {a}, {b};", "%p0", inputs).tolist() == want
    got = compute(f"set.{name}.u32.{kind} %r7, {a}, {b};", "%r7", inputs)
    assert got.tolist() == [0xFFFFFFFF if x else 0 for x in want]


INTEGERS = [(0, 0), (1, 2), (2, 1), (0xFFFF, 1), (0x8000, 0x7FFF), (0x7FFF, 0x8000)]


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_integers(kind: str) -> None:
    width = int(kind[1:])
    register = {16: "%h", 32: "%r", 64: "%rd"}[width]
    shift = width - 16
    inputs = {
        f"{register}{at}": np.array([pair[at] << shift for pair in INTEGERS], f"u{width // 8}")
        for at in (0, 1)
    }

    def value(x: int) -> int:
        return x - 0x10000 if kind[0] == "s" and x >= 0x8000 else x

    rules = dict(ORDERED)
    if kind[0] == "u":
        names = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
        rules |= {name: ORDERED[other] for name, other in names.items()}
    for name, rule in rules.items():
        got = compute(f"setp.{name}.{kind} %p0, {register}0, {register}1;", "%p0", inputs)
        assert got.tolist() == [rule(value(a), value(b)) for a, b in INTEGERS], name
    for name in ("eq", "ne"):
        got = compute(f"setp.{name}.b{width} %p0, {register}0, {register}1;", "%p0", inputs)
        assert got.tolist() == [ORDERED[name](a, b) for a, b in INTEGERS]


@pytest.mark.parametrize(
    ("join", "rule"), [("and", operator.and_), ("or", operator.or_), ("xor", operator.xor)]
)
def test_a_predicate_is_joined_to_both_results(join: str, rule) -> None:
    inputs = {
        "%r0": np.array([1, 1, 3, 3], np.uint32),
        "%r1": np.uint32(2),
        "%p0": np.array([0, 1, 0, 1], bool),
    }
    less, c = [True, True, False, False], [False, True, False, True]
    p, q = compute(f"setp.lt.{join}.s32 %p1|%p2, %r0, %r1, %p0;", ("%p1", "%p2"), inputs)
    assert p.tolist() == [rule(a, b) for a, b in zip(less, c, strict=True)]
    assert q.tolist() == [rule(not a, b) for a, b in zip(less, c, strict=True)]
    p, q = compute(f"setp.lt.{join}.s32 %p1|%p2, %r0, %r1, !%p0;", ("%p1", "%p2"), inputs)
    assert p.tolist() == [rule(a, not b) for a, b in zip(less, c, strict=True)]
    # The destination may be the predicate that is read.
    p, q = compute(f"setp.lt.{join}.s32 %p0|%p2, %r0, %r1, %p0;", ("%p0", "%p2"), inputs)
    assert q.tolist() == [rule(not a, b) for a, b in zip(less, c, strict=True)]


def test_a_pair_of_predicates_and_sinks() -> None:
    inputs = {"%r0": np.array([1, 3], np.uint32), "%r1": np.uint32(2)}
    p, q = compute("setp.lt.u32 %p1|%p2, %r0, %r1;", ("%p1", "%p2"), inputs)
    assert (p.tolist(), q.tolist()) == ([True, False], [False, True])
    assert compute("setp.lt.u32 _|%p2, %r0, %r1;", "%p2", inputs).tolist() == [False, True]


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_packed_halves_give_a_predicate_each(kind: str) -> None:
    one, two = (0x3C00, 0x4000) if kind == "f16" else (0x3F80, 0x4000)
    inputs = {
        "%r0": np.array([one | two << 16, two | one << 16, 0x7FFF | one << 16], np.uint32),
        "%r1": np.array([two | one << 16, two | two << 16, one | 0xFFFF << 16], np.uint32),
        "%p0": np.array([1, 0, 1], bool),
    }
    p, q = compute(f"setp.lt.{kind}x2 %p1|%p2, %r0, %r1;", ("%p1", "%p2"), inputs)
    assert p.tolist() == [True, False, False]
    assert q.tolist() == [False, True, False]
    p, q = compute(f"setp.ltu.and.{kind}x2 %p1|%p2, %r0, %r1, %p0;", ("%p1", "%p2"), inputs)
    assert p.tolist() == [True, False, True]
    assert q.tolist() == [False, False, True]
    got = compute(f"set.lt.u32.{kind}x2 %r7, %r0, %r1;", "%r7", inputs)
    assert got.tolist() == [0xFFFF, 0xFFFF0000, 0]
    got = compute(f"set.lt.or.{kind}x2.{kind}x2 %r7, %r0, %r1, %p0;", "%r7", inputs)
    assert got.tolist() == [one | one << 16, one << 16, one | one << 16]


def test_what_set_writes() -> None:
    inputs = {"%r0": np.array([1, 3], np.uint32), "%r1": np.uint32(2)}
    want = {
        ("u32", "%r7"): 0xFFFFFFFF,
        ("s32", "%r7"): 0xFFFFFFFF,
        ("f32", "%r7"): 0x3F800000,
        ("f16", "%h7"): 0x3C00,
        ("bf16", "%h7"): 0x3F80,
    }
    for (kind, register), true in want.items():
        got = compute(f"set.lt.{kind}.s32 {register}, %r0, %r1;", register, inputs)
        assert got.tolist() == [true, 0], kind
    half = {"%h0": np.array([0x3C00, 0x4000], np.uint16), "%h1": np.array([0x3E00], np.uint16)}
    got = compute("set.lt.u16.f16 %h7, %h0, %h1;", "%h7", half)
    assert got.tolist() == [0xFFFF, 0]


def test_ftz_compares_subnormals_as_zeros() -> None:
    small = {"%f0": np.array([1], np.uint32), "%h0": np.array([1], np.uint16)}
    assert compute("setp.gt.f32 %p0, %f0, 0f00000000;", "%p0", small)[0]
    assert not compute("setp.gt.ftz.f32 %p0, %f0, 0f00000000;", "%p0", small)[0]
    assert compute("setp.gt.f16 %p0, %h0, 0;", "%p0", small)[0]
    assert not compute("setp.gt.ftz.f16 %p0, %h0, 0;", "%p0", small)[0]


def test_selp() -> None:
    inputs = {"%p0": np.array([1, 0], bool), "%r0": np.uint32(5), "%f0": np.float32(2.5)}
    assert compute("selp.b32 %r7, %r0, -1, %p0;", "%r7", inputs).tolist() == [5, 0xFFFFFFFF]
    assert compute("selp.u64 %rd7, 1, 0, %p0;", "%rd7", inputs).tolist() == [1, 0]
    assert compute("selp.f32 %f7, %f0, 0f3F800000, !%p0;", "%f7", inputs).tolist() == [1, 2.5]
    assert compute("selp.b16 %h7, 7, 9, %p0;", "%h7", inputs).tolist() == [7, 9]


def test_slct() -> None:
    inputs = {
        "%r0": np.array([5, 0, 0xFFFFFFFF], np.uint32),
        "%f0": np.array([-0.0, np.nan, -1e-40], np.float32),
        "%r1": np.uint32(1),
        "%r2": np.uint32(2),
    }
    assert compute("slct.u32.s32 %r7, %r1, %r2, %r0;", "%r7", inputs).tolist() == [1, 1, 2]
    assert compute("slct.b32.f32 %r7, %r1, %r2, %f0;", "%r7", inputs).tolist() == [1, 2, 2]
    assert compute("slct.ftz.b32.f32 %r7, %r1, %r2, %f0;", "%r7", inputs).tolist() == [1, 2, 1]


@pytest.mark.parametrize(
    "text",
    [
        "setp.lt.b32 %p0, %r0, %r1;",
        "setp.lo.s32 %p0, %r0, %r1;",
        "setp.equ.u32 %p0, %r0, %r1;",
        "setp.hi.f32 %p0, %f0, %f1;",
        "setp.u32 %p0, %r0, %r1;",
        "setp.lt.and.u32 %p0, %r0, %r1;",
        "setp.lt.ftz.bf16 %p0, %h0, %h1;",
        "set.lt.u64.u32 %rd0, %r0, %r1;",
        "selp.pred %p0, %p1, %p2, %p3;",
        "slct.u32.u32 %r0, %r1, %r2, %r3;",
    ],
)
def test_a_form_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(Unsupported):
        compute(text, "%p0")
