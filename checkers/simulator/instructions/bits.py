"""Bits: PTX ISA 9.7.1.14 to 9.7.1.22 (counts and fields), 9.7.8 (logic and shifts), 9.7.9.7 (prmt).

===============  =====================================================  ================
opcode           result                                                 types
===============  =====================================================  ================
popc, clz        how many ones, leading zeros                           b32, b64
brev             the bits in the opposite order                         b32, b64
bfind            position of the highest bit that is no sign            u, s of 32, 64
fns              position of the n-th one bit from a base               b32
bfe, bfi         a field extracted (sign-extended by s), inserted       32, 64 bits
bmsk, szext      a mask of ones; a field at the bottom extended         32 bits
and, or, xor     bitwise                                                pred, b16 to b64
not, cnot        ~a; a == 0                                             pred (not), b16 to b64
lop3             any function of three bits, by its table               b32
shl, shr         by the width or more: zeros, or the sign (s)           16, 32, 64 bits
shf              part of a shifted pair of words                        b32
prmt             four of eight bytes                                    b32
===============  =====================================================  ================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from checkers.simulator.arithmetic import bits
from checkers.simulator.instructions.families import only_type
from checkers.simulator.machine.building import Builder, translates
from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.ptx.modifiers import Unsupported
from checkers.simulator.ptx.program import Immediate, Instruction, Operand, Pair

_LOGIC = ("pred", "b16", "b32", "b64")

# --- counts ------------------------------------------------------------------------------------


@translates("popc", "clz", section="9.7.1.14, 9.7.1.15")
def count(instruction: Instruction, build: Builder) -> Step:
    """``popc.type d, a`` and clz; d is u32."""
    kind = only_type(build.modifiers(instruction), "b32", "b64")
    function = bits.population if instruction.opcode == "popc" else bits.leading_zeros
    return build.elementwise(instruction, function, "u32", (kind,))


@translates("brev", section="9.7.1.18")
def brev(instruction: Instruction, build: Builder) -> Step:
    """``brev.type d, a``."""
    kind = only_type(build.modifiers(instruction), "b32", "b64")
    return build.elementwise(instruction, bits.reverse, kind, (kind,))


@translates("bfind", section="9.7.1.16")
def bfind(instruction: Instruction, build: Builder) -> Step:
    """``bfind{.shiftamt}.type d, a``; d is u32."""
    modifiers = build.modifiers(instruction)
    shift_amount = modifiers.flag("shiftamt")
    kind = only_type(modifiers, "u32", "u64", "s32", "s64")
    return build.elementwise(
        instruction, lambda a: bits.find_highest(a, shift_amount), "u32", (kind,)
    )


@translates("fns", section="9.7.1.17")
def fns(instruction: Instruction, build: Builder) -> Step:
    """``fns.b32 d, mask, base, offset``."""
    only_type(build.modifiers(instruction), "b32")
    return build.elementwise(instruction, bits.find_nth, "b32", ("b32", "u32", "s32"))


# --- fields ------------------------------------------------------------------------------------


@translates("bfe", section="9.7.1.19")
def bfe(instruction: Instruction, build: Builder) -> Step:
    """``bfe.type d, a, start, length``."""
    kind = only_type(build.modifiers(instruction), "u32", "u64", "s32", "s64")
    return build.elementwise(instruction, bits.extract, kind, (kind, "u32", "u32"))


@translates("bfi", section="9.7.1.20")
def bfi(instruction: Instruction, build: Builder) -> Step:
    """``bfi.type f, a, b, start, length``."""
    kind = only_type(build.modifiers(instruction), "b32", "b64")
    return build.elementwise(instruction, bits.insert, kind, (kind, kind, "u32", "u32"))


@translates("szext", section="9.7.1.21")
def szext(instruction: Instruction, build: Builder) -> Step:
    """``szext{.clamp .wrap}.type d, a, bits``."""
    modifiers = build.modifiers(instruction)
    wrap = modifiers.one_of("clamp", "wrap") == "wrap"
    kind = only_type(modifiers, "u32", "s32")
    return build.elementwise(instruction, lambda a, n: bits.extend(a, n, wrap), kind, (kind, "u32"))


@translates("bmsk", section="9.7.1.22")
def bmsk(instruction: Instruction, build: Builder) -> Step:
    """``bmsk{.clamp .wrap}.b32 d, start, length``."""
    modifiers = build.modifiers(instruction)
    wrap = modifiers.one_of("clamp", "wrap") == "wrap"
    only_type(modifiers, "b32")
    return build.elementwise(instruction, lambda a, b: bits.mask(a, b, wrap), "b32", ("u32", "u32"))


# --- logic -------------------------------------------------------------------------------------

_BITWISE: dict[str, Callable[[Any, Any], Any]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@translates(*_BITWISE, section="9.7.8.1 to 9.7.8.3")
def logic(instruction: Instruction, build: Builder) -> Step:
    """``and.type d, a, b``, or, xor."""
    kind = only_type(build.modifiers(instruction), *_LOGIC)
    return build.elementwise(instruction, _BITWISE[instruction.opcode], kind, (kind, kind))


@translates("not", section="9.7.8.4")
def invert(instruction: Instruction, build: Builder) -> Step:
    """``not.type d, a``."""
    kind = only_type(build.modifiers(instruction), *_LOGIC)
    return build.elementwise(instruction, np.invert, kind, (kind,))


@translates("cnot", section="9.7.8.5")
def cnot(instruction: Instruction, build: Builder) -> Step:
    """``cnot.type d, a``."""
    kind = only_type(build.modifiers(instruction), "b16", "b32", "b64")
    return build.elementwise(instruction, lambda a: a == 0, kind, (kind,))


def _constant(instruction: Instruction, operand: Operand) -> int:
    if not isinstance(operand, Immediate):
        raise Unsupported(instruction, "the table of lop3 is a constant")
    return operand.bits & 0xFF


@translates("lop3", section="9.7.8.6")
def lop3(instruction: Instruction, build: Builder) -> Step:
    """``lop3.b32 d, a, b, c, table`` and ``lop3{.or .and}.b32 d|p, a, b, c, table, q``."""
    modifiers = build.modifiers(instruction)
    join = modifiers.one_of("or", "and", default="none")
    only_type(modifiers, "b32")
    operands = instruction.operands
    if join == "none":
        if len(operands) != 5:
            raise Unsupported(instruction, "d, a, b, c and a table were expected")
        function = bits.logic_of_three(_constant(instruction, operands[4]))
        return build.elementwise(instruction, function, "b32", ("b32",) * 3, operands[:4])
    pair = operands[0]
    if not isinstance(pair, Pair) or len(operands) != 6:
        raise Unsupported(instruction, "d|p, a, b, c, a table and q were expected")
    function = bits.logic_of_three(_constant(instruction, operands[4]))
    write, write_predicate = (
        build.destination(pair.first, "b32"),
        build.destination(pair.second, "pred"),
    )
    readers = [build.source(operand, "b32") for operand in operands[1:4]]
    other = build.source(operands[5], "pred")

    def step(group: Group) -> None:
        result = np.asarray(function(*(read(group) for read in readers)))
        predicate = _BITWISE[join](result != 0, other(group))
        write(group, result)
        write_predicate(group, predicate)

    return step


# --- shifts ------------------------------------------------------------------------------------


@translates("shl", "shr", section="9.7.8.8, 9.7.8.9")
def shift(instruction: Instruction, build: Builder) -> Step:
    """``shl.type d, a, by`` and shr; by is u32 whatever the type."""
    left = instruction.opcode == "shl"
    allowed = [f"b{n}" for n in (16, 32, 64)]
    if not left:
        allowed += [f"{sign}{n}" for sign in "us" for n in (16, 32, 64)]
    kind = only_type(build.modifiers(instruction), *allowed)
    by = instruction.operands[2]
    if isinstance(by, Immediate):
        return _constant_shift(instruction, build, kind, min(by.bits & 0xFFFFFFFF, 64))
    function = bits.shift_left if left else bits.shift_right
    return build.elementwise(instruction, function, kind, (kind, "u32"))


def _constant_shift(instruction: Instruction, build: Builder, kind: str, by: int) -> Step:
    """A shift by a constant is one NumPy call, which gives zeros or the sign for the width or
    more."""
    operation = np.left_shift if instruction.opcode == "shl" else np.right_shift
    return build.elementwise(
        instruction, lambda a: operation(a, by), kind, (kind,), instruction.operands[:2]
    )


@translates("shf", section="9.7.8.7")
def shf(instruction: Instruction, build: Builder) -> Step:
    """``shf{.l .r}{.clamp .wrap}.b32 d, a, b, by``."""
    modifiers = build.modifiers(instruction)
    left = modifiers.one_of("l", "r") == "l"
    wrap = modifiers.one_of("clamp", "wrap") == "wrap"
    only_type(modifiers, "b32")
    return build.elementwise(
        instruction, lambda a, b, by: bits.funnel(a, b, by, left, wrap), "b32", ("b32",) * 3
    )


# --- bytes -------------------------------------------------------------------------------------


@translates("prmt", section="9.7.9.7")
def prmt(instruction: Instruction, build: Builder) -> Step:
    """``prmt.b32{.mode} d, a, b, c``."""
    modifiers = build.modifiers(instruction)
    mode = modifiers.one_of(*bits.PERMUTE_MODES, default="none")
    only_type(modifiers, "b32")
    mode = "" if mode == "none" else mode
    selector = instruction.operands[-1]
    if isinstance(selector, Immediate) and not mode and not selector.bits & 0x8888:
        return build.elementwise(
            instruction,
            bits.permute_as(selector.bits & 0xFFFF),
            "b32",
            ("b32",) * 2,
            instruction.operands[:3],
        )
    return build.elementwise(
        instruction, lambda a, b, c: bits.permute(a, b, c, mode), "b32", ("b32",) * 3
    )
