"""f64 arithmetic (PTX ISA 9.7.3). Round to nearest is the host's; what the host cannot do, fma and
the other rounding modes, goes through Python's integers, exactly and slowly: kernels for machine
learning hardly have any.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import isqrt

import numpy as np

_LOWEST = -1074  # exponent of the last place of a subnormal
_BITS = 53
_MAX = np.finfo(np.float64).max


def _to_integer(value: Fraction, mode: str, negative: bool) -> int:
    """A magnitude to an integer; the mode is that of the signed value."""
    whole, rest = divmod(value.numerator, value.denominator)
    if mode == "rn":
        twice = 2 * rest
        up = twice > value.denominator or (twice == value.denominator and whole & 1)
    else:
        up = rest != 0 and mode == ("rm" if negative else "rp")
    return whole + bool(up)


def nearest_double(value: Fraction, mode: str) -> float:
    """The float64 that ``value``, not zero, rounds to."""
    negative, magnitude = value < 0, abs(value)
    # Of the leading bit, or one too high; then of the last place kept.
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** exponent:
        exponent -= 1
    last = max(exponent - (_BITS - 1), _LOWEST)
    steps = _to_integer(magnitude / Fraction(2) ** last, mode, negative)
    overflows = steps.bit_length() + last > 1024
    if overflows:
        toward_zero = mode == "rz" or mode == ("rp" if negative else "rm")
        result = float(_MAX) if toward_zero else float("inf")
    else:
        result = float(np.ldexp(np.float64(steps), last))
    return -result if negative else result


def _exactly(
    exact: Callable[..., Fraction | None], mode: str, host: np.ndarray, *operands: np.ndarray
) -> np.ndarray:
    """``exact`` at each place where operands and exact result are finite and it is not zero;
    ``host``, the host's result, elsewhere."""
    operands = np.broadcast_arrays(*operands)
    result = np.array(np.broadcast_to(host, operands[0].shape), np.float64)
    usable = np.logical_and.reduce([np.isfinite(operand) for operand in operands])
    for place in zip(*np.nonzero(np.atleast_1d(usable)), strict=True):
        index = place if result.ndim else ()
        value = exact(*(Fraction(float(operand[index])) for operand in operands))
        if value:
            result[index] = nearest_double(value, mode)
    return result


def _cancelled(result: np.ndarray, mode: str, same: np.ndarray) -> np.ndarray:
    """An exact zero of two terms with different signs is -0 when rounding down. same: where the
    terms have one sign."""
    if mode != "rm":
        return result
    return np.where((result == 0) & ~same, -0.0, result)


def add(a: np.ndarray, b: np.ndarray, mode: str = "rn") -> np.ndarray:
    """a + b."""
    if mode == "rn":
        return a + b
    result = _exactly(lambda x, y: x + y, mode, a + b, a, b)
    return _cancelled(result, mode, np.signbit(a) == np.signbit(b))


def subtract(a: np.ndarray, b: np.ndarray, mode: str = "rn") -> np.ndarray:
    """a - b."""
    return a - b if mode == "rn" else add(a, -b, mode)


def multiply(a: np.ndarray, b: np.ndarray, mode: str = "rn") -> np.ndarray:
    """a * b."""
    return a * b if mode == "rn" else _exactly(lambda x, y: x * y, mode, a * b, a, b)


def fused(a: np.ndarray, b: np.ndarray, c: np.ndarray, mode: str = "rn") -> np.ndarray:
    """a * b + c with one rounding."""
    # The product of finite operands may overflow in the host's sum, but not in the exact one.
    host = np.where(np.isfinite(a) & np.isfinite(b) & np.isfinite(c), _zero_sum(a, b, c), a * b + c)
    result = _exactly(lambda x, y, z: x * y + z, mode, host, a, b, c)
    same = (np.signbit(a) ^ np.signbit(b)) == np.signbit(c)
    return _cancelled(result, mode, same)


def _zero_sum(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """What ``a * b + c`` is where it is exactly zero: a zero, -0 only where both terms are."""
    both = (np.signbit(a) ^ np.signbit(b)) & np.signbit(c)
    return np.where(both, -0.0, 0.0)


def divide(a: np.ndarray, b: np.ndarray, mode: str = "rn") -> np.ndarray:
    """a / b."""
    if mode == "rn":
        return a / b
    return _exactly(lambda x, y: x / y if y else None, mode, a / b, a, b)


def reciprocal(a: np.ndarray, mode: str = "rn") -> np.ndarray:
    """1 / a."""
    return divide(np.float64(1), a, mode)


def square_root(a: np.ndarray, mode: str = "rn") -> np.ndarray:
    """The square root of a."""

    def root(x: Fraction) -> Fraction | None:
        if x <= 0:
            return None
        # 2**-2k * x with an integer root of 64 bits or more, and a sticky bit below.
        shift = 1100 if x < 1 else 70
        scaled = x * Fraction(4) ** shift
        whole = scaled.numerator // scaled.denominator
        floor = isqrt(whole)
        exact = scaled.denominator == 1 and floor * floor == whole
        return (floor + (Fraction(0) if exact else Fraction(1, 2))) / Fraction(2) ** shift

    return np.sqrt(a) if mode == "rn" else _exactly(root, mode, np.sqrt(a), a)
