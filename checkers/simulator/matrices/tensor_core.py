"""tcgen05.mma: its instruction descriptor, where its matrices lie in tensor memory, the arithmetic.

PTX ISA 9.7.16.2.1 (shapes), 9.7.16.4.2 (instruction descriptor), 9.7.16.10 (data paths, block
scaling). The manual's figures of the data paths are taken from CUTLASS's layouts instead; no
hardware at hand could confirm any of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from checkers.simulator.matrices.matrix_arithmetic import BYTE_VALUES

FLOATS = {0: "f16", 1: "bf16", 2: "tf32"}
BYTES = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
# kind -> operand types by code, and the K of one instruction.
KINDS: dict[str, tuple[dict[int, str], int]] = {
    "f16": ({0: "f16", 1: "bf16"}, 16),
    "tf32": ({2: "tf32"}, 8),
    "f8f6f4": (BYTES, 32),
    "i8": ({0: "u8", 1: "s8"}, 32),
    "mxf8f6f4": (BYTES, 32),
    "mxf4": ({1: "e2m1"}, 64),
    "mxf4nvf4": ({1: "e2m1"}, 64),
}
BLOCK_SCALED = ("mxf8f6f4", "mxf4", "mxf4nvf4")
D_TYPES = {0: "f16", 1: "f32", 2: "s32"}
D_ALLOWED = {"f16": ("f16", "f32"), "f8f6f4": ("f16", "f32"), "i8": ("s32",)}


@dataclass(frozen=True)
class Shape:
    """A decoded instruction descriptor.

    rows, columns, depth: M, N, K; M of both blocks of a pair.  a_mn_major, b_mn_major: the
    "transpose" bits.  scale_type: "ue8m0" or "ue4m3" of block scaling, else "".  scale_a,
    scale_b: the scale factor ids.  problem: a sentence about a descriptor that can't be, or "".
    """

    kind: str
    rows: int
    columns: int
    depth: int
    d_type: str
    a_type: str
    b_type: str
    saturate: bool
    negative: bool
    a_mn_major: bool
    b_mn_major: bool
    pair: bool
    scale_type: str = ""
    scale_a: int = 0
    scale_b: int = 0
    problem: str = ""

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.columns * self.depth

    @property
    def a_bits(self) -> int:
        """Of an element of A in tensor or shared memory."""
        return 4 if self.kind in ("mxf4", "mxf4nvf4") else 256 // self.depth


@lru_cache(maxsize=256)
def instruction_descriptor(bits: int, kind: str, pair: bool) -> Shape:
    """Decodes the 32 bits of an instruction descriptor (tables 42 to 44)."""
    types, depth = KINDS[kind]
    scaled = kind in BLOCK_SCALED
    a_code, b_code = bits >> 7 & 7, bits >> 10 & (3 if kind.startswith("mxf4") else 7)
    columns = (bits >> 17 & 63) << 3
    rows = (bits >> 27 & 3) << 7 if scaled else (bits >> 24 & 31) << 4
    d_type = "f32" if scaled else D_TYPES.get(bits >> 4 & 3, "")
    shape = Shape(
        kind=kind,
        rows=rows,
        columns=columns,
        depth=depth,
        d_type=d_type,
        a_type=types.get(a_code, ""),
        b_type=types.get(b_code, ""),
        saturate=bool(bits >> 3 & 1),
        negative=bool((bits >> 13 ^ bits >> 14) & 1),
        a_mn_major=bool(bits >> 15 & 1),
        b_mn_major=bool(bits >> 16 & 1),
        pair=pair,
        scale_type=("ue8m0" if bits >> 23 & 1 else "ue4m3") if scaled else "",
        scale_a=bits >> 29 & 3 if scaled else 0,
        scale_b=bits >> 4 & 3 if scaled else 0,
    )
    return Shape(**{**shape.__dict__, "problem": _problem(shape, bits)})


def _problem(shape: Shape, bits: int) -> str:
    """What is wrong with an instruction descriptor, a sentence, or ""."""
    kind, rows, columns = shape.kind, shape.rows, shape.columns
    if bits >> 2 & 1:
        return "The instruction descriptor asks for a sparse A, which belongs to tcgen05.mma.sp."
    if not shape.a_type or not shape.b_type:
        return f"The instruction descriptor's operand types are none of kind::{kind}."
    if shape.d_type not in D_ALLOWED.get(kind, ("f32",)):
        found = shape.d_type or "unknown"
        return f"The instruction descriptor's accumulator is {found}, which kind::{kind} has not."
    if shape.d_type == "f16" and "bf16" in (shape.a_type, shape.b_type):
        return "The instruction descriptor adds bf16 products into f16."
    allowed = (128, 256) if shape.pair else (64, 128)
    if kind in BLOCK_SCALED and not shape.pair:
        allowed = (128,)
    if rows not in allowed:
        return (
            f"The instruction descriptor says M = {rows}; with cta_group::{2 if shape.pair else 1} "
            f"kind::{kind} has {' or '.join(map(str, allowed))}."
        )
    step = 16 if shape.pair else 8
    if kind == "i8":
        step = 32 if shape.pair else 16 if columns > 32 else 8
    if columns % step or not step <= columns <= 256:
        return (
            f"The instruction descriptor says N = {columns}; here it is a multiple of {step} up "
            "to 256."
        )
    if kind.startswith("mxf4") and (shape.a_mn_major or shape.b_mn_major):
        return f"The instruction descriptor transposes an operand, which kind::{kind} can't."
    return ""


# --- where D and A lie ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Piece:
    """A part of D that lies in one block's tensor memory.

    rank: of the pair, 0 or 1.  lanes: (r,) from the address's lane on.  rows, columns: slices of D.
    pieces: the same lanes as pieces of 16, a slice.
    """

    rank: int
    lanes: np.ndarray
    rows: slice
    columns: slice
    pieces: slice


@lru_cache(maxsize=64)
def placement(rows: int, columns: int, pair: bool, first_lane: int) -> tuple[Piece, ...]:
    """Where D (rows, columns) lies, by 9.7.16.10.5: layouts A, B, D and F.

    M = 128 (and 256 of a pair): row = lane. M = 64: half of each warp's lanes. M = 128 of a pair:
    64 rows a block, the left half of N in lanes 0 to 63, the right one in 64 to 127.
    first_lane: 0, or 16 with M = 64.
    """
    whole = slice(0, columns)
    if rows == 64:
        row = np.arange(64)
        lanes = row % 16 + 32 * (row // 16) + first_lane
        return (Piece(0, lanes, slice(0, 64), whole, slice(first_lane // 16, 8, 2)),)
    lanes = np.arange(128)
    if not pair:
        return (Piece(0, lanes, slice(0, 128), whole, slice(0, 8)),)
    if rows == 256:
        return tuple(
            Piece(rank, lanes, slice(128 * rank, 128 * rank + 128), whole, slice(0, 8))
            for rank in range(2)
        )
    half = columns // 2
    return tuple(
        Piece(
            rank,
            lanes[64 * side : 64 * side + 64],
            slice(64 * rank, 64 * rank + 64),
            slice(half * side, half * side + half),
            slice(4 * side, 4 * side + 4),
        )
        for rank in range(2)
        for side in range(2)
    )


# --- scale factors -------------------------------------------------------------------------------


def scale_values(raw: np.ndarray, scale_type: str) -> np.ndarray:
    """float32 values of scale factor bytes (5.2.3)."""
    if scale_type == "ue4m3":
        return BYTE_VALUES["e4m3"][raw & 127]
    exponent = raw.astype(np.int32)
    scales = np.ldexp(np.float32(1), exponent - 127)
    return np.where(exponent == 255, np.float32(np.nan), scales).astype(np.float32)


def scale_factors(
    cells: np.ndarray, first: int, count: int, which: int, vectors: int
) -> np.ndarray:
    """(count, vectors) bytes: the scale factors of ``count`` rows of A or columns of B.

    cells: (128, 512) of a block.  first: column of the address.  which: the scale factor id, the
    byte in each word where they begin.  Row r is in lane r % 32 and column first + r // 32.
    """
    r = np.arange(count)
    words = cells[r % 32, first + r // 32]
    return (words[:, None] >> (8 * (which + np.arange(vectors, dtype=np.uint32)))).astype(np.uint8)
