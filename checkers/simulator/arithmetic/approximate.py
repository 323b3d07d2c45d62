"""The approximate functions (PTX ISA 9.7.3.8, 9.7.3.13 to 9.7.3.22, 9.7.4.9, 9.7.4.10).

The manual gives bounds, and the hardware's tables are not public: here each is computed in
float64 and rounded once, which is correctly rounded but for one case in some 10**8. On a GPU:

    rcp 1 ulp                      sqrt 2**-23 relative            rsqrt 2**-22.9 relative
    ex2 2 ulp                      lg2 2**-22 absolute in (1/2, 2), relative elsewhere
    sin, cos 2**-20.5 absolute in [-2 pi, 2 pi], 2**-14.7 in [-100 pi, 100 pi]
    tanh 2**-11 relative           div.approx, div.full 2 ulp
    f16: ex2 2**-9.9 relative, tanh 2**-10.987 absolute
    bf16: ex2 2**-7 relative, tanh 2**-8 absolute

Values at zeros, infinities and NaNs are those of the manual's tables.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from checkers.simulator.arithmetic.single import canonical, multiply

# What rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 keep: the upper 32 bits.
_UPPER = np.uint64(0xFFFFFFFF00000000)
_NAN = np.uint64(0x7FFFFFFF00000000)
_SMALLEST = np.finfo(np.float64).smallest_normal

WIDE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "rcp": np.reciprocal,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: np.reciprocal(np.sqrt(x)),
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}


# 1 / (2 pi): sine and cosine are computed from the angle in turns, rounded to zero.
_TURNS = np.float32(0.15915494)


def single(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """The function of that name, float32 to float32."""
    function = WIDE[name]
    if name in ("sin", "cos"):

        def of_turns(a: np.ndarray) -> np.ndarray:
            turns = np.asarray(multiply(a, _TURNS, "rz"), np.float64)
            # What is left of a turn is exact, and keeps the sign of a zero.
            return canonical(function(np.fmod(turns, 1.0) * (2 * np.pi)).astype(np.float32))

        return of_turns
    return lambda a: canonical(function(np.asarray(a, np.float64)).astype(np.float32))


def divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """div.approx.f32: as ``divide_full``, but for 2**126 < abs(b) < 2**128 the reciprocal is lost:
    the result is NaN for infinite a, else a zero."""
    quotient = divide_full(a, b)
    lost = (np.abs(b) > np.float32(2.0**126)) & np.isfinite(b)
    if not np.count_nonzero(lost):
        return quotient
    return np.where(lost, multiply(a, np.copysign(np.float32(0), b)), quotient)


def divide_full(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """div.full.f32: a times the reciprocal of b, both scaled so that it is not lost."""
    mantissa, exponent = np.frexp(np.asarray(b))
    wide = np.multiply(a, np.float32(1) / mantissa, dtype=np.float64)
    scaled = np.ldexp(wide, -exponent)
    return canonical(np.where(np.isfinite(b) & (b != 0), scaled, a / b).astype(np.float32))


def gross(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """rcp.approx.ftz.f64 or rsqrt.approx.ftz.f64: the upper half of the operand gives the upper
    half of the result, subnormals are zeros, NaNs 0x7fffffff00000000."""
    function = WIDE[name]

    def approximate(a: np.ndarray) -> np.ndarray:
        operand = _flush((np.asarray(a).view(np.uint64) & _UPPER).view(np.float64))
        result = _flush(function(operand)).view(np.uint64) & _UPPER
        return np.where(np.isnan(function(operand)), _NAN, result).view(np.float64)

    return approximate


def _flush(values: np.ndarray) -> np.ndarray:
    return np.where(np.abs(values) < _SMALLEST, np.copysign(0.0, values), values)
