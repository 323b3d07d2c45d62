"""Tensor memory of Blackwell: its cells, who may use them, and who used them last.

PTX ISA 9.7.16.1, .5 to .7. A block has 128 lanes of 512 columns of 32 bits; an address is
lane << 16 | column. No hardware at hand could confirm what is here: it follows the manual.

Every access is an *operation* of an asynchronous engine: of a warp (tcgen05.ld, .st), or of the
thread that issued it (tcgen05.mma, .cp, .shift). Whoever touches a cell next must know that the
operation before is complete, by tcgen05.wait or by the mbarrier of tcgen05.commit and by what
synchronises threads; only the pairs of 9.7.16.6.2 follow one another by themselves. Kept for
pieces of 16 lanes of one column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.simulator.machine.group import LANES, Group
from checkers.simulator.reports.faults import Access, Kind, Severity

if TYPE_CHECKING:
    from checkers.simulator.machine.wave import Wave
    from checkers.simulator.ptx.program import Instruction

ROWS = 128
COLUMNS = 512
PIECE = 16  # lanes
READERS = 5  # tcgen05.ld by each warpgroup of up to four, and the tensor core
POISON = np.uint32(0xFFFFFFFF)  # a NaN: nothing that was not written may be relied on


@dataclass(eq=False)
class TensorOperation:
    """An access that may be in flight.

    what: "tcgen05.ld", ...  thread: that issued it, flat.  issued: the clocks' number then.
    agent, time: what one must know to know that it is complete.  shape: of a multiplication, for
    the pipeline rule.  number: in the shadow.  consumed: of a load, the clocks' number when one of
    its registers was used; 0 before.
    """

    what: str
    site: Instruction
    thread: int
    issued: int
    agent: Any
    time: int
    shape: tuple[Any, ...] = ()
    number: int = 0
    consumed: int = 0

    @property
    def pipe(self) -> bool:
        """Whether it goes through the tensor core's pipeline, and is tracked by commit."""
        return self.what not in ("tcgen05.ld", "tcgen05.st")

    def access(self) -> Access:
        return Access(self.thread, self.site, f"{self.what} in flight")


@dataclass(frozen=True)
class Region:
    """Cells of one block: pieces of 16 lanes (a slice of 0 to 8) of some columns (a slice)."""

    block: int
    pieces: slice
    columns: slice


