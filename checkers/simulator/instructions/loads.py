"""Loads and stores: PTX ISA 9.7.9.8 (ld), 9.7.9.9 (ld.global.nc), 9.7.9.10 (ldu), 9.7.9.11 (st),
9.7.9.13 (st.bulk).

======  =======================================================================================
opcode  forms
======  =======================================================================================
ld      {.weak .volatile .relaxed.scope .acquire.scope .mmio.relaxed.sys}{.space}{.v2 .v4 .v8}.type
st      the same with .release for .acquire
ldu     {.global}{.v2 .v4}.type
======  =======================================================================================

Spaces: .global .shared{::cta ::cluster} .local .const .param{::entry ::func}, generic without.
Types: b8 to b128, u, s, f32, f64. Cache operators, eviction priorities, prefetch sizes and cache policies
are hints and change nothing here. .nc is checked: the kernel must not have written what it reads.
"""

from __future__ import annotations

import numpy as np

from checkers.simulator.machine.building import Builder, Reader, translates
from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.machine.registers import NUMPY
from checkers.simulator.ptx.modifiers import Modifiers, Unsupported
from checkers.simulator.ptx.program import (
    TYPE_BITS,
    Address,
    Immediate,
    Instruction,
    Operand,
    Sink,
    Symbol,
    Vector,
)
from checkers.simulator.reports.faults import Kind

SPACES = ("global", "shared", "shared::cta", "shared::cluster", "local", "const", "param")
SPACES += ("param::entry", "param::func")
SCOPES = ("cta", "cluster", "gpu", "sys")
_LOAD_OPERATORS = ("ca", "cg", "cs", "lu", "cv")
_STORE_OPERATORS = ("wb", "cg", "cs", "wt")
_PRIORITIES = tuple(
    f"L1::{name}"
    for name in ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")
)
_L2 = ("L2::evict_normal", "L2::evict_first", "L2::evict_last")
_PREFETCH = ("L2::64B", "L2::128B", "L2::256B")
_TYPES = {t for t in TYPE_BITS if t[0] in "bus" and t[1:].isdigit()} | {"f32", "f64", "b128"}


def take_semantics(modifiers: Modifiers, strong: str) -> tuple[str, str]:
    """(semantics, scope) of an ld or st. strong: "acquire" or "release"."""
    if modifiers.flag("mmio"):
        modifiers.one_of("relaxed")
        return "mmio", modifiers.one_of("sys")
    semantics = modifiers.one_of("weak", "volatile", "relaxed", strong, default="weak")
    if semantics in ("relaxed", strong):
        return semantics, modifiers.one_of(*SCOPES)
    return semantics, "cta"


def take_hints(modifiers: Modifiers, operators: tuple[str, ...]) -> bool:
    """Takes what only caches care about; whether a cache policy is given as last operand."""
    modifiers.one_of(*operators, default="")
    modifiers.one_of(*_PRIORITIES, default="")
    modifiers.one_of(*_L2, default="")
    modifiers.one_of(*_PREFETCH, default="")
    return modifiers.flag("L2::cache_hint")


def take_type(instruction: Instruction, modifiers: Modifiers) -> tuple[str, int]:
    """(type, elements of the vector), and no modifier left."""
    count = int(modifiers.one_of("v2", "v4", "v8", default="v1")[1:])
    type_ = modifiers.type()
    modifiers.done()
    if type_ not in _TYPES:
        raise Unsupported(instruction, f"{instruction.opcode} has no type .{type_}")
    if TYPE_BITS[type_] * count > 256:
        raise Unsupported(instruction, "a load or store is of at most 32 bytes")
    return type_, count


def elements(operand: Operand, count: int, instruction: Instruction) -> tuple[Operand, ...]:
    """The registers of a vector, or of a scalar for a count of 1."""
    if isinstance(operand, Vector):
        if len(operand.elements) != count:
            raise Unsupported(instruction, f"a vector of {count} was expected")
        return operand.elements
    if count != 1:
        raise Unsupported(instruction, f"a vector of {count} in braces was expected")
    return (operand,)


