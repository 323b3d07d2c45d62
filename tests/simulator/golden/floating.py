"""Floating-point arithmetic, manual 9.7.3."""

from __future__ import annotations

import numpy as np

from .case import Case, elementwise
from .values import FORMATS, numpy_of, stream, values

ROUNDINGS = ("rn", "rz", "rm", "rp")
DENSE = 65536


def unary(name: str, type_: str, count: int = 1024) -> Case:
    return elementwise(name, f"{name} %d, %a;", [("a", type_)], [("d", type_)], count=count)


def binary(name: str, type_: str, count: int = 1024) -> Case:
    operands = [("a", type_), ("b", type_)]
    return elementwise(name, f"{name} %d, %a, %b;", operands, [("d", type_)], count=count)


def ternary(name: str, type_: str, count: int = 1024) -> Case:
    def near(total: int) -> np.ndarray:
        """For half of the elements -a*b rounded, or a neighbour: cancellation shows how often fma
        rounds."""
        c = values(type_, f"2/{type_}", total)
        of = {"f32": np.float32, "f64": np.float64}[type_]
        with np.errstate(all="ignore"):
            a, b = (values(type_, f"{k}/{type_}", total).view(of) for k in range(2))
            product = (-(a * b)).view(c.dtype)
        shift = (np.arange(total) % 3 - 1).astype(c.dtype)
        return np.where(np.arange(total) % 2 == 0, product + shift, c)

    operands = [("a", type_), ("b", type_), ("c", type_, near)]
    return elementwise(name, f"{name} %d, %a, %b, %c;", operands, [("d", type_)], count=count)


def tiny(type_: str, name: str) -> Case:
    """Products next to the smallest normal number: does .ftz look before or after rounding?"""
    exponent, mantissa = FORMATS[type_]
    one = ((1 << (exponent - 1)) - 1) << mantissa

    def near(base: int, seed: str):
        def make(count: int) -> np.ndarray:
            offset = (stream(seed, count) % np.uint64(9)).astype(np.int64) - 4
            sign = (stream(f"{seed}/sign", count) & np.uint64(1)).astype(np.int64)
            bits = base + offset + (sign << (exponent + mantissa))
            return bits.astype(numpy_of(type_))

        return make

    operands = [("a", type_, near(1 << mantissa, "a")), ("b", type_, near(one, "b"))]
    sources = "%a, %b"
    if name.startswith("fma"):
        operands.append(("c", type_, near(4, "c")))
        sources = "%a, %b, %c"
    body = f"{name} %d, {sources};"
    return elementwise(f"tiny.{name}", body, operands, [("d", type_)], count=256)


def tininess() -> list[Case]:
    cases = []
    for op in ("mul", "fma", "div"):
        for r in ROUNDINGS:
            cases += [tiny("f32", f"{op}.{r}{m}.f32") for m in ("", ".ftz")]
    for name in ("mul.ftz", "mul", "fma.rn.ftz", "fma.rn"):
        cases.append(tiny("f16", f"{name}.f16"))
    return cases


def floating() -> list[Case]:
    """f32 and f64 with every rounding, and what is exact."""
    cases = []
    for op in ("add", "sub", "mul"):
        for r in ROUNDINGS:
            cases += [binary(f"{op}.{r}{m}.f32", "f32") for m in ("", ".ftz")]
        cases += [binary(f"{op}.{m}.f32", "f32") for m in ("rn.sat", "rz.ftz.sat")]
        cases += [binary(f"{op}.{r}.f64", "f64", count=512) for r in ROUNDINGS]
        cases += [binary(f"{op}.f32", "f32", count=256), binary(f"{op}.f64", "f64", count=256)]
    for op in ("fma", "mad"):
        for r in ROUNDINGS if op == "fma" else ("rn",):
            cases += [ternary(f"{op}.{r}{m}.f32", "f32") for m in ("", ".ftz")]
            cases.append(ternary(f"{op}.{r}.f64", "f64", count=512))
    cases += [ternary(f"fma.{m}.f32", "f32") for m in ("rn.sat", "rp.ftz.sat")]
    for r in ROUNDINGS:
        cases += [binary(f"div.{r}{m}.f32", "f32") for m in ("", ".ftz")]
        cases.append(binary(f"div.{r}.f64", "f64", count=512))
        for op in ("rcp", "sqrt"):
            cases += [unary(f"{op}.{r}{m}.f32", "f32") for m in ("", ".ftz")]
            cases.append(unary(f"{op}.{r}.f64", "f64", count=512))
    for op in ("min", "max"):
        for m in ("", ".ftz", ".NaN", ".ftz.NaN", ".xorsign.abs", ".NaN.xorsign.abs"):
            cases.append(binary(f"{op}{m}.f32", "f32"))
        cases.append(binary(f"{op}.f64", "f64", count=512))
    for op in ("abs", "neg"):
        cases += [unary(f"{op}{m}.f32", "f32") for m in ("", ".ftz")]
        cases.append(unary(f"{op}.f64", "f64", count=512))
    cases += [binary("copysign.f32", "f32"), binary("copysign.f64", "f64", count=512)]
    return cases + tininess()


def dense(name: str, start: int, stop: int) -> Case:
    """``name`` over 65536 evenly spaced bit patterns: from start, before stop."""
    step = (stop - start) // DENSE

    def make(count: int) -> np.ndarray:
        return (start + step * np.arange(count, dtype=np.int64)).astype(np.uint32)

    return elementwise(
        f"dense.{name}.{start:08x}",
        f"{name} %d, %a;",
        [("a", "f32", make)],
        [("d", "f32")],
        count=DENSE,
        compact=True,
    )


def approximate() -> list[Case]:
    """Approximations: bit for bit."""
    cases = []
    for m in ("", ".ftz"):
        cases += [binary(f"div.{form}{m}.f32", "f32") for form in ("approx", "full")]
        cases += [unary(f"{op}.approx{m}.f32", "f32") for op in ("rcp", "sqrt", "rsqrt", "ex2")]
        cases += [unary(f"{op}.approx{m}.f32", "f32") for op in ("lg2", "sin", "cos")]
    cases.append(unary("tanh.approx.f32", "f32"))
    cases += [unary(f"{op}.approx.ftz.f64", "f64", count=512) for op in ("rcp", "rsqrt")]
    half, one, two, four = 0x3F000000, 0x3F800000, 0x40000000, 0x40800000
    for op, start, stop in (
        ("ex2", one, two),
        ("rcp", one, two),
        ("lg2", one, two),
        ("rsqrt", one, four),
        ("sqrt", one, four),
        ("ex2", 0x3C000000, one),
        ("lg2", half, one),
    ):
        cases.append(dense(f"{op}.approx.ftz.f32", start, stop))
    cases.append(dense("tanh.approx.f32", 0x3A000000, 0x42000000))
    return cases
