"""Floating-point formats in rational numbers: an oracle for the tests that shares no code with the
simulator."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import floor, isinf, isnan

import numpy as np


@dataclass(frozen=True)
class Binary:
    """mantissa: bits after the leading one.  exponent: bits of it.  largest: the greatest finite
    code, when it is not the last before the one of all ones."""

    mantissa: int
    exponent: int
    nan: int
    largest: int = 0

    @property
    def bits(self) -> int:
        return 1 + self.mantissa + self.exponent

    @property
    def top(self) -> int:
        return self.largest or ((1 << self.exponent) - 1 << self.mantissa) - 1

    def value(self, code: int) -> Fraction | str:
        """A code as a number, or "inf", "-inf", "nan"."""
        sign = -1 if code >> (self.bits - 1) else 1
        code &= (1 << (self.bits - 1)) - 1
        if code > self.top:
            if self.largest or code > self.top + 1:
                return "nan"
            return "inf" if sign > 0 else "-inf"
        field, steps = code >> self.mantissa, code & ((1 << self.mantissa) - 1)
        if field:
            steps += 1 << self.mantissa
        bias = (1 << (self.exponent - 1)) - 1
        return sign * steps * Fraction(2) ** (max(field, 1) - bias - self.mantissa)

    def round(self, value: Fraction, mode: str = "rn", finite: bool = False) -> int:
        """The code of a number that is not zero."""
        sign, size = (1, -value) if value < 0 else (0, value)
        bias = (1 << (self.exponent - 1)) - 1
        power = size.numerator.bit_length() - size.denominator.bit_length()
        power = max(power - (size < Fraction(2) ** power), 1 - bias)
        exact = size / Fraction(2) ** (power - self.mantissa)
        steps = floor(exact)
        rest = exact - steps
        up = {
            "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and steps & 1),
            "rna": rest >= Fraction(1, 2),
            "rz": False,
            "rm": rest > 0 and sign,
            "rp": rest > 0 and not sign,
        }[mode]
        code = steps + bool(up) + ((power + bias - 1) << self.mantissa)
        if code > self.top:
            away = mode in ("rn", "rna") or (mode == "rm" and sign) or (mode == "rp" and not sign)
            code = self.top + 1 if away and not finite and not self.largest else self.top
        return sign << (self.bits - 1) | code


F16 = Binary(10, 5, 0x7FFF)
BF16 = Binary(7, 8, 0x7FFF)
F32 = Binary(23, 8, 0x7FFFFFFF)
F64 = Binary(52, 11, 0)
E4M3 = Binary(3, 4, 0x7F, largest=0x7E)
E5M2 = Binary(2, 5, 0x7F)

_RNG = np.random.default_rng(7)


def interesting(form: Binary, count: int = 40) -> np.ndarray:
    """Codes: zeros, subnormals, the extremes, infinities, NaNs, ones, and ``count`` random ones,
    half of them near 1."""
    infinity = ((1 << form.exponent) - 1) << form.mantissa
    one = ((1 << (form.exponent - 1)) - 1) << form.mantissa
    half_ulp = one - (1 << form.mantissa) * (form.mantissa + 1)
    positive = [0, 1, 2, 3, (1 << form.mantissa) - 1, 1 << form.mantissa, (1 << form.mantissa) + 1]
    positive += [one - 1, one, one + 1, one + (1 << form.mantissa), one | 1 << (form.mantissa - 1)]
    positive += [half_ulp, half_ulp + 1, half_ulp - 1, infinity - 1, infinity, infinity + 1]
    positive += [infinity | 1 << (form.mantissa - 1), infinity - (1 << form.mantissa)]
    positive += [int(x) for x in _RNG.integers(0, infinity, count // 2)]
    near = 4 << form.mantissa
    positive += [int(x) for x in _RNG.integers(one - near, one + near, count // 2)]
    codes = positive + [code | 1 << (form.bits - 1) for code in positive]
    return np.array(codes, f"u{form.bits // 8}")


def number(x: float) -> Fraction | str:
    """A Python float as ``Binary.value`` gives it."""
    if isnan(x):
        return "nan"
    return ("inf" if x > 0 else "-inf") if isinf(x) else Fraction(x)
