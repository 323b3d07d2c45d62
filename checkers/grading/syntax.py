"""Questions about a learner's source, asked of its syntax tree.

Names are written in full ("torch.nn.functional.softmax") or with the usual short names
("F.softmax", "tl.load"); both sides are resolved before they are compared. A name that begins
with a dot (".softmax") is a method, on whatever object.

The functions that return a ``Predicate`` make conditions for ``Diagnosis.source``:

    Diagnosis("...", source=load_without_other)
    Diagnosis("...", source=all_of(no_call("tl.max"), call_with_keyword("tl.load", "other", 0)))
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

Predicate = Callable[[ast.Module], bool]

# What these names mean in the course's files, used where the source itself doesn't bind them
# (a notebook cell that relies on the setup cell's imports).
USUAL_NAMES: Mapping[str, str] = {
    **{name: name for name in ("torch", "triton", "cutlass", "numpy", "math", "time", "os", "sys")},
    **{name: f"builtins.{name}" for name in ("exec", "eval", "__import__", "open", "setattr")},
    "F": "torch.nn.functional",
    "nn": "torch.nn",
    "np": "numpy",
    "tl": "triton.language",
    "cute": "cutlass.cute",
    "cuda": "cuda.bindings.driver",
}

_ANYTHING = object()

# Arguments that learners also give by position.
_POSITIONS: Mapping[tuple[str, str], int] = {
    ("triton.language.load", "mask"): 1,
    ("triton.language.load", "other"): 2,
    ("triton.language.store", "mask"): 2,
}


# --- names -------------------------------------------------------------------------------------


def aliases(tree: ast.AST) -> dict[str, str]:
    """Local name -> dotted name, for imports and for plain assignments of imported things.

    ``import torch.nn.functional as F`` gives F, ``from torch import softmax as s`` gives s, and
    ``soft = torch.softmax`` gives soft, wherever in the source they stand.
    """
    found = dict(USUAL_NAMES)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                whole = name.name if name.asname else name.name.partition(".")[0]
                found[name.asname or whole] = whole
        elif isinstance(node, ast.ImportFrom):
            for name in node.names:
                found[name.asname or name.name] = f"{node.module or ''}.{name.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Name, ast.Attribute)):
            value = dotted(node.value, found)
            for target in node.targets:
                if value and isinstance(target, ast.Name) and target.id not in found:
                    found[target.id] = value
    return found


def dotted(node: ast.AST, names: Mapping[str, str]) -> str | None:
    """The full dotted name that an expression spells, or None if its root isn't a known name.

    ``getattr(torch, "softmax")`` counts as ``torch.softmax``.
    """
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        root = dotted(node.value, names)
        return f"{root}.{node.attr}" if root else None
    attribute = _constant_getattr(node)
    if attribute:
        root = dotted(node.args[0], names)
        return f"{root}.{attribute}" if root else None
    return None


def _constant_getattr(node: ast.AST) -> str:
    """ "softmax" for ``getattr(anything, "softmax")``, "" for all else."""
    is_getattr = (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "getattr"
        and len(node.args) >= 2
        and isinstance(node.args[1], ast.Constant)
    )
    return str(node.args[1].value) if is_getattr else ""


def full_name(name: str) -> str:
    """ "F.softmax" -> "torch.nn.functional.softmax"; a full name or a method stays as it is."""
    root, dot, rest = name.partition(".")
    return USUAL_NAMES.get(root, root) + dot + rest


@dataclass(frozen=True)
class Mention:
    """A place that spells a name: the full names it stands for (several for an import; none for
    an attribute of some object), and the attribute's own name."""

    node: ast.expr | ast.stmt
    spelled: tuple[str, ...]
    attribute: str = ""

    def is_of(self, name: str) -> bool:
        """Whether it spells ``name`` or a member of it, or, for ".name", such a method."""
        if name.startswith("."):
            on_object = not self.spelled or self.spelled[0].startswith("torch.Tensor.")
            return on_object and self.attribute == name[1:]
        wanted = full_name(name)
        return any(full == wanted or full.startswith(wanted + ".") for full in self.spelled)


