"""Chapter 4's kernels on the simulator: what they copy, and what they refuse."""

from __future__ import annotations

import importlib

import pytest
import torch

from checkers.simulator.launch import simulating


def solution():
    return importlib.import_module("solutions.ch04_vectorized_copies")


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x,
        lambda x: x[:, 1:],
        lambda x: x[::2],
        lambda x: x[:1].expand(1, 37),
        lambda x: x.as_strided((6, 20), (7, 1)),
        lambda x: x[:1].T,
        lambda x: x[::2, ::3][:, 1:2],
    ],
    ids=[
        "whole",
        "off_boundary",
        "every_second_row",
        "one_row",
        "rows_overlap",
        "a_row_as_a_column",
        "a_column",
    ],
)
def test_a_view_is_copied_as_it_is(view) -> None:
    with simulating("h200") as results:
        x = view(torch.randn(9, 37).to("cuda"))
        out = solution().ragged_copy(x)
        assert torch.equal(out.cpu(), x.cpu()) and out.is_contiguous()
    assert results and all(not result.faults for result in results)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: torch.empty(1, 8, device="cuda").expand(4, 8), "rows must lie apart"),
        (lambda: torch.empty(4, 8, device="cuda").T, "rows are contiguous"),
        (lambda: torch.empty(4, device="cuda"), "must be a matrix"),
    ],
)
def test_what_ragged_copy_cannot_take_is_refused(made, says) -> None:
    with simulating("h200"), pytest.raises(ValueError, match=says):
        solution().ragged_copy(made())
