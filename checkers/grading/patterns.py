"""What kind of wrong an answer is: names for what the error mask and the values look like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def find_patterns(
    got: torch.Tensor,
    expected: torch.Tensor,
    arguments: Sequence[Any],
    wrong_mask: torch.Tensor,
    previous: torch.Tensor | None = None,
) -> frozenset[str]:
    """Names of the patterns seen.

    previous: the answer that the function gave for other inputs of the same shape, if there is
        one ("previous_call").
    """
    raise NotImplementedError
