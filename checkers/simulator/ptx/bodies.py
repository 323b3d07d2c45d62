"""Bodies of functions, and the directives that may stand there (manual 4.3, 11.3, 11.4)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from checkers.simulator.ptx.debug_info import DebugInfo, Location
from checkers.simulator.ptx.declarations import declare_registers, declare_variables, parameters
from checkers.simulator.ptx.lexer import ASSEMBLY, DIRECTIVE, NAME, STRING, Words
from checkers.simulator.ptx.operands import call_operands, operands, register
from checkers.simulator.ptx.program import Operand, Register, Variable
from checkers.simulator.ptx.scopes import Names, Scope

_SPACES = (".shared", ".local", ".param", ".global", ".const")
_MOST_BLOCKS = 200  # one in another
_MOST_LABELS = 1 << 16  # in the short form N<5>

# How many numbers may follow a directive of a function.
_DIRECTIVE_NUMBERS = {
    ".maxntid": 3,
    ".reqntid": 3,
    ".reqnctapercluster": 3,
    ".minnctapersm": 1,
    ".maxnctapersm": 1,
    ".maxnreg": 1,
    ".maxclusterrank": 1,
    ".abi_preserve": 1,
    ".abi_preserve_control": 1,
    ".explicitcluster": 0,
    ".blocksareclusters": 0,
    ".noreturn": 0,
}


@dataclass
class Draft:
    """An instruction before labels and places are known."""

    opcode: str
    modifiers: tuple[str, ...]
    operands: list[Operand]
    guard: Register | None
    line: int
    text: str
    location: Location
    scope: Scope


@dataclass
class FunctionDraft:
    """A function before that; ``directives``: the numbers of each, see function_directives;
    ``defined``: it has a body."""

    name: str
    entry: bool
    names: Names
    parameters: tuple[Variable, ...] = ()
    results: tuple[Variable, ...] = ()
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    instructions: list[Draft] = field(default_factory=list)
    tables: dict[str, tuple[Scope, tuple[str, ...]]] = field(default_factory=dict)
    defined: bool = False


def pragma(words: Words) -> None:
    """``.pragma "nounroll";``: advice, of no meaning here."""
    words.advance()
    words.take(STRING, "a text in quotes")
    while words.accept(","):
        words.take(STRING, "a text in quotes")
    words.expect(";")


def function_directives(words: Words) -> dict[str, tuple[int, ...]]:
    """What stands between a function's head and its body (manual 11.4, 11.7, 11.8):
    ``.reqntid 128, 2 .explicitcluster`` is {".reqntid": (128, 2), ".explicitcluster": ()}."""
    found: dict[str, tuple[int, ...]] = {}
    while words.kind == DIRECTIVE:
        text = words.text
        if text == ".pragma":
            pragma(words)
            continue
        if text not in _DIRECTIVE_NUMBERS:
            raise words.error("a directive of a function, '{' or ';'")
        words.advance()
        most = _DIRECTIVE_NUMBERS[text]
        numbers: list[int] = []
        while len(numbers) < most:
            numbers.append(words.number("a number"))
            if not words.accept(","):
                break
        found[text] = tuple(numbers)
    return found


class Body:
    """Reads the statements of one function, blocks in blocks."""

    def __init__(self, words: Words, debug: DebugInfo, draft: FunctionDraft, scope: Scope) -> None:
        self.words = words
        self.debug = debug
        self.draft = draft
        self.blocks = [scope]
        self.location: Location = ()
        # Where the text of inline assembly begins, 0 outside of it.
        self.assembly = 0

    def read(self) -> None:
        """Up to the closing brace, and past it."""
        words = self.words
        while True:
            if words.kind == NAME:
                if words.next_text() == ":":
                    self._label()
                else:
                    self._instruction(words.start, None)
            elif words.kind == DIRECTIVE:
                self._directive()
            elif words.is_mark("@"):
                self._guarded()
            elif words.accept("{"):
                if len(self.blocks) == _MOST_BLOCKS:
                    raise words.error(f"at most {_MOST_BLOCKS} blocks in one another")
                self.blocks.append(Scope(self.blocks[-1], self.draft.names))
            elif words.accept("}"):
                self.blocks.pop()
                if not self.blocks:
                    return
            elif words.kind == ASSEMBLY:
                begins = words.advance() == "begin"
                self.assembly = words.start if begins else 0
            elif not words.accept(";"):
                raise words.error("an instruction, a directive or '}'")

    def _directive(self) -> None:
        words, scope = self.words, self.blocks[-1]
        text = words.text
        if text == ".pragma":
            pragma(words)
            return
        start = words.start
        words.advance()
        if text == ".loc":
            self._location(start)
        elif text == ".reg":
            declare_registers(words, scope)
        elif text in _SPACES:
            declare_variables(words, scope, text[1:])
        elif text == ".extern" and words.text == ".shared":
            words.advance()
            declare_variables(words, scope, "shared", extern=True)
        elif text == ".file":
            self.debug.file(words)
        else:
            raise words.wrong("a directive of a function's body")

    def _location(self, start: int) -> None:
        """Of the .loc inside inline assembly only those before its text count: LLVM adds the lines
        of that text to the others. start: where the .loc begins."""
        location = self.debug.location(self.words)
        if self.assembly in (0, start):
            self.location = location
        if self.assembly == start:
            self.assembly = self.words.start

    def _label(self) -> None:
        words, scope = self.words, self.blocks[-1]
        name = words.identifier("a label")
        words.expect(":")
        unique = scope.add_label(words, name)
        if words.text == ".branchtargets" or words.text == ".calltargets":
            words.advance()
            self.draft.tables[unique] = (scope, self._targets())
        elif words.text == ".callprototype":
            words.advance()
            self._prototype()
        else:
            self.draft.names.labels[unique] = len(self.draft.instructions)

    def _targets(self) -> tuple[str, ...]:
        """``L1, L2;`` or ``N<5>;``, which is N0 to N4."""
        words = self.words
        found: list[str] = []
        while True:
            line = words.line
            name = words.identifier("a label or a function")
            names = [name]
            if words.accept("<"):
                count = words.number("how many labels")
                words.expect(">")
                if count > _MOST_LABELS:
                    raise words.wrong(f"at most {_MOST_LABELS} labels")
                names = [f"{name}{number}" for number in range(count)]
            for each in names:
                self.draft.names.pending.append((each, line, self.blocks[-1]))
            found += names
            if not words.accept(","):
                break
        words.expect(";")
        return tuple(found)

    def _prototype(self) -> None:
        """``(results) _ (parameters) .noreturn;`` for an indirect call."""
        words = self.words
        apart = Scope(None, Names())
        parameters(words, apart)
        words.expect("_")
        parameters(words, apart)
        function_directives(words)
        words.expect(";")

    def _guarded(self) -> None:
        words, scope = self.words, self.blocks[-1]
        start = words.start
        words.expect("@")
        negated = words.accept("!")
        guard = register(words, scope)
        if guard.type != "pred":
            raise words.wrong("a predicate register as guard")
        self._instruction(start, replace(guard, negated=True) if negated else guard)

    def _instruction(self, start: int, guard: Register | None) -> None:
        words, scope = self.words, self.blocks[-1]
        line = words.line_of(start)
        opcode, *modifiers = words.take(NAME, "an instruction").split(".")
        if not opcode.isalnum() or not opcode[0].islower():
            raise words.wrong("an instruction")
        while words.kind == DIRECTIVE:  # spaces may stand before a modifier
            modifiers.append(words.advance()[1:])
        read = call_operands if opcode == "call" else operands
        found = read(words, scope)
        text = words.since(start)
        words.expect(";")
        draft = Draft(opcode, tuple(modifiers), found, guard, line, text, self.location, scope)
        self.draft.instructions.append(draft)
