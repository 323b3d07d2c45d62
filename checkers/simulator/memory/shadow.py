"""What is remembered of each grain of memory: who wrote it last, and who has read it since.

A *grain* is the largest piece that every access of the kernel covers whole: 1 to 16 bytes. A
memory's grains lie in flat arrays. An access of ``width`` bytes, which is aligned to its width, is
one row of ``reshape(-1, width // grain)``, so that its grains are fetched together.

Times are those of clocks.py; 0 means never. Two flags tell times of agents apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from checkers.simulator.memory.repeats import Repeats

# The time is that of an agent's own count, not of the wave's.
AGENT = np.uint32(0x80000000)
# And the agent works through the async proxy.
ASYNC = np.uint32(0x40000000)
TIME_MASK = np.uint32(0x3FFFFFFF)
# In place of a time: the grain holds a live mbarrier object.
BARRIER = np.uint32(0xFFFFFFFF)

WIDEST = 32  # bytes of the widest access of one lane; memories are padded to it

_WIDE = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}
_LANE_BIT = np.uint64(1) << np.arange(32, dtype=np.uint64)
_TIME_SHIFT = np.uint64(32)


def rows(flat: np.ndarray, index: np.ndarray, count: int) -> np.ndarray:
    """(k, count) copies of rows ``index`` of ``flat`` taken ``count`` at a time."""
    return flat.reshape(-1, count).take(index, axis=0)


def put(flat: np.ndarray, index: np.ndarray, count: int, values: object) -> None:
    """Sets rows ``index`` of ``flat``, taken ``count`` at a time, to a number, (k,) or (k, count).

    A row is moved as one wide number where there is one: numpy is ten times as quick with these.
    Where an index comes twice, the last one stays.
    """
    value = np.asarray(values, flat.dtype)
    if count == 1:
        flat[index] = value if value.ndim < 2 else value[:, 0]
        return
    unit = flat.itemsize * count
    if value.ndim == 0:
        value = np.full((1, count), value, flat.dtype)
    elif value.ndim == 1:
        value = np.repeat(value, count).reshape(-1, count)
    value = np.ascontiguousarray(value)
    wide = _WIDE.get(unit)
    if wide is not None:
        flat.view(wide)[index] = value.view(wide)[:, 0]
    elif unit % 16 == 0:
        flat.view(np.complex128).reshape(-1, unit // 16)[index] = value.view(np.complex128)
    else:
        flat.reshape(-1, count)[index] = value


class Shadow:
    """The shadow of one memory. size: bytes, padded to WIDEST.  grain: bytes, a power of 2.

    time, who, site: of the last write of each grain, uint32, uint32 and uint16.
    """

    def __init__(self, size: int, grain: int) -> None:
        self.grain = grain
        self.shift = grain.bit_length() - 1
        self.grains = -(-size // WIDEST) * WIDEST // grain
        self.time = np.zeros(self.grains, np.uint32)
        self.who = np.zeros(self.grains, np.uint32)
        self.site = np.zeros(self.grains, np.uint16)

    def index(self, position: np.ndarray, width: int) -> tuple[np.ndarray, int]:
        """(index, count): which rows accesses of ``width`` bytes at byte ``position`` (k,) are."""
        if width <= self.grain:
            return position >> self.shift, 1
        return position // width, width >> self.shift

    def wrote(self, index: np.ndarray, count: int, who: object, time: object, site: int) -> None:
        """These grains were written."""
        put(self.time, index, count, time)
        put(self.who, index, count, who)
        put(self.site, index, count, site)


class SharedReads:
    """Who has read each grain of shared memory: for each warp, which lanes, and when.

    words: (warps, grains) flattened uint64: the time in the upper half, a bit for each lane in the
    lower one. The time is the warp's stamp: since then no lane of it has released anything, so
    all that it read since counts as one. Older reads of lanes that did not read again are
    forgotten: they matter only where lanes of one warp synchronise one by one.
    latest: (grains,) the latest such time, with AGENT set once an agent has read.
    """

    def __init__(self, shadow: Shadow, warps: int) -> None:
        self.shadow = shadow
        self.warps = warps
        self.words = np.zeros(warps * shadow.grains, np.uint64)
        self.sites = np.zeros(warps * shadow.grains, np.uint16)
        self.latest = np.zeros(shadow.grains, np.uint32)
        self.agents: list[AgentReads] = []

    def read(
        self,
        index: np.ndarray,
        count: int,
        warp: np.ndarray,
        lane: np.ndarray,
        stamp: np.ndarray,
        site: int,
    ) -> None:
        """Lane ``lane`` of row ``warp`` has read rows ``index``; all (k,). stamp: of the warp."""
        at = index + warp * (self.shadow.grains // count)
        bits = _LANE_BIT[lane]
        word = stamp.astype(np.uint64) << _TIME_SHIFT | bits
        old = rows(self.words, at, count)
        if ((old & word[:, None]) == word[:, None]).all() and (
            (old >> _TIME_SHIFT) == stamp[:, None].astype(np.uint64)
        ).all():
            return  # the same reads again
        fresh = (old >> _TIME_SHIFT) == stamp[:, None].astype(np.uint64)
        put(self.words, at, count, np.where(fresh, old, np.uint64(0)) | word[:, None])
        # Lanes that read the same grain have overwritten each other: add those that are missing.
        now = rows(self.words, at, count)
        lost = np.nonzero((now & bits[:, None]) == 0)
        if len(lost[0]):
            np.bitwise_or.at(self.words, at[lost[0]] * count + lost[1], bits[lost[0]])
        put(self.sites, at, count, site)
        latest = rows(self.latest, index, count)
        newest = np.maximum(latest & ~AGENT, stamp[:, None].astype(np.uint32))
        put(self.latest, index, count, newest | (latest & AGENT))

    def read_by_agent(
        self, index: np.ndarray, count: int, who: object, time: object, slot: int, site: int
    ) -> None:
        """An agent reads rows ``index``. slot: which of its cluster's reading agents it is."""
        while len(self.agents) <= slot:
            self.agents.append(AgentReads(self.shadow.grains))
        reads = self.agents[slot]
        put(reads.time, index, count, time)
        put(reads.who, index, count, who)
        put(reads.site, index, count, site)
        put(self.latest, index, count, rows(self.latest, index, count) | AGENT)


