"""cp.async in flight: what each thread has started, committed and not yet waited for.

PTX ISA 9.7.9.25.1.1 and 9.7.9.25.3. Each thread has its own groups; a commit closes one, a wait leaves
at most so many of the newest open. One instruction's copies of all its lanes are one Operation, whose
lanes may complete at different times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from checkers.simulator.copies.async_access import End, reading
from checkers.simulator.copies.engine import Operation
from checkers.simulator.memory.touched import Touched
from checkers.simulator.reports.faults import Access, Fault, Kind

if TYPE_CHECKING:
    from checkers.simulator.machine.group import Group
    from checkers.simulator.machine.wave import Wave
    from checkers.simulator.ptx.program import Instruction

REMEMBERED = 64  # groups whose last time is kept; a wait that leaves more open waits for nothing
SEVERAL = -1  # the engine's cluster of an operation whose lanes are of several clusters


class CopyOperation(Operation):
    """The copies of one cp.async by all its lanes.

    threads: (k,) who.  groups: (k,) the number of the group each belongs to.  times: (k,) of its
    thread's agent.  left: (k,) bool, those that have not landed.
    """

    def __init__(
        self,
        cluster: int,
        site: Instruction,
        copies: Copies,
        threads: np.ndarray,
        groups: np.ndarray,
        times: np.ndarray,
        reads: Source,
        writes: End,
    ) -> None:
        super().__init__(cluster, site)
        self.copies = copies
        self.threads, self.groups, self.times = threads, groups, times
        self.left = np.ones(len(threads), bool)
        self._reads, self._writes = reads, writes

    def complete(self) -> None:
        self.land(self.left.copy())

    def land(self, chosen: np.ndarray) -> None:
        """The lanes ``chosen``, (k,) bool, land."""
        if not chosen.any():
            return
        everything = None if chosen.all() else chosen
        self._writes.finish(self._reads.read_lanes(everything), everything)
        self.left &= ~chosen
        if not self.left.any():
            del self._reads, self._writes  # the log may keep this object
            self.copies.landed(self)
            self.copies.wave.log.finish(self)


class Source:
    """The sources of one cp.async: of each lane so many bytes, the rest of its ``size`` zeros."""

    def __init__(
        self, whole: End | None, partly: End | None, counts: np.ndarray, size: int
    ) -> None:
        self.whole, self.partly = whole, partly
        self.counts, self.size = counts, size

    def read_lanes(self, chosen: np.ndarray | None) -> np.ndarray:
        """(k, size) uint8 of the lanes ``chosen``, (k,) bool; of all without."""
        data = np.zeros((len(self.counts), self.size), np.uint8)
        full = self.counts == self.size
        if self.whole is not None:
            data[full] = self.whole.read()
        if self.partly is not None:
            column = np.arange(self.size)
            some = (column < self.counts[:, None]) & ~full[:, None]
            data[some] = self.partly.read()[:, 0]
        return data if chosen is None else data[chosen]

    @classmethod
    def begin(
        cls, group: Group, addresses: np.ndarray, counts: np.ndarray, size: int, times: np.ndarray
    ) -> Source:
        """Checks and marks the bytes that are read. addresses, counts, times: (k,), of each lane."""
        threads, what = group.threads(), "cp.async"
        agents = group.wave.clocks.agents

        def part(lanes: np.ndarray, offsets: np.ndarray, width: int) -> End | None:
            if not len(lanes):
                return None
            agent = agents("cp.async", threads[lanes])
            place = ("global", 0, offsets, width, agent, times[lanes], what)
            return reading(group, threads[lanes], *place)

        full = np.flatnonzero(counts == size)
        whole = part(full, addresses[full], size)
        column = np.arange(size)
        lane, byte = np.nonzero((column < counts[:, None]) & (counts != size)[:, None])
        partly = part(lane, addresses[lane] + byte, 1)
        return cls(whole, partly, counts, size)


class Copies:
    """All of a wave.

    commits: (threads,) how often a thread committed.  open: (threads,) copies since its last commit.
    """

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        threads = wave.warps * 32
        self.commits = np.zeros(threads, np.int64)
        self.open = np.zeros(threads, np.int64)
        self.stale = np.zeros(threads, bool)  # had open copies at its last wait
        self.time_of_group = np.zeros((REMEMBERED, threads), np.uint32)
        self.left = np.full(threads, -1, np.int64)  # what its last wait left open, -1 for no wait
        self.commits_at_wait = np.zeros(threads, np.int64)
        self.tracked = np.zeros(threads, np.int64)  # times up to which an mbarrier tracks them
        self.sites = np.full(threads, None, object)  # the last cp.async of a thread
        self.pending: dict[CopyOperation, None] = {}
        self._waiting = np.zeros(threads, bool)
        wave.exit_checks.append(self._at_exit)

    def landed(self, operation: CopyOperation) -> None:
        self.pending.pop(operation, None)

    def start(self, group: Group, reads: Source, writes: End, times: np.ndarray) -> CopyOperation:
        """A cp.async by all lanes of ``group``; reads, writes: as CopyOperation has them."""
        threads = group.threads()
        clusters = self.wave.block_of(threads[[0, -1]]) // self.wave.cluster_size
        cluster = int(clusters[0]) if clusters[0] == clusters[1] else SEVERAL
        operation = CopyOperation(
            cluster, group.site, self, threads, self.commits[threads], times, reads, writes
        )
        self.open[threads] += 1
        self.sites[threads] = group.site
        self.pending[operation] = None
        self.wave.engine.issue(operation)
        return operation

    def commit(self, group: Group) -> None:
        """cp.async.commit_group."""
        threads = group.threads()
        last = self.wave.clocks.agents("cp.async", threads).last()
        self.time_of_group[self.commits[threads] % REMEMBERED, threads] = last
        self.commits[threads] += 1
        self.open[threads] = 0
        self.stale[threads] = False

    def wait(self, group: Group, leave: int) -> None:
        """cp.async.wait_group: at most the ``leave`` newest groups stay open."""
        threads = group.threads()
        self._check_commits(group, threads, leave)
        self.left[threads], self.commits_at_wait[threads] = leave, self.commits[threads]
        done = self.commits[threads] - leave
        landed = self._land_before(threads, done)
        if self.wave.log.enabled:
            for operation in landed:
                self.wave.log.finish(operation)
            self.wave.log.waited(group, "cp.async", *landed)
        some = threads[done > 0]
        if len(some) and leave < REMEMBERED:
            last = (self.commits[some] - leave - 1) % REMEMBERED
            agents = self.wave.clocks.agents("cp.async", some)
            self.wave.clocks.learn(some, agents, self.time_of_group[last, some])

    def _land_before(self, threads: np.ndarray, groups: np.ndarray) -> list[CopyOperation]:
        """Lands all copies of each of ``threads`` that are in a group before its number in
        ``groups``; returns the operations that they belong to."""
        landed: list[CopyOperation] = []
        if not self.pending:
            return landed
        waiting = self._waiting
        waiting[threads] = True
        landed: list[CopyOperation] = []
        limit = np.zeros(len(waiting), np.int64)
        limit[threads] = groups
        for operation in list(self.pending):
            owner = operation.threads
            chosen = operation.left & waiting[owner] & (operation.groups < limit[owner])
            if chosen.any():
                landed.append(operation)
            self._land(operation, chosen)
        waiting[threads] = False
        return landed

    def _land(self, operation: CopyOperation, chosen: np.ndarray) -> None:
        if np.array_equal(chosen, operation.left):
            self.wave.engine.complete(operation)
        else:
            operation.land(chosen)

    def explain(self, thread: int, time: int) -> str:
        """Why the last wait of ``thread`` does not cover its copy of that time; "" when there was
        no wait, or it came before the commit."""
        commits = int(self.commits[thread])
        groups = range(max(0, commits - REMEMBERED), commits)
        times = {group: int(self.time_of_group[group % REMEMBERED, thread]) for group in groups}
        group = next((group for group, last in times.items() if last >= time), commits)
        left, at_wait = int(self.left[thread]), int(self.commits_at_wait[thread])
        if group == commits:
            return "it was never committed to a group, so no wait covers it" if left >= 0 else ""
        if left < 0 or not at_wait - left <= group < at_wait:
            return ""
        newest = "newest group" if left == 1 else f"{left} newest groups"
        return (
            f"cp.async.wait_group {left} lets the {newest} go on, and this copy is in one of them"
        )

    def track(self, threads: np.ndarray) -> None:
        """An mbarrier tracks all copies of these threads so far: no commit is missing."""
        self.open[threads] = 0
        self.tracked[threads] = self.wave.clocks.agents("cp.async", threads).last()

    def untracked(self, threads: np.ndarray) -> np.ndarray:
        """Those of ``threads`` that have started copies which they have not waited for, and that no
        mbarrier tracks."""
        agents = self.wave.clocks.agents("cp.async", threads)
        last = np.asarray(agents.last())
        waited = self.wave.clocks.sees(threads, agents.who, last)
        return threads[(last > self.tracked[threads]) & ~waited]

    def land_all_of(self, threads: np.ndarray) -> None:
        """All copies that these threads have started, in whatever group."""
        self._land_before(threads, np.full(len(threads), 1 << 40))

    def _check_commits(self, group: Group, threads: np.ndarray, leave: int) -> None:
        """Copies that no commit has closed are not waited for: was it forgotten?

        Yes if they were open at the wait before already, or if there is nothing else to wait for.
        """
        open_ = self.open[threads] > 0
        if not open_.any():
            return
        wrong = open_ & (self.stale[threads] | ((self.commits[threads] == 0) & (leave == 0)))
        self.stale[threads[open_]] = True
        if not wrong.any():
            return
        first = int(threads[wrong][0])
        operation = next((o for o in self.pending if first in o.threads), None)
        other = Access(first, operation.site, "cp.async") if operation else None
        count = int(self.open[first])
        agents = self.wave.clocks.agents("cp.async", threads[wrong])
        late = (threads[wrong], np.asarray(agents.who), np.asarray(agents.last()))
        touched = self.wave.state(Touched)
        told = self.wave.faults.report(
            Kind.COMMIT,
            f"The wait does not cover {count} cp.async of this thread: they were never committed to "
            "a group (cp.async.commit_group)",
            group=group.narrowed(group.spread(wrong, False)),
            other=other,
            follows=touched.cause(late),
        )
        touched.note(late, told)

    def _at_exit(self, block: int) -> None:
        """Copies that nobody has waited for, done by now or not; those pending are done."""
        each = self.wave.warps_per_block * 32
        threads = np.arange(block * each, (block + 1) * each)
        agents = self.wave.clocks.agents("cp.async", threads)
        last = np.asarray(agents.last())
        waited = self.wave.clocks.sees(threads, agents.who, last) | (self.tracked[threads] >= last)
        for operation in list(self.pending):
            chosen = operation.left & (self.wave.block_of(operation.threads) == block)
            # What an mbarrier tracks is waited for by others, if at all: then it is done.
            lost = np.isin(threads, operation.threads[chosen])
            waited &= ~lost
            self._land(operation, chosen)
        if waited.all():
            return
        thread = int(threads[~waited][0])
        why = "it was never committed" if self.open[thread] else "nobody waited for it"
        self.wave.faults.report(
            Kind.EXIT_IN_FLIGHT,
            f"The block ends with a cp.async in flight: {why}",
            thread=thread,
            site=self.sites[thread],
            follows=self._touched_before(agents.who[~waited], last[~waited]),
        )

    def _touched_before(self, who: np.ndarray, times: np.ndarray) -> Fault | None:
        """The fault that all of these copies were touched too early, if they were."""
        touched = self.wave.state(Touched)
        found = [touched.of(*pair) for pair in zip(who.tolist(), times.tolist(), strict=True)]
        return found[0] if all(found) else None
