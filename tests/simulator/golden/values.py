"""Input bits for the golden vectors: special values first, then random ones.

Only PCG64's raw stream is used, which NumPy keeps the same from version to version, so that the
inputs need not be stored. Everything is raw bits: uint8, uint16, uint32 or uint64.
"""

from __future__ import annotations

import zlib

import numpy as np

BITS = {"8": np.uint8, "16": np.uint16, "32": np.uint32, "64": np.uint64}

# (exponent bits, mantissa bits) of the formats that inputs come in.
FORMATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
FORMATS |= {"e4m3": (4, 3), "e5m2": (5, 2)}

# f32 in memory: how a tensor map or a tensor core reads it.
LIKE_F32 = ("tf32", "f32ftz", "tf32ftz")


def stream(seed: str, count: int) -> np.ndarray:
    """(count,) uint64, the same for the same seed everywhere."""
    return np.random.PCG64(zlib.crc32(seed.encode())).random_raw(count).astype(np.uint64)


def width_of(type_: str) -> int:
    """Bits of an element of a PTX type such as "s32", "bf16", "f16x2", "e4m3x2"."""
    if type_.endswith("x2"):
        return 2 * width_of(type_[:-2])
    if type_ in ("e4m3", "e5m2"):
        return 8
    return 32 if type_ in LIKE_F32 else int(type_.lstrip("bfsu"))


def numpy_of(type_: str) -> np.dtype:
    """The unsigned NumPy type that holds one element of ``type_``."""
    return np.dtype(BITS[str(width_of(type_))])


def float_specials(type_: str) -> np.ndarray:
    """Zeros, denormals, ones and neighbours, halves, powers of two, extremes, infinities, NaNs."""
    exponent, mantissa = FORMATS[type_]
    bias = (1 << (exponent - 1)) - 1
    top = (1 << exponent) - 1
    one = bias << mantissa
    quiet = 1 << (mantissa - 1)

    def power(e: int) -> int:
        return min(max(e + bias, 1), top - 1) << mantissa

    values = [0, 1, 2, (1 << mantissa) - 1, 1 << mantissa, (1 << mantissa) + 1, quiet]
    values += [
        one,
        one + 1,
        one - 1,
        one | quiet,
        power(1),
        power(1) | quiet,
        power(1) | quiet >> 1,
    ]
    values += [power(-1), power(-1) - 1, power(-1) + 1, power(-2)]
    values += [power(e) + d for e in (7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, 0)]
    values += [power(mantissa), power(mantissa + 1) + 1, power(-14), power(-25), power(-126)]
    values += [(top << mantissa) - 1, (top << mantissa) - 2]  # the largest
    values += [
        top << mantissa,
        (top << mantissa) | quiet,
        (top << mantissa) | ((1 << mantissa) - 1),
    ]
    values += [(top << mantissa) | 1, (top << mantissa) | quiet | 1]
    sign = 1 << (exponent + mantissa)
    both = [v | s for v in values for s in (0, sign)]
    return np.array(list(dict.fromkeys(both)), dtype=numpy_of(type_))


def random_floats(type_: str, seed: str, count: int) -> np.ndarray:
    """A third any bits, a third near 1, a third over a wide range; many mantissas end in zeros,
    which makes ties for rounding."""
    exponent, mantissa = FORMATS[type_]
    bias = (1 << (exponent - 1)) - 1
    raw, how, low = (stream(f"{seed}/{part}", count) for part in ("raw", "how", "low"))
    width = 1 + exponent + mantissa
    bits = raw & np.uint64((1 << width) - 1)
    spread = np.where(how % 3 == 1, min(3, bias - 1), min(34, bias - 1)).astype(np.int64)
    field = bias + (raw >> np.uint64(8)).astype(np.int64) % (2 * spread + 1) - spread
    fraction = (raw >> np.uint64(1)) & np.uint64((1 << mantissa) - 1)
    zeros = np.where(low % 2 == 0, (low >> np.uint64(3)) % np.uint64(mantissa + 1), 0)
    fraction = (fraction >> zeros) << zeros
    sign = (how >> np.uint64(20)) & np.uint64(1)
    near = (sign << np.uint64(width - 1)) | (field.astype(np.uint64) << np.uint64(mantissa))
    return np.where(how % 3 == 0, bits, near | fraction).astype(numpy_of(type_))


