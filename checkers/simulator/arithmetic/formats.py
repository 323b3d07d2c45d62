"""Floating-point formats (PTX ISA, "Fundamental Types" and "Alternate Floating-Point Data Formats").

``encode`` rounds exact values to any of them in any mode; ``decode`` is the way back. Both are
general and slow (some twenty NumPy calls); single.py and half.py have the short cuts for the
conversions that kernels do all the time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Format:
    """A binary format: sign, exponent, mantissa. A code is the bit pattern as an integer.

    bias: of the exponent.  largest: the code of the largest finite value.  infinity: the code of
    +infinity, None where there is none.  nan: the code of the NaN that a conversion gives, None
    where the format has none (a NaN then becomes the largest finite value).
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    largest: int
    infinity: int | None
    nan: int | None

    @property
    def bits(self) -> int:
        """Width of a code, with the sign."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def lowest_exponent(self) -> int:
        """Exponent of the smallest normal value, and of all subnormal ones."""
        return 1 - self.bias

    @property
    def code_type(self) -> np.dtype:
        """The unsigned type that codes are kept in."""
        return np.dtype("u1" if self.bits <= 8 else "u2" if self.bits <= 16 else "u4")


def _ieee(name: str, exponent_bits: int, mantissa_bits: int, nan: int) -> Format:
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    bias = (1 << (exponent_bits - 1)) - 1
    return Format(name, exponent_bits, mantissa_bits, bias, infinity - 1, infinity, nan)


FORMATS = {
    form.name: form
    for form in (
        _ieee("f32", 8, 23, 0x7FFFFFFF),
        _ieee("f16", 5, 10, 0x7FFF),
        _ieee("bf16", 8, 7, 0x7FFF),
        _ieee("e5m2", 5, 2, 0x7F),
        Format("e4m3", 4, 3, 7, largest=0x7E, infinity=None, nan=0x7F),
        Format("e2m3", 2, 3, 1, largest=0x1F, infinity=None, nan=None),
        Format("e3m2", 3, 2, 3, largest=0x1F, infinity=None, nan=None),
        Format("e2m1", 2, 1, 1, largest=0x7, infinity=None, nan=None),
        # Not a format of its own in a register: an f32 whose low 13 mantissa bits are zero.
        _ieee("tf32", 8, 10, 0x3FFFF),
    )
}


def _nearest_away(values: np.ndarray) -> np.ndarray:
    whole = np.trunc(values)
    # The fraction is exact, which values + 0.5 would not be.
    return whole + np.copysign(np.abs(values - whole) >= 0.5, values)


# To an integral value. The integer rounding modifiers of cvt are the same four with an i.
ROUND: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rn": np.rint,
    "rz": np.trunc,
    "rm": np.floor,
    "rp": np.ceil,
    "rna": _nearest_away,
}
ROUND |= {f"{mode}i": ROUND[mode] for mode in ("rn", "rz", "rm", "rp")}


def encode(
    values: np.ndarray,
    form: Format,
    mode: str = "rn",
    *,
    finite: bool = False,
    relu: bool = False,
    random: tuple[np.ndarray, int] | None = None,
) -> np.ndarray:
    """Codes of ``values``, rounded once.

    values: float64 (or exact in it), rounded to odd where the exact value needs more than 53 bits.
    finite: .satfinite, so that what is too large becomes the largest finite value.  relu: negative
    results become +0.  random: for mode "rs", (unsigned integers, how many bits they have): the
    magnitude is rounded up when these bits, added to the discarded ones, carry.
    Returns an array of ``form.code_type``.
    """
    values = np.asarray(values, np.float64)
    magnitude = np.abs(values)
    negative = np.signbit(values)
    lowest = form.lowest_exponent
    # frexp gives a mantissa in [1/2, 1), so the leading bit has the exponent less one.
    exponent = np.frexp(np.maximum(magnitude, 2.0**lowest))[1] - 1
    scaled = np.ldexp(values, form.mantissa_bits - exponent)
    if random is None:
        steps = np.abs(ROUND[mode](scaled))
    else:
        bits, count = random
        steps = np.floor(np.abs(scaled) + np.ldexp(np.asarray(bits, np.float64), -count))
    special = ~np.isfinite(values)
    steps = np.where(special, 0, steps).astype(np.int64)
    # A subnormal's code is its steps; each exponent above the lowest adds 2**mantissa_bits, one of
    # which is the leading bit that is already among the steps.
    code = steps + ((exponent.astype(np.int64) - lowest) << form.mantissa_bits)

    too_large = form.largest if finite or form.infinity is None else form.infinity
    if mode in ("rz", "rm", "rp") and not finite:
        toward_zero = {"rz": True, "rm": ~negative, "rp": negative}[mode]
        overflow = np.where(toward_zero, form.largest, too_large)
    else:
        overflow = too_large
    code = np.where(code > form.largest, overflow, code)
    code = np.where(np.isinf(values), too_large, code)
    code |= np.where(negative, np.int64(1) << (form.bits - 1), 0)
    if relu:
        code = np.where(negative, 0, code)
    code = np.where(np.isnan(values), form.largest if form.nan is None else form.nan, code)
    return code.astype(form.code_type)


def _small_values(form: Format) -> np.ndarray:
    """float32 value of every code of a format of at most 8 bits."""
    codes = np.arange(1 << form.bits)
    field = (codes >> form.mantissa_bits) & ((1 << form.exponent_bits) - 1)
    steps = codes & ((1 << form.mantissa_bits) - 1)
    steps = steps + np.where(field > 0, 1 << form.mantissa_bits, 0)
    exponent = np.maximum(field, 1) - form.bias - form.mantissa_bits
    values = np.ldexp(steps.astype(np.float32), exponent)
    positive = codes & ((1 << (form.bits - 1)) - 1)
    values[positive > form.largest] = np.nan
    if form.infinity is not None:
        values[positive == form.infinity] = np.inf
    return np.where(codes >> (form.bits - 1), -values, values)


_SMALL = {form.name: _small_values(form) for form in FORMATS.values() if form.bits <= 8}


def decode(codes: np.ndarray, name: str) -> np.ndarray:
    """float32 values of the codes (unsigned integers) of a format of at most 8 bits; exact. Bits
    above the format's are ignored."""
    table = _SMALL[name]
    return table[np.asarray(codes) & (len(table) - 1)]


# --- ue8m0: a power of two, or NaN -------------------------------------------------------------


def encode_power(values: np.ndarray, mode: str, *, finite: bool = False) -> np.ndarray:
    """ue8m0 codes, uint8: the exponent of float32 ``values``, rounded "rz" or "rp"; the sign is
    dropped (the format has none). NaN gives 0xff; too large gives 0xfe where ``finite``."""
    magnitude = np.abs(np.asarray(values, np.float64))
    fraction, exponent = np.frexp(np.maximum(magnitude, 2.0**-127))
    code = exponent.astype(np.int64) - 1 + 127
    if mode == "rp":
        code += fraction > 0.5
    code = np.where(np.isinf(magnitude), 0xFF, code)
    code = np.where(code > 0xFE, 0xFE if finite else 0xFF, code)
    return np.where(np.isnan(magnitude), 0xFF, code).astype(np.uint8)


def decode_power(codes: np.ndarray) -> np.ndarray:
    """float32 values of ue8m0 codes, 2**(code - 127); 0xff is NaN."""
    codes = np.asarray(codes).astype(np.int64) & 0xFF
    return np.where(codes == 0xFF, np.float32(np.nan), np.ldexp(np.float32(1), codes - 127))
