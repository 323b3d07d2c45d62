"""The pictures of layouts: what stands in their cells."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from checkers.lessons import drawings
from checkers.lessons.drawings import (
    draw_banks,
    draw_layout,
    draw_note,
    draw_tv,
    show_banks,
    show_layout,
    show_tiles,
    show_tv,
)

CHAPTER = Path(__file__).parents[1] / "chapters" / "ch03_cute_layouts"


def cells(svg: str) -> list[str]:
    """The fill of each cell, in the order drawn."""
    drawn = ElementTree.fromstring(svg).iter()
    return [element.attrib["fill"] for element in drawn if element.get("class") == "cell"]


def words(svg: str) -> list[str]:
    """Every text, in the order drawn."""
    drawn = ElementTree.fromstring(svg).iter()
    return [element.text or "" for element in drawn if element.tag.endswith("}text")]


def test_a_layout_has_a_cell_for_each_coordinate_with_its_offset() -> None:
    svg = draw_layout([[0, 1, 2], [8, 9, 10]], "(2,3):(8,1)")
    assert len(cells(svg)) == 6
    assert words(svg) == ["(2,3):(8,1)", "0", "1", "2", "0", "1", "0", "1", "2", "8", "9", "10"]


def test_later_in_memory_is_darker() -> None:
    fills = cells(draw_layout([[0, 3], [1, 2]]))
    assert fills[0] == drawings.shade(0.0) and fills[1] == drawings.shade(1.0)
    lightness = [int(fill[1:3], 16) for fill in fills]
    assert lightness[0] > lightness[2] > lightness[3] > lightness[1]


def test_a_slot_without_an_element_shows_a_dot() -> None:
    assert words(draw_layout([[0, -1]]))[-2:] == ["0", "·"]


def test_a_line_separates_tiles() -> None:
    svg = draw_layout([[0, 1], [2, 3]], groups=[[0, 1], [0, 1]])
    assert svg.count("<line") == 2  # beside each of the two rows, and none between them
    assert len(set(cells(svg))) == 2


def test_each_element_of_a_tile_names_its_thread_and_value() -> None:
    # 2 threads with 2 values each, on a 2 x 2 tile: a thread has a row; elements count down columns.
    svg = draw_tv((2, 2), [[0, 2], [1, 3]])
    assert words(svg)[4:] == ["T0", "v0", "T0", "v1", "T1", "v0", "T1", "v1"]
    assert len(set(cells(svg))) == 2


def test_elements_owned_twice_or_by_nobody_stand_out() -> None:
    assert words(draw_tv((1, 3), [[0], [0], [1]]))[4:] == ["2 own", "T2", "v0", "none"]


def test_eight_lanes_down_a_column_need_eight_trips() -> None:
    svg = draw_banks([128 * row for row in range(8)], 16, "plain")
    assert words(svg)[0] == "plain: 8 trips, a bank conflict of 8 ways"
    assert len(cells(svg)) == 8 * 32
    assert words(svg)[-8:] == [f"trip {n}" for n in range(1, 9)]
    assert cells(svg).count("#f4f6f8") == 8 * 28  # 28 of the 32 banks have nothing to do


def test_eight_lanes_along_a_row_need_one_trip() -> None:
    svg = draw_banks([16 * lane for lane in range(8)], 16)
    assert words(svg)[0] == "1 trip, no conflict"
    assert "#f4f6f8" not in cells(svg)


def test_lanes_that_share_a_word_do_not_conflict() -> None:
    assert words(draw_banks([64] * 32))[0] == "1 trip, no conflict"


def test_the_same_numbers_make_the_same_picture() -> None:
    assert draw_tv((2, 8), torch.arange(16).view(2, 8)) == draw_tv(
        (2, 8), torch.arange(16).view(2, 8)
    )


def test_text_is_escaped() -> None:
    assert "S<3,3,3> & more" in words(draw_note("S<3,3,3> & more"))


@pytest.mark.parametrize("shape", [(2, 2, 2), (40, 40), (0, 3)])
def test_what_is_no_picture_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="a picture has"):
        draw_layout(torch.zeros(shape, dtype=torch.int64))


def test_a_tile_that_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="64 x 64"):
        draw_tv((64, 64), [[0]])


def test_a_layout_that_a_function_returns_is_shown() -> None:
    import cutlass.cute as cute

    picture = show_layout(lambda m, n: cute.make_layout((m, n), stride=(n, 1)), 2, 3)
    assert words(picture.data)[0] == "(2,3):(3,1)"
    assert words(picture.data)[-6:] == ["0", "1", "2", "3", "4", "5"]


def test_tiles_are_coloured_by_which_tile() -> None:
    import cutlass.cute as cute

    def cut() -> cute.Layout:
        return cute.zipped_divide(cute.make_layout((2, 4), stride=(4, 1)), (2, 2))

    fills = cells(show_tiles((2, 4), cut).data)
    assert fills[:4] == [drawings.FILLS[0]] * 2 + [drawings.FILLS[1]] * 2
    by_tile = words(show_layout(cut, tiles=True).data)
    assert by_tile[-8:] == ["0", "4", "1", "5", "2", "6", "3", "7"]


def test_a_thread_value_layout_and_its_banks_are_shown() -> None:
    import cutlass.cute as cute

    picture = show_tv((2, 2), lambda: cute.make_layout((2, 2), stride=(1, 2)))
    assert words(picture.data)[-8:] == ["T0", "v0", "T0", "v1", "T1", "v0", "T1", "v1"]
    rows = [(row, 0) for row in range(8)]
    banks = show_banks(
        lambda: cute.make_layout((8, 32), stride=(32, 1)), lanes=rows, element_bytes=4
    )
    assert words(banks.data)[0] == "(8,32):(32,1): 8 trips, a bank conflict of 8 ways"


def test_a_blank_exercise_gets_a_note_instead_of_an_error() -> None:
    def blank() -> None:
        raise NotImplementedError("return the layout (1 line)")

    assert words(show_layout(blank).data) == [
        "Not solved yet: run this again once the exercise is filled in."
    ]


def test_what_is_no_layout_is_said_in_the_picture() -> None:
    assert "None (is a `return` missing?)" in words(show_layout(lambda: None).data)[0]


def test_the_lessons_pictures_are_the_ones_that_are_drawn() -> None:
    spec = importlib.util.spec_from_file_location("draw_pictures", CHAPTER / "draw_pictures.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    drawn = module.pictures()
    assert {path.name for path in (CHAPTER / "pictures").iterdir()} == set(drawn)
    for name, svg in drawn.items():
        assert (CHAPTER / "pictures" / name).read_text(encoding="utf-8") == svg, name
