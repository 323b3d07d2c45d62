"""Bulk and tensor copies in flight: how they end, and the groups that a thread waits for.

PTX ISA 9.7.9.25.1, 9.7.9.25.4, 9.7.9.27. A copy into shared memory ends by complete-tx on an mbarrier for each
block that it writes to; one out of shared memory belongs to its thread's bulk groups, and has
two ends: its source is read (wait_group.read), and its destination written (wait_group).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.simulator.copies.engine import Operation
from checkers.simulator.memory.touched import Touched
from checkers.simulator.reports.faults import Access, Kind
from checkers.simulator.waiting.mbarrier_lookup import Mbarriers
from checkers.simulator.waiting.mbarriers import Mbarrier

if TYPE_CHECKING:
    from checkers.simulator.machine.group import Group
    from checkers.simulator.machine.wave import Wave
    from checkers.simulator.memory.knowledge import Agent

Change = Callable[[np.ndarray], np.ndarray]


class BulkCopy(Operation):
    """One bulk or tensor copy.

    thread: who issued it.  what: in words, "TMA load into shared memory".  source: read ticket of the
    memory.  targets: write tickets.  change: makes what is written of what was read; given the old
    bytes as well for a reduction.  barriers: to signal, with the bytes for each.
    """

    def __init__(
        self,
        group: Group,
        thread: int,
        what: str,
        source: Any,
        targets: Sequence[Any],
        barriers: Sequence[tuple[Mbarrier, int]] = (),
        blocks: Sequence[int] = (),
    ) -> None:
        block = int(group.wave.block_of(np.int64(thread)))
        super().__init__(block // group.wave.cluster_size, group.site)
        self.wave = group.wave
        self.thread = thread
        self.what = what
        self.source = source
        self.targets = list(targets)
        self.barriers = list(barriers)
        self.blocks = list(blocks)  # whose shared memory it touches
        self.data: np.ndarray | None = None
        self.time = 0  # of the agent of its thread's groups, if it is in one
        self.waited = False  # its thread has waited for it, or for the reading of its source

    def read(self) -> None:
        """Reads the source; it may be overwritten then."""
        if self.source is not None:
            self.data = self.source.finish()
            self.source = None

    def complete(self) -> None:
        self.read()
        for target in self.targets:
            target.finish(self.data)
        self.targets, self.data = [], None
        log = self.wave.log
        if log.enabled:
            log.finish(self, *[barrier.key for barrier, _ in self.barriers])
        for barrier, _ in self.barriers:
            barrier.lands(self, self.thread, self.site)


@dataclass
class ThreadGroups:
    """The bulk groups of one thread. committed: the oldest first; the empty ones as well."""

    open: list[BulkCopy] = field(default_factory=list)
    committed: deque[tuple[list[BulkCopy], int]] = field(default_factory=deque)
    stale: bool = False  # had open copies at its last wait


class BulkCopies:
    """The bulk copies of a wave."""

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        self.groups: dict[int, ThreadGroups] = {}
        wave.exit_checks.append(self._at_exit)

    def agent(self, thread: int, reading: bool) -> Any:
        """The agent of a thread's bulk groups; another one for the reading of their sources."""
        cluster = int(self.wave.block_of(np.int64(thread))) // self.wave.cluster_size
        return self.wave.clocks.agent(cluster, ("bulk", "read" if reading else "write", thread))

    def start(self, copy: BulkCopy, in_group: bool) -> None:
        """Hands a copy to the engine. in_group: it is of its thread's bulk groups."""
        if in_group:
            self.groups.setdefault(copy.thread, ThreadGroups()).open.append(copy)
        self.wave.engine.issue(copy)

    def commit(self, group: Group) -> None:
        """cp.async.bulk.commit_group by every lane of ``group``."""
        for thread in self._concerned(group):
            groups = self.groups[thread]
            last = self.agent(thread, True).time
            groups.committed.append((groups.open, last))
            groups.open, groups.stale = [], False

    def wait(self, group: Group, leave: int, reading: bool) -> None:
        """cp.async.bulk.wait_group{.read}: all but the ``leave`` newest groups are over."""
        wave = self.wave
        for thread in self._concerned(group):
            groups = self.groups[thread]
            self._check_commit(group, thread, groups)
            done = list(groups.committed)[: max(0, len(groups.committed) - leave)]
            if not done:
                continue
            for copies, _ in done:
                for copy in copies:
                    copy.waited = True
                    if reading:
                        copy.read()
                    else:
                        wave.engine.complete(copy)
            who, time = np.array([thread]), done[-1][1]
            wave.clocks.learn(who, self.agent(thread, True), time)
            if not reading:
                wave.clocks.learn(who, self.agent(thread, False), time)
                for _ in done:
                    groups.committed.popleft()
            if wave.log.enabled:
                copies = [copy for some, _ in done for copy in some]
                wave.log.waited(group, "bulk group", *copies)

    def _concerned(self, group: Group) -> list[int]:
        """The lanes that have started any bulk copy in a group."""
        if not self.groups:
            return []
        if len(self.groups) < 64:
            mine = set(group.threads().tolist())
            return [thread for thread in self.groups if thread in mine]
        return [thread for thread in group.threads().tolist() if thread in self.groups]

    def _check_commit(self, group: Group, thread: int, groups: ThreadGroups) -> None:
        """Copies that no commit has closed are not waited for: was it forgotten?"""
        if not groups.open:
            return
        if groups.stale or not groups.committed:
            first = groups.open[0]
            self.wave.faults.report(
                Kind.COMMIT,
                f"The wait does not cover a {first.what} of this thread: it was never committed to a "
                "group (cp.async.bulk.commit_group)",
                thread=thread,
                site=group.site,
                other=Access(thread, first.site, first.what),
            )
        groups.stale = True

    def _at_exit(self, block: int) -> None:
        """The shared memory of ``block`` is gone: somebody must have waited for each copy that
        reads or writes it, whether it is done by now or not."""
        wave = self.wave
        for thread, groups in self.groups.items():
            if int(wave.block_of(np.int64(thread))) != block:
                continue
            committed = [copy for copies, _ in groups.committed for copy in copies]
            for copy in groups.open + committed:
                if not copy.waited:
                    why = "it was never committed to a group, so no wait covers it"
                    why_not = "nobody waited for it" if copy in committed else why
                    self._unfinished(copy, why_not, self.agent(thread, True), copy.time)
        for barrier in wave.state(Mbarriers).of_block(block):
            copy = barrier.last_copy
            if copy is not None and int(barrier.seen.max()) < barrier.last_copy_phase:
                time = barrier.last_copy_phase + 1
                self._unfinished(copy, f"nobody waited for {barrier.name}", barrier.agent, time)
        for operation in wave.engine.pending():
            if isinstance(operation, BulkCopy) and block in operation.blocks:
                wave.engine.complete(operation)

    def _unfinished(self, copy: BulkCopy, why: str, agent: Agent, time: int) -> None:
        """Reports a copy that is of ``agent`` at its ``time``."""
        self.wave.faults.report(
            Kind.EXIT_IN_FLIGHT,
            f"The block ends with a {copy.what} in flight: {why}",
            thread=copy.thread,
            site=copy.site,
            follows=self.wave.state(Touched).of(int(agent.who), time),
        )
