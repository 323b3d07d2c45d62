"""What learners take a layout for: each wrong idea with the table that it leads to.

Headings of the lesson that reports send learners to are named here too.
"""

from __future__ import annotations

from checkers.layouts import tables
from checkers.layouts.judges import Misreading


class Heading:
    """Headings of the lesson that reports send learners to."""

    SHAPE_STRIDE = "Shape and stride"
    ONE_NUMBER = "One number for a coordinate"
    COALESCE = "Fewer modes: coalesce"
    COMPOSE = "A layout of a layout: composition"
    DIVIDE = "Tiles: divide"
    RAGGED = "Tiles that hang over the edge"
    THREAD_VALUE = "Who copies what: thread-value layouts"
    SWIZZLE = "Bank conflicts and swizzles"
    UNITS = "Elements or bytes"
    INSIDE_JIT = "A layout lives inside a jit function"


ROW_MAJOR = (
    Misreading(
        "strides_swapped",
        "The strides stand in the other order: the first is how far it is to the next ROW, the "
        "second to the next column, and neighbours in a row are 1 apart.",
        Heading.SHAPE_STRIDE,
        lambda M, N, pitch: tables.strided((M, N), (1, pitch)),
        """
def padded_row_major(M, N, pitch):
    return cute.make_layout((M, N), stride=(1, pitch))
""",
    ),
    Misreading(
        "no_stride_given",
        "Without `stride=` CuTe stores by columns, the first mode with stride 1: that is "
        "column-major. Give the strides.",
        Heading.SHAPE_STRIDE,
        lambda M, N, pitch: tables.strided((M, N), (1, M)),
        """
def padded_row_major(M, N, pitch):
    return cute.make_layout((M, N))
""",
    ),
    Misreading(
        "pitch_ignored",
        "The next row is taken to begin right after the last element: it begins `pitch` "
        "elements after the row before it, padding included.",
        Heading.SHAPE_STRIDE,
        lambda M, N, pitch: tables.strided((M, N), (N, 1)),
        """
def padded_row_major(M, N, pitch):
    return cute.make_layout((M, N), stride=(N, 1))
""",
    ),
    Misreading(
        "padding_in_the_shape",
        "The padding has become part of the matrix: the shape counts elements that exist, only "
        "the stride knows of the padding.",
        Heading.SHAPE_STRIDE,
        lambda M, N, pitch: tables.strided((M, pitch), (pitch, 1)),
        """
def padded_row_major(M, N, pitch):
    return cute.make_layout((M, pitch), stride=(pitch, 1))
""",
    ),
)

OFFSET = (
    Misreading(
        "last_mode_fastest",
        "The last mode runs fastest here, as in C and PyTorch. CuTe counts with the FIRST mode "
        "fastest: start with the first extent.",
        Heading.ONE_NUMBER,
        tables.last_mode_fastest,
        """
def offset(index, shape, stride):
    where = 0
    for extent, step in zip(reversed(shape), reversed(stride)):
        where += index % extent * step
        index //= extent
    return where
""",
    ),
    Misreading(
        "index_not_passed_on",
        "Every mode gets the whole index: after a mode has taken `index % extent`, the next ones "
        "work on `index // extent`.",
        Heading.ONE_NUMBER,
        tables.index_not_passed_on,
        """
def offset(index, shape, stride):
    where = 0
    for extent, step in zip(shape, stride):
        where += index % extent * step
    return where
""",
    ),
    Misreading(
        "quotient_for_remainder",
        "Quotient and remainder have changed places: `index % extent` is this mode's coordinate, "
        "`index // extent` is what is left for the next ones.",
        Heading.ONE_NUMBER,
        tables.quotient_for_remainder,
        """
def offset(index, shape, stride):
    where = 0
    for extent, step in zip(shape, stride):
        where += index // extent * step
        index %= extent
    return where
""",
    ),
)

