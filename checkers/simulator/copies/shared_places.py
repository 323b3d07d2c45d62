"""Shared addresses taken apart: which block of the cluster, and which byte of its shared memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from checkers.simulator.machine.kernel import SHARED_WINDOW
from checkers.simulator.reports.faults import Kind

if TYPE_CHECKING:
    from checkers.simulator.machine.group import Group

RANK_SHIFT = 24
OFFSET_MASK = (1 << RANK_SHIFT) - 1


@dataclass
class Places:
    """Where the active lanes of a group point; all arrays (k,), in the order of group.threads().

    blocks: in the wave.  offsets: bytes.  remote: another block than the lane's own.
    valid: the address lies in the shared memory of a block of the cluster.
    """

    threads: np.ndarray
    blocks: np.ndarray
    offsets: np.ndarray
    remote: np.ndarray
    valid: np.ndarray


def places(group: Group, addresses: np.ndarray, generic: bool) -> Places:
    """Takes (n, 32) shared addresses apart, without complaint.

    generic: addresses of the generic window, not of a shared state space.
    """
    wave = group.wave
    threads = group.threads()
    address = group.lanes(addresses).astype(np.uint64, copy=False)
    valid = np.ones(len(threads), bool)
    if generic:
        valid = (address >> np.uint64(32)) == np.uint64(SHARED_WINDOW >> 32)
    low = (address & np.uint64(0xFFFFFFFF)).astype(np.int64)
    rank, offsets = low >> RANK_SHIFT, low & OFFSET_MASK
    own = wave.block_of(threads)
    own_rank = own % wave.cluster_size
    valid = valid & (rank < wave.cluster_size)
    blocks = np.where(valid, own - own_rank + rank, own)
    return Places(threads, blocks, offsets, blocks != own, valid)


def lane_mask(group: Group, chosen: np.ndarray) -> np.ndarray:
    """(n, 32) bool from one for the active lanes (k,)."""
    return group.spread(chosen, False)


def only(group: Group, chosen: np.ndarray) -> Group | None:
    """The group's lanes that ``chosen``, (k,) bool in the order of threads(), picks."""
    if chosen.all():
        return group
    return group.narrowed(lane_mask(group, chosen))


def split(group: Group, keys: np.ndarray) -> list[tuple[int, Group]]:
    """The lanes by their key, (k,) in the order of threads(): (key, those that have it)."""
    if (keys == keys[0]).all():
        return [(int(keys[0]), group)]
    changes = np.flatnonzero(keys[1:] != keys[:-1]) + 1
    warps = group.threads() // 32
    starts = np.concatenate(([0], changes))
    names = keys[starts].tolist()
    if len(set(names)) == len(names) and (warps[changes] != warps[changes - 1]).all():
        # Whole warps, side by side: the usual case, of several blocks that do the same.
        rows = [*np.searchsorted(group.warps, warps[starts]).tolist(), group.n]
        return [
            (name, group.only_warps(slice(rows[i], rows[i + 1]))) for i, name in enumerate(names)
        ]
    parts = []
    for name in sorted(set(names)):
        part = only(group, keys == name)
        assert part is not None
        parts.append((name, part))
    return parts


def report_invalid(group: Group, chosen: np.ndarray, what: str) -> None:
    """A fault for lanes whose address is in no block's shared memory."""
    group.wave.faults.report(
        Kind.OUT_OF_BOUNDS,
        f"The address of {what} is not in the shared memory of any block of the cluster",
        group=only(group, chosen),
    )


def shared_space(space: str) -> tuple[bool, bool]:
    """(generic, remote allowed) of a state space modifier, "" for generic addressing."""
    return space == "", space in ("", "shared::cluster")
