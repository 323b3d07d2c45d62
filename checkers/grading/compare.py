"""Is an answer right, and where is it wrong."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from checkers.exercise import Tolerance


@dataclass(frozen=True)
class Comparison:
    """How an answer differs from the oracle's.

    wrong: number of wrong elements.  total: of all.
    wrong_mask: bool, shape of the answer, on its device; None when nothing is wrong.
    worst_index: of the worst element; a NaN where none belongs is worst of all.
    worst_error: relative to the scale, see Tolerance.  bound: the largest error allowed.
    got, expected: of the worst element, as Python numbers.
    """

    wrong: int
    total: int
    wrong_mask: torch.Tensor | None
    worst_index: tuple[int, ...]
    worst_error: float
    bound: float
    got: float | complex | bool | int
    expected: float | complex | bool | int

    @property
    def ok(self) -> bool:
        return self.wrong == 0

    def __str__(self) -> str:
        """ "[3, 128]: got nan, expected 0.0071" for Finding.element."""
        index = ", ".join(map(str, self.worst_index))
        return f"[{index}]: got {self.got:.6g}, expected {self.expected:.6g}"


def compare(
    got: torch.Tensor,
    expected: torch.Tensor,
    tolerance: Tolerance,
    dtype: torch.dtype | None = None,
    reduction_length: int = 1,
) -> Comparison:
    """Compares an answer with the oracle's, element by element, in the oracle's precision.

    got, expected: same shape.  dtype: that the answer should have, for the tolerance; None: got's.
    """
    raise NotImplementedError
