"""The bytes that a tensor copy moves: of the tensor on one side, of the box in shared memory on
the other.

PTX ISA 5.5.3 (tiled mode; gather4 and scatter4 in 5.5.3.4) and 5.5.7 (swizzles). A box is rows of its
innermost dimension, one after another, in cells of 16 bytes; a swizzle moves cells. All that lies
outside the tensor is filled on a load and skipped on a store.

Of what the manual leaves open an H200 does this: rows narrower than the swizzle's span lie a whole
span apart; OOB-NaN is 0x7ff7 in every 16 bits; tf32 elements are rounded to nearest even on a load,
and the .ftz types are not flushed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from checkers.simulator.copies.tensormap import TensorMap
from checkers.simulator.matrices.descriptors import CELL, swizzle

# Bytes across which a swizzle moves cells.
SPANS = {"32B": 32, "64B": 64, "128B": 128}
OOB_NAN = np.array([0xF7, 0x7F], np.uint8)


@dataclass(frozen=True)
class Tile:
    """One box of a tensor.

    rows: (r,) address in the tensor of the first byte inside of each row that is inside.
    inside: (R,) bool, the rows of the box of which a part is inside.  begin, end: bytes of a row
    that are inside, the same for all.  row_bytes: of the box.
    """

    tensor_map: TensorMap
    rows: np.ndarray
    inside: np.ndarray
    begin: int
    end: int
    row_bytes: int

    @property
    def box_bytes(self) -> int:
        """Bytes of the whole box, outside parts included."""
        return len(self.inside) * self.row_bytes

    @property
    def bytes_inside(self) -> int:
        return len(self.rows) * (self.end - self.begin)

    @property
    def is_whole(self) -> bool:
        """No part of the box lies outside the tensor."""
        return self.bytes_inside == self.box_bytes

    def addresses(self) -> np.ndarray:
        """(bytes_inside,) address in the tensor of each byte inside, row by row."""
        return (self.rows[:, None] + np.arange(self.end - self.begin)).ravel()

    def fill(self) -> np.ndarray:
        """(R, row_bytes) uint8: the box as it is where nothing of the tensor lies."""
        element = self.tensor_map.element
        shape = (len(self.inside), self.row_bytes)
        if not (self.tensor_map.fill_nan and element.is_float):
            return np.zeros(shape, np.uint8)
        return np.tile(OOB_NAN, (shape[0], shape[1] // len(OOB_NAN)))

    def loaded(self, inside: np.ndarray) -> np.ndarray:
        """(R, row_bytes) uint8: the box, given the bytes of addresses()."""
        width = self.end - self.begin
        if self.is_whole:
            box = inside.reshape(len(self.inside), self.row_bytes)
        else:
            box = self.fill()
            box[self.inside, self.begin : self.end] = inside.reshape(len(self.rows), width)
        if self.tensor_map.element.name.startswith("tf32"):
            words = np.ascontiguousarray(box).view(np.uint32)
            box = np.ascontiguousarray(_rounded(words)).view(np.uint8)
        return box

    def part_inside(self, box: np.ndarray) -> np.ndarray:
        """(bytes_inside,) the bytes of a box (R, row_bytes) that lie inside, as addresses()."""
        return box[self.inside, self.begin : self.end].ravel()

    def cells(self, start: int) -> np.ndarray:
        """(R * row_bytes / 16,) where each 16-byte cell of the box lies in shared memory, for a
        box that starts at byte ``start``, an absolute shared address."""
        span = SPANS.get(self.tensor_map.swizzle, 0)
        pitch = max(self.row_bytes, span)
        row = start + pitch * np.arange(len(self.inside), dtype=np.int64)
        linear = row[:, None] + CELL * np.arange(self.row_bytes // CELL)
        return swizzle(linear.ravel(), self.tensor_map.swizzle)

    def store_cells(self) -> np.ndarray:
        """(R * row_bytes / 16,) bool: the cells of which a store reads a part."""
        cell = np.arange(self.row_bytes // CELL) * CELL
        read = (cell < self.end) & (cell + CELL > self.begin)
        return (self.inside[:, None] & read).ravel()


def _rounded(words: np.ndarray) -> np.ndarray:
    """f32 bits with 10 bits of mantissa, to nearest even; infinities and NaNs as they are."""
    odd = words >> np.uint32(13) & np.uint32(1)
    near = words + np.uint32(0xFFF) + odd & np.uint32(0xFFFFE000)
    return np.where(words & np.uint32(0x7F800000) == np.uint32(0x7F800000), words, near)


def tile(tensor_map: TensorMap, coordinates: Sequence[int]) -> Tile:
    """The box at ``coordinates`` (signed, innermost first)."""
    m = tensor_map
    address = np.zeros(1, np.int64)
    inside = np.ones(1, bool)
    for d in range(1, m.rank):
        index = coordinates[d] + np.arange(m.counts[d], dtype=np.int64) * m.steps[d]
        ok = (index >= 0) & (index < m.sizes[d])
        address = (index[:, None] * m.strides[d - 1] + address).ravel()
        inside = (ok[:, None] & inside).ravel()
    return _with_rows(m, coordinates[0], address, inside)


def gathered(tensor_map: TensorMap, column: int, rows: Sequence[int]) -> Tile:
    """The four rows of a gather4 or scatter4, from ``column`` on; the map has two dimensions."""
    m = tensor_map
    index = np.array(rows, np.int64)
    inside = (index >= 0) & (index < m.sizes[1])
    return _with_rows(m, column, index * m.strides[0], inside)


def _with_rows(m: TensorMap, column: int, address: np.ndarray, inside: np.ndarray) -> Tile:
    begin = min(max(0, -column), m.counts[0])
    end = max(min(m.counts[0], m.sizes[0] - column), begin)
    if begin == end:
        inside = np.zeros_like(inside)
    size = m.element.bytes
    first = m.address + (column + begin) * size
    return Tile(m, address[inside] + first, inside, begin * size, end * size, m.counts[0] * size)


def contiguous(start: int, size: int) -> np.ndarray:
    """(size / 16,) the 16-byte pieces of a run of bytes."""
    return start + CELL * np.arange(size // CELL, dtype=np.int64)
