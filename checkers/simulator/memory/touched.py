"""Work that was touched before anybody waited for it, and what follows from that.

Who touches the bytes of an asynchronous operation too early is one fault. What comes after that
touch, in the order that synchronisation makes, and does not know of the operation either, has the
same cause: with a wait before the touch its thread would have known, and have passed it on. So would
what ends with the operation in flight. No fault is called another's consequence unless that holds
each time that it happens.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from checkers.simulator.reports.faults import Fault

REMEMBERED = 8  # touches kept of each engine's operations

# Operations of engines that some threads touch: (threads, who, times), each (k,).
Operations = tuple[np.ndarray, np.ndarray, np.ndarray]


class Touch(NamedTuple):
    """time: of the operation.  by: the actors that touched it, None where it does not matter who.
    now: when."""

    time: int
    by: np.ndarray | None
    now: int
    fault: Fault

    def touched_by(self, actors: np.ndarray) -> bool:
        """Whether it was just these."""
        return np.array_equal(actors, self.by) if self.by is not None else False


class Touched:
    """Of one wave: ``wave.state(Touched)``."""

    def __init__(self, wave: Any) -> None:
        self.wave = wave
        self._of: dict[int, deque[Touch]] = {}
        self._alike: dict[Hashable, Fault] = {}

    def note(self, operations: Operations, fault: Fault) -> None:
        """These were touched too early, which ``fault`` or its cause tells."""
        clocks = self.wave.clocks
        for threads, who, time in _each(operations):
            if any(t.time == time and t.touched_by(clocks.who[threads]) for t in self._at(who)):
                continue  # these threads, and before
            self._add(who, Touch(time, np.unique(clocks.who[threads]), clocks.now, fault.root))

    def spoil(self, who: int, time: int, fault: Fault) -> None:
        """Nobody can know of an operation, whatever they wait for."""
        self._add(who, Touch(time, None, 0, fault.root))

    def cause(self, operations: Operations) -> Fault | None:
        """The fault from which it follows that none of these threads knows of its operation."""
        found = None
        for threads, who, time in _each(operations) if self._of else ():
            fault = self._before(threads, who, time)
            if fault is None:
                return None
            found = found or fault
        return found

    def of(self, who: int, time: int) -> Fault | None:
        """The fault of anybody who touched an operation, or a later one of its engine, too early."""
        return next((t.fault for t in self._at(who) if t.time >= time), None)

    def alike(self, key: Hashable, fault: Fault | None = None) -> Fault | None:
        """The first fault that was told with this key: the same wait is missing. fault: told now."""
        if fault is not None:
            self._alike.setdefault(key, fault.root)
        return self._alike.get(key)

    def _at(self, who: int) -> Iterable[Touch]:
        return self._of.get(who, ())

    def _add(self, who: int, touch: Touch) -> None:
        self._of.setdefault(who, deque(maxlen=REMEMBERED)).append(touch)

    def _before(self, threads: np.ndarray, who: int, time: int) -> Fault | None:
        """The fault of a touch of this operation; None unless each of (k,) threads comes after one."""
        clocks, found = self.wave.clocks, None
        for touch in self._at(who):
            if touch.time < time:
                continue
            if touch.by is None or touch.touched_by(clocks.who[threads]):
                return found or touch.fault
            seen = np.isin(clocks.who[threads], touch.by)
            rest = threads[~seen]
            if len(rest):
                by = np.broadcast_to(touch.by, (len(rest), len(touch.by)))
                times = np.full(by.shape, touch.now, np.uint32)
                seen[~seen] = clocks.sees(rest, by, times).any(axis=1)
            found = found or (touch.fault if seen.any() else None)
            threads = threads[~seen]
            if not len(threads):
                return found
        return None


def _each(operations: Operations) -> Iterator[tuple[np.ndarray, int, int]]:
    """Each operation with the threads that touch it."""
    threads, who, times = (np.asarray(part, np.int64) for part in operations)
    if (who == who[0]).all() and (times == times[0]).all():
        yield threads, int(who[0]), int(times[0])
        return
    names, which = np.unique(who << 32 | times, return_inverse=True)
    for number, name in enumerate(names.tolist()):
        yield threads[which == number], name >> 32, name & 0xFFFFFFFF
