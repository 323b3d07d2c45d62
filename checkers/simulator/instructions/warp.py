"""Exchange between the lanes of a warp: PTX ISA 9.7.9.6 and 9.7.13.2, 9.7.13.9 to 9.7.13.14.

===================  ===========================================================================
shfl.sync            d = a of another lane: up, down, bfly, idx, within segments; p: in range
vote.sync            all, any, uni of a predicate; ballot: the predicates as a mask
match.any.sync       the lanes with the same value; match.all.sync: all lanes if all have it
redux.sync           add, min, max, and, or, xor of all lanes
activemask           the lanes that stand here
elect.sync           one lane of the mask: here the lowest
bar.warp.sync        a barrier, with memory ordering, of the lanes of the mask
===================  ===========================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from checkers.simulator.machine.building import Builder, Writer, translates
from checkers.simulator.machine.group import LANES, Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.ptx.modifiers import Modifiers, Unsupported
from checkers.simulator.ptx.program import Instruction, Operand, Pair, Sink
from checkers.simulator.reports.faults import Kind
from checkers.simulator.waiting.warp_meetings import bits_of, together

_LANE = np.arange(LANES, dtype=np.int64)
_NAN = np.uint32(0x7FFFFFFF)


def _synchronous(instruction: Instruction, build: Builder, operands: int) -> Modifiers:
    """Its modifiers without .sync, which must be there, as must ``operands`` operands."""
    modifiers = build.modifiers(instruction)
    if not modifiers.flag("sync"):
        raise Unsupported(instruction, f"{instruction.opcode} without .sync ended with sm_60")
    if len(instruction.operands) != operands:
        raise Unsupported(instruction, f"{operands} operands were expected")
    return modifiers


def _pair(build: Builder, operand: Operand) -> tuple[Writer, Writer | None]:
    """Writers of d and p of "d|p", None for a p that is not asked for."""
    if not isinstance(operand, Pair):
        return build.destination(operand, "b32"), None
    second = operand.second
    wanted = None if isinstance(second, Sink) else build.destination(second, "pred")
    return build.destination(operand.first, "b32"), wanted


# --- shfl --------------------------------------------------------------------------------------


def source_lane(mode: str, lane: Any, b: Any, c: Any) -> tuple[np.ndarray, np.ndarray]:
    """(the lane to read from, whether it is in range), by the manual's pseudocode. All int64."""
    b, clamp, segment = b & 31, c & 31, c >> 8 & 31
    least = lane & segment
    most = least | (clamp & ~segment & 31)
    if mode == "up":
        j = lane - b
        inside = j >= most
    elif mode == "down":
        j = lane + b
        inside = j <= most
    elif mode == "bfly":
        j = lane ^ b
        inside = j <= most
    else:
        j = least | (b & ~segment & 31)
        inside = j <= most
    return np.where(inside, j, lane), inside


@translates("shfl", section="9.7.9.6")
def shfl(instruction: Instruction, build: Builder) -> Step:
    modifiers = _synchronous(instruction, build, 5)
    mode = modifiers.one_of("up", "down", "bfly", "idx")
    modifiers.one_of("b32")
    modifiers.done()
    destination, *sources, mask = instruction.operands
    write, write_inside = _pair(build, destination)
    value, b, c = (build.source(source, "u32") for source in sources)

    def exchange(group: Group) -> None:
        a = np.broadcast_to(value(group), (group.n, LANES))
        lane = np.asarray(b(group), np.int64), np.asarray(c(group), np.int64)
        source, inside = source_lane(mode, _LANE, *lane)
        if group.mask is not None:
            _check_sources(group, np.broadcast_to(source, group.mask.shape))
        if source.ndim == 1:
            taken = a[:, source]
        else:
            taken = np.take_along_axis(a, source, axis=1)
        if write_inside is not None:
            write_inside(group, inside)
        if group.wave.suspects is not None:
            lanes = np.broadcast_to(source, a.shape)
            group.wave.suspects.exchanged(group.warps, lanes, group.active())
        write(group, taken)

    return together("shfl.sync", build.source(mask, "u32"), exchange)


