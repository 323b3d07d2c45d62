"""Questions of chapter 6 about a learner's source, asked of its syntax tree."""

from __future__ import annotations

import ast
import math

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


def methods(tree: ast.AST, name: str) -> list[ast.Call]:
    """The calls of something's method ``name``, or of a module's function."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == name
    ]


def number(node: ast.AST) -> object:
    """What syntax.value_of says of it, or of x in Float32(x)."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = number(node.operand)
        return -inner if isinstance(inner, (int, float)) else inner
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords:
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name in ("Float32", "Float16", "BFloat16"):
            return number(node.args[0])
    return syntax.value_of(node)


def fills_with_zero(tree: ast.Module) -> bool:
    """A register tensor is filled with 0 before the load."""
    return any(fill.args and number(fill.args[0]) == 0 for fill in methods(tree, "fill"))


def fills_with_a_number(tree: ast.Module) -> bool:
    """A register tensor is filled with something finite."""
    values = [number(fill.args[0]) for fill in methods(tree, "fill") if fill.args]
    return any(isinstance(value, (int, float)) and math.isfinite(value) for value in values)


def fills_after_the_copy(tree: ast.Module) -> bool:
    """What was loaded is overwritten: the first copy stands above a fill."""
    copies = [call.lineno for call in methods(tree, "copy")]
    return any(copies and fill.lineno > min(copies) for fill in methods(tree, "fill"))


def copies_unguarded(tree: ast.Module) -> bool:
    """A copy has no predicate."""
    return any(
        all(keyword.arg != "pred" for keyword in call.keywords) for call in methods(tree, "copy")
    )


def maximum_from_a_number(tree: ast.Module) -> bool:
    """The maximum of a thread's own elements begins with something finite."""
    begins = (
        number(call.args[1])
        for call in methods(tree, "reduce")
        if len(call.args) > 1 and getattr(call.args[0], "attr", "") == "MAX"
    )
    return any(isinstance(value, (int, float)) and math.isfinite(value) for value in begins)


def rounds_to_16_bits(tree: ast.Module) -> bool:
    """Something is converted to a 16-bit type, or to that of a tensor's elements."""
    types = (call.args[0] for call in methods(tree, "to") if call.args)
    names = (getattr(to, "attr", getattr(to, "id", "")) for to in types)
    return any(name in ("Float16", "BFloat16", "element_type") for name in names)


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
