"""The special function unit, bit for bit: 2**x, log2, sine, cosine, tanh, reciprocal, square root
and the reciprocal of that.

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
_FRACTION = (1 << _MANTISSA) - 1
_OCTAVE = np.int32(1 << _MANTISSA)


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
    place; the constant is in c0, and c1 is of x as an integer.  low_bits: how many bits x has."""

    c0: np.ndarray
    c1: np.ndarray
    c2: np.ndarray
    low_bits: int

    def __call__(self, place: np.ndarray) -> np.ndarray:
        """The quadratic at the integer of segment and x: float64, exact."""
        segment = place >> self.low_bits
        low = place & ((1 << self.low_bits) - 1)
        square = _SQUARES.take(low >> (self.low_bits - _SQUARE_BITS))
        line = self.c0.take(segment) + self.c1.take(segment) * low.astype(np.float64)
        return line + self.c2.take(segment) * square


def _interpolator(
    rows: Sequence[tuple[int, int, int]],
    units: tuple[float, float, float],
    constant: int,
    low_bits: int,
) -> _Interpolator:
    """units: of the rows' c0, c1 and c2. constant: in units of 2**-17."""
    c0, c1, c2 = np.array(rows, np.float64).T * np.array(units)[:, None]
    return _Interpolator(c0 + constant * 2.0**-17, c1 * 2.0**-low_bits, c2, low_bits)


_EX2 = _interpolator(coefficients.EX2, (0.25, 4, 1), 24456, 17)
_RCP = _interpolator(coefficients.RCP, (0.25, 2, 1), 8092, 16)
_RSQRT = _interpolator(coefficients.RSQRT, (0.25, 2, 1), 32766, 17)
_SQRT = _interpolator(coefficients.SQRT, (0.25, 1, 0.5), 32767, 17)
_SIN = _interpolator(coefficients.SIN, (0.5, 16, 4), 0, 17)
_LG2 = _interpolator(coefficients.LG2, (0.25, 8, 4), 6696, 17)


