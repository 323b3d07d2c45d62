"""What an asynchronous reduction does to each element: PTX ISA 9.7.9.25.4.2, 9.7.9.27.1.3.

f16 and bf16 additions round to nearest even and keep subnormals; f32 additions flush them, inputs
and results alike. A NaN is the canonical one, but for f64.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from checkers.simulator.machine.registers import NUMPY
from checkers.simulator.ptx.modifiers import Modifiers

# (old bytes, new bytes), both uint8 of any one shape, to the bytes that are stored.
Combine = Callable[[np.ndarray, np.ndarray], np.ndarray]

_NANS = {NUMPY["f16"]: 0x7FFF, NUMPY["bf16"]: 0x7FFF, NUMPY["f32"]: 0x7FFFFFFF}

OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


def take_reduction(modifiers: Modifiers) -> Combine:
    """Takes .redOp, .noftz and .type."""
    operation = modifiers.one_of(*OPERATIONS)
    modifiers.flag("noftz")
    return combine(operation, NUMPY[modifiers.type()])


def combine(operation: str, dtype: np.dtype) -> Combine:
    """The reduction of elements of ``dtype``. operation: one of OPERATIONS."""
    function = _FUNCTIONS[operation]
    flushes = operation == "add" and dtype == np.float32

    def apply(old: np.ndarray, new: np.ndarray) -> np.ndarray:
        shape = old.shape
        left = np.ascontiguousarray(old).reshape(-1).view(dtype)
        right = np.ascontiguousarray(new).reshape(-1).view(dtype)
        if flushes:
            result = _flushed(_flushed(left) + _flushed(right))
        else:
            result = np.asarray(function(left, right), dtype)
        if dtype in _NANS and np.isnan(result).any():
            raw = result.view(f"u{dtype.itemsize}")
            raw[np.isnan(result)] = _NANS[dtype]
        return result.view(np.uint8).reshape(shape)

    return apply


def _flushed(values: np.ndarray) -> np.ndarray:
    """Subnormals become zeros of their sign."""
    tiny = np.abs(values) < np.finfo(np.float32).tiny
    return np.where(tiny, np.copysign(np.float32(0), values), values).astype(np.float32)


def _least(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.minimum(left, right) if left.dtype.kind in "iu" else np.fmin(left, right)


def _most(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return np.maximum(left, right) if left.dtype.kind in "iu" else np.fmax(left, right)


def _add(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    if left.dtype.itemsize == 2:  # rounded once, from an exact sum
        return (left.astype(np.float64) + right.astype(np.float64)).astype(left.dtype)
    return left + right


def _inc(old: np.ndarray, limit: np.ndarray) -> np.ndarray:
    return np.where(old >= limit, 0, old + 1)


def _dec(old: np.ndarray, limit: np.ndarray) -> np.ndarray:
    return np.where((old == 0) | (old > limit), limit, old - 1)


_FUNCTIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": _add,
    "min": _least,
    "max": _most,
    "inc": _inc,
    "dec": _dec,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
