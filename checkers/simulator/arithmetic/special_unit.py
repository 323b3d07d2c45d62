"""The special function unit, bit for bit: 2**x, log2, reciprocal, square root and its reciprocal.

The unit is of the kind that Oberman and Siu describe ("A High-Performance Area-Efficient
Multifunction Interpolator", 2005): the leading bits of the mantissa choose a segment, and in it
the result is the quadratic c0 + c1 x + c2 x**2 of the remaining bits x, cut off, not rounded. All
of it is exact but the square: its partial products below 2**-15 are left out, and a constant in c0
makes up for that.

The coefficients are those that an H200's results leave no choice about
(special_coefficients.py); with them every recorded result comes out to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from checkers.simulator.arithmetic import special_coefficients as coefficients

_SQUARE_BITS = 15
_MANTISSA = 23


def _squares() -> np.ndarray:
    """x**2 of the upper 15 bits of x in [0, 1), without the partial products below 2**-15."""
    x = np.arange(1 << _SQUARE_BITS)
    bit = [x >> (_SQUARE_BITS - place) & 1 for place in range(_SQUARE_BITS + 1)]
    total = np.zeros(len(x))
    for i in range(1, _SQUARE_BITS + 1):
        if 2 * i <= _SQUARE_BITS:
            total += bit[i] * 2.0 ** (-2 * i)
        for j in range(i + 1, _SQUARE_BITS + 2 - i):
            total += (bit[i] & bit[j]) * 2.0 ** (1 - i - j)
    return total


_SQUARES = _squares()


@dataclass(frozen=True)
class _Interpolator:
    """A function on an octave or two. c0, c1, c2: (segments,) float64, in units of the result's last
    place; the constant is in c0.  low_bits: how many bits of the mantissa are x."""

    c0: np.ndarray
    c1: np.ndarray
    c2: np.ndarray
    low_bits: int

    def __call__(self, place: np.ndarray) -> np.ndarray:
        """The quadratic at an integer of segment and x: (…) float64, exact."""
        segment = place >> self.low_bits
        low = place & ((1 << self.low_bits) - 1)
        line = self.c0[segment] + self.c1[segment] * np.ldexp(
            low.astype(np.float64), -self.low_bits
        )
        return line + self.c2[segment] * _SQUARES[low >> (self.low_bits - _SQUARE_BITS)]


def _interpolator(
    rows: Sequence[tuple[int, int, int]], units: tuple[float, float], constant: int, low_bits: int
) -> _Interpolator:
    """units: of the rows' c1 and c2; c0's is 1/4. constant: in units of 2**-17."""
    c0, c1, c2 = np.array(rows, np.float64).T
    return _Interpolator(c0 / 4 + constant * 2.0**-17, c1 * units[0], c2 * units[1], low_bits)


_EX2 = _interpolator(coefficients.EX2, (4, 1), 24456, 17)
_RCP = _interpolator(coefficients.RCP, (2, 1), 8090, 16)
_RSQRT = _interpolator(coefficients.RSQRT, (2, 1), 32756, 17)
_SQRT = _interpolator(coefficients.SQRT, (1, 0.5), 32764, 17)
_LG2 = _interpolator(coefficients.LG2, (8, 4), 6688, 17)


def _parts(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(mantissa bits without the leading one, exponent) of magnitudes, both int64; what is no
    positive finite number gives any."""
    mantissa, exponent = np.frexp(np.abs(np.asarray(a, np.float64)))
    bits = np.ldexp(mantissa, _MANTISSA + 1).astype(np.int64) & 0x7FFFFF
    return bits, exponent.astype(np.int64) - 1


def exponential(a: np.ndarray) -> np.ndarray:
    """2**a, float32 to float32; results below 2**-126 are zero."""
    a = np.asarray(a)
    # Fixed point with 23 bits of fraction; beyond 255 all is infinity or zero.
    fixed = (np.fmin(np.abs(a), np.float32(255)) * np.float32(2.0**23)).astype(np.int32)
    # A negative number is inverted, not negated, unless it is whole.
    whole = (fixed & 0x7FFFFF) == 0
    fixed = np.where(np.signbit(a), ~fixed + whole, fixed)
    exponent, place = fixed >> 23, fixed & 0x7FFFFF
    mantissa = _EX2(place).astype(np.int32)
    bits = ((np.clip(exponent, -127, 128) + 127) << 23) + mantissa
    bits = np.where(exponent < -126, 0, np.where(exponent > 127, 0x7F800000, bits))
    return np.where(np.isnan(a), np.float32(np.nan), bits.astype(np.int32).view(np.float32))


def _of_positive(
    a: np.ndarray, host: Callable[[np.ndarray], np.ndarray], result: np.ndarray
) -> np.ndarray:
    """``result`` for positive finite numbers, ``host`` of the others: zeros, infinities, NaNs."""
    ordinary = (a > 0) & np.isfinite(a)
    if np.count_nonzero(ordinary) == ordinary.size:
        return result.astype(np.float32)
    return np.where(ordinary, result, host(np.asarray(a, np.float64))).astype(np.float32)


def reciprocal(a: np.ndarray) -> np.ndarray:
    """1 / a, float32 to float32."""
    mantissa, exponent = _parts(a)
    value = np.ldexp(np.floor(_RCP(mantissa)) + 2.0**23, -24 - exponent)
    magnitude = _of_positive(np.abs(a), np.reciprocal, value)
    return np.copysign(magnitude, a)


def reciprocal_root(a: np.ndarray) -> np.ndarray:
    """1 / sqrt(a), float32 to float32."""
    mantissa, exponent = _parts(a)
    odd = exponent & 1
    value = np.floor(_RSQRT(mantissa + (odd << 23))) + 2.0**23
    value = np.where((mantissa == 0) & (odd == 0), 2.0**24, value)  # of powers of 4 it is exact
    value = np.ldexp(value, -24 - (exponent >> 1))
    return _of_positive(a, lambda x: np.reciprocal(np.sqrt(x)), value)


def square_root(a: np.ndarray) -> np.ndarray:
    """sqrt(a), float32 to float32."""
    mantissa, exponent = _parts(a)
    value = np.floor(_SQRT(mantissa + ((exponent & 1) << 23))) + 2.0**23
    return _of_positive(a, np.sqrt, np.ldexp(value, -23 + (exponent >> 1)))


def logarithm(a: np.ndarray) -> np.ndarray:
    """log2(a), float32 to float32: fixed point with 36 bits of fraction, a negative one inverted to
    give its magnitude, which is then cut to 24 bits."""
    mantissa, exponent = _parts(a)
    fixed = (exponent << 36) + np.ldexp(_LG2(mantissa), 36 - 24).astype(np.int64)
    fixed = np.where((mantissa == 0) & (exponent == 0), 0, fixed)
    value = np.ldexp(np.where(fixed < 0, fixed + 1, fixed).astype(np.float64), -36)
    bits = value.view(np.uint64) & ~np.uint64(0x1FFFFFFF)
    return _of_positive(a, np.log2, bits.view(np.float64))
