"""The probable mistakes of chapter 6's softmax, most telling first."""

from __future__ import annotations

from dataclasses import replace

from checkers.chapters.parts import ch06_diagnoses as given
from checkers.chapters.parts.ch06_syntax import called, compares
from checkers.exercise import Diagnosis

PLACE_PAST_THE_END = replace(
    given.SLOTS_OUT_OF_BOUNDS,
    says="A row has only as many slots as it has warps. Lane 0 alone writes, to slots[row, place]: a warp's "
    "place is warp % warps. Only as many lanes as the row has warps have a pair to read.",
)
WHOLE_WARP = Diagnosis(
    "Right where a row has a warp or more, wrong where rows share one. Every butterfly must stop at the "
    "row's lanes, threads_in_group=lanes, and slots are only for rows of several warps.",
    given.SHAPES,
    cases=frozenset({"rows_share_a_warp", "scales"}),
    passing=frozenset({"row_a_warp", "row_a_block", "large_values"}),
)
SLOTS_OF_ANOTHER_ROW = Diagnosis(
    "Right while a block has one row, wrong where it has two: each row has its own slots, and its "
    "warps are counted from its first one: row = warp // warps, place = warp % warps.",
    given.SHAPES,
    cases=frozenset({"rows_share_a_block"}),
    passing=frozenset({"row_a_warp", "row_a_block"}),
)
NOT_RESCALED = Diagnosis(
    "Right where one warp has the row. The elements still count in units of their own warp's maximum: "
    "multiply e by exp(m_warp - m_row), and divide by the sum of all of the row's warps.",
    given.RESCALE,
    cases=frozenset({"row_a_block"}),
    passing=frozenset({"row_a_warp", "rows_share_a_warp", "all_equal"}),
    patterns=frozenset({"rows_do_not_sum_to_one"}),
)
LOST_DIGITS = Diagnosis(
    "Right, but for large elements: near 10000 neighbours in float32 are 0.001 apart, and m + log(d) is "
    "rounded to one of them. Subtract m alone, and multiply by the reciprocal of d after exp.",
    given.SOFTMAX,
    cases=frozenset({"large_values"}),
    passing=frozenset({"row_a_warp", "row_a_block"}),
    source=lambda tree: called(tree, "log") + called(tree, "log2") > 0,
)
# A wrong sum is one factor for all elements of a row; elements left in their warp's units aren't.
UNSCALED_SUM = replace(given.UNSCALED, patterns=frozenset({"row_factor"}))
NOT_DIVIDED = Diagnosis(
    "The rows do not sum to 1: the division by the row's sum is missing, or another sum was taken.",
    given.SOFTMAX,
    patterns=frozenset({"rows_do_not_sum_to_one"}),
)
ALL_ZERO = Diagnosis(
    "Every element is zero. A kernel that stores zeros is no softmax: each row must sum to 1.",
    given.SOFTMAX,
    patterns=frozenset({"all_zero"}),
)
LAST_ROWS = Diagnosis(
    "Some rows were never written: the grid has a block too few (round up with cute.ceil_div), or some "
    "threads skip the copy out.",
    given.SHAPES,
    patterns=frozenset({"unwritten"}),
)
ONE_WARP_KNOWS = Diagnosis(
    "Only one warp computes the row's (m, d), and every warp needs it for its own elements. Let each "
    "warp read all pairs: that costs nothing, and saves a second exchange.",
    given.SLOTS,
    source=lambda tree: compares(tree, "warp"),
)


ROWS: tuple[Diagnosis, ...] = (
    given.LIBRARY,
    given.NO_KERNEL,
    given.INPUT_RETURNED,
    given.NO_READS,
    given.NO_WRITES,
    given.NARROW,
    given.NARROW_STORES,
    given.LOADED_TWICE,
    given.TOO_MANY_BARRIERS,
    given.UNGUARDED_COPY,
    PLACE_PAST_THE_END,
    given.BARRIER_IN_BRANCH,
    given.WRONG_MASK,
    given.NEVER_CAME,
    given.REUSED_SLOTS,
    given.WRONG_PLACE,
    given.SLOTS_PAST_THE_END,
    given.NO_BARRIER,
    given.NO_BARRIER_UNWRITTEN,
    LAST_ROWS,
    ALL_ZERO,
    ONE_WARP_KNOWS,
    given.FILLED_TOO_LATE,
    given.PADDED_WITH_ZERO,
    given.PADDED_WITH_A_NUMBER,
    given.NOT_FILLED,
    given.FROM_A_NUMBER,
    LOST_DIGITS,
    WHOLE_WARP,
    given.SIXTEEN_BITS,
    given.ROWS_MINUS_INF,
    given.NO_MAXIMUM,
    SLOTS_OF_ANOTHER_ROW,
    UNSCALED_SUM,
    NOT_RESCALED,
    given.UNSCALED,
    NOT_DIVIDED,
)
