"""Bulk and tensor copies on their way into the engine: who signals whom, which blocks are written.

What bulk copies (instructions/bulk.py) and tensor copies (instructions/tensor_copy.py) share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from checkers.simulator.copies.async_access import reading, updating, writing
from checkers.simulator.copies.bulk_copies import BulkCopies, BulkCopy
from checkers.simulator.copies.shared_places import OFFSET_MASK, only, places
from checkers.simulator.machine.group import Group
from checkers.simulator.memory import naming
from checkers.simulator.reports.faults import Kind
from checkers.simulator.waiting.mbarrier_lookup import each_barrier
from checkers.simulator.waiting.mbarriers import Mbarrier

ALIGNMENT = 16
COMPLETES = "mbarrier::complete_tx::bytes"
MULTICAST = "multicast::cluster"


def each_lane(
    group: Group, requests: Sequence[Sequence[int]] = (), once: bool = False
) -> list[tuple[int, Group, int]]:
    """(its place among the active lanes, a group of it alone, its flat thread index) of lanes.

    once: of the lanes of a warp that ask for the very same, by ``requests`` (one sequence of a number
    for each lane for each operand), only the first. A store that a whole warp executes with the same
    operands is one store on the hardware, and could be no other by its effect.
    """
    threads = group.threads()
    if len(threads) == 1:
        return [(0, group, int(threads[0]))]
    found = []
    seen: set[tuple[int, ...]] = set()
    for i, thread in enumerate(threads.tolist()):
        if once:
            key = (thread // 32, *(values[i] for values in requests))
            if key in seen:
                continue
            seen.add(key)
        chosen = np.zeros(len(threads), bool)
        chosen[i] = True
        part = only(group, chosen)
        assert part is not None
        found.append((i, part, thread))
    return found


def row_of(part: Group, group: Group, values: np.ndarray) -> np.ndarray:
    """(1, 32): the row of an operand, read for ``group``, that belongs to its one-lane ``part``."""
    return values[np.searchsorted(group.warps, part.warps)]


def barriers_at(
    part: Group, addresses: np.ndarray, ranks: list[int] | None, what: str
) -> list[Mbarrier]:
    """The mbarriers that a copy of the one lane of ``part`` signals: the one addressed, or with
    ``ranks`` the one at the same offset in the block of each."""
    if ranks is None:
        return [b for b, _ in each_barrier(part, addresses, "shared::cluster", what)]
    found = []
    for rank in ranks:
        there = (addresses & np.uint64(OFFSET_MASK)) | np.uint64(rank << 24)
        found += [b for b, _ in each_barrier(part, there, "shared::cluster", what)]
    return found


def ranks_of(mask: np.ndarray, part: Group) -> list[int]:
    """The ranks that a multicast mask names."""
    bits = int(part.lanes(mask)[0])
    ranks = [rank for rank in range(16) if bits >> rank & 1]
    beyond = [rank for rank in ranks if rank >= part.wave.cluster_size]
    if beyond:
        part.wave.faults.report(
            Kind.CLUSTER,
            f"A multicast to the block of rank {beyond[0]}: the cluster has "
            f"{part.wave.cluster_size}",
            group=part,
        )
    return [rank for rank in ranks if rank < part.wave.cluster_size]


def target_blocks(part: Group, address: int, ranks: list[int] | None, space: str) -> list[int]:
    """The blocks, counted in the wave, that a copy writes to."""
    where = places(part, np.full((1, 32), address, np.uint64), generic=False)
    if space == "shared::cta" and where.remote[0]:
        part.wave.faults.report(
            Kind.CLUSTER,
            "A copy to shared::cta has its destination in another block of the cluster",
            group=part,
        )
    own = int(where.blocks[0])
    if ranks is None:
        return [own]
    first = own - own % part.wave.cluster_size
    return [first + rank for rank in ranks]


def tensor_name(part: Group, addresses: np.ndarray) -> str:
    """The tensor that the first of some global addresses lies in, for the timeline."""
    region = part.wave.memory.heap.region_at(int(addresses[0])) if len(addresses) else None
    tensor = naming.tensor_at(region.tensors, int(addresses[0])) if region else None
    return tensor.name if tensor else ""


def start_load(
    state: BulkCopies,
    part: Group,
    thread: int,
    what: str,
    source: np.ndarray,
    source_width: int,
    targets: list[tuple[int, np.ndarray]],
    barriers: list[Mbarrier],
    change: Callable[[np.ndarray], np.ndarray],
    size: int,
) -> None:
    """Starts a copy from global into shared memory.

    source: (k,) addresses of pieces of ``source_width`` bytes.  targets: (block, offsets of the
    16-byte cells) of each destination.  change: from what is read, (k, source_width), to (cells, 16).
    size: bytes that each barrier is told of.
    """
    wave = part.wave
    first = barriers[0]
    time = first.phase + 1
    read = reading(part, thread, "global", 0, source, source_width, first.agent, time, what)
    writes = []
    for i, (block, offsets) in enumerate(targets):
        barrier = barriers[min(i, len(barriers) - 1)]
        writes.append(
            writing(
                part,
                thread,
                "shared",
                block,
                offsets,
                ALIGNMENT,
                barrier.agent,
                barrier.phase + 1,
                what,
            )
        )
    read.change = change
    amounts: dict[Mbarrier, int] = {}
    for barrier in barriers:
        amounts[barrier] = amounts.get(barrier, 0) + size
    blocks = [block for block, _ in targets]
    copy = BulkCopy(part, thread, what, read, writes, list(amounts.items()), blocks)
    for barrier, amount in amounts.items():
        barrier.starts(copy, amount)
    if wave.log.enabled:
        wave.log.start(part, copy, "copy", f"load {tensor_name(part, source)}", bytes=size)
    state.start(copy, in_group=False)


def start_store(
    state: BulkCopies,
    part: Group,
    thread: int,
    what: str,
    block: int,
    source: np.ndarray,
    target: np.ndarray,
    target_width: int,
    change: Callable[[np.ndarray], np.ndarray],
    size: int,
    combine: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
) -> None:
    """Starts a copy or reduction from shared into global memory, of the thread's bulk groups.

    source: (cells,) offsets of 16 bytes each in the shared memory of ``block``.  target: addresses of
    pieces of ``target_width`` bytes.  combine: (old, new) bytes of a reduction.
    """
    wave = part.wave
    reader, writer = state.agent(thread, True), state.agent(thread, False)
    time, written = reader.tick(), writer.tick()
    read = reading(part, thread, "shared", block, source, ALIGNMENT, reader, time, what)
    read.change = change
    if combine is None:
        write = writing(part, thread, "global", 0, target, target_width, writer, written, what)
    else:
        place = ("global", 0, target, target_width, writer, written, what)
        write = updating(part, thread, *place, combine=combine)
    copy = BulkCopy(part, thread, what, read, [write], (), [block])
    copy.time = time
    if wave.log.enabled:
        wave.log.start(part, copy, "store", f"store {tensor_name(part, target)}", bytes=size)
    state.start(copy, in_group=True)
