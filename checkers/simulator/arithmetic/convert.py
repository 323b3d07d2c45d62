"""Conversions between number types (PTX ISA 9.7.9.21, 9.7.9.22), by four strategies: float to
float, float to integer, integer to float, integer to integer."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from checkers.simulator.arithmetic import half, single
from checkers.simulator.arithmetic.double import nearest_double
from checkers.simulator.arithmetic.formats import FORMATS, ROUND, encode

_WORD = {2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)}


def limits(dtype: np.dtype) -> tuple[int, int]:
    """Lowest and highest value of an integer type."""
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


# --- float to float ----------------------------------------------------------------------------


def widen(values: np.ndarray, source: str) -> np.ndarray:
    """The exact values as float32 ("f16" and "bf16" raw bits, "f32") or float64 ("f64")."""
    return half.widen(values, source) if source in ("f16", "bf16") else values


def narrow(values: np.ndarray, target: str, mode: str, **options: bool) -> np.ndarray:
    """float32 or float64 values rounded to ``target``: raw bits for "f16" and "bf16", else float32
    or float64. options: finite and relu, as ``formats.encode`` has them. A float64 NaN keeps its
    sign and as much of the rest as has room."""
    if target == "f64":
        return values.astype(np.float64)
    if values.dtype == np.float64:
        return _narrow_double(values, target, mode or "rn")
    if target == "f32":
        return values
    if mode in ("rn", "") and not any(options.values()):
        return half.narrow(values, target)
    return encode(values, FORMATS[target], mode or "rn", **options)


def _narrow_double(values: np.ndarray, target: str, mode: str) -> np.ndarray:
    form = FORMATS[target]
    codes = encode(values, form, mode)
    bad = np.isnan(values)
    if np.count_nonzero(bad):
        word = np.asarray(values).view(np.uint64)
        payload = (word >> np.uint64(52 - form.mantissa_bits)) & np.uint64(
            (1 << form.mantissa_bits) - 1
        )
        sign = (word >> np.uint64(63)) << np.uint64(form.bits - 1)
        quiet = np.uint64((form.infinity or 0) | 1 << (form.mantissa_bits - 1))
        codes = np.where(bad, sign | payload | quiet, codes).astype(form.code_type)
    return codes.view(np.float32) if target == "f32" else codes


def to_integral(values: np.ndarray, mode: str) -> np.ndarray:
    """.rni and the like from float to float: the nearest integral value; keeps the sign of zero."""
    return np.copysign(ROUND[mode](values), values)


def saturate(values: np.ndarray) -> np.ndarray:
    """.sat of a float result: into [+0, 1]; NaN becomes +0."""
    one = values.dtype.type(1)
    return np.minimum(np.where(values > 0, values, values.dtype.type(0)), one)


def to_tf32(
    values: np.ndarray, mode: str, *, finite: bool = False, relu: bool = False
) -> np.ndarray:
    """tf32 in a 32-bit register: float32 with 10 mantissa bits, the low 13 zero; uint32 bits. A NaN
    becomes 0x7fffe000. "rna" only cuts it off, as an H200 does; with .satfinite, which moves all
    that is too large down by one place, it need not stay one."""
    codes = encode(values, FORMATS["tf32"], mode, finite=finite, relu=relu).astype(np.uint32)
    codes = codes << np.uint32(13)
    if mode == "rna":
        cut = np.asarray(values).view(np.uint32) & ~np.uint32(0x1FFF)
        cut = cut - np.uint32(0x2000) if finite else cut
        codes = np.where(np.isnan(values), cut, codes)
    return codes


# --- float to integer --------------------------------------------------------------------------


def to_integer(values: np.ndarray, dtype: np.dtype, mode: str, nan: int) -> np.ndarray:
    """float32 or float64 values rounded to an integral value and clamped to the type's range; NaN
    becomes ``nan``, a bit pattern."""
    whole = np.asarray(ROUND[mode](values), np.float64)
    lowest, highest = limits(dtype)
    # 2**63 - 1 and 2**64 - 1 are no float64, the powers are: clamp below them, then replace.
    too_high = whole >= float(highest + 1)
    too_low = whole <= float(lowest)
    bad = np.isnan(whole)
    inside = np.where(too_high | too_low | bad, 0.0, whole)
    result = inside.astype(dtype)
    result = np.where(too_high, dtype.type(highest), result)
    result = np.where(too_low, dtype.type(lowest), result)
    if np.count_nonzero(bad):
        pattern = np.array(nan, np.uint64).astype(_unsigned(dtype)).view(dtype)
        result = np.where(bad, pattern, result)
    return result


def _unsigned(dtype: np.dtype) -> np.dtype:
    return np.dtype(f"u{dtype.itemsize}")


def nan_as_integer(source: str, dtype: np.dtype) -> int:
    """What NaN becomes: 0, or the highest bit alone from f64 and to 64 bits."""
    return 1 << (8 * dtype.itemsize - 1) if source == "f64" or dtype.itemsize == 8 else 0


# --- integer to float --------------------------------------------------------------------------


def from_integer(values: np.ndarray, target: str, mode: str) -> np.ndarray:
    """Integers rounded to "f16" or "bf16" raw bits, float32 or float64."""
    if target == "f32" and mode == "rn":
        return values.astype(np.float32)
    if target == "f64":
        return _to_double(values, mode)
    odd = values.astype(np.float64) if values.dtype.itemsize < 8 else _odd_double(values)
    if target == "f32":
        return single.rounded(odd, mode)
    return encode(odd, FORMATS[target], mode)


def _odd_double(values: np.ndarray) -> np.ndarray:
    """64-bit integers as float64 rounded to odd: what is below the 53 highest bits is or-ed into
    the last of them, or a higher one that is far below the precision of any narrower format."""
    negative = values < 0
    magnitude = np.asarray(np.abs(values)).view(np.uint64)
    large = magnitude >> np.uint64(53) != 0
    sticky = ((magnitude & np.uint64(0x7FF)) != 0).astype(np.uint64) << np.uint64(11)
    kept = np.where(large, (magnitude & ~np.uint64(0x7FF)) | sticky, magnitude)
    exact = kept.astype(np.float64)
    return np.where(negative, -exact, exact)


def _to_double(values: np.ndarray, mode: str) -> np.ndarray:
    result = np.asarray(values.astype(np.float64))
    if mode == "rn" or values.dtype.itemsize < 8:
        return result
    flat = [
        nearest_double(Fraction(int(value)), mode) if value else 0.0 for value in np.ravel(values)
    ]
    return np.array(flat).reshape(np.shape(values))


# --- integer to integer ------------------------------------------------------------------------


def clamp(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """.sat: integers clamped to the range of a type."""
    (low, high), (least, most) = limits(dtype), limits(values.dtype)
    return np.clip(values, max(low, least), min(high, most)).astype(dtype)


def clamp_to_bits(values: np.ndarray, bits: int, signed: bool) -> np.ndarray:
    """int32 values clamped to a signed or unsigned type of ``bits`` bits; uint32 bit patterns."""
    low = -(1 << (bits - 1)) if signed else 0
    high = (1 << (bits - signed)) - 1
    return np.clip(values, low, high).view(np.uint32) & np.uint32((1 << bits) - 1)
