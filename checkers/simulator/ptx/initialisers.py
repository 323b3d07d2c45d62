"""The initial values of variables (manual 5.4.4)."""

from __future__ import annotations

import struct

from checkers.simulator.ptx.constants import TERM, constant, integer_constant, starts_constant
from checkers.simulator.ptx.lexer import INTEGER, NAME, STRING, Words
from checkers.simulator.ptx.program import TYPE_BITS, Relocation, Variable
from checkers.simulator.ptx.scopes import Scope

_MOST_BYTES = 1 << 26  # of initial data: it is kept as bytes
_FLOATS = {"f32": "<f", "f64": "<d"}
_WITHOUT = {"f16", "f16x2", "bf16", "bf16x2", "b128"}


def initial_data(
    words: Words, scope: Scope, kind: str, dimensions: list[int]
) -> tuple[list[int], bytes, tuple[Relocation, ...]]:
    """Reads what follows "=": ``3``, ``{1, 2}``, ``{{1}, {2, 3}}``, ``"text"``, ``generic(x)+4``.

    kind: the type of an element.  dimensions: of the variable; a first one of 0 is how many there
    are values for. Gives the dimensions, the initial bytes and the addresses among them.
    """
    if kind in _WITHOUT:
        raise words.wrong(f"no initial value for .{kind}")
    reader = _Reader(words, scope, kind)
    if words.kind == STRING:
        count = reader.string(0, dimensions)
    elif dimensions:
        count = reader.array(0, dimensions)
    else:
        reader.value(0)
        count = 1
    if dimensions and dimensions[0] == 0:
        dimensions = [count, *dimensions[1:]]
    return dimensions, bytes(reader.data), tuple(reader.relocations)


class _Reader:
    def __init__(self, words: Words, scope: Scope, kind: str) -> None:
        self.words, self.scope, self.kind = words, scope, kind
        self.size = TYPE_BITS[kind] // 8
        self.data = bytearray()
        self.relocations: list[Relocation] = []

    def array(self, place: int, dimensions: list[int]) -> int:
        """The values in braces for an array that starts at element ``place``; how many of its
        first dimension."""
        words = self.words
        words.expect("{")
        step = 1
        for length in dimensions[1:]:
            step *= length
        count = 0
        while not words.is_mark("}"):
            if dimensions[0] and count == dimensions[0]:
                raise words.error(f"no more than {count} values")
            if len(dimensions) > 1 and words.is_mark("{"):
                self.array(place + count * step, dimensions[1:])
            elif len(dimensions) > 1:
                raise words.error("'{'")
            else:
                self.value(place + count)
            count += 1
            if not words.accept(","):
                break
        words.expect("}")
        return count

    def string(self, place: int, dimensions: list[int]) -> int:
        """A quoted text, and the zero at its end if there is room."""
        words = self.words
        if len(dimensions) != 1 or self.size != 1:
            raise words.error("a text only for an array of bytes")
        text = words.text[1:-1].encode("latin-1", "replace")
        length = dimensions[0] or len(text) + 1
        if len(text) > length:
            raise words.error(f"a text of at most {length} bytes")
        words.advance()
        self.put(place, text)
        return length

    def put(self, place: int, raw: bytes) -> None:
        end = place * self.size + len(raw)
        if end > _MOST_BYTES:
            raise self.words.wrong(f"at most {_MOST_BYTES} bytes of initial data")
        self.data.extend(bytes(max(0, end - len(self.data))))
        self.data[end - len(raw) : end] = raw

    def value(self, place: int) -> None:
        """One element: a number or an address."""
        words = self.words
        if words.kind == NAME and words.text != "WARP_SZ":
            self.relocate(place, mask=None)
        elif words.kind == INTEGER and words.next_text() == "(":
            mask = words.number("a mask")
            words.expect("(")
            if words.kind == NAME:
                self.relocate(place, mask)
            else:
                value = integer_constant(words, "an address or a number")
                self.number(place, (value & mask) >> _shift(words, mask))
            words.expect(")")
        else:
            self.number(place, self._constant())

    def _constant(self) -> int | float:
        if not starts_constant(self.words):
            raise self.words.error("a value")
        value = constant(self.words)
        if value.kind == "int":
            return value.value
        if self.kind in _FLOATS or self.kind.startswith("b"):
            # Untyped bits take those of a constant of their size.
            return value.value if self.kind in _FLOATS else value.bits
        raise self.words.wrong("an integer")

    def number(self, place: int, value: int | float) -> None:
        if self.kind in _FLOATS:
            try:
                raw = struct.pack(_FLOATS[self.kind], value)
            except OverflowError:
                raise self.words.wrong(f"a number that fits .{self.kind}") from None
        else:
            raw = (int(value) & ((1 << 8 * self.size) - 1)).to_bytes(self.size, "little")
        self.put(place, raw)

    def relocate(self, place: int, mask: int | None) -> None:
        """``symbol+4``, ``generic(symbol)+4``."""
        words = self.words
        generic = words.text == "generic" and words.next_text() == "("
        if generic:
            words.advance()
            words.expect("(")
        found = self.scope.find(words.text)
        if found is None:
            self.scope.names.pending.append((words.text, words.line, self.scope))
        name = words.identifier("the name of a variable")
        if generic:
            words.expect(")")
        addend = 0
        while words.text in ("+", "-"):
            sign = 1 if words.advance() == "+" else -1
            addend += sign * integer_constant(words, "a constant offset", TERM)
        symbol = found.name if isinstance(found, Variable) else name
        shift = 0 if mask is None else _shift(words, mask)
        self.put(place, bytes(self.size))
        relocation = Relocation(place * self.size, self.size, symbol, addend, generic, shift)
        self.relocations.append(relocation)


def _shift(words: Words, mask: int) -> int:
    """0xff00 -> 8. The manual knows these masks and no others."""
    shift = next((bits for bits in range(0, 64, 8) if mask == 0xFF << bits), None)
    if shift is None:
        raise words.wrong("a mask of one byte: 0xff, 0xff00 and so on")
    return shift
