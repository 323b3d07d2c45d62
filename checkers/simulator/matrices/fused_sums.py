"""Sums of products as the tensor cores of an H200 form them, bit for bit.

The manual leaves order and rounding open (PTX ISA 9.7.14.5.14, 9.7.15.5.2). On an H200 there is no
order: one instruction adds its whole K and the accumulator at once. The terms are aligned to the
largest exponent among them, and what lies below ``FRACTION`` bits of that is cut off each; the rest is
summed exactly. The exponent of a product is the sum of those of its factors, even where the
product of the mantissas reaches 2. An f32 result is rounded toward zero, and for 8-bit operands to as
few bits as the terms have; an f16 result to nearest even. Two forms of mma.sync are made of others:
8-bit floats of two sums of f16 and an ordinary addition, f64 of fma after fma. The golden vectors of
mma.sync and wgmma confirm all this; operands that are subnormal, infinite or NaN they don't contain.
"""

from __future__ import annotations

import numpy as np

from checkers.simulator.arithmetic import double
from checkers.simulator.matrices.matrix_arithmetic import add_product

# Fraction bits that aligned terms keep, by operand type.
FRACTION = {"f16": 25, "bf16": 25, "tf32": 25, "e4m3": 13, "e5m2": 13}
# Exponent of the smallest normal number, which subnormal ones have too.
_LEAST = {"f16": -14, "bf16": -126, "tf32": -126, "e4m3": -6, "e5m2": -14}
_OF_ZERO = -10000  # exponent of a zero: below all others, and two of them fit 16 bits
# Largest exponents for which float32 does: the terms' products are exact, their scales finite.
_NARROW = 90
_NAN = {np.dtype(np.float32): 0x7FFFFFFF, np.dtype(np.float16): 0x7FFF}


def multiply_add(
    c: np.ndarray, a: np.ndarray, b: np.ndarray, kind: str, saturate: bool = False
) -> np.ndarray:
    """a @ b + c, in c's dtype.

    a (n, M, K) and b (n, K, N): values() of type ``kind``.  c (n, M, N).  Types that are not in
    FRACTION are left to add_product.
    """
    if kind not in FRACTION or c.dtype not in _NAN:
        return add_product(c, a, b, saturate)
    if not all(np.isfinite(x).all() for x in (a, b, c)):
        ordinary = add_product(c.astype(np.float32), a, b).astype(c.dtype)
        a, b, c = (np.where(np.isfinite(x), x, 0).astype(x.dtype) for x in (a, b, c))
        result = np.where(np.isfinite(ordinary), multiply_add(c, a, b, kind), ordinary)
        result.view(f"u{c.itemsize}")[np.isnan(result)] = _NAN[c.dtype]
        return result
    total = _sum(c, a, b, kind)
    if c.dtype == np.float16:
        return total.astype(np.float16)
    result = total.astype(np.float32)
    beyond = (np.abs(result) > np.abs(total)) & np.isfinite(result)
    bits = result.view(np.uint32)
    bits -= beyond  # one ulp toward zero
    if FRACTION[kind] < 23:
        bits &= np.uint32(0xFFFFFFFF << (23 - FRACTION[kind]) & 0xFFFFFFFF)
    return result


def warp_multiply_add(
    c: np.ndarray, a: np.ndarray, b: np.ndarray, kind: str, saturate: bool = False
) -> np.ndarray:
    """multiply_add for mma.sync."""
    if kind == "f64":
        for k in range(a.shape[2]):
            c = double.fused(*np.broadcast_arrays(a[:, :, k, None], b[:, k, None, :], c))
        return c
    if FRACTION.get(kind) != FRACTION["e4m3"]:
        return multiply_add(c, a, b, kind, saturate)
    total = np.zeros_like(c)
    pair = np.arange(a.shape[2]) // 2 % 2  # the first two of every four, then the other two
    for which in range(2):
        total = multiply_add(total, a[:, :, pair == which], b[:, pair == which], "f16")
    return (c.astype(np.float32) + total).astype(c.dtype)


def _sum(c: np.ndarray, a: np.ndarray, b: np.ndarray, kind: str) -> np.ndarray:
    """(n, M, N) float64: the terms, cut off, and added exactly."""
    depth = a.shape[2]
    columns = np.ascontiguousarray(a.transpose(2, 0, 1))[..., None]  # (K, n, M, 1)
    rows = np.ascontiguousarray(b.transpose(1, 0, 2))[:, :, None]  # (K, n, 1, N)
    left, right = _exponents(columns, _LEAST[kind]), _exponents(rows, _LEAST[kind])
    top = _exponents(c, -14 if c.dtype == np.float16 else -126)
    pair = np.empty_like(top)
    for k in range(depth):
        np.maximum(top, np.add(left[k], right[k], out=pair), out=top)
    top[top < _OF_ZERO // 2] = 0  # nothing but zeros there
    narrow = -_NARROW <= top.min() and top.max() <= _NARROW
    finest = top.astype(np.int32 if narrow else np.int64) - FRACTION[kind]
    wide = np.float32 if narrow else np.float64
    scale = _power(-finest)
    total = np.trunc(c * scale).astype(np.float64)
    columns, rows = columns.astype(wide, copy=False), rows.astype(wide, copy=False)
    term = np.empty(total.shape, wide)
    for k in range(depth):
        np.multiply(columns[k], rows[k], out=term)
        term *= scale
        total += np.trunc(term, out=term)
    total *= _power(finest)
    return total + 0.0  # no negative zeros


def _power(exponents: np.ndarray) -> np.ndarray:
    """2 to the power of int32 exponents as float32, of int64 ones as float64."""
    if exponents.dtype == np.int32:
        return (exponents + 127 << 23).view(np.float32)
    return (exponents + 1023 << 52).view(np.float64)


def _exponents(values: np.ndarray, least: int) -> np.ndarray:
    """int16: the exponent of each, at least ``least``; _OF_ZERO for zeros."""
    bits = values.astype(np.float32, copy=False).view(np.uint32)
    found = (bits >> np.uint32(23) & np.uint32(255)).astype(np.int16)
    found -= np.int16(127)
    np.maximum(found, np.int16(least), out=found)
    found[values == 0] = _OF_ZERO
    return found
