"""16-bit floats, single and packed, manual 9.7.4."""

from __future__ import annotations

import numpy as np

from .case import Case, elementwise
from .values import everything, numpy_of, small, values

COUNT = 1024


def binary(name: str, type_: str, count: int = COUNT) -> Case:
    operands = [("a", type_), ("b", type_)]
    return elementwise(name, f"{name} %d, %a, %b;", operands, [("d", type_)], count=count)


def ternary(name: str, type_: str, count: int = COUNT) -> Case:
    operands = [("a", type_), ("b", type_), ("c", type_)]
    return elementwise(name, f"{name} %d, %a, %b, %c;", operands, [("d", type_)], count=count)


def unary(name: str, type_: str, count: int = COUNT) -> Case:
    return elementwise(name, f"{name} %d, %a;", [("a", type_)], [("d", type_)], count=count)


def half() -> list[Case]:
    cases = []
    for t in ("f16", "bf16", "f16x2", "bf16x2"):
        count = 512 if t.endswith("x2") else COUNT
        is_f16 = t.startswith("f")
        modes = ("", ".rn", ".ftz", ".sat", ".rn.ftz.sat") if is_f16 else ("", ".rn")
        for op in ("add", "sub", "mul"):
            cases += [binary(f"{op}{m}.{t}", t, count) for m in modes]
        modes = (".rn", ".rn.ftz", ".rn.sat", ".rn.ftz.sat", ".rn.relu", ".rn.ftz.relu")
        for m in modes if is_f16 else (".rn", ".rn.relu"):
            cases.append(ternary(f"fma{m}.{t}", t, count))
        cases += [ternary(f"fma.rn.oob{m}.{t}", t, count) for m in ("", ".relu")]
        modes = ("", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs") + (
            (".ftz", ".ftz.NaN") if is_f16 else ()
        )
        for op in ("min", "max"):
            cases += [binary(f"{op}{m}.{t}", t, count) for m in modes]
        for op in ("abs", "neg"):
            cases += [unary(f"{op}{m}.{t}", t) for m in (("", ".ftz") if is_f16 else ("",))]
    cases += [oob(t) for t in ("f16", "bf16", "f16x2", "bf16x2")]
    return cases + approximations()


def oob(type_: str) -> Case:
    """fma.oob among NaNs near the one that a tensor copy fills with, 0x7ff7."""

    def near(seed: str):
        def make(count: int) -> np.ndarray:
            numbers = values("f16", seed, count * 2)
            special = small(seed, count * 2, 0x7FF4, 0x7FFF, "u16") ^ (numbers & 0x8000)
            mixed = np.where(np.arange(count * 2) % 3 == 0, special, numbers).astype(np.uint16)
            return mixed.view(numpy_of(type_))[:count]

        return make

    operands = [
        ("a", type_, near("oob/a")),
        ("b", type_, near("oob/b")),
        ("c", type_, near("oob/c")),
    ]
    body = f"fma.rn.oob.{type_} %d, %a, %b, %c;"
    return elementwise(f"oob.{type_}", body, operands, [("d", type_)], count=256)


def approximations() -> list[Case]:
    """ex2 and tanh, over every bit pattern."""
    cases = []
    for t, name in (
        ("f16", "ex2.approx.f16"),
        ("f16", "tanh.approx.f16"),
        ("bf16", "ex2.approx.ftz.bf16"),
        ("bf16", "tanh.approx.bf16"),
    ):
        every = [("a", t, lambda count, t=t: everything(t))]
        cases.append(elementwise(name, f"{name} %d, %a;", every, [("d", t)], count=65536))
        cases.append(unary(f"{name}x2", f"{t}x2", count=512))
    return cases