def mentions(tree: ast.AST) -> list[Mention]:
    """Every place that spells a name, in the order of the source: names, attributes, getattr with
    a constant, and imports."""
    names = aliases(tree)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found.append(Mention(node, tuple(imported(node))))
        elif isinstance(node, (ast.Name, ast.Attribute, ast.Call)):
            attribute = node.attr if isinstance(node, ast.Attribute) else _constant_getattr(node)
            full = dotted(node, names)
            if full or attribute:
                found.append(Mention(node, (full,) if full else (), attribute))
    return sorted(found, key=lambda mention: (mention.node.lineno, mention.node.col_offset))


def uses(tree: ast.AST, name: str) -> list[ast.AST]:
    """Every place that spells ``name``, called or not, in the order of the source. An import of
    it counts as well."""
    return [mention.node for mention in mentions(tree) if mention.is_of(name)]


def imported(node: ast.AST) -> list[str]:
    """Dotted names that an import statement brings in; [] for any other node."""
    if isinstance(node, ast.Import):
        return [name.name for name in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module or ''}.{name.name}" for name in node.names]
    return []


# --- calls -------------------------------------------------------------------------------------


def calls(tree: ast.AST, name: str) -> list[ast.Call]:
    """All calls of exactly ``name`` ("tl.load", "torch.softmax", ".softmax", "range")."""
    if name.startswith("."):
        named = {id(node) for node in uses(tree, name)}
        return [n for n in ast.walk(tree) if isinstance(n, ast.Call) and id(n.func) in named]
    names, wanted = aliases(tree), full_name(name)

    def is_call_of(node: ast.AST) -> bool:
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Name) and node.func.id not in names:
            return node.func.id == name
        return dotted(node.func, names) == wanted

    return [node for node in ast.walk(tree) if is_call_of(node)]


def keywords_of_call(call: ast.Call) -> dict[str, ast.expr]:
    """The call's keyword arguments by name; ``**kwargs`` appears under the name "**"."""
    return {keyword.arg or "**": keyword.value for keyword in call.keywords}


def argument(call: ast.Call, function: str, name: str) -> ast.expr | None:
    """The argument ``name`` of a call of ``function``, None if it isn't given. tl.load and
    tl.store may give theirs by position."""
    position = _POSITIONS.get((full_name(function), name))
    if position is not None and position < len(call.args):
        return call.args[position]
    return keywords_of_call(call).get(name)


def loads_without_other(tree: ast.AST) -> list[ast.Call]:
    """tl.load with a mask and no ``other``: lanes behind the mask hold anything."""
    return [
        call
        for call in calls(tree, "tl.load")
        if argument(call, "tl.load", "mask") and not argument(call, "tl.load", "other")
    ]


def loads_without_mask(tree: ast.AST) -> list[ast.Call]:
    """tl.load with no mask at all."""
    return [call for call in calls(tree, "tl.load") if not argument(call, "tl.load", "mask")]


def stores_without_mask(tree: ast.AST) -> list[ast.Call]:
    """tl.store with no mask at all."""
    return [call for call in calls(tree, "tl.store") if not argument(call, "tl.store", "mask")]


def value_of(node: ast.AST) -> object:
    """The value that an expression of literals has, infinities included; ``_ANYTHING`` if none.

    ``-float("inf")``, ``float("-inf")``, ``-math.inf``, ``-torch.inf`` are all minus infinity.
    """
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = value_of(node.operand)
        return -inner if isinstance(inner, (int, float)) else _ANYTHING
    if isinstance(node, ast.Attribute) and node.attr == "inf":
        return float("inf")
    is_float = (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "float"
        and len(node.args) == 1
        and isinstance(node.args[0], ast.Constant)
    )
    if is_float:
        return float(node.args[0].value)
    return node.value if isinstance(node, ast.Constant) else _ANYTHING


# --- predicates --------------------------------------------------------------------------------


def load_without_other(tree: ast.Module) -> bool:
    """Some masked tl.load gives no ``other``."""
    return bool(loads_without_other(tree))


