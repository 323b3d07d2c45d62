"""CuTe layouts as tables: every coordinate evaluated, on the CPU, with no GPU and no driver."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeVar

import torch

LARGEST_TABLE = 1 << 16

Result = TypeVar("Result")


@dataclass(frozen=True)
class Table:
    """A layout, evaluated.

    text: as CuTe prints it, "(4,6):(6,1)".
    offsets: int64, one dimension a mode. A mode that is a tuple itself is counted by one number,
        its first part fastest.
    """

    text: str
    offsets: torch.Tensor


class NotALayout(TypeError):
    """Something else stands where a layout was wanted; ``value`` is what."""

    def __init__(self, value: Any) -> None:
        kind = "None (is a `return` missing?)" if value is None else f"a {type(value).__name__}"
        super().__init__(
            f"wanted a layout, got {kind}: return what cute.make_layout, or another cute function "
            "that makes layouts, returned"
        )
        self.value = value


def traced(build: Callable[[], Result]) -> Result:
    """What ``build()`` returns when it is called while a CuTe host function is traced.

    build may use all of cute's layout functions: they work nowhere else. Nothing is launched.
    """
    import cutlass.cute as cute

    results: list[Result] = []

    @cute.jit
    def trace() -> None:
        results.append(build())

    trace()
    return results[0]


def evaluate(build: Callable[[], Any]) -> Table:
    """The layout that ``build()`` returns, at every coordinate; see ``traced`` for what it may do.

    Raises NotALayout when build returns something else, TypeError when the layout's numbers are
    known at run time only or it does not lead to offsets, ValueError when it has more than 65536
    coordinates, and whatever build raises.
    """
    return traced(lambda: _table(build()))


def _table(layout: Any) -> Table:
    import cutlass.cute as cute

    if not isinstance(layout, cute.Layout | cute.ComposedLayout):
        raise NotALayout(layout)
    if not cute.is_static(layout):
        raise TypeError(
            f"the layout {layout} has numbers that are known at run time only: use plain Python "
            "integers for its shape and strides"
        )
    extents = _mode_sizes(layout)
    count = math.prod(extents)
    if count > LARGEST_TABLE:
        raise ValueError(
            f"the layout {layout} has {count} coordinates: far more than was asked for"
        )
    # A layout of one mode is called with the number itself, of several with a tuple.
    coordinates = product(*(range(extent) for extent in extents))
    values = [layout(at if len(extents) > 1 else at[0]) for at in coordinates]
    if not all(isinstance(value, int) for value in values):
        raise TypeError(
            f"the layout {layout} leads to coordinates such as {values[-1]}, not to offsets: was "
            "it made from an identity layout?"
        )
    return Table(str(layout), torch.tensor(values, dtype=torch.int64).view(extents))


def _mode_sizes(layout: Any) -> tuple[int, ...]:
    import cutlass.cute as cute

    shape = layout.shape
    if isinstance(shape, int):
        return (shape,)
    return tuple(cute.size(layout, mode=[mode]) for mode in range(len(shape)))
