"""What the three exercises of ch05 share: diagnoses of any kernel, and questions to the source."""

from __future__ import annotations

import ast
from collections.abc import Callable

from checkers.exercise import Diagnosis
from checkers.grading import syntax
from checkers.grading.syntax_calls import first_line

Predicate = Callable[[ast.Module], bool]

ANY_KERNEL = (
    Diagnosis(
        "PyTorch computes silu here, so there is no kernel to learn from: allocate with "
        "torch.empty_like, launch your own kernel, return the output.",
        stage="source",
        error="check:forbidden",
    ),
    Diagnosis(
        "No kernel was compiled: call what cute.compile returned, and return the new tensor.",
        error="check:no_kernel",
    ),
    Diagnosis(
        "What the first call returned changed when x changed: the function returns x, or a buffer "
        "that it keeps. Allocate the output anew in every call.",
        error="check:stale",
    ),
)


def argument_mentions(name: str, position: int, word: str) -> Predicate:
    """Some call of ``name`` names ``word`` in its argument number ``position``."""
    return lambda tree: any(
        position < len(call.args)
        and any(
            isinstance(node, ast.Name) and node.id == word for node in ast.walk(call.args[position])
        )
        for call in syntax.calls(tree, name)
    )


def init_counts(barrier: str, *wanted: str) -> Predicate:
    """``barrier`` is initialised with another count than one of these texts."""

    def predicate(tree: ast.Module) -> bool:
        calls = syntax.calls(tree, "cute.arch.mbarrier_init")
        counts = [
            ast.unparse(call.args[1])
            for call in calls
            if len(call.args) > 1 and ast.unparse(call.args[0]).startswith(barrier)
        ]
        return any(count not in wanted for count in counts)

    return predicate


def within(name: str, *kinds: type[ast.AST]) -> Predicate:
    """Some call of ``name`` stands within a statement of one of these kinds."""

    def predicate(tree: ast.Module) -> bool:
        inside = {
            id(node)
            for statement in ast.walk(tree)
            if isinstance(statement, kinds)
            for node in ast.walk(statement)
        }
        return any(id(call) in inside for call in syntax.calls(tree, name))

    return predicate


def called_less_than(times: int, name: str) -> Predicate:
    """``name`` is called in fewer places than that."""
    return lambda tree: len(syntax.calls(tree, name)) < times


def constant_index(name: str, position: int) -> Predicate:
    """Some call of ``name`` takes a part whose last index is a number, as argument ``position``."""

    def last(index: ast.expr) -> ast.expr:
        return index.elts[-1] if isinstance(index, ast.Tuple) and index.elts else index

    return lambda tree: any(
        position < len(call.args)
        and isinstance(call.args[position], ast.Subscript)
        and isinstance(last(call.args[position].slice), ast.Constant)
        for call in syntax.calls(tree, name)
    )


def remainder_of_a_difference(tree: ast.Module) -> bool:
    """``(a - b) % c`` stands somewhere, with nothing added in the parentheses."""
    return any(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mod)
        and isinstance(node.left, ast.BinOp)
        and isinstance(node.left.op, ast.Sub)
        and isinstance(node.left.left, ast.Name)
        for node in ast.walk(tree)
    )


def counts_up(name: str) -> Predicate:
    """``name += ...`` stands somewhere."""
    return lambda tree: any(
        isinstance(node, ast.AugAssign)
        and isinstance(node.op, ast.Add)
        and ast.unparse(node.target) == name
        for node in ast.walk(tree)
    )


def flipped_before(name: str) -> Predicate:
    """``phase ^= 1`` stands above the first call of ``name``."""

    def predicate(tree: ast.Module) -> bool:
        flips = [
            node.lineno
            for node in ast.walk(tree)
            if isinstance(node, ast.AugAssign) and ast.unparse(node) == "phase ^= 1"
        ]
        line = first_line(tree, name)
        return line is not None and any(flip < line for flip in flips)

    return predicate


def for_several_threads(name: str) -> Predicate:
    """Some call of ``name`` stands under an ``if`` that compares with < or >, and elects no lane."""

    def predicate(tree: ast.Module) -> bool:
        within_if = [
            statement
            for statement in ast.walk(tree)
            if isinstance(statement, ast.If)
            and isinstance(statement.test, ast.Compare)
            and isinstance(statement.test.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE))
        ]
        return not within(name, ast.With)(tree) and any(
            syntax.calls(ast.Module([statement], []), name) for statement in within_if
        )

    return predicate


def in_a_loop_over_tiles(name: str) -> Predicate:
    """Some call of ``name`` stands in a loop whose variable is called tile."""

    def predicate(tree: ast.Module) -> bool:
        return any(
            syntax.calls(ast.Module([loop], []), name)
            for loop in ast.walk(tree)
            if isinstance(loop, ast.For) and ast.unparse(loop.target) == "tile"
        )

    return predicate


def loop_without_step(tree: ast.Module) -> bool:
    """The loop over tiles goes in steps of one: its range has no third argument."""
    return any(
        isinstance(loop.iter, ast.Call) and len(loop.iter.args) < 3
        for loop in ast.walk(tree)
        if isinstance(loop, ast.For) and ast.unparse(loop.target) == "tile"
    )


def flips_every_tile(tree: ast.Module) -> bool:
    """The loop over tiles flips the phase on its own, whatever stage comes next."""
    flips = ("phase ^= 1", "phase = phase ^ 1", "phase = 1 - phase")
    return any(
        ast.unparse(statement) in flips
        for loop in ast.walk(tree)
        if isinstance(loop, ast.For) and ast.unparse(loop.target) == "tile"
        for statement in loop.body
    )


def assigned(name: str, *texts: str) -> Predicate:
    """``name`` is given one of these texts somewhere."""
    wanted = {ast.unparse(ast.parse(text, mode="eval")) for text in texts}
    return lambda tree: any(
        ast.unparse(node.targets[0]) == name and ast.unparse(node.value) in wanted
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
    )


def first_phases(*wanted: str) -> Predicate:
    """The phases that ``stage, phase = ...`` begins with, in the order of the source: numbers,
    bare or in cutlass.Int32. The producer's comes first."""

    def predicate(tree: ast.Module) -> bool:
        pairs = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Tuple)
            and ast.unparse(node.targets[0]) in ("(stage, phase)", "stage, phase")
        ]
        values = [node.value.elts[-1] for node in sorted(pairs, key=lambda node: node.lineno)]
        numbers = [v.args[0] if isinstance(v, ast.Call) and v.args else v for v in values]
        return [ast.unparse(number) for number in numbers] == list(wanted)

    return predicate


def keyword_is(name: str, keyword: str, text: str) -> Predicate:
    """Some call of ``name`` has just this text as its keyword argument ``keyword``."""
    return lambda tree: any(
        given.arg == keyword and ast.unparse(given.value) == text
        for call in syntax.calls(tree, name)
        for given in call.keywords
    )


def keyword_mentions(name: str, keyword: str, word: str) -> Predicate:
    """Some call of ``name`` names ``word`` in its keyword argument ``keyword``."""
    return lambda tree: any(
        isinstance(node, ast.Name) and node.id == word
        for call in syntax.calls(tree, name)
        for given in call.keywords
        if given.arg == keyword
        for node in ast.walk(given.value)
    )
