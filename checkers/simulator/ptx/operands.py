"""The operands of instructions (manual, chapters "Syntax" and "Instruction Operands")."""

from __future__ import annotations

from dataclasses import replace

from checkers.simulator.ptx.constants import TERM, constant, integer_constant, starts_constant
from checkers.simulator.ptx.lexer import NAME, Words
from checkers.simulator.ptx.program import (
    TYPE_BITS,
    Address,
    Immediate,
    Operand,
    Pair,
    Register,
    Sink,
    Symbol,
    Vector,
)
from checkers.simulator.ptx.scopes import SPECIAL, SPECIAL_VECTORS, Scope

_SINK = Sink()


def operands(words: Words, scope: Scope) -> list[Operand]:
    """The operands up to the semicolon, which stays."""
    found: list[Operand] = []
    if not words.is_mark(";"):
        found.append(operand(words, scope))
        while words.accept(","):
            found.append(operand(words, scope))
    return found


def operand(words: Words, scope: Scope) -> Operand:
    """One operand, or a pair d|p."""
    text = words.text
    if words.kind == NAME and text != "WARP_SZ":
        found = name(words, scope)
    elif text == "_":
        words.advance()
        found = _SINK
    elif text == "[":
        return address(words, scope)
    elif text == "{":
        return vector(words, scope)
    elif text == "!" and not starts_number(words.next_text()):
        words.advance()
        found = replace(register(words, scope), negated=True)
    elif starts_constant(words):
        return constant(words)
    else:
        raise words.error("an operand")
    return Pair(found, _second(words, scope)) if words.accept("|") else found


def _second(words: Words, scope: Scope) -> Register | Sink:
    """What follows d| in a pair."""
    if words.text != "_":
        return register(words, scope)
    words.advance()
    return _SINK


def starts_number(text: str) -> bool:
    return text[:1].isdigit() or text[:1] in ("(", "-", "+", "~", "!") or text == "WARP_SZ"


def name(words: Words, scope: Scope) -> Operand:
    """A register, a special register or a symbol; ``symbol+4`` and ``symbol[1]`` are addresses."""
    text = words.text
    found = scope.find(text)
    if isinstance(found, Register):
        words.advance()
        return found
    if isinstance(found, tuple):
        words.advance()
        return Vector(found)
    if text in SPECIAL or text in SPECIAL_VECTORS:
        words.advance()
        return SPECIAL.get(text) or SPECIAL_VECTORS[text]
    if text.startswith("%"):
        raise words.error("a register that is declared")
    if found is None:
        return unseen(words, scope, "an operand")
    words.advance()
    symbol = Symbol(found.name)
    if words.text in ("+", "-") and (offset := _offset(words)):
        return Address(symbol, offset)
    if words.accept("["):
        index = integer_constant(words, "a constant index")
        words.expect("]")
        return Address(symbol, index * TYPE_BITS[found.type] // 8)
    return symbol


def unseen(words: Words, scope: Scope, wanted: str) -> Symbol:
    """A name that must be declared somewhere: a label below, a function, a variable."""
    scope.names.pending.append((words.text, words.line, scope))
    return Symbol(words.identifier(wanted))


def register(words: Words, scope: Scope) -> Register:
    """A register by its name."""
    found = scope.find(words.text) if words.kind == NAME else None
    if not isinstance(found, Register):
        raise words.error("a register that is declared")
    words.advance()
    return found


def vector(words: Words, scope: Scope) -> Vector:
    """{a, b, c, d}; its elements are registers, symbols, constants or "_"."""
    words.expect("{")
    elements: list[Operand] = []
    while True:
        if words.text in ("{", "["):
            raise words.error("an element of a vector")
        elements.append(operand(words, scope))
        if not words.accept(","):
            break
    words.expect("}")
    return Vector(tuple(elements))


def address(words: Words, scope: Scope) -> Address:
    """[base], [base+8], [base+-8], [16], [map, {c0, c1}]."""
    words.expect("[")
    base: Register | Symbol | Immediate
    if words.kind == NAME and words.text != "WARP_SZ":
        found = name(words, scope)
    elif starts_constant(words):
        found = constant(words)
    else:
        raise words.error("an address")
    offset = 0
    if isinstance(found, Address):  # a symbol with its offset
        found, offset = found.base, found.offset
    if not isinstance(found, Register | Symbol | Immediate):
        raise words.wrong("a register, a variable or a number")
    base = found
    offset += _offset(words)
    coordinates: tuple[Register | Immediate, ...] = ()
    if words.accept(","):
        coordinates = _coordinates(words, scope)
    words.expect("]")
    return Address(base, offset, coordinates)


def _offset(words: Words) -> int:
    """``+8``, ``+-8``, ``-8``, ``+4*2+1``: 0 when there is none."""
    total = 0
    while words.text in ("+", "-"):
        sign = 1 if words.advance() == "+" else -1
        total += sign * integer_constant(words, "a constant offset", TERM)
    return total


def _coordinates(words: Words, scope: Scope) -> tuple[Register | Immediate, ...]:
    found: list[Register | Immediate] = []
    for element in vector(words, scope).elements:
        if not isinstance(element, Register | Immediate):
            raise words.wrong("registers or numbers as coordinates")
        found.append(element)
    return tuple(found)


def call_operands(words: Words, scope: Scope) -> list[Operand]:
    """Those of ``call``: (results), function, (arguments), targets (manual 9.7.12.5).

    Gives a Vector of results, the function, a Vector of arguments and, for an indirect call, the
    label of its targets or prototype.
    """
    results = Vector(())
    if words.is_mark("("):
        results = _parenthesised(words, scope)
        words.expect(",")
    callee = name(words, scope) if words.kind == NAME else None
    if not isinstance(callee, Symbol | Register):
        raise words.error("the name of a function")
    found: list[Operand] = [results, callee]
    if not words.accept(","):
        return [*found, Vector(())]
    if not words.is_mark("("):
        return [*found, Vector(()), unseen(words, scope, "the label of the call's targets")]
    found.append(_parenthesised(words, scope))
    if words.accept(","):
        found.append(unseen(words, scope, "the label of the call's targets"))
    return found


def _parenthesised(words: Words, scope: Scope) -> Vector:
    words.expect("(")
    elements: list[Operand] = []
    if not words.is_mark(")"):
        elements.append(operand(words, scope))
        while words.accept(","):
            elements.append(operand(words, scope))
    words.expect(")")
    return Vector(tuple(elements))
