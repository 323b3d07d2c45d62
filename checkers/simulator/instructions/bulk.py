"""Bulk copies: PTX ISA 9.7.9.25.4 (cp.async.bulk, cp.reduce.async.bulk, prefetch) and 9.7.9.27.2
(commit_group, wait_group)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from checkers.simulator.copies.async_access import reading, updating, writing
from checkers.simulator.copies.bulk_copies import BulkCopies, BulkCopy
from checkers.simulator.copies.bulk_issue import (
    ALIGNMENT,
    COMPLETES,
    MULTICAST,
    barriers_at,
    each_lane,
    ranks_of,
    row_of,
    start_load,
    start_store,
    target_blocks,
)
from checkers.simulator.copies.reductions import take_reduction
from checkers.simulator.copies.shared_places import OFFSET_MASK
from checkers.simulator.copies.tiles import contiguous
from checkers.simulator.machine.building import Builder
from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.ptx.modifiers import Modifiers, Unsupported
from checkers.simulator.ptx.program import Immediate, Instruction
from checkers.simulator.reports.faults import Kind


def translate(
    instruction: Instruction, build: Builder, modifiers: Modifiers, reduces: bool
) -> Step:
    """What follows cp.async.bulk or cp.reduce.async.bulk."""
    if modifiers.flag("commit_group"):
        modifiers.done()
        return lambda group: group.wave.state(BulkCopies).commit(group)
    if modifiers.flag("wait_group"):
        reads = modifiers.flag("read")
        modifiers.done()
        count = instruction.operands[0]
        if not isinstance(count, Immediate):
            raise Unsupported(instruction, "a wait_group takes a constant")
        leave = int(count.value)
        return lambda group: group.wave.state(BulkCopies).wait(group, leave, reads)
    if modifiers.flag("prefetch"):
        return _prefetch(instruction, build, modifiers)
    to, source = _spaces(modifiers)
    if to == "global":
        return _store(instruction, build, modifiers, reduces)
    if source == "global":
        if reduces:
            raise Unsupported(instruction, "a reduction reads shared memory")
        return _load(instruction, build, modifiers, to)
    return _to_neighbour(instruction, build, modifiers, reduces)


def _spaces(modifiers: Modifiers) -> tuple[str, str]:
    """(destination, source): the two state spaces in the order in which they are written."""
    spaces = ("shared::cta", "shared::cluster", "global")
    return modifiers.one_of(*spaces), modifiers.one_of(*spaces)


# --- what every lane asks for ------------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """One lane's bulk copy. part: a group of this lane alone."""

    part: Group
    thread: int
    to: int
    source: int
    size: int


def _requests(
    group: Group,
    to: Callable[[Group], np.ndarray],
    source: Callable[[Group], np.ndarray],
    size: Callable[[Group], np.ndarray],
    once: bool = False,
) -> list[Request]:
    """The copies that the lanes ask for; those of an impossible size or alignment are reported.

    once: as each_lane has it.
    """
    targets = group.lanes(to(group)).tolist()
    sources = group.lanes(source(group)).tolist()
    sizes = group.lanes(np.asarray(size(group))).tolist()
    found = []
    for i, part, thread in each_lane(group, [targets, sources, sizes], once):
        to_, source_, size_ = int(targets[i]), int(sources[i]), int(sizes[i])
        if size_ % ALIGNMENT:
            group.wave.faults.report(
                Kind.MISALIGNED,
                f"A bulk copy of {size_} bytes: the size must be a multiple of {ALIGNMENT}",
                group=part,
            )
            size_ -= size_ % ALIGNMENT
        if to_ % ALIGNMENT or source_ % ALIGNMENT:
            which = "destination" if to_ % ALIGNMENT else "source"
            group.wave.faults.report(
                Kind.MISALIGNED,
                f"The {which} of a bulk copy is at no multiple of {ALIGNMENT} bytes",
                group=part,
            )
            continue
        if size_:
            found.append(Request(part, thread, to_, source_, size_))
    return found


# --- into shared memory ----------------------------------------------------------------------------


def _load(instruction: Instruction, build: Builder, modifiers: Modifiers, space: str) -> Step:
    modifiers.one_of(COMPLETES)
    multicast = modifiers.flag(MULTICAST)
    modifiers.flag("L2::cache_hint")
    modifiers.done()
    operands = instruction.operands
    to, source, barrier = (build.address(operands[i]) for i in (0, 1, 3))
    size = build.source(operands[2], "u32")
    mask = build.source(operands[4], "u16") if multicast else None
    what = "bulk copy into shared memory"

    def step(group: Group) -> None:
        wave = group.wave
        state = wave.state(BulkCopies)
        signals = barrier(group)
        masks = None if mask is None else np.broadcast_to(mask(group), (group.n, 32))
        for request in _requests(group, to, source, size):
            part, thread, count = request.part, request.thread, request.size
            ranks = None if masks is None else ranks_of(row_of(part, group, masks), part)
            barriers = barriers_at(part, row_of(part, group, signals), ranks, what)
            if not barriers:
                continue
            blocks = target_blocks(part, request.to, ranks, space)
            start_load(
                state,
                part,
                thread,
                what,
                contiguous(request.source, count),
                ALIGNMENT,
                [(b, contiguous(request.to & OFFSET_MASK, count)) for b in blocks],
                barriers,
                lambda data: data,
                count,
            )
            wave.counters.add("bulk_requests", 1, part.site)
            wave.counters.add("bulk_load_bytes", count, part.site)

    return step


