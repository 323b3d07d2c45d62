"""Where instructions come from: .loc, .file and the names in .debug_str (manual 11.5)."""

from __future__ import annotations

from checkers.simulator.ptx.lexer import DIRECTIVE, END, INTEGER, NAME, STRING, Words
from checkers.simulator.ptx.program import Place

# File number, line, column, and what names the function: a label of .debug_str and an offset.
_Numbers = tuple[int, int, int]
_FunctionName = tuple[str, int]
Location = tuple[tuple[_Numbers, _FunctionName | None], ...]  # innermost first

_MOST_INLINED = 16


class DebugInfo:
    """Gathers what the text says; places are made at its end, since files may come after use."""

    def __init__(self) -> None:
        self.files: dict[int, str] = {}
        self._inlined_at: dict[_Numbers, tuple[_Numbers, _FunctionName]] = {}
        self._labels: dict[str, int] = {".debug_str": 0}
        self._strings = bytearray()
        self._places: dict[Location, tuple[Place, ...]] = {}

    def file(self, words: Words) -> None:
        """``1 "name", 0, 10``: the words after .file."""
        number = words.number("the number of a file")
        self.files[number] = words.take(STRING, "a file's name in quotes")[1:-1]
        while words.accept(","):
            words.number("a time stamp or a size")

    def location(self, words: Words) -> Location:
        """``2 216 16, function_name $L, inlined_at 1 10 20``: the words after .loc.

        The place named by inlined_at may itself have been inlined: its own .loc said so before.
        """
        own = self._numbers(words)
        self._inlined_at.pop(own, None)
        name: _FunctionName = ("", 0)
        while words.accept(","):
            attribute = words.identifier("'function_name' or 'inlined_at'")
            if attribute == "function_name":
                name = self._function_name(words)
            elif attribute == "inlined_at":
                self._inlined_at[own] = (self._numbers(words), name)
            else:
                raise words.wrong("'function_name' or 'inlined_at'")
        chain: list[tuple[_Numbers, _FunctionName | None]] = []
        place = own
        while len(chain) < _MOST_INLINED:
            outer = self._inlined_at.get(place)
            chain.append((place, outer[1] if outer else None))
            if outer is None:
                break
            place = outer[0]
        return tuple(chain)

    def _numbers(self, words: Words) -> _Numbers:
        wanted = "the numbers of a file, a line and a column"
        return (words.number(wanted), words.number(wanted), words.number(wanted))

    def _function_name(self, words: Words) -> _FunctionName:
        if words.kind not in (NAME, DIRECTIVE):
            raise words.error("a label of .debug_str")
        label, offset = words.advance(), 0
        if words.accept("+"):
            offset = words.number("an offset in .debug_str")
        return label, offset

    def section(self, words: Words) -> None:
        """``.debug_str { label: .b8 95 ... }``: the words after .section; other sections are
        passed over."""
        name = words.take(DIRECTIVE, "the name of a section")
        while words.kind == DIRECTIVE:
            name += words.advance()
        words.expect("{")
        while not words.accept("}"):
            if words.kind == END or words.text in ("{", ";"):
                raise words.error("'}'")
            if name == ".debug_str":
                self._string_data(words)
            else:
                words.advance()

    def _string_data(self, words: Words) -> None:
        if words.kind == NAME and words.next_text() == ":":
            self._labels[words.advance()] = len(self._strings)
            words.advance()
        elif words.kind == INTEGER:
            self._strings.append(words.number("a byte") & 0xFF)
        elif words.text in (".b8", ",", "-"):
            words.advance()
        else:
            raise words.error("a label or a byte of .debug_str")

    def places(self, location: Location) -> tuple[Place, ...]:
        """The places of a location. To be called when the whole text has been read."""
        known = self._places.get(location)
        if known is None:
            known = self._places[location] = tuple(
                Place(self.files.get(file, ""), line, column, self._text(name))
                for (file, line, column), name in location
            )
        return known

    def _text(self, name: _FunctionName | None) -> str:
        if name is None or name[0] not in self._labels:
            return ""
        start = self._labels[name[0]] + name[1]
        end = self._strings.find(0, start)
        return self._strings[start : end if end >= 0 else None].decode("latin-1")
