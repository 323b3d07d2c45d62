"""A group: warps that stand at the same instruction, with the lanes of each that are active."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.simulator.ptx.program import Instruction

if TYPE_CHECKING:
    from checkers.simulator.machine.wave import Wave

LANES = 32


def rows_of(warps: np.ndarray) -> slice | np.ndarray:
    """Indexes the rows ``warps`` of an array, by a slice where they are evenly spaced: a slice
    gives a view, an index array a copy."""
    if len(warps) == 1:
        return slice(int(warps[0]), int(warps[0]) + 1)
    step = int(warps[1] - warps[0])
    if (np.diff(warps) == step).all():
        return slice(int(warps[0]), int(warps[-1]) + 1, step)
    return warps


class Group:
    """Warps at one pc.

    warps: (n,) int64, sorted flat warp indices of the wave.  mask: (n, 32) bool, the active lanes;
    None when all are.  timed_out: a wait that may time out did, because nothing else could run.
    """

    __slots__ = (
        "_blocks", "_threads", "lane_count", "mask", "n", "parked_at", "pc", "rows", "timed_out",
        "warps", "wave",
    )  # fmt: skip

    def __init__(
        self, wave: Wave, pc: int, warps: np.ndarray, mask: np.ndarray | None = None
    ) -> None:
        self.wave = wave
        self.pc = pc
        self.warps = warps
        self.rows = rows_of(warps)
        self.mask = mask
        self.n = len(warps)
        self.lane_count = self.n * LANES if mask is None else int(np.count_nonzero(mask))
        self.timed_out = False
        self.parked_at = pc  # the instruction at which it stands still, once it does
        self._threads: np.ndarray | None = None
        self._blocks: np.ndarray | None = None

    @property
    def site(self) -> Instruction:
        """The instruction that is executed."""
        return self.wave.program.instructions[self.pc]

    # --- registers -----------------------------------------------------------------------------

    def get(self, slot: int) -> np.ndarray:
        """The raw bits of a register, (n, 32); never to be written into."""
        array = self.wave.registers[slot]
        if array is None:
            array = self.wave.undefined(self, slot)
        return array[self.rows]

    def put(self, slot: int, raw: Any) -> None:
        """Writes raw bits, broadcast to (n, 32), into the active lanes of a register."""
        array = self.wave.registers[slot]
        if array is None:
            array = self.wave.allocate(slot)
        rows, mask = self.rows, self.mask
        if mask is None:
            array[rows] = raw
            return
        if array.ndim == 3:
            mask = mask[..., None]
        if isinstance(rows, slice):
            np.copyto(array[rows], raw, where=mask)
        else:
            part = array[rows]
            np.copyto(part, raw, where=mask)
            array[rows] = part

    # --- lanes ---------------------------------------------------------------------------------

    def active(self) -> np.ndarray:
        """(n, 32) bool: the active lanes."""
        return np.ones((self.n, LANES), bool) if self.mask is None else self.mask

    def threads(self) -> np.ndarray:
        """(k,) int64: the flat thread indices (warp * 32 + lane) of the active lanes."""
        if self._threads is None:
            every = self.warps[:, None] * LANES + np.arange(LANES)
            self._threads = every.ravel() if self.mask is None else every[self.mask]
        return self._threads

    def lanes(self, values: Any) -> np.ndarray:
        """(k, ...): the active lanes of an (n, 32, ...) array or a scalar, in threads() order."""
        values = np.asarray(values)
        if values.ndim < 2:
            return np.broadcast_to(values, (len(self.threads()), *values.shape))
        if self.mask is None:
            return values.reshape(-1, *values.shape[2:])
        return values[self.mask]

    def spread(self, values: np.ndarray, fill: Any = 0) -> np.ndarray:
        """(n, 32, ...): puts (k, ...) values back at their lanes, ``fill`` elsewhere."""
        if self.mask is None:
            return values.reshape(self.n, LANES, *values.shape[1:])
        out = np.full((self.n, LANES, *values.shape[1:]), fill, values.dtype)
        out[self.mask] = values
        return out

    def blocks(self) -> np.ndarray:
        """(n,) int64: the block, counted in the wave, of each warp."""
        if self._blocks is None:
            self._blocks = self.warps // self.wave.warps_per_block
        return self._blocks

    # --- parts ---------------------------------------------------------------------------------

    def narrowed(self, mask: np.ndarray) -> Group | None:
        """The lanes that are also in ``mask``, (n, 32) bool; None when there are none, and the
        group itself when there are no others."""
        if self.mask is None:
            if mask.all():
                return self
        else:
            mask = mask & self.mask
            if np.array_equal(mask, self.mask):
                return self
        some = mask.any(axis=1)
        if not some.any():
            return None
        if some.all():
            # A copy: ``mask`` may be a view of a predicate register, which will change.
            part = Group(self.wave, self.pc, self.warps, None if mask.all() else mask.copy())
        else:
            kept = mask[some]
            part = Group(self.wave, self.pc, self.warps[some], None if kept.all() else kept)
        part.timed_out = self.timed_out
        return part

    def only_warps(self, chosen: np.ndarray) -> Group:
        """The warps that ``chosen``, an index or bool array over n, names."""
        warps = self.warps[chosen]
        mask = None if self.mask is None else self.mask[chosen]
        part = Group(self.wave, self.pc, warps, mask)
        part.timed_out = self.timed_out
        return part

    def merged(self, other: Group) -> Group:
        """Both together; they stand at the same pc and share no lane."""
        warps = np.union1d(self.warps, other.warps)
        mask = np.zeros((len(warps), LANES), bool)
        for part in (self, other):
            mask[np.searchsorted(warps, part.warps)] |= part.active()
        both = Group(self.wave, self.pc, warps, None if mask.all() else mask)
        both.timed_out = self.timed_out or other.timed_out
        return both

    def __repr__(self) -> str:
        lanes = "all" if self.mask is None else int(self.mask.sum())
        return f"Group(pc={self.pc}, warps={self.warps.tolist()}, lanes={lanes})"
