"""Text that is not PTX is refused with the line, the word found and what was wanted there."""

from __future__ import annotations

import pytest

from checkers.simulator.ptx.parser import PtxSyntaxError, parse
from tests.simulator.ptx_text import HEAD, body_of


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "found the end of the text, wanted '.version'"),
        ("def f(x):\n    return {x: 1}\n", 1, "found 'def', wanted '.version'"),
        (".version 8.7\n.target 90", 2, "found '90', wanted a target such as sm_90a"),
        (HEAD + "/* no end", 4, "found an unclosed comment or string"),
        (HEAD + '.file 1 "no end', 4, "found an unclosed comment or string"),
        (HEAD + "`", 4, "found '`'"),
        (HEAD + ".entry k() {\nret", 5, "found the end of the text, wanted ';'|an operand"),
        (HEAD + ".entry k() { ret; } }", 4, "found '}', wanted a directive of a module"),
        (HEAD + ".func f { ret; }\n.func f { ret; }", 5, "since there is a function 'f' already"),
        (HEAD + ".shared .b32 a, a;", 4, "no second declaration of 'a'"),
        (HEAD + ".shared .pred a;", 4, "found '.pred', wanted the type of a variable"),
        (HEAD + ".shared .align 3 .b32 a;", 4, "a power of two"),
        (HEAD + ".shared .b32 a = 3;", 4, "no initial value outside of"),
        (HEAD + ".global .u32 a[2] = {1, 2, 3};", 4, "no more than 2 values"),
        (HEAD + ".global .u32 a = nowhere;", 4, "found 'nowhere', wanted a name that is declared"),
        (HEAD + ".global .b8 a[99999999999] = {1", 4, "wanted '}'"),
        (HEAD + ".reg .b32 %r<2>;", 4, "a directive of a module"),
        (HEAD + ".alias a, b;", 4, "a function that is declared"),
        (HEAD + ".section .debug_info { .b8 1", 4, "wanted '}'"),
    ],
)
def test_text_that_is_no_ptx_is_refused_with_its_line(text: str, line: int, words: str) -> None:
    with pytest.raises(PtxSyntaxError, match=words) as caught:
        parse(text)
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("mov.b32 %r99, 1;", "found '%r99', wanted a register that is declared"),
        ("bra nowhere;", "found 'nowhere', wanted a name that is declared"),
        ("mov.b32 %r1 %r2;", "found '%r2', wanted ';'"),
        ("mov.b32 %r1, ;", "found ';', wanted an operand"),
        ("mov.b32 %r1, {};", "found '}', wanted an operand"),
        ("mov.b32 %r1, {{%r1}};", "wanted an element of a vector"),
        ("mov.b32 %r1, [%rd1;", "found ';', wanted ']'"),
        ("mov.b32 %r1, [%rd1+%r2];", "found '%r2', wanted a constant offset"),
        ("mov.b32 %r1, [%rd1, {data}];", "registers or numbers as coordinates"),
        ("mov.b32 %r1|5, 1;", "found '5', wanted a register"),
        ("mov.b32 %r1, 08;", "an integer of at most 64 bits"),
        ("mov.b32 %r1, 99999999999999999999;", "an integer of at most 64 bits"),
        ("mov.b32 %r1, 1/0;", "found '0', wanted a divisor"),
        ("mov.b32 %r1, 1+2.0;", "found '2.0', wanted a number of the same kind"),
        ("mov.b32 %r1, -0f3F800000;", "a constant of double precision"),
        ("mov.b32 %r1, 1.0 & 2.0;", "found '2.0', wanted an integer after '&'"),
        ("mov.b32 %r1, ~1.0;", "found '1.0', wanted an integer"),
        ("mov.b32 %r1, 12abc;", "found '12abc;', wanted a word of PTX"),
        ("@%r1 ret;", "a predicate register as guard"),
        ("@ ret;", "a register that is declared"),
        ("%r1 ret;", "found '%r1', wanted an instruction"),
        ("A: A:", "no second label 'A'"),
        (".reg .b32 %r<5>;", "no second declaration of '%r0'"),
        (".reg .b32 a<9999999999>;", "at most 131072 registers"),
        (".reg .b32 a<99999>, b<99999>;", "at most 131072 registers"),
        (".version 8.7", "a directive of a function's body"),
        ("call (%r1) data;", "found 'data', wanted ','"),
        ("mov.b32 %r1, " + "(" * 5000, "an expression of less depth"),
        ("mov.b32 %r1, " + "-" * 5000, "an expression of less depth"),
        ("{" * 5000, "at most 200 blocks"),
    ],
)
def test_statements_that_are_refused(statement: str, words: str) -> None:
    with pytest.raises(PtxSyntaxError, match=words.replace("+", r"\+")) as caught:
        body_of(statement)
    assert caught.value.line == 12