COALESCE = (
    Misreading(
        "never_merged",
        "No modes were merged. Two become one where the second's step is just the first's extent "
        "times the first's step.",
        Heading.COALESCE,
        tables.never_merged,
        """
def coalesce(shape, stride):
    modes = [(e, s) for e, s in zip(shape, stride) if e > 1] or [(1, 0)]
    return tuple(e for e, _ in modes), tuple(s for _, s in modes)
""",
    ),
    Misreading(
        "always_merged",
        "All modes were merged, also where the offset jumps at the end of a mode.",
        Heading.COALESCE,
        tables.always_merged,
        """
def coalesce(shape, stride):
    size, steps = 1, [s for e, s in zip(shape, stride) if e > 1] or [0]
    for extent in shape:
        size *= extent
    return (size,), (steps[0],)
""",
    ),
    Misreading(
        "step_not_counted",
        "The second mode's step was compared with the first's extent alone: it must be extent "
        "times step, or modes that skip elements are merged wrongly.",
        Heading.COALESCE,
        lambda shape, stride: tables.merged(shape, stride, count_stride=False),
        """
def coalesce(shape, stride):
    modes = []
    for extent, step in zip(shape, stride):
        if extent == 1:
            continue
        if modes and step == modes[-1][0]:
            modes[-1] = (modes[-1][0] * extent, modes[-1][1])
        else:
            modes.append((extent, step))
    modes = modes or [(1, 0)]
    return tuple(e for e, _ in modes), tuple(s for _, s in modes)
""",
    ),
)

COMPOSE = (
    Misreading(
        "first_columns",
        "These are the first N / n columns: the layout that picks columns needs a stride of n.",
        Heading.COMPOSE,
        tables.first_columns,
        """
def every_nth_column(matrix, n):
    M, N = cute.size(matrix, mode=[0]), cute.size(matrix, mode=[1])
    return cute.composition(matrix, (cute.make_layout(M), cute.make_layout(N // n)))
""",
    ),
    Misreading(
        "every_nth_row",
        "Rows were picked, not columns: the second mode counts columns.",
        Heading.COMPOSE,
        tables.every_nth_row,
        """
def every_nth_column(matrix, n):
    M, N = cute.size(matrix, mode=[0]), cute.size(matrix, mode=[1])
    return cute.composition(matrix, (cute.make_layout(M // n, stride=n), cute.make_layout(N)))
""",
    ),
    Misreading(
        "always_compact",
        "This is right only for a matrix stored by rows without padding: take the strides from "
        "`matrix`, by composing with it.",
        Heading.COMPOSE,
        tables.always_compact,
        """
def every_nth_column(matrix, n):
    M, N = cute.size(matrix, mode=[0]), cute.size(matrix, mode=[1])
    return cute.make_layout((M, N // n), stride=(N, n))
""",
    ),
    Misreading(
        "one_number_for_both",
        "The layout that picks has been read as numbers of the whole matrix, where column n begins "
        "at number n * M: pick rows and columns mode by mode, with a tuple of two layouts.",
        Heading.COMPOSE,
        tables.one_number_for_both,
        """
def every_nth_column(matrix, n):
    M, N = cute.size(matrix, mode=[0]), cute.size(matrix, mode=[1])
    return cute.composition(matrix, cute.make_layout((M, N // n), stride=(1, n)))
""",
    ),
)

