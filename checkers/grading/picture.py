"""A small picture, in text, of where an answer is wrong."""

from __future__ import annotations

import torch


def draw(
    wrong_mask: torch.Tensor,
    got: torch.Tensor | None = None,
    unwritten: torch.Tensor | None = None,
    width: int = 64,
    height: int = 12,
) -> str:
    """Lines of '.' (right), '#' (wrong), 'N' (NaN) and 'U' (never written) with axes and scale."""
    raise NotImplementedError
