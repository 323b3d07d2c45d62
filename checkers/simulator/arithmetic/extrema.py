"""Minimum and maximum of floats (PTX ISA 9.7.3.11, 9.7.3.12, 9.7.4.7, 9.7.4.8): -0 < +0, which
NumPy does not promise, and a NaN loses against a number unless .NaN is given."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

_BITS = {2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}


def _with_signed_zeros(
    result: np.ndarray, a: np.ndarray, b: np.ndarray, join: Callable[..., np.ndarray]
) -> np.ndarray:
    """Where a and b are equal they are the same bits, or zeros of different signs: ``join``, "and"
    for the maximum and "or" for the minimum, does right by both."""
    if not np.count_nonzero(result == 0):
        return result
    bits = _BITS[result.dtype.itemsize]
    joined = join(np.asarray(a).view(bits), np.asarray(b).view(bits)).view(result.dtype)
    return np.where(a == b, joined, result)


def maximum(a: np.ndarray, b: np.ndarray, nan: bool = False) -> np.ndarray:
    """The larger. nan: .NaN, so that a NaN operand makes the result one. float16, float32 or
    float64; a NaN result has any pattern."""
    function = np.maximum if nan else np.fmax
    return _with_signed_zeros(np.asarray(function(a, b)), a, b, np.bitwise_and)


def minimum(a: np.ndarray, b: np.ndarray, nan: bool = False) -> np.ndarray:
    """The smaller, as ``maximum``."""
    function = np.minimum if nan else np.fmin
    return _with_signed_zeros(np.asarray(function(a, b)), a, b, np.bitwise_or)


def extremum(
    function: Callable[..., np.ndarray],
    operands: tuple[np.ndarray, ...],
    *,
    nan: bool = False,
    magnitudes: bool = False,
    xor_sign: bool = False,
) -> np.ndarray:
    """``minimum`` or ``maximum`` of two or three operands. magnitudes: .abs.  xor_sign: .xorsign,
    the sign of a result that is no NaN is the xor of the operands' signs."""
    signs = reduce(np.logical_xor, [np.signbit(operand) for operand in operands])
    if magnitudes:
        operands = tuple(np.abs(operand) for operand in operands)
    result = operands[0]
    for operand in operands[1:]:
        result = function(result, operand, nan)
    if not xor_sign:
        return result
    signed = np.where(signs, -np.abs(result), np.abs(result))
    return np.where(np.isnan(result), result, signed)
