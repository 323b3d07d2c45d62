"""PTX text to a Module (manual, chapters "Syntax" and "Directives").

The whole text is understood or refused: nothing is passed over but comments and debug sections.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from checkers.simulator.debug_info import DebugInfo, Location
from checkers.simulator.declarations import declare_registers, declare_variables, parameters
from checkers.simulator.lexer import (
    ASSEMBLY,
    DIRECTIVE,
    END,
    FLOAT,
    NAME,
    STRING,
    PtxSyntaxError,
    Words,
)
from checkers.simulator.operands import call_operands, operands, register
from checkers.simulator.program import (
    Function,
    Instruction,
    Module,
    Operand,
    Register,
    Symbol,
    Variable,
)
from checkers.simulator.scopes import Names, Scope

__all__ = ["PtxSyntaxError", "parse"]

_LINKAGE = (".visible", ".extern", ".weak", ".common")
_MODULE_SPACES = (".global", ".const", ".shared", ".local")
_BODY_SPACES = (".shared", ".local", ".param", ".global", ".const")
_MOST_BLOCKS = 200  # one in another


def parse(text: str) -> Module:
    """Reads a PTX text. Raises PtxSyntaxError, with the line, for anything that is not PTX."""
    return _Parser(text).module()


@dataclass
class _Draft:
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
class _FunctionDraft:
    name: str
    entry: bool
    names: Names
    parameters: tuple[Variable, ...] = ()
    results: tuple[Variable, ...] = ()
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    instructions: list[_Draft] = field(default_factory=list)
    tables: dict[str, tuple[Scope, tuple[str, ...]]] = field(default_factory=dict)


class _Parser:
    def __init__(self, text: str) -> None:
        self.words = Words(text)
        self.names = Names()
        self.scope = Scope(None, self.names)
        self.debug = DebugInfo()
        self.drafts: dict[str, _FunctionDraft] = {}
        self.aliases: dict[str, str] = {}

    # --- the module ----------------------------------------------------------------------------

    def module(self) -> Module:
        words = self.words
        self._outer_assembly()
        self._keyword(".version")
        version = words.take(FLOAT, "a version such as 8.7")
        self._outer_assembly()
        self._keyword(".target")
        target = words.identifier("a target such as sm_90a")
        while words.accept(","):
            words.identifier("a target's option")
        while words.kind != END:
            self._module_statement()
        functions = {name: self._finish(draft) for name, draft in self.drafts.items()}
        for alias, name in self.aliases.items():
            functions[alias] = replace(functions[name], name=alias)
        self._check_pending(self.names, functions)
        variables = tuple(self.names.variables)
        return Module(target, version, functions, variables, self.debug.files)

    def _keyword(self, directive: str) -> None:
        if self.words.text != directive or self.words.kind != DIRECTIVE:
            raise self.words.error(f"'{directive}'")
        self.words.advance()

    def _outer_assembly(self) -> None:
        """Passes over the marks of inline assembly at module scope."""
        while self.words.kind == ASSEMBLY:
            self.words.advance()

    def _module_statement(self) -> None:
        words = self.words
        if words.kind == ASSEMBLY or words.is_mark(";"):
            words.advance()
            return
        linkage: set[str] = set()
        while words.kind == DIRECTIVE and words.text in _LINKAGE:
            linkage.add(words.advance())
        text = words.text if words.kind == DIRECTIVE else ""
        if text in (".entry", ".func"):
            words.advance()
            self._function(entry=text == ".entry")
        elif text in _MODULE_SPACES:
            words.advance()
            declare_variables(words, self.scope, text[1:], ".extern" in linkage)
        elif linkage:
            raise words.error("a function or a variable")
        elif text == ".file":
            words.advance()
            self.debug.file(words)
        elif text == ".section":
            words.advance()
            self.debug.section(words)
        elif text == ".loc":
            words.advance()
            self.debug.location(words)
        elif text == ".address_size":
            words.advance()
            words.number("32 or 64")
        elif text == ".pragma":
            self._pragma()
        elif text == ".alias":
            self._alias()
        else:
            raise words.error("a directive of a module")

    def _pragma(self) -> None:
        words = self.words
        words.advance()
        words.take(STRING, "a text in quotes")
        while words.accept(","):
            words.take(STRING, "a text in quotes")
        words.expect(";")

    def _alias(self) -> None:
        words = self.words
        words.advance()
        alias = words.identifier("a function's name")
        words.expect(",")
        if words.text not in self.drafts:
            raise words.error("a function that is declared")
        self.aliases[alias] = words.advance()
        words.expect(";")

    # --- functions -----------------------------------------------------------------------------

    def _function(self, entry: bool) -> None:
        """``(results) name (parameters) directives { body }``, or ``;`` in place of the body."""
        words = self.words
        names = Names()
        scope = Scope(self.scope, names)
        results = () if entry else parameters(words, scope)
        name = words.identifier("the name of a function")
        given = parameters(words, scope)
        draft = _FunctionDraft(name, entry, names, given, results)
        self._directives(draft)
        before = self.drafts.get(name)
        if before is not None and before.instructions:
            raise words.error(f"no second function {name!r} before this")
        if words.accept(";"):
            self.drafts.setdefault(name, draft)
            return
        self.drafts[name] = draft
        words.expect("{")
        _Body(self, draft, scope).read()

    def _directives(self, draft: _FunctionDraft) -> None:
        """What stands between a function's head and its body (manual 11.4, 11.7, 11.8)."""
        words = self.words
        while words.kind == DIRECTIVE:
            text = words.text
            if text == ".pragma":
                self._pragma()
                continue
            if text not in _DIRECTIVE_NUMBERS:
                raise words.error("a directive of a function, '{' or ';'")
            words.advance()
            most = _DIRECTIVE_NUMBERS[text]
            numbers: list[int] = []
            while most and len(numbers) < most:
                numbers.append(words.number("a number"))
                if not words.accept(","):
                    break
            draft.directives[text] = tuple(numbers)

    def _finish(self, draft: _FunctionDraft) -> Function:
        self._check_pending(draft.names, self.drafts)
        given = draft.directives
        exact = ".reqntid" in given
        threads = given.get(".reqntid", given.get(".maxntid"))
        cluster = given.get(".reqnctapercluster")
        return Function(
            name=draft.name,
            entry=draft.entry,
            parameters=draft.parameters,
            results=draft.results,
            registers=draft.names.registers,
            variables=tuple(draft.names.variables),
            instructions=tuple(self._instruction(each) for each in draft.instructions),
            labels=draft.names.labels,
            threads=_three(threads) if threads else None,
            threads_exact=exact,
            cluster=_three(cluster) if cluster else None,
            max_registers=given.get(".maxnreg", (None,))[0],
            branch_tables={
                label: tuple(scope.label(each) or each for each in targets)
                for label, (scope, targets) in draft.tables.items()
            },
        )

    def _instruction(self, draft: _Draft) -> Instruction:
        found = tuple(
            Symbol(draft.scope.label(each.name) or each.name) if isinstance(each, Symbol) else each
            for each in draft.operands
        )
        places = self.debug.places(draft.location)
        return Instruction(
            draft.opcode, draft.modifiers, found, draft.guard, places, draft.line, draft.text
        )

    def _check_pending(self, names: Names, functions: dict) -> None:
        """Raises PtxSyntaxError for a name that nothing declares."""
        for text, line, scope in names.pending:
            known = scope.label(text) is not None or text in functions or text in self.aliases
            if not known and scope.find(text) is None and text not in _BUILT_IN:
                raise PtxSyntaxError(line, repr(text), "a name that is declared")


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
_BUILT_IN = {"vprintf", "malloc", "free", "__assertfail"}


