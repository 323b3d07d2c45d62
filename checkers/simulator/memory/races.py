"""Finds accesses that no synchronisation orders: data races, and data touched before its wait.

PTX ISA 8.7.1: two accesses of one place, one of them a write, race unless one comes before the
other in causality order or both are strong and of scopes that include each other ("morally
strong"). Every instruction is checked once, for all of its lanes: first a quick test that clears most
accesses (all threads of the block are known up to the grain's last write), then exactly.

``strength`` of an instruction: 0 weak, else the number of its scope (order.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.simulator.memory import missing as missing_words
from checkers.simulator.memory import readers
from checkers.simulator.memory.engine_words import engine_words
from checkers.simulator.memory.lanes import Lanes, line_name, thread_name
from checkers.simulator.memory.order import SCOPE_NAMES
from checkers.simulator.memory.readers import Unordered
from checkers.simulator.memory.repeats import REPEATED
from checkers.simulator.memory.rows import COLUMN_MASK
from checkers.simulator.memory.shadow import AGENT, ASYNC, BARRIER, TIME_MASK, Shadow, put, rows
from checkers.simulator.memory.shared import SharedMemory
from checkers.simulator.memory.touched import Operations, Touched
from checkers.simulator.reports.faults import Access, Kind, Severity

if TYPE_CHECKING:
    from checkers.simulator.memory.regions import Heap, Region


@dataclass
class Target:
    """Where (k,) accesses go: rows ``index`` of ``count`` grains of a shadow.

    space: "shared" or "global".  name(i): the place of lane i in words.
    position: bytes in the bank, (k,).  width: bytes of each.
    """

    space: str
    shadow: Shadow
    index: np.ndarray
    count: int
    name: Callable[[int], str]
    position: np.ndarray
    width: int


class Races:
    """The checks of one wave."""

    def __init__(self, wave: Any, heap: Heap, shared: SharedMemory) -> None:
        self.wave = wave
        self.heap = heap
        self.shared = shared
        self.lanes_each = wave.warps_per_block * 32

    @property
    def clocks(self) -> Any:
        return self.wave.clocks

    # --- reads ---------------------------------------------------------------------------------

    def shared_read(self, lanes: Lanes, target: Target, site: int, strength: int) -> None:
        """Lanes read shared memory."""
        threads, index, count = lanes.threads, target.index, target.count
        times = rows(target.shadow.time, index, count)
        known = self.clocks.least_known(threads, self.shared.across)
        if int(times.min()) == 0 or int(times.max()) > known:
            self._check(lanes, target, times, "reads", strength)
        if self.wave.suspects is not None:
            self.wave.suspects.loaded(threads, index, count)
        warp = threads >> 5
        self.shared.reads.read(
            index, count, self.shared.reader[threads], threads & 31, self.clocks.stamp[warp], site
        )

    def global_read(
        self, lanes: Lanes, target: Target, region: Region, site: int, strength: int
    ) -> None:
        """Lanes read a region of global memory."""
        if region.written:
            times = rows(target.shadow.time, target.index, target.count)
            if times.any():
                self._check(lanes, target, times, "reads", strength)
        region.reads.read(
            target.index, target.count, self.clocks.who[lanes.threads], self.clocks.now, site
        )

    # --- writes --------------------------------------------------------------------------------

    def shared_write(
        self, lanes: Lanes, target: Target, site: int, strength: int, same: Any, update: bool
    ) -> None:
        """Lanes write shared memory. same: asked when needed, which of (k,) lanes store what is
        there already.  update: an atomic, which reads as well."""
        threads, index, count = lanes.threads, target.index, target.count
        times = rows(target.shadow.time, index, count)
        known = self.clocks.least_known(threads, self.shared.across)
        if int(times.max()) > known or (update and int(times.min()) == 0):
            self._check(
                lanes, target, times, "updates" if update else "writes", strength, site, same
            )
        latest = rows(self.shared.reads.latest, index, count)
        last = int(latest.max())
        if last:
            if last > known:
                found = readers.of_shared(self, threads, target, latest, strength)
                self._war(lanes, target, found, strength)
            put(self.shared.reads.latest, index, count, 0)
        target.shadow.wrote(index, count, self.clocks.who[threads], self.clocks.now, site)
        if self.wave.suspects is not None:
            self.wave.suspects.stored(threads, index, count, len(target.shadow.time))

    def global_write(
        self,
        lanes: Lanes,
        target: Target,
        region: Region,
        site: int,
        strength: int,
        same: Any,
        update: bool,
    ) -> None:
        """Lanes write a region of global memory; as shared_write."""
        if self.wave.suspects is not None:
            verb = "adds" if update else "stores"
            self.wave.suspects.published(lanes.threads, lanes.group.site, verb, target.name)
        threads = lanes.threads
        if region.written:
            times = rows(target.shadow.time, target.index, target.count)
            if times.any():
                self._check(
                    lanes, target, times, "updates" if update else "writes", strength, site, same
                )
        if region.reads.any:
            found = readers.of_global(self, threads, target, region, strength)
            self._war(lanes, target, found, strength)
        region.written = True
        who = self.clocks.who[threads]
        target.shadow.wrote(target.index, target.count, who, self.clocks.now, site)

    def among_lanes(self, lanes: Lanes, target: Target, differs: np.ndarray) -> None:
        """Lanes of one instruction that stored different values to one place. differs: (k,) bool,
        those whose value did not stay."""
        i = int(np.flatnonzero(differs)[0])
        winner = int(rows(target.shadow.who, target.index[i : i + 1], target.count)[0, 0])
        thread, _ = self.clocks.describe(winner)
        if thread is None:
            return
        me = int(lanes.threads[i])
        pair = f"{thread_name(self.wave, me)} and {thread_name(self.wave, thread, me)}"
        place = target.name(i)
        if me >> 5 == thread >> 5:
            message = f"{pair} store different values to {place} in one instruction of their warp"
        else:
            message = (
                f"{pair} both store to {place}; {missing_words.barrier(self.wave, me, winner)}"
            )
        other = Access(thread, lanes.group.site, f"wrote {place}")
        lanes.fault(Kind.RACE, differs, message, other)

    def among_atomics(self, lanes: Lanes, target: Target, site: int, strength: int) -> None:
        """Lanes of one instruction whose atomics meet at one place, with a scope that leaves the
        other out."""
        who = rows(target.shadow.who, target.index, target.count)
        met = who != self.clocks.who[lanes.threads][:, None]
        if not met.any():
            return
        sites = np.full(who.shape, site)
        met &= ~self.morally_strong(lanes.threads, who, sites, strength)
        if met.any():
            self._unordered(lanes, target, met, who, sites, "updates", strength)

    # --- exactly -------------------------------------------------------------------------------

    def _check(
        self,
        lanes: Lanes,
        target: Target,
        times: np.ndarray,
        verb: str,
        strength: int,
        site: int = -1,
        same: Any = None,
    ) -> None:
        """Holds an access against the last write of each of its grains. times: (k, count)."""
        shared = target.space == "shared"
        who = rows(target.shadow.who, target.index, target.count)
        own = (who == self.clocks.who[lanes.threads][:, None]).all()
        if own and int(times.min()) > 0 and int(times.max()) < AGENT:
            return
        barrier = times == BARRIER
        if barrier.any():
            self._touches_barrier(lanes, target, barrier, verb)
        never = times == 0
        if shared and verb != "writes" and never.any():
            self._uninitialised(lanes, target, never, verb)
        agent = (times & AGENT) != 0
        plain = np.where(agent, times & TIME_MASK, times)
        bad = ~self.clocks.sees(lanes.threads, who, plain) & ~never & ~barrier
        if not bad.any():
            return
        sites = rows(target.shadow.site, target.index, target.count)
        if strength:
            bad &= ~self.morally_strong(lanes.threads, who, sites, strength)
        if verb == "writes" and bad.any():
            alike = bad.any(axis=1) & (sites == site).all(axis=1)
            if alike.any():  # all threads of a block storing the same flag, for example
                bad[alike & same()] = False
        repeats = self.heap.repeats
        if verb == "reads" and not shared and repeats is not None and bad.any():
            mine = self.clocks.who[lanes.threads]
            repeated = bad & repeats.of_writers(target.index, mine, who)
            if repeated.any():
                self._unordered(lanes, target, repeated, who, sites, verb, strength, note=True)
                bad &= ~repeated
        if bad.any():
            self._unordered(lanes, target, bad, who, sites, verb, strength)

    def morally_strong(
        self, threads: np.ndarray, who: np.ndarray, sites: np.ndarray, strength: int
    ) -> np.ndarray:
        """Which accesses by ``threads`` (k,) and earlier ones (k, count) include each other in
        their scopes."""
        mine = self.clocks.who[threads][:, None]
        needed = np.where((who ^ mine) <= COLUMN_MASK, 2, 3)
        here = (who & COLUMN_MASK) // self.lanes_each == (mine & COLUMN_MASK) // self.lanes_each
        needed[(needed == 2) & here] = 1
        theirs = np.array(self.heap.strength)[sites]
        return (theirs >= needed) & (strength >= needed)

    def _uninitialised(self, lanes: Lanes, target: Target, never: np.ndarray, verb: str) -> None:
        bad = never.any(axis=1)
        i = int(np.flatnonzero(bad)[0])
        message = (
            f"{thread_name(self.wave, int(lanes.threads[i]))} {verb} {target.name(i)}, which nobody "
            "has written yet"
        )
        details = {"place": target.name(i), "bytes": target.width}
        if verb == "reads":
            self.wave.suspect_reads().read(lanes, bad, message, details)
        else:
            lanes.fault(Kind.UNINITIALISED, bad, message, details=details)

    def _touches_barrier(
        self, lanes: Lanes, target: Target, barrier: np.ndarray, verb: str
    ) -> None:
        bad = barrier.any(axis=1)
        i = int(np.flatnonzero(bad)[0])
        who = int(
            rows(target.shadow.who, target.index[i : i + 1], target.count)[barrier[i : i + 1]][0]
        )
        there = self.shared.barriers[who]
        lanes.fault(
            Kind.MBARRIER,
            bad,
            f"{thread_name(self.wave, int(lanes.threads[i]))} {verb} the bytes of {there.name} as "
            "ordinary memory while it is in use",
            other=Access(there.thread, there.site, "mbarrier.init"),
        )

    def _unordered(
        self,
        lanes: Lanes,
        target: Target,
        bad: np.ndarray,
        who: np.ndarray,
        sites: np.ndarray,
        verb: str,
        strength: int,
        note: bool = False,
    ) -> None:
        """Reports what ``bad`` (k, count) marks, once for each pair of instructions."""
        number = np.where(bad, sites.astype(np.int64) + 1, 0)
        for each in np.unique(number[number > 0]).tolist():
            hits = number == each
            mine = hits.any(axis=1)
            i = int(np.flatnonzero(mine)[0])
            j = int(np.flatnonzero(hits[i])[0])
            lane, grain = np.nonzero(hits)
            times = rows(target.shadow.time, target.index[lane], target.count)
            times = times[np.arange(len(lane)), grain] & TIME_MASK
            each_of = (lanes.threads[lane], who[lane, grain], times)
            self._tell(
                lanes,
                target,
                mine,
                i,
                int(who[i, j]),
                each - 1,
                verb,
                "wrote",
                strength,
                note,
                each_of,
            )

    def _war(self, lanes: Lanes, target: Target, found: list[Unordered], strength: int) -> None:
        """Reports reads that nothing orders before these writes."""
        repeats = self.heap.repeats
        for each in found:
            note = repeats is not None and repeats.is_repeat(each.site)
            bad, lane, who, site = each.bad, each.lane, each.who, each.site
            of = each.operations(lanes.threads)
            self._tell(lanes, target, bad, lane, who, site, "writes", "read", strength, note, of)

    def _tell(
        self,
        lanes: Lanes,
        target: Target,
        bad: np.ndarray,
        i: int,
        who: int,
        site: int,
        verb: str,
        did: str,
        strength: int,
        note: bool = False,
        operations: Operations | None = None,
    ) -> None:
        """One fault: lane i ``verb``s what ``who`` ``did`` at ``site``. note: one of repeats.py.
        operations: what all lanes at fault touch, for the case that it is an engine's."""
        thread = int(lanes.threads[i])
        other, kind_of_agent = self.clocks.describe(who)
        place, where = target.name(i), self.heap.sites[site]
        me = thread_name(self.wave, thread)
        at = f"({line_name(where)})"
        if kind_of_agent and kind_of_agent != "elsewhere":
            engine, missing = engine_words(kind_of_agent, where)
            missing = missing_words.half_waited(self.wave, target, i, who, thread) or missing
            kind = Kind.OVERWRITTEN_IN_FLIGHT if did == "read" else Kind.READ_BEFORE_WAIT
            if did == "wrote" and verb != "reads":
                kind = Kind.RACE
            reads = "reads" if did == "read" else "writes"
            message = f"{me} {verb} {place}, which {engine} {reads} {at}; {missing}"
            other_side = Access(other, where, f"{engine} {reads} {place}")
            touched = self.wave.state(Touched)
            cause = touched.cause(operations) if operations is not None else None
            wait = missing_words.same_wait(lanes, kind, kind_of_agent, who, missing)
            cause = cause or touched.alike(wait)
            fault = lanes.fault(kind, bad, message, other_side, follows=cause)
            touched.alike(wait, fault)
            if operations is not None:
                touched.note(operations, fault)
            return
        theirs = self.heap.strength[site]
        whom = (
            "a thread of an earlier block"
            if other is None
            else thread_name(self.wave, other, thread)
        )
        message, kind = f"{me} {verb} {place}, which {whom} {did} {at}", Kind.RACE
        if note:
            message += "; " + REPEATED.format(
                reader=whom if did == "read" else me, writer=me if did == "read" else whom
            )
        elif strength and theirs:
            kind = Kind.SCOPE
            narrow = SCOPE_NAMES[min(strength, theirs)]
            message += f"; the scope {narrow} of one of them does not include the other thread"
        else:
            message += "; " + missing_words.barrier(self.wave, thread, who)
        severity = Severity.NOTE if note else Severity.ERROR
        access = Access(other, where, f"{did} {place}")
        lanes.fault(kind, bad, message, access, severity=severity)

    # --- agents --------------------------------------------------------------------------------

    def not_fenced(self, threads: np.ndarray, who: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Which grains were last written through the generic proxy, known to ``threads``, but not
        fenced for the async proxy on the way; all (k, count)."""
        through = (times != 0) & (times != BARRIER)
        through &= (times & ASYNC) == 0
        if not through.any():
            return through
        return through & ~self.clocks.sees(threads, who, times & TIME_MASK, fenced=True)