TILE = (
    Misreading(
        "tiles_first",
        "The two modes stand the other way round: mode 0 is the place in a tile, mode 1 says which "
        "tile.",
        Heading.DIVIDE,
        tables.tiles_first,
        """
def tiled(M, N, pitch, tile_m, tile_n):
    tiles = cute.zipped_divide(cute.make_layout((M, N), stride=(pitch, 1)), (tile_m, tile_n))
    return cute.select(tiles, mode=[1, 0])
""",
    ),
    Misreading(
        "rows_then_columns",
        "Mode 0 still goes down all rows and mode 1 along all columns, as logical_divide leaves "
        "them: bring the two inside parts together, and the two outside parts (zipped_divide).",
        Heading.DIVIDE,
        tables.rows_then_columns,
        """
def tiled(M, N, pitch, tile_m, tile_n):
    return cute.logical_divide(cute.make_layout((M, N), stride=(pitch, 1)), (tile_m, tile_n))
""",
    ),
    Misreading(
        "tiles_a_step_apart",
        "Neighbouring tiles begin one row or one column apart, so they overlap: they must begin "
        "tile_m rows or tile_n columns apart.",
        Heading.DIVIDE,
        tables.tiles_a_step_apart,
        """
def tiled(M, N, pitch, tile_m, tile_n):
    return cute.make_layout(
        ((tile_m, tile_n), (M // tile_m, N // tile_n)), stride=((pitch, 1), (pitch, 1))
    )
""",
    ),
    Misreading(
        "tiles_one_after_another",
        "This is a matrix that is stored tile by tile. The matrix is stored row by row: cutting it "
        "moves nothing, so a tile's rows are `pitch` apart.",
        Heading.DIVIDE,
        tables.tiles_one_after_another,
        """
def tiled(M, N, pitch, tile_m, tile_n):
    size = tile_m * tile_n
    return cute.make_layout(
        ((tile_m, tile_n), (M // tile_m, N // tile_n)),
        stride=((tile_n, 1), (size * (N // tile_n), size)),
    )
""",
    ),
    Misreading(
        "no_padding",
        "Rows are taken to be N elements apart: they are `pitch` apart.",
        Heading.SHAPE_STRIDE,
        tables.no_padding,
        """
def tiled(M, N, pitch, tile_m, tile_n):
    return cute.zipped_divide(cute.make_layout((M, N), stride=(N, 1)), (tile_m, tile_n))
""",
    ),
)

_COUNT = """
def valid_elements(M, N, tile_m, tile_n):
    coordinates = cute.zipped_divide(cute.make_identity_layout((M, N)), (tile_m, tile_n))
    tiles_m, tiles_n = coordinates.shape[1]
    counts = [[0] * tiles_n for _ in range(tiles_m)]
    for tm in range(tiles_m):
        for tn in range(tiles_n):
            for slot in range(tile_m * tile_n):
                i, j = coordinates((slot, (tm, tn)))
                if {condition}:
                    counts[tm][tn] += 1
    return counts
"""

RAGGED_TILE = (
    Misreading(
        "all_slots",
        "Every slot is counted, also those past the edges, where there is no element.",
        Heading.RAGGED,
        tables.all_slots,
        _COUNT.format(condition="True"),
    ),
    Misreading(
        "by_flat_number",
        "i * N + j < M * N is no test for a column past the right edge: that slot's number belongs "
        "to an element of the next row. Test row and column, each against its own limit.",
        Heading.RAGGED,
        tables.by_flat_number,
        _COUNT.format(condition="i * N + j < M * N"),
    ),
    Misreading(
        "rows_only",
        "Only the rows are tested: tiles at the right edge hang over it too.",
        Heading.RAGGED,
        tables.rows_only,
        _COUNT.format(condition="i < M"),
    ),
    Misreading(
        "columns_only",
        "Only the columns are tested: tiles at the bottom edge hang over it too.",
        Heading.RAGGED,
        tables.columns_only,
        _COUNT.format(condition="j < N"),
    ),
    Misreading(
        "one_too_many",
        "Rows are numbered 0 to M - 1: row M and column N do not exist, so the test is <, not <=.",
        Heading.RAGGED,
        tables.one_too_many,
        _COUNT.format(condition="i <= M and j <= N"),
    ),
)