def load_without_mask(tree: ast.Module) -> bool:
    """Some tl.load gives no mask."""
    return bool(loads_without_mask(tree))


def store_without_mask(tree: ast.Module) -> bool:
    """Some tl.store gives no mask."""
    return bool(stores_without_mask(tree))


def has_call(name: str) -> Predicate:
    """``name`` is called somewhere."""
    return lambda tree: bool(calls(tree, name))


def no_call(name: str) -> Predicate:
    """``name`` is called nowhere."""
    return lambda tree: not calls(tree, name)


def call_with_keyword(name: str, keyword: str, value: object = _ANYTHING) -> Predicate:
    """A call of ``name`` gives ``keyword``, and, if asked, this literal value for it."""

    def predicate(tree: ast.Module) -> bool:
        given = [argument(call, name, keyword) for call in calls(tree, name)]
        return any(
            node is not None and (value is _ANYTHING or value_of(node) == value) for node in given
        )

    return predicate


def call_without_keyword(name: str, keyword: str) -> Predicate:
    """A call of ``name`` doesn't give ``keyword``."""
    return lambda tree: any(argument(call, name, keyword) is None for call in calls(tree, name))


def all_of(*predicates: Predicate) -> Predicate:
    """Every one of them holds."""
    return lambda tree: all(predicate(tree) for predicate in predicates)


def any_of(*predicates: Predicate) -> Predicate:
    """At least one of them holds."""
    return lambda tree: any(predicate(tree) for predicate in predicates)


def negated(predicate: Predicate) -> Predicate:
    """It doesn't hold."""
    return lambda tree: not predicate(tree)


# --- whole sources -----------------------------------------------------------------------------


def same_code(a: str, b: str) -> bool:
    """Whether two sources have the same syntax tree: comments, blank lines, docstrings and the
    way of writing a literal don't count. A source that doesn't parse equals nothing."""
    try:
        trees = [ast.parse(source) for source in (a, b)]
    except (SyntaxError, ValueError):  # ValueError: null bytes
        return False
    first, second = (ast.dump(_without_docstrings(tree)) for tree in trees)
    return first == second


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [
                statement
                for statement in body
                if not (
                    isinstance(statement, ast.Expr)
                    and isinstance(statement.value, ast.Constant)
                    and isinstance(statement.value.value, str)
                )
            ]
    return tree


@dataclass(frozen=True)
class Blank:
    """A blank of the skeleton that is still there."""

    line: int
    words: str  # what was asked for


def unfilled_blanks(tree: ast.AST) -> list[Blank]:
    """The ``raise NotImplementedError("words")`` statements left, in order."""
    return sorted(_blanks(tree), key=lambda blank: blank.line)


def _blanks(tree: ast.AST) -> Iterator[Blank]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Raise):
            continue
        error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        if isinstance(error, ast.Name) and error.id == "NotImplementedError":
            words = node.exc.args if isinstance(node.exc, ast.Call) else []
            text = words[0].value if words and isinstance(words[0], ast.Constant) else ""
            yield Blank(node.lineno, str(text))


def top_level_bindings(tree: ast.Module) -> dict[str, ast.stmt]:
    """Name -> the last statement that binds it when the module runs (inside if, try, with, for
    too, but not inside functions and classes)."""
    bound: dict[str, ast.stmt] = {}
    todo: list[ast.stmt] = list(tree.body)
    while todo:
        statement = todo.pop(0)
        for name in _names_bound(statement):
            bound[name] = statement
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        children = [
            child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.stmt)
        ]
        handlers = [
            child
            for handler in getattr(statement, "handlers", []) + getattr(statement, "cases", [])
            for child in handler.body
        ]
        todo = children + handlers + todo
    return bound


def _names_bound(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [name.asname or name.name.partition(".")[0] for name in statement.names]
    # Only names that this very statement stores to: nested statements come on their own.
    parts = [child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt)]
    return [
        node.id
        for part in parts
        for node in ast.walk(part)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
