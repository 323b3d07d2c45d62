"""Roots, reciprocals and transcendental functions of f32 and f64: PTX ISA 9.7.3.13 to 9.7.3.22.

==============================  =======================================================
opcode                          forms
==============================  =======================================================
rcp, sqrt                       .approx .rnd f32, with .ftz; .rnd f64; rcp.approx.ftz.f64
rsqrt                           .approx f32, with .ftz; .approx f64; .approx.ftz.f64
sin, cos, lg2, ex2              .approx f32, with .ftz
tanh                            .approx f32
==============================  =======================================================

The .approx forms are those of the hardware where arithmetic/approximate.py says so, else correctly
rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from checkers.simulator.arithmetic import approximate, double, single
from checkers.simulator.instructions.families import only_type
from checkers.simulator.instructions.floating import ROUNDINGS, floating, refuse
from checkers.simulator.machine.building import Builder, translates
from checkers.simulator.machine.kernel import Step
from checkers.simulator.ptx.modifiers import Unsupported
from checkers.simulator.ptx.program import Instruction

_ROUNDED: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "rcp": (single.reciprocal, double.reciprocal),
    "sqrt": (single.square_root, double.square_root),
}


@translates("rcp", "sqrt", "rsqrt", section="9.7.3.13 to 9.7.3.17")
def root(instruction: Instruction, build: Builder) -> Step:
    """``rcp{.approx .rnd}{.ftz}.type d, a``, sqrt, rsqrt."""
    opcode = instruction.opcode
    modifiers = build.modifiers(instruction)
    mode = modifiers.one_of("approx", *(ROUNDINGS if opcode in _ROUNDED else ()))
    ftz = modifiers.flag("ftz")
    kind = only_type(modifiers, "f32", "f64")
    function: Callable[..., Any]
    if kind == "f32":
        if mode == "approx":
            function = approximate.single(opcode, ftz)
        else:
            function = single.modified(partial(_ROUNDED[opcode][0], mode=mode), ftz=ftz)
    elif mode != "approx":
        refuse(modifiers, ("ftz", ftz))
        function = partial(_ROUNDED[opcode][1], mode=mode)
    elif ftz and opcode in ("rcp", "rsqrt"):
        function = approximate.gross(opcode)
    elif opcode == "rsqrt":
        function = approximate.reciprocal_root_of_double
    else:
        raise Unsupported(instruction, f"there is no {instruction.name}")
    return build.elementwise(instruction, function, kind, (kind,))


@translates("sin", "cos", "lg2", section="9.7.3.18 to 9.7.3.20")
@floating("ex2", section="9.7.3.21")
def transcendental(instruction: Instruction, build: Builder) -> Step:
    """``sin.approx{.ftz}.f32 d, a``, cos, lg2, ex2."""
    modifiers = build.modifiers(instruction)
    modifiers.one_of("approx")
    ftz = modifiers.flag("ftz")
    kind = only_type(modifiers, "f32")
    function = approximate.single(instruction.opcode, ftz)
    return build.elementwise(instruction, function, kind, (kind,))


@floating("tanh", section="9.7.3.22")
def tanh(instruction: Instruction, build: Builder) -> Step:
    """``tanh.approx.f32 d, a``."""
    modifiers = build.modifiers(instruction)
    modifiers.one_of("approx")
    kind = only_type(modifiers, "f32")
    return build.elementwise(instruction, approximate.single("tanh"), kind, (kind,))
