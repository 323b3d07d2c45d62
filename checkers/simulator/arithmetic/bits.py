"""Bits of integers (PTX ISA 9.7.1.14 to 9.7.1.22, 9.7.8, 9.7.9.7). Arrays are uint32 or uint64
unless said otherwise; results that count bits or name a position are uint32."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_NOT_FOUND = np.uint32(0xFFFFFFFF)
_REVERSED = np.array([int(f"{byte:08b}"[::-1], 2) for byte in range(256)], np.uint8)


def width(a: np.ndarray) -> int:
    """Bits of an element."""
    return 8 * a.dtype.itemsize


def population(a: np.ndarray) -> np.ndarray:
    """popc: how many bits are one."""
    return np.bitwise_count(a).astype(np.uint32)


def bit_length(a: np.ndarray) -> np.ndarray:
    """Position of the highest one bit, plus one; 0 for zero."""
    if width(a) <= 32:
        return np.frexp(a.astype(np.float64))[1].astype(np.uint32)
    high, low = (a >> np.uint64(32)).astype(np.uint32), a.astype(np.uint32)
    return np.where(high != 0, bit_length(high) + np.uint32(32), bit_length(low))


def leading_zeros(a: np.ndarray) -> np.ndarray:
    """clz."""
    return np.uint32(width(a)) - bit_length(a)


def find_highest(a: np.ndarray, shift_amount: bool = False) -> np.ndarray:
    """bfind: the position of the highest bit that is not the sign (int32, int64: the highest zero
    of a negative number); 0xffffffff if there is none. shift_amount: how far below the top."""
    if a.dtype.kind == "i":
        a = (a ^ (a >> (width(a) - 1))).view(np.dtype(f"u{a.dtype.itemsize}"))
    length = bit_length(a)
    place = np.uint32(width(a)) - length if shift_amount else length - np.uint32(1)
    return np.where(length == 0, _NOT_FOUND, place)


def find_nth(mask: np.ndarray, base: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """fns: the position of the abs(offset)-th one bit from ``base`` on, upward or, for a negative
    offset, downward; with offset 0 ``base`` itself if it is one. offset: int32."""
    place = np.arange(32)
    ones = (mask[..., None] >> place.astype(np.uint32)) & np.uint32(1) != 0
    base, offset = np.asarray(base)[..., None].astype(np.int64), np.asarray(offset)[..., None]
    up = ones & (place >= base)
    down = ones & (place <= base)
    count_up = np.cumsum(up, axis=-1)
    count_down = np.cumsum(down[..., ::-1], axis=-1)[..., ::-1]
    wanted = np.abs(offset.astype(np.int64))
    hit = np.where(offset > 0, up & (count_up == wanted), down & (count_down == wanted))
    hit = np.where(offset == 0, ones & (place == base), hit)
    return np.where(hit.any(axis=-1), hit.argmax(axis=-1).astype(np.uint32), _NOT_FOUND)


def reverse(a: np.ndarray) -> np.ndarray:
    """brev: the bits in the opposite order."""
    return (
        _REVERSED[np.ascontiguousarray(a)[..., None].view(np.uint8)]
        .view(a.dtype)[..., 0]
        .byteswap()
    )


# --- fields ------------------------------------------------------------------------------------


def _ones(count: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """``count`` one bits at the bottom. NumPy's shifts by the width or more give zero."""
    return ~(~np.zeros(np.shape(count), dtype) << count.astype(dtype))


def _place(value: np.ndarray, a: np.ndarray) -> np.ndarray:
    """A position or length: of the low 8 bits, as the manual has it, for 32-bit fields; of all 32
    for 64-bit ones, as hardware has it (ZLUDA's hardware tests)."""
    return value & np.uint32(0xFF) if width(a) == 32 else value


def extract(a: np.ndarray, start: np.ndarray, length: np.ndarray) -> np.ndarray:
    """bfe: ``length`` bits of a from ``start`` on, sign-extended for int32 and int64."""
    start, length = _place(np.asarray(start), a), _place(np.asarray(length), a)
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    top = width(a) - 1
    shifted = a >> np.minimum(start, top + 1).astype(a.dtype)
    kept = _ones(length, unsigned)
    field = shifted.view(unsigned) & kept
    if a.dtype.kind == "u":
        return field
    last = np.minimum(start.astype(np.int64) + length - 1, top).astype(np.int64)
    sign = (a >> np.maximum(last, 0).astype(a.dtype)) & 1
    field = np.where((sign != 0) & (length != 0), field | ~kept, field)
    return field.view(a.dtype)


def insert(a: np.ndarray, b: np.ndarray, start: np.ndarray, length: np.ndarray) -> np.ndarray:
    """bfi: b with ``length`` bits from ``start`` on replaced by the lowest of a."""
    start, length = _place(np.asarray(start), b), _place(np.asarray(length), b)
    start = np.minimum(start, width(b)).astype(b.dtype)
    field = _ones(length, b.dtype) << start
    return (b & ~field) | ((a << start) & field)


def extend(a: np.ndarray, bits: np.ndarray, wrap: bool) -> np.ndarray:
    """szext: the lowest ``bits`` of a, sign-extended for int32. 32 or more: a itself, or modulo 32
    if ``wrap``."""
    count = bits & np.uint32(31)
    field = a.view(np.uint32) & _ones(count, np.dtype(np.uint32))
    if a.dtype.kind == "i":
        sign = (field >> ((count - np.uint32(1)) & np.uint32(31))) & np.uint32(1)
        field = np.where((sign != 0) & (count != 0), field | ~_ones(count, field.dtype), field)
    if not wrap:
        field = np.where(bits >= 32, a.view(np.uint32), field)
    return field.view(a.dtype)


