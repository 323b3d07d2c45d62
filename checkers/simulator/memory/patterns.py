"""Release and acquire through memory: flags, semaphores, last-block counters.

PTX ISA 8.8. A location remembers what the strong writes into it released; a strong read that
acquires, or is followed by an acquire fence, learns it. Atomics hand on what was there (a release
sequence); other strong stores replace it. Both sides' scopes must reach the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from checkers.simulator.memory.knowledge import Knowledge
from checkers.simulator.memory.order import Order

# So many lanes of one instruction release each for itself; more share what they know together.
APART = 64


@dataclass(frozen=True, eq=False)
class Released:
    """What was released, how far (1 cta, 2 cluster, 3 gpu), and by which block of the grid."""

    knowledge: Knowledge
    scope: int
    cluster: int
    block: int

    def reaches(self, scope: int, cluster: int, block: int) -> bool:
        """Whether an acquire of ``scope`` in ``block`` gets it."""
        needed = 1 if block == self.block else 2 if cluster == self.cluster else 3
        return self.scope >= needed and scope >= needed


class Patterns:
    """The locations of a wave. ``everywhere``: those in global memory, which outlive it."""

    def __init__(self, wave: Any, everywhere: dict[int, tuple[Released, ...]]) -> None:
        self.wave = wave
        self.everywhere = everywhere
        self.here: dict[int, tuple[Released, ...]] = {}
        self._block_lanes = wave.warps_per_block * 32
        self.pending: dict[int, list[tuple[tuple[Released, ...], int]]] = {}

    def _table(self, space: str) -> dict[int, tuple[Released, ...]]:
        return self.here if space == "shared" else self.everywhere

    def atomic(self, space: str, threads: np.ndarray, places: np.ndarray, order: Order) -> None:
        """Atomics of (k,) threads on ``places``, one after another: each reads, then writes."""
        if not order.returns:  # red acquires nothing (PTX ISA 8.11.1)
            self.wrote(space, threads, places, order, atomic=True)
            return
        if not self._table(space) and not order.releases and not self.wave.clocks.any_fence:
            return
        if len(threads) > APART:
            # All learn what all release: more than one order would give, and so without false alarm.
            self.wrote(space, threads, places, order, atomic=True)
            self.read(space, threads, places, order)
            return
        for i in range(len(threads)):
            self.read(space, threads[i : i + 1], places[i : i + 1], order)
            self.wrote(space, threads[i : i + 1], places[i : i + 1], order, atomic=True)

    def wrote(
        self,
        space: str,
        threads: np.ndarray,
        places: np.ndarray,
        order: Order,
        atomic: bool = False,
    ) -> None:
        """Strong writes of (k,) threads to ``places``."""
        scope, release = order.strength, order.releases
        table = self._table(space)
        if not release and not self.wave.clocks.any_fence:
            if table and not atomic:
                for place in places.tolist():
                    table.pop(place, None)
            return
        joined: dict[tuple[int, int], tuple[Released, ...]] = {}
        for place, new in zip(
            places.tolist(), self._released(threads, scope, release), strict=True
        ):
            old = table.get(place, ()) if atomic else ()
            if new is None:
                if not atomic:
                    table.pop(place, None)
                continue
            pair = (id(old), id(new))
            if pair not in joined:  # many lanes share what they release
                joined[pair] = _added(old, new)
                joined[id(joined[pair]), id(new)] = joined[pair]
            table[place] = joined[pair]

    def _released(self, threads: np.ndarray, scope: int, release: bool) -> list[Released | None]:
        """What each thread's strong write releases; None for nothing."""
        clocks = self.wave.clocks
        if release and len(threads) <= APART:
            each = clocks.release_each(threads)
            pairs = zip(threads.tolist(), each, strict=True)
            return [self._part(thread, known, scope) for thread, known in pairs]
        owner = self.wave.block_of(threads)
        if not release:
            # Threads of a block that fenced together released together.
            owner = owner << 40 | clocks.fence_time[threads].astype(np.int64)
            if len(threads) <= APART:
                owner = threads
        names, which = np.unique(owner, return_inverse=True)
        parts: list[Released | None] = []
        for name in range(len(names)):
            those = threads[which == name]
            far = scope if release else min(scope, int(clocks.fence_scope[those[0]]))
            known = clocks.release(those) if release else clocks.fence_knowledge(those)
            parts.append(None if known is None else self._part(int(those[0]), known, far))
        return [parts[i] for i in which.tolist()]

    def _part(self, thread: int, knowledge: Knowledge, scope: int) -> Released:
        return Released(knowledge, scope, *self._where(thread))

    def _where(self, thread: int) -> tuple[int, int]:
        """(cluster, block) of a thread, counted over the grid."""
        clocks = self.wave.clocks
        block = int(self.wave.block_of(np.array([thread]))[0])
        cluster = clocks.first_cluster + block // clocks.cluster_size
        return cluster, clocks.first_cluster * clocks.cluster_size + block

    def read(self, space: str, threads: np.ndarray, places: np.ndarray, order: Order) -> None:
        """Strong reads of (k,) threads of ``places``."""
        scope, acquire = order.strength, order.acquires
        table = self._table(space)
        if not table:
            return
        found: dict[tuple[int, int], tuple[tuple[Released, ...], list[int]]] = {}
        for thread, place in zip(threads.tolist(), places.tolist(), strict=True):
            there = table.get(place)
            if there is None:
                continue
            if acquire:
                key = (id(there), thread // self._block_lanes)
                found.setdefault(key, (there, []))[1].append(thread)
            else:
                waiting = self.pending.setdefault(thread, [])
                if not waiting or waiting[-1][0] is not there:
                    waiting.append((there, scope))
        for there, those in found.values():
            self._learn(np.array(those), there, scope)

    def fence_acquire(self, threads: np.ndarray, scope: int) -> None:
        """An acquire fence: what earlier strong reads saw is learnt."""
        if not self.pending:
            return
        for thread in threads.tolist():
            for there, read_scope in self.pending.pop(thread, ()):
                self._learn(np.array([thread]), there, min(scope, read_scope))

    def _learn(self, threads: np.ndarray, there: tuple[Released, ...], scope: int) -> None:
        """Threads of one block learn what reaches them."""
        cluster, block = self._where(int(threads[0]))
        known: Knowledge | None = None
        for part in there:
            if part.reaches(scope, cluster, block):
                known = part.knowledge if known is None else known.join(part.knowledge)
        if known is not None:
            self.wave.clocks.acquire(threads, known)


def _added(old: tuple[Released, ...], new: Released) -> tuple[Released, ...]:
    """``new`` with the others; one that reaches as far, joined with it."""
    for i, part in enumerate(old):
        same = part.block == new.block or new.scope == part.scope == 3
        if same and part.scope == new.scope:
            block = new.block if part.block == new.block else -1
            cluster = new.cluster if part.cluster == new.cluster else -1
            joined = Released(part.knowledge.join(new.knowledge), new.scope, cluster, block)
            return (*old[:i], joined, *old[i + 1 :])
    return (*old, new)