def _parts(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(mantissa bits without the leading one, exponent) of magnitudes, both int64; what is no
    finite number but zero gives any."""
    mantissa, exponent = np.frexp(np.abs(np.asarray(a, np.float64)))
    bits = np.ldexp(mantissa, _MANTISSA + 1).astype(np.int64) & _FRACTION
    return bits, exponent.astype(np.int64) - 1


def _plain_parts(a: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """As ``_parts``, int32, where all are positive and have results that are normal numbers; None
    where any is not."""
    bits = np.asarray(a).view(np.int32)
    # Biased exponents 1 to 252; a sign makes the integer negative.
    odd = (bits < 0x00800000) | (bits >= 0x7E800000)
    if np.count_nonzero(odd):
        return None
    return bits & _FRACTION, (bits >> _MANTISSA) - 127


def _assembled(exponent: np.ndarray, places: np.ndarray) -> np.ndarray:
    """float32 of biased exponents and mantissas; a mantissa of 2**23 is the next exponent's 0."""
    return ((exponent << _MANTISSA) + places.astype(np.int32)).view(np.float32)


def exponential(a: np.ndarray) -> np.ndarray:
    """2**a, float32 to float32; results below 2**-126 are zero."""
    a = np.asarray(a)
    size = np.abs(a)
    # Fixed point with 23 bits of fraction; beyond 255 all is infinity or zero.
    fixed = (np.fmin(size, np.float32(255)) * np.float32(2.0**23)).astype(np.int32)
    whole = (fixed & _FRACTION) == 0
    # A negative number is inverted, not negated, unless it is whole.
    sign = a.view(np.int32) >> 31
    fixed = fixed ^ sign
    if np.count_nonzero(whole):
        fixed = fixed - sign * whole
    places = _EX2(fixed & _FRACTION)
    exponent = (fixed >> _MANTISSA) + 127
    rare = ~(size < np.float32(126))
    if not np.count_nonzero(rare):
        return _assembled(exponent, places)
    result = _assembled(np.clip(exponent, 0, 255), places)
    result = np.where(exponent < 1, np.float32(0), result)
    result = np.where(exponent > 254, np.float32(np.inf), result)
    return np.where(np.isnan(a), np.float32(np.nan), result)


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
    plain = _plain_parts(np.abs(a))
    if plain is not None:
        return np.copysign(_assembled(126 - plain[1], _RCP(plain[0])), a)
    mantissa, exponent = _parts(a)
    value = np.ldexp(np.floor(_RCP(mantissa)) + 2.0**23, -24 - exponent)
    magnitude = _of_positive(np.abs(a), np.reciprocal, value)
    return np.copysign(magnitude, a)


def reciprocal_root(a: np.ndarray) -> np.ndarray:
    """1 / sqrt(a), float32 to float32."""
    plain = _plain_parts(a)
    if plain is not None:
        mantissa, exponent = plain
        even = (exponent & 1) == 0
        places = _RSQRT(np.where(even, mantissa, mantissa + _OCTAVE))
        places = np.where(even & (mantissa == 0), 2.0**23, places)
        return _assembled(126 - (exponent >> 1), places)
    mantissa, exponent = _parts(a)
    odd = exponent & 1
    value = np.floor(_RSQRT(mantissa + (odd << 23))) + 2.0**23
    value = np.where((mantissa == 0) & (odd == 0), 2.0**24, value)  # of powers of 4 it is exact
    value = np.ldexp(value, -24 - (exponent >> 1))
    return _of_positive(a, lambda x: np.reciprocal(np.sqrt(x)), value)


def square_root(a: np.ndarray) -> np.ndarray:
    """sqrt(a), float32 to float32."""
    plain = _plain_parts(a)
    if plain is not None:
        mantissa, exponent = plain
        places = _SQRT(mantissa + ((exponent & 1) << _MANTISSA))
        return _assembled(127 + (exponent >> 1), places)
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


def _circular(turns: np.ndarray, quarters: int) -> np.ndarray:
    """The sine of an angle in turns and ``quarters`` more: 23 bits of a quarter turn enter the table
    of one quadrant."""
    turns = np.asarray(turns)
    fixed = (np.abs(np.fmod(turns, np.float32(1))) * np.float32(2.0**25)).astype(np.int32)
    quadrant, place = (fixed >> _MANTISSA) + quarters, fixed & _FRACTION
    value = _SIN(np.where(quadrant & 1, place ^ _FRACTION, place)) * 2.0**-24
    value = (value.view(np.uint64) & ~np.uint64(0x1FFFFFFF)).view(np.float64).astype(np.float32)
    value = np.where(quadrant & 2, -value, value)
    return np.where(np.isfinite(turns), value, np.float32(np.nan))


def sine(turns: np.ndarray) -> np.ndarray:
    """The sine of an angle in turns, float32 to float32."""
    value = _circular(np.abs(turns), 0)
    return np.where(np.signbit(turns), -value, value)


def cosine(turns: np.ndarray) -> np.ndarray:
    """The cosine of an angle in turns, float32 to float32."""
    return _circular(np.abs(turns), 1)


# --- tanh: octaves of different numbers of segments --------------------------------------------

_TANH_FIRST = -8  # exponent of the first octave; below, a number is its own tanh
_TANH_BITS = np.array([n.bit_length() - 1 for n in coefficients.TANH_SEGMENTS])
_TANH_START = np.concatenate([[0], np.cumsum(coefficients.TANH_SEGMENTS)[:-1]])
_TANH = np.array(coefficients.TANH, np.float64).T


def tangent(a: np.ndarray) -> np.ndarray:
    """tanh(a), float32 to float32: in units of 2**-24, cut to 24 bits."""
    a = np.asarray(a)
    bits = a.view(np.int32)
    octave = ((bits >> _MANTISSA) & 0xFF) - (127 + _TANH_FIRST)
    inside = np.clip(octave, 0, len(_TANH_BITS) - 1)
    segment_bits = _TANH_BITS.take(inside).astype(np.int32)
    segment = _TANH_START.take(inside) + ((bits & _FRACTION) >> (_MANTISSA - segment_bits))
    x = (bits << segment_bits) & _FRACTION & ~0x3F  # the unit's x has 17 bits
    c0, c1, c2 = (row.take(segment) for row in _TANH)
    value = c0 + c1 * (x * 2.0**-_MANTISSA) + c2 * _SQUARES.take(x >> (_MANTISSA - _SQUARE_BITS))
    cut = ((value * 2.0**-24).view(np.uint64) & ~np.uint64(0x1FFFFFFF)).view(np.float64)
    magnitude = np.where(octave >= len(_TANH_BITS), np.float32(1), cut.astype(np.float32))
    result = np.where(octave < 0, a, np.copysign(magnitude, a))
    return np.where(np.isnan(a), np.float32(np.nan), result)
