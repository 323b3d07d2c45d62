"""Comparison and selection: PTX ISA 9.7.6, 9.7.7.

==========  =============================================  ====================================
opcode      result                                         types
==========  =============================================  ====================================
setp        p = cmp(a, b) op c, and q with not cmp         b, u, s of 16 to 64; f16 to f64, x2
set         all ones or 1.0 where cmp(a, b) op c, else 0   the same; to u, s, f16, bf16, f32, x2
selp        a where the predicate c holds, else b          b, u, s, f of 16 to 64
slct        a where c >= 0, else b                         the same; c is s32 or f32
==========  =============================================  ====================================

For packed types setp gives p for the low half and q for the high one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from checkers.simulator.arithmetic import half, single
from checkers.simulator.instructions import half as half_instructions
from checkers.simulator.instructions.families import only_type
from checkers.simulator.machine.building import Builder, Reader, translates
from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.ptx.modifiers import Modifiers, Unsupported
from checkers.simulator.ptx.program import TYPE_BITS, Instruction, Operand, Pair, Sink

Test = Callable[[Any, Any], Any]

_PLAIN: dict[str, Test] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
# A NaN makes these true: each is not the opposite.
_UNORDERED: dict[str, Test] = {
    "equ": lambda a, b: ~((a < b) | (a > b)),
    "neu": np.not_equal,
    "ltu": lambda a, b: ~(a >= b),
    "leu": lambda a, b: ~(a > b),
    "gtu": lambda a, b: ~(a <= b),
    "geu": lambda a, b: ~(a < b),
    "num": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "nan": lambda a, b: np.isnan(a) | np.isnan(b),
}
_NAMES = (*_PLAIN, *_UNSIGNED, *_UNORDERED)
_JOINS: dict[str, Test] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}
_INTEGERS = [f"{sign}{bits}" for sign in "bus" for bits in (16, 32, 64)]
_COMPARED = (*_INTEGERS, *half_instructions.TYPES, "f32", "f64")


def _test(instruction: Instruction, name: str, kind: str) -> Test:
    """The comparison of that name for the type."""
    if "f" in kind:
        if name == "ne":  # ordered: false where either is a NaN, as != is not
            return lambda a, b: (a < b) | (a > b)
        found = _PLAIN.get(name) or _UNORDERED.get(name)
    elif kind.startswith("b"):
        found = _PLAIN[name] if name in ("eq", "ne") else None
    elif kind.startswith("u"):
        found = _PLAIN.get(_UNSIGNED.get(name, name))
    else:
        found = _PLAIN.get(name)
    if found is None:
        raise Unsupported(instruction, f"there is no comparison .{name} for .{kind}")
    return found


def _compared(build: Builder, operand: Operand, kind: str, ftz: bool) -> Reader:
    """Reads an operand of a comparison: f16 and bf16 as float32."""
    if kind in half_instructions.TYPES:
        scalar = kind.removesuffix("x2")
        raw = half_instructions.raw_source(build, operand, kind)
        if ftz:
            return lambda group: half.widen(half.flush(raw(group), scalar), scalar)
        return lambda group: half.widen(raw(group), scalar)
    read = build.source(operand, kind)
    return (lambda group: single.flush(read(group))) if ftz else read


class _Comparison:
    """``cmp{.op}{.ftz}`` of two operands, with the predicate of op."""

    def __init__(self, instruction: Instruction, build: Builder, modifiers: Modifiers) -> None:
        self.name = modifiers.one_of(*_NAMES)
        self.join = modifiers.one_of(*_JOINS, default="none")
        self.ftz = modifiers.flag("ftz")
        self.instruction, self.build = instruction, build

    def of(self, kind: str) -> Callable[[Group], tuple[Any, Any]]:
        """Gives the result of the comparison and the predicate c, None without .op."""
        instruction, build = self.instruction, self.build
        if kind not in _COMPARED:
            raise Unsupported(instruction, f"a type that can be compared was expected, not .{kind}")
        if self.ftz and kind not in ("f32", "f16", "f16x2"):
            raise Unsupported(instruction, f".ftz is of .f32 and .f16, not .{kind}")
        joined = self.join != "none"
        if len(instruction.operands) != 3 + joined:
            raise Unsupported(instruction, "d, a, b, and c where there is .and, .or or .xor")
        test = _test(instruction, self.name, kind)
        left, right = (_compared(build, o, kind, self.ftz) for o in instruction.operands[1:3])
        if not joined:
            return lambda group: (test(left(group), right(group)), None)
        with_predicate = build.source(instruction.operands[3], "pred")
        return lambda group: (test(left(group), right(group)), with_predicate(group))


@translates("setp", section="9.7.6.2, 9.7.7.2")
def setp(instruction: Instruction, build: Builder) -> Step:
    """``setp.cmp{.op}{.ftz}.type p{|q}, a, b{, c}``."""
    modifiers = build.modifiers(instruction)
    comparison = _Comparison(instruction, build, modifiers)
    kind = only_type(modifiers, *_COMPARED)
    compare = comparison.of(kind)
    join = _JOINS.get(comparison.join)
    destination = instruction.operands[0]
    pair = destination if isinstance(destination, Pair) else Pair(destination, Sink())
    first, second = (build.destination(o, "pred") for o in (pair.first, pair.second))
    if kind.endswith("x2"):

        def halves(group: Group) -> None:
            result, other = compare(group)
            low, high = result[..., 0], result[..., 1]
            if join is not None:
                low, high = join(low, other), join(high, other)
            first(group, low)
            second(group, high)

        return halves
    if join is None and isinstance(pair.second, Sink):
        return lambda group: first(group, compare(group)[0])

    def step(group: Group) -> None:
        result, other = compare(group)
        opposite = np.logical_not(result)
        if join is not None:
            result, opposite = join(result, other), join(opposite, other)
        first(group, result)
        second(group, opposite)

    return step


_TRUE = {"f16": 0x3C00, "bf16": 0x3F80}  # 1.0


@translates("set", section="9.7.6.1, 9.7.7.1")
def set_(instruction: Instruction, build: Builder) -> Step:
    """``set.cmp{.op}{.ftz}.dtype.stype d, a, b{, c}``."""
    modifiers = build.modifiers(instruction)
    comparison = _Comparison(instruction, build, modifiers)
    target, kind = modifiers.types(2)
    modifiers.done()
    packed = kind.endswith("x2")
    allowed = (kind, "u32", "s32") if packed else ("u16", "s16", "u32", "s32", "f16", "bf16", "f32")
    if target not in allowed:
        raise Unsupported(instruction, f"set gives no .{target} from .{kind}")
    compare, join = comparison.of(kind), _JOINS.get(comparison.join)
    bits = 16 if packed else TYPE_BITS[target]
    dtype = np.dtype(f"u{bits // 8}")
    if target == "f32":
        true = dtype.type(0x3F800000)
    else:
        true = dtype.type(_TRUE.get(target.removesuffix("x2"), (1 << bits) - 1))
    write = build.destination(instruction.operands[0], "u16x2" if packed else f"b{bits}")

    def step(group: Group) -> None:
        result, other = compare(group)
        if join is not None:
            result = join(result, other[..., None] if packed else other)
        write(group, np.where(result, true, dtype.type(0)))

    return step


_SELECTED = (*_INTEGERS, "f32", "f64")


@translates("selp", section="9.7.6.3")
def selp(instruction: Instruction, build: Builder) -> Step:
    """``selp.type d, a, b, c``."""
    kind = only_type(build.modifiers(instruction), *_SELECTED)
    return build.elementwise(
        instruction, lambda a, b, c: np.where(c, a, b), kind, (kind, kind, "pred")
    )


@translates("slct", section="9.7.6.4")
def slct(instruction: Instruction, build: Builder) -> Step:
    """``slct{.ftz}.dtype{.s32 .f32} d, a, b, c``. A NaN selects b."""
    modifiers = build.modifiers(instruction)
    ftz = modifiers.flag("ftz")
    kind, of = modifiers.types(2)
    modifiers.done()
    if kind not in _SELECTED or of not in ("s32", "f32") or (ftz and of != "f32"):
        raise Unsupported(instruction, "slct.dtype.s32 or slct{.ftz}.dtype.f32 was expected")
    flush = single.flush if ftz else lambda c: c
    return build.elementwise(
        instruction, lambda a, b, c: np.where(flush(c) >= 0, a, b), kind, (kind, kind, of)
    )
