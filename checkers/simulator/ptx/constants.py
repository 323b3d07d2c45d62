"""Constant expressions, evaluated as they are read (manual 4.5)."""

from __future__ import annotations

import math
import struct

from checkers.simulator.ptx.lexer import DIRECTIVE, FLOAT, INTEGER, NAME, Words
from checkers.simulator.ptx.program import Immediate

_WRAP = (1 << 64) - 1
_MOST_NESTED = 50  # parentheses and signs: far more than anyone writes, far less than the stack

# Binary operators and how strongly they bind (manual, table 4).
_STRENGTH = {"||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6}
_STRENGTH |= {"<": 7, ">": 7, "<=": 7, ">=": 7, "<<": 8, ">>": 8}
_STRENGTH |= {"+": 9, "-": 9, "*": 10, "/": 10, "%": 10}
TERM = 10  # the strength of products, which the offsets of addresses are made of


class _Value:
    """A value under evaluation. kind: "s64", "u64", "f64", or "f32" (only a literal)."""

    def __init__(self, kind: str, value: int | float) -> None:
        self.kind = kind
        if kind == "u64":
            value = int(value) & _WRAP
        elif kind == "s64":
            value = ((int(value) + (1 << 63)) & _WRAP) - (1 << 63)
        self.value = value

    def immediate(self) -> Immediate:
        if self.kind == "f64":
            return Immediate(
                "f64", self.value, int.from_bytes(struct.pack("<d", self.value), "little")
            )
        return Immediate("int", self.value, int(self.value) & _WRAP)


def starts_constant(words: Words) -> bool:
    """Whether the current word can begin a constant expression."""
    if words.kind in (INTEGER, FLOAT):
        return True
    return words.text in ("-", "+", "~", "(", "!") or words.text == "WARP_SZ"


def constant(words: Words, strength: int = 0) -> Immediate:
    """Reads a constant expression; ``strength``: only operators that bind at least so."""
    if words.kind == FLOAT and words.text[:2] in ("0f", "0F"):
        bits = int(words.advance()[2:], 16)
        return Immediate("f32", struct.unpack("<f", bits.to_bytes(4, "little"))[0], bits)
    return _expression(words, strength, 0).immediate()


def integer_constant(words: Words, wanted: str, strength: int = 0) -> int:
    """Reads an integer constant expression."""
    if not starts_constant(words) or words.kind == FLOAT:
        raise words.error(wanted)
    value = constant(words, strength)
    if value.kind != "int":
        raise words.wrong(wanted)
    return int(value.value)


def _expression(words: Words, strength: int, depth: int) -> _Value:
    if depth > _MOST_NESTED:
        raise words.error("an expression of less depth")
    left = _unary(words, depth + 1)
    while (binds := _STRENGTH.get(words.text, 0)) > 0 and binds >= strength:
        operator = words.advance()
        right = _expression(words, binds + 1, depth + 1)
        left = _binary(words, operator, left, right)
    if strength == 0 and words.accept("?"):
        _need_integer(words, left)
        yes = _expression(words, 0, depth + 1)
        words.expect(":")
        no = _expression(words, 0, depth + 1)
        kind = _common(words, yes, no)
        return _Value(kind, yes.value if left.value else no.value)
    return left


def _unary(words: Words, depth: int) -> _Value:
    if depth > _MOST_NESTED:
        raise words.error("an expression of less depth")
    if words.kind == INTEGER:
        unsigned = words.text.endswith("U")
        value = words.number("an integer")
        return _Value("u64" if unsigned or value >> 63 else "s64", value)
    if words.kind == FLOAT:
        return _Value("f64", _double(words))
    if words.kind == NAME and words.text == "WARP_SZ":
        words.advance()
        return _Value("s64", 32)
    if words.accept("("):
        if words.kind == DIRECTIVE and words.text in (".s64", ".u64"):
            kind = words.advance()[1:]
            words.expect(")")
            return _Value(kind, _need_integer(words, _unary(words, depth + 1)))
        inside = _expression(words, 0, depth + 1)
        words.expect(")")
        return inside
    if words.text in ("+", "-"):
        negative = words.advance() == "-"
        operand = _unary(words, depth + 1)
        return _Value(operand.kind, -operand.value if negative else operand.value)
    if words.accept("~"):
        return _Value("u64", ~_need_integer(words, _unary(words, depth + 1)))
    if words.accept("!"):
        return _Value("s64", not _need_integer(words, _unary(words, depth + 1)))
    raise words.error("a constant")


def _double(words: Words) -> float:
    text = words.text
    if text[:2] in ("0f", "0F"):
        raise words.error("a constant of double precision in an expression")
    words.advance()
    if text[:2] in ("0d", "0D"):
        return struct.unpack("<d", int(text[2:], 16).to_bytes(8, "little"))[0]
    return float(text)


def _need_integer(words: Words, value: _Value) -> int:
    if value.kind == "f64":
        raise words.wrong("an integer")
    return int(value.value)


def _common(words: Words, left: _Value, right: _Value) -> str:
    """The kind of both after the usual arithmetic conversions."""
    kinds = {left.kind, right.kind}
    if "f64" in kinds and len(kinds) > 1:
        raise words.wrong("a number of the same kind as the one before it")
    return "u64" if "u64" in kinds else left.kind


def _binary(words: Words, operator: str, left: _Value, right: _Value) -> _Value:
    kind = _common(words, left, right)
    if kind == "f64":
        return _binary_float(words, operator, left.value, right.value)
    if operator in ("<<", ">>"):
        return _shift(operator, left, int(right.value) & _WRAP)
    if operator in ("%", "&", "|", "^"):
        kind = "u64" if operator == "%" else kind
    a, b = int(_Value(kind, left.value).value), int(_Value(kind, right.value).value)
    if operator in ("/", "%") and b == 0:
        raise words.wrong("a divisor other than 0")
    if operator == "/":
        quotient = abs(a) // abs(b)  # towards zero, as in C
        return _Value(kind, quotient if (a < 0) == (b < 0) else -quotient)
    if operator == "%":
        return _Value("s64", a % b)
    arithmetic = {"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b}
    if operator in arithmetic:
        return _Value(kind, arithmetic[operator])
    return _Value("s64", _compare(operator, a, b))


def _binary_float(words: Words, operator: str, a: float, b: float) -> _Value:
    if operator == "/":
        if b == 0:
            sign = math.copysign(1.0, a) * math.copysign(1.0, b)
            return _Value("f64", math.nan if a == 0 or math.isnan(a) else sign * math.inf)
        return _Value("f64", a / b)
    if operator in ("+", "-", "*"):
        return _Value("f64", {"+": a + b, "-": a - b, "*": a * b}[operator])
    if operator in ("%", "<<", ">>", "&", "|", "^", "&&", "||"):
        raise words.wrong(f"an integer after {operator!r}")
    return _Value("s64", _compare(operator, a, b))


def _compare(operator: str, a: float, b: float) -> int:
    return int(
        {
            "<": a < b,
            ">": a > b,
            "<=": a <= b,
            ">=": a >= b,
            "==": a == b,
            "!=": a != b,
            "&&": bool(a) and bool(b),
            "||": bool(a) or bool(b),
        }[operator]
    )


def _shift(operator: str, left: _Value, by: int) -> _Value:
    value, by = int(left.value), min(by, 64)
    return _Value(left.kind, value << by if operator == "<<" else value >> by)


__all__ = ["TERM", "constant", "integer_constant", "starts_constant"]
