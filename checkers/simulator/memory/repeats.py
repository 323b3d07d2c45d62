"""Loads that Triton has several threads make for one element.

A Triton program with fewer elements than threads gives each element to several threads: all load
it, the first of them stores. In place, the store and the loads of the others have no barrier
between them, also when a GPU runs it. The others' values go nowhere, and no line of the source can
change it: such a pair is a note. It is told from a race of the learner's by this: the thread that
stores makes the very same load itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from checkers.simulator.memory.rows import COLUMN_MASK
from checkers.simulator.memory.shadow import AGENT

if TYPE_CHECKING:
    from checkers.simulator.memory.regions import Heap

REPEATED = (
    "{reader} only repeats the load of {writer}, as Triton has threads do that have no element of "
    "their own, and its value goes nowhere"
)


class Repeats:
    """lanes_each: threads of a block, those of the lanes that don't exist among them."""

    def __init__(self, heap: Heap, lanes_each: int) -> None:
        self.heap = heap
        self.lanes_each = lanes_each
        self._numbers: dict[int, int] = {}

    def is_repeat(self, site: int) -> bool:
        """Whether the shadow's ``site`` stands for the repeated loads of an instruction."""
        return site in self._numbers.values()

    def _number(self, site: int) -> int:
        """A second number of an instruction, for its loads that repeat another thread's."""
        number = self._numbers.get(site)
        if number is None:
            number = min(len(self.heap.sites), 0xFFFF)
            if number == len(self.heap.sites):
                self.heap.sites.append(self.heap.sites[site])
                self.heap.strength.append(self.heap.strength[site])
            self._numbers[site] = number
        return number

    def _block(self, who: np.ndarray) -> np.ndarray:
        """A number for the block that each actor is a thread of."""
        return who - (who & COLUMN_MASK) % np.uint32(self.lanes_each)

    def sorted(
        self, index: np.ndarray, who: np.ndarray, time: np.ndarray, site: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | int]:
        """One instruction's reads of grains ``index`` by ``who``, (k,), so ordered that the first
        thread of each block comes behind those that repeat its load; and the site of each."""
        if (time & AGENT).any():
            return index, who, time, site
        order = np.lexsort((who, index))[::-1]
        index, who = index[order], who[order]
        block = self._block(who)
        repeats = np.zeros(len(who), bool)
        repeats[:-1] = (index[1:] == index[:-1]) & (block[1:] == block[:-1])
        time = time[order] if time.ndim else time
        if not repeats.any():
            return index, who, time, site
        return index, who, time, np.where(repeats, self._number(site), site).astype(np.uint16)

    def of_writers(self, index: np.ndarray, mine: np.ndarray, who: np.ndarray) -> np.ndarray:
        """(k, count) bool: whether actor ``who`` (k, count), who wrote, is of the reader's block and
        makes the reader's load too. index, mine: (k,) the grains' rows and the readers."""
        key = mine.astype(np.uint64) << np.uint64(32) | index.astype(np.uint64)
        theirs = who.astype(np.uint64) << np.uint64(32) | index[:, None].astype(np.uint64)
        return np.isin(theirs, key) & (self._block(who) == self._block(mine)[:, None])
