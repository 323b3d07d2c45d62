"""Integer arithmetic: PTX ISA 9.7.1.1 to 9.7.1.13, 9.7.1.23, 9.7.1.24, and with a carry 9.7.2.

=============  =========================================  ==================================
opcode         result                                     types
=============  =========================================  ==================================
add, sub       a + b, a - b, modulo 2**n                  16, 32, 64 bits; .sat s32; add x2
mul, mad       .lo .hi .wide of a * b (+ c)               16, 32, 64 bits; .sat mad.hi.s32
mul24, mad24   .lo .hi of 24-bit a * b (+ c)              32 bits
sad            c + abs(a - b)                             16, 32, 64 bits
div, rem       toward zero; every bit set for b = 0       16, 32, 64 bits
abs, neg       modulo 2**n                                signed
min, max                                                  all; .relu s32, s16x2
dp4a, dp2a     c + sum of a[i] * b[i]                     u32, s32 each
add.cc ...     the carry goes to and from CC.CF           32, 64 bits
=============  =========================================  ==================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from checkers.simulator.arithmetic import integers
from checkers.simulator.instructions.families import Family, only_type
from checkers.simulator.machine.building import Builder
from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.ptx.modifiers import Unsupported
from checkers.simulator.ptx.program import Instruction

SCALAR = ("u16", "s16", "u32", "s32", "u64", "s64")
PACKED = ("u16x2", "s16x2")
WORDS = ("u32", "s32", "u64", "s64")
WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}

integer = Family("integer", *SCALAR, *PACKED)

# Shared by add, sub, mad and their forms with a carry in.
_CARRY_FLAG = "CC.CF"


def unsigned(kind: str) -> str:
    """The unsigned type of the same width."""
    return "u" + kind[1:]


def _with_carry(
    instruction: Instruction,
    build: Builder,
    function: Callable[..., tuple[Any, Any]],
    kind: str,
    *,
    takes: bool,
    gives: bool,
) -> Step:
    """``function(*operands, carry)`` gives the result and the carry out. Without a carry in
    ``function`` has none either."""
    if kind not in WORDS:
        raise Unsupported(instruction, f"there is no carry for .{kind}")
    flag = build.kernel.hidden(_CARRY_FLAG, 1)
    write = build.destination(instruction.operands[0], kind)
    readers = [build.source(operand, kind) for operand in instruction.operands[1:]]

    def step(group: Group) -> None:
        carry = (group.get(flag),) if takes else ()
        result, out = function(*(read(group) for read in readers), *carry)
        write(group, result)
        if gives:
            group.put(flag, out)

    return step


@integer("add", "sub", section="9.7.1.1, 9.7.1.2, 9.7.2.1, 9.7.2.3")
def add(instruction: Instruction, build: Builder) -> Step:
    """``add{.sat}.type d, a, b``, ``add.cc.type``, and sub."""
    adds = instruction.opcode == "add"
    modifiers = build.modifiers(instruction)
    gives_carry, saturates = modifiers.flag("cc"), modifiers.flag("sat")
    kind = only_type(modifiers, *SCALAR, *(PACKED if adds else ()))
    if gives_carry:
        function = integers.add_carrying if adds else integers.subtract_carrying
        return _with_carry(instruction, build, function, unsigned(kind), takes=False, gives=True)
    operation = np.add if adds else np.subtract
    if saturates:
        if kind != "s32":
            raise Unsupported(instruction, f".sat is of .s32, not .{kind}")
        return build.elementwise(instruction, integers.saturated(operation), kind, (kind, kind))
    kind = unsigned(kind)
    return build.elementwise(instruction, operation, kind, (kind, kind))


@integer("addc", "subc", section="9.7.2.2, 9.7.2.4")
def addc(instruction: Instruction, build: Builder) -> Step:
    """``addc{.cc}.type d, a, b``: with the carry in; and subc."""
    modifiers = build.modifiers(instruction)
    gives = modifiers.flag("cc")
    kind = only_type(modifiers, *WORDS)
    adds = instruction.opcode == "addc"
    function = integers.add_carrying if adds else integers.subtract_carrying
    return _with_carry(instruction, build, function, unsigned(kind), takes=True, gives=gives)


_PRODUCTS: dict[str, Callable[[Any, Any], Any]] = {
    "lo": np.multiply,
    "hi": integers.multiply_high,
    "wide": integers.multiply_wide,
}


@integer("mul", section="9.7.1.3")
def mul(instruction: Instruction, build: Builder) -> Step:
    """``mul{.lo .hi .wide}.type d, a, b``."""
    modifiers = build.modifiers(instruction)
    part = modifiers.one_of(*_PRODUCTS)
    kind = only_type(modifiers, *(WIDER if part == "wide" else SCALAR))
    result = WIDER[kind] if part == "wide" else kind
    return build.elementwise(instruction, _PRODUCTS[part], result, (kind, kind))


@integer("mad", "madc", section="9.7.1.4, 9.7.2.5, 9.7.2.6")
def mad(instruction: Instruction, build: Builder) -> Step:
    """``mad{.lo .hi .wide}{.sat}.type d, a, b, c``; ``mad.cc`` and ``madc{.cc}`` with a carry."""
    modifiers = build.modifiers(instruction)
    part = modifiers.one_of(*_PRODUCTS)
    saturates, gives = modifiers.flag("sat"), modifiers.flag("cc")
    takes = instruction.opcode == "madc"
    kind = only_type(modifiers, *(WIDER if part == "wide" else SCALAR))
    product = _PRODUCTS[part]
    if takes or gives:
        if part == "wide" or saturates:
            raise Unsupported(instruction, "there is no carry for .wide and .sat")

        def carrying(a: Any, b: Any, c: Any, carry: Any = False) -> tuple[Any, Any]:
            low = np.asarray(product(a, b)).view(np.dtype(f"u{a.dtype.itemsize}"))
            return integers.add_carrying(low, c.view(low.dtype), carry)

        return _with_carry(instruction, build, carrying, kind, takes=takes, gives=gives)
    if saturates:
        if (part, kind) != ("hi", "s32"):
            raise Unsupported(instruction, ".sat is of mad.hi.s32")
        add_clamped = integers.saturated(np.add)
        return build.elementwise(
            instruction, lambda a, b, c: add_clamped(product(a, b), c), kind, (kind,) * 3
        )
    result = WIDER[kind] if part == "wide" else kind
    types = (kind, kind, result)
    return build.elementwise(instruction, lambda a, b, c: product(a, b) + c, result, types)


@integer("mul24", "mad24", section="9.7.1.5, 9.7.1.6")
def mul24(instruction: Instruction, build: Builder) -> Step:
    """``mul24{.lo .hi}.type d, a, b`` and ``mad24{.lo .hi}{.sat}.type d, a, b, c``."""
    modifiers = build.modifiers(instruction)
    part, saturates = modifiers.one_of("lo", "hi"), modifiers.flag("sat")
    kind = only_type(modifiers, "u32", "s32")
    if instruction.opcode == "mul24":
        if saturates:
            raise Unsupported(instruction, "mul24 has no .sat")
        return build.elementwise(
            instruction, lambda a, b: integers.multiply_24(a, b, part), kind, (kind,) * 2
        )
    if saturates and (part, kind) != ("hi", "s32"):
        raise Unsupported(instruction, ".sat is of mad24.hi.s32")
    join = integers.saturated(np.add) if saturates else np.add
    return build.elementwise(
        instruction, lambda a, b, c: join(integers.multiply_24(a, b, part), c), kind, (kind,) * 3
    )


@integer("sad", section="9.7.1.7")
def sad(instruction: Instruction, build: Builder) -> Step:
    """``sad.type d, a, b, c``."""
    kind = only_type(build.modifiers(instruction), *SCALAR)
    return build.elementwise(instruction, integers.absolute_difference, kind, (kind,) * 3)


@integer("div", "rem", section="9.7.1.8, 9.7.1.9")
def div(instruction: Instruction, build: Builder) -> Step:
    """``div.type d, a, b`` and rem."""
    kind = only_type(build.modifiers(instruction), *SCALAR)
    function = integers.divide if instruction.opcode == "div" else integers.remainder
    return build.elementwise(instruction, function, kind, (kind, kind))


@integer("abs", "neg", section="9.7.1.10, 9.7.1.11")
def negate(instruction: Instruction, build: Builder) -> Step:
    """``abs.type d, a`` and neg."""
    kind = only_type(build.modifiers(instruction), "s16", "s32", "s64")
    function = np.abs if instruction.opcode == "abs" else np.negative
    return build.elementwise(instruction, function, kind, (kind,))


@integer("min", "max", section="9.7.1.12, 9.7.1.13")
def extremum(instruction: Instruction, build: Builder) -> Step:
    """``min{.relu}.type d, a, b`` and max. .relu: at least 0."""
    modifiers = build.modifiers(instruction)
    relu = modifiers.flag("relu")
    kind = only_type(modifiers, *SCALAR, *PACKED)
    function: Callable[..., Any] = np.minimum if instruction.opcode == "min" else np.maximum
    if relu:
        if kind not in ("s32", "s16x2"):
            raise Unsupported(instruction, f".relu is of .s32 and .s16x2, not .{kind}")
        plain = function
        return build.elementwise(
            instruction, lambda a, b: np.maximum(plain(a, b), 0), kind, (kind, kind)
        )
    return build.elementwise(instruction, function, kind, (kind, kind))


@integer("dp4a", "dp2a", section="9.7.1.23, 9.7.1.24")
def dot(instruction: Instruction, build: Builder) -> Step:
    """``dp4a.atype.btype d, a, b, c`` and ``dp2a{.lo .hi}.atype.btype``."""
    modifiers = build.modifiers(instruction)
    kinds = modifiers.types(2)
    if any(kind not in ("u32", "s32") for kind in kinds):
        raise Unsupported(instruction, "the types .u32 and .s32 were expected")
    signed = (kinds[0] == "s32", kinds[1] == "s32")
    if instruction.opcode == "dp4a":
        modifiers.done()
        return build.elementwise(
            instruction, lambda a, b, c: integers.dot_bytes(a, b, c, signed), "u32", ("u32",) * 3
        )
    high = modifiers.one_of("lo", "hi") == "hi"
    modifiers.done()
    return build.elementwise(
        instruction,
        lambda a, b, c: integers.dot_halves(a, b, c, signed, high),
        "u32",
        ("u32",) * 3,
    )
