"""Declarations of registers, variables and parameters (manual 5.4, 5.1.6)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from checkers.simulator.ptx.constants import integer_constant
from checkers.simulator.ptx.initialisers import initial_data
from checkers.simulator.ptx.lexer import DIRECTIVE, Words
from checkers.simulator.ptx.program import TYPE_BITS, Variable
from checkers.simulator.ptx.scopes import MOST_REGISTERS, Scope

_SPACES = {".const", ".global", ".local", ".shared"}
_VECTORS = {".v2": 2, ".v4": 4, ".v8": 8}


@dataclass
class _Form:
    """What stands before the name in a declaration."""

    type: str
    vector: int
    align: int  # 0: not given
    pointer: bool


def _form(words: Words) -> _Form:
    """``.align 16 .v2 .b32``, ``.u64 .ptr .global .align 16``, in any order."""
    form = _Form("", 1, 0, False)
    while words.kind == DIRECTIVE:
        text = words.text
        if text == ".align":
            words.advance()
            align = words.number("an alignment in bytes")
            if align == 0 or align & (align - 1):
                raise words.wrong("a power of two")
            if not form.pointer:  # after .ptr it is that of the memory pointed to
                form.align = align
        elif text in _VECTORS and form.vector == 1:
            form.vector = _VECTORS[words.advance()]
        elif text == ".ptr":
            words.advance()
            form.pointer = True
            if words.text in _SPACES:
                words.advance()
        elif text == ".attribute":
            words.advance()
            _attribute(words)
        elif text[1:] in TYPE_BITS and not form.type:
            form.type = words.advance()[1:]
        else:
            raise words.error("a type")
    if not form.type:
        raise words.error("a type")
    return form


def _attribute(words: Words) -> None:
    """``(.managed)``, ``(.unified(uuid))``: of no meaning here."""
    depth = 0
    while True:
        if words.text == "(":
            depth += 1
        elif words.text == ")":
            depth -= 1
        elif words.kind == "end" or words.text in (";", "{", "}"):
            raise words.error("')'")
        words.advance()
        if depth <= 0:
            return


def declare_registers(words: Words, scope: Scope) -> None:
    """``.reg .b32 %r<7>, a, b;``: the words after .reg, to the semicolon."""
    form = _form(words)
    while True:
        name = words.identifier("the name of a register")
        names = [name]
        if words.accept("<"):
            count = words.number("how many registers")
            words.expect(">")
            if count > MOST_REGISTERS:
                raise words.wrong(f"at most {MOST_REGISTERS} registers")
            names = [f"{name}{number}" for number in range(count)]
        for each in names:
            if form.vector == 1:
                scope.add_register(words, each, form.type)
                continue
            parts = [
                scope.add_register(words, f"{each}.{p}", form.type) for p in "xyzw"[: form.vector]
            ]
            for color, part in zip("rgba", parts, strict=False):
                scope.add(words, f"{each}.{color}", part)
            scope.add(words, each, tuple(parts))
        if not words.accept(","):
            break
    words.expect(";")


def declare_variables(words: Words, scope: Scope, space: str, extern: bool = False) -> None:
    """``.shared .align 16 .b8 a[64], b;``: the words after the space, to the semicolon."""
    form = _form(words)
    if form.type == "pred" or form.pointer:
        raise words.wrong("the type of a variable")
    while True:
        for variable in _declarators(words, scope, space, form, extern):
            unique = scope.names.unique(variable.name)
            renamed = replace(variable, name=unique)
            scope.add(words, variable.name, renamed)
            scope.names.variables.append(renamed)
        if not words.accept(","):
            break
    words.expect(";")


def _declarators(
    words: Words, scope: Scope, space: str, form: _Form, extern: bool
) -> list[Variable]:
    """One name with its dimensions and initial value; several for ``name<4>``."""
    each = TYPE_BITS[form.type] * form.vector // 8
    name = words.identifier("the name of a variable")
    variable = Variable(name, space, form.type, each, form.align or each, extern)
    if words.accept("<"):
        count = words.number("how many variables")
        words.expect(">")
        if count > MOST_REGISTERS:
            raise words.wrong(f"at most {MOST_REGISTERS} variables")
        return [replace(variable, name=f"{name}{number}") for number in range(count)]
    dimensions = _dimensions(words)
    if form.vector > 1:
        dimensions.append(form.vector)
    data, relocations = b"", ()
    if words.accept("="):
        if extern or space not in ("global", "const"):
            raise words.wrong("no initial value outside of .global and .const")
        dimensions, data, relocations = initial_data(words, scope, form.type, dimensions)
    size = TYPE_BITS[form.type] // 8
    for length in dimensions:
        size *= length
    return [replace(variable, bytes=size, data=data, relocations=relocations)]


def _dimensions(words: Words) -> list[int]:
    """``[4][8]``; 0 for an empty one."""
    found: list[int] = []
    while words.accept("["):
        empty = words.is_mark("]") and not found
        length = 0 if empty else integer_constant(words, "the length of an array")
        if length < 0:
            raise words.wrong("a length of 0 or more")
        found.append(length)
        words.expect("]")
    return found


def parameters(words: Words, scope: Scope) -> tuple[Variable, ...]:
    """``(.param .b64 a, .param .align 8 .b8 b[16])``, or nothing; declares them in ``scope``."""
    found: list[Variable] = []
    if not words.accept("("):
        return ()
    offset = 0
    while words.kind == DIRECTIVE:
        variable = _parameter(words, scope, offset)
        offset = variable.offset + variable.bytes
        found.append(variable)
        if not words.accept(","):
            break
    words.expect(")")
    return tuple(found)


def _parameter(words: Words, scope: Scope, offset: int) -> Variable:
    """One parameter. Its offset in the buffer is the next that suits its alignment."""
    if words.text not in (".param", ".reg"):
        raise words.error("'.param'")
    space = words.advance()[1:]
    form = _form(words)
    anonymous = words.accept("_")
    name = "_" if anonymous else words.identifier("the name of a parameter")
    size = TYPE_BITS[form.type] // 8
    align = form.align or size * form.vector
    if space == "reg":
        if form.vector > 1:
            raise words.wrong("the name of a register of one element")
        unique = name if anonymous else scope.add_register(words, name, form.type).name
        return Variable(unique, "reg", form.type, size, max(size, 1))
    if form.type == "pred":
        raise words.wrong("the name of a parameter that is no predicate")
    size *= form.vector
    for length in _dimensions(words):
        size *= length
    offset = -(-offset // align) * align
    variable = Variable(
        name if anonymous else scope.names.unique(name),
        space="param",
        type=form.type,
        bytes=size,
        align=align,
        offset=offset,
        pointer=form.pointer,
    )
    if not anonymous:
        scope.add(words, name, variable)
    return variable
