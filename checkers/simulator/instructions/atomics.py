"""Atomics: PTX ISA 9.7.13.5 (atom), 9.7.13.6 (red).

==============  =============================================================
operation       types
==============  =============================================================
and or xor      b32 b64
exch            b32 b64 b128
cas             b16 b32 b64 b128
add             u32 s32 u64 f32 f64, .noftz f16 bf16 f16x2 bf16x2
min max         u32 s32 u64 s64, .noftz f16 bf16 f16x2 bf16x2 (vectors)
inc dec         u32
==============  =============================================================

Vectors: .v2 .v4 of f32 (add), f16x2, bf16x2; .v2 .v4 .v8 of f16, bf16. Lanes do theirs one after
another in the order of their numbers; the manual leaves the order open. add.f32 on global memory
flushes subnormal numbers, on shared memory it doesn't.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from checkers.simulator.arithmetic.extrema import maximum, minimum
from checkers.simulator.instructions.loads import (
    SCOPES,
    check_operands,
    elements,
    raw_reader,
    raw_type,
)
from checkers.simulator.machine.building import Builder, translates
from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.machine.registers import HALVES, NUMPY
from checkers.simulator.memory.order import Update
from checkers.simulator.ptx.modifiers import Unsupported
from checkers.simulator.ptx.program import TYPE_BITS, Immediate, Instruction

_OPERATIONS = ("and", "or", "xor", "cas", "exch", "add", "inc", "dec", "min", "max")
_BITS = {"b32", "b64", "u32", "u64", "s32", "s64"}
_HALF = {"f16", "bf16", "f16x2", "bf16x2"}
_ALLOWED = {
    "and": _BITS,
    "or": _BITS,
    "xor": _BITS,
    "exch": {"b32", "b64", "b128", "u32", "u64", "s32", "s64", "f32", "f64"},
    "cas": {"b16", "b32", "b64", "b128", "u16", "u32", "u64", "s32", "s64", "f32", "f64"},
    "add": {"u32", "s32", "u64", "s64", "f32", "f64"} | _HALF,
    "min": {"u32", "s32", "u64", "s64"} | _HALF,
    "max": {"u32", "s32", "u64", "s64"} | _HALF,
    "inc": {"u32"},
    "dec": {"u32"},
}
# The NaN that results have; f64 passes one operand's on.
_ONES = {NUMPY["f32"]: 0x7FFFFFFF, NUMPY["f16"]: 0x7FFF, NUMPY["bf16"]: 0x7FFF}
# So many lanes at one place are still done in rounds, one lane of each place in a round.
_ROUNDS = 48

Function = Callable[..., np.ndarray]


@translates("atom", "red", section="9.7.13.5, 9.7.13.6")
def atom(instruction: Instruction, build: Builder) -> Step:
    """``atom{.sem}{.scope}{.space}.op{.noftz}{.vec}.type d, [a], b{, c}{, policy}``; red has no d."""
    if "async" in instruction.modifiers:
        from checkers.simulator.instructions.remote import red_async

        return red_async(instruction, build)
    returns = instruction.opcode == "atom"
    modifiers = build.modifiers(instruction)
    some = ("acquire", "acq_rel") if returns else ()
    semantics = modifiers.one_of("relaxed", "release", *some, default="relaxed")
    scope = modifiers.one_of(*SCOPES, default="gpu")
    spaces = ("global", "shared", "shared::cta", "shared::cluster")
    space = modifiers.one_of(*spaces, default="generic")
    operation = modifiers.one_of(*_OPERATIONS)
    noftz = modifiers.flag("noftz")
    policy = modifiers.flag("L2::cache_hint")
    count = int(modifiers.one_of("v2", "v4", "v8", default="v1")[1:])
    type_ = modifiers.type()
    modifiers.done()
    _check(instruction, operation, type_, count, noftz, returns)
    sources = 2 if operation == "cas" else 1
    check_operands(instruction, 1 + returns + sources, policy)
    operands = instruction.operands[1:] if returns else instruction.operands
    address = build.address(operands[0])
    readers = [
        raw_reader(build, element, type_)
        for operand in operands[1 : 1 + sources]
        for element in elements(operand, count, instruction)
    ]
    writers = []
    if returns:
        targets = elements(instruction.operands[0], count, instruction)
        writers = [build.destination(target, raw_type(type_)) for target in targets]
    update = updater(operation, type_, returns)
    size = TYPE_BITS[type_] // 8

    def step(group: Group) -> None:
        shape = (group.n, 32, 2) if size == 16 else (group.n, 32)
        inputs = [np.broadcast_to(read(group), shape) for read in readers]
        old = group.wave.memory.atomic(
            group, space, address(group), inputs, update, size, count, semantics, scope, returns
        )
        for write, value in zip(writers, old, strict=False):
            write(group, value)
        if returns:
            group.wave.polled(group)

    return step


def _check(
    instruction: Instruction, operation: str, type_: str, count: int, noftz: bool, returns: bool
) -> None:
    if type_ not in _ALLOWED[operation] or (not returns and operation in ("cas", "exch")):
        raise Unsupported(instruction, f"there is no {operation} for .{type_} in it")
    if noftz != (type_ in _HALF):
        raise Unsupported(instruction, "the 16-bit types, and only they, have .noftz")
    if count > 1 and type_ not in ({"f32"} | _HALF if operation == "add" else _HALF):
        raise Unsupported(instruction, f"there is no vector of .{type_} for {operation}")
    if type_ in ("f16", "bf16", "f16x2", "bf16x2") and operation != "add" and count == 1:
        raise Unsupported(instruction, f"{operation} of .{type_} is for vectors only")
    if any(isinstance(o, Immediate) for o in instruction.operands) and type_ == "b128":
        raise Unsupported(instruction, "b128 operands are registers")


# --- what an atomic does to memory ---------------------------------------------------------------


def updater(operation: str, type_: str, returns: bool) -> Update:
    """The update that Memory.atomic is given."""
    if type_ == "b128":
        function = _cas_wide if operation == "cas" else lambda old, new: new
        return lambda memory, index, operands, is_global: in_order(
            memory, index, operands, function, None
        )
    base = HALVES.get(type_, type_)
    dtype = NUMPY[base]
    function, ufunc = _function(operation, dtype)
    packed = base != type_

    def update(
        memory: np.ndarray, index: np.ndarray, operands: list[np.ndarray], is_global: bool
    ) -> np.ndarray:
        typed = memory.view(dtype)
        if packed:
            typed = typed.reshape(-1, 2)
        inputs = [np.ascontiguousarray(x).view(dtype) for x in operands]
        if packed:
            inputs = [x.reshape(-1, 2) for x in inputs]
        combine = function
        if type_ == "f32" and operation == "add" and is_global:
            combine = _flushed
        elif type_ == "f64" and operation == "add" and is_global:
            combine = _add_in_global
        if not returns and ufunc is not None and type_ != "f32":
            before = memory.take(index)
            ufunc.at(typed, index, inputs[0])
            return before
        old = in_order(typed, index, inputs, combine, ufunc)
        return np.ascontiguousarray(old).view(memory.dtype).reshape(len(index))

    return update


def in_order(
    memory: np.ndarray,
    index: np.ndarray,
    operands: list[np.ndarray],
    function: Function,
    ufunc: np.ufunc | None,
) -> np.ndarray:
    """memory[i] = function(memory[i], *operands) for each of (k,) ``index`` in turn; what was there
    before each. ufunc: does the same as ``function``, if there is one that is exact."""
    order = np.argsort(index, kind="stable")
    places = index[order]
    new = np.ones(len(places), bool)
    new[1:] = places[1:] != places[:-1]
    if new.all():
        old = memory[index]
        memory[index] = function(old, *operands)
        return old
    first = np.flatnonzero(new)
    turn = np.arange(len(places)) - first[np.cumsum(new) - 1]
    old = np.empty((len(index), *memory.shape[1:]), memory.dtype)
    rounds = int(turn.max()) + 1
    if ufunc is not None and rounds > _ROUNDS:
        _run_along(memory, order, first, places, operands[0], old, ufunc)
        if function is not _flushed or not _has_subnormals(old, memory[places[first]], operands[0]):
            return old
        memory[places[first]] = old[order[first]]
    for each in range(rounds):
        lanes = order[turn == each]
        there = memory[index[lanes]]
        old[lanes] = there
        memory[index[lanes]] = function(there, *[x[lanes] for x in operands])
    return old


def _run_along(
    memory: np.ndarray,
    order: np.ndarray,
    first: np.ndarray,
    places: np.ndarray,
    values: np.ndarray,
    old: np.ndarray,
    ufunc: np.ufunc,
) -> None:
    """The lanes of each place as one running sum (or minimum ...)."""
    for start, end in zip(first.tolist(), [*first[1:].tolist(), len(places)], strict=True):
        lanes = order[start:end]
        line = np.concatenate([memory[places[start]][None], values[lanes]])
        line = ufunc.accumulate(line, dtype=line.dtype)
        old[lanes] = line[:-1]
        memory[places[start]] = line[-1]


def _function(operation: str, dtype: np.dtype) -> tuple[Function, np.ufunc | None]:
    """(function, the ufunc that does the same) of an operation."""
    whole = dtype.kind in "ui"
    table: dict[str, tuple[Function, np.ufunc | None]] = {
        "and": (np.bitwise_and, np.bitwise_and),
        "or": (np.bitwise_or, np.bitwise_or),
        "xor": (np.bitwise_xor, np.bitwise_xor),
        "exch": (lambda old, new: new, None),
        "cas": (lambda old, expected, new: np.where(_same(old, expected), new, old), None),
        "inc": (lambda old, top: np.where(old >= top, 0, old + 1).astype(dtype), None),
        "dec": (
            lambda old, top: np.where((old == 0) | (old > top), top, old - 1).astype(dtype),
            None,
        ),
        "add": (np.add, np.add) if whole else (_add, np.add if dtype.itemsize > 2 else None),
        "min": (np.minimum, np.minimum) if whole else (_canonical(minimum), None),
        "max": (np.maximum, np.maximum) if whole else (_canonical(maximum), None),
    }
    return table[operation]


def _same(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Equal bits: a NaN equals itself, and 0.0 is not -0.0."""
    raw = np.dtype(f"u{left.dtype.itemsize}")
    return left.view(raw) == right.view(raw)


