"""Chapter 3: layouts. Every answer is graded as a function, at every coordinate; no GPU is needed.

The tables that are right are in ``checkers/layouts/tables.py``, known wrong ideas and the answers
that have them in ``checkers/layouts/misreadings.py``.
"""

from __future__ import annotations

from typing import Any

from checkers.exercise import Case, Diagnosis, Exercise, Mistake
from checkers.layouts import misreadings, tables
from checkers.layouts.calls import (
    call_for_counts,
    call_for_each_index,
    call_for_layout,
    call_for_modes,
    call_with_matrix,
)
from checkers.layouts.judges import judge_offsets, judge_permutation, judge_shape, judged
from checkers.layouts.misreadings import Heading
from checkers.layouts.properties import (
    judge_chunks,
    judge_coalesced,
    judge_counts,
    judge_fewest_modes,
    judge_same_function,
    judge_trips,
    judge_vectors,
    tile_coordinate,
)

NO_LAYOUT = Diagnosis(
    "The function must return a layout: what cute.make_layout or another cute function gives.",
    Heading.INSIDE_JIT,
    error="check:value",
)
NO_PAIR = Diagnosis(
    "The function must return two tuples of integers of the same length: (shape, stride).",
    Heading.COALESCE,
    error="check:value",
)
NO_COUNTS = Diagnosis(
    "The function must return a list with one list of integers for each row of tiles.",
    Heading.RAGGED,
    error="check:value",
)
NO_INTEGER = Diagnosis(
    "The function must return the offset, a Python integer.",
    Heading.ONE_NUMBER,
    error="check:value",
)
NO_RETURN = Mistake("no_return", "run", NO_LAYOUT.says, replace=(("return cute.", "cute."),))


def parameters(*names: str) -> Any:
    """An ``Exercise.inputs`` that takes the arguments from the case; nothing here is random."""
    return lambda case, generator: tuple(case[name] for name in names)


# --- ch03.row_major ------------------------------------------------------------------------------

ROW_MAJOR = judged(
    {"sizes": judge_shape(tables.padded), "offsets": judge_offsets(tables.padded)},
    misreadings.ROW_MAJOR,
    id="ch03.row_major",
    title="A matrix stored row by row",
    points=3,
    minutes=3,
    function="padded_row_major",
    section=Heading.SHAPE_STRIDE,
    call=call_for_layout,
    inputs=parameters("M", "N", "pitch"),
    cases=(
        Case("padded", {"M": 4, "N": 6, "pitch": 8}, "two elements of padding after each row"),
        Case("no_padding", {"M": 5, "N": 3, "pitch": 3}, "rows follow each other"),
        Case("one_row", {"M": 1, "N": 7, "pitch": 16}, "the row stride is never taken"),
        Case("one_column", {"M": 9, "N": 1, "pitch": 4}, "the column stride is never taken"),
    ),
    mistakes=(NO_RETURN,),
    diagnoses=(NO_LAYOUT,),
    hints=(
        "Going from (0, 0) to (1, 0), by how much must the offset grow? And from (0, 0) to (0, 1)?",
        "`cute.make_layout(shape, stride=...)` takes two tuples, in the same order: rows, columns.",
        "return cute.make_layout((M, N), stride=(<next row>, <next column>))",
    ),
)


# --- ch03.offset ---------------------------------------------------------------------------------


OFFSET = judged(
    {"offsets": judge_offsets(tables.by_index)},
    misreadings.OFFSET,
    kind="an integer",
    id="ch03.offset",
    title="From one number to an offset, in plain Python",
    points=3,
    minutes=5,
    function="offset",
    section=Heading.ONE_NUMBER,
    call=call_for_each_index,
    inputs=parameters("shape", "stride"),
    cases=(
        Case(
            "row_major", {"shape": (4, 6), "stride": (6, 1)}, "the first mode is not the near one"
        ),
        Case("column_major", {"shape": (4, 6), "stride": (1, 4)}, "index and offset are equal"),
        Case("three_modes", {"shape": (2, 3, 4), "stride": (12, 1, 3)}, "three digits"),
        Case("padded", {"shape": (3, 5), "stride": (8, 1)}, "offsets with gaps"),
        Case("broadcast", {"shape": (4, 3), "stride": (0, 1)}, "a stride of 0: rows are one"),
    ),
    diagnoses=(NO_INTEGER,),
    hints=(
        "With shape (4, 6), which coordinate is number 5? Which is number 4? How did you find out?",
        "It is how 75 seconds become 1 minute 15: the remainder is this place's digit, the quotient "
        "goes on to the next place.",
        "where += index % extent * step",
    ),
)