def check_operands(instruction: Instruction, expected: int, policy: bool) -> None:
    """Raises Unsupported when the operands, a cache policy among them, are not ``expected``."""
    if len(instruction.operands) != expected + policy:
        raise Unsupported(instruction, f"{expected + policy} operands were expected")


def raw_type(type_: str) -> str:
    """The bit-size type of the same width: "f32" to "b32"."""
    return f"b{TYPE_BITS[type_]}"


# --- ld ------------------------------------------------------------------------------------------


@translates("ld", section="9.7.9.8, 9.7.9.9")
def ld(instruction: Instruction, build: Builder) -> Step:
    """``ld{.sem.scope}{.space}{.vec}.type d, [a]{, policy}``."""
    modifiers = build.modifiers(instruction)
    semantics, scope = take_semantics(modifiers, "acquire")
    space = modifiers.one_of(*SPACES, default="generic")
    coherent = not modifiers.flag("nc")
    if not coherent and space != "global":
        raise Unsupported(instruction, ".nc is for global memory")
    policy = take_hints(modifiers, _LOAD_OPERATORS)
    modifiers.flag("unified")
    type_, count = take_type(instruction, modifiers)
    check_operands(instruction, 2, policy)
    destination, place = instruction.operands[0], instruction.operands[1]
    writers = [build.destination(e, type_) for e in elements(destination, count, instruction)]
    constant = _parameter_offset(place, space, build)
    if constant is not None:
        return _load_parameter(writers, constant, type_)
    return _load(
        build.address(place),
        writers,
        _state_space(place, space, build),
        type_,
        semantics,
        scope,
        coherent,
    )


def _load(
    address: Reader,
    writers: list,
    space: str,
    type_: str,
    semantics: str,
    scope: str,
    coherent: bool,
) -> Step:
    bytes_each, count = TYPE_BITS[type_] // 8, len(writers)
    dtype = NUMPY.get(type_)
    narrow = bytes_each == 1
    polls = semantics != "weak"

    def step(group: Group) -> None:
        found = group.wave.memory.load(
            group, space, address(group), bytes_each, count, semantics, scope, coherent
        )
        for write, raw in zip(writers, found, strict=True):
            if narrow:
                raw = raw.astype(np.uint8)
            write(group, raw if dtype is None else raw.view(dtype))
        if polls:
            group.wave.polled(group)

    return step


def _parameter_offset(place: Operand, space: str, build: Builder) -> int | None:
    """Where in the parameter buffer a load of a kernel parameter by name reads, else None."""
    if not space.startswith("param") or not isinstance(place, Address):
        return None
    if not isinstance(place.base, Symbol):
        return None
    at = build.kernel.parameter_offsets.get(place.base.name)
    return None if at is None else at + place.offset


def _load_parameter(writers: list, offset: int, type_: str) -> Step:
    size = TYPE_BITS[type_] // 8
    dtype = NUMPY.get(type_, np.dtype(np.uint64))

    def step(group: Group) -> None:
        data = group.wave.memory.parameters.data
        for i, write in enumerate(writers):
            at = offset + i * size
            value = data[at : at + size].copy().view(dtype)
            write(group, value[0] if size <= 8 else value)

    return step


def _state_space(place: Operand, space: str, build: Builder) -> str:
    """``space``; "local" for .param variables of the body, which live there."""
    if not space.startswith("param"):
        return space
    if space == "param::entry":
        return "param"
    if isinstance(place, Address) and isinstance(place.base, Symbol):
        return "local" if place.base.name in build.kernel.local_offsets else "param"
    return "param"


@translates("ldu", section="9.7.9.10")
def ldu(instruction: Instruction, build: Builder) -> Step:
    """``ldu{.global}{.vec}.type d, [a]``: a load of what is the same for the whole warp."""
    modifiers = build.modifiers(instruction)
    space = modifiers.one_of("global", default="generic")
    type_, count = take_type(instruction, modifiers)
    check_operands(instruction, 2, False)
    destination, place = instruction.operands
    writers = [build.destination(e, type_) for e in elements(destination, count, instruction)]
    return _load(build.address(place), writers, space, type_, "weak", "cta", True)


# --- st ------------------------------------------------------------------------------------------


