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

from checkers.simulator.memory import readers
from checkers.simulator.memory.lanes import Lanes, line_name, thread_name
from checkers.simulator.memory.order import SCOPE_NAMES
from checkers.simulator.memory.readers import Unordered
from checkers.simulator.memory.repeats import REPEATED
from checkers.simulator.memory.rows import CLUSTER_SHIFT, COLUMN_MASK
from checkers.simulator.memory.shadow import AGENT, ASYNC, BARRIER, TIME_MASK, Shadow, put, rows
from checkers.simulator.memory.shared import SharedMemory
from checkers.simulator.reports.faults import Access, Kind, Severity

if TYPE_CHECKING:
    from checkers.simulator.memory.regions import Heap, Region
    from checkers.simulator.ptx.program import Instruction

# What the operations of an agent are called in a fault, and what waits for them.
ENGINES = {
    "mbarrier": ("a TMA copy", "no wait for its mbarrier lies between"),
    "cp.async": ("a cp.async copy", "no cp.async.wait_group that covers it lies between"),
    "bulk": ("a bulk copy", "no cp.async.bulk.wait_group that covers it lies between"),
    "wgmma": ("a wgmma", "no wgmma.wait_group that covers it lies between"),
    "tcgen05": ("a tcgen05 operation", "no wait for its commit lies between"),
    "st.async": ("an st.async", "no wait for its mbarrier lies between"),
}


def engine_words(kind: str, site: Instruction | None) -> tuple[str, str]:
    """("a TMA copy", what is missing when somebody touches its bytes) for a kind of agent, whose
    operation ``site`` started."""
    if kind.startswith("tcgen05"):
        return f"a {kind}", ENGINES["tcgen05"][1]
    if kind not in ENGINES:
        return f"an operation of {kind}", "no wait for it lies between"
    engine, missing = ENGINES[kind]
    if site is not None and kind in ("mbarrier", "bulk"):
        if site.opcode in ("st", "red"):
            engine = f"an {site.opcode}.async" if site.opcode == "st" else "a red.async"
        else:
            engine = "a TMA copy" if "tensor" in site.modifiers else "a bulk copy"
    return engine, missing


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
            message = f"{pair} both store to {place}; {self._missing(me, winner, target.space)}"
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
            self._tell(
                lanes, target, mine, i, int(who[i, j]), each - 1, verb, "wrote", strength, note
            )

    def _war(self, lanes: Lanes, target: Target, found: list[Unordered], strength: int) -> None:
        """Reports reads that nothing orders before these writes."""
        repeats = self.heap.repeats
        for each in found:
            note = repeats is not None and repeats.is_repeat(each.site)
            bad, lane, who, site = each.bad, each.lane, each.who, each.site
            self._tell(lanes, target, bad, lane, who, site, "writes", "read", strength, note)

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
    ) -> None:
        """One fault: lane i ``verb``s what ``who`` ``did`` at ``site``. note: one of repeats.py."""
        thread = int(lanes.threads[i])
        other, kind_of_agent = self.clocks.describe(who)
        place, where = target.name(i), self.heap.sites[site]
        me = thread_name(self.wave, thread)
        at = f"({line_name(where)})"
        if kind_of_agent and kind_of_agent != "elsewhere":
            engine, missing = engine_words(kind_of_agent, where)
            missing = self._half_waited(target, i, who, thread) or missing
            kind = Kind.OVERWRITTEN_IN_FLIGHT if did == "read" else Kind.READ_BEFORE_WAIT
            if did == "wrote" and verb != "reads":
                kind = Kind.RACE
            reads = "reads" if did == "read" else "writes"
            message = f"{me} {verb} {place}, which {engine} {reads} {at}; {missing}"
            lanes.fault(kind, bad, message, Access(other, where, f"{engine} {reads} {place}"))
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
            message += "; " + self._missing(thread, who, target.space)
        severity = Severity.NOTE if note else Severity.ERROR
        access = Access(other, where, f"{did} {place}")
        lanes.fault(kind, bad, message, access, severity=severity)

    def _half_waited(self, target: Target, i: int, who: int, thread: int) -> str:
        """What is missing when somebody did wait for a copy, but not so that ``thread`` knows; ""
        when nobody did."""
        times = rows(target.shadow.time, target.index[i : i + 1], target.count)
        time = int((times & TIME_MASK).max())
        owner, kind = self.clocks.describe(who)
        if kind == "cp.async" and owner is not None:
            if int(self.clocks.private(kind).known[owner]) >= time:
                name = thread_name(self.wave, owner, thread)
                return f"{name} has waited for it, but no barrier after that wait lies between"
            from checkers.simulator.copies.copies import Copies

            return self.wave.state(Copies).explain(owner, time)
        if kind == "mbarrier":
            from checkers.simulator.waiting.mbarrier_lookup import Mbarriers

            return self.wave.state(Mbarriers).explain(self.clocks.by_who[who].key, thread, time)
        return ""

    def _missing(self, thread: int, who: int, space: str) -> str:
        """What should have stood between two threads' accesses."""
        mine = int(self.clocks.who[thread])
        if who >> int(CLUSTER_SHIFT) != mine >> int(CLUSTER_SHIFT):
            return "no release and acquire orders the two blocks"
        column, own = who & int(COLUMN_MASK), mine & int(COLUMN_MASK)
        if column // self.lanes_each != own // self.lanes_each:
            return "no barrier of the cluster lies between the two"
        if column // 32 == own // 32:
            return "no barrier, not even bar.warp.sync, lies between the two lanes of one warp"
        return "no barrier lies between the two"

    # --- agents --------------------------------------------------------------------------------

    def not_fenced(self, threads: np.ndarray, who: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Which grains were last written through the generic proxy, known to ``threads``, but not
        fenced for the async proxy on the way; all (k, count)."""
        through = (times != 0) & (times != BARRIER)
        through &= (times & ASYNC) == 0
        if not through.any():
            return through
        return through & ~self.clocks.sees(threads, who, times & TIME_MASK, fenced=True)