# --- ch03.coalesce -------------------------------------------------------------------------------


COALESCED = judged(
    {"same_function": judge_same_function, "fewest_modes": judge_fewest_modes},
    misreadings.COALESCE,
    kind="a pair (shape, stride)",
    id="ch03.coalesce",
    title="The same function with fewer modes",
    points=4,
    minutes=8,
    function="coalesce",
    section=Heading.COALESCE,
    call=call_for_modes,
    inputs=parameters("shape", "stride"),
    cases=(
        Case("partly", {"shape": (2, 4, 3, 5), "stride": (1, 2, 40, 120)}, "two runs and a jump"),
        Case("with_gaps", {"shape": (4, 8), "stride": (2, 8)}, "every second element, one run"),
        Case(
            "looks_like_one", {"shape": (4, 8), "stride": (2, 4)}, "the second overlaps the first"
        ),
        Case("row_major", {"shape": (4, 6), "stride": (6, 1)}, "nothing to merge: rows are last"),
        Case("size_one", {"shape": (3, 1, 5), "stride": (1, 99, 3)}, "a mode with one coordinate"),
        Case("all_ones", {"shape": (1, 1), "stride": (7, 9)}, "one element"),
        Case("broadcast", {"shape": (4, 3), "stride": (0, 0)}, "all steps are 0"),
    ),
    mistakes=(
        Mistake(
            "no_pair",
            "run",
            "Wanted a pair (shape, stride)",
            replace=(
                (
                    "return tuple(extent for extent, _ in modes), tuple(step for _, step in modes)",
                    "return modes",
                ),
            ),
        ),
    ),
    diagnoses=(NO_PAIR,),
    hints=(
        "In (2,4):(1,2) index 1 is at offset 1, and index 2, where the second mode starts, at 2. In "
        "which of (2,4):(1,2), (2,4):(1,3) and (4,8):(2,8) could you not tell where a mode ends?",
        "A mode (e, s) reaches offsets 0, s, ... (e-1)*s. The next mode's step must be the next one "
        "in that row.",
        "if modes and step == modes[-1][0] * modes[-1][1]:",
    ),
)


# --- ch03.compose --------------------------------------------------------------------------------


COMPOSED = judged(
    {"sizes": judge_shape(tables.every_nth), "offsets": judge_offsets(tables.every_nth)},
    misreadings.COMPOSE,
    id="ch03.compose",
    title="Every n-th column, without moving an element",
    points=4,
    minutes=6,
    function="every_nth_column",
    section=Heading.COMPOSE,
    call=call_with_matrix,
    inputs=parameters("shape", "stride", "n"),
    cases=(
        Case("padded", {"shape": (4, 8), "stride": (10, 1), "n": 2}, "rows with padding"),
        Case("by_columns", {"shape": (3, 6), "stride": (1, 3), "n": 3}, "stored by columns"),
        Case("transposed", {"shape": (6, 8), "stride": (1, 9), "n": 4}, "columns are 9 apart"),
        Case("nested", {"shape": (4, (2, 4)), "stride": (2, (1, 8)), "n": 2}, "a column is a pair"),
        Case("all", {"shape": (4, 6), "stride": (6, 1), "n": 1}, "every column stays"),
    ),
    mistakes=(NO_RETURN,),
    diagnoses=(
        Diagnosis(
            "The picking layout does not fit the matrix. One layout for both modes counts through "
            "the whole matrix, column by column: pick mode by mode, with a tuple of two layouts.",
            Heading.COMPOSE,
            error="unable to compute the following composition",
        ),
        NO_LAYOUT,
    ),
    hints=(
        "Column c of the answer is column n * c of the matrix. Which layout is the function c -> n * c, "
        "for N / n values of c? And which leaves the rows alone?",
        "cute.composition(A, (B, C)) composes each mode of A: coordinate (i, c) of the result is "
        "coordinate (B(i), C(c)) of A.",
        "columns = cute.make_layout(N // n, stride=n)",
    ),
)


# --- ch03.tile -----------------------------------------------------------------------------------