@translates("st", section="9.7.9.11")
def st(instruction: Instruction, build: Builder) -> Step:
    """``st{.sem.scope}{.space}{.vec}.type [a], b{, policy}``."""
    if "async" in instruction.modifiers:
        from checkers.simulator.instructions.remote import st_async

        return st_async(instruction, build)
    if "bulk" in instruction.modifiers:
        return _store_bulk(instruction, build)
    modifiers = build.modifiers(instruction)
    semantics, scope = take_semantics(modifiers, "release")
    space = modifiers.one_of(*SPACES, default="generic")
    if space in ("const", "param::entry"):
        raise Unsupported(instruction, f".{space} memory can't be written")
    policy = take_hints(modifiers, _STORE_OPERATORS)
    type_, count = take_type(instruction, modifiers)
    check_operands(instruction, 2, policy)
    place, source = instruction.operands[:2]
    parts = elements(source, count, instruction)
    space = _state_space(place, space, build)
    if any(isinstance(part, Sink) for part in parts):
        return _store_some(instruction, build, parts, space, type_, semantics, scope)
    return _store(
        build.address(place),
        [raw_reader(build, p, type_) for p in parts],
        space,
        TYPE_BITS[type_] // 8,
        semantics,
        scope,
    )


def raw_reader(build: Builder, operand: Operand, type_: str) -> Reader:
    """Reads an operand of ``type_`` as raw bits: unsigned (n, 32), or a scalar."""
    if isinstance(operand, Immediate) and type_ != "b128":
        raw = np.dtype(f"u{TYPE_BITS[type_] // 8}")
        constant = np.asarray(build.constant(operand, type_)).reshape(-1).view(raw)[0]
        return lambda group: constant
    return build.source(operand, raw_type(type_))


def _store(
    address: Reader, readers: list[Reader], space: str, bytes_each: int, semantics: str, scope: str
) -> Step:
    def step(group: Group) -> None:
        values = [read(group) for read in readers]
        group.wave.memory.store(group, space, address(group), values, bytes_each, semantics, scope)

    return step


def _store_some(
    instruction: Instruction,
    build: Builder,
    parts: tuple[Operand, ...],
    space: str,
    type_: str,
    semantics: str,
    scope: str,
) -> Step:
    """A store of a vector with _ in it: those elements stay as they are in memory."""
    size = TYPE_BITS[type_] // 8
    address = build.address(instruction.operands[0])
    steps = [
        _store(
            _shifted(address, i * size),
            [raw_reader(build, part, type_)],
            space,
            size,
            semantics,
            scope,
        )
        for i, part in enumerate(parts)
        if not isinstance(part, Sink)
    ]

    def step(group: Group) -> None:
        for each in steps:
            each(group)

    return step


def _shifted(address: Reader, by: int) -> Reader:
    return lambda group: address(group) + np.uint64(by)


def _store_bulk(instruction: Instruction, build: Builder) -> Step:
    """``st.bulk{.weak}{.shared::cta} [a], size, 0``: zeros, 8 bytes at a time."""
    modifiers = build.modifiers(instruction)
    modifiers.one_of("bulk")
    modifiers.flag("weak")
    space = modifiers.one_of("shared::cta", default="generic")
    modifiers.done()
    check_operands(instruction, 3, False)
    place, size, value = instruction.operands
    if not isinstance(value, Immediate) or value.value != 0:
        raise Unsupported(instruction, "st.bulk stores zeros only")
    address, read_size = build.address(place), build.source(size, "u64")

    def step(group: Group) -> None:
        sizes = np.broadcast_to(read_size(group), (group.n, 32))
        if (group.lanes(sizes) % np.uint64(8)).any():
            group.wave.faults.report(
                Kind.MISALIGNED, "st.bulk stores a multiple of 8 bytes", group=group
            )
        for offset in range(0, int(group.lanes(sizes).max()), 8):
            part = group.narrowed(sizes > offset)
            if part is not None:
                zeros = np.zeros((part.n, 32), np.uint64)
                where = address(part) + np.uint64(offset)
                part.wave.memory.store(part, space, where, [zeros], 8)

    return step
