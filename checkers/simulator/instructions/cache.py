"""Instructions that only speak to caches: PTX ISA 9.7.9.15 to 9.7.9.18. They change no value here,
so a step does nothing; what they are given is checked.

=======================  ===================================================================
opcode                   forms
=======================  ===================================================================
prefetch, prefetchu      {.global .local}.L1 .L2, .global.L2::evict_...; .tensormap; .L1
applypriority            {.global}.L2::evict_normal [a], 128
discard                  {.global}.L2 [a], 128
createpolicy             .fractional .range .cvt: a policy is opaque, and 0 here
=======================  ===================================================================
"""

from __future__ import annotations

import numpy as np

from checkers.simulator.machine.building import Builder, translates
from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.ptx.modifiers import Unsupported
from checkers.simulator.ptx.program import Immediate, Instruction

_PRIMARY = tuple(f"L2::evict_{name}" for name in ("last", "normal", "first", "unchanged"))
_SECONDARY = ("L2::evict_first", "L2::evict_unchanged")


def _nothing(group: Group) -> None:
    """No value changes."""


@translates("prefetch", "prefetchu", section="9.7.9.15")
def prefetch(instruction: Instruction, build: Builder) -> Step:
    """``prefetch{.space}.level [a]``, ``prefetch{.space}.tensormap [a]``, ``prefetchu.L1 [a]``."""
    modifiers = build.modifiers(instruction)
    if instruction.opcode == "prefetchu":
        modifiers.one_of("L1")
    elif modifiers.flag("tensormap"):
        modifiers.one_of("const", "param", default="generic")
    else:
        space = modifiers.one_of("global", "local", default="generic")
        evict = ("L2::evict_last", "L2::evict_normal") if space == "global" else ()
        modifiers.one_of("L1", "L2", *evict)
    modifiers.done()
    build.address(instruction.operands[0])
    return _nothing


@translates("applypriority", "discard", section="9.7.9.16, 9.7.9.17")
def whole_line(instruction: Instruction, build: Builder) -> Step:
    """``applypriority{.global}.L2::evict_normal [a], 128`` and ``discard{.global}.L2 [a], 128``."""
    modifiers = build.modifiers(instruction)
    modifiers.flag("global")
    modifiers.one_of("L2::evict_normal" if instruction.opcode == "applypriority" else "L2")
    modifiers.done()
    address, size = instruction.operands
    build.address(address)
    if not isinstance(size, Immediate) or size.value != 128:
        raise Unsupported(instruction, "the size is 128")
    return _nothing


@translates("createpolicy", section="9.7.9.18")
def createpolicy(instruction: Instruction, build: Builder) -> Step:
    """``createpolicy.fractional.L2::evict_first.b64 policy{, fraction}``, .range, .cvt."""
    modifiers = build.modifiers(instruction)
    form = modifiers.one_of("fractional", "range", "cvt")
    count = {"fractional": (1, 2), "range": (4,), "cvt": (2,)}[form]
    if len(instruction.operands) not in count:
        raise Unsupported(instruction, f"createpolicy.{form} has other operands")
    if form == "cvt":
        modifiers.one_of("L2")
    else:
        if form == "range":
            modifiers.flag("global")
        modifiers.one_of(*_PRIMARY)
        modifiers.one_of(*_SECONDARY, default="none")
    modifiers.one_of("b64")
    modifiers.done()
    write = build.destination(instruction.operands[0], "b64")
    return lambda group: write(group, np.uint64(0))
