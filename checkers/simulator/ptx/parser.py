"""PTX text to a Module (manual, chapters "Syntax" and "Directives").

The whole text is understood or refused: nothing is passed over but comments and debug sections.
"""

from __future__ import annotations

from dataclasses import replace

from checkers.simulator.ptx.bodies import Body, Draft, FunctionDraft, function_directives, pragma
from checkers.simulator.ptx.debug_info import DebugInfo
from checkers.simulator.ptx.declarations import declare_variables, parameters
from checkers.simulator.ptx.lexer import ASSEMBLY, DIRECTIVE, END, FLOAT, PtxSyntaxError, Words
from checkers.simulator.ptx.program import Function, Instruction, Module, Symbol
from checkers.simulator.ptx.scopes import Names, Scope

__all__ = ["PtxSyntaxError", "parse"]

_LINKAGE = (".visible", ".extern", ".weak", ".common")
_MODULE_SPACES = (".global", ".const", ".shared", ".local")


def parse(text: str) -> Module:
    """Reads a PTX text. Raises PtxSyntaxError, with the line, for anything that is not PTX."""
    # Texts made to be handed to the driver may end in the zero of a C string.
    return _Parser(text.rstrip("\0")).module()


class _Parser:
    def __init__(self, text: str) -> None:
        self.words = Words(text)
        self.names = Names()
        self.scope = Scope(None, self.names)
        self.debug = DebugInfo()
        self.drafts: dict[str, FunctionDraft] = {}
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
            pragma(words)
        elif text == ".alias":
            self._alias()
        else:
            raise words.error("a directive of a module")

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
        draft = FunctionDraft(name, entry, names, given, results)
        draft.directives = function_directives(words)
        if words.accept(";"):
            self.drafts.setdefault(name, draft)
            return
        if name in self.drafts and self.drafts[name].defined:
            raise words.error(f"';', since there is a function {name!r} already")
        self.drafts[name] = draft
        draft.defined = True
        words.expect("{")
        Body(words, self.debug, draft, scope).read()

    def _finish(self, draft: FunctionDraft) -> Function:
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

    def _instruction(self, draft: Draft) -> Instruction:
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
            if not known and scope.find(text) is None:
                raise PtxSyntaxError(line, repr(text), "a name that is declared")


def _three(numbers: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*numbers, 1, 1)[:3]
    return (x, y, z)