TILED = judged(
    {"sizes": judge_shape(tables.tiles), "offsets": judge_offsets(tables.tiles, tile_coordinate)},
    misreadings.TILE,
    id="ch03.tile",
    title="Cut a matrix into tiles",
    points=4,
    minutes=5,
    function="tiled",
    section=Heading.DIVIDE,
    call=call_for_layout,
    inputs=parameters("M", "N", "pitch", "tile_m", "tile_n"),
    cases=(
        Case("padded", {"M": 8, "N": 12, "pitch": 16, "tile_m": 4, "tile_n": 3}, "2 x 4 tiles"),
        Case("square", {"M": 6, "N": 6, "pitch": 6, "tile_m": 2, "tile_n": 3}, "3 x 2 tiles"),
        Case(
            "flat_tiles", {"M": 4, "N": 16, "pitch": 16, "tile_m": 1, "tile_n": 8}, "parts of a row"
        ),
        Case("one_tile", {"M": 3, "N": 5, "pitch": 7, "tile_m": 3, "tile_n": 5}, "one tile is all"),
    ),
    mistakes=(NO_RETURN,),
    diagnoses=(
        Diagnosis(
            "Mode 0 counts the tile_m * tile_n places in a tile, mode 1 the tiles.",
            Heading.DIVIDE,
            error="check:invariant:sizes",
        ),
        NO_LAYOUT,
    ),
    hints=(
        "Inside a tile, how far apart are neighbours in a column? And how far apart are the first "
        "elements of two tiles, one below the other?",
        "Inside a tile the strides are the matrix's own. One tile down is tile_m rows, one tile to the "
        "right tile_n columns. cute.zipped_divide(matrix, tile) makes the same layout.",
        "stride=((pitch, 1), (tile_m * pitch, tile_n))",
    ),
)


# --- ch03.ragged_tile ----------------------------------------------------------------------------


RAGGED = judged(
    {"counts": judge_counts},
    misreadings.RAGGED_TILE,
    kind="a list of rows of counts",
    id="ch03.ragged_tile",
    title="Count what is real in tiles that hang over the edge",
    points=4,
    minutes=5,
    function="valid_elements",
    section=Heading.RAGGED,
    call=call_for_counts,
    inputs=parameters("M", "N", "tile_m", "tile_n"),
    cases=(
        Case("both_edges", {"M": 10, "N": 6, "tile_m": 4, "tile_n": 4}, "96 slots, 60 elements"),
        Case("right_edge", {"M": 8, "N": 5, "tile_m": 2, "tile_n": 4}, "the last column of tiles"),
        Case("bottom_edge", {"M": 7, "N": 6, "tile_m": 4, "tile_n": 3}, "the last row of tiles"),
        Case("exact", {"M": 4, "N": 6, "tile_m": 2, "tile_n": 3}, "no tile hangs over"),
        Case("smaller_than_a_tile", {"M": 2, "N": 3, "tile_m": 8, "tile_n": 4}, "one tile"),
    ),
    diagnoses=(NO_COUNTS,),
    hints=(
        "Which rows does a matrix with M rows have? What is the coordinate of the last slot of tile "
        "(2, 1) in the lesson's example, and does it exist?",
        "A slot is real when its row is one of the M rows and its column one of the N columns.",
        "if i < M and j < N:",
    ),
)


# --- ch03.tv_layout ------------------------------------------------------------------------------


TV_LAYOUT = judged(
    {
        "sizes": judge_shape(tables.thread_value),
        "each_once": judge_permutation,
        "vectors": judge_vectors,
        "coalesced": judge_coalesced,
    },
    misreadings.TV_LAYOUT,
    id="ch03.tv_layout",
    title="Who copies what, 16 bytes a thread",
    points=6,
    minutes=8,
    function="thread_value_layout",
    section=Heading.THREAD_VALUE,
    call=call_for_layout,
    inputs=parameters("M", "N"),
    cases=(
        Case("wide", {"M": 4, "N": 256}, "a warp to a row"),
        Case("narrow", {"M": 16, "N": 64}, "a warp to four rows"),
        Case("half_line", {"M": 8, "N": 32}, "rows of 64 bytes"),
        Case("one_row", {"M": 1, "N": 512}, "numbers and columns are the same"),
        Case("one_vector_a_row", {"M": 32, "N": 8}, "each thread has a row"),
    ),
    mistakes=(
        NO_RETURN,
        Mistake(
            "some_owned_twice",
            "run",
            "both lead to element",
            answer="""
def thread_value_layout(M, N):
    return cute.make_layout(((N // 8, M), 8), stride=((M, 1), M))
""",
        ),
        Mistake(
            "a_place_in_memory",
            "run",
            "there are 1024 elements",
            answer="""
def thread_value_layout(M, N):
    return cute.make_layout(((N // 8, M), 8), stride=((8 * M, N), M))
""",
        ),
    ),
    diagnoses=(
        Diagnosis(
            "Two threads copy the same element, so another is never copied. The thread's step along "
            "a row is 8 columns, each of them M further; its step to the next row is 1.",
            Heading.THREAD_VALUE,
            error="check:invariant:each_once",
        ),
        Diagnosis(
            "A thread's 8 values must differ in the column alone. One column to the right is M "
            "further, so that is the value's step.",
            Heading.THREAD_VALUE,
            error="check:invariant:vectors",
        ),
        Diagnosis(
            "Neighbouring threads must copy neighbouring pieces: the fastest part of the thread's "
            "mode runs along the row.",
            Heading.THREAD_VALUE,
            error="check:invariant:coalesced",
        ),
        NO_LAYOUT,
    ),
    hints=(
        "Elements are numbered i + j * M. How far is it from an element to its right neighbour? To the "
        "piece that the next thread copies? To the row below?",
        "Threads of one row: 8 columns apart. Threads of different rows: 1 apart. Values: a column apart. "
        "So the first mode is a pair, (threads_per_row, M).",
        "cute.make_layout(((threads_per_row, M), 8), stride=((8 * M, 1), M))",
    ),
)


