"""What a thread gives out by a release and takes in by an acquire, and the agents it may tell of."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from checkers.simulator.memory.clocks import Clocks

# Rows of clusters: (known, fenced), each (columns,) uint32.
Foreign = dict[int, tuple[np.ndarray, np.ndarray]]


class Agent:
    """An engine that works beside the threads, or (``threads`` given) one for each of them.

    cluster, column: where in the clocks.  who: its name in the shadow.  kind: "mbarrier" (a TMA
    load), "cp.async", "bulk", "wgmma", ...  generic: works through the generic proxy.
    cluster, column and who are numbers, or (k,) for private agents of k threads.
    """

    __slots__ = ("clocks", "cluster", "column", "generic", "key", "kind", "threads", "time", "who")

    def __init__(
        self,
        clocks: Clocks,
        cluster: Any,
        column: Any,
        who: Any,
        kind: str,
        key: Hashable,
        generic: bool,
        threads: np.ndarray | None = None,
    ) -> None:
        self.clocks = clocks
        self.cluster = cluster
        self.column = column
        self.who = who
        self.kind = kind
        self.key = key
        self.generic = generic
        self.threads = threads
        self.time = 0

    @property
    def private(self) -> bool:
        """One for each of ``threads``."""
        return self.threads is not None

    def tick(self) -> Any:
        """The time of its next operation: one more than the last; (k,) for private agents."""
        if self.threads is not None:
            times = self.clocks.private(self.kind).time
            times[self.threads] += 1
            return times[self.threads]
        self.time += 1
        return self.time

    def last(self) -> Any:
        """The time of its last operation."""
        if self.threads is not None:
            return self.clocks.private(self.kind).time[self.threads]
        return self.time


class Private:
    """Agents of which each thread has its own, such as its cp.async copies: a column for each
    thread from ``start`` on. known, fenced: what each thread itself has waited for."""

    def __init__(self, kind: str, start: int, threads: int) -> None:
        self.kind = kind
        self.start = start
        self.known = np.zeros(threads, np.uint32)
        self.fenced = np.zeros(threads, np.uint32)
        self.time = np.zeros(threads, np.uint32)


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Up to where somebody has synchronised. It is never changed, only joined to a new one.

    rows: by cluster of the grid.  agents: times of single agents, by (cluster of the grid, column).
    """

    rows: Foreign
    agents: dict[tuple[int, int], int]

    def join(self, other: Knowledge) -> Knowledge:
        """What both know together."""
        if other is self or not (other.rows or other.agents):
            return self
        if not (self.rows or self.agents):
            return other
        rows = dict(self.rows)
        for cluster, pair in other.rows.items():
            mine = rows.get(cluster)
            if mine is None or mine is pair:
                rows[cluster] = pair
            else:
                rows[cluster] = (_most(mine[0], pair[0]), _most(mine[1], pair[1]))
        agents = dict(self.agents)
        for key, time in other.agents.items():
            agents[key] = max(time, agents.get(key, 0))
        return Knowledge(rows, agents)

    def with_agent(self, agent: Agent, time: Any) -> Knowledge:
        """And that an agent's operations up to ``time`` are done. For private agents: of each of
        their threads, up to its own of (k,) times."""
        agents = dict(self.agents)
        first = agent.clocks.first_cluster
        if agent.private:
            times = np.broadcast_to(time, np.shape(agent.column)).tolist()
            keys = zip((agent.cluster + first).tolist(), agent.column.tolist(), strict=True)
            for key, each in zip(keys, times, strict=True):
                agents[key] = max(each, agents.get(key, 0))
        else:
            key = (first + agent.cluster, agent.column)
            agents[key] = max(int(time), agents.get(key, 0))
        return Knowledge(self.rows, agents)


def _most(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The larger of each; the shorter counts as 0 where it ends."""
    if len(left) < len(right):
        left, right = right, left
    if len(left) == len(right):
        return np.maximum(left, right)
    out = left.copy()
    np.maximum(out[: len(right)], right, out=out[: len(right)])
    return out


def widened(rows: np.ndarray, width: int) -> np.ndarray:
    """``rows`` with columns of zeros added up to ``width``."""
    out = np.zeros((len(rows), width), rows.dtype)
    out[:, : rows.shape[1]] = rows
    return out