TV_LAYOUT = (
    Misreading(
        "value_thread",
        "The two modes stand the other way round: first the thread, then the value.",
        Heading.THREAD_VALUE,
        tables.value_thread,
        """
def thread_value_layout(M, N):
    return cute.make_layout((8, (N // 8, M)), stride=(M, (8 * M, 1)))
""",
    ),
    Misreading(
        "numbered_by_rows",
        "Elements are numbered along the rows here. A tile's elements are numbered with the first "
        "mode fastest, down the columns: one column to the right is M further, not 1.",
        Heading.THREAD_VALUE,
        tables.numbered_by_rows,
        """
def thread_value_layout(M, N):
    return cute.make_layout((M * N // 8, 8), stride=(8, 1))
""",
    ),
    Misreading(
        "threads_down_first",
        "Neighbouring threads are in different rows, so a warp's loads touch many short pieces of "
        "memory: let threads run along a row first, then down.",
        Heading.THREAD_VALUE,
        tables.threads_down_first,
        """
def thread_value_layout(M, N):
    return cute.make_layout(((M, N // 8), 8), stride=((1, 8 * M), M))
""",
    ),
    Misreading(
        "values_far_apart",
        "A thread's values are as far apart as there are threads. That is coalesced for 2-byte loads, "
        "but a 16-byte load needs 8 neighbours in one thread.",
        Heading.THREAD_VALUE,
        tables.values_far_apart,
        """
def thread_value_layout(M, N):
    threads = M * N // 8
    # element t + v * threads by rows: columns first, then rows
    if threads <= N:
        split = N // threads
        return cute.make_layout((threads, (split, 8 // split)), stride=(M, (threads * M, 1)))
    return cute.make_layout(((N, threads // N), 8), stride=((M, 1), threads // N))
""",
    ),
)

_SWIZZLE = """
def conflict_free(rows, columns, element_bytes):
    plain = cute.make_layout((rows, columns), stride=(columns, 1))
    chunks_per_row = columns * element_bytes // 16
    bits = min(chunks_per_row, 8).bit_length() - 1
    shift = max(chunks_per_row, 8).bit_length() - 1
    return cute.make_composed_layout(cute.make_swizzle({numbers}), 0, plain)
"""

SWIZZLED = (
    Misreading(
        "plain_tile",
        "This is the plain row-major tile: nothing is swapped. A swizzle whose shift is smaller than "
        "its number of bits swaps nothing either, and CuTe says so only when it is printed.",
        Heading.SWIZZLE,
        tables.plain_tile,
        _SWIZZLE.format(numbers="3, 3, 2"),
    ),
    Misreading(
        "padded_tile",
        "The rows are padded. That avoids the conflicts, but needs more memory than the tile, and TMA "
        "can't write it: swap pieces inside the tile instead.",
        Heading.SWIZZLE,
        tables.padded_tile,
        """
def conflict_free(rows, columns, element_bytes):
    return cute.make_layout((rows, columns), stride=(columns + 16 // element_bytes, 1))
""",
    ),
    Misreading(
        "counted_in_bytes",
        "The swizzle counts bytes here, but a layout's offsets count ELEMENTS: 16 bytes are 2^4 bytes, "
        "yet 2^3 elements of 16 bits and 2^2 of 32.",
        Heading.UNITS,
        tables.counted_in_bytes,
        _SWIZZLE.format(numbers="bits, 4, shift"),
    ),
    Misreading(
        "single_elements_moved",
        "Single elements are swapped: the lowest bits of an offset count inside a 16-byte piece, and "
        "must stay as they are.",
        Heading.SWIZZLE,
        tables.single_elements_moved,
        _SWIZZLE.format(numbers="bits, 0, shift"),
    ),
    Misreading(
        "always_3_3_3",
        "Sw<3,3,3> is for 16-bit elements and rows of 128 bytes: other sizes need other numbers.",
        Heading.UNITS,
        tables.always_3_3_3,
        _SWIZZLE.format(numbers="3, 3, 3"),
    ),
    Misreading(
        "chunks_by_column",
        "The 16-byte pieces are stored column by column: that frees reading by columns, and moves the "
        "same conflict to writing by rows.",
        Heading.SWIZZLE,
        tables.chunks_by_column,
        """
def conflict_free(rows, columns, element_bytes):
    chunk = 16 // element_bytes
    return cute.make_layout(
        (rows, (chunk, columns // chunk)), stride=(chunk, (1, rows * chunk))
    )
""",
    ),
)
