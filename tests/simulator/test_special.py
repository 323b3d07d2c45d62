"""Roots, reciprocals and transcendental functions: the manual's tables and bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from checkers.simulator.ptx.modifiers import Unsupported
from tests.simulator.registers_harness import compute

NAN = 0x7FFFFFFF
_RNG = np.random.default_rng(5)
_INF = math.inf


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def bits(values: np.ndarray) -> list[int]:
    return values.view(f"u{values.itemsize}").tolist()


# The manual's tables, but for zeros that keep their sign.
TABLES = {
    "rcp.approx.f32": {-_INF: -0.0, _INF: 0.0},
    "sqrt.approx.f32": {-_INF: "nan", -2.0: "nan", _INF: _INF},
    "rsqrt.approx.f32": {-_INF: "nan", -2.0: "nan", _INF: 0.0},
    "sin.approx.f32": {-_INF: "nan", _INF: "nan"},
    "cos.approx.f32": {-_INF: "nan", 0.0: 1.0, _INF: "nan"},
    "lg2.approx.f32": {-_INF: "nan", -2.0: "nan", 0.0: -_INF, _INF: _INF, 8.0: 3.0},
    "ex2.approx.f32": {-_INF: 0.0, 0.0: 1.0, _INF: _INF, -150.0: 0.0, 5.0: 32.0},
    "tanh.approx.f32": {-_INF: -1.0, _INF: 1.0},
}


@pytest.mark.parametrize("text", TABLES)
def test_the_manuals_table(text: str) -> None:
    for given, want in [*TABLES[text].items(), (math.nan, "nan")]:
        got = bits(compute(f"{text} %f7, %f0;", "%f7", {"%f0": f32(given)}))
        expected = [NAN] if want == "nan" else bits(f32(want))
        assert got == expected, (text, given)


@pytest.mark.parametrize(
    ("text", "plus", "minus"),
    [
        ("rcp.approx.f32", _INF, -_INF),
        ("sqrt.approx.f32", 0.0, -0.0),
        ("rsqrt.approx.f32", _INF, -_INF),
        ("sin.approx.f32", 0.0, -0.0),
        ("tanh.approx.f32", 0.0, -0.0),
    ],
)
def test_zeros_keep_their_sign(text: str, plus: float, minus: float) -> None:
    got = compute(f"{text} %f7, %f0;", "%f7", {"%f0": f32(0.0, -0.0)})
    assert bits(got) == bits(f32(plus, minus))


@pytest.mark.parametrize(
    ("text", "function", "low", "high", "relative"),
    [
        ("rcp.approx.ftz.f32", lambda x: 1 / x, 1e-30, 1e30, 2.0**-23),
        ("sqrt.approx.f32", math.sqrt, 1e-30, 1e30, 2.0**-23),
        ("rsqrt.approx.f32", lambda x: 1 / math.sqrt(x), 1e-30, 1e30, 2.0**-22.9),
        ("lg2.approx.f32", math.log2, 4, 1e30, 2.0**-22),
        ("ex2.approx.f32", lambda x: 2.0**x, 1e-3, 100, 2.0**-22),
        ("tanh.approx.f32", math.tanh, 1e-3, 10, 2.0**-11),
    ],
)
def test_bounds(text: str, function, low: float, high: float, relative: float) -> None:
    x = np.exp(_RNG.uniform(np.log(low), np.log(high), 500)).astype(np.float32)
    got = compute(f"{text} %f7, %f0;", "%f7", {"%f0": x})
    for one, result in zip(x.tolist(), got.tolist(), strict=True):
        assert abs(result - function(one)) <= relative * abs(function(one))


def test_ex2_has_subnormal_results_unless_they_are_flushed() -> None:
    x = {"%f0": f32(-128, -148, -126)}
    small = [2.0**-128, 2.0**-148, 2.0**-126]
    assert compute("ex2.approx.f32 %f7, %f0;", "%f7", x).tolist() == small
    assert compute("ex2.approx.ftz.f32 %f7, %f0;", "%f7", x).tolist() == [0, 0, 2.0**-126]


def test_a_subnormal_operand_of_rcp_ftz_is_zero() -> None:
    x = {"%f0": np.array([1, 0x80000001], np.uint32)}
    assert compute("rcp.approx.ftz.f32 %f7, %f0;", "%f7", x).tolist() == [_INF, -_INF]


def test_div_approx_loses_divisors_near_the_top() -> None:
    huge = 1.5 * 2.0**126
    inputs = {"%f0": f32(1, -1, _INF, 2.0**100, 3), "%f1": f32(huge, huge, huge, 2.0**126, 2)}
    got = bits(compute("div.approx.f32 %f7, %f0, %f1;", "%f7", inputs))
    assert got == [*bits(f32(0, -0.0)), NAN, *bits(f32(2.0**-26, 1.5))]
    got = compute("div.full.f32 %f7, %f0, %f1;", "%f7", inputs)
    assert got[2] == _INF and abs(got[0] * huge - 1) < 2.0**-20
    assert got.tolist()[3:] == [2.0**-26, 1.5]


def test_gross_approximations_of_f64() -> None:
    x = {"%fd0": np.array([4.0, 0.0, -0.0, -_INF, 5e-324, -5e-324, np.nan, 3.0])}
    got = compute("rcp.approx.ftz.f64 %fd7, %fd0;", "%fd7", x)
    assert bits(got)[:6] == bits(np.array([0.25, _INF, -_INF, -0.0, _INF, -_INF]))
    assert bits(got)[6] == 0x7FFFFFFF00000000
    assert bits(got)[7] & 0xFFFFFFFF == 0 and abs(got[7] - 1 / 3) < 1e-6
    got = compute("rsqrt.approx.ftz.f64 %fd7, %fd0;", "%fd7", x)
    assert got.tolist()[:3] == [0.5, _INF, -_INF] and bits(got)[3] == 0x7FFFFFFF00000000
    assert compute("rsqrt.approx.f64 %fd7, %fd0;", "%fd7", {"%fd0": np.array([16.0])})[0] == 0.25


@pytest.mark.parametrize(
    "text",
    [
        "rcp.f32 %f0, %f1;",
        "rsqrt.rn.f32 %f0, %f1;",
        "sqrt.approx.f64 %fd0, %fd1;",
        "sqrt.rn.ftz.f64 %fd0, %fd1;",
        "ex2.f32 %f0, %f1;",
        "ex2.approx.f64 %fd0, %fd1;",
        "tanh.approx.ftz.f32 %f0, %f1;",
        "sin.approx.sat.f32 %f0, %f1;",
    ],
)
def test_a_form_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(Unsupported):
        compute(text, "%f0")
