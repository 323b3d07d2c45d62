"""Which bytes a box of a tensor map moves: against the definition, element by element."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.simulator.copies.tiles import gathered, tile
from checkers.simulator.matrices.descriptors import swizzle
from tests.simulator.tma import aligned, map_of


def expected_box(array: np.ndarray, m, at: tuple[int, ...], fill=0) -> np.ndarray:
    """The box by its definition, indexed outermost first."""
    box = np.full(tuple(reversed(m.counts)), fill, array.dtype)
    for index in itertools.product(*(range(c) for c in m.counts)):
        place = tuple(a + i * s for a, i, s in zip(at, index, m.steps, strict=True))
        if all(0 <= p < size for p, size in zip(place, m.sizes, strict=True)):
            box[tuple(reversed(index))] = array[tuple(reversed(place))]
    return box


def load(array: np.ndarray, m, at: tuple[int, ...]) -> np.ndarray:
    """The box as the tile's addresses give it."""
    t = tile(m, at)
    start = array.ctypes.data
    data = array.reshape(-1).view(np.uint8)[t.addresses() - start]
    return t.loaded(data).reshape(-1).view(array.dtype).reshape(tuple(reversed(m.counts)))


@pytest.mark.parametrize(
    ("shape", "box", "steps", "at"),
    [
        ((64,), (32,), (1,), (16,)),
        ((64,), (32,), (1,), (48,)),
        ((64,), (32,), (1,), (-5,)),
        ((40, 64), (16, 8), (1, 1), (8, 3)),
        ((40, 64), (16, 8), (1, 1), (56, 36)),
        ((40, 64), (16, 8), (1, 1), (-7, -3)),
        ((40, 64), (16, 8), (1, 1), (64, 0)),
        ((40, 64), (16, 8), (1, 1), (-16, 39)),
        ((40, 64), (16, 8), (1, 3), (0, 31)),
        ((5, 9, 32), (8, 4, 2), (1, 1, 1), (28, 7, 4)),
        ((5, 9, 32), (8, 4, 2), (1, 2, 1), (4, -1, -1)),
        ((3, 4, 5, 16), (8, 2, 3, 2), (1, 1, 1, 1), (12, 4, 2, 2)),
        ((2, 3, 4, 5, 16), (8, 2, 3, 2, 2), (1, 1, 2, 1, 1), (4, -1, 1, 2, 1)),
    ],
)
def test_a_box_is_what_its_definition_says(shape, box, steps, at):
    array = aligned(shape, np.uint16)
    m = map_of(array, box, steps=steps)
    assert np.array_equal(load(array, m, at), expected_box(array, m, at))


@st.composite
def boxes(draw: st.DrawFn) -> tuple:
    """(shape, box, steps, coordinates); all but the shape innermost first."""
    rank = draw(st.integers(1, 4))
    sizes = [8 * draw(st.integers(1, 4)), *(draw(st.integers(1, 5)) for _ in range(rank - 1))]
    box = [8 * draw(st.integers(1, 3)), *(draw(st.integers(1, 4)) for _ in range(rank - 1))]
    steps = [1, *(draw(st.integers(1, 3)) for _ in range(rank - 1))]
    at = [draw(st.integers(-20, size + 4)) for size in sizes]
    return tuple(reversed(sizes)), tuple(box), tuple(steps), tuple(at)


@settings(max_examples=80, deadline=None)
@given(boxes())
def test_any_box_is_what_its_definition_says(case):
    shape, box, steps, at = case
    array = aligned(shape, np.uint16)
    array += 1
    m = map_of(array, box, steps=steps)
    t = tile(m, at)
    assert np.array_equal(load(array, m, at), expected_box(array, m, at))
    assert t.box_bytes == m.box_bytes and t.bytes_inside <= t.box_bytes
    box_of_bytes = load(array, m, at).view(np.uint8).reshape(-1, t.row_bytes)
    start = array.ctypes.data
    inside = array.reshape(-1).view(np.uint8)[t.addresses() - start]
    assert np.array_equal(t.part_inside(box_of_bytes), inside)


def test_outside_is_nan_on_request():
    array = aligned((8, 16), np.float32)
    m = map_of(array, (8, 4), fill_nan=True)
    box = load(array, m, (12, 6))
    assert np.isnan(box[2:]).all() and np.isnan(box[:, 4:]).all()
    assert np.array_equal(box[:2, :4], array[6:, 12:])


def test_loads_round_tf32_to_nearest_even_and_flush_nothing():
    array = aligned((4, 16), np.float32, "zeros")
    bits = [0x3F801000, 0x3F803000, 0x3F801001, 0xBF800FFF, 0x00400000, 0x7F7FFFFF, 0x7F800001]
    array.view(np.uint32)[0, : len(bits)] = bits
    for element in ("f32", "f32.ftz"):
        box = load(array, map_of(array, (16, 4), element=element), (0, 0))
        assert box.view(np.uint32)[0, : len(bits)].tolist() == bits
    rounded = [0x3F800000, 0x3F804000, 0x3F802000, 0xBF800000, 0x00400000, 0x7F800000, 0x7F800001]
    for element in ("tf32", "tf32.ftz"):
        box = load(array, map_of(array, (16, 4), element=element), (0, 0))
        assert [hex(v) for v in box.view(np.uint32)[0, : len(bits)]] == [hex(v) for v in rounded]


def test_gathered_rows():
    array = aligned((32, 64), np.uint16)
    m = map_of(array, (16, 1))
    t = gathered(m, 8, (2, 5, 99, 9))
    data = array.reshape(-1).view(np.uint8)[t.addresses() - array.ctypes.data]
    rows = t.loaded(data).reshape(-1).view(np.uint16).reshape(4, 16)
    assert np.array_equal(rows[[0, 1, 3]], array[[2, 5, 9], 8:24]) and not rows[2].any()
    assert t.box_bytes == 4 * 32


@pytest.mark.parametrize("mode", ["32B", "64B", "128B"])
def test_cells_are_swizzled_by_their_absolute_address(mode):
    array = aligned((32, 64), np.uint16)
    width = {"32B": 16, "64B": 32, "128B": 64}[mode]
    t = tile(map_of(array, (width, 8), swizzle=mode), (0, 0))
    cells = t.cells(1024 + 512)
    linear = 1024 + 512 + 16 * np.arange(width * 8 * 2 // 16)
    assert np.array_equal(cells, swizzle(linear, mode)) and not np.array_equal(cells, linear)


def test_a_store_reads_only_the_cells_that_lie_inside():
    array = aligned((10, 24), np.uint16)
    t = tile(map_of(array, (16, 4)), (16, 8))
    needed = t.store_cells().reshape(4, 2)
    assert needed.tolist() == [[True, False], [True, False], [False, False], [False, False]]
    box = np.arange(4 * 32, dtype=np.uint8).reshape(4, 32)
    assert np.array_equal(t.part_inside(box), box[:2, :16].ravel())
    assert t.bytes_inside == 2 * 16 and t.box_bytes == 128
