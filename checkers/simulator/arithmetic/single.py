"""f32 arithmetic (PTX ISA 9.7.3): IEEE 754 in every rounding mode, .ftz, .sat, canonical NaNs.

Arrays are float32. The common case, round to nearest with no modifier, is one NumPy call and a
check for NaNs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from checkers.simulator.arithmetic.exact import odd_fused, odd_sum
from checkers.simulator.arithmetic.formats import FORMATS, encode

NAN = np.uint32(0x7FFFFFFF).view(np.float32)
TINY = np.float32(2.0**-126)  # the smallest normal value

F32 = FORMATS["f32"]

_DISCARDED = np.uint64(0x1FFFFFFF)  # of a float64's bits, when it is rounded to float32
_HALFWAY = np.uint64(0x10000000)
_SMALL = np.float32(2.0**-125)  # subnormal, with room for rounding up to 2**-126


def canonical(values: np.ndarray) -> np.ndarray:
    """The same with each NaN the canonical one."""
    bad = np.isnan(values)
    return np.where(bad, NAN, values) if np.count_nonzero(bad) else values


def flush(values: np.ndarray) -> np.ndarray:
    """.ftz: subnormals become zero of the same sign."""
    small = np.abs(values) < TINY
    if not np.count_nonzero(small):
        return values
    return np.where(small, np.copysign(np.float32(0), values), values)


def saturate(values: np.ndarray) -> np.ndarray:
    """.sat: into [+0, 1]; NaN becomes +0."""
    return np.minimum(np.where(values > 0, values, np.float32(0)), np.float32(1))


def rounded(values: np.ndarray, mode: str) -> np.ndarray:
    """float64, exact or rounded to odd, to float32 in any mode; NaN becomes the canonical one."""
    if mode == "rn":
        return canonical(np.asarray(values, np.float64).astype(np.float32))
    return encode(values, F32, mode).view(np.float32)


# --- the five operations -----------------------------------------------------------------------


def add(a: np.ndarray, b: np.ndarray, mode: str = "rn") -> np.ndarray:
    """a + b."""
    if mode == "rn":
        return canonical(a + b)
    result = rounded(odd_sum(np.asarray(a, np.float64), np.asarray(b, np.float64)), mode)
    if mode == "rm":  # an exact zero of operands with different signs is -0 when rounding down
        cancelled = (a == -b) & (np.signbit(a) != np.signbit(b))
        result = np.where(cancelled, np.float32(-0.0), result)
    return result


def subtract(a: np.ndarray, b: np.ndarray, mode: str = "rn") -> np.ndarray:
    """a - b."""
    return canonical(a - b) if mode == "rn" else add(a, -b, mode)


def multiply(a: np.ndarray, b: np.ndarray, mode: str = "rn") -> np.ndarray:
    """a * b."""
    if mode == "rn":
        return canonical(a * b)
    return rounded(np.asarray(a, np.float64) * np.asarray(b, np.float64), mode)


def fused(a: np.ndarray, b: np.ndarray, c: np.ndarray, mode: str = "rn") -> np.ndarray:
    """a * b + c with one rounding."""
    product = np.asarray(a, np.float64) * np.asarray(b, np.float64)
    if mode == "rn":
        total = np.asarray(product + c)
        result = total.astype(np.float32)
        # The rounding of the sum to 53 bits shows after that to 24 only where it made or unmade a
        # tie, or where the result is subnormal.
        doubtful = np.count_nonzero((total.view(np.uint64) & _DISCARDED) == _HALFWAY)
        if not doubtful:
            small = np.abs(result) < _SMALL
            doubtful = np.count_nonzero(small) and np.count_nonzero(small & (total != 0))
        if doubtful:
            result = odd_sum(product, np.asarray(c, np.float64)).astype(np.float32)
        return canonical(result)
    result = rounded(odd_sum(product, np.asarray(c, np.float64)), mode)
    if mode == "rm":
        zero = (product == -np.asarray(c, np.float64)) & (np.signbit(product) != np.signbit(c))
        result = np.where(zero, np.float32(-0.0), result)
    return result


def _corrected(nearest: np.ndarray, rest: np.ndarray, mode: str, finite: np.ndarray) -> np.ndarray:
    """From the nearest float32 to that of another mode. rest: of the sign of exact - nearest.
    finite: where the exact result is."""
    up, down = np.float32(np.inf), np.float32(-np.inf)
    if mode == "rz":
        wrong = (rest != 0) & ((rest > 0) != (nearest > 0))
        toward: np.ndarray = np.zeros_like(nearest)
    elif mode == "rm":
        wrong, toward = rest < 0, np.full_like(nearest, down)
    else:
        wrong, toward = rest > 0, np.full_like(nearest, up)
    return np.where(wrong & finite, np.nextafter(nearest, toward), nearest)


def divide(a: np.ndarray, b: np.ndarray, mode: str = "rn") -> np.ndarray:
    """a / b."""
    nearest = np.asarray(a / b)
    if mode == "rn":
        return canonical(nearest)
    wide_a, wide_b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    # Exact: nearest * b has 48 bits, and the remainder of a division to nearest is a float.
    rest = (wide_a - nearest.astype(np.float64) * wide_b) * np.sign(wide_b)
    finite = np.isfinite(a) & np.isfinite(b) & (b != 0)
    # A quotient rounded to zero has lost its sign in the comparison with rest.
    result = _corrected(nearest, rest, mode, finite)
    return canonical(np.where(result == 0, np.copysign(result, nearest), result))


def square_root(a: np.ndarray, mode: str = "rn") -> np.ndarray:
    """The square root of a."""
    nearest = np.asarray(np.sqrt(a))
    if mode == "rn":
        return canonical(nearest)
    rest = np.asarray(a, np.float64) - np.square(nearest, dtype=np.float64)
    return canonical(_corrected(nearest, rest, mode, np.isfinite(a) & (a > 0)))


def reciprocal(a: np.ndarray, mode: str = "rn") -> np.ndarray:
    """1 / a."""
    return divide(np.float32(1), a, mode)


# --- with modifiers ----------------------------------------------------------------------------


# The operations whose results are rounded near the subnormals, before that: float64, exact or so
# near that rounding to 24 bits gives what the exact value would.
EXACT: dict[str, Callable[..., np.ndarray]] = {
    "mul": lambda a, b: np.asarray(a, np.float64) * np.asarray(b, np.float64),
    "fma": odd_fused,
    "div": lambda a, b: np.asarray(a, np.float64) / np.asarray(b, np.float64),
}


def modified(
    function: Callable[..., np.ndarray],
    *,
    ftz: bool = False,
    sat: bool = False,
    exact: Callable[..., np.ndarray] | None = None,
    mode: str = "rn",
) -> Callable[..., np.ndarray]:
    """``function`` of float32 arrays with .ftz on operands and result, and .sat on the result.

    exact: one of ``EXACT``, where ``function`` rounds in ``mode``: a result is flushed if it is
    below the normal values when rounded to 24 bits, however small (H200).
    """
    if not ftz:
        return (lambda *operands: saturate(function(*operands))) if sat else function

    def flushed(*operands: np.ndarray) -> np.ndarray:
        operands = tuple(flush(operand) for operand in operands)
        result = flush(function(*operands))
        if exact is not None:
            smallest = np.abs(result) == TINY
            if np.count_nonzero(smallest):
                # 2**64 times as large, where there is room below.
                large = rounded(exact(*operands) * 2.0**64, mode)
                gone = smallest & (np.abs(large) < TINY * np.float32(2.0**64))
                result = np.where(gone, np.copysign(np.float32(0), result), result)
        return saturate(result) if sat else result

    return flushed