def mask(start: np.ndarray, length: np.ndarray, wrap: bool) -> np.ndarray:
    """bmsk: ``length`` one bits from ``start`` on."""
    if wrap:
        start, length = start & np.uint32(31), length & np.uint32(31)
    return _ones(np.minimum(length, np.uint32(32)), np.dtype(np.uint32)) << np.minimum(
        start, np.uint32(32)
    )


# --- shifts ------------------------------------------------------------------------------------


def shift_left(a: np.ndarray, by: np.ndarray) -> np.ndarray:
    """shl: by the width or more gives zero. by: uint32."""
    return a << np.minimum(by, np.uint32(width(a))).astype(a.dtype)


def shift_right(a: np.ndarray, by: np.ndarray) -> np.ndarray:
    """shr: fills with the sign bit of int types. by: uint32."""
    return a >> np.minimum(by, np.uint32(width(a))).astype(a.dtype)


def funnel(a: np.ndarray, b: np.ndarray, by: np.ndarray, left: bool, wrap: bool) -> np.ndarray:
    """shf: of the 64 bits b:a, the upper 32 after a left shift or the lower 32 after a right one.
    by: at most 32, or modulo 32 if ``wrap``."""
    count = by & np.uint32(31) if wrap else np.minimum(by, np.uint32(32))
    both = (b.astype(np.uint64) << np.uint64(32)) | a
    shifted = (both << count) >> np.uint64(32) if left else both >> count
    return shifted.astype(np.uint32)


# --- logic -------------------------------------------------------------------------------------

# A function of two bits, by its table: bit 2 * x + y of the index is the value at (x, y). None
# stands for a constant.
_OF_TWO: tuple[Callable[..., np.ndarray], ...] = (
    lambda x, y: np.uint32(0),
    lambda x, y: ~(x | y),
    lambda x, y: ~x & y,
    lambda x, y: ~x,
    lambda x, y: x & ~y,
    lambda x, y: ~y,
    lambda x, y: x ^ y,
    lambda x, y: ~(x & y),
    lambda x, y: x & y,
    lambda x, y: ~(x ^ y),
    lambda x, y: y,
    lambda x, y: ~x | y,
    lambda x, y: x,
    lambda x, y: x | ~y,
    lambda x, y: x | y,
    lambda x, y: np.uint32(0xFFFFFFFF),
)


def logic_of_three(table: int) -> Callable[..., np.ndarray]:
    """lop3: the function whose value at bits (a, b, c) is bit 4a + 2b + c of ``table``."""
    with_a, without_a = table >> 4, table & 15
    if with_a == without_a:
        return lambda a, b, c: _OF_TWO[with_a](b, c)
    if with_a == without_a ^ 15:
        return lambda a, b, c: a ^ _OF_TWO[without_a](b, c)
    if without_a == 0:
        return lambda a, b, c: a & _OF_TWO[with_a](b, c)
    if with_a == 15:
        return lambda a, b, c: a | _OF_TWO[without_a](b, c)
    return lambda a, b, c: (a & _OF_TWO[with_a](b, c)) | (~a & _OF_TWO[without_a](b, c))


# --- bytes -------------------------------------------------------------------------------------

# prmt's modes: for each selector 0 to 3, the source bytes of the result's bytes 0 to 3.
PERMUTE_MODES = {
    "f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    "b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    "rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}
_SELECTORS = {
    mode: np.array([sum(b << 4 * i for i, b in enumerate(row)) for row in rows], np.uint32)
    for mode, rows in PERMUTE_MODES.items()
}


def permute(a: np.ndarray, b: np.ndarray, c: np.ndarray, mode: str = "") -> np.ndarray:
    """prmt: four bytes chosen from the eight of b:a. Without a mode each has four bits of c: its
    number, and whether its sign is copied in place of it."""
    selector = _SELECTORS[mode][c & np.uint32(3)] if mode else c
    both = (b.astype(np.uint64) << np.uint64(32)) | a
    result: np.ndarray | np.uint32 = np.uint32(0)
    for at in range(4):
        one = selector >> np.uint32(4 * at)
        byte = (both >> ((one & np.uint32(7)) << np.uint32(3))).astype(np.uint8)
        if np.any(one & np.uint32(8)):
            sign = np.where(byte & 0x80, np.uint8(0xFF), np.uint8(0))
            byte = np.where(one & np.uint32(8), sign, byte)
        result = result | (byte.astype(np.uint32) << np.uint32(8 * at))
    return np.asarray(result)


def permute_as(selector: int) -> Callable[..., np.ndarray]:
    """prmt with a constant selector that copies no sign: bytes that stay neighbours are moved
    together."""
    runs: list[
        tuple[bool, int, np.uint32]
    ] = []  # from b, bytes to the left, the mask of the result
    at = 0
    while at < 4:
        first, length = selector >> 4 * at & 7, 1
        while (
            at + length < 4
            and selector >> 4 * (at + length) & 7 == first + length
            and (first + length != 4)
        ):
            length += 1
        mask = np.uint32(((1 << 8 * length) - 1) << 8 * at)
        runs.append((first >= 4, at - first % 4, mask))
        at += length

    def move(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        result: np.ndarray | None = None
        for from_b, left, mask in runs:
            word = b if from_b else a
            if left:
                word = word << 8 * left if left > 0 else word >> -8 * left
            part = word & mask
            result = part if result is None else result | part
        assert result is not None
        return result

    return move
