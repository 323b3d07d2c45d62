"""The picture shows where errors are, and says its scale."""

from __future__ import annotations

import torch

from checkers.grading.picture import draw
from checkers.grading.poison import poison_


def test_a_small_table_is_drawn_element_by_element() -> None:
    wrong = torch.zeros(3, 7, dtype=torch.bool)
    wrong[1, 6] = True
    assert draw(wrong).splitlines() == [
        "  0     6",
        "0 .......",
        "1 ......#",
        "2 .......",
        "row down, column to the right",
        "one element a character: . right, # wrong",
    ]


def test_a_large_table_is_shrunk_and_keeps_a_single_wrong_element() -> None:
    wrong = torch.zeros(1200, 6400, dtype=torch.bool)
    wrong[1199, 6399] = True
    lines = draw(wrong).splitlines()
    assert len(lines) == 15
    assert lines[-3] == "1100 " + "." * 63 + "#"
    assert lines[1] == "   0 " + "." * 64
    assert lines[-2:] == [
        "row down, column to the right",
        "100 x 100 elements a character: . all right, # some wrong",
    ]


def test_sizes_that_do_not_divide() -> None:
    wrong = torch.zeros(13, 129, dtype=torch.bool)
    wrong[:, 128] = True
    lines = draw(wrong).splitlines()
    assert lines[1:-2] == [f"{row:2d} " + "." * 42 + "#" for row in range(0, 13, 2)]


def test_nan_and_unwritten_have_their_own_marks() -> None:
    got = torch.zeros(4, 4)
    got[0] = got[0] / 0
    poison_(got[1])
    wrong = torch.ones(4, 4, dtype=torch.bool)
    wrong[3] = False
    lines = draw(wrong, got).splitlines()
    assert lines[1:5] == ["0 NNNN", "1 UUUU", "2 ####", "3 ...."]
    assert lines[-1].endswith(": . right, # wrong, N nan, U never written")


def test_a_vector_is_broken_into_lines() -> None:
    wrong = torch.zeros(1000, dtype=torch.bool)
    wrong[900:] = True
    lines = draw(wrong).splitlines()
    assert lines[1] == "  0 " + "." * 64
    assert lines[-3] == "896 .." + "#" * 50
    assert lines[-2] == "index, line by line"
    assert lines[-1].startswith("1 x 2 elements a character: ")


def test_leading_dimensions_are_rows_together() -> None:
    lines = draw(torch.ones(2, 3, 5, dtype=torch.bool)).splitlines()
    assert lines[1:-2] == [f"{row} #####" for row in range(6)]
    assert lines[-2].startswith("rows (2 x 3 together) down")


def test_a_single_number() -> None:
    assert draw(torch.tensor(True)).splitlines()[1] == "0 #"


def test_no_line_is_wider_than_a_terminal() -> None:
    wrong = torch.ones(3, 5, 409, 4000, dtype=torch.bool)
    wrong[0] = False
    assert max(len(line) for line in draw(wrong).splitlines()) <= 76