class TensorMemory:
    """The tensor memory of a wave's blocks: ``wave.state(TensorMemory)``.

    cells: (blocks, 128, 512) uint32.  owner: (blocks, 512) which allocation a column belongs to, 0
    for none.  loaded: (slots, warps) the number of the tcgen05.ld whose result a register holds
    unused.
    """

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        self.cells = np.full((wave.blocks, ROWS, COLUMNS), POISON)
        self.owner = np.zeros((wave.blocks, COLUMNS), np.int16)
        self.writers = np.zeros((wave.blocks, ROWS // PIECE, COLUMNS), np.int32)
        self.readers = np.zeros((READERS, wave.blocks, ROWS // PIECE, COLUMNS), np.int32)
        self.operations: list[TensorOperation | None] = [None]
        self.fenced: dict[Any, np.ndarray] = {}
        self.loaded = np.zeros((len(wave.kernel.slot_bits), wave.warps), np.int32)
        self._one_cta_group()
        self._uses_fences = wave.kernel.uses("tcgen05.fence::after_thread_sync")

    def _one_cta_group(self) -> None:
        """All tcgen05 instructions of a kernel have one .cta_group (9.7.16.7.1)."""
        first: dict[str, Instruction] = {}
        for instruction in self.wave.kernel.instructions:
            for modifier in instruction.modifiers:
                if instruction.opcode == "tcgen05" and modifier.startswith("cta_group"):
                    first.setdefault(modifier, instruction)
        if len(first) == 2:
            one, other = first.values()
            self.wave.faults.report(
                Kind.TENSOR_MEMORY,
                "The kernel has tcgen05 instructions with cta_group::1 and with cta_group::2: all "
                "have to say the same.",
                site=other,
                other=Access(None, one, one.name),
            )

    def flat(self, block: int) -> np.ndarray:
        """(128, 512) the cells of a block."""
        return self.cells[block]

    # --- operations ----------------------------------------------------------------------------

    def operation(
        self, what: str, site: Instruction, thread: int, key: Any, shape: tuple[Any, ...] = ()
    ) -> TensorOperation:
        """A new operation of the engine ``key`` that ``thread`` issues."""
        clocks = self.wave.clocks
        agent = clocks.agent(int(clocks.cluster[thread]), key)
        return TensorOperation(what, site, thread, clocks.now, agent, agent.tick(), shape)

    def read(self, region: Region, operation: TensorOperation, slot: int) -> None:
        """``operation`` reads cells: they must be allocated, written, and the write be complete.
        slot: of the readers, that remembers it."""
        if not self._allocated(region, operation):
            return
        writers = self.writers[region.block, region.pieces, region.columns]
        if not writers.any(axis=0).all():
            column = region.columns.start + int(np.argmin(writers.any(axis=0)))
            self.wave.faults.report(
                Kind.UNINITIALISED,
                f"{operation.what} reads column {column} of tensor memory, which no one has written.",
                thread=operation.thread,
                site=operation.site,
            )
        self._ordered(writers, operation, "is read", "written")
        self.readers[slot, region.block, region.pieces, region.columns] = self._number(operation)

    def write(self, region: Region, operation: TensorOperation) -> None:
        """``operation`` writes cells: they must be allocated, and their last uses complete."""
        if not self._allocated(region, operation):
            return
        at = (region.block, region.pieces, region.columns)
        self._ordered(self.writers[at], operation, "is overwritten", "written")
        readers = self.readers[(slice(None), *at)]
        if readers.any():
            self._ordered(readers, operation, "is overwritten", "read")
            readers[:] = 0
        self.writers[at] = self._number(operation)

    def _number(self, operation: TensorOperation) -> int:
        if not operation.number:
            operation.number = len(self.operations)
            self.operations.append(operation)
        return operation.number

    def _ordered(
        self, numbers: np.ndarray, operation: TensorOperation, is_used: str, was: str
    ) -> None:
        """Reports operations among ``numbers`` that ``operation`` may not follow yet."""
        first = int(numbers.flat[0])
        distinct = [first] if (numbers == first).all() else np.unique(numbers).tolist()
        for number in distinct:
            before = self.operations[number]
            if before is None or before is operation:
                continue
            if self._follows(before, operation, was):
                self._check_fence(before, operation)
                continue
            tolerated = self._was_consumed(before, operation.thread)
            why = _too_early(before, operation, was)
            if tolerated:
                why += ": only the use of its registers says that it is complete"
            self.wave.faults.report(
                Kind.TENSOR_MEMORY,
                f"Tensor memory {is_used} by {operation.what} {why}.",
                thread=operation.thread,
                site=operation.site,
                other=before.access(),
                severity=Severity.NOTE if tolerated else Severity.ERROR,
            )

    def _follows(self, before: TensorOperation, after: TensorOperation, was: str) -> bool:
        """Whether ``before`` is certain to be over (or to go first in the pipeline)."""
        if self.knows(after.thread, before):
            return True
        if not (before.pipe and after.pipe):
            return False
        if before.what == after.what == "tcgen05.mma":
            # The manual orders accumulations of one shape; that A is read before a later
            # multiplication overwrites it is what kernels rely on.
            in_order = was == "read" or before.shape == after.shape
        else:
            in_order = (before.what, after.what) in _PIPELINES
        if not in_order:
            return False
        if before.thread == after.thread:
            return True
        clocks = self.wave.clocks
        who = clocks.who[before.thread : before.thread + 1]
        threads = np.array([after.thread])
        return bool(clocks.sees(threads, who, np.array([before.issued], np.uint32)).all())

    def loaded_into(self, slots: tuple[int, ...], operations: list[TensorOperation]) -> None:
        """``operations``, a tcgen05.ld of some warps, write these registers."""
        warps = [operation.thread // LANES for operation in operations]
        numbers = [operation.number for operation in operations]
        self.loaded[np.ix_(slots, warps)] = numbers

    def touch(self, group: Group, touches: Sequence[tuple[int, bool]]) -> None:
        """An ordinary instruction uses registers: the loads that wrote them have come to an end."""
        for slot, _ in touches:
            numbers = self.loaded[slot, group.rows]
            if numbers.any():
                for number in np.unique(numbers).tolist():
                    operation = self.operations[number]
                    if operation is not None and not operation.consumed:
                        operation.consumed = self.wave.clocks.now
                self.loaded[slot, group.rows] = 0

    def _was_consumed(self, before: TensorOperation, thread: int) -> bool:
        """Whether ``before`` is a load whose registers were used already, as ``thread`` knows: it
        must then be over, though the manual wants tcgen05.wait::ld (9.7.16.6.4.5)."""
        if not before.consumed:
            return False
        if before.thread // LANES == thread // LANES:
            return True
        clocks = self.wave.clocks
        who = clocks.who[before.thread : before.thread + 1]
        times = np.array([before.consumed], np.uint32)
        return bool(clocks.sees(np.array([thread]), who, times).all())

    def knows(self, thread: int, operation: TensorOperation) -> bool:
        """Whether ``thread`` has waited, itself or through others, for the operation's end."""
        agent = operation.agent
        known = self.wave.clocks.knows(np.array([thread]), agent.column, operation.time)
        return bool(np.all(known))

    # --- fences --------------------------------------------------------------------------------

    def fence_after(self, threads: np.ndarray) -> None:
        """tcgen05.fence::after_thread_sync: what these threads know now, later tcgen05 follow."""
        clocks = self.wave.clocks
        known = clocks.known[clocks.row[threads]]
        for agent in {o.agent for o in self.operations[-256:] if o is not None}:
            times = self.fenced.setdefault(agent, np.zeros(len(clocks.row), np.int64))
            times[threads] = known[:, agent.column]

    def _check_fence(self, before: TensorOperation, after: TensorOperation) -> None:
        """Notes a missing tcgen05.fence::after_thread_sync, in kernels that use it at all:
        Triton's never do, and rely on the assembler to keep the order."""
        if not self._uses_fences or before.thread // LANES == after.thread // LANES:
            return
        times = self.fenced.get(before.agent)
        if times is None or times[after.thread] < before.time:
            self.wave.faults.report(
                Kind.TENSOR_MEMORY,
                f"{after.what} follows {before.what} of another thread with no "
                "tcgen05.fence::after_thread_sync between the wait and it.",
                thread=after.thread,
                site=after.site,
                other=before.access(),
                severity=Severity.NOTE,
            )

    # --- allocation ----------------------------------------------------------------------------

    def _allocated(self, region: Region, operation: TensorOperation) -> bool:
        """Reports columns that are not allocated; whether they exist at all."""
        columns = region.columns
        if columns.stop > COLUMNS:
            self._outside(operation, columns.stop - 1, f"there are {COLUMNS}")
            return False
        free = self.owner[region.block, columns] == 0
        if free.any():
            owned = np.flatnonzero(self.owner[region.block])
            there = f"{owned[0]} to {owned[-1]} are" if len(owned) else "none is"
            self._outside(operation, columns.start + int(np.argmax(free)), f"{there} allocated")
        return True

    def _outside(self, operation: TensorOperation, column: int, why: str) -> None:
        self.wave.faults.report(
            Kind.TENSOR_MEMORY,
            f"{operation.what} uses column {column} of tensor memory, but {why}.",
            thread=operation.thread,
            site=operation.site,
            details={"column": column},
        )

    def in_use(self, block: int, columns: slice, thread: int) -> TensorOperation | None:
        """An operation on these columns whose end ``thread`` doesn't know of, if there is one."""
        numbers = np.unique(
            np.append(
                self.writers[block, :, columns].ravel(), self.readers[:, block, :, columns].ravel()
            )
        )
        for number in numbers.tolist():
            operation = self.operations[number]
            if operation is None or self.knows(thread, operation):
                continue
            if not self._was_consumed(operation, thread):
                return operation
        return None

    def allot(self, block: int, columns: slice, number: int) -> None:
        """Gives columns to allocation ``number``; 0 takes them back. What was there is gone."""
        self.owner[block, columns] = number
        self.writers[block, :, columns] = 0
        self.readers[:, block, :, columns] = 0
        self.cells[block, :, columns] = POISON


# What goes through the pipeline in order, without a wait (9.7.16.6.2), beside accumulations.
_PIPELINES = {
    ("tcgen05.cp", "tcgen05.mma"),
    ("tcgen05.shift", "tcgen05.mma"),
    ("tcgen05.mma", "tcgen05.shift"),
    ("tcgen05.shift", "tcgen05.cp"),
}


def _too_early(before: TensorOperation, after: TensorOperation, was: str) -> str:
    """Why that is wrong, to follow "tensor memory is read by tcgen05.ld"."""
    if before.what in ("tcgen05.ld", "tcgen05.st"):
        wait = "tcgen05.wait::" + before.what[-2:]
        who = "" if before.thread // LANES == after.thread // LANES else " and synchronisation"
        return f"with no {wait}{who} after the {before.what} that {_did(before, was)} it"
    if after.pipe:
        return (
            f"while {before.what} may still use it: only accumulations of one shape into one place "
            "follow each other without a wait"
        )
    return (
        f"before a wait for the mbarrier of tcgen05.commit says that the {before.what} that "
        f"{_did(before, was)} it is complete"
    )


def _did(before: TensorOperation, was: str) -> str:
    return "reads" if was == "read" else "writes"