def integer_specials(width: int) -> np.ndarray:
    """0, 1, -1, the extremes, and powers of two with their neighbours."""
    limit = 1 << width
    powers = [1 << k for k in sorted({1, 4, 7, 8, width // 2, width - 2, width - 1})]
    values = [0, 1, 2, 3, limit - 1, limit - 2, limit - 3]
    values += [v % limit for p in powers for v in (p - 1, p, p + 1, limit - p, limit - p - 1)]
    return np.array(list(dict.fromkeys(values)), dtype=BITS[str(width)])


def random_integers(width: int, seed: str, count: int) -> np.ndarray:
    """Half any bits, half of every magnitude and both signs."""
    raw, how = stream(f"{seed}/raw", count), stream(f"{seed}/how", count)
    signed = raw.astype(np.int64) >> np.where(how % 2 == 0, 0, how >> np.uint64(8)).astype(
        np.int64
    ) % (width - 1)
    if width < 64:
        signed >>= 64 - width
    return signed.astype(np.uint64).astype(BITS[str(width)])


def values(type_: str, seed: str, count: int) -> np.ndarray:
    """(count,) input bits of ``type_``: half special (each at least once if there is room)."""
    if type_.endswith("x2"):
        half = type_[:-2]
        pair = np.stack([values(half, f"{seed}/{k}", count) for k in range(2)], axis=1)
        return np.ascontiguousarray(pair).view(numpy_of(type_))[:, 0]
    if type_ in LIKE_F32:
        type_ = "f32"
    width = width_of(type_)
    if type_ in FORMATS:
        special, random = float_specials(type_), random_floats(type_, seed, count)
    else:
        special, random = integer_specials(width), random_integers(width, seed, count)
    choice = stream(f"{seed}/choice", count) % np.uint64(len(special))
    if seed.startswith("0"):  # the first operand goes through all of them in order
        choice = np.arange(count, dtype=np.uint64) % np.uint64(len(special))
    is_special = np.arange(count) < max(count // 2, min(len(special), count))
    return np.where(is_special, special[choice.astype(np.int64)], random)


def noise(seed: str, count: int, type_: str = "b32") -> np.ndarray:
    """(count,) random bits of ``type_``: no pattern in which a wrong place could hide."""
    return stream(seed, count).astype(numpy_of(type_))


def everything(type_: str) -> np.ndarray:
    """Every bit pattern of an 8- or 16-bit type."""
    return np.arange(1 << width_of(type_), dtype=np.uint64).astype(numpy_of(type_))


def small(seed: str, count: int, low: int, high: int, type_: str = "u32") -> np.ndarray:
    """(count,) integers from low to high, both included, as bits of ``type_``."""
    span = np.uint64(high - low + 1)
    return ((stream(seed, count) % span).astype(np.int64) + low).astype(numpy_of(type_))


def exact_floats(type_: str, seed: str, count: int, limit: int = 3) -> np.ndarray:
    """(count,) bits of integers from -limit to limit in a float type: sums of products are exact."""
    numbers = small(seed, count, -limit, limit, "s32").view(np.int32).astype(np.float64)
    return float_bits(type_, numbers)


def float_bits(type_: str, numbers: np.ndarray) -> np.ndarray:
    """Bits of float64 ``numbers`` in a float type, truncated to its mantissa; range is not
    checked, denormals become zero."""
    if type_ in ("f64", "f32", "f16"):
        of = {"f64": np.float64, "f32": np.float32, "f16": np.float16}[type_]
        return numbers.astype(of).view(numpy_of(type_))
    exponent, mantissa = FORMATS["f32" if type_ == "tf32" else type_]
    wide = numbers.astype(np.float32).view(np.uint32).astype(np.int64)
    if type_ == "tf32":
        return wide.astype(np.uint32)
    bias = (1 << (exponent - 1)) - 1
    field = ((wide >> 23) & 0xFF) - 127 + bias
    bits = (field << mantissa) | ((wide & 0x7FFFFF) >> (23 - mantissa))
    bits = np.where(field <= 0, 0, bits) | ((wide >> 31) << (exponent + mantissa))
    return bits.astype(numpy_of(type_))


def unit_floats(type_: str, seed: str, count: int) -> np.ndarray:
    """(count,) bits of random numbers in (-1, 1), for sums that round."""
    numbers = (stream(seed, count) >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0
    return float_bits(type_, numbers)