def _check_sources(group: Group, source: np.ndarray) -> None:
    """Reports lanes that read from one that takes no part."""
    active = group.active()
    bad = active & ~np.take_along_axis(active, source, axis=1)
    if bad.any():
        row, lane = (int(i) for i in np.argwhere(bad)[0])
        group.wave.faults.report(
            Kind.COLLECTIVE,
            f"Lane {lane} takes its value by shfl.sync from lane {int(source[row, lane])}, which "
            "does not take part: what it gets is undefined.",
            thread=int(group.warps[row]) * LANES + lane,
            site=group.site,
        )


# --- vote, match, redux ------------------------------------------------------------------------


def _all(votes: np.ndarray, active: np.ndarray) -> np.ndarray:
    return (votes | ~active).all(axis=1)


def _any(votes: np.ndarray, active: np.ndarray) -> np.ndarray:
    return (votes & active).any(axis=1)


def _uniform(votes: np.ndarray, active: np.ndarray) -> np.ndarray:
    return _all(votes, active) | ~_any(votes, active)


_VOTES = {"all": _all, "any": _any, "uni": _uniform}


@translates("vote", section="9.7.13.9")
def vote(instruction: Instruction, build: Builder) -> Step:
    modifiers = _synchronous(instruction, build, 3)
    mode = modifiers.one_of(*_VOTES, "ballot")
    type_ = modifiers.one_of("b32" if mode == "ballot" else "pred")
    modifiers.done()
    destination, source, mask = instruction.operands
    write = build.destination(destination, type_)
    predicate = build.source(source, "pred")

    def cast(group: Group) -> None:
        active = group.active()
        votes = np.broadcast_to(predicate(group), active.shape)
        if mode == "ballot":
            write(group, bits_of(votes & active)[:, None])
        else:
            write(group, _VOTES[mode](votes, active)[:, None])

    return together("vote.sync", build.source(mask, "u32"), cast)


@translates("match", section="9.7.13.10")
def match(instruction: Instruction, build: Builder) -> Step:
    modifiers = _synchronous(instruction, build, 3)
    mode = modifiers.one_of("any", "all")
    type_ = modifiers.one_of("b32", "b64")
    modifiers.done()
    destination, source, mask = instruction.operands
    write, write_equal = _pair(build, destination)
    if mode == "any" and write_equal is not None:
        raise Unsupported(instruction, "only match.all has a predicate")
    value = build.source(source, type_)

    def compare(group: Group) -> None:
        active = group.active()
        a = np.broadcast_to(value(group), active.shape)
        if mode == "any":
            same = (a[:, :, None] == a[:, None, :]) & active[:, None, :]
            write(group, bits_of(same))
            return
        first = a[np.arange(group.n), active.argmax(axis=1)]
        equal = _all(a == first[:, None], active)[:, None]
        if write_equal is not None:
            write_equal(group, equal)
        write(group, np.where(equal, bits_of(active)[:, None], np.uint32(0)))

    return together("match.sync", build.source(mask, "u32"), compare)


# Operation to (NumPy's, what leaves the others as they are) by type.
_REDUCTIONS: dict[str, dict[str, tuple[np.ufunc, int]]] = {
    "u32": {
        "add": (np.add, 0),
        "min": (np.minimum, 0xFFFFFFFF),
        "max": (np.maximum, 0),
    },
    "s32": {
        "add": (np.add, 0),
        "min": (np.minimum, 0x7FFFFFFF),
        "max": (np.maximum, -0x80000000),
    },
    "b32": {
        "and": (np.bitwise_and, 0xFFFFFFFF),
        "or": (np.bitwise_or, 0),
        "xor": (np.bitwise_xor, 0),
    },
}


