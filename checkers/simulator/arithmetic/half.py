"""f16 and bf16 arithmetic (PTX ISA 9.7.4): IEEE 754 to nearest, .ftz, .sat, .relu, canonical NaNs.

Arrays hold raw bits, uint16. Values are widened to float32, which is exact, and rounded once: for
sums and products of 11-bit mantissas the rounding to float32's 24 bits in between cannot be seen
(24 >= 2 * 11 + 2), but for subnormal bf16 products, which have no more room in float32.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from checkers.simulator.arithmetic.exact import odd_fused
from checkers.simulator.arithmetic.formats import FORMATS, encode

NAN = np.uint16(0x7FFF)  # both formats'
# The NaN of a tensor copy's OOB-NaN fill. The manual gives no pattern.
OUT_OF_BOUNDS = np.uint16(0x7FF7)

_SIGN = np.uint16(0x8000)
_LOW_HALF = np.uint32(0x7FFF)
_ONE = np.uint32(1)
_SIXTEEN = np.uint32(16)


def widen(bits: np.ndarray, kind: str) -> np.ndarray:
    """float32 values of raw bits of ``kind`` "f16" or "bf16"; a NaN keeps its bits on top."""
    if kind == "bf16":
        return (np.asarray(bits).astype(np.uint32) << _SIXTEEN).view(np.float32)
    return np.asarray(bits).view(np.float16).astype(np.float32)


def narrow(values: np.ndarray, kind: str) -> np.ndarray:
    """Raw bits, uint16, of float32 values rounded to nearest even; NaN becomes 0x7fff."""
    values = np.asarray(values)
    bad = np.isnan(values)
    if kind == "bf16":
        word = values.view(np.uint32)
        upper = word >> _SIXTEEN
        # Half a last place, less one where the result would be odd already.
        bits = ((word + _LOW_HALF + (upper & _ONE)) >> _SIXTEEN).astype(np.uint16)
    else:
        bits = values.astype(np.float16).view(np.uint16)
    return np.where(bad, NAN, bits) if np.count_nonzero(bad) else bits


def flush(bits: np.ndarray, kind: str = "f16") -> np.ndarray:
    """.ftz: subnormals become zero of the same sign."""
    field = np.uint16(0x7C00 if kind == "f16" else 0x7F80)
    return np.where(bits & field, bits, bits & _SIGN)


def is_nan(bits: np.ndarray, kind: str) -> np.ndarray:
    """Where raw bits are a NaN."""
    return (bits & ~_SIGN) > np.uint16(FORMATS[kind].infinity or 0)


# --- operations: raw bits and the kind in, raw bits out ----------------------------------------


def _lifted(
    function: Callable[..., np.ndarray],
) -> Callable[..., np.ndarray]:
    def operate(kind: str, *operands: np.ndarray) -> np.ndarray:
        return narrow(function(*(widen(operand, kind) for operand in operands)), kind)

    return operate


add = _lifted(np.add)
subtract = _lifted(np.subtract)


def multiply(kind: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a * b."""
    wide_a, wide_b = widen(a, kind), widen(b, kind)
    product = wide_a * wide_b
    if kind == "bf16":
        tiny = (np.abs(product) < np.float32(2.0**-125)) & (wide_a != 0) & (wide_b != 0)
        if np.count_nonzero(tiny):
            exact = np.multiply(wide_a, wide_b, dtype=np.float64)
            return np.where(tiny, encode(exact, FORMATS[kind]), narrow(product, kind))
    return narrow(product, kind)


def fused(kind: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c with one rounding."""
    wide = (widen(operand, kind) for operand in (a, b, c))
    return encode(odd_fused(*wide), FORMATS[kind])


def fused_in_bounds(kind: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """fma.oob: +0 where a or b is the NaN that a tensor copy fills with outside of the tensor."""
    outside = (a == OUT_OF_BOUNDS) | (b == OUT_OF_BOUNDS)
    return np.where(outside, np.uint16(0), fused(kind, a, b, c))


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


def modified(
    function: Callable[..., np.ndarray],
    kind: str,
    *,
    ftz: bool = False,
    sat: bool = False,
    relu: bool = False,
) -> Callable[..., np.ndarray]:
    """``function`` of (kind, *raw bits) with that kind, and the modifiers."""

    def operate(*operands: np.ndarray) -> np.ndarray:
        if ftz:
            operands = tuple(flush(operand, kind) for operand in operands)
        result = function(kind, *operands)
        if ftz:
            result = flush(result, kind)
        if relu:
            result = rectify(kind, result)
        return saturate(kind, result) if sat else result

    return operate
