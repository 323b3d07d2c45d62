"""mov, cvta, isspacep: PTX ISA 9.7.9.3, 9.7.9.4, 9.7.9.19, 9.7.9.20.

=========  ====================================================================================
opcode     result
=========  ====================================================================================
mov        a register, a special register, a constant, the address of a variable; a vector put
           together or taken apart, the first element lowest
cvta       an address of a space as a generic one, and (.to) back
isspacep   whether a generic address is of a space
=========  ====================================================================================

A generic address is that of its space in a window of its own (kernel.py); those of global memory
are themselves, and those of .const and .param variables are generic from the start.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from checkers.simulator.instructions.families import only_type
from checkers.simulator.machine.building import Builder, translates
from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, Step
from checkers.simulator.machine.registers import NUMPY
from checkers.simulator.memory.regions import CONST_WINDOW
from checkers.simulator.ptx.modifiers import Modifiers, Unsupported
from checkers.simulator.ptx.program import TYPE_BITS, Instruction, Register, Vector

_MOVED = ("pred", "b128", "f16", "bf16", "f32", "f64")
_MOVED += tuple(f"{sign}{bits}" for sign in "bus" for bits in (16, 32, 64))


@translates("mov", section="9.7.9.3, 9.7.9.4")
def mov(instruction: Instruction, build: Builder) -> Step:
    """``mov.type d, a``; ``mov.b64 d, {a, b}``; ``mov.b64 {d, e}, a``."""
    kind = only_type(build.modifiers(instruction), *_MOVED)
    if len(instruction.operands) != 2:
        raise Unsupported(instruction, "d and a were expected")
    destination, source = instruction.operands
    if isinstance(destination, Vector) or isinstance(source, Vector):
        if kind not in ("b16", "b32", "b64", "b128"):
            raise Unsupported(instruction, "a vector is moved as .b16, .b32, .b64 or .b128")
        if isinstance(destination, Vector):
            return _unpack(instruction, build, destination, int(kind[1:]))
        return _pack(instruction, build, source, int(kind[1:]))
    write, read = build.destination(destination, kind), build.source(source, kind)
    return lambda group: write(group, read(group))


def _element(instruction: Instruction, vector: Vector, bits: int) -> str:
    """The type of an element of a vector of ``bits`` bits."""
    each = bits // len(vector.elements)
    if len(vector.elements) not in (2, 4) or each not in (8, 16, 32, 64):
        raise Unsupported(instruction, f"{bits} bits can't be {len(vector.elements)} elements")
    for element in vector.elements:
        if isinstance(element, Register) and TYPE_BITS.get(element.type) != each:
            raise Unsupported(instruction, f"{element.name} is no element of {each} bits")
    return f"b{each}"


def _pack(instruction: Instruction, build: Builder, vector: Any, bits: int) -> Step:
    kind = _element(instruction, vector, bits)
    readers = [build.source(element, kind) for element in vector.elements]
    write = build.destination(instruction.operands[0], f"b{bits}")
    dtype, whole = NUMPY[kind], np.dtype(f"u{min(bits, 64) // 8}")

    def pack(group: Group) -> None:
        parts = np.empty((group.n, 32, len(readers)), dtype)
        for at, read in enumerate(readers):
            parts[..., at] = read(group)
        words = parts.view(whole)
        write(group, words if bits == 128 else words[..., 0])

    return pack


def _unpack(instruction: Instruction, build: Builder, vector: Vector, bits: int) -> Step:
    kind = _element(instruction, vector, bits)
    writers = [build.destination(element, kind) for element in vector.elements]
    read = build.source(instruction.operands[1], f"b{bits}")
    dtype = NUMPY[kind]

    def unpack(group: Group) -> None:
        raw = np.ascontiguousarray(read(group))
        if bits != 128:
            raw = raw[..., None]
        # Copied, because an element's register may hold the source too.
        parts = raw.view(dtype).copy()
        for at, write in enumerate(writers):
            write(group, parts[..., at])

    return unpack


# --- addresses ---------------------------------------------------------------------------------

_SPACES = {
    "global": 0,
    "shared": SHARED_WINDOW,
    "shared::cta": SHARED_WINDOW,
    "shared::cluster": SHARED_WINDOW,
    "local": LOCAL_WINDOW,
    # Their variables' addresses are generic ones already.
    "const": 0,
    "param": 0,
    "param::entry": 0,
}
_WINDOW_MASK = SHARED_WINDOW | LOCAL_WINDOW


def _space(modifiers: Modifiers) -> str:
    return modifiers.one_of(*_SPACES)


@translates("cvta", section="9.7.9.20")
def cvta(instruction: Instruction, build: Builder) -> Step:
    """``cvta.space.u64 p, a`` and ``cvta.to.space.u64 p, a``."""
    modifiers = build.modifiers(instruction)
    back = modifiers.flag("to")
    space = _space(modifiers)
    window = np.uint64(_SPACES[space])
    kind = modifiers.type()
    modifiers.done()
    if kind != "u64":
        raise Unsupported(instruction, "generic addresses have 64 bits here: .u64 was expected")
    if not window and not back:
        # Already generic, unless its upper half was lost: mov.b32 of a parameter, widened again.
        own = np.uint64({"const": CONST_WINDOW}.get(space, PARAM_WINDOW if "param" in space else 0))
        return build.elementwise(instruction, lambda a: a | own, kind, (kind,))
    if not window:
        return build.elementwise(instruction, lambda a: a, kind, (kind,))
    if back:
        return build.elementwise(instruction, lambda a: a & ~window, kind, (kind,))
    return build.elementwise(instruction, lambda a: a | window, kind, (kind,))


@translates("isspacep", section="9.7.9.19")
def isspacep(instruction: Instruction, build: Builder) -> Step:
    """``isspacep.space p, a``: parameters are global too, as the manual has it."""
    modifiers = build.modifiers(instruction)
    space = _space(modifiers)
    modifiers.done()
    write = build.destination(instruction.operands[0], "pred")
    read = build.source(instruction.operands[1], "u64")
    windows = np.uint64(_WINDOW_MASK)

    def step(group: Group) -> None:
        address = np.broadcast_to(read(group), (group.n, 32))
        if space == "global":
            found = (address & windows) == 0
        elif space in ("const", "param", "param::entry"):
            constant = (address >> np.uint64(48)) & np.uint64(1) != 0
            found = (address & np.uint64(PARAM_WINDOW) != 0) & (constant == (space == "const"))
        else:
            found = (address & windows) == np.uint64(_SPACES[space])
            if space in ("shared", "shared::cta"):
                rank = ((address >> np.uint64(24)) & np.uint64(0xFF)).astype(np.int64)
                found = found & (rank == group.wave.ranks(group)[:, None])
        write(group, found)

    return step
