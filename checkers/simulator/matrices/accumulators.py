"""The accumulators of wgmma, between the tensor cores' form and the registers'.

A chain of multiplications adds to the same registers again and again, and nobody looks at them in
between. So an accumulator is kept as a matrix while the chain goes on, and spread over the
registers only when an instruction touches one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from checkers.simulator.machine.group import LANES, rows_of
from checkers.simulator.matrices.matrix_layouts import Fragment
from checkers.simulator.waiting.meetings import WARPGROUP

if TYPE_CHECKING:
    from checkers.simulator.machine.wave import Wave


class Warpgroups:
    """How the warpgroups of a wave are numbered: those of a block are its warps in fours."""

    def __init__(self, wave: Wave) -> None:
        self.per_block = max(wave.warps_per_block // WARPGROUP, 1)
        self.count = wave.blocks * self.per_block
        one = np.arange(self.count)
        first = one // self.per_block * wave.warps_per_block + one % self.per_block * WARPGROUP
        # (count, 4): the flat warps of each; of blocks of fewer warps, only those that there are.
        self.warps = np.minimum(first[:, None] + np.arange(WARPGROUP), wave.warps - 1)
        self.block = one // self.per_block
        warp = np.arange(wave.warps)
        within = np.minimum(warp % wave.warps_per_block // WARPGROUP, self.per_block - 1)
        self.of_warp = warp // wave.warps_per_block * self.per_block + within


def read_fragment(
    wave: Wave, groups: Warpgroups, slots: tuple[int, ...], fragment: Fragment, which: np.ndarray
) -> np.ndarray:
    """(k, 64, words) uint32: a matrix that the registers ``slots`` of some warpgroups hold."""
    rows = rows_of(groups.warps[which].ravel())
    arrays = [wave.registers[slot] for slot in slots]
    parts = [
        (wave.allocate(slot) if array is None else array)[rows]
        for slot, array in zip(slots, arrays, strict=True)
    ]
    return fragment.matrix(np.stack(parts).reshape(len(slots), len(which), WARPGROUP * LANES))


class Accumulator:
    """The registers ``slots`` of all warpgroups, as matrices of (64, words) raw words.

    held: (warpgroups,) bool: the matrix is the truth, and the registers are out of date.  rivals:
    other accumulators that share some of the registers.
    """

    def __init__(
        self, wave: Wave, groups: Warpgroups, slots: tuple[int, ...], fragment: Fragment
    ) -> None:
        self.wave, self.groups = wave, groups
        self.slots, self.fragment = slots, fragment
        self.data = np.empty((groups.count, *fragment.shape), np.uint32)
        self.held = np.zeros(groups.count, bool)
        self.any_held = False
        self.rivals: list[Accumulator] = []

    def take(self, which: np.ndarray, read: bool) -> None:
        """Makes the matrix the truth for some warpgroups; its values count only if ``read``."""
        missing = which[~self.held[which]]
        if len(missing):
            for rival in self.rivals:
                rival.give_back(missing)
            if read:
                matrix = read_fragment(self.wave, self.groups, self.slots, self.fragment, missing)
                self.data[missing] = matrix
            self.held[missing] = True
            self.any_held = True

    def give_back(self, which: np.ndarray) -> None:
        """Makes the registers the truth again for some warpgroups."""
        which = np.unique(which[self.held[which]])
        if not len(which):
            return
        rows = rows_of(self.groups.warps[which].ravel())
        values = self.fragment.spread(self.data[which])
        for slot, value in zip(self.slots, values, strict=True):
            array = self.wave.registers[slot]
            if array is None:
                array = self.wave.allocate(slot)
            array[rows] = value.reshape(-1, LANES)
        self.held[which] = False
        self.any_held = bool(self.held.any())
