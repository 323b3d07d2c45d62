"""The words of a PTX text (manual, chapter "Syntax"), and a cursor that walks them."""

from __future__ import annotations

import re
from bisect import bisect_right

# Kinds of words.
NAME = "name"  # identifiers, with what follows after dots: ld.global.v4.b32, %tid.x, $L__BB0_2
DIRECTIVE = "directive"  # .reg, .b32, .shared::cta
INTEGER = "integer"
FLOAT = "float"  # 1.5e3, 0f3F800000, 0d3FF0000000000000
STRING = "string"
MARK = "mark"  # punctuation and operators, and the sink "_"
ASSEMBLY = "assembly"  # the comments that compilers write around inline assembly
END = "end"

_COMMENT = r"//[^\n]*|/\*.*?\*/"
_WORD = re.compile(
    r"""
      (?P<space>      \s+ | //\ (?P<assembly>begin|end)\ inline\ asm[^\n]* | //[^\n]*
                      | /\*.*?\*/ | @@DWARF[^\n]* )
    | (?P<name>       (?: [A-Za-z][\w$]* | [_$%][\w$]+ ) (?: \.[\w$]+ (?: ::[\w$]+ )* )* )
    | (?P<float>      (?: 0[fF][0-9a-fA-F]{8} | 0[dD][0-9a-fA-F]{16}
                      | \d+\.\d*(?:[eE][+-]?\d+)? | \.\d+(?:[eE][+-]?\d+)? | \d+[eE][+-]?\d+
                      ) (?![\w$]) )
    | (?P<integer>    (?: 0[xX][0-9a-fA-F]+ | 0[bB][01]+ | \d+ ) U? (?![\w$]) )
    | (?P<directive>  \.[\w$]+ (?: ::[\w$]+ )* )
    | (?P<string>     "[^"\n]*" )
    | (?P<mark>       << | >> | <= | >= | == | != | && | \|\| | _(?![\w$])
                      | /(?![/*]) | [{}\[\]();:,@!|+\-*%~^&<>=?] )
    """,
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_ONLY_COMMENT = re.compile(_COMMENT, re.DOTALL)


class PtxSyntaxError(ValueError):
    """A text that is not PTX. ``line``: of the text, from 1."""

    def __init__(self, line: int, found: str, wanted: str) -> None:
        super().__init__(f"PTX line {line}: found {found}, wanted {wanted}")
        self.line, self.found, self.wanted = line, found, wanted


class Words:
    """The words of a text and a place among them: ``kind`` and ``text`` are the current word's.

    Raises PtxSyntaxError for characters that begin no word.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self._newlines = [match.start() for match in re.finditer("\n", source)]
        self._kinds: list[str] = []
        self._texts: list[str] = []
        self._starts: list[int] = []
        self._read()
        self._at = 0
        self.kind, self.text = self._kinds[0], self._texts[0]

    def _read(self) -> None:
        kinds, texts, starts = self._kinds, self._texts, self._starts
        end = 0
        for match in _WORD.finditer(self.source):
            start = match.start()
            if start != end:
                break
            end = match.end()
            kind = match.lastgroup
            if kind == "space":
                # lastgroup is the last group that closed: the outer one, also for assembly marks.
                if match["assembly"]:
                    kinds.append(ASSEMBLY)
                    texts.append(match["assembly"])
                    starts.append(start)
                continue
            kinds.append(kind)  # type: ignore[arg-type]  # every alternative is a named group
            texts.append(match.group())
            starts.append(start)
        if end != len(self.source):
            rest = self.source[end : end + 20].split("\n")[0]
            what = "an unclosed comment or string" if rest[0] in '/"' else repr(rest)
            raise PtxSyntaxError(self.line_of(end), what, "a word of PTX")
        kinds.append(END)
        texts.append("")
        starts.append(end)

    def line_of(self, offset: int) -> int:
        """The line, from 1, of a place in the source."""
        return bisect_right(self._newlines, offset - 1) + 1

    @property
    def start(self) -> int:
        """Where in the source the current word begins."""
        return self._starts[self._at]

    @property
    def line(self) -> int:
        """The line of the current word, from 1."""
        return self.line_of(self._starts[self._at])

    def advance(self) -> str:
        """Goes to the next word; gives the text of the one left behind. Stays at the end."""
        text = self.text
        if self.kind is not END:
            self._at += 1
            self.kind, self.text = self._kinds[self._at], self._texts[self._at]
        return text

    def next_text(self) -> str:
        """The text of the word after this one, "" at the end."""
        return self._texts[self._at + 1] if self.kind is not END else ""

    def is_mark(self, text: str) -> bool:
        return self.text == text and self.kind == MARK

    def accept(self, mark: str) -> bool:
        """Goes past ``mark`` if it is the current word."""
        if self.text == mark and self.kind == MARK:
            self.advance()
            return True
        return False

    def expect(self, mark: str) -> None:
        """Goes past ``mark``, which must be the current word."""
        if not self.accept(mark):
            raise self.error(repr(mark))

    def take(self, kind: str, wanted: str) -> str:
        """Goes past a word of this kind and gives its text; ``wanted`` says what it is for."""
        if self.kind != kind:
            raise self.error(wanted)
        return self.advance()

    def identifier(self, wanted: str) -> str:
        """Goes past a name without dots."""
        if self.kind != NAME or "." in self.text:
            raise self.error(wanted)
        return self.advance()

    def number(self, wanted: str) -> int:
        """Goes past an integer literal, which must fit in 64 bits."""
        if self.kind != INTEGER:
            raise self.error(wanted)
        value = integer(self.text)
        if value is None:
            raise self.error("an integer of at most 64 bits")
        self.advance()
        return value

    def since(self, start: int) -> str:
        """The source from ``start`` up to the current word, on one line, without comments."""
        text = self.source[start : self.start]
        if "/" in text:
            text = _ONLY_COMMENT.sub(" ", text)
        return " ".join(text.split())

    def error(self, wanted: str) -> PtxSyntaxError:
        """That the current word is not what was wanted."""
        found = "the end of the text" if self.kind is END else repr(self.text[:60])
        return PtxSyntaxError(self.line, found, wanted)

    def wrong(self, wanted: str) -> PtxSyntaxError:
        """That the word just passed is not what was wanted."""
        before = max(self._at - 1, 0)
        found = repr(self._texts[before][:60])
        return PtxSyntaxError(self.line_of(self._starts[before]), found, wanted)


def integer(text: str) -> int | None:
    """The value of an integer literal (manual 4.5.1); None beyond 64 bits or for 08."""
    digits = text.removesuffix("U")
    prefix = digits[:2].lower()
    if prefix in ("0x", "0b"):
        base, digits = (16 if prefix == "0x" else 2), digits[2:]
    else:
        base = 8 if digits[0] == "0" else 10
    digits = digits.lstrip("0") or "0"
    if len(digits) > 64:
        return None
    try:
        value = int(digits, base)
    except ValueError:  # an 8 or 9 in an octal literal
        return None
    return value if value < 1 << 64 else None
