"""f16 and bf16 arithmetic (PTX ISA 9.7.4): IEEE 754 to nearest, .ftz, .sat, .relu, canonical NaNs.

Raw bits, uint16, are widened to float32, which is exact, computed with, and rounded once: for sums
and products of 11-bit mantissas the rounding to float32's 24 bits in between cannot be seen
(24 >= 2 * 11 + 2). Where it could, the result is a float64 rounded to odd.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from checkers.simulator.arithmetic.exact import odd_fused
from checkers.simulator.arithmetic.formats import FORMATS, encode

NAN = np.uint16(0x7FFF)  # both formats'
# The NaN of a tensor copy's OOB-NaN fill, with either sign. The manual gives no pattern; an H200
# takes this one of bf16 for it.
OUT_OF_BOUNDS = np.uint16(0x7FF7)

_SIGN = np.uint16(0x8000)
_LOW_HALF = np.uint32(0x7FFF)
_ONE = np.uint32(1)
_SIXTEEN = np.uint32(16)
# What rounds to the smallest normal value, were there more exponents below.
_KEPT = {"f16": 2.0**-14 * (1 - 2.0**-12), "bf16": 2.0**-126 * (1 - 2.0**-9)}
# NumPy converts f16 one by one.
_F16_VALUES = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)


def widen(bits: np.ndarray, kind: str) -> np.ndarray:
    """float32 values of raw bits of ``kind`` "f16" or "bf16"; a NaN keeps its bits on top."""
    if kind == "bf16":
        return (np.asarray(bits).astype(np.uint32) << _SIXTEEN).view(np.float32)
    return _F16_VALUES.take(bits)


def narrow(values: np.ndarray, kind: str) -> np.ndarray:
    """Raw bits, uint16, of float32 values rounded to nearest even; NaN becomes 0x7fff."""
    values = np.asarray(values)
    bad = np.isnan(values)
    if kind == "bf16":
        word = values.view(np.uint32)
        upper = word >> _SIXTEEN
        # Half a last place, less one where the result would be even already.
        bits = ((word + _LOW_HALF + (upper & _ONE)) >> _SIXTEEN).astype(np.uint16)
    else:
        bits = values.astype(np.float16).view(np.uint16)
    return np.where(bad, NAN, bits) if np.count_nonzero(bad) else bits


def narrow_odd(values: np.ndarray, kind: str) -> np.ndarray:
    """Raw bits of float64 values that are exact or rounded to odd."""
    if kind == "f16":
        bits = values.astype(np.float16).view(np.uint16)
        return np.where(np.isnan(values), NAN, bits)
    word = values.view(np.uint64)
    cut = np.uint64(0x1FFFFFFF)  # what float32 has no room for
    sticky = ((word & cut) != 0).astype(np.uint64) << np.uint64(29)
    odd = ((word & ~cut) | sticky).view(np.float64).astype(np.float32)
    bits = narrow(odd, kind)
    small = (np.abs(values) < 2.0**-125) & (values != 0)  # where float32 has no more room than bf16
    if np.count_nonzero(small):
        return np.where(small, encode(values, FORMATS[kind]), bits)
    return bits


def cut(values: np.ndarray, kind: str) -> np.ndarray:
    """Raw bits of float32 values rounded to zero, but to infinity where they are too large: how the
    special function unit gives them."""
    codes = encode(values, FORMATS[kind], "rz")
    too_large = np.abs(values) >= 2.0 ** (1 << (FORMATS[kind].exponent_bits - 1))
    return np.where(too_large, encode(np.copysign(np.inf, values), FORMATS[kind]), codes)


def flush(bits: np.ndarray, kind: str = "f16") -> np.ndarray:
    """.ftz: subnormals become zero of the same sign."""
    field = np.uint16(FORMATS[kind].infinity or 0)
    return np.where(bits & field, bits, bits & _SIGN)


def is_nan(bits: np.ndarray, kind: str) -> np.ndarray:
    """Where raw bits are a NaN."""
    return (bits & ~_SIGN) > np.uint16(FORMATS[kind].infinity or 0)


# --- operations on float32 values of f16 or bf16: float32, or float64 rounded to odd -----------


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a * b: exact in float32, but for subnormal products of bf16."""
    product = a * b
    tiny = np.abs(product) < np.float32(2.0**-125)
    if np.count_nonzero(tiny) and np.count_nonzero(tiny & (a != 0) & (b != 0)):
        return a.astype(np.float64) * b
    return product


WIDE: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": multiply,
    "fma": odd_fused,
}


def operation(
    function: Callable[..., np.ndarray],
    kind: str,
    *,
    ftz: bool = False,
    sat: bool = False,
    relu: bool = False,
) -> Callable[..., np.ndarray]:
    """``function`` of float32 values, with the modifiers, from raw bits to raw bits.

    .ftz: a result is flushed if it is below the normal values when rounded to as many bits as
    they have (H200).
    """

    def operate(*operands: np.ndarray) -> np.ndarray:
        if ftz:
            operands = tuple(flush(operand, kind) for operand in operands)
        wide = np.asarray(function(*(widen(operand, kind) for operand in operands)))
        if ftz:
            wide = np.where(np.abs(wide) < _KEPT[kind], np.copysign(wide * 0, wide), wide)
        result = narrow(wide, kind) if wide.dtype == np.float32 else narrow_odd(wide, kind)
        if relu:
            result = rectify(kind, result)
        return saturate(kind, result) if sat else result

    return operate


def in_bounds(fused: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """fma.oob: ``fused`` of raw bits, but +0 where a or b is the NaN that a tensor copy fills with
    outside of the tensor."""

    def guarded(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        outside = ((a & ~_SIGN) == OUT_OF_BOUNDS) | ((b & ~_SIGN) == OUT_OF_BOUNDS)
        return np.where(outside, np.uint16(0), fused(a, b, c))

    return guarded


# --- operations on raw bits --------------------------------------------------------------------


def negate(kind: str, a: np.ndarray) -> np.ndarray:
    """-a; a NaN becomes the canonical one."""
    return np.where(is_nan(a, kind), NAN, a ^ _SIGN)


def absolute(kind: str, a: np.ndarray) -> np.ndarray:
    """The magnitude of a; a NaN becomes the canonical one."""
    return np.where(is_nan(a, kind), NAN, a & ~_SIGN)


def saturate(kind: str, bits: np.ndarray) -> np.ndarray:
    """.sat: into [+0, 1]; NaN becomes +0."""
    one = np.uint16(0x3C00 if kind == "f16" else 0x3F80)
    dropped = ((bits & _SIGN) != 0) | is_nan(bits, kind)
    return np.where(dropped, np.uint16(0), np.minimum(bits, one))


def rectify(kind: str, bits: np.ndarray) -> np.ndarray:
    """.relu: negative values become +0; NaN the canonical one."""
    return np.where(is_nan(bits, kind), NAN, np.where(bits & _SIGN, np.uint16(0), bits))