# --- out of shared memory --------------------------------------------------------------------------------


def _store(instruction: Instruction, build: Builder, modifiers: Modifiers, reduces: bool) -> Step:
    modifiers.one_of("bulk_group")
    hinted = modifiers.flag("L2::cache_hint")
    masked = modifiers.flag("cp_mask")
    combine = take_reduction(modifiers) if reduces else None
    modifiers.done()
    operands = instruction.operands
    to, source = build.address(operands[0]), build.address(operands[1])
    size = build.source(operands[2], "u32")
    byte_mask = build.source(operands[4 if hinted else 3], "u16") if masked else None
    what = "bulk reduction into global memory" if reduces else "bulk copy to global memory"
    counter = "bulk_reduce_bytes" if reduces else "bulk_store_bytes"

    def step(group: Group) -> None:
        wave = group.wave
        state = wave.state(BulkCopies)
        masks = None if byte_mask is None else np.broadcast_to(byte_mask(group), (group.n, 32))
        for request in _requests(group, to, source, size, once=not reduces):
            part, count = request.part, request.size
            block = target_blocks(part, request.source, None, "shared::cta")[0]
            target, width, change = contiguous(request.to, count), ALIGNMENT, _same
            if masks is not None:
                bits = int(part.lanes(row_of(part, group, masks))[0])
                target, change = _masked(target, bits)
                width = 1
            offsets = contiguous(request.source & OFFSET_MASK, count)
            start_store(
                state,
                part,
                request.thread,
                what,
                block,
                offsets,
                target,
                width,
                change,
                count,
                combine,
            )
            wave.counters.add("bulk_requests", 1, part.site)
            wave.counters.add(counter, count, part.site)

    return step


def _same(data: np.ndarray) -> np.ndarray:
    return data


def _masked(cells: np.ndarray, mask: int) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """The bytes that .cp_mask lets through: their addresses, and how to pick them."""
    chosen = np.flatnonzero([mask >> i & 1 for i in range(ALIGNMENT)])
    return (cells[:, None] + chosen).ravel(), lambda data: data[:, chosen].reshape(-1, 1)


# --- to another block --------------------------------------------------------------------------------------


def _to_neighbour(
    instruction: Instruction, build: Builder, modifiers: Modifiers, reduces: bool
) -> Step:
    modifiers.one_of(COMPLETES)
    combine = take_reduction(modifiers) if reduces else None
    modifiers.done()
    operands = instruction.operands
    to, source, barrier = (build.address(operands[i]) for i in (0, 1, 3))
    size = build.source(operands[2], "u32")
    what = "bulk copy into another block's shared memory"

    def step(group: Group) -> None:
        wave = group.wave
        state = wave.state(BulkCopies)
        signals = barrier(group)
        for request in _requests(group, to, source, size):
            part, thread, count = request.part, request.thread, request.size
            barriers = barriers_at(part, row_of(part, group, signals), None, what)
            if not barriers:
                continue
            first, time = barriers[0], barriers[0].phase + 1
            here = target_blocks(part, request.source, None, "shared::cta")[0]
            there = target_blocks(part, request.to, None, "shared::cluster")[0]
            if here == there:
                wave.faults.report(
                    Kind.CLUSTER,
                    "A bulk copy from shared to shared memory goes to the block's own: it must be "
                    "another's",
                    group=part,
                )
            offsets = contiguous(request.source & OFFSET_MASK, count)
            target = contiguous(request.to & OFFSET_MASK, count)
            read = reading(
                part, thread, "shared", here, offsets, ALIGNMENT, first.agent, time, what
            )
            place = ("shared", there, target, ALIGNMENT, first.agent, time, what)
            if combine is None:
                write = writing(part, thread, *place)
            else:
                write = updating(part, thread, *place, combine)
            copy = BulkCopy(part, thread, what, read, [write], [(first, count)], [here, there])
            first.starts(copy, count)
            wave.counters.add("bulk_requests", 1, part.site)
            wave.counters.add("bulk_cluster_bytes", count, part.site)
            if wave.log.enabled:
                wave.log.start(part, copy, "copy", what, bytes=count)
            state.start(copy, in_group=False)

    return step


def _prefetch(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    """Only a hint: counted, and nothing else."""
    modifiers.one_of("L2")
    modifiers.one_of("global")
    modifiers.flag("L2::cache_hint")
    modifiers.done()
    source = build.address(instruction.operands[0])
    size = build.source(instruction.operands[1], "u32")

    def step(group: Group) -> None:
        sizes = sum(r.size for r in _requests(group, source, source, size))
        group.wave.counters.add("bulk_prefetch_bytes", sizes, group.site)

    return step
