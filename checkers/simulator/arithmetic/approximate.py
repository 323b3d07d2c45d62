"""The approximate functions (PTX ISA 9.7.3.8, 9.7.3.13 to 9.7.3.22, 9.7.4.9, 9.7.4.10).

They are those of the hardware bit for bit (special_unit.py; an H200's): the instruction that the
unit has, and around it what the compiler adds for subnormal operands and results. Only
rsqrt.approx.f64 is the host's, a square root and a reciprocal that are each correctly rounded.

Values at zeros, infinities and NaNs are those of the manual's tables.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from checkers.simulator.arithmetic import special_unit
from checkers.simulator.arithmetic.single import TINY, canonical, flush, modified, multiply

# 1 / (2 pi): sine and cosine are computed from the angle in turns, rounded to zero.
_TURNS = np.float32(0.15915494)


def reciprocal_root_of_double(a: np.ndarray) -> np.ndarray:
    """1 / sqrt(a) of float64, on the host."""
    return np.reciprocal(np.sqrt(a))


def _exponential(a: np.ndarray) -> np.ndarray:
    """ex2 with subnormal results: they are squares of 2**(a / 2)."""
    scaled = a < np.float32(-126)
    if not np.count_nonzero(scaled):
        return special_unit.exponential(a)
    root = special_unit.exponential(np.where(scaled, a * np.float32(0.5), a))
    return np.where(scaled, root * root, root)


def _logarithm(a: np.ndarray) -> np.ndarray:
    """lg2 with subnormal operands: they are scaled by 2**24."""
    scaled = np.abs(a) < TINY
    if not np.count_nonzero(scaled):
        return special_unit.logarithm(a)
    result = special_unit.logarithm(np.where(scaled, a * np.float32(2.0**24), a))
    return np.where(scaled, result - np.float32(24), result)


def _sine(a: np.ndarray) -> np.ndarray:
    return special_unit.sine(multiply(a, _TURNS, "rz"))


def _cosine(a: np.ndarray) -> np.ndarray:
    return special_unit.cosine(multiply(a, _TURNS, "rz"))


_SINGLE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rcp": special_unit.reciprocal,
    "sqrt": special_unit.square_root,
    "rsqrt": special_unit.reciprocal_root,
    "sin": _sine,
    "cos": _cosine,
    "lg2": _logarithm,
    "ex2": _exponential,
    "tanh": special_unit.tangent,
}


def single(name: str, ftz: bool = False) -> Callable[[np.ndarray], np.ndarray]:
    """The function of that name, float32 to float32, with .ftz if so."""
    if name == "ex2" and ftz:  # the unit flushes results itself, and 2**0 is 1 for all subnormals
        return lambda a: canonical(special_unit.exponential(a))
    function = _SINGLE[name]
    return modified(lambda a: canonical(function(a)), ftz=ftz)


def factors(a: np.ndarray, b: np.ndarray, full: bool) -> tuple[np.ndarray, np.ndarray]:
    """What a division multiplies: a and the reciprocal of b, both scaled where b is subnormal, and for
    div.full where it is so large that its reciprocal would be lost."""
    size = np.abs(b)
    large, small = size > np.float32(2.0**126), size < TINY
    if not np.count_nonzero(large | small):
        return a, special_unit.reciprocal(b)
    scale = np.where(small, np.float32(2.0**24), np.float32(1))
    if full:
        scale = np.where(large, np.float32(0.25), scale)
    return a * scale, flush(special_unit.reciprocal(b * scale))


def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """div.approx.f32: for 2**126 < abs(b) < 2**128 the reciprocal is lost, and the result NaN for
    infinite a, else a zero."""
    return multiply(*factors(a, b, full=False))


def divide_full(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """div.full.f32: a times the reciprocal of b."""
    return multiply(*factors(a, b, full=True))


def gross(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """rcp.approx.ftz.f64 or rsqrt.approx.ftz.f64: the upper half of the operand gives the upper half
    of the result, its mantissa that of f32 cut to 20 bits. Subnormals are zeros, NaNs
    0x7fffffff00000000."""
    roots = name == "rsqrt"
    function = _SINGLE[name]

    def approximate(a: np.ndarray) -> np.ndarray:
        upper = (np.asarray(a).view(np.uint64) >> np.uint64(32)).astype(np.int64)
        biased, mantissa = (upper >> 20) & 0x7FF, (upper & 0xFFFFF) << 3
        exponent = biased - 1023
        # The same mantissa at 1 to 2, or for a root of an odd power at 2 to 4.
        near = (((127 + (exponent & roots)) << 23) | mantissa).astype(np.uint32).view(np.float32)
        places = np.asarray(function(near)).view(np.uint32).astype(np.int64) >> 3
        result = places + ((1023 - 127 - (exponent >> roots)) << 20)
        result = np.where((result < 1 << 20) | (biased == 0x7FF), 0, result)
        result = np.where(biased == 0, 0x7FF00000, result) | (upper & 0x80000000)
        lost = (biased == 0x7FF) & (mantissa != 0)
        if roots:
            lost |= (upper >= 0x80000000) & (biased != 0)
        result = np.where(lost, 0x7FFFFFFF, result)
        return (result.astype(np.uint64) << np.uint64(32)).view(np.float64)

    return approximate
