"""Calling an answer of the layout chapter, and bringing what it returns into a table.

Each function is an ``Exercise.call``. What is nothing of the kind that was wanted is returned as it
is, and the report shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from checkers.layouts import tables
from checkers.layouts.evaluation import NotALayout, evaluate, traced
from checkers.layouts.judges import A_LAYOUT, Graded


def layout_answer(build: Callable[[], Any]) -> Any:
    """The layout that ``build()`` returns, to be graded."""
    try:
        return Graded(A_LAYOUT.kind, evaluate(build).offsets)
    except NotALayout as wrong:
        return wrong.value


def call_for_layout(function: Any, arguments: tuple) -> Any:
    """Calls the answer where layouts can be made; returns its table."""
    return layout_answer(lambda: function(*arguments))


def call_for_each_index(function: Any, arguments: tuple) -> Any:
    """The answer for every index, as a table; the first that is no integer, as it is."""
    shape, stride = arguments
    values = [
        function(index, shape, stride) for index in range(len(tables.by_index(shape, stride)))
    ]
    stray = [value for value in values if not isinstance(value, int)]
    return stray[0] if stray else Graded("an integer", torch.tensor(values))


def call_for_modes(function: Any, arguments: tuple) -> Any:
    """The answer's (shape, stride) as a table; anything that is no such pair, as it is."""
    answer = function(*arguments)
    if not isinstance(answer, tuple) or len(answer) != 2:
        return answer
    shape, stride = answer
    if not isinstance(shape, tuple) or not isinstance(stride, tuple) or len(shape) != len(stride):
        return answer
    if not all(isinstance(number, int) for number in (*shape, *stride)):
        return answer
    return Graded("a pair (shape, stride)", tables.strided(shape, stride))


def call_with_matrix(function: Any, arguments: tuple) -> Any:
    """Calls the answer with a layout in the place of the first two arguments."""
    import cutlass.cute as cute

    shape, stride, *others = arguments
    return layout_answer(lambda: function(cute.make_layout(shape, stride=stride), *others))


def call_for_counts(function: Any, arguments: tuple) -> Any:
    """The answer's rows of counts as a table; anything else, as it is."""
    answer = traced(lambda: function(*arguments))
    rows = answer if isinstance(answer, list) else [None]
    whole = all(isinstance(row, list) and len(row) == len(rows[0]) for row in rows)
    if not whole or not all(isinstance(count, int) for row in rows for count in row):
        return answer
    return Graded("a list of rows of counts", torch.tensor(rows))
