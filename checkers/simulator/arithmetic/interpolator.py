"""The unit that computes a GPU's approximate functions, MUFU in SASS, bit for bit.

It looks up three integers for the segment that holds the argument, and evaluates

    (c0 + c1 * x + c2 * square(x)) >> drop        x: where in the segment, an integer

with a square that is cut short. docs/notes/special_functions.md tells how the tables were found,
data/special_functions.json holds them. The design: Oberman and Siu, "A High-Performance
Area-Efficient Multifunction Interpolator", ARITH 2005.

Each function takes and gives float32 arrays. As the instruction does, it takes subnormal
operands for zeros, and gives zeros for subnormal results.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

TABLES = Path(__file__).parent / "data" / "special_functions.json"

NAN = np.float32(np.uint32(0x7FFFFFFF).view(np.float32))
INFINITY = 0x7F800000
SIGN = 0x80000000
FRACTION = (1 << 23) - 1
BIAS = 127
TINY = np.float32(2.0**-126)  # the smallest normal value
POINT = 17  # bits of the place in a segment

# tanh: octaves from 2**-8 up to 2**3, each in 2**bits segments.
TANH_FIRST, TANH_END = -8, 3
TANH_BITS = np.array([0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 3])
TANH_STARTS = np.concatenate([[0], np.cumsum(1 << TANH_BITS)[:-1]])


@dataclass(frozen=True)
class Table:
    """base, slope, curve: (segments,) int64, scaled to one another, base with the rounding
    constant.  drop: bits of the sum that the result has no room for."""

    base: np.ndarray
    slope: np.ndarray
    curve: np.ndarray
    drop: int

    def sum(self, segment: np.ndarray, x: np.ndarray, squared: np.ndarray) -> np.ndarray:
        """The interpolated value, int64."""
        value = self.slope[segment]
        value *= x
        value += self.base[segment]
        value += self.curve[segment] * squared
        return value

    def at(self, fraction: np.ndarray) -> np.ndarray:
        """The value at a fraction, int64: segment and 17 bits of place; ``drop`` bits cut off."""
        x = fraction & ((1 << POINT) - 1)
        return self.sum(fraction >> POINT, x, squares()[x]) >> self.drop


def square(x: np.ndarray) -> np.ndarray:
    """x * x / 2**19 of 17-bit integers as the unit's multiplier has it: the partial products are
    cut off below 2**18, then their sum is halved."""
    total = np.zeros_like(x)
    for bit in range(POINT):
        total += np.where((x >> bit) & 1, x >> (POINT + 1 - bit), 0)
    return total >> 1


@cache
def squares() -> np.ndarray:
    """(2**17,) int64: ``square`` of every integer."""
    return square(np.arange(1 << POINT))


@cache
def table(name: str) -> Table:
    """The table of one function."""
    entry = json.loads(TABLES.read_text())["functions"][name]
    rows = np.array(entry["rows"], np.int64) << np.array(entry["scales"])
    return Table(rows[:, 0] + entry["rounding"], rows[:, 1], rows[:, 2], entry["drop"])


def bits_of(a: np.ndarray) -> np.ndarray:
    """The bits of float32 values, as int64."""
    return np.asarray(a, np.float32).view(np.uint32).astype(np.int64)


def floats(bits: np.ndarray) -> np.ndarray:
    """float32 values of bits in int64."""
    return np.asarray(bits).astype(np.uint32).view(np.float32)


def where_nan(a: np.ndarray, result: np.ndarray) -> np.ndarray:
    """``result``, but NaN where ``a`` is."""
    bad = np.isnan(a)
    return np.where(bad, NAN, result) if np.count_nonzero(bad) else result


def normalized(total: np.ndarray, point: int) -> np.ndarray:
    """Bits of the float32 that total / 2**point is cut off to, total >= 0."""
    # A float64 holds 53 bits exactly; frexp gives total = m * 2**exponent, m from 1/2 to 1.
    exponent = np.frexp(total.astype(np.float64))[1].astype(np.int64)
    surplus = exponent - 24
    mantissa = np.where(
        surplus > 0, total >> np.maximum(surplus, 0), total << np.maximum(-surplus, 0)
    )
    bits = mantissa + ((exponent + (BIAS - 2 - point)) << 23)
    return np.where(total == 0, 0, bits)


def reciprocal(a: np.ndarray) -> np.ndarray:
    """MUFU.RCP: 1 / a, in 128 segments of 16 bits."""
    bits = bits_of(a)
    exponent = (bits >> 23) & 0xFF
    fraction = bits & FRACTION
    x = fraction & 0xFFFF
    values = table("rcp")
    mantissa = values.sum(fraction >> 16, x, squares()[x << 1]) >> values.drop
    result = mantissa + ((2 * BIAS - 2 - exponent) << 23)
    result = np.where(exponent == 0, INFINITY, np.where(result <= FRACTION, 0, result))
    return where_nan(a, floats(result | (bits & SIGN)))


def exponential(a: np.ndarray) -> np.ndarray:
    """MUFU.EX2: 2 to the a, by the fraction of a's fixed-point form with 23 bits, cut off."""
    magnitude = np.fmin(np.abs(a), np.float32(128)).astype(np.float64)
    fixed = (magnitude * 2.0**23).astype(np.int64)
    negative = np.asarray(a) < 0
    # The complement stands for a negative number, but one without a fraction is negated.
    whole = (fixed & FRACTION) == 0
    fixed = np.where(negative, ~fixed + whole, fixed)
    result = table("ex2").at(fixed & FRACTION) + (((fixed >> 23) + (BIAS - 1)) << 23)
    return where_nan(a, floats(np.where(result <= FRACTION, 0, result)))


