"""Values of tensor-core operands, and their products and sums.

Products are exact (no operand type has more than 12 significant bits, f64 apart), sums are made in
float32, in an order of NumPy's: the manual leaves order and rounding open (PTX ISA 9.7.14.5.14,
9.7.15.5.2, 9.7.16.10). Integer results are exact. How Hopper's tensor cores align and cut the
products before they add them is in fused_sums.py; Blackwell's are not known: compare those with a
tolerance.
"""

from __future__ import annotations

import numpy as np

INTEGERS = ("s8", "u8")


def _minifloat(exponent_bits: int, mantissa_bits: int, special: str) -> np.ndarray:
    """float32 value of every code of a small float, by PTX ISA 5.2.3.

    special: "ieee" (the highest exponent holds infinities and NaNs), "nan" (only all ones is NaN)
    or "" (none).
    """
    codes = np.arange(1 << (1 + exponent_bits + mantissa_bits))
    mantissa = codes & ((1 << mantissa_bits) - 1)
    exponent = (codes >> mantissa_bits) & ((1 << exponent_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    fraction = mantissa / (1 << mantissa_bits) + (exponent > 0)
    value = fraction * 2.0 ** (np.maximum(exponent, 1) - bias)
    top = exponent == (1 << exponent_bits) - 1
    if special == "ieee":
        value[top] = np.where(mantissa[top] == 0, np.inf, np.nan)
    elif special == "nan":
        value[top & (mantissa == mantissa.max())] = np.nan
    sign = codes >> (exponent_bits + mantissa_bits)
    return np.where(sign, -value, value).astype(np.float32)


# float32 value of each byte. 4- and 6-bit types lie in a byte as kind::f8f6f4 wants them: e2m1 in
# bits 2 to 5, the others in the low six bits (9.7.14.5.14, 9.7.16.10.4.3).
_BYTE = np.arange(256)
BYTE_VALUES = {
    "e4m3": _minifloat(4, 3, "nan"),
    "e5m2": _minifloat(5, 2, "ieee"),
    "e2m3": _minifloat(2, 3, "")[_BYTE & 63],
    "e3m2": _minifloat(3, 2, "")[_BYTE & 63],
    "e2m1": _minifloat(2, 1, "")[_BYTE >> 2 & 15],
    "s8": np.arange(256, dtype=np.uint8).view(np.int8).astype(np.float32),
    "u8": _BYTE.astype(np.float32),
}

# Bytes of one element in a register or in shared memory.
ELEMENT_BYTES = {"f64": 8, "tf32": 4, "f16": 2, "bf16": 2} | dict.fromkeys(BYTE_VALUES, 1)

# The counter of the floating-point (or integer) operations of each operand type.
FLOP_NAMES = {kind: f"mma_flops_{kind}" for kind in ("f64", "tf32", "f16", "bf16")}
FLOP_NAMES |= dict.fromkeys(("e4m3", "e5m2"), "mma_flops_f8")
FLOP_NAMES |= dict.fromkeys(("e2m3", "e3m2"), "mma_flops_f6") | {"e2m1": "mma_flops_f4"}
FLOP_NAMES |= dict.fromkeys(INTEGERS, "mma_flops_i8")


def values(raw: np.ndarray, kind: str) -> np.ndarray:
    """The elements of ``raw`` as float32 (float64 for f64).

    raw: (..., w) of any unsigned type, contiguous in its last axis; kind: a key of ELEMENT_BYTES.
    Returns (..., elements), lowest bits first. tf32 drops its low 13 bits, as the hardware does.
    """
    if kind in BYTE_VALUES:
        return BYTE_VALUES[kind][raw.view(np.uint8)]
    if kind == "f16":
        return raw.view(np.float16).astype(np.float32)
    if kind == "bf16":
        return (raw.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    if kind == "tf32":
        return (raw.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return raw.view({"f64": np.float64}[kind])


def add_product(c: np.ndarray, a: np.ndarray, b: np.ndarray, saturate: bool = False) -> np.ndarray:
    """a @ b + c, in c's dtype.

    a (n, M, K) and b (n, K, N): float32 (values() of any type but f64) or float64.  c (n, M, N):
    float16, float32, float64 or int32.  saturate: see add().
    """
    return add(c, np.matmul(a, b), saturate)


def add(c: np.ndarray, product: np.ndarray, saturate: bool = False) -> np.ndarray:
    """product + c, rounded once to c's dtype; ``product`` is float and may be changed.

    Integer products of up to 2**24 / 255**2 = 258 terms are exact in float32.  saturate: int32 sums
    are clamped to their range, not wrapped.
    """
    if c.dtype == np.int32:
        total = c.astype(np.int64) + product.astype(np.int64)
        if saturate:
            total = np.clip(total, -(1 << 31), (1 << 31) - 1)
        return total.astype(np.int32)
    product += c
    return product.astype(c.dtype, copy=False)
