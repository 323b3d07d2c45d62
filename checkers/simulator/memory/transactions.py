"""What an access costs the memory system: sectors of global memory, wavefronts of shared memory.

Counted as NVIDIA's profilers do, for each warp instruction. Global memory comes in aligned sectors of
32 bytes. Shared memory has 32 banks of 4 bytes: a pass (wavefront) serves one word of each bank to
any number of lanes; accesses of 8 bytes go by half warps, those of 16 by quarter warps.
"""

from __future__ import annotations

import numpy as np

SECTOR = 32
BANKS = 32
_REMEMBERED = 4096


class Transactions:
    """Counts, and remembers: a loop asks for the same pattern at other addresses."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[int, int]] = {}

    def sectors(self, threads: np.ndarray, address: np.ndarray, width: int) -> tuple[int, int]:
        """(moved, needed) of lanes ``threads`` (k,) that access ``width`` bytes at ``address``
        (k,), aligned. moved: distinct sectors that each warp touches. needed: the least that
        would hold each warp's distinct bytes."""
        first = int(address[0])
        origin = first - first % SECTOR
        return self._recall("sectors", threads, address - origin, width, sectors)

    def wavefronts(self, threads: np.ndarray, position: np.ndarray, width: int) -> tuple[int, int]:
        """(taken, needed) of shared accesses at byte ``position`` (k,) of banks that repeat every
        128 bytes."""
        first = int(position[0])
        origin = first - first % (4 * BANKS)
        return self._recall("wavefronts", threads, position - origin, width, wavefronts)

    def warps(self, threads: np.ndarray) -> int:
        """How many warps ``threads``, in rising order, belong to."""
        warp = threads >> 5
        return int(np.count_nonzero(warp[1:] != warp[:-1])) + 1

    def _recall(self, what, threads, relative, width, count):  # type: ignore[no-untyped-def]
        whole = len(threads) % 32 == 0 and int(threads[-1]) - int(threads[0]) == len(threads) - 1
        lanes = b"" if whole and not threads[0] & 31 else (threads - (threads[0] & ~31)).tobytes()
        key = (what, width, lanes, relative.tobytes())
        known = self._known.get(key)
        if known is None:
            if len(self._known) > _REMEMBERED:
                self._known.clear()
            known = self._known[key] = count(threads, relative, width)
        return known


def sectors(threads: np.ndarray, address: np.ndarray, width: int) -> tuple[int, int]:
    """See Transactions.sectors."""
    warp = (threads >> 5) - int(threads.min() >> 5)
    address = address - int(address.min()) // SECTOR * SECTOR
    room = int(address.max()) + SECTOR
    moved = len(np.unique(warp * room + address // SECTOR))
    places = np.unique(warp * room + address)
    each = np.bincount(places // room)
    return moved, int((-(-each * width // SECTOR)).sum())


def wavefronts(threads: np.ndarray, position: np.ndarray, width: int) -> tuple[int, int]:
    """See Transactions.wavefronts."""
    parts = max(width // 4, 1)
    position = position - int(position.min()) // 128 * 128
    part = (threads >> 5) * parts + (threads & 31) // (32 // parts)
    part = part - int(part.min())
    word = position[:, None] // 4 + np.arange(parts)
    room = int(word.max()) + 1
    touched = np.unique(part[:, None] * room + word)
    banks = np.bincount(touched // room * BANKS + touched % room % BANKS)
    banks = np.pad(banks, (0, -len(banks) % BANKS)).reshape(-1, BANKS)
    taken = int(banks.max(axis=1).sum())
    needed = int((-(-banks.sum(axis=1) // BANKS)).sum())
    return taken, needed
