"""Integer arithmetic (PTX ISA 9.7.1, 9.7.2): modulo 2**n unless saturating.

Arrays have the NumPy type of the instruction's: uint16 to uint64 or int16 to int64. NumPy wraps
around silently, so add, sub and mul.lo are its own operators.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

WIDER = {
    np.dtype(np.uint16): np.dtype(np.uint32),
    np.dtype(np.int16): np.dtype(np.int32),
    np.dtype(np.uint32): np.dtype(np.uint64),
    np.dtype(np.int32): np.dtype(np.int64),
}
_UNSIGNED = {2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}
_WORD = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


def multiply_wide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """mul.wide: the whole product, twice as wide as the 16- or 32-bit operands."""
    wide = WIDER[a.dtype]
    return a.astype(wide) * b.astype(wide)


def multiply_high(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """mul.hi: the upper half of the product."""
    if a.dtype.itemsize < 8:
        return (multiply_wide(a, b) >> (8 * a.dtype.itemsize)).astype(a.dtype)
    left, right = np.asarray(a).view(np.uint64), np.asarray(b).view(np.uint64)
    left_low, left_high = left & _LOW, left >> _WORD
    right_low, right_high = right & _LOW, right >> _WORD
    # Three terms of 32 bits each: their sum needs 34.
    middle = (left_low * right_low >> _WORD) + (left_high * right_low & _LOW)
    middle = middle + (left_low * right_high & _LOW)
    high = left_high * right_high + (left_high * right_low >> _WORD)
    high = high + (left_low * right_high >> _WORD) + (middle >> _WORD)
    if a.dtype.kind == "i":  # a negative operand was taken for one that is 2**64 larger
        zero = np.uint64(0)
        high = high - np.where(a < 0, right, zero) - np.where(b < 0, left, zero)
    return high.view(a.dtype)


def _times_24(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The 48-bit product of the low 24 bits, as int64; signed where the operands are."""

    def low(x: np.ndarray) -> np.ndarray:
        bits = x.astype(np.int64) & 0xFFFFFF
        return ((bits ^ 0x800000) - 0x800000) if x.dtype.kind == "i" else bits

    return low(a) * low(b)


def multiply_24(a: np.ndarray, b: np.ndarray, part: str) -> np.ndarray:
    """mul24: the "lo" or "hi" 32 bits of the product of two 24-bit numbers."""
    product = _times_24(a, b)
    return (
        ((product >> 16 if part == "hi" else product) & 0xFFFFFFFF).astype(np.uint32).view(a.dtype)
    )


def saturated(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """.sat: ``function`` of int32 arrays done in 64 bits, clamped to the range of int32."""

    def clamped(*operands: np.ndarray) -> np.ndarray:
        wide = function(*(operand.astype(np.int64) for operand in operands))
        return np.clip(wide, -(2**31), 2**31 - 1).astype(np.int32)

    return clamped


def absolute_difference(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """sad: c + abs(a - b)."""
    return c + np.where(a < b, b - a, a - b)


def _magnitude(a: np.ndarray) -> np.ndarray:
    """abs(a) as an unsigned integer: that of the lowest int has no signed one."""
    return np.asarray(np.abs(a)).view(_UNSIGNED[a.dtype.itemsize])


def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """div: rounds toward zero. By zero it is unspecified; every bit is set, as compiled code on
    GPUs has it."""
    zero = b == 0
    quotient = _magnitude(a) // np.where(zero, 1, _magnitude(b)).astype(_UNSIGNED[a.dtype.itemsize])
    quotient = quotient.view(a.dtype)
    if a.dtype.kind == "i":
        quotient = np.where((a < 0) != (b < 0), -quotient, quotient)
    return np.where(zero, ~np.zeros_like(quotient), quotient)


def remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """rem: has the sign of a. By zero as ``divide``."""
    zero = b == 0
    rest = _magnitude(a) % np.where(zero, 1, _magnitude(b)).astype(_UNSIGNED[a.dtype.itemsize])
    rest = rest.view(a.dtype)
    if a.dtype.kind == "i":
        rest = np.where(a < 0, -rest, rest)
    return np.where(zero, ~np.zeros_like(rest), rest)


# --- carries -----------------------------------------------------------------------------------


def add_carrying(
    a: np.ndarray, b: np.ndarray, carry: np.ndarray | bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """a + b + carry of unsigned operands, and the carry out (bool)."""
    partial = a + b
    total = partial + np.asarray(carry).astype(a.dtype)
    return total, (partial < a) | (total < partial)


def subtract_carrying(
    a: np.ndarray, b: np.ndarray, carry: np.ndarray | bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """a - b, less one where there is no carry, and the carry out: a + ~b + carry. The manual calls
    the flag a borrow; code that mixes additions and subtractions shows that it is the opposite."""
    return add_carrying(a, ~b, carry)


# --- dot products ------------------------------------------------------------------------------


def _parts(word: np.ndarray, bits: int, signed: bool) -> list[np.ndarray]:
    """The 8- or 16-bit parts of 32-bit words, lowest first, as int64."""
    kind = np.dtype(f"{'i' if signed else 'u'}{bits // 8}")
    word = np.asarray(word).view(np.uint32)
    return [
        (word >> np.uint32(at)).astype(_byte_or_half(bits)).view(kind).astype(np.int64)
        for at in range(0, 32, bits)
    ]


def _byte_or_half(bits: int) -> np.dtype:
    return np.dtype(f"u{bits // 8}")


def _dot(a: list[np.ndarray], b: list[np.ndarray], c: np.ndarray) -> np.ndarray:
    total = c.astype(np.int64)
    for left, right in zip(a, b, strict=True):
        total = total + left * right
    return (total & 0xFFFFFFFF).astype(np.uint32)


def dot_bytes(a: np.ndarray, b: np.ndarray, c: np.ndarray, signed: tuple[bool, bool]) -> np.ndarray:
    """dp4a: c plus the four products of the bytes of a and b; uint32 bits."""
    return _dot(_parts(a, 8, signed[0]), _parts(b, 8, signed[1]), c)


def dot_halves(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, signed: tuple[bool, bool], high: bool
) -> np.ndarray:
    """dp2a: c plus the products of the halves of a and the lower (upper if ``high``) two bytes of
    b; uint32 bits."""
    b_bytes = _parts(b, 8, signed[1])
    return _dot(_parts(a, 16, signed[0]), b_bytes[2:] if high else b_bytes[:2], c)
