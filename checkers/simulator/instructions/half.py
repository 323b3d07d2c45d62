"""f16 and bf16 arithmetic, single and packed: PTX ISA 9.7.4.

=============  ====================================  ==========================================
opcode         result                                forms
=============  ====================================  ==========================================
add, sub, mul  rounded once, to nearest              .rn .ftz .sat f16, f16x2; .rn bf16, bf16x2
fma            a * b + c, rounded once               .rn .ftz .sat or .relu f16, f16x2;
                                                     .rn .relu bf16, bf16x2; .oob of each
neg, abs       sign bit                              .ftz f16, f16x2; bf16, bf16x2
min, max       -0 < +0, a NaN loses                  .ftz .NaN .xorsign.abs; no .ftz for bf16
tanh           .approx                               all four
ex2            .approx                               f16, f16x2; .ftz bf16, bf16x2
=============  ====================================  ==========================================

A result that is a NaN is 0x7fff.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from checkers.simulator.arithmetic import approximate, extrema, half
from checkers.simulator.instructions.families import Family, only_type
from checkers.simulator.instructions.floating import refuse
from checkers.simulator.machine.building import Builder, Reader
from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.ptx.modifiers import Modifiers, Unsupported
from checkers.simulator.ptx.program import Immediate, Instruction, Operand

TYPES = ("f16", "f16x2", "bf16", "bf16x2")

halves = Family("half-precision", *TYPES)


def raw_source(build: Builder, operand: Operand, kind: str) -> Reader:
    """Reads f16 or bf16 as raw bits: (n, 32) uint16, (n, 32, 2) for the packed types."""
    if isinstance(operand, Immediate) and operand.kind == "f64":
        constant = np.asarray(build.constant(operand, kind)).view(np.uint16)
        return lambda group: constant
    return build.source(operand, raw_type(kind))


def raw_type(kind: str) -> str:
    """The type that holds the bits of ``kind``."""
    return "u16x2" if kind.endswith("x2") else "b16"


def _apply(
    instruction: Instruction,
    build: Builder,
    kind: str,
    function: Callable[..., Any],
    count: int,
) -> Step:
    """A step that applies ``function`` of raw bits to ``count`` sources."""
    if len(instruction.operands) != count + 1:
        raise Unsupported(instruction, f"{count} sources were expected")
    write = build.destination(instruction.operands[0], raw_type(kind))
    readers = [raw_source(build, operand, kind) for operand in instruction.operands[1:]]

    def step(group: Group) -> None:
        write(group, function(*(read(group) for read in readers)))

    return step


def _scalar(kind: str) -> str:
    return kind.removesuffix("x2")


def _only_f16(modifiers: Modifiers, kind: str, *given: tuple[str, bool]) -> None:
    if _scalar(kind) == "bf16":
        refuse(modifiers, *given)


@halves("add", "sub", "mul", section="9.7.4.1 to 9.7.4.3")
def arithmetic(instruction: Instruction, build: Builder) -> Step:
    """``add{.rn}{.ftz}{.sat}.type d, a, b``, sub, mul."""
    modifiers = build.modifiers(instruction)
    modifiers.flag("rn")
    ftz, sat = modifiers.flag("ftz"), modifiers.flag("sat")
    kind = only_type(modifiers, *TYPES)
    _only_f16(modifiers, kind, ("ftz", ftz), ("sat", sat))
    function = half.WIDE[instruction.opcode]
    return _apply(
        instruction, build, kind, half.operation(function, _scalar(kind), ftz=ftz, sat=sat), 2
    )


@halves("neg", "abs", section="9.7.4.5, 9.7.4.6")
def sign(instruction: Instruction, build: Builder) -> Step:
    """``neg{.ftz}.type d, a`` and abs."""
    modifiers = build.modifiers(instruction)
    ftz = modifiers.flag("ftz")
    kind = only_type(modifiers, *TYPES)
    _only_f16(modifiers, kind, ("ftz", ftz))
    function = half.negate if instruction.opcode == "neg" else half.absolute
    scalar = _scalar(kind)

    def operate(a: Any) -> Any:
        return function(scalar, half.flush(a, scalar) if ftz else a)

    return _apply(instruction, build, kind, operate, 1)


@halves("fma", section="9.7.4.4")
def fma(instruction: Instruction, build: Builder) -> Step:
    """``fma.rn{.ftz}{.sat .relu}{.oob}.type d, a, b, c``."""
    modifiers = build.modifiers(instruction)
    modifiers.one_of("rn")
    ftz, sat = modifiers.flag("ftz"), modifiers.flag("sat")
    relu, oob = modifiers.flag("relu"), modifiers.flag("oob")
    kind = only_type(modifiers, *TYPES)
    _only_f16(modifiers, kind, ("ftz", ftz), ("sat", sat))
    refuse(modifiers, ("relu", relu and sat), ("ftz", ftz and oob), ("sat", sat and oob))
    function = half.operation(half.WIDE["fma"], _scalar(kind), ftz=ftz, sat=sat, relu=relu)
    return _apply(instruction, build, kind, half.in_bounds(function) if oob else function, 3)


@halves("min", "max", section="9.7.4.7, 9.7.4.8")
def extremum(instruction: Instruction, build: Builder) -> Step:
    """``min{.ftz}{.NaN}{.xorsign.abs}.type d, a, b`` and max."""
    modifiers = build.modifiers(instruction)
    ftz, nan = modifiers.flag("ftz"), modifiers.flag("NaN")
    xor_sign, magnitudes = modifiers.flag("xorsign"), modifiers.flag("abs")
    kind = only_type(modifiers, *TYPES)
    _only_f16(modifiers, kind, ("ftz", ftz))
    if xor_sign != magnitudes:
        raise Unsupported(instruction, ".xorsign and .abs go together")
    function = extrema.minimum if instruction.opcode == "min" else extrema.maximum

    def choose(a: Any, b: Any) -> Any:
        if xor_sign:
            return extrema.extremum(function, (a, b), nan=nan, magnitudes=True, xor_sign=True)
        return function(a, b, nan)

    return _apply(instruction, build, kind, half.operation(choose, _scalar(kind), ftz=ftz), 2)


@halves("tanh", section="9.7.4.9")
def tanh(instruction: Instruction, build: Builder) -> Step:
    """``tanh.approx.type d, a``."""
    modifiers = build.modifiers(instruction)
    modifiers.one_of("approx")
    kind = only_type(modifiers, *TYPES)
    scalar, function = _scalar(kind), approximate.single("tanh")
    return _apply(
        instruction, build, kind, lambda a: half.cut(function(half.widen(a, scalar)), scalar), 1
    )


@halves("ex2", section="9.7.4.10")
def ex2(instruction: Instruction, build: Builder) -> Step:
    """``ex2.approx.f16 d, a`` and ``ex2.approx.ftz.bf16``."""
    modifiers = build.modifiers(instruction)
    modifiers.one_of("approx")
    ftz = modifiers.flag("ftz")
    kind = only_type(modifiers, *TYPES)
    scalar, function = _scalar(kind), approximate.single("ex2")
    if ftz != (scalar == "bf16"):
        raise Unsupported(instruction, "ex2 has .ftz for bf16 and for it only")

    def operate(a: Any) -> Any:
        if ftz:
            wide = function(half.widen(half.flush(a, scalar), scalar))
            return half.flush(half.cut(wide, scalar), scalar)
        return half.cut(function(half.widen(a, scalar)), scalar)

    return _apply(instruction, build, kind, operate, 1)
