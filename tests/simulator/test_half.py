"""f16 and bf16 instructions against rational arithmetic: every mode and every packed form."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest

from checkers.simulator.ptx.modifiers import Unsupported
from tests.simulator.rational import BF16, F16, Binary, interesting
from tests.simulator.registers_harness import compute

NAN = 0x7FFF
FORMS = [("f16", F16), ("bf16", BF16)]
ONE = {"f16": 0x3C00, "bf16": 0x3F80}


def half_rows(form: Binary, count: int, take: int) -> list[list[int]]:
    codes = interesting(form, 80)
    few = codes[:: max(1, len(codes) // take)].tolist()
    rows = [list(row) for row in itertools.product(few, repeat=count)]
    return rows + np.random.default_rng(count).choice(codes, (3000, count)).tolist()


def run(text: str, rows: list[list[int]]) -> list[int]:
    """``text`` of one or more 16-bit operands."""
    count = len(rows[0])
    inputs = {f"%h{at}": np.array([row[at] for row in rows], np.uint16) for at in range(count)}
    names = ", ".join(inputs)
    return compute(f"{text} %h7, {names};", "%h7", inputs).tolist()


def check_exact(text: str, form: Binary, count: int, function, take: int = 30) -> None:
    rows = half_rows(form, count, take)
    for row, code in zip(rows, run(text, rows), strict=True):
        values = [form.value(x) for x in row]
        if "nan" in values:
            assert code == NAN
        elif not any(isinstance(v, str) for v in values):
            exact = function(*values)
            want = (form.round(exact),) if exact else (0, 0x8000)
            assert code in want, (text, [hex(x) for x in row], hex(code))


@pytest.mark.parametrize(("kind", "form"), FORMS)
class TestRounding:
    def test_sum_and_product(self, kind: str, form: Binary) -> None:
        check_exact(f"add.{kind}", form, 2, operator.add)
        check_exact(f"sub.rn.{kind}", form, 2, operator.sub)
        check_exact(f"mul.{kind}", form, 2, operator.mul)

    def test_fused(self, kind: str, form: Binary) -> None:
        check_exact(f"fma.rn.{kind}", form, 3, lambda a, b, c: a * b + c, 12)

    def test_infinities(self, kind: str, form: Binary) -> None:
        infinity, one = form.top + 1, ONE[kind]
        rows = [
            [infinity, infinity],
            [infinity, infinity | 0x8000],
            [infinity, one],
            [form.top, form.top],
        ]
        assert run(f"add.{kind}", rows) == [infinity, NAN, infinity, infinity]
        assert run(f"mul.{kind}", [[infinity, 0]]) == [NAN]

    def test_signs(self, kind: str, form: Binary) -> None:
        one, nan = ONE[kind], form.top + 3
        assert run(f"neg.{kind}", [[one], [one | 0x8000], [0], [nan]]) == [
            one | 0x8000,
            one,
            0x8000,
            NAN,
        ]
        assert run(f"abs.{kind}", [[one], [one | 0x8000], [0x8000], [nan | 0x8000]]) == [
            one,
            one,
            0,
            NAN,
        ]

    def test_extremes(self, kind: str, form: Binary) -> None:
        one, nan, minus = ONE[kind], form.top + 5, 0x8000
        rows = [
            [one, one + 1],
            [0, minus],
            [minus, 0],
            [nan, one],
            [one, nan],
            [nan, nan],
            [one | minus, 0],
        ]
        assert run(f"min.{kind}", rows) == [one, minus, minus, one, one, NAN, one | minus]
        assert run(f"max.{kind}", rows) == [one + 1, 0, 0, one, one, NAN, 0]
        assert run(f"max.NaN.{kind}", rows) == [one + 1, 0, 0, NAN, NAN, NAN, 0]
        rows = [[one | minus, one + 1], [one | minus, (one + 1) | minus], [one, 0]]
        assert run(f"max.xorsign.abs.{kind}", rows) == [(one + 1) | minus, one + 1, one]
        assert run(f"min.xorsign.abs.{kind}", rows) == [one | minus, one, 0]

    def test_relu(self, kind: str, form: Binary) -> None:
        one = ONE[kind]
        rows = [[one, one, 0], [one | 0x8000, one, 0], [form.top + 2, one, 0]]
        assert run(f"fma.rn.relu.{kind}", rows) == [one, 0, NAN]

    def test_packed_halves_are_apart(self, kind: str, form: Binary) -> None:
        codes = interesting(form, 60)
        rng = np.random.default_rng(3)
        a, b, c = (rng.choice(codes, 1000).astype(np.uint16) for _ in range(3))
        inputs = {f"%h{at}": value for at, value in enumerate((a, b, c))}
        # The low half of each word is the single instruction's, the high half the next lane's.
        pairs = {f"%r{at}": value.view(np.uint32) for at, value in enumerate((a, b, c))}
        for text, count in (
            ("add", 2), ("sub", 2), ("mul", 2), ("fma.rn", 3), ("neg", 1), ("abs", 1),
            ("min", 2), ("max.NaN", 2), ("fma.rn.relu", 3), ("tanh.approx", 1),
            ("ex2.approx" if kind == "f16" else "ex2.approx.ftz", 1),
        ):  # fmt: skip
            single = ", ".join(f"%h{at}" for at in range(count))
            packed = ", ".join(f"%r{at}" for at in range(count))
            one = compute(f"{text}.{kind} %h7, {single};", "%h7", inputs)
            two = compute(f"{text}.{kind}x2 %r7, {packed};", "%r7", pairs)
            assert np.array_equal(one, two.view(np.uint16)), text


def test_f16_modifiers() -> None:
    one = 0x3C00
    assert run("add.ftz.f16", [[0x03FF, 0], [0x83FF, 0x8000], [0x0400, 0]]) == [0, 0x8000, 0x0400]
    assert run("mul.ftz.f16", [[0x0400, 0x3800]]) == [0]
    assert run("mul.f16", [[0x0400, 0x3800]]) == [0x0200]
    rows = [[one, one], [0xBC00, 0], [0x7C01, 0], [0x3800, 0], [0x8000, 0x8000]]
    assert run("add.sat.f16", rows) == [one, 0, 0, 0x3800, 0]
    assert run("fma.rn.sat.f16", [[one, one, one], [one, 0xBC00, 0]]) == [one, 0]


def test_approximate_functions_of_halves() -> None:
    for kind, form, bound in (("f16", F16, 2.0**-9.9), ("bf16", BF16, 2.0**-7)):
        codes = [c for c in interesting(form, 200).tolist() if isinstance(form.value(c), object)]
        values = [form.value(c) for c in codes]
        ftz = "" if kind == "f16" else ".ftz"
        got = run(f"ex2.approx{ftz}.{kind}", [[c] for c in codes])
        for x, code in zip(values, got, strict=True):
            y = form.value(code)
            if not isinstance(x, str) and -10 < x < 10:
                assert abs(float(y) - 2.0 ** float(x)) <= bound * 2.0 ** float(x)
        got = run(f"tanh.approx.{kind}", [[c] for c in codes])
        for x, code in zip(values, got, strict=True):
            y = form.value(code)
            if not isinstance(x, str):
                assert abs(float(y) - np.tanh(float(x))) <= (
                    # A last place, for the result is cut, and the f32 function's own error.
                    2.0**-10 if kind == "f16" else 2.0**-8 + 2.0**-11
                )
        specials = [0, 0x8000, form.top + 1, form.top + 1 | 0x8000, form.top + 2]
        one = ONE[kind]
        assert run(f"ex2.approx{ftz}.{kind}", [[c] for c in specials]) == [
            one, one, form.top + 1, 0, NAN,
        ]  # fmt: skip
        assert run(f"tanh.approx.{kind}", [[c] for c in specials]) == [
            0,
            0x8000,
            one,
            one | 0x8000,
            NAN,
        ]


def test_ex2_of_bf16_flushes() -> None:
    assert run("ex2.approx.ftz.bf16", [[0x0001], [0x8001], [0xC2FE]]) == [0x3F80, 0x3F80, 0]


def test_constants_of_the_type() -> None:
    assert run("add.f16", [[0x3C00, 0x3C00]]) == [0x4000]
    got = compute("mul.bf16 %h1, %h0, 0x4000;", "%h1", {"%h0": np.array([0x3F80], np.uint16)})
    assert got.tolist() == [0x4000]
    got = compute(
        "add.f16x2 %r1, %r0, 0x3C00BC00;", "%r1", {"%r0": np.array([0x3C003C00], np.uint32)}
    )
    assert got.tolist() == [0x40000000]


@pytest.mark.parametrize(
    "text",
    [
        "add.ftz.bf16 %h0, %h1, %h2;",
        "mul.sat.bf16x2 %r0, %r1, %r2;",
        "add.rz.f16 %h0, %h1, %h2;",
        "fma.rn.sat.relu.f16 %h0, %h1, %h2, %h3;",
        "fma.f16 %h0, %h1, %h2, %h3;",
        "ex2.approx.bf16 %h0, %h1;",
        "max.abs.f16 %h0, %h1, %h2;",
        "div.f16 %h0, %h1, %h2;",
        "add.f16x2 %h0, %h1, %h2;",
    ],
)
def test_a_form_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(Unsupported):
        compute(text, "%h0")