def _three(numbers: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*numbers, 1, 1)[:3]
    return (x, y, z)


class _Body:
    """Reads the statements of one function, blocks in blocks."""

    def __init__(self, parser: _Parser, draft: _FunctionDraft, scope: Scope) -> None:
        self.words = parser.words
        self.parser = parser
        self.draft = draft
        self.blocks = [scope]
        self.location: Location = ()
        # Index of the next instruction when inline assembly began, -1 outside of it.
        self.assembly = -1

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
                self.assembly = len(self.draft.instructions) if begins else -1
            elif not words.accept(";"):
                raise words.error("an instruction, a directive or '}'")

    def _directive(self) -> None:
        words, scope = self.words, self.blocks[-1]
        text = words.text
        if text == ".pragma":
            self.parser._pragma()
            return
        words.advance()
        if text == ".loc":
            self._location()
        elif text == ".reg":
            declare_registers(words, scope)
        elif text in _BODY_SPACES:
            declare_variables(words, scope, text[1:])
        elif text == ".extern" and words.text == ".shared":
            words.advance()
            declare_variables(words, scope, "shared", extern=True)
        elif text == ".file":
            self.parser.debug.file(words)
        else:
            raise words.error(f"a directive of a function's body, not {text!r}, before this")

    def _location(self) -> None:
        """Of the .loc inside inline assembly only those before its first instruction count: LLVM
        adds the lines of the assembly's own text to the others."""
        location = self.parser.debug.location(self.words)
        if self.assembly in (-1, len(self.draft.instructions)):
            self.location = location

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
                if count > 1 << 16:
                    raise words.error("at most 65536 labels before this")
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
        self.parser._directives(_FunctionDraft("_", False, apart.names))
        words.expect(";")

    def _guarded(self) -> None:
        words, scope = self.words, self.blocks[-1]
        start = words.start
        words.expect("@")
        negated = words.accept("!")
        guard = register(words, scope)
        if guard.type != "pred":
            raise words.error("a predicate register as guard before this")
        self._instruction(start, replace(guard, negated=True) if negated else guard)

    def _instruction(self, start: int, guard: Register | None) -> None:
        words, scope = self.words, self.blocks[-1]
        line = words.line_of(start)
        opcode, *modifiers = words.take(NAME, "an instruction").split(".")
        if not opcode.isalnum() or not opcode[0].islower():
            raise words.error(f"an instruction, not {opcode!r}, before this")
        while words.kind == DIRECTIVE:  # spaces may stand before a modifier
            modifiers.append(words.advance()[1:])
        read = call_operands if opcode == "call" else operands
        found = read(words, scope)
        text = words.since(start)
        words.expect(";")
        draft = _Draft(opcode, tuple(modifiers), found, guard, line, text, self.location, scope)
        self.draft.instructions.append(draft)