def _cas_wide(old: np.ndarray, expected: np.ndarray, new: np.ndarray) -> np.ndarray:
    """cas of (k, 2) words."""
    return np.where((old == expected).all(axis=1)[:, None], new, old)


def _canonical(function: Function) -> Function:
    """``function`` of floats, with the canonical NaN for any."""

    def apply(old: np.ndarray, value: np.ndarray) -> np.ndarray:
        result = np.asarray(function(old, value), old.dtype)
        ones = _ONES.get(result.dtype)
        if ones is not None and np.isnan(result).any():
            raw = result.view(f"u{result.itemsize}")
            raw[np.isnan(result)] = ones
        return result

    return apply


_add = _canonical(np.add)


def _add_in_global(old: np.ndarray, value: np.ndarray) -> np.ndarray:
    """An f64 sum as the L2 cache forms it: a NaN passes through as it is, a signalling one too."""
    total = old + value
    for operand in (value, old):
        total = np.where(np.isnan(operand), operand, total)
    return total


def _flushed(old: np.ndarray, value: np.ndarray) -> np.ndarray:
    """_add with subnormal operands and sums taken for zeros of their sign."""
    return _flush(_add(_flush(old), _flush(value)))


def _flush(values: np.ndarray) -> np.ndarray:
    tiny = np.abs(values) < np.finfo(np.float32).tiny
    return np.where(tiny, np.copysign(np.float32(0), values), values) if tiny.any() else values


def _has_subnormals(*arrays: np.ndarray) -> bool:
    return any(((np.abs(a) < np.finfo(np.float32).tiny) & (a != 0)).any() for a in arrays)
