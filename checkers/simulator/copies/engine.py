"""Work that goes on beside the threads: asynchronous copies, tensor cores, arrivals of theirs.

An instruction that only starts something (cp.async, a bulk copy, wgmma) hands an Operation to the
Engine. The rules leave open when such work is done, between its issue and the wait that
covers it; the schedule of the run picks the moment:

latest      when somebody must wait for it. A forgotten wait then shows on the first run. The default.
earliest    at issue. What is written too early then shows.
random:SEED now and then, in an order drawn from the seed.

PTX ISA 8.9.1.1 (asynchronous operations), 9.7.9.25.1 (how copies complete).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from checkers.simulator.machine.wave import Wave
    from checkers.simulator.ptx.program import Instruction

# random: chances that a step of the scheduler completes some operation of a cluster.
RANDOM_CHANCE = 0.25


@dataclass(frozen=True)
class Schedule:
    """When asynchronous work is done. ``kind``: "latest", "earliest" or "random".

    With random, warps go in any order too; equal seeds give equal runs.
    """

    kind: str = "latest"
    seed: int = 0

    @property
    def is_random(self) -> bool:
        return self.kind == "random"

    @property
    def is_earliest(self) -> bool:
        return self.kind == "earliest"

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """latest, earliest or random:SEED. Raises ValueError saying what is allowed."""
        if text in ("latest", "earliest"):
            return cls(text)
        match = re.fullmatch(r"random:([0-9]+)", text)
        if match:
            return cls("random", int(match[1]))
        raise ValueError(
            f"a schedule is latest, earliest or random:SEED with a whole number as SEED, not {text!r}"
        )

    def __str__(self) -> str:
        return f"random:{self.seed}" if self.is_random else self.kind


class Operation:
    """One piece of asynchronous work, as an instruction hands it over.

    A subclass says what ``complete`` does: move the data, clear the marks in the memory's
    shadow, signal a barrier. It is called once.

    cluster: index in the wave.  site: the instruction that issued it.  queue: operations with the same one
    are done in the order of their issue; None: in any order.
    """

    def __init__(self, cluster: int, site: Instruction, queue: Hashable | None = None) -> None:
        self.cluster = cluster
        self.site = site
        self.queue = queue
        self.done = False

    def complete(self) -> None:
        raise NotImplementedError


class Call(Operation):
    """An operation that is one function, for families that need no class of their own."""

    def __init__(
        self,
        cluster: int,
        site: Instruction,
        action: Callable[[], None],
        queue: Hashable | None = None,
    ) -> None:
        super().__init__(cluster, site, queue)
        self._action = action

    def complete(self) -> None:
        self._action()


class Engine:
    """The pending operations of a wave."""

    def __init__(self, wave: Wave, schedule: Schedule | None = None) -> None:
        self.wave = wave
        schedule = schedule or wave.schedule
        self._earliest = schedule.is_earliest
        self._random = random.Random(schedule.seed)
        # Insertion order is the order of issue; a dict drops from the middle in constant time.
        self._pending: dict[int, dict[Operation, None]] = {}
        self._queues: dict[Hashable, dict[Operation, None]] = {}

    def issue(self, operation: Operation) -> Operation:
        """Take over an operation; done at once when the schedule is "earliest"."""
        self._pending.setdefault(operation.cluster, {})[operation] = None
        if operation.queue is not None:
            self._queues.setdefault(operation.queue, {})[operation] = None
        if self._earliest:
            self.complete(operation)
        return operation

    def complete(self, operation: Operation) -> None:
        """Do it now, and before it what comes first in its queue. Nothing when it is done already."""
        if operation.done:
            return
        if operation.queue is not None:
            for earlier in list(self._queues[operation.queue]):
                if earlier is operation:
                    break
                self._finish(earlier)
        self._finish(operation)

    def complete_all(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            self.complete(operation)

    def complete_one(self) -> bool:
        """Do the oldest operation of each cluster; False when none was pending anywhere.

        The machine calls it when nobody can run: somebody must then be waiting for one of them.
        """
        oldest = [next(iter(operations)) for operations in self._pending.values() if operations]
        for operation in oldest:
            self.complete(operation)
        return bool(oldest)

    def tick(self) -> None:
        """Some cluster's operation may be done now; called between basic blocks when random."""
        for operations in list(self._pending.values()):
            if operations and self._random.random() < RANDOM_CHANCE:
                self.complete(self._random.choice(list(operations)))

    def drain(self, chosen: Callable[[Operation], bool] = lambda operation: True) -> None:
        """Do all operations that ``chosen`` picks, oldest first."""
        self.complete_all(self.pending(chosen))

    def pending(
        self, chosen: Callable[[Operation], bool] = lambda operation: True
    ) -> list[Operation]:
        """The operations not yet done that ``chosen`` picks, oldest of each cluster first."""
        return [o for operations in self._pending.values() for o in operations if chosen(o)]

    def _finish(self, operation: Operation) -> None:
        # Marked first: what it wakes may ask for it again.
        operation.done = True
        self._pending[operation.cluster].pop(operation, None)
        if operation.queue is not None:
            queue = self._queues[operation.queue]
            queue.pop(operation, None)
            if not queue:
                del self._queues[operation.queue]
        operation.complete()
        self.wave.progressed()
