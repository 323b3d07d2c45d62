"""The two ends of an asynchronous copy, in memory's terms.

An end is checked and marked when the copy is issued, and read or written when it is done. What lies
outside every tensor, or outside the block's shared memory, is reported and left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.simulator.machine.kernel import SHARED_BASE
from checkers.simulator.memory import naming
from checkers.simulator.memory.order import SCOPES
from checkers.simulator.reports.faults import Kind

if TYPE_CHECKING:
    from checkers.simulator.machine.group import Group
    from checkers.simulator.machine.wave import Wave

Change = Callable[[np.ndarray], np.ndarray]


class End:
    """One end: pieces of ``width`` bytes. offsets: (k,) in the shared memory of ``block``, or
    addresses in global memory.  valid: (k,) bool, those that are in memory at all."""

    def __init__(
        self,
        wave: Wave,
        space: str,
        block: Any,
        offsets: np.ndarray,
        width: int,
        ticket: Any,
        valid: np.ndarray | None,
    ) -> None:
        self.wave = wave
        self.space, self.block, self.offsets, self.width = space, block, offsets, width
        self.ticket = ticket
        self.valid = valid
        self.change: Change | None = None
        self.combine: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None

    def _chosen(self, chosen: np.ndarray | None) -> tuple[Any, np.ndarray, np.ndarray | None]:
        """(blocks, offsets, valid) of the pieces ``chosen``."""
        if chosen is None:
            return self.block, self.offsets, self.valid
        block = self.block[chosen] if isinstance(self.block, np.ndarray) else self.block
        return block, self.offsets[chosen], None if self.valid is None else self.valid[chosen]

    def read(self, chosen: np.ndarray | None = None) -> np.ndarray:
        """(k, width) uint8: the bytes of the pieces ``chosen``, (k,) bool; of all without."""
        memory = self.wave.memory
        block, offsets, valid = self._chosen(chosen)
        if valid is None and len(offsets):
            data = memory.read_bytes(self.space, block, offsets, width=self.width)
            return data.reshape(len(offsets), self.width)
        data = np.zeros((len(offsets), self.width), np.uint8)
        if valid is not None and valid.any():
            block = block[valid] if isinstance(block, np.ndarray) else block
            found = memory.read_bytes(self.space, block, offsets[valid], width=self.width)
            data[valid] = found.reshape(-1, self.width)
        return data

    def finish(
        self, data: np.ndarray | None = None, chosen: np.ndarray | None = None
    ) -> np.ndarray:
        """The end of a read (no ``data``): what was read. Of a write: ``data`` is stored."""
        memory = self.wave.memory
        if data is None:
            data = self.read(chosen)
            memory.end_async(self.ticket)
            return data if self.change is None else self.change(data)
        block, offsets, valid = self._chosen(chosen)
        data = data.reshape(len(offsets), self.width)
        if self.combine is not None:
            data = self.combine(self.read(chosen), data)
        if valid is not None:
            block = block[valid] if isinstance(block, np.ndarray) else block
            offsets, data = offsets[valid], data[valid]
        if len(offsets):
            memory.write_bytes(self.space, block, offsets, data)
        memory.end_async(self.ticket)
        return data


def reading(
    part: Group,
    thread: Any,
    space: str,
    block: Any,
    offsets: np.ndarray,
    width: int,
    agent: Any,
    time: Any,
    what: str,
) -> End:
    """The source of a copy that ``thread`` issues now, by ``agent`` at its ``time``."""
    return _begin(part, thread, space, block, offsets, width, agent, time, what, write=False)


def writing(
    part: Group,
    thread: Any,
    space: str,
    block: Any,
    offsets: np.ndarray,
    width: int,
    agent: Any,
    time: Any,
    what: str,
) -> End:
    """The destination of a copy; as ``reading``."""
    return _begin(part, thread, space, block, offsets, width, agent, time, what, write=True)


def updating(
    part: Group,
    thread: Any,
    space: str,
    block: Any,
    offsets: np.ndarray,
    width: int,
    agent: Any,
    time: Any,
    what: str,
    combine: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> End:
    """The destination of a reduction; as ``writing``. combine: (old bytes, new bytes)."""
    # Each element is a relaxed atomic of its own (9.7.9.25.4.2, 9.7.13.7): no race with its like.
    heap = part.wave.memory.heap
    heap.strength[heap.site(part.site)] = SCOPES["gpu" if space == "global" else "cluster"]
    end = _begin(part, thread, space, block, offsets, width, agent, time, what, write=True)
    end.combine = combine
    return end


def _begin(
    part: Group,
    thread: Any,
    space: str,
    block: Any,
    offsets: np.ndarray,
    width: int,
    agent: Any,
    time: Any,
    what: str,
    write: bool,
) -> End:
    wave = part.wave
    valid = _in_memory(part, thread, space, offsets, width, what, write)
    ticket = begin_valid(part, thread, space, block, offsets, width, agent, time, valid, write)
    return End(wave, space, block, offsets, width, ticket, valid)


def begin_valid(
    part: Group,
    thread: Any,
    space: str,
    block: Any,
    offsets: np.ndarray,
    width: int,
    agent: Any,
    time: Any,
    valid: np.ndarray | None,
    write: bool,
) -> Any:
    """begin_async for the pieces that are in memory. thread, block and time: numbers, or (k,)."""
    if valid is not None:
        thread, block, time, offsets = (
            v[valid] if isinstance(v, np.ndarray) and v.ndim else v
            for v in (thread, block, time, offsets)
        )
        if agent.private:
            agent = part.wave.clocks.agents(agent.kind, agent.threads[valid])
    return part.wave.memory.begin_async(
        space, block, offsets, write, agent, part.site, thread, time=time, width=width
    )


def _in_memory(
    part: Group, thread: Any, space: str, offsets: np.ndarray, width: int, what: str, write: bool
) -> np.ndarray | None:
    """(k,) bool: the pieces that lie in memory, None for all; the others are reported."""
    if not len(offsets):
        return None
    valid = (
        in_shared(part.wave, offsets, width)
        if space == "shared"
        else in_global(part, offsets, width)
    )
    if valid is None:
        return None
    i = int(np.flatnonzero(~valid)[0])
    who = int(thread[i]) if isinstance(thread, np.ndarray) else int(thread)
    verb = "writes" if write else "reads"
    if space == "shared":
        message = (
            f"A {what} {verb} beyond the block's {part.wave.memory.shared.bytes - SHARED_BASE} "
        )
        message += "bytes of shared memory"
        details = {}
    else:
        tensors = part.wave.memory.heap.tensors
        where, details = naming.whereabouts(tensors, int(offsets[i]), width)
        message = f"A {what} {verb} memory that {where}"
    part.wave.faults.report(
        Kind.OUT_OF_BOUNDS, message, thread=who, site=part.site, details=details
    )
    return valid


def in_shared(wave: Wave, offsets: np.ndarray, width: int) -> np.ndarray | None:
    """(k,) bool: which pieces lie in a block's shared memory; None when all do."""
    last = wave.memory.shared.bytes - width
    if int(offsets.min()) >= SHARED_BASE and int(offsets.max()) <= last:
        return None
    return (offsets >= SHARED_BASE) & (offsets <= last)


def in_global(part: Group, offsets: np.ndarray, width: int) -> np.ndarray | None:
    """(k,) bool: which pieces lie in a tensor of the launch; None when all do."""
    found = np.zeros(len(offsets), bool)
    for region, chosen in part.wave.memory.regions_of(offsets):
        if region is None:
            continue
        at = offsets[chosen]
        inside = at + width <= region.end
        if region.valid is not None:
            position = np.minimum(at - region.base, len(region.valid) - width)
            inside &= region.valid[position[:, None] + np.arange(width)].all(axis=1)
        found[chosen] = inside
    return None if found.all() else found