@translates("redux", section="9.7.13.12")
def redux(instruction: Instruction, build: Builder) -> Step:
    modifiers = _synchronous(instruction, build, 3)
    type_ = modifiers.one_of("u32", "s32", "b32", "f32")
    operations = _REDUCTIONS.get(type_, {"min": (), "max": ()})
    operation = modifiers.one_of(*operations)
    destination, source, mask = instruction.operands
    value = build.source(source, "u32" if type_ in ("b32", "f32") else type_)
    write = build.destination(destination, "u32" if type_ in ("b32", "f32") else type_)
    if type_ == "f32":
        combine = _float_reduction(operation == "min", modifiers.flag("abs"), modifiers.flag("NaN"))
    else:
        combine = _integer_reduction(*_REDUCTIONS[type_][operation])
    modifiers.done()

    def reduce(group: Group) -> None:
        active = group.active()
        write(group, combine(np.broadcast_to(value(group), active.shape), active)[:, None])

    return together("redux.sync", build.source(mask, "u32"), reduce)


Combine = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _integer_reduction(operation: np.ufunc, neutral: int) -> Combine:
    def combine(values: np.ndarray, active: np.ndarray) -> np.ndarray:
        filled = np.where(active, values, values.dtype.type(neutral))
        return operation.reduce(filled, axis=1, dtype=values.dtype)

    return combine


def _float_reduction(least: bool, absolute: bool, with_nan: bool) -> Combine:
    """On bits: -0 lies below +0; NaNs count only with .NaN, or when there is nothing else."""

    def combine(raw: np.ndarray, active: np.ndarray) -> np.ndarray:
        raw = raw & np.uint32(0x7FFFFFFF) if absolute else raw
        is_nan = (raw & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
        counted = active & ~is_nan
        # Keys that compare as integers the way the floats do.
        sign = (raw >> np.uint32(31)).astype(bool)
        key = np.where(sign, ~raw, raw | np.uint32(0x80000000))
        if least:
            best = np.where(counted, key, np.uint32(0xFFFFFFFF)).min(axis=1)
        else:
            best = np.where(counted, key, np.uint32(0)).max(axis=1)
        positive = (best >> np.uint32(31)).astype(bool)
        result = np.where(positive, best & np.uint32(0x7FFFFFFF), ~best)
        none = ~counted.any(axis=1)
        if with_nan:
            none |= (active & is_nan).any(axis=1)
        return np.where(none, _NAN, result)

    return combine


# --- who is here -------------------------------------------------------------------------------


@translates("activemask", section="9.7.13.11")
def activemask(instruction: Instruction, build: Builder) -> Step:
    modifiers = build.modifiers(instruction)
    modifiers.one_of("b32")
    modifiers.done()
    write = build.destination(instruction.operands[0], "b32")
    return lambda group: write(group, bits_of(group.active())[:, None])


@translates("elect", section="9.7.13.14")
def elect(instruction: Instruction, build: Builder) -> Step:
    """Which lane is elected the manual leaves open, but it is always the same for one mask."""
    _synchronous(instruction, build, 2).done()
    destination, mask = instruction.operands
    write, write_leader = _pair(build, destination)

    def choose(group: Group) -> None:
        leader = group.active().argmax(axis=1)[:, None]
        if write_leader is not None:
            write_leader(group, leader == _LANE)
        write(group, leader.astype(np.uint32))

    return together("elect.sync", build.source(mask, "u32"), choose, needs_exited=True)


def bar_warp_sync(instruction: Instruction, build: Builder) -> Step:
    """bar.warp.sync, 9.7.13.2: registered with the other barriers."""
    modifiers = build.modifiers(instruction)
    modifiers.one_of("warp")
    modifiers.one_of("sync")
    modifiers.done()
    if len(instruction.operands) != 1:
        raise Unsupported(instruction, "a membermask was expected")

    def meet(group: Group) -> None:
        threads = group.threads()
        group.wave.clocks.meet(threads, threads // LANES)

    mask = build.source(instruction.operands[0], "u32")
    return together("bar.warp.sync", mask, meet, anywhere=True, needs_exited=True)
