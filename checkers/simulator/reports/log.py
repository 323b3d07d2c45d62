"""The event log of a run: who issued, who waited for what, which copies were in flight.

Off by default (``NO_LOG``: every method does nothing). When it is on it follows one cluster of the
grid, and timeline.py makes a picture of it. Events carry no time: they stand in an order in which
causes come before effects, and the timeline works the times out from a cost model. So:

    log.issue(group, cycles)                      the machine, for each basic block
    log.signal(group, key)                        an arrive: somebody may wait for ``key``
    log.start(group, op, engine, name, bytes=n)   an asynchronous operation begins
    log.finish(op, *keys)                         it is complete, and signals the keys too
    log.waited(group, name, *keys)                a wait came to its end: of phases, or of ops

``waited`` is called when the wait succeeds, whether or not its warps ever stopped; a wait that
never ends is ``log.stuck(group, name)``. A key is anything hashable that names one phase of one
barrier, ("mbarrier", block, offset, phase), ("bar", block, number, generation), or an ``op``.
Engines: "copy" (cp.async, bulk and tensor copies: what moves global memory), "tensor" (wgmma,
tcgen05.mma), "store" (copies out of shared memory).

Work out names and keys only ``if log.enabled``.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from checkers.simulator.machine.group import Group

EVENTS_KEPT = 200_000
ENGINES = ("copy", "store", "tensor")


@dataclass(frozen=True)
class Event:
    """One entry. what: the method's name.  warps: flat indices in the wave, only of the followed
    cluster.  line: of the learner's source, 0 unknown.  amount: cycles, bytes or flop."""

    what: str
    warps: tuple[int, ...] = ()
    name: str = ""
    keys: tuple[Hashable, ...] = ()
    engine: str = ""
    amount: int = 0
    line: int = 0


class NoLog:
    """The log that is off."""

    enabled = False

    def issue(self, group: Group, cycles: int) -> None:
        """The warps of ``group`` issued instructions for so many cycles."""

    def signal(self, group: Group, key: Hashable) -> None:
        """They arrived at ``key``."""

    def start(
        self,
        group: Group,
        op: Hashable,
        engine: str,
        name: str,
        bytes: int = 0,
        flops: int = 0,
    ) -> None:
        """Their first warp started ``op`` on ``engine``."""

    def finish(self, op: Hashable, *keys: Hashable) -> None:
        """``op`` is complete."""

    def waited(self, group: Group, name: str, *keys: Hashable) -> None:
        """Their wait for all of ``keys`` is over; a key that nobody has signalled costs nothing."""

    def stuck(self, group: Group, name: str) -> None:
        """They wait for ever."""


NO_LOG = NoLog()


class Log(NoLog):
    """Records the events of the first cluster of a wave.

    warps_per_block, cluster_size: of the wave.  ``block``: the one to draw, counted in the
    cluster.  ``cut``: there were more events than are kept.
    """

    enabled = True

    def __init__(self, warps_per_block: int, cluster_size: int = 1, block: int = 0) -> None:
        if not 0 <= block < cluster_size:
            raise ValueError(f"block {block} is not one of a cluster of {cluster_size}")
        self.warps_per_block = warps_per_block
        self.block = block
        self.events: list[Event] = []
        self.cut = False
        self._warps = warps_per_block * cluster_size
        self._followed: set[Hashable] = set()  # operations that a followed warp started

    def issue(self, group: Group, cycles: int) -> None:
        warps = self._of(group)
        if not warps:
            return
        last = self.events[-1] if self.events else None
        if last is not None and last.what == "issue" and last.warps == warps:
            self.events[-1] = Event("issue", warps, amount=last.amount + cycles)
        else:
            self._add(Event("issue", warps, amount=cycles))

    def signal(self, group: Group, key: Hashable) -> None:
        warps = self._of(group)
        if warps:
            self._add(Event("signal", warps, keys=(key,)))

    def start(
        self,
        group: Group,
        op: Hashable,
        engine: str,
        name: str,
        bytes: int = 0,
        flops: int = 0,
    ) -> None:
        warps = self._of(group)
        if not warps:
            return
        if engine not in ENGINES:
            raise ValueError(f"there is no engine {engine!r}; there are {ENGINES}")
        self._followed.add(op)
        line = _line(group)
        self._add(Event("start", warps[:1], name, (op,), engine, bytes or flops, line))

    def finish(self, op: Hashable, *keys: Hashable) -> None:
        if op in self._followed:
            self._followed.discard(op)
            self._add(Event("finish", keys=(op, *keys)))

    def waited(self, group: Group, name: str, *keys: Hashable) -> None:
        warps = self._of(group)
        if warps:
            self._add(Event("waited", warps, name, keys, line=_line(group)))

    def stuck(self, group: Group, name: str) -> None:
        warps = self._of(group)
        if warps:
            self._add(Event("stuck", warps, name, line=_line(group)))

    def _of(self, group: Group) -> tuple[int, ...]:
        warps: np.ndarray = group.warps
        if len(warps) and warps[0] >= self._warps:
            return ()
        return tuple(warps[: np.searchsorted(warps, self._warps)].tolist())

    def _add(self, event: Event) -> None:
        if len(self.events) < EVENTS_KEPT:
            self.events.append(event)
        else:
            self.cut = True


def _line(group: Group) -> int:
    places: Sequence = group.site.places
    return places[-1].line if places else 0