def _halved(bits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(exponent // 2, segment and place) for the roots, which tabulate [1, 4)."""
    exponent = ((bits >> 23) & 0xFF) - BIAS
    return exponent >> 1, (bits & FRACTION) | ((exponent & 1) << 23)


def _of_positive(
    a: np.ndarray, result: np.ndarray, at_zero: np.ndarray | np.float32, at_infinity: np.float32
) -> np.ndarray:
    """``result`` with the values at zeros and subnormals, at infinity, and NaN below zero."""
    a = np.asarray(a, np.float32)
    odd = ~((a >= TINY) & (a < np.inf))
    if not np.count_nonzero(odd):
        return result
    ends = np.where(np.abs(a) < TINY, at_zero, np.where(a == np.inf, at_infinity, NAN))
    return np.where(odd, ends, result)


def reciprocal_root(a: np.ndarray) -> np.ndarray:
    """MUFU.RSQ: 1 / sqrt(a), in 64 segments for each of [1, 2) and [2, 4)."""
    exponent, fraction = _halved(bits_of(a))
    mantissa = np.where(fraction == 0, 1 << 24, table("rsqrt").at(fraction))
    result = floats(mantissa + ((BIAS - 2 - exponent) << 23))
    return _of_positive(a, result, np.copysign(np.float32(np.inf), a), np.float32(0))


def root(a: np.ndarray) -> np.ndarray:
    """MUFU.SQRT: sqrt(a), in segments as 1 / sqrt(a)."""
    exponent, fraction = _halved(bits_of(a))
    result = floats(table("sqrt").at(fraction) + ((BIAS - 1 + exponent) << 23))
    return _of_positive(a, result, np.copysign(np.float32(0), a), np.float32(np.inf))


def logarithm(a: np.ndarray) -> np.ndarray:
    """MUFU.LG2: the logarithm to base 2, a fixed-point number with 36 bits of fraction."""
    bits = bits_of(a)
    exponent, fraction = ((bits >> 23) & 0xFF) - BIAS, bits & FRACTION
    fixed = np.where(bits == BIAS << 23, 0, table("lg2").at(fraction)) + (exponent << 36)
    negative = fixed < 0
    fixed = np.where(negative, ~fixed, fixed)
    result = floats(normalized(fixed, 36) | np.where(negative, SIGN, 0))
    return _of_positive(a, result, np.float32(-np.inf), np.float32(np.inf))


def sine(turns: np.ndarray, quarter: int = 0) -> np.ndarray:
    """MUFU.SIN of an angle in turns; with quarter=1 MUFU.COS. One quadrant is tabulated, and
    entered with 23 bits of a quarter turn."""
    a = np.asarray(turns, np.float32)
    fixed = (np.abs(np.fmod(a, np.float32(1))) * np.float32(2.0**25)).astype(np.int64)
    quadrant = (fixed >> 23) + quarter
    fraction = fixed & FRACTION
    fraction = np.where(quadrant & 1, fraction ^ FRACTION, fraction)
    negative = (quadrant >> 1) & 1
    if not quarter:
        negative = negative ^ np.signbit(a)
    result = floats(normalized(table("sin").at(fraction), 37) | (negative << 31))
    return np.where(np.isfinite(a), result, NAN)


def cosine(turns: np.ndarray) -> np.ndarray:
    """MUFU.COS of an angle in turns."""
    return sine(turns, quarter=1)


def hyperbolic_tangent(a: np.ndarray) -> np.ndarray:
    """MUFU.TANH: itself below 2**-8, 1 from 8 on; between, each octave has segments of its own."""
    bits = bits_of(a)
    exponent, fraction = ((bits >> 23) & 0xFF) - BIAS, bits & FRACTION
    octave = np.clip(exponent, TANH_FIRST, TANH_END - 1) - TANH_FIRST
    below = 23 - TANH_BITS[octave]  # bits of the fraction that don't choose the segment
    x = (fraction & ((1 << below) - 1)) >> (below - POINT)
    values = table("tanh")
    total = values.sum(TANH_STARTS[octave] + (fraction >> below), x, squares()[x])
    result = np.where(exponent < TANH_END, normalized(total, 40), BIAS << 23)
    result = np.where(exponent < TANH_FIRST, bits, result | (bits & SIGN))
    return where_nan(a, floats(result))
