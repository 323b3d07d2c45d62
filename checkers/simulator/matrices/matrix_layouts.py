"""Which word of a matrix each register of each thread holds.

PTX ISA 9.7.14.5.6 to .10 (mma.sync), 9.7.15.5.1.1 (wgmma) and 9.7.16.2.3 (tcgen05.ld, .st). Told
in 32-bit words, one rule serves every element type: a word along a row is one tf32 element, two
16-bit ones or four 8-bit ones, lowest first. (64-bit words for f64.)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

LANES = np.arange(32)


@dataclass(frozen=True, eq=False)
class Fragment:
    """A matrix of ``shape`` (rows, words) spread over threads.

    rows, words: (threads, registers) int64: the place of each thread's each register.
    """

    rows: np.ndarray
    words: np.ndarray
    shape: tuple[int, int]

    @property
    def threads(self) -> int:
        return self.rows.shape[0]

    @property
    def registers(self) -> int:
        return self.rows.shape[1]

    @cached_property
    def _places(self) -> np.ndarray:
        """(registers, threads) flattened: where in the flattened matrix each value is."""
        return (self.rows * self.shape[1] + self.words).T.ravel()

    @cached_property
    def _sources(self) -> np.ndarray:
        """(rows, words) flattened: which of the flattened (registers, threads) is there."""
        sources = np.empty(self._places.size, dtype=np.int64)
        sources[self._places] = np.arange(self._places.size)
        return sources

    def matrix(self, registers: np.ndarray) -> np.ndarray:
        """(n, rows, words) of ``registers`` (registers, n, threads), n independent matrices."""
        n = registers.shape[1]
        flat = np.moveaxis(registers, 0, 1).reshape(n, -1)
        return flat.take(self._sources, axis=1).reshape(n, *self.shape)

    def spread(self, matrix: np.ndarray) -> np.ndarray:
        """(registers, n, threads) of ``matrix`` (n, rows, words); the inverse of matrix()."""
        n = matrix.shape[0]
        flat = matrix.reshape(n, -1).take(self._places, axis=1)
        return np.moveaxis(flat.reshape(n, self.registers, self.threads), 1, 0)


def _fragment(row: np.ndarray, word: np.ndarray, shape: tuple[int, int]) -> Fragment:
    rows, words = np.broadcast_arrays(row, word)
    return Fragment(rows.astype(np.int64), words.astype(np.int64), shape)


def _stacked(warp: Fragment, warps: int) -> Fragment:
    """The fragment of ``warps`` warps that hold equal pieces below one another."""
    height = warp.shape[0]
    rows = np.concatenate([warp.rows + height * w for w in range(warps)])
    return Fragment(rows, np.concatenate([warp.words] * warps), (height * warps, warp.shape[1]))


@lru_cache
def operand_a(rows: int, words: int) -> Fragment:
    """A of mma.sync, (rows, words) with rows 8 or 16 and words a multiple of 4.

    Lane l, register r of a 16-row matrix: row l/4 + 8(r%2), word l%4 + 4(r/2).
    """
    lane, r, halves = LANES[:, None], np.arange(rows * words // 32), rows // 8
    return _fragment(lane // 4 + 8 * (r % halves), lane % 4 + 4 * (r // halves), (rows, words))


@lru_cache
def operand_b(words: int) -> Fragment:
    """B of mma.sync as its transpose, (8 columns, words along K): lane l, register r holds
    column l/4, word l%4 + 4r."""
    lane, r = LANES[:, None], np.arange(words // 4)
    return _fragment(lane // 4, lane % 4 + 4 * r, (8, words))


@lru_cache
def accumulator(rows: int, columns: int) -> Fragment:
    """C and D with one element a register (f32, s32, f64), rows 8 or 16, columns in eights.

    Lane l, register i: row l/4 + 8((i/2)%2), column 8(i/4) + 2(l%4) + i%2; with 8 rows the
    registers of the lower half are missing.
    """
    lane, i, halves = LANES[:, None], np.arange(rows * columns // 32), rows // 8
    row = lane // 4 + 8 * ((i // 2) % halves)
    return _fragment(row, 8 * (i // (2 * halves)) + 2 * (lane % 4) + i % 2, (rows, columns))


@lru_cache
def packed_accumulator(rows: int, words: int) -> Fragment:
    """C and D of f16, two a register: the same places as A's words."""
    return operand_a(rows, words)


@lru_cache
def warpgroup_a(words: int = 8) -> Fragment:
    """A of wgmma in registers, (64, 8 words): four warps, 16 rows each (9.7.15.5.1.1)."""
    return _stacked(operand_a(16, words), 4)


@lru_cache
def warpgroup_accumulator(columns: int, packed: bool) -> Fragment:
    """D of wgmma, (64, columns) of f32 or s32, or (64, columns/2) words of two f16 (packed)."""
    if packed:
        return _stacked(packed_accumulator(16, columns // 2), 4)
    return _stacked(accumulator(16, columns), 4)


# --- tensor memory ------------------------------------------------------------------------------

# tcgen05.ld and .st shapes: (lanes, columns of one repetition, registers of one, most repetitions)
TENSOR_SHAPES = {
    "32x32b": (32, 1, 1, 128),
    "16x64b": (16, 2, 1, 128),
    "16x128b": (16, 4, 2, 64),
    "16x256b": (16, 8, 4, 32),
    "16x32bx2": (16, 1, 1, 128),
}


@lru_cache
def tensor_places(shape: str, repeat: int, split: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The (lane, column) of tensor memory, from the address given, of each thread's registers.

    shape: of tcgen05.ld, a key of TENSOR_SHAPES; repeat: of .xN; split: the immediate of 16x32bx2,
    in columns. Returns two arrays (32 threads, registers) int64. PTX ISA 9.7.16.2.3; not confirmed
    on hardware here, but the same as CuTe's layouts.
    """
    r = np.arange(TENSOR_SHAPES[shape][2] * repeat)
    lane = LANES[:, None]
    match shape:
        case "32x32b":
            row, column = lane, r
        case "16x64b":
            row, column = lane // 4 + 8 * (lane % 2), (lane // 2) % 2 + 2 * r
        case "16x128b":
            row, column = lane // 4 + 8 * (r % 2), lane % 4 + 4 * (r // 2)
        case "16x256b":
            row = lane // 4 + 8 * ((r // 2) % 2)
            column = 2 * (lane % 4) + r % 2 + 8 * (r // 4)
        case "16x32bx2":
            row, column = lane % 16, r + split * (lane // 16)
    rows, columns = np.broadcast_arrays(row, column)
    return rows.astype(np.int64), columns.astype(np.int64)
