"""Allocation of tensor memory: tcgen05.alloc, .dealloc and .relinquish_alloc_permit.

PTX ISA 9.7.16.7. Columns are given out in powers of two from 32 to 512, never more than at the last
time, to one whole warp (with cta_group::2 to one warp of each block of a pair, at one address).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from checkers.simulator.machine.group import LANES, Group
from checkers.simulator.machine.wave import Wait
from checkers.simulator.matrices.tensor_memory import COLUMNS, TensorMemory
from checkers.simulator.reports.faults import Access, Kind

if TYPE_CHECKING:
    from checkers.simulator.machine.wave import Wave
    from checkers.simulator.ptx.program import Instruction

SMALLEST = 32


@dataclass(eq=False)
class RoomWait(Wait):
    """Warps that wait until tensor memory is free, or for the other block of their pair."""

    wanted: int = 0
    partner: bool = False

    def reason(self) -> str:
        if self.partner:
            return "tcgen05.alloc with cta_group::2 waits for the other block of its pair"
        return f"tcgen05.alloc waits for {self.wanted} free columns of tensor memory"


@dataclass
class Allocation:
    """Columns that a block holds. number: in its block, from 1."""

    number: int
    first: int
    count: int
    thread: int
    site: Instruction


class Allocations:
    """All of a wave: ``wave.state(Allocations)``."""

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        self.memory = wave.state(TensorMemory)
        self.held: list[list[Allocation]] = [[] for _ in range(wave.blocks)]
        self.last: list[int] = [COLUMNS] * wave.blocks
        self.relinquished: dict[int, Access] = {}
        self._count = 0
        self._room: dict[int, RoomWait] = {}
        self._partners: dict[int, tuple[RoomWait, Group, int]] = {}
        wave.exit_checks.append(self._at_exit)

    def report(self, group: Group, message: str, other: Access | None = None) -> None:
        self.wave.faults.report(Kind.TENSOR_MEMORY, message, group=group, other=other)

    # --- alloc ---------------------------------------------------------------------------------

    def check(self, group: Group, block: int, count: int) -> bool:
        """Whether a warp may ask for ``count`` columns at all; reports why not."""
        if count < SMALLEST or count > COLUMNS or count & (count - 1):
            self.report(
                group,
                f"tcgen05.alloc asks for {count} columns: it is a power of two from 32 to 512.",
            )
            return False
        if block in self.relinquished:
            self.report(
                group,
                "tcgen05.alloc after tcgen05.relinquish_alloc_permit: the block has given the "
                "right to allocate away.",
                self.relinquished[block],
            )
        elif count > self.last[block]:
            self.report(
                group,
                f"tcgen05.alloc asks for {count} columns after an allocation of "
                f"{self.last[block]}: from one to the next they may not grow.",
            )
        return True

    def room(self, blocks: list[int], count: int) -> int | None:
        """The first of ``count`` columns that are free in all of these blocks."""
        used = (self.memory.owner[blocks] != 0).any(axis=0)
        for first in range(0, COLUMNS - count + 1, SMALLEST):
            if not used[first : first + count].any():
                return first
        return None

    def take(self, block: int, first: int, count: int, group: Group) -> None:
        """Gives columns to a warp."""
        self._count += 1
        thread = int(group.threads()[0])
        self.held[block].append(Allocation(self._count, first, count, thread, group.site))
        self.last[block] = min(count, self.last[block])
        self.memory.allot(block, slice(first, first + count), self._count)

    def wait_for_room(self, block: int, count: int) -> RoomWait:
        return self._room.setdefault(block, RoomWait("tensor memory", False, count))

    def meet(self, block: int, group: Group, count: int) -> tuple[Group, int] | RoomWait:
        """The warp of the other block of the pair and the columns it asks for, if it is there
        already; else what to wait for."""
        there = self._partners.pop(block ^ 1, None)
        if there is not None:
            wait, other, wanted = there
            self.wave.wake(wait)
            return other, wanted
        wait = RoomWait("tensor memory", False, count, True)
        self._partners[block] = (wait, group, count)
        return wait

    # --- dealloc -------------------------------------------------------------------------------

    def free(self, block: int, address: int, count: int, group: Group) -> None:
        """Takes columns back."""
        first = address & 0xFFFF
        found = [a for a in self.held[block] if a.first == first]
        if not found:
            held = ", ".join(f"{a.first} to {a.first + a.count - 1}" for a in self.held[block])
            self.report(
                group,
                f"tcgen05.dealloc of column {first}, where no allocation begins (allocated: "
                f"{held or 'nothing'}).",
            )
            return
        allocation = found[0]
        if allocation.count != count:
            self.report(
                group,
                f"tcgen05.dealloc of {count} columns, but {allocation.count} were allocated there.",
                Access(allocation.thread, allocation.site, "tcgen05.alloc"),
            )
        columns = slice(first, first + allocation.count)
        busy = self.memory.in_use(block, columns, int(group.threads()[0]))
        if busy is not None:
            self.report(
                group,
                f"tcgen05.dealloc while {busy.what} may still use the columns: nothing says to "
                "this warp that it is complete.",
                busy.access(),
            )
        self.held[block].remove(allocation)
        self.memory.allot(block, columns, 0)
        wait = self._room.pop(block, None)
        if wait is not None:
            self.wave.wake(wait)
        self.wave.progressed()

    def relinquish(self, block: int, group: Group) -> None:
        access = Access(int(group.threads()[0]), group.site, "tcgen05.relinquish_alloc_permit")
        self.relinquished.setdefault(block, access)

    def _at_exit(self, block: int) -> None:
        for allocation in self.held[block]:
            self.wave.faults.report(
                Kind.TENSOR_MEMORY,
                f"The block ends without tcgen05.dealloc: {allocation.count} columns of tensor "
                "memory are lost to those who come after it.",
                thread=allocation.thread,
                site=allocation.site,
            )
        self.held[block].clear()


def warps_blocks(group: Group) -> list[tuple[Group, int]]:
    """Each warp of a group by itself, with its block."""
    return [(group.only_warps(np.array([i])), int(block)) for i, block in enumerate(group.blocks())]


def lane_zero(group: Group) -> Group:
    """The first active lane of each warp."""
    active = group.active()
    chosen = np.zeros_like(active)
    chosen[np.arange(group.n), active.argmax(axis=1)] = True
    part = group.narrowed(chosen)
    assert part is not None and chosen.shape[1] == LANES
    return part
