"""f32 and f64 arithmetic: PTX ISA 9.7.3.1 to 9.7.3.12, and mixed with f16 or bf16 9.7.5.

==============  ============================  ==============================================
opcode          result                        forms
==============  ============================  ==============================================
add, sub, mul   rounded once                  .rnd .ftz .sat f32; .rnd .ftz f32x2; .rnd f64
fma, mad        a * b + c, rounded once       the same; .rnd is required
add, sub, fma   a (and b) widened first       .rnd .sat f32.f16, f32.bf16
div             a / b                         .approx .full .rnd f32, with .ftz; .rnd f64
abs, neg        sign bit                      .ftz f32; f64
min, max        -0 < +0, a NaN loses          .ftz .NaN .xorsign.abs f32, or of three; f64
copysign        b with the sign of a          f32, f64
testp           a property of a               f32, f64
==============  ============================  ==============================================

.rnd is .rn (the default of add, sub and mul), .rz, .rm or .rp. An f32 result that is a NaN is
0x7fffffff, also of abs and neg, for which the manual leaves it open.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from checkers.simulator.arithmetic import approximate, double, extrema, half, single
from checkers.simulator.instructions.families import Family, only_type
from checkers.simulator.machine.building import Builder, translates
from checkers.simulator.machine.kernel import Step
from checkers.simulator.ptx.modifiers import Modifiers, Unsupported
from checkers.simulator.ptx.program import Instruction

ROUNDINGS = ("rn", "rz", "rm", "rp")
HALVES = ("f16", "bf16")

floating = Family("floating-point", "f32", "f64", "f32x2")

_FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add": (single.add, double.add),
    "sub": (single.subtract, double.subtract),
    "mul": (single.multiply, double.multiply),
    "fma": (single.fused, double.fused),
    "mad": (single.fused, double.fused),
}


def refuse(modifiers: Modifiers, *given: tuple[str, bool]) -> None:
    """Raises Unsupported for the first modifier of (name, whether it was given) that was."""
    for name, present in given:
        if present:
            raise Unsupported(modifiers.instruction, f"this form has no .{name}")


@floating("add", "sub", "mul", "fma", "mad", section="9.7.3.3 to 9.7.3.7, 9.7.5.1 to 9.7.5.3")
def arithmetic(instruction: Instruction, build: Builder) -> Step:
    """``add{.rnd}{.ftz}{.sat}.type d, a, b`` and the like; ``fma.rnd... d, a, b, c``."""
    opcode = instruction.opcode
    modifiers = build.modifiers(instruction)
    default = None if opcode in ("fma", "mad") else "rn"
    mode = modifiers.one_of(*ROUNDINGS, default=default)
    ftz, sat = modifiers.flag("ftz"), modifiers.flag("sat")
    mixed = next((m for m in modifiers.left if m in HALVES), "")
    modifiers.flag(mixed)
    kind = only_type(modifiers, "f32", "f64", "f32x2")
    of_single, of_double = _FUNCTIONS[opcode]
    operands = 3 if default is None else 2
    if kind == "f64":
        refuse(modifiers, ("ftz", ftz), ("sat", sat), (mixed, bool(mixed)))
        function = of_double if mode == "rn" else partial(of_double, mode=mode)
        return build.elementwise(instruction, function, kind, (kind,) * operands)
    plain = of_single if mode == "rn" else partial(of_single, mode=mode)
    if mixed:
        refuse(modifiers, ("ftz", ftz), ("f32x2", kind == "f32x2"), (mixed, opcode in _UNMIXED))
        return _mixed(instruction, build, single.modified(plain, sat=sat), mixed)
    if kind == "f32x2":
        refuse(modifiers, ("sat", sat), ("f32x2", opcode == "mad"))
    exact = single.EXACT.get("fma" if opcode == "mad" else opcode)
    function = single.modified(plain, ftz=ftz, sat=sat, exact=exact, mode=mode)
    return build.elementwise(instruction, function, kind, (kind,) * operands)


_UNMIXED = ("mul", "mad")


def _mixed(
    instruction: Instruction, build: Builder, function: Callable[..., Any], mixed: str
) -> Step:
    """All operands but the last are f16 or bf16."""

    def widened(*operands: Any) -> Any:
        *narrow, last = operands
        return function(*(half.widen(operand, mixed) for operand in narrow), last)

    types = ("b16",) * (len(instruction.operands) - 2) + ("f32",)
    return build.elementwise(instruction, widened, "f32", types)


@floating("div", section="9.7.3.8")
def div(instruction: Instruction, build: Builder) -> Step:
    """``div{.approx .full .rnd}{.ftz}.f32 d, a, b`` and ``div.rnd.f64``."""
    modifiers = build.modifiers(instruction)
    mode = modifiers.one_of("approx", "full", *ROUNDINGS)
    ftz = modifiers.flag("ftz")
    kind = only_type(modifiers, "f32", "f64")
    if kind == "f64":
        refuse(modifiers, ("ftz", ftz), (mode, mode not in ROUNDINGS))
        return build.elementwise(instruction, partial(double.divide, mode=mode), kind, (kind, kind))
    approximations = {"approx": approximate.divide, "full": approximate.divide_full}
    function = approximations.get(mode) or partial(single.divide, mode=mode)
    exact = single.EXACT["div"] if mode in ROUNDINGS else None
    function = single.modified(function, ftz=ftz, exact=exact, mode=mode)
    return build.elementwise(instruction, function, kind, (kind, kind))


@floating("abs", "neg", section="9.7.3.9, 9.7.3.10")
def sign(instruction: Instruction, build: Builder) -> Step:
    """``abs{.ftz}.type d, a`` and neg."""
    modifiers = build.modifiers(instruction)
    ftz = modifiers.flag("ftz")
    kind = only_type(modifiers, "f32", "f64")
    is_abs = instruction.opcode == "abs"
    if kind == "f64":
        refuse(modifiers, ("ftz", ftz))
        whole = double.absolute if is_abs else double.negate
        return build.elementwise(instruction, whole, kind, (kind,))
    function = _canonical(np.abs if is_abs else np.negative)
    return build.elementwise(instruction, single.modified(function, ftz=ftz), kind, (kind,))


def _canonical(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *operands: single.canonical(function(*operands))


@floating("min", "max", section="9.7.3.11, 9.7.3.12")
def extremum(instruction: Instruction, build: Builder) -> Step:
    """``min{.ftz}{.NaN}{.xorsign.abs}.f32 d, a, b{, c}``, ``min.f64``, and max."""
    modifiers = build.modifiers(instruction)
    ftz, nan = modifiers.flag("ftz"), modifiers.flag("NaN")
    xor_sign, magnitudes = modifiers.flag("xorsign"), modifiers.flag("abs")
    kind = only_type(modifiers, "f32", "f64")
    count = len(instruction.operands) - 1
    function = extrema.minimum if instruction.opcode == "min" else extrema.maximum
    if kind == "f64":
        refuse(modifiers, ("ftz", ftz), ("NaN", nan), ("xorsign", xor_sign), ("abs", magnitudes))
        return build.elementwise(instruction, function, kind, (kind, kind))
    if xor_sign and (count != 2 or not magnitudes) or magnitudes and count == 2 and not xor_sign:
        raise Unsupported(instruction, ".xorsign and .abs go together, with two operands")
    if count == 2 and not xor_sign:
        operation: Callable[..., Any] = partial(function, nan=nan)
    else:
        operation = _general(function, nan, magnitudes, xor_sign)
    operation = single.modified(_canonical(operation), ftz=ftz)
    return build.elementwise(instruction, operation, kind, (kind,) * max(count, 2))


def _general(
    function: Callable[..., Any], nan: bool, magnitudes: bool, xor_sign: bool
) -> Callable[..., Any]:
    return lambda *operands: extrema.extremum(
        function, operands, nan=nan, magnitudes=magnitudes, xor_sign=xor_sign
    )


@translates("copysign", section="9.7.3.2")
def copysign(instruction: Instruction, build: Builder) -> Step:
    """``copysign.type d, a, b``: the magnitude is b's."""
    kind = only_type(build.modifiers(instruction), "f32", "f64")
    return build.elementwise(instruction, lambda a, b: np.copysign(b, a), kind, (kind, kind))


def _is_normal(a: Any) -> Any:
    return np.isfinite(a) & ~_is_subnormal(a)


def _is_subnormal(a: Any) -> Any:
    return (a != 0) & (np.abs(a) < np.finfo(a.dtype).smallest_normal)


_PROPERTIES: dict[str, Callable[[Any], Any]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda a: ~np.isnan(a),
    "notanumber": np.isnan,
    "normal": _is_normal,
    "subnormal": _is_subnormal,
}


@translates("testp", section="9.7.3.1")
def testp(instruction: Instruction, build: Builder) -> Step:
    """``testp.property.type p, a``. A zero is normal."""
    modifiers = build.modifiers(instruction)
    test = _PROPERTIES[modifiers.one_of(*_PROPERTIES)]
    kind = only_type(modifiers, "f32", "f64")
    return build.elementwise(instruction, test, "pred", (kind,))
