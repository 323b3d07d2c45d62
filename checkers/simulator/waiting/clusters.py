"""Clusters: the barrier of their blocks, and when a block may touch another's shared memory.

PTX ISA 9.7.13.3 (barrier.cluster). A block's shared memory exists from its start to its exit: the blocks
must have met once before one touches another's, and again before one leaves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.simulator.machine.wave import Wait
from checkers.simulator.reports.faults import Access, Kind

if TYPE_CHECKING:
    from checkers.simulator.machine.group import Group
    from checkers.simulator.machine.wave import Wave
    from checkers.simulator.ptx.program import Instruction


@dataclass(eq=False)
class ClusterWait(Wait):
    """Threads that wait for a phase of the barrier of one cluster."""

    state: Clusters | None = None
    cluster: int = 0

    def reason(self) -> str:
        assert self.state is not None
        return self.state.why_not(self.cluster)


class Clusters:
    """The cluster barriers of a wave.

    phase: (clusters,) how often each was complete.  arrived: (threads,) bool, in the present phase.
    waits_for: (threads,) the phase after which the thread's wait is over, 0 when it has not arrived.
    """

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        self.threads = wave.warps * 32 // wave.clusters
        self.phase = np.zeros(wave.clusters, np.int64)
        self.arrived = np.zeros(wave.warps * 32, bool)
        self.waits_for = np.zeros(wave.warps * 32, np.int64)
        self.met = np.zeros(wave.warps * 32, np.int64)  # barriers that a thread waited for
        self.relaxed_sites: dict[int, Instruction] = {}  # the last relaxed arrive of a cluster
        self._arriving: list[Any] = [None] * wave.clusters
        self.published: list[Any] = [None] * wave.clusters
        self._waits: dict[int, ClusterWait] = {}
        self.gone: dict[int, Instruction] = {}  # block: the instruction at which it ended
        # block: by instruction, when each thread of the cluster last touched its shared memory
        self._touched: dict[int, dict[Instruction, np.ndarray]] = {}
        wave.exit_hooks.append(self._exited)

    def of(self, threads: np.ndarray) -> np.ndarray:
        """The cluster of each thread."""
        return threads // self.threads

    def missing(self, cluster: int) -> np.ndarray:
        """The live threads of a cluster that have not arrived."""
        first = cluster * self.threads
        live = self.wave.live.reshape(-1)[first : first + self.threads]
        return first + np.flatnonzero(live & ~self.arrived[first : first + self.threads])

    def why_not(self, cluster: int) -> str:
        """ "waits for the cluster: 96 of 128 threads have arrived; ..."."""
        missing = self.missing(cluster)
        first = cluster * self.threads
        live = int(self.wave.live.reshape(-1)[first : first + self.threads].sum())
        blocks = np.unique(self.wave.block_of(missing)) % self.wave.cluster_size
        names = ", ".join(str(block) for block in blocks.tolist())
        return (
            f"waits at barrier.cluster: {live - len(missing)} of {live} threads have arrived, those "
            f"of the block{'s' if len(blocks) != 1 else ''} of rank {names} have not all"
        )

    # --- arrive and wait -------------------------------------------------------------------------

    def arrive(self, group: Group, knowledge_of: dict[int, Any], relaxed: bool) -> None:
        """barrier.cluster.arrive by the lanes of ``group``.

        knowledge_of: what the arrivals at each cluster release.
        """
        threads = group.threads()
        clusters = self.of(threads)
        twice = self.waits_for[threads] > 0
        if twice.any():
            self.wave.faults.report(
                Kind.CLUSTER,
                "A thread arrives at the cluster's barrier a second time without the wait between",
                thread=int(threads[twice][0]),
                site=group.site,
            )
        self.arrived[threads] = True
        self.waits_for[threads] = self.phase[clusters] + 1
        for cluster in np.unique(clusters).tolist():
            knowledge = knowledge_of.get(cluster)
            if knowledge is not None:
                so_far = self._arriving[cluster]
                self._arriving[cluster] = knowledge if so_far is None else so_far.join(knowledge)
            if relaxed:
                self.relaxed_sites[cluster] = group.site
            self._advance(cluster)

    def is_over(self, threads: np.ndarray) -> np.ndarray:
        """(k,) bool: whether the phase that these threads arrived in is complete."""
        return self.phase[self.of(threads)] >= self.waits_for[threads]

    def wait_of(self, cluster: int) -> ClusterWait:
        if cluster not in self._waits:
            self._waits[cluster] = ClusterWait("cluster", False, self, cluster)
        return self._waits[cluster]

    def passed(self, threads: np.ndarray) -> None:
        """Their wait is over: the next arrive is for the next phase."""
        self.waits_for[threads] = 0
        self.met[threads] += 1

    def _advance(self, cluster: int) -> None:
        if len(self.missing(cluster)):
            return
        first = cluster * self.threads
        if not self.arrived[first : first + self.threads].any():
            return
        self.arrived[first : first + self.threads] = False
        self.phase[cluster] += 1
        arriving, so_far = self._arriving[cluster], self.published[cluster]
        if arriving is not None:
            self.published[cluster] = arriving if so_far is None else so_far.join(arriving)
        self._arriving[cluster] = None
        self.wave.progressed()
        wait = self._waits.pop(cluster, None)
        if wait is not None:
            self.wave.wake(wait)

    # --- exits and remote accesses ---------------------------------------------------------------

    def _exited(self, group: Group) -> None:
        size = self.wave.warps_per_block
        for block in np.unique(group.blocks()).tolist():
            if not self.wave.live[block * size : (block + 1) * size].any():
                self.gone[block] = self.wave.kernel.instructions[
                    min(group.pc, len(self.wave.kernel.instructions) - 1)
                ]
                self._blame_early_end(block, group)
        for cluster in np.unique(self.of(group.threads())).tolist():
            self._advance(cluster)

    def touches(self, group: Group, block: int) -> None:
        """The lanes of ``group`` access the shared memory of another block, which must not end
        before they have."""
        sites = self._touched.setdefault(block, {})
        times = sites.get(group.site)
        if times is None:
            times = sites[group.site] = np.zeros(self.threads, np.uint32)
        threads = group.threads()
        times[threads % self.threads] = self.wave.clocks.stamp[threads >> 5]

    def _blame_early_end(self, block: int, last: Group) -> None:
        """Reports accesses to the shared memory of ``block`` after which none of its threads, of
        which ``last`` exit now, has synchronised: it could have ended before."""
        wave, size = self.wave, self.wave.warps_per_block * 32
        first = block * size
        cluster_start = int(self.of(np.array(first))) * self.threads
        threads = np.unique(last.threads()[last.threads() // size == block])
        everyone = np.arange(first, first + size)
        order = np.concatenate([threads, everyone[~np.isin(everyone, threads)]])
        for site, times in self._touched.pop(block, {}).items():
            open_ = np.flatnonzero(times)
            for thread in order:
                who = wave.clocks.who[cluster_start + open_]
                known = wave.clocks.sees(np.array([thread]), who[None], times[open_][None])[0]
                open_ = open_[~known]
                if not len(open_):
                    break
            else:
                wave.faults.report(
                    Kind.CLUSTER,
                    f"Shared memory of the block of rank {block % wave.cluster_size} is touched, and "
                    "nothing keeps that block from ending before: a barrier of the cluster must stand "
                    "before its exit",
                    thread=cluster_start + int(open_[0]),
                    site=site,
                    other=Access(int(threads[0]), self.gone[block], "the block's end"),
                )

    def may_touch(self, group: Group, block: int, what: str) -> bool:
        """Whether the lanes of ``group`` may touch the shared memory of another block.

        Reports a block that has exited (then False), and one that may not have started.
        """
        wave = self.wave
        size = wave.warps_per_block
        if not wave.live[block * size : (block + 1) * size].any():
            wave.faults.report(
                Kind.CLUSTER,
                f"{what.capitalize()} of the block of rank {block % wave.cluster_size} is touched, but all its "
                "threads have exited: a barrier of the cluster must stand before the exit",
                group=group,
                other=Access(None, self.gone.get(block), "the block's end"),
            )
            return False
        threads = group.threads()
        met = self.met[threads]
        if not met.all() and not self._told(threads[met == 0]).all():
            wave.faults.report(
                Kind.CLUSTER,
                f"{what.capitalize()} of the block of rank {block % wave.cluster_size} is touched before the "
                "blocks of the cluster have met: it may not have started",
                group=group,
            )
        return True

    def _told(self, threads: np.ndarray) -> np.ndarray:
        """Threads that passed no barrier of the cluster, but synchronised with one that did."""
        wave = self.wave
        known = np.zeros(len(threads), bool)
        for cluster in np.unique(self.of(threads)).tolist():
            own = self.of(threads) == cluster
            agent = wave.clocks.agent(cluster, ("cluster barrier",))
            known[own] = wave.clocks.agent_times(threads[own], agent) > 0
        return known
