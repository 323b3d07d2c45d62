"""f64 arithmetic (PTX ISA 9.7.3). Round to nearest is the host's; what the host cannot do, fma and
the other rounding modes, goes through Python's integers, exactly and slowly: kernels for machine
learning hardly have any.

NaNs, as an H200 has them: an operand's is passed on, quiet; of several that of the second operand,
then the third, then the first. One that the operation makes is 0xfff8000000000000.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import isqrt

import numpy as np

_LOWEST = -1074  # exponent of the last place of a subnormal
_BITS = 53
_MAX = np.finfo(np.float64).max
_QUIET = np.uint64(1 << 51)
_NAN = np.uint64(0xFFF8000000000000)


def passing_nans(result: np.ndarray, first: np.ndarray, *others: np.ndarray) -> np.ndarray:
    """``result`` with each NaN the one that the operands give."""
    result = np.asarray(result)
    bad = np.isnan(result)
    if not np.count_nonzero(bad):
        return result
    passed = np.broadcast_to(_NAN, result.shape)
    for operand in (first, *reversed(others)):
        quiet = np.asarray(operand).view(np.uint64) | _QUIET
        passed = np.where(np.isnan(operand), quiet, passed)
    return np.where(bad, passed, result.view(np.uint64)).view(np.float64)


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


def _cancelled(host: np.ndarray, mode: str, same: np.ndarray) -> np.ndarray:
    """An exact zero of two terms with different signs is -0 when rounding down. same: where the
    terms have one sign."""
    return np.where((host == 0) & ~same, -0.0, host) if mode == "rm" else host


def add(a: np.ndarray, b: np.ndarray, mode: str = "rn") -> np.ndarray:
    """a + b."""
    result = a + b
    if mode != "rn":
        result = _cancelled(result, mode, np.signbit(a) == np.signbit(b))
        result = _exactly(lambda x, y: x + y, mode, result, a, b)
    return passing_nans(result, a, b)


def subtract(a: np.ndarray, b: np.ndarray, mode: str = "rn") -> np.ndarray:
    """a - b."""
    result = a - b
    if mode != "rn":
        result = _cancelled(result, mode, np.signbit(a) != np.signbit(b))
        result = _exactly(lambda x, y: x - y, mode, result, a, b)
    return passing_nans(result, a, b)


def multiply(a: np.ndarray, b: np.ndarray, mode: str = "rn") -> np.ndarray:
    """a * b."""
    result = a * b
    if mode != "rn":
        result = _exactly(lambda x, y: x * y, mode, result, a, b)
    return passing_nans(result, a, b)


def fused(a: np.ndarray, b: np.ndarray, c: np.ndarray, mode: str = "rn") -> np.ndarray:
    """a * b + c with one rounding."""
    # The product of finite operands may overflow in the host's sum, but not in the exact one.
    finite = np.isfinite(a) & np.isfinite(b)
    host = np.where(finite, np.where(np.isfinite(c), _zero_sum(a, b, c), c), a * b + c)
    same = (np.signbit(a) ^ np.signbit(b)) == np.signbit(c)
    host = _cancelled(host, mode, same)
    return passing_nans(_exactly(lambda x, y, z: x * y + z, mode, host, a, b, c), a, b, c)


def _zero_sum(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """What ``a * b + c`` is where it is exactly zero: a zero, -0 only where both terms are."""
    both = (np.signbit(a) ^ np.signbit(b)) & np.signbit(c)
    return np.where(both, -0.0, 0.0)


def divide(a: np.ndarray, b: np.ndarray, mode: str = "rn") -> np.ndarray:
    """a / b."""
    result = a / b
    if mode != "rn":
        result = _exactly(lambda x, y: x / y if y else None, mode, result, a, b)
    return passing_nans(result, a, b)


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

    result = np.sqrt(a)
    if mode != "rn":
        result = _exactly(root, mode, result, a)
    return passing_nans(result, a)


def negate(a: np.ndarray) -> np.ndarray:
    """-a; a NaN keeps its sign."""
    return passing_nans(-a, a)


def absolute(a: np.ndarray) -> np.ndarray:
    """The magnitude of a; a NaN keeps its sign."""
    return passing_nans(np.abs(a), a)
