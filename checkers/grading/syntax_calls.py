"""Predicates of ``syntax`` about calls: where they stand, and what they are given."""

from __future__ import annotations

import ast

from checkers.grading import syntax
from checkers.grading.syntax import Predicate


def first_line(tree: ast.Module, name: str) -> int | None:
    """The line of the first call of ``name``, None without one."""
    return min((call.lineno for call in syntax.calls(tree, name)), default=None)


def stands_before(first: str, second: str) -> Predicate:
    """The first call of ``first`` stands above the first call of ``second``."""

    def predicate(tree: ast.Module) -> bool:
        lines = first_line(tree, first), first_line(tree, second)
        return lines[0] is not None and lines[1] is not None and lines[0] < lines[1]

    return predicate


def argument_is(name: str, position: int, *texts: str) -> Predicate:
    """Some call of ``name`` has one of these texts as its argument number ``position``."""
    wanted = {ast.unparse(ast.parse(text, mode="eval")) for text in texts}
    return lambda tree: any(
        position < len(call.args) and ast.unparse(call.args[position]) in wanted
        for call in syntax.calls(tree, name)
    )
