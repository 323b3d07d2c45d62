"""Registers: where each lives, and the numpy types that its bits are read as.

A register is an array (warps, 32) of raw bits: pred as bool, 8 and 16 bits as uint16, then uint32,
uint64, and (warps, 32, 2) uint64, low word first, for 128 bits.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from checkers.simulator.ptx.program import TYPE_BITS

NUMPY: dict[str, np.dtype] = {
    "pred": np.dtype(bool),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "tf32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
for _bits in (8, 16, 32, 64):
    NUMPY[f"b{_bits}"] = NUMPY[f"u{_bits}"] = np.dtype(f"u{_bits // 8}")
    NUMPY[f"s{_bits}"] = np.dtype(f"i{_bits // 8}")

# Packed types: the type of each of the two halves, the low one first.
HALVES = {
    "f16x2": "f16",
    "bf16x2": "bf16",
    "u16x2": "u16",
    "s16x2": "s16",
    "e4m3x2": "e4m3",
    "e5m2x2": "e5m2",
    "f32x2": "f32",
    "u32x2": "u32",
}

WORD = {16: np.dtype(np.uint16), 32: np.dtype(np.uint32), 64: np.dtype(np.uint64)}


def storage_bits(type_: str) -> int:
    """The width that a register of this type is kept in: 1, 16, 32, 64 or 128."""
    bits = TYPE_BITS[type_]
    return 16 if bits == 8 else bits


def new_register(bits: int, warps: int) -> np.ndarray:
    """An array for a register of storage width ``bits``; every bit set, so that a float that was
    never written is a NaN."""
    if bits == 1:
        return np.zeros((warps, 32), bool)
    if bits == 128:
        return np.full((warps, 32, 2), 0xFFFFFFFFFFFFFFFF, np.uint64)
    return np.full((warps, 32), np.iinfo(WORD[bits]).max, WORD[bits])
