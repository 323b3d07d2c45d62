"""Happens-before: what each thread has synchronised with.

One counter, ``now``, numbers all that happens in a wave; it steps with every release. An access
carries the number at which it was made. A thread's *row* says, for each *column* of its cluster, up
to which number it has synchronised with that column. Columns are the cluster's threads and,
beside them, *agents*: engines such as a TMA unit that serves one mbarrier. What a thread did itself
it always knows; that is not in its row, so threads that synchronised alike share a row, and a
barrier of 1024 threads makes one row and no table of 1024 x 1024.

PTX ISA 8.9.5 (causality order). Beside ``known`` there is ``fenced``: which generic accesses a
``fence.proxy.async`` on the path has made visible to the async proxy (8.6, 8.9.5).

Other clusters are known through ``foreign``: rows of theirs, taken over by an acquire at cluster or
GPU scope from memory that they released into.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from checkers.simulator.memory.knowledge import Agent, Foreign, Knowledge, Private
from checkers.simulator.memory.order import SCOPES
from checkers.simulator.memory.rows import CLUSTER_SHIFT, COLUMN_BITS, COLUMN_MASK, Rows, Runs


class Clocks(Rows):
    """The clocks of a wave.

    now: the number of what happens next.  stamp: (warps,) the first number after the last release by a
    lane of the warp: its accesses since then are alike.  fence_own: (threads,) when each last did
    fence.proxy.async.  fence_scope: (threads,) of its last release fence, 0 for none.
    """

    def __init__(self, wave: Any) -> None:
        super().__init__(wave)
        threads = len(self.row)
        self.now = 1
        self.stamp = np.ones(threads // 32, np.int64)
        self.fence_own = np.zeros(threads, np.uint32)
        self.fence_scope = np.zeros(threads, np.int8)
        self.any_fence = False
        self._agents: dict[tuple[int, Hashable], Agent] = {}
        self._agent_columns: list[int] = [0] * self.clusters
        self.by_who: dict[int, Agent] = {}
        self._privates: dict[str, Private] = {}

    # --- agents --------------------------------------------------------------------------------

    def agent(self, cluster: int, key: Hashable, *, generic: bool | None = None) -> Agent:
        """The agent ``key`` of a cluster of the wave, made when first asked for.

        key: ("mbarrier", block, offset, ...), ("wgmma", warp), ...; ("cp.async", thread) and
        ("bulk", thread) are private to their thread.  generic: it works through the generic
        proxy; where not told, only cp.async and st.async do.
        """
        found = self._agents.get((cluster, key))
        if found is None:
            kind = key[0] if isinstance(key, tuple) else key
            if generic is None:
                generic = kind in ("cp.async", "st.async")
            if kind in ("cp.async", "bulk") and isinstance(key, tuple) and len(key) == 2:
                found = self.agents(kind, np.array([key[1]]))
            else:
                # Columns of agents are handed out by cluster: all clusters use the same ones.
                at = self._agent_columns[cluster]
                self._agent_columns[cluster] += 1
                column = self._shared_column(at)
                who = (cluster + self.first_cluster) << COLUMN_BITS | column
                found = Agent(self, cluster, column, np.uint32(who), str(kind), key, generic)
                self.by_who[who] = found
            self._agents[cluster, key] = found
        return found

    def agents(self, kind: str, threads: np.ndarray) -> Agent:
        """The private agents ``kind`` of these threads, as one agent with arrays for cluster, column
        and who: ("cp.async") of (k,) threads."""
        private = self.private(kind)
        column = private.start + self.column[threads]
        who = (self.who[threads] & ~COLUMN_MASK) | column.astype(np.uint32)
        generic = kind == "cp.async"
        return Agent(self, self.cluster[threads], column, who, kind, kind, generic, threads)

    def private(self, kind: str) -> Private:
        found = self._privates.get(kind)
        if found is None:
            start = self._take_columns(self.threads_each)
            found = self._privates[kind] = Private(kind, start, len(self.row))
        return found

    def describe(self, who: int) -> tuple[int | None, str]:
        """(flat thread index or None, kind of agent or "") of an actor; (None, "elsewhere") for
        one of an earlier wave."""
        cluster, column = who >> COLUMN_BITS, who & int(COLUMN_MASK)
        local = cluster - self.first_cluster
        if not 0 <= local < self.clusters:
            return None, "elsewhere"
        if column < self.threads_each:
            return local * self.threads_each + column, ""
        for private in self._privates.values():
            if private.start <= column < private.start + self.threads_each:
                return local * self.threads_each + column - private.start, private.kind
        agent = self.by_who.get(who)
        return None, agent.kind if agent else "an engine"

    # --- release and acquire -------------------------------------------------------------------

    def _stepped(self, threads: np.ndarray) -> None:
        self.now += 1
        self.stamp[threads >> 5] = self.now

    def nothing(self, cluster: int) -> Knowledge:
        """To know nothing."""
        return Knowledge({}, {})

    def release(self, threads: np.ndarray) -> Knowledge:
        """What these threads know together, and all that they did. Then their time steps on."""
        knowledge = self._gathered(np.asarray(threads))
        self._stepped(np.asarray(threads))
        return knowledge

    def release_each(self, threads: np.ndarray) -> list[Knowledge]:
        """As release, for each thread by itself."""
        threads = np.asarray(threads)
        parts = [self._gathered(threads[i : i + 1]) for i in range(len(threads))]
        self._stepped(threads)
        return parts

    def fence_release(self, threads: np.ndarray, scope: str = "sys") -> None:
        """A release fence: strong writes of these threads, from now on, release what is known and
        done so far (PTX ISA 8.8)."""
        threads = np.asarray(threads)
        self.any_fence = True
        self.fence_row[threads] = self.row[threads]
        self.fence_time[threads] = self.now
        self.fence_scope[threads] = SCOPES[scope]
        self._stepped(threads)

    def fence_acquire(self, threads: np.ndarray, scope: str = "sys") -> None:
        """An acquire fence: what earlier strong reads of these threads saw released is known."""
        self.wave.memory.patterns.fence_acquire(np.asarray(threads), SCOPES[scope])

    def fence_knowledge(self, threads: Any) -> Knowledge | None:
        """What the last release fence of a thread, or of threads that fenced together, lets their
        strong writes release."""
        threads = np.atleast_1d(threads)
        rows = np.unique(self.fence_row[threads])
        return None if rows[0] < 0 else self._gathered(threads, rows, self.fence_time[threads])

    def _gathered(
        self, threads: np.ndarray, rows: np.ndarray | None = None, time: Any = None
    ) -> Knowledge:
        """What these threads know together, and did up to ``time``, now where not given. rows: those
        that they stood on then."""
        clusters = self.cluster[threads]
        if len(threads) > 1 and (clusters != clusters[0]).any():
            parts = [self._gathered(threads[clusters == c]) for c in np.unique(clusters)]
            whole = parts[0]
            for part in parts[1:]:
                whole = whole.join(part)
            return whole
        ids = self._rows_of(threads) if rows is None else rows
        known = self.known[ids[0]].copy() if len(ids) == 1 else self.known[ids].max(axis=0)
        fenced = self.fenced[ids[0]].copy() if len(ids) == 1 else self.fenced[ids].max(axis=0)
        self._add_own(known[None], fenced[None], threads, np.zeros(len(threads), np.int64))
        if time is not None:
            known[self.column[threads]] = time
        knowledge = Knowledge({self.first_cluster + int(clusters[0]): (known, fenced)}, {})
        for i in ids.tolist():
            if i in self.foreign:
                knowledge = knowledge.join(Knowledge(self.foreign[i], {}))
        return knowledge

    def acquire(self, threads: np.ndarray, knowledge: Knowledge) -> None:
        """These threads learn ``knowledge``."""
        threads = np.asarray(threads)
        clusters = self.cluster[threads]
        if len(threads) > 1 and (clusters != clusters[0]).any():
            for c in np.unique(clusters):
                self.acquire(threads[clusters == c], knowledge)
            return
        home = self.first_cluster + int(clusters[0])
        pair = knowledge.rows.get(home)
        own = {k[1]: t for k, t in knowledge.agents.items() if k[0] == home}
        others = {c: rows for c, rows in knowledge.rows.items() if c != home}
        others = {k: v for k, v in others.items() if not self._has_foreign(threads, k, v)}
        ids = self._rows_of(threads)
        known, fenced = self.known[ids], self.fenced[ids]
        if pair is not None:
            wide = len(pair[0])
            known[:, :wide] = np.maximum(known[:, :wide], pair[0])
            fenced[:, :wide] = np.maximum(fenced[:, :wide], pair[1])
        for column, time in own.items():
            known[:, column] = np.maximum(known[:, column], np.uint32(time))
        if not others:
            if np.array_equal(self.known[ids], known) and np.array_equal(self.fenced[ids], fenced):
                return
        new = self._new_rows(len(ids))
        # _new_rows may have renumbered the rows, in order.
        ids = self._rows_of(threads)
        self.known[new], self.fenced[new] = known, fenced
        self._set_floor(new)
        for old, fresh in zip(ids.tolist(), new.tolist(), strict=True):
            if old in self.foreign or others:
                foreign = Knowledge(self.foreign.get(old, {}), {})
                self.foreign[fresh] = foreign.join(Knowledge(others, {})).rows
        if len(ids) == 1:
            self.row[threads] = new[0]
        else:
            self.row[threads] = new[np.searchsorted(ids, self.row[threads])]

    def _has_foreign(self, threads: np.ndarray, cluster: int, pair: Any) -> bool:
        for row in self._rows_of(threads).tolist():
            there = self.foreign.get(row, {}).get(cluster)
            if there is None or len(there[0]) < len(pair[0]):
                return False
            wide = len(pair[0])
            if (there[0][:wide] < pair[0]).any() or (there[1][:wide] < pair[1]).any():
                return False
        return True

    def learn(self, threads: np.ndarray, agent: Agent, times: Any) -> None:
        """These threads have waited for an agent up to ``times`` (a number or (k,)); for private
        agents, each for its own."""
        if agent.private:
            known = self.private(agent.kind).known
            known[threads] = np.maximum(known[threads], np.asarray(times, np.uint32))
            return
        self.acquire(threads, self.nothing(0).with_agent(agent, int(np.max(times))))

    def meet(self, threads: np.ndarray, labels: np.ndarray | None = None) -> None:
        """A barrier: all of these threads learn what all of them know and did.

        labels: (k,) who meets whom, in rising order; all together where not given. Those of one
        label are of one cluster.
        """
        threads = np.asarray(threads)
        labels = np.zeros(len(threads), np.int64) if labels is None else np.asarray(labels)
        if (labels[1:] < labels[:-1]).any():
            order = np.argsort(labels, kind="stable")
            threads, labels = threads[order], labels[order]
        runs = Runs(labels, self.row[threads])
        known = np.maximum.reduceat(self.known[runs.rows], runs.starts, axis=0)
        fenced = np.maximum.reduceat(self.fenced[runs.rows], runs.starts, axis=0)
        each = self.threads_each
        whole = len(threads) == each * len(runs.starts) and self.cluster_size == 1
        if whole and not self._privates:
            known[:, :each] = self.now
            own = self.fence_own[threads].reshape(-1, each)
            np.maximum(fenced[:, :each], own, out=fenced[:, :each])
        else:
            self._add_own(known, fenced, threads, runs.owner())
        foreign = self._foreign_of(runs)
        new = self._new_rows(len(runs.starts))
        self.known[new], self.fenced[new] = known, fenced
        self._set_floor(new)
        self.row[threads] = np.repeat(new, runs.sizes)
        for label, there in foreign.items():
            self.foreign[int(new[label])] = there
        self._stepped(threads)

    def _add_own(
        self, known: np.ndarray, fenced: np.ndarray, threads: np.ndarray, at: np.ndarray
    ) -> None:
        """What each thread did, and what only it knows, is added to row ``at`` of ``known``."""
        columns = self.column[threads]
        known[at, columns] = self.now
        fenced[at, columns] = np.maximum(fenced[at, columns], self.fence_own[threads])
        for private in self._privates.values():
            beside = columns + private.start
            known[at, beside] = np.maximum(known[at, beside], private.known[threads])
            fenced[at, beside] = np.maximum(fenced[at, beside], private.fenced[threads])

    def _foreign_of(self, runs: Runs) -> dict[int, Foreign]:
        """By label, what those who meet know of other clusters."""
        out: dict[int, Foreign] = {}
        bounds = [*runs.starts.tolist(), len(runs.rows)]
        for label in range(len(runs.starts)) if self.foreign else ():
            joined = Knowledge({}, {})
            for row in runs.rows[bounds[label] : bounds[label + 1]].tolist():
                joined = joined.join(Knowledge(self.foreign.get(row, {}), {}))
            if joined.rows:
                out[label] = joined.rows
        return out

    def proxy_fence(self, threads: np.ndarray) -> None:
        """fence.proxy.async by each of these threads: what it knows and did is visible to the async
        proxy, for it and for those who synchronise with it afterwards."""
        threads = np.asarray(threads)
        ids = self._rows_of(threads)
        known, fenced = self.known[ids], self.fenced[ids]
        if not np.array_equal(known, fenced):
            new = self._new_rows(len(ids))
            ids = self._rows_of(threads)
            self.known[new] = self.fenced[new] = known
            self._set_floor(new)
            for old, fresh in zip(ids.tolist(), new.tolist(), strict=True):
                if old in self.foreign:
                    self.foreign[fresh] = {c: (k, k) for c, (k, _) in self.foreign[old].items()}
            self.row[threads] = new[np.searchsorted(ids, self.row[threads])]
        self.fence_own[threads] = self.now
        for private in self._privates.values():
            private.fenced[threads] = private.known[threads]
        self.now += 1

    # --- questions -----------------------------------------------------------------------------

    def knows(self, threads: np.ndarray, columns: Any, times: Any) -> np.ndarray:
        """Whether each thread has synchronised with a column of its own cluster up to a time.

        columns, times: (k,) or (k, g), or numbers.
        """
        threads = np.asarray(threads)
        columns = np.broadcast_to(np.asarray(columns), (len(threads), *np.shape(columns)[1:]))
        ids = (self.who[threads] & ~COLUMN_MASK).reshape(-1, *[1] * (columns.ndim - 1))
        return self.sees(threads, ids | columns.astype(np.uint32), np.asarray(times, np.uint32))

    def sees(
        self, threads: np.ndarray, who: np.ndarray, times: np.ndarray, fenced: bool = False
    ) -> np.ndarray:
        """Whether each of (k,) threads knows what actors ``who`` did up to ``times``, both (k,) or
        (k, g) uint32. fenced: and whether the async proxy may see it."""
        shape = (-1, *[1] * (who.ndim - 1))
        me = self.who[threads].reshape(shape)
        column = np.minimum(who & COLUMN_MASK, np.uint32(self.width - 1))
        local = (who ^ me) <= COLUMN_MASK
        table = self.fenced if fenced else self.known
        at = self.row[threads].reshape(shape) * self.width + column
        answer = local & (table.ravel().take(at) >= times)
        own = who == me
        answer |= own & (self.fence_own[threads].reshape(shape) >= times) if fenced else own
        for private in self._privates.values():
            mine = local & (column == self.column[threads].reshape(shape) + private.start)
            known = private.fenced if fenced else private.known
            answer |= mine & (known[threads].reshape(shape) >= times)
        if self.foreign and not answer.all():
            self._ask_foreign(threads, who, times, answer, local, fenced)
        return answer

    def _ask_foreign(
        self,
        threads: np.ndarray,
        who: np.ndarray,
        times: np.ndarray,
        answer: np.ndarray,
        local: np.ndarray,
        fenced: bool,
    ) -> None:
        """Fills in ``answer`` for actors of other clusters."""
        open_ = np.nonzero(~answer & ~local)
        if not len(open_[0]):
            return
        rows = self.row[threads][open_[0]]
        clusters = (who[open_] >> CLUSTER_SHIFT).astype(np.int64)
        columns = (who[open_] & COLUMN_MASK).astype(np.int64)
        asked = np.broadcast_to(times, who.shape)[open_]
        result = np.zeros(len(rows), bool)
        for pair in np.unique(rows << 32 | clusters).tolist():
            there = self.foreign.get(pair >> 32, {}).get(pair & 0xFFFFFFFF)
            if there is None:
                continue
            chosen = (rows == pair >> 32) & (clusters == pair & 0xFFFFFFFF)
            table = there[1] if fenced else there[0]
            inside = columns[chosen] < len(table)
            times_known = table[np.minimum(columns[chosen], len(table) - 1)]
            result[chosen] = inside & (times_known >= asked[chosen])
        answer[open_] = result

    def agent_times(self, threads: np.ndarray, agent: Agent) -> np.ndarray:
        """(k,) up to which of its operations these threads, of its cluster, know an agent."""
        return self.known[self.row[threads], agent.column].astype(np.int64)

    def least_known(self, threads: np.ndarray, whole_cluster: bool) -> int:
        """All threads of the own block (or of the cluster) are known up to here by all of these."""
        rows = self.row[threads]
        if whole_cluster:
            return int(self.floor.take(rows, axis=0).min())
        return int(self.floor.ravel().take(rows * self.cluster_size + self.rank[threads]).min())
