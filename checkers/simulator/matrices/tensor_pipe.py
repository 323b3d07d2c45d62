"""The pipeline of Blackwell's tensor core: what a thread issued, and what commit tells of it.

PTX ISA 9.7.16.6, 9.7.16.12. tcgen05.mma, .cp and .shift of one thread are done in order, as late
as the run's schedule has it; tcgen05.commit makes one arrival on an mbarrier when all that its own
thread issued before is complete.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.simulator.copies.engine import Call, Operation
from checkers.simulator.reports.faults import Kind, Severity
from checkers.simulator.waiting.mbarrier_lookup import Mbarriers
from checkers.simulator.waiting.mbarriers import Mbarrier

if TYPE_CHECKING:
    from checkers.simulator.machine.group import Group
    from checkers.simulator.machine.wave import Wave
    from checkers.simulator.ptx.program import Instruction


class TensorPipe:
    """All of a wave: ``wave.state(TensorPipe)``.

    issued: thread to the operations that it issued and that are not done.  issuers: threads that
    ever issued one.  last: for the log, the last operation of each thread that no commit follows.
    """

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        self.issued: dict[int, list[Operation]] = {}
        self.issuers: set[int] = set()
        self.uncommitted: dict[int, Instruction] = {}  # thread: its first since its last commit
        self.last: dict[int, Any] = {}
        wave.exit_checks.append(self._at_exit)

    def agent(self, thread: int) -> Any:
        """The engine, in the clocks' terms, that works for a thread."""
        clocks = self.wave.clocks
        return clocks.agent(int(clocks.cluster[thread]), self.key(thread))

    @staticmethod
    def key(thread: int) -> tuple[str, int]:
        return ("tcgen05", thread)

    def issue(
        self, thread: int, group: Group, action: Callable[[], None], name: str, flops: int = 0
    ) -> None:
        """An operation of ``thread``, one of ``group``: ``action`` does it."""
        self.issuers.add(thread)
        self.uncommitted.setdefault(thread, group.site)
        log = self.wave.log
        if log.enabled:
            log.start(group, action, "tensor", name, flops=flops)
            before, self.last[thread] = self.last.get(thread), action
            if before is not None:  # done before this one, in order
                log.finish(before)
        self._issue(thread, group.site, action)

    def _issue(self, thread: int, site: Instruction, action: Callable[[], None]) -> None:
        cluster = int(self.wave.clocks.cluster[thread])
        queue = self.issued.setdefault(thread, [])
        operation: Operation

        def complete() -> None:
            queue.remove(operation)
            action()

        operation = Call(cluster, site, complete, self.key(thread))
        queue.append(operation)
        self.wave.engine.issue(operation)

    def commit(
        self, thread: int, barrier: Mbarrier, mask: int | None, pair: bool, group: Group
    ) -> None:
        """tcgen05.commit by one thread. mask: the blocks of the cluster whose barrier at the same
        offset gets an arrival; None for ``barrier`` alone."""
        site = group.site
        if thread not in self.issuers:
            self.wave.faults.report(
                Kind.TENSOR_MEMORY,
                "tcgen05.commit by a thread that has issued nothing: it tracks only its own "
                "thread's tcgen05.mma, .cp and .shift, and arrives at once.",
                thread=thread,
                site=site,
                severity=Severity.NOTE,
            )
        self.uncommitted.pop(thread, None)
        agent, clocks = self.agent(thread), self.wave.clocks
        # Also what the thread knew when it issued: its operations came after that.
        knowledge = clocks.release(np.array([thread])).with_agent(agent, agent.last())
        targets = [barrier] if mask is None else self._multicast(barrier, mask, thread, group)

        log, last = self.wave.log, self.last.pop(thread, None)

        def arrive() -> None:
            if log.enabled:
                keys = [target.key for target in targets]
                if last is not None:
                    log.finish(last, *keys)
                else:
                    for key in keys:
                        log.signal(group, key)
            for target in targets:
                target.arrive(1, thread, site, knowledge)

        if self.issued.get(thread):
            self._issue(thread, site, arrive)
        else:
            arrive()
            self.wave.progressed()

    def _multicast(self, barrier: Mbarrier, mask: int, thread: int, group: Group) -> list[Mbarrier]:
        """The barriers at one offset of the blocks that ``mask`` names."""
        size = self.wave.cluster_size
        first = barrier.block - barrier.block % size
        found = []
        for rank in range(16):
            if not mask >> rank & 1:
                continue
            there = self.wave.state(Mbarriers).find(first + rank, barrier.offset)
            if rank < size and there is not None:
                found.append(there)
                continue
            what = "is not in the cluster" if rank >= size else "has no mbarrier there"
            self.wave.faults.report(
                Kind.MBARRIER,
                f"tcgen05.commit signals block {rank} of the cluster, which {what}.",
                thread=thread,
                site=group.site,
            )
        return found

    def _at_exit(self, block: int) -> None:
        """Reports operations that nobody can have waited for."""
        each = self.wave.warps_per_block * 32
        for thread, queue in self.issued.items():
            if thread // each == block and queue:
                self.wave.faults.report(
                    Kind.EXIT_IN_FLIGHT,
                    "The block ends while its tcgen05 operation is in flight: no one waited for it.",
                    thread=thread,
                    site=queue[0].site,
                )
