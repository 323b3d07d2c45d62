"""Sums and products without error, as the pair that IEEE 754 hosts can give: a float64 and what it
lacks. From such a pair a result is rounded once, in any mode, to any narrower format.
"""

from __future__ import annotations

import numpy as np


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """float64 ``a + b`` rounded to nearest, and the error: their sum is exact (Knuth)."""
    total = a + b
    rest = total - a
    return total, (a - (total - rest)) + (b - rest)


def to_odd(value: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """``value + rest`` rounded to odd: of the two float64 around an inexact sum, that whose last
    bit is one. Rounding this again, to at most 51 bits and in any mode, gives what rounding the
    exact sum once would have given (Boldo and Melquiond).

    value: float64, ``rest`` at most half a last place of it. Infinities and NaNs pass.
    """
    inexact = rest != 0  # also where rest is a NaN, next to an infinity
    if not np.count_nonzero(inexact):
        return value
    bits = np.asarray(value).view(np.int64)
    move = inexact & ((bits & 1) == 0) & np.isfinite(value)
    # Bit patterns of floats rise with the magnitude.
    step = np.where((rest > 0) == (value > 0), 1, -1)
    return (bits + np.where(move, step, 0)).view(np.float64)


def odd_sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a + b`` of two float64, rounded to odd."""
    return to_odd(*two_sum(a, b))


def odd_fused(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """``a * b + c`` as float64 rounded to odd, for operands that are float32 values: the product
    of two 24-bit mantissas is exact in float64, in exponent too."""
    product = np.asarray(a, np.float64) * np.asarray(b, np.float64)
    return odd_sum(product, np.asarray(c, np.float64))
