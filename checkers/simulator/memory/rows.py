"""The tables behind the clocks: rows of knowledge, the columns they have, and who stands on which."""

from __future__ import annotations

from typing import Any

import numpy as np

from checkers.simulator.memory.knowledge import Foreign, widened

# An actor is named by one 32-bit word: its cluster, counted over the grid, and its column.
COLUMN_BITS = 15
COLUMN_MASK = np.uint32((1 << COLUMN_BITS) - 1)
CLUSTER_SHIFT = np.uint32(COLUMN_BITS)
FOREVER = np.uint32(0xFFFFFFFF)


class Rows:
    """What the threads of a wave know.

    threads_each: columns of threads in a cluster, those of the lanes that don't exist among them.
    row: (threads,) the row of each.  known, fenced: (rows, columns) uint32.  floor: (rows, ranks):
    the least that a row knows of the threads of a block.  foreign: by row, what it knows of other
    clusters.  column, cluster, rank, who: (threads,) of each thread.  fence_row, fence_time: (threads,)
    what the last release fence of each covered, -1 for none.
    """

    def __init__(self, wave: Any) -> None:
        self.wave = wave
        self.cluster_size = int(wave.cluster_size)
        self.threads_each = self.cluster_size * wave.warps_per_block * 32
        self.clusters = wave.blocks // self.cluster_size
        threads = self.clusters * self.threads_each
        heap = wave.memory.heap
        self.first_cluster = heap.clusters_begun
        heap.clusters_begun += self.clusters
        self.columns = self.threads_each
        self.width = self.threads_each + 32
        self.row = np.zeros(threads, np.int64)
        self.column = np.arange(threads) % self.threads_each
        self.cluster = np.arange(threads) // self.threads_each
        self.rank = self.column // (wave.warps_per_block * 32)
        ids = (self.cluster + self.first_cluster).astype(np.uint32) << CLUSTER_SHIFT
        self.who = ids | self.column.astype(np.uint32)
        self.known = np.zeros((64, self.width), np.uint32)
        self.fenced = np.zeros((64, self.width), np.uint32)
        self.floor = np.zeros((64, self.cluster_size), np.uint32)
        self.used = 1
        self.foreign: dict[int, Foreign] = {}
        self._shared_columns: list[int] = []
        self.fence_row = np.full(threads, -1, np.int64)
        self.fence_time = np.zeros(threads, np.uint32)
        # Lanes that don't exist have nothing to be waited for.
        each = wave.warps_per_block * 32
        absent = np.flatnonzero(np.arange(self.threads_each) % each >= wave.threads_per_block)
        self.known[0, absent] = self.fenced[0, absent] = FOREVER

    def _shared_column(self, at: int) -> int:
        while len(self._shared_columns) <= at:
            self._shared_columns.append(self._take_columns(1))
        return self._shared_columns[at]

    def _take_columns(self, count: int) -> int:
        start = self.columns
        self.columns += count
        if self.columns > self.width:
            self.width = max(self.columns, self.width + max(64, self.width // 2))
            if self.width >= 1 << COLUMN_BITS:
                self.width = (1 << COLUMN_BITS) - 1
                if self.columns > self.width:
                    raise RuntimeError(f"a cluster has more than {self.width} threads and engines")
            for name in ("known", "fenced"):
                setattr(self, name, widened(getattr(self, name), self.width))
        return start

    def _new_rows(self, count: int) -> np.ndarray:
        """Indices of ``count`` rows, to be filled by the caller."""
        if self.used + count > len(self.known):
            self._compact(count)
        ids = np.arange(self.used, self.used + count)
        self.used += count
        return ids

    def _compact(self, count: int) -> None:
        """Drops the rows that nobody stands on, and grows when that is not enough."""
        live = np.unique(np.concatenate([self.row, self.fence_row[self.fence_row >= 0], [0]]))
        target = np.zeros(self.used, np.int64)
        target[live] = np.arange(len(live))
        size = len(self.known)
        while len(live) + count > size // 2:
            size *= 2
        for name in ("known", "fenced", "floor"):
            old = getattr(self, name)
            new = np.zeros((size, old.shape[1]), old.dtype)
            new[: len(live)] = old[live]
            setattr(self, name, new)
        self.row = target[self.row]
        kept = self.fence_row >= 0
        self.fence_row[kept] = target[self.fence_row[kept]]
        alive = set(live.tolist())
        self.foreign = {int(target[i]): f for i, f in self.foreign.items() if i in alive}
        self.used = len(live)

    def _set_floor(self, ids: np.ndarray) -> None:
        rows = self.known[ids[0] : ids[-1] + 1, : self.threads_each]
        self.floor[ids] = rows.reshape(len(ids), self.cluster_size, -1).min(axis=2)

    def _rows_of(self, threads: np.ndarray) -> np.ndarray:
        """The different rows of these threads, sorted."""
        rows = self.row[threads]
        if (rows == rows[0]).all():
            return rows[:1]
        return np.unique(rows)


class Runs:
    """Neighbouring threads with one label and one row, taken together.

    rows: the row of each run.  starts: which run each label begins with.  sizes: threads of each label.
    """

    def __init__(self, labels: np.ndarray, row: np.ndarray) -> None:
        changed = np.empty(len(labels), bool)
        changed[0] = True
        np.not_equal(labels[1:], labels[:-1], out=changed[1:])
        firsts = np.flatnonzero(changed)
        changed[1:] |= row[1:] != row[:-1]
        runs = np.flatnonzero(changed)
        self.rows = row[runs]
        self.starts = np.searchsorted(runs, firsts)
        self.sizes = np.diff(firsts, append=len(labels))

    def owner(self) -> np.ndarray:
        """Of each thread, the number of its label."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)