# --- ch03.swizzle --------------------------------------------------------------------------------


SWIZZLED = judged(
    {
        "sizes": judge_shape(tables.plain_tile),
        "each_once": judge_permutation,
        "chunks": judge_chunks,
        "trips": judge_trips,
    },
    misreadings.SWIZZLED,
    id="ch03.swizzle",
    title="A tile without bank conflicts",
    points=6,
    minutes=10,
    function="conflict_free",
    section=Heading.SWIZZLE,
    call=call_for_layout,
    inputs=parameters("rows", "columns", "element_bytes"),
    cases=(
        Case(
            "rows_of_128_bytes",
            {"rows": 16, "columns": 64, "element_bytes": 2},
            "16-bit elements, a row is all 32 banks",
        ),
        Case(
            "wide_elements",
            {"rows": 16, "columns": 32, "element_bytes": 4},
            "32-bit elements: 4 in 16 bytes",
        ),
        Case(
            "rows_of_256_bytes",
            {"rows": 8, "columns": 128, "element_bytes": 2},
            "16 pieces a row: the row's bits begin higher up",
        ),
        Case(
            "rows_of_64_bytes",
            {"rows": 16, "columns": 32, "element_bytes": 2},
            "4 pieces a row: two rows fill the banks",
        ),
        Case(
            "rows_of_32_bytes",
            {"rows": 8, "columns": 16, "element_bytes": 2},
            "2 pieces a row: four rows fill the banks",
        ),
        Case(
            "bytes",
            {"rows": 8, "columns": 128, "element_bytes": 1},
            "8-bit elements: 16 in 16 bytes",
        ),
    ),
    mistakes=(NO_RETURN,),
    diagnoses=(
        Diagnosis(
            "Two elements share a place. A swizzle alone never does that, so look at the layout "
            "behind it: its strides, or a size that is not the tile's.",
            Heading.SWIZZLE,
            error="check:invariant:each_once",
        ),
        Diagnosis(
            "The lanes still meet in the same banks. The swizzled bits must be those that pick a "
            "16-byte piece among the 8 that fill the banks, and take their change from bits that tell "
            "the 8 rows apart.",
            Heading.SWIZZLE,
            error="check:invariant:trips",
        ),
        Diagnosis(
            "Bits that count inside a 16-byte piece were changed: base must be log2 of the ELEMENTS in "
            "16 bytes.",
            Heading.UNITS,
            error="check:invariant:chunks",
        ),
        NO_LAYOUT,
    ),
    hints=(
        "With rows of 128 bytes, which bits of an element's offset say which of the row's 8 pieces it "
        "is in? Which bits say which row? Do the lanes of a column access differ in the first?",
        "base: log2 of the elements in 16 bytes. bits: log2 of the pieces in a row, at most 3. shift: "
        "from the lowest piece bit to the lowest row bit that would otherwise not reach the banks, "
        "never less than 3.",
        "cute.make_composed_layout(cute.make_swizzle(bits, base, shift), 0, plain) with bits, base, shift "
        "= 3, 3, 3 for 64 columns of 16 bits, and 3, 2, 3 for 32 columns of 32.",
    ),
)

EXERCISES: tuple[Exercise, ...] = (
    ROW_MAJOR,
    OFFSET,
    COALESCED,
    COMPOSED,
    TILED,
    RAGGED,
    TV_LAYOUT,
    SWIZZLED,
)
BENCH = None
