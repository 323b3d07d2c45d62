"""Questions of chapter 6 about a learner's source, asked of its syntax tree."""

from __future__ import annotations

import ast

from checkers.grading import syntax


def called(tree: ast.AST, name: str) -> int:
    """How often something of this name is called, the answer's own functions included."""
    return sum(
        isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Name) and node.func.id == name)
            or (isinstance(node.func, ast.Attribute) and node.func.attr == name)
        )
        for node in ast.walk(tree)
    )


def fills_with_zero(tree: ast.Module) -> bool:
    """A register tensor is filled with 0 before the load."""
    fills = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "fill"
    ]
    return any(fill.args and syntax.value_of(fill.args[0]) == 0 for fill in fills)


def never_fills(tree: ast.Module) -> bool:
    """No register tensor is filled before the load."""
    return called(tree, "fill") == 0


def first_exchange_after_exp(tree: ast.Module) -> bool:
    """The first butterfly is called after exp."""
    lines = {
        name: [
            node.lineno
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and (getattr(node.func, "id", "") == name or getattr(node.func, "attr", "") == name)
        ]
        for name in ("butterfly", "exp")
    }
    return bool(lines["exp"] and lines["butterfly"]) and min(lines["exp"]) < min(lines["butterfly"])


def nothing_subtracted(tree: ast.Module) -> bool:
    """exp is called on something that is no difference."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args)
    return any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr in ("exp", "exp2")
        and not any(isinstance(node, ast.Sub) for node in ast.walk(call.args[0]))
        for call in calls
    )


def barrier_in_an_if(tree: ast.Module) -> bool:
    """A barrier stands inside a condition on the lane or the thread."""
    branches = (node for node in ast.walk(tree) if isinstance(node, ast.If))
    return any(called(b, "barrier") and not called(b.test, "const_expr") for b in branches)


def names_a_mask(tree: ast.Module) -> bool:
    """Some call is given a mask."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(keyword.arg == "mask" for call in calls for keyword in call.keywords)


def compares(tree: ast.Module, name: str) -> bool:
    """``name == 0`` stands somewhere."""
    return any(
        isinstance(node, ast.Compare)
        and isinstance(node.left, ast.Name)
        and node.left.id == name
        and isinstance(node.ops[0], ast.Eq)
        for node in ast.walk(tree)
    )