class AgentReads:
    """The reads of one agent of each cluster: time, who and site of the last one of a grain."""

    def __init__(self, grains: int) -> None:
        self.time = np.zeros(grains, np.uint32)
        self.who = np.zeros(grains, np.uint32)
        self.site = np.zeros(grains, np.uint16)


class GlobalReads:
    """Who has read each grain of a region of global memory.

    Three readers are kept: the last; the last by another thread than that; the last from another
    cluster than that. Reads wait in ``pending`` until somebody writes into the region: most
    tensors are only read, and cost nothing but that. repeats: tells repeated loads, for Triton.
    """

    KEPT = 3
    LIMIT = 4_000_000  # accesses that may be pending

    def __init__(self, shadow: Shadow, repeats: Repeats | None = None) -> None:
        self.shadow = shadow
        self.repeats = repeats
        self.pending: list[tuple[np.ndarray, int, np.ndarray, int | np.ndarray, int]] = []
        self.waiting = 0
        self.time: list[np.ndarray] = []
        self.who: list[np.ndarray] = []
        self.site: list[np.ndarray] = []

    @property
    def any(self) -> bool:
        """Whether anything was read at all."""
        return bool(self.pending or self.time)

    def read(
        self, index: np.ndarray, count: int, who: np.ndarray, time: int | np.ndarray, site: int
    ) -> None:
        """Rows ``index`` were read by actors ``who``, (k,) each. time: with AGENT for agents."""
        self.pending.append((index, count, who, time, site))
        self.waiting += len(index)
        if self.waiting > self.LIMIT:
            self.settle()

    def settle(self) -> None:
        """Brings what is pending into the tables."""
        if not self.time:
            for tables, dtype in (
                (self.time, np.uint32),
                (self.who, np.uint32),
                (self.site, np.uint16),
            ):
                tables.extend(np.zeros(self.shadow.grains, dtype) for _ in range(self.KEPT))
        for index, count, who, time, site in self.pending:
            if count > 1:
                index = (index[:, None] * count + np.arange(count)).ravel()
                who = np.repeat(who, count)
                time = np.repeat(time, count) if isinstance(time, np.ndarray) else time
            time = np.asarray(time, np.uint32)
            sites: int | np.ndarray = site
            if self.repeats is not None:
                index, who, time, sites = self.repeats.sorted(index, who, time, site)
            self._settle(index, who, time, sites)
        self.pending.clear()
        self.waiting = 0

    def _settle(
        self, index: np.ndarray, who: np.ndarray, time: np.ndarray, site: int | np.ndarray
    ) -> None:
        self._push_down(index, self.who[0].take(index), self.time[0].take(index), who)
        self.time[0][index] = time
        self.who[0][index] = who
        self.site[0][index] = site
        stays = self.who[0].take(index)
        lost = np.flatnonzero(stays != who)
        if len(lost):  # several read one grain: the last stays, another goes one down
            at = index[lost]
            times = time if time.ndim == 0 else time[lost]
            site = site[lost] if isinstance(site, np.ndarray) else site
            self._keep(1, at, who[lost], times, site)
            far = (who[lost] ^ stays[lost]) >> np.uint32(15) != 0
            if far.any():
                times = times if times.ndim == 0 else times[far]
                site = site[far] if isinstance(site, np.ndarray) else site
                self._keep(2, at[far], who[lost][far], times, site)

    def _push_down(
        self, index: np.ndarray, old_who: np.ndarray, old_time: np.ndarray, who: np.ndarray
    ) -> None:
        """What is about to be overwritten goes to the other tables, if by somebody else."""
        other = np.flatnonzero((old_who != who) & (old_time != 0))
        if not len(other):
            return
        at, sites = index[other], self.site[0].take(index[other])
        self._keep(1, at, old_who[other], old_time[other], sites)
        far = (old_who[other] ^ who[other]) >> np.uint32(15) != 0
        if far.any():
            self._keep(2, at[far], old_who[other][far], old_time[other][far], sites[far])

    def _keep(
        self, table: int, at: np.ndarray, who: np.ndarray, time: np.ndarray, site: object
    ) -> None:
        self.who[table][at] = who
        self.time[table][at] = time
        self.site[table][at] = site
