"""Questions about the source of an exchange: what stands where, in which `if`, with which argument."""

from __future__ import annotations

import ast
from collections.abc import Callable

from checkers.grading import syntax


def unguarded(name: str, guard: type[ast.stmt]) -> Callable[[ast.Module], bool]:
    """Whether a call of ``name`` stands outside of every statement of the kind ``guard``, an `if`
    about threads (one that asks const_expr is about the tile)."""

    def found(tree: ast.Module) -> bool:
        inside = {
            id(call)
            for statement in ast.walk(tree)
            if isinstance(statement, guard) and "const_expr" not in ast.unparse(head(statement))
            for call in syntax.calls(statement, name)
        }
        return any(id(call) not in inside for call in syntax.calls(tree, name))

    return found


def guarded(name: str) -> Callable[[ast.Module], bool]:
    """Whether ``name`` is called, and only in an `if` about threads."""
    return syntax.all_of(syntax.has_call(name), syntax.negated(unguarded(name, ast.If)))


def several(name: str) -> Callable[[ast.Module], bool]:
    """Whether ``name`` is called more than once."""
    return lambda tree: len(syntax.calls(tree, name)) > 1


def head(statement: ast.stmt) -> ast.AST:
    """What an `if` or a `with` asks for, without its body."""
    return statement.test if isinstance(statement, ast.If) else statement.items[0]


def words_of(name: str, position: int) -> Callable[[ast.Module], list[str]]:
    """The text of an argument in each call of ``name``."""
    return lambda tree: [
        ast.unparse(call.args[position])
        for call in syntax.calls(tree, name)
        if len(call.args) > position
    ]


def argument_is_not(name: str, position: int, *texts: str) -> Callable[[ast.Module], bool]:
    """Whether some call of ``name`` has another text there."""
    return lambda tree: any(words not in texts for words in words_of(name, position)(tree))


def scales_by_the_row(tree: ast.Module) -> bool:
    """Whether some exponential is of a difference to the row's maximum."""
    exponentials = syntax.calls(tree, "cute.math.exp") + syntax.calls(tree, "cute.math.exp2")
    return any("row_m" in ast.unparse(call) for call in exponentials)
