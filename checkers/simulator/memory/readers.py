"""Reads that a write must come after: the exact search through the readers of some grains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from checkers.simulator.memory.rows import COLUMN_MASK
from checkers.simulator.memory.shadow import AGENT, TIME_MASK, rows

if TYPE_CHECKING:
    from checkers.simulator.memory.races import Races, Target
    from checkers.simulator.memory.regions import Region
    from checkers.simulator.memory.touched import Operations

_MOST = 1 << 16  # elements whose 32 lanes are looked at at once


@dataclass
class Unordered:
    """Reads at ``site`` by ``who``, the first of them, that writers ``bad`` (k,) don't know of.

    lane: the first of these writers.  each: for reads by engines, (hits, who, times), each (k, count).
    """

    bad: np.ndarray
    lane: int
    who: int
    site: int
    each: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    def operations(self, threads: np.ndarray) -> Operations | None:
        """The engines' operations that writers ``threads`` (k,) don't know of."""
        if self.each is None:
            return None
        hits, who, times = self.each
        lane, grain = np.nonzero(hits)
        return threads[lane], who[lane, grain], times[lane, grain]


def of_shared(
    races: Races, threads: np.ndarray, target: Target, latest: np.ndarray, strength: int = 0
) -> list[Unordered]:
    """Reads of shared memory that writers ``threads`` (k,) don't know of.

    latest: (k, count) as in SharedReads; 0 where there were none since the last write.
    """
    found = []
    if (latest & ~AGENT).any():
        found = _by_warps(races, threads, target, latest, strength)
    for reads in races.shared.reads.agents:
        times = rows(reads.time, target.index, target.count)
        times = np.where(latest != 0, times & TIME_MASK, np.uint32(0))
        if not times.any():
            continue
        who = rows(reads.who, target.index, target.count)
        bad = (times != 0) & ~races.clocks.sees(threads, who, times)
        if bad.any():
            one = _first(bad, who, rows(reads.site, target.index, target.count))
            one.each = bad, who, times
            found.append(one)
    return found


def _by_warps(
    races: Races, threads: np.ndarray, target: Target, latest: np.ndarray, strength: int
) -> list[Unordered]:
    shared, clocks = races.shared, races.clocks
    index, count = target.index, target.count
    table = shared.reads.words.reshape(shared.warps, -1, count)
    words = table[:, index]  # (warps, k, count)
    times = (words >> np.uint64(32)).astype(np.uint32)
    times[:, latest == 0] = 0
    # What each writer's row knows of all lanes of each reading warp.
    ids, which = np.unique(clocks.row[threads], return_inverse=True)
    known = clocks.known[ids][:, : clocks.threads_each].reshape(len(ids), -1, 32)
    first = np.zeros(len(index), np.int64)
    if not shared.across:  # the readers are warps of the block that owns the bytes
        block = index * (count * target.shadow.grain) // shared.stride
        first = block % races.wave.cluster_size * shared.warps
    warps = first[None, :] + np.arange(shared.warps)[:, None]
    least = known.min(axis=2)[which[None, :], warps]  # (warps, k)
    suspects = np.nonzero(times > least[:, :, None])
    if not len(suspects[0]):
        return []
    bad = np.zeros(latest.shape, bool)
    reader = np.zeros(latest.shape, np.int64)
    sites = np.zeros(latest.shape, np.int64)
    site_table = shared.reads.sites.reshape(shared.warps, -1, count)
    for start in range(0, len(suspects[0]), _MOST):
        row, lane, grain = (part[start : start + _MOST] for part in suspects)
        bits = (words[row, lane, grain][:, None] >> np.arange(32, dtype=np.uint64)) & np.uint64(1)
        there = warps[row, lane]
        blind = known[which[lane], there] < times[row, lane, grain][:, None]
        blind &= bits.astype(bool)
        own = clocks.column[threads[lane]]
        itself = np.flatnonzero(own // 32 == there)
        blind[itself, own[itself] % 32] = False
        wrong = np.flatnonzero(blind.any(axis=1))
        at = lane[wrong], grain[wrong]
        bad[at] = True
        reader[at] = there[wrong] * 32 + blind[wrong].argmax(axis=1)
        sites[at] = site_table[row[wrong], index[lane[wrong]], grain[wrong]]
    if not bad.any():
        return []
    who = reader.astype(np.uint32) | (clocks.who[threads] & ~COLUMN_MASK)[:, None]
    if strength:
        bad &= ~races.morally_strong(threads, who, sites, strength)
    return _split(bad, who, sites)


def of_global(
    races: Races, threads: np.ndarray, target: Target, region: Region, strength: int
) -> list[Unordered]:
    """Reads of global memory that writers ``threads`` (k,) don't know of."""
    reads = region.reads
    reads.settle()
    found: list[Unordered] = []
    mine = races.clocks.who[threads][:, None]
    for times_of, who_of, site_of in zip(reads.time, reads.who, reads.site, strict=True):
        times = rows(times_of, target.index, target.count)
        who = rows(who_of, target.index, target.count)
        bad = (times != 0) & (who != mine)
        if not bad.any():
            continue
        plain = np.where((times & AGENT) != 0, times & TIME_MASK, times)
        bad &= ~races.clocks.sees(threads, who, plain)
        sites = rows(site_of, target.index, target.count)
        if strength and bad.any():
            bad &= ~races.morally_strong(threads, who, sites, strength)
        if bad.any():
            found += _split(bad, who, sites)
    return found


def _split(bad: np.ndarray, who: np.ndarray, sites: np.ndarray) -> list[Unordered]:
    """One for each instruction that read."""
    names = np.unique(sites[bad])
    return [_first(bad & (sites == name), who, sites) for name in names.tolist()]


def _first(bad: np.ndarray, who: np.ndarray, sites: np.ndarray) -> Unordered:
    lane = int(np.flatnonzero(bad.any(axis=1))[0])
    grain = int(np.flatnonzero(bad[lane])[0])
    return Unordered(bad.any(axis=1), lane, int(who[lane, grain]), int(sites[lane, grain]))
