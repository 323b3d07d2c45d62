"""What ptxas fuses and PTX has no instruction for: a * b - c (``fms``), c - a * b (``fnma``), and with
an approximate quotient in the place of the product also a / b + c (``fda``).

contraction.py puts them in the place of a mul or div and a sub or add (PTX ISA 9.7.3.3 to 9.7.3.5,
9.7.3.8, 9.7.4.2, 9.7.4.3). A product and a sum become an ordinary fma.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from checkers.simulator.arithmetic import approximate, double, half, single
from checkers.simulator.instructions.families import only_type
from checkers.simulator.instructions.half import TYPES, raw_source, raw_type
from checkers.simulator.machine.building import Builder, translates
from checkers.simulator.machine.kernel import Step
from checkers.simulator.ptx.program import Instruction


def _with_signs(function: Callable[..., Any], opcode: str) -> Callable[..., Any]:
    """A fused multiply-add as the difference."""
    if opcode == "fms":
        return lambda a, b, c: function(a, b, np.negative(c))
    if opcode == "fnma":
        return lambda a, b, c: function(np.negative(a), b, c)
    return function


def _of_quotient(function: Callable[..., Any], full: bool) -> Callable[..., Any]:
    """A fused multiply-add of a / b and c."""
    return lambda a, b, c: function(*approximate.factors(a, b, full), c)


@translates("fms", "fnma", "fda", section="9.7.3.3, 9.7.3.4, 9.7.4.2")
def contracted(instruction: Instruction, build: Builder) -> Step:
    """``fms{.rn .approx .full}{.ftz}{.sat}.type d, a, b, c``, fnma and fda."""
    opcode = instruction.opcode
    modifiers = build.modifiers(instruction)
    mode = modifiers.one_of("rn", "approx", "full")
    ftz, sat = modifiers.flag("ftz"), modifiers.flag("sat")
    kind = only_type(modifiers, "f32", "f64", "f32x2", *TYPES)
    if kind == "f64":
        return build.elementwise(instruction, _with_signs(double.fused, opcode), kind, (kind,) * 3)
    if kind not in TYPES:
        plain, exact = single.fused, single.EXACT["fma"]
        if mode != "rn":
            plain, exact = (_of_quotient(f, mode == "full") for f in (plain, exact))
        plain, exact = (_with_signs(f, opcode) for f in (plain, exact))
        function = single.modified(plain, ftz=ftz, sat=sat, exact=exact)
        return build.elementwise(instruction, function, kind, (kind,) * 3)
    scalar = kind.removesuffix("x2")
    of_halves = half.operation(_with_signs(half.WIDE["fma"], opcode), scalar, ftz=ftz, sat=sat)
    write = build.destination(instruction.operands[0], raw_type(kind))
    readers = [raw_source(build, operand, kind) for operand in instruction.operands[1:]]
    return lambda group: write(group, of_halves(*(read(group) for read in readers)))
