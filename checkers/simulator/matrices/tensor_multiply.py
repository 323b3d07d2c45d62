"""One tcgen05.mma from its checks to its result in tensor memory.

PTX ISA 9.7.16.10. No hardware at hand could confirm it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from checkers.simulator.matrices.descriptors import Tile
from checkers.simulator.matrices.matrix_arithmetic import BYTE_VALUES, add, values
from checkers.simulator.matrices.matrix_operands import tile_bytes
from checkers.simulator.matrices.tensor_core import (
    Piece,
    Shape,
    placement,
    scale_factors,
    scale_values,
)
from checkers.simulator.matrices.tensor_memory import COLUMNS, Region, TensorMemory, TensorOperation
from checkers.simulator.reports.faults import Kind

if TYPE_CHECKING:
    from checkers.simulator.machine.wave import Wave
    from checkers.simulator.ptx.program import Instruction

TENSOR_CORE = 4  # its place among the readers that tensor memory remembers
A_COLUMNS = 8  # of A in tensor memory: 32 bytes, as in shared memory
DTYPES = {"f16": np.float16, "f32": np.float32, "s32": np.int32}


@dataclass(eq=False)
class Multiplication:
    """D (+)= A * B.

    blocks: in the wave, one or a pair.  d: address of D in tensor memory.  a: of A there, None
    where it is in shared memory.  tiles: (A, B) or (B,) in shared memory, at one place in each
    block.  keep: D is added to, after it was divided by 2**scale_input.  disabled: words of lanes
    that are not written.  scales: addresses of the scale factors of A and B, or empty.  vectors:
    scale factors for each row.
    """

    wave: Wave
    site: Instruction
    thread: int
    blocks: list[int]
    shape: Shape
    d: int
    a: int | None
    tiles: list[Tile]
    keep: bool
    scale_input: int
    disabled: list[int]
    scales: list[int]
    vectors: int
    pieces: tuple[Piece, ...] = field(init=False)

    def __post_init__(self) -> None:
        lane = self.d >> 16
        allowed = (0, 16) if self.shape.rows == 64 else (0,)
        if lane not in allowed:
            self._report(
                f"D of tcgen05.mma with M = {self.shape.rows} begins at lane {lane} of tensor "
                f"memory, not at {' or '.join(map(str, allowed))}."
            )
            lane = 0
        if self.a is not None and self.a >> 16 != lane:
            self._report("A and D of tcgen05.mma begin at different lanes of tensor memory.")
        shape = self.shape
        self.pieces = placement(shape.rows, shape.columns, shape.pair, lane)

    def _report(self, message: str) -> None:
        self.wave.faults.report(Kind.TENSOR_MEMORY, message, thread=self.thread, site=self.site)

    @property
    def column(self) -> int:
        return self.d & 0xFFFF

    # --- at issue ------------------------------------------------------------------------------

    def check(self) -> int:
        """Holds the cells against those who used them before; the engine's time of this one."""
        memory, shape = self.wave.state(TensorMemory), self.shape
        operation = memory.operation(
            "tcgen05.mma",
            self.site,
            self.thread,
            ("tcgen05", self.thread),
            (shape.rows, shape.columns, shape.d_type, self.column),
        )
        for piece in self.pieces:
            block = self.blocks[piece.rank]
            if self.a is not None:
                first = self.a & 0xFFFF
                columns = slice(first, first + A_COLUMNS)
                memory.read(Region(block, piece.pieces, columns), operation, TENSOR_CORE)
        for address, rows in zip(self.scales, self._scaled_rows(), strict=True):
            for block in self.blocks:
                first = address & 0xFFFF
                columns = slice(first, first + -(-rows // 32))
                memory.read(Region(block, slice(0, 8), columns), operation, TENSOR_CORE)
        for piece in self.pieces:
            self._check_d(memory, piece, operation)
        return operation.time

    def _check_d(self, memory: TensorMemory, piece: Piece, operation: TensorOperation) -> None:
        width = piece.columns.stop - piece.columns.start
        columns = slice(self.column, self.column + width)
        region = Region(self.blocks[piece.rank], piece.pieces, columns)
        if self.keep:
            memory.read(region, operation, TENSOR_CORE)
        memory.write(region, operation)

    def _scaled_rows(self) -> tuple[int, ...]:
        """Rows of A in one block, and columns of B, that have scale factors."""
        if not self.scales:
            return ()
        return self.shape.rows // len(self.blocks), self.shape.columns

    # --- at completion -------------------------------------------------------------------------

    def run(self) -> None:
        """Reads the operands and writes D."""
        right = np.concatenate(
            [
                self._operand(block, -1, self.shape.b_type, self.shape.b_mn_major)
                for block in self.blocks
            ]
        )
        lefts: dict[int, np.ndarray] = {}
        for piece in self.pieces:
            if self.a is not None:
                left = self._a_from_tensor_memory(piece)
            else:
                if piece.rank not in lefts:
                    lefts[piece.rank] = self._operand(
                        self.blocks[piece.rank], 0, self.shape.a_type, self.shape.a_mn_major
                    )
                start = self.shape.rows // len(self.blocks) * piece.rank
                left = lefts[piece.rank][piece.rows.start - start : piece.rows.stop - start]
            self._add(piece, -left if self.shape.negative else left, right[piece.columns])

    def _operand(self, block: int, which: int, kind: str, mn_major: bool) -> np.ndarray:
        """(M or N, K) float32 of an operand in shared memory of a block."""
        raw = tile_bytes(self.wave, block, self.tiles[which])
        matrix = self._decode(raw, kind)
        return matrix.T if mn_major else matrix

    def _decode(self, raw: np.ndarray, kind: str) -> np.ndarray:
        """(rows, elements) float32 of (rows, bytes) as they lie in shared memory."""
        if self.shape.kind.startswith("mxf4"):
            return _nibbles(raw)
        if kind in ("e2m1", "e2m3", "e3m2"):
            return _packed_cells(raw, kind)
        return values(raw, kind)

    def _a_from_tensor_memory(self, piece: Piece) -> np.ndarray:
        """(rows, K) float32 of the part of A in a piece's lanes."""
        assert self.a is not None
        cells = self.wave.state(TensorMemory).flat(self.blocks[piece.rank])
        first = self.a & 0xFFFF
        words = np.ascontiguousarray(cells[piece.lanes, first : first + A_COLUMNS])
        if self.shape.kind.startswith("mxf4"):
            return _nibbles(words.view(np.uint8))
        return values(words, self.shape.a_type)

    def _add(self, piece: Piece, left: np.ndarray, right: np.ndarray) -> None:
        """D of a piece (+)= left (r, K) * right (c, K) transposed."""
        cells = self.wave.state(TensorMemory).flat(self.blocks[piece.rank])
        width = max(min(len(right), COLUMNS - self.column), 0)
        columns = slice(self.column, self.column + width)
        product = np.ascontiguousarray(self._product(piece, left, right)[:, :width])
        old = cells[piece.lanes, columns]
        dtype = DTYPES[self.shape.d_type]
        before = (old.astype(np.uint16) if dtype == np.float16 else old).view(dtype)
        if not self.keep:
            before = np.zeros_like(before)
        elif self.scale_input:
            product += before * np.float32(2.0**-self.scale_input)
            before = np.zeros_like(before)
        total = add(before, product, self.shape.saturate)
        new = total.view(f"u{total.itemsize}").astype(np.uint32)
        if self.disabled:
            words = self.disabled[4 * piece.rank : 4 * piece.rank + 4]
            lanes = piece.lanes
            off = np.array(words, np.uint32)[lanes // 32] >> (lanes % 32).astype(np.uint32) & 1
            new = np.where(off.astype(bool)[:, None], old, new)
        cells[piece.lanes, columns] = new

    def _product(self, piece: Piece, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """left (r, K) @ right (c, K) transposed, scaled where there are scale factors."""
        if not self.scales:
            return left @ right.T
        cells = self.wave.state(TensorMemory).flat(self.blocks[piece.rank])
        shape, rows = self.shape, self._scaled_rows()[0]
        a_scales, b_scales = (
            scale_values(
                scale_factors(cells, address & 0xFFFF, count, which, self.vectors),
                shape.scale_type,
            ).astype(np.float64)
            for address, count, which in (
                (self.scales[0], rows, shape.scale_a),
                (self.scales[1], shape.columns, shape.scale_b),
            )
        )
        start = rows * piece.rank
        a_scales = a_scales[piece.rows.start - start : piece.rows.stop - start]
        b_scales = b_scales[piece.columns]
        step = left.shape[1] // self.vectors
        total = np.zeros((len(left), len(right)))
        for v in range(self.vectors):
            part = slice(v * step, v * step + step)
            exact = left[:, part].astype(np.float64) @ right[:, part].T.astype(np.float64)
            total += exact * a_scales[:, v : v + 1] * b_scales[:, v]
        return total


def _nibbles(raw: np.ndarray) -> np.ndarray:
    """e2m1, two in each byte, the lower half first (9.7.16.10.4.5, .6)."""
    pairs = np.stack([raw & 15, raw >> 4], axis=-1).reshape(len(raw), -1)
    return BYTE_VALUES["e2m1"][pairs << 2]


def _packed_cells(raw: np.ndarray, kind: str) -> np.ndarray:
    """4- and 6-bit elements in shared memory: 16 of them at the start of each 16 bytes, and padding
    (9.7.16.10.4.4)."""
    bits = 4 if kind == "e2m1" else 6
    cells = np.unpackbits(raw.reshape(-1, 16), axis=1, bitorder="little")[:, : 16 * bits]
    codes = np.packbits(cells.reshape(-1, 16, bits), axis=-1, bitorder="little")[..., 0]
    if kind == "e2m1":
        codes = codes << 2
    return BYTE_VALUES[kind][codes].reshape(len(raw), -1)
