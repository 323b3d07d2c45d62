"""Differences that ptxas fuses with a product: a * b - c (``fms``) and c - a * b (``fnma``).

No instructions of PTX: contraction.py puts them in the place of a mul and a sub (PTX ISA 9.7.3.4,
9.7.3.5, 9.7.4.2, 9.7.4.3). A product and a sum become an ordinary fma.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from checkers.simulator.arithmetic import double, half, single
from checkers.simulator.building import Builder, translates
from checkers.simulator.instructions.families import only_type
from checkers.simulator.instructions.half import TYPES, raw_source, raw_type
from checkers.simulator.kernel import Step
from checkers.simulator.program import Instruction


def _with_signs(function: Callable[..., Any], opcode: str) -> Callable[..., Any]:
    """A fused multiply-add as the difference."""
    if opcode == "fms":
        return lambda a, b, c: function(a, b, np.negative(c))
    return lambda a, b, c: function(np.negative(a), b, c)


@translates("fms", "fnma", section="9.7.3.4, 9.7.4.2")
def difference(instruction: Instruction, build: Builder) -> Step:
    """``fms.rn{.ftz}{.sat}.type d, a, b, c`` and fnma."""
    opcode = instruction.opcode
    modifiers = build.modifiers(instruction)
    modifiers.one_of("rn")
    ftz, sat = modifiers.flag("ftz"), modifiers.flag("sat")
    kind = only_type(modifiers, "f32", "f64", "f32x2", *TYPES)
    if kind == "f64":
        return build.elementwise(instruction, _with_signs(double.fused, opcode), kind, (kind,) * 3)
    if kind not in TYPES:
        plain, exact = (_with_signs(f, opcode) for f in (single.fused, single.EXACT["fma"]))
        function = single.modified(plain, ftz=ftz, sat=sat, exact=exact)
        return build.elementwise(instruction, function, kind, (kind,) * 3)
    scalar = kind.removesuffix("x2")
    of_halves = half.operation(_with_signs(half.WIDE["fma"], opcode), scalar, ftz=ftz, sat=sat)
    write = build.destination(instruction.operands[0], raw_type(kind))
    readers = [raw_source(build, operand, kind) for operand in instruction.operands[1:]]
    return lambda group: write(group, of_halves(*(read(group) for read in readers)))
