"""f32 and f64 instructions against rational arithmetic and against the manual's tables."""

from __future__ import annotations

import itertools
import operator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.simulator.ptx.modifiers import Unsupported
from tests.simulator.rational import F32, F64, Binary, interesting
from tests.simulator.registers_harness import compute

NAN = 0x7FFFFFFF
MODES = ["rn", "rz", "rm", "rp"]


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def bits(values: np.ndarray) -> list[int]:
    return values.view(f"u{values.itemsize}").tolist()


def exact_cases(form: Binary, count: int, take: int):
    """Rows of codes of ``form``, all combinations of some and random rows of others."""
    codes = interesting(form)
    rng = np.random.default_rng(count)
    few = codes[:: max(1, len(codes) // take)].tolist()
    rows = list(itertools.product(few, repeat=count))
    rows += rng.choice(codes, (400, count)).tolist()
    return rows


def check_exact(
    text: str, form: Binary, count: int, function, mode: str = "rn", take: int = 24
) -> None:
    """``text`` gives the exact result rounded once, wherever that is finite and not zero; and a NaN
    wherever an operand is one."""
    rows = exact_cases(form, count, take)
    register, kind = ("%f", "u4") if form is F32 else ("%fd", "u8")
    names = [f"{register}{at}" for at in range(count)]
    inputs = {name: np.array([row[at] for row in rows], kind) for at, name in enumerate(names)}
    got = bits(compute(f"{text} {register}7, {', '.join(names)};", f"{register}7", inputs))
    tested = 0
    for row, code in zip(rows, got, strict=True):
        values = [form.value(x) for x in row]
        if "nan" in values:
            assert code == NAN if form is F32 else form.value(code) == "nan", (text, row)
            continue
        if any(isinstance(v, str) for v in values):
            continue
        exact = function(*values)
        if exact:
            assert code == form.round(exact, mode), (text, [hex(x) for x in row], hex(code))
            tested += 1
        elif exact == 0:
            assert code in (0, 1 << (form.bits - 1)), (text, row)
    assert tested > 200


def quotient(a: Fraction, b: Fraction) -> Fraction | None:
    return a / b if b else None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("kind", "form"), [("f32", F32), ("f64", F64)])
class TestRounding:
    def test_sum_product_quotient(self, kind: str, form: Binary, mode: str) -> None:
        take = 24 if kind == "f32" else 12
        check_exact(f"add.{mode}.{kind}", form, 2, operator.add, mode, take)
        check_exact(f"sub.{mode}.{kind}", form, 2, operator.sub, mode, take)
        check_exact(f"mul.{mode}.{kind}", form, 2, operator.mul, mode, take)
        check_exact(f"div.{mode}.{kind}", form, 2, quotient, mode, take)

    def test_fused(self, kind: str, form: Binary, mode: str) -> None:
        for opcode in ("fma", "mad"):
            check_exact(f"{opcode}.{mode}.{kind}", form, 3, lambda a, b, c: a * b + c, mode, 8)

    def test_square_root(self, kind: str, form: Binary, mode: str) -> None:
        codes = [c for c in interesting(form, 200).tolist() if c >> (form.bits - 1) == 0]
        codes += [form.round(Fraction(x) ** 2) for x in (3, 5, 7, 0.75, 1.5)]
        register = "%f" if kind == "f32" else "%fd"
        inputs = {f"{register}0": np.array(codes, f"u{form.bits // 8}")}
        got = bits(compute(f"sqrt.{mode}.{kind} {register}7, {register}0;", f"{register}7", inputs))
        for code, root in zip(codes, got, strict=True):
            x = form.value(code)
            if isinstance(x, str) or x == 0:
                continue
            # root is the right one if x lies where rounding gives it: squares of its neighbours.
            exact, below = form.value(root), form.value(root - 1)
            above = form.value(root + 1)
            assert isinstance(exact, Fraction) and isinstance(above, Fraction)
            assert isinstance(below, Fraction)
            if mode == "rn":
                assert ((below + exact) / 2) ** 2 <= x <= ((above + exact) / 2) ** 2
            elif mode == "rp":
                assert below**2 < x <= exact**2
            else:
                assert exact**2 <= x < above**2


@settings(max_examples=300, deadline=None)
@given(*[st.integers(0, 2**32 - 1)] * 3)
def test_fma_is_rounded_once(a: int, b: int, c: int) -> None:
    values = [F32.value(x) for x in (a, b, c)]
    inputs = {f"%f{at}": np.array([x], np.uint32) for at, x in enumerate((a, b, c))}
    got = bits(compute("fma.rn.f32 %f7, %f0, %f1, %f2;", "%f7", inputs))[0]
    if not any(isinstance(v, str) for v in values):
        exact = values[0] * values[1] + values[2]
        if exact:
            assert got == F32.round(exact)


def test_fma_of_numbers_that_two_roundings_get_wrong() -> None:
    # 1 + 2**-23 + 2**-24 - 2**-70: under a tie, which is what float64 makes of it.
    inputs = {
        "%f0": f32(1 + 2.0**-23),
        "%f1": f32(2.0**-24 * (1 - 2.0**-23)),
        "%f2": f32(1 + 2.0**-23),
    }
    got = compute("fma.rn.f32 %f7, %f0, %f1, %f2;", "%f7", inputs)
    assert got[0] == np.float32(1 + 2.0**-23)


def test_fma_of_f64_keeps_what_the_product_loses() -> None:
    a = np.float64(1 + 2.0**-52)
    inputs = {"%fd0": a, "%fd1": a, "%fd2": np.float64(-(1 + 2.0**-51))}
    assert compute("fma.rn.f64 %fd7, %fd0, %fd1, %fd2;", "%fd7", inputs)[0] == 2.0**-104


class TestZerosAndSpecials:
    def test_an_exact_zero_is_negative_only_when_rounding_down(self) -> None:
        one = {"%f0": f32(1), "%f1": f32(-1), "%f2": f32(1)}
        for mode, want in (("rn", 0), ("rz", 0), ("rp", 0), ("rm", 0x80000000)):
            assert bits(compute(f"add.{mode}.f32 %f7, %f0, %f1;", "%f7", one)) == [want]
            assert bits(compute(f"sub.{mode}.f32 %f7, %f0, %f2;", "%f7", one)) == [want]
            assert bits(compute(f"fma.{mode}.f32 %f7, %f0, %f1, %f2;", "%f7", one)) == [want]

    def test_infinities(self) -> None:
        inf = np.inf
        inputs = {"%f0": f32(inf, inf, -inf, 0, 1), "%f1": f32(inf, -inf, inf, inf, inf)}
        assert bits(compute("add.f32 %f7, %f0, %f1;", "%f7", inputs)) == bits(
            f32(inf, 0, 0, inf, inf)
        )[:1] + [NAN, NAN] + bits(f32(inf, inf))
        assert bits(compute("mul.f32 %f7, %f0, %f1;", "%f7", inputs)) == bits(
            f32(inf, -inf, -inf)
        ) + [NAN] + bits(f32(inf))
        assert bits(compute("div.rn.f32 %f7, %f0, %f1;", "%f7", inputs)) == [NAN] * 3 + [0, 0]
        for mode in MODES:
            got = bits(compute(f"div.{mode}.f32 %f7, %f0, %f1;", "%f7", inputs))
            assert got == [NAN] * 3 + [0, 0]

    def test_division_by_zero(self) -> None:
        inputs = {"%f0": f32(1, -1, 1, 0), "%f1": f32(0, 0, -0.0, 0)}
        for mode in MODES:
            got = bits(compute(f"div.{mode}.f32 %f7, %f0, %f1;", "%f7", inputs))
            assert got == bits(f32(np.inf, -np.inf, -np.inf)) + [NAN]

    def test_overflow_depends_on_the_mode(self) -> None:
        big = np.array([0x7F7FFFFF, 0xFF7FFFFF], np.uint32)
        want = {
            "rn": [0x7F800000, 0xFF800000],
            "rz": [0x7F7FFFFF, 0xFF7FFFFF],
            "rm": [0x7F7FFFFF, 0xFF800000],
            "rp": [0x7F800000, 0xFF7FFFFF],
        }
        for mode in MODES:
            got = compute(f"add.{mode}.f32 %f7, %f0, %f0;", "%f7", {"%f0": big})
            assert bits(got) == want[mode]
            half = f32(0.5)
            got = compute(f"div.{mode}.f32 %f7, %f0, %f1;", "%f7", {"%f0": big, "%f1": half})
            assert bits(got) == want[mode]

    def test_every_nan_becomes_the_canonical_one(self) -> None:
        nans = np.array([0x7F800001, 0xFFC12345, 0x7FC00000], np.uint32)
        for text in (
            "add.f32 %f7, %f0, 1.0;",
            "mul.rz.f32 %f7, %f0, 2.0;",
            "fma.rn.f32 %f7, %f0, 0.0, 1.0;",
            "neg.f32 %f7, %f0;",
            "abs.f32 %f7, %f0;",
            "rcp.rn.f32 %f7, %f0;",
            "sqrt.approx.f32 %f7, %f0;",
            "ex2.approx.ftz.f32 %f7, %f0;",
            "max.NaN.f32 %f7, %f0, 1.0;",
            "max.f32 %f7, %f0, %f0;",
        ):
            assert bits(compute(text, "%f7", {"%f0": nans})) == [NAN] * 3, text


class TestModifiers:
    SMALL = np.array([0x00000001, 0x007FFFFF, 0x00800000, 0x80000001, 0x807FFFFF], np.uint32)

    def test_ftz_flushes_operands_and_results(self) -> None:
        zero, minus = 0, 0x80000000
        got = compute("add.ftz.f32 %f7, %f0, %f0;", "%f7", {"%f0": self.SMALL})
        assert bits(got) == [zero, zero, 0x01000000, minus, minus]
        got = compute("mul.ftz.f32 %f7, %f0, 0f3F000000;", "%f7", {"%f0": self.SMALL})
        assert bits(got) == [zero, zero, zero, minus, minus]
        got = compute("mul.f32 %f7, %f0, 0f3F000000;", "%f7", {"%f0": self.SMALL[2:3]})
        assert bits(got) == [0x00400000]
        got = compute("neg.ftz.f32 %f7, %f0;", "%f7", {"%f0": self.SMALL[:1]})
        assert bits(got) == [minus]

    def test_sat_clamps_and_drops_nans(self) -> None:
        x = f32(-1, -0.0, 0.25, 1, 2, np.inf, np.nan)
        got = compute("add.sat.f32 %f7, %f0, 0f80000000;", "%f7", {"%f0": x})
        assert bits(got) == bits(f32(0, 0, 0.25, 1, 1, 1, 0))

    def test_packed_singles(self) -> None:
        pair = np.array([[1, 2], [np.nan, -3]], np.float32)
        other = np.array([[0.5, 8], [1, 3]], np.float32)
        inputs = {"%rd0": pair.view(np.uint64)[:, 0], "%rd1": other.view(np.uint64)[:, 0]}
        got = compute("add.rn.f32x2 %rd7, %rd0, %rd1;", "%rd7", inputs).view(np.uint32)
        assert got.tolist() == [*bits(f32(1.5, 10)), NAN, 0]
        body = "fma.rn.f32x2 %rd7, %rd0, %rd1, %rd1;"
        got = compute(body, "%rd7", inputs).view(np.uint32)
        assert got.tolist() == [*bits(f32(1, 24)), NAN, bits(f32(-6))[0]]

    def test_mixed_precision_widens_first(self) -> None:
        half = np.array([1.5, -2], np.float16).view(np.uint16)
        brain = f32(1.5, -2).view(np.uint32) >> 16
        c = f32(2.0**-20, 1)
        for kind, raw in (("f16", half), ("bf16", brain.astype(np.uint16))):
            inputs = {"%h0": raw, "%f0": c}
            got = compute(f"add.f32.{kind} %f7, %h0, %f0;", "%f7", inputs)
            assert got.tolist() == [1.5 + 2.0**-20, -1]
            got = compute(f"sub.rn.f32.{kind} %f7, %h0, %f0;", "%f7", inputs)
            assert got.tolist() == [1.5 - 2.0**-20, -3]
            got = compute(f"fma.rn.f32.{kind} %f7, %h0, %h0, %f0;", "%f7", inputs)
            assert got.tolist() == [2.25 + 2.0**-20, 5]


class TestExtremes:
    A = f32(1, 0.0, -0.0, np.nan, 2, np.nan, -np.inf)
    B = f32(2, -0.0, 0.0, 3, np.nan, np.nan, np.inf)

    def both(self, text: str) -> list[int]:
        return bits(compute(f"{text} %f7, %f0, %f1;", "%f7", {"%f0": self.A, "%f1": self.B}))

    def test_zeros_are_ordered_and_nans_lose(self) -> None:
        minus = -0.0
        want = bits(f32(1, minus, minus, 3, 2))
        assert self.both("min.f32") == [*want, NAN, *bits(f32(-np.inf))]
        assert self.both("max.f32") == [*bits(f32(2, 0, 0, 3, 2)), NAN, *bits(f32(np.inf))]

    def test_nan_wins_when_asked(self) -> None:
        assert self.both("min.NaN.f32")[3:6] == [NAN] * 3
        assert self.both("max.NaN.f32")[3:6] == [NAN] * 3
        assert self.both("max.NaN.f32")[:3] == bits(f32(2, 0, 0))

    def test_xorsign(self) -> None:
        inputs = {"%f0": f32(-3, 3, -3, 1, np.nan), "%f1": f32(2, -5, -2, 2, -4)}
        got = compute("max.xorsign.abs.f32 %f7, %f0, %f1;", "%f7", inputs)
        assert got.tolist()[:4] == [-3, -5, 3, 2] and abs(got[4]) == 4
        got = compute("min.xorsign.abs.f32 %f7, %f0, %f1;", "%f7", inputs)
        assert got.tolist()[:4] == [-2, -3, 2, 1]

    def test_three_operands(self) -> None:
        inputs = {"%f0": f32(-3), "%f1": f32(2), "%f2": f32(-5)}
        assert compute("max.f32 %f7, %f0, %f1, %f2;", "%f7", inputs)[0] == 2
        assert compute("max.abs.f32 %f7, %f0, %f1, %f2;", "%f7", inputs)[0] == 5
        assert compute("min.f32 %f7, %f0, %f1, %f2;", "%f7", inputs)[0] == -5
        nan = inputs | {"%f1": f32(np.nan)}
        assert compute("min.f32 %f7, %f0, %f1, %f2;", "%f7", nan)[0] == -5
        assert bits(compute("min.NaN.f32 %f7, %f0, %f1, %f2;", "%f7", nan)) == [NAN]

    def test_f64(self) -> None:
        inputs = {"%fd0": np.array([0.0, np.nan, 1]), "%fd1": np.array([-0.0, 2, 3])}
        got = compute("min.f64 %fd7, %fd0, %fd1;", "%fd7", inputs)
        assert got.tolist() == [0, 2, 1] and np.signbit(got[0])


class TestSmallOnes:
    def test_copysign_takes_the_sign_of_the_first(self) -> None:
        inputs = {"%f0": f32(-1, 1, np.nan), "%f1": f32(3, -3, -np.inf)}
        got = compute("copysign.f32 %f7, %f0, %f1;", "%f7", inputs)
        assert got.tolist() == [-3, 3, np.inf]

    def test_testp(self) -> None:
        x = {"%f0": np.array([0, 1, 0x7F800000, 0xFFC00000, 0x3F800000, 0x80000000], np.uint32)}
        want = {
            "finite": [1, 1, 0, 0, 1, 1],
            "infinite": [0, 0, 1, 0, 0, 0],
            "number": [1, 1, 1, 0, 1, 1],
            "notanumber": [0, 0, 0, 1, 0, 0],
            "normal": [1, 0, 0, 0, 1, 1],
            "subnormal": [0, 1, 0, 0, 0, 0],
        }
        for name, expected in want.items():
            got = compute(f"testp.{name}.f32 %p0, %f0;", "%p0", x)
            assert got.astype(int).tolist() == expected, name

    def test_f64_keeps_its_bits(self) -> None:
        x = {"%fd0": np.array([-1.5, -0.0])}
        assert compute("abs.f64 %fd7, %fd0;", "%fd7", x).tolist() == [1.5, 0]
        assert compute("neg.f64 %fd7, %fd0;", "%fd7", x).tolist() == [1.5, 0]


@pytest.mark.parametrize(
    "text",
    [
        "fma.f32 %f0, %f1, %f2, %f3;",
        "div.f32 %f0, %f1, %f2;",
        "add.ftz.f64 %fd0, %fd1, %fd2;",
        "mul.sat.f32x2 %rd0, %rd1, %rd2;",
        "mul.f32.bf16 %f0, %h1, %f2;",
        "min.NaN.f64 %fd0, %fd1, %fd2;",
        "min.abs.f32 %f0, %f1, %f2;",
        "add.rna.f32 %f0, %f1, %f2;",
        "testp.odd.f32 %p0, %f1;",
    ],
)
def test_a_form_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(Unsupported):
        compute(text, "%f0")
