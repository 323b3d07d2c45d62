"""What the reductions of chapter 6 are given: rows whose lanes, warps and ends are each special."""

from __future__ import annotations

import torch

from checkers.chapters.parts import ch02_rows as given
from checkers.exercise import Case, Floor, SpeedTarget

FORBIDDEN = (
    *given.FORBIDDEN,
    "torch.max",
    "torch.amax",
    "torch.sum",
    "torch.exp",
    "torch.logsumexp",
    ".amax",
    ".logsumexp",
    "triton",
)


def case(name: str, why: str, M: int, N: int, dtype: str, **more: object) -> Case:
    """A case of M rows of N elements. values, row_stride: see ``rows``."""
    flags = {key: bool(more.pop(key, False)) for key in ("needs_gpu", "sparse")}
    return Case(name, {"M": M, "N": N, "dtype": dtype, **more}, why, **flags)


def rows(case: Case, generator: torch.Generator) -> tuple[torch.Tensor]:
    """x of the case. values: the kinds of chapter 2 (parts/ch02_rows.py), and

    minus_inf_rows: every second row holds nothing but -inf.  not_finite: a NaN in the first row, inf in
    the second, -inf at both ends of the third.  spike_first: the first element wins.
    late_start: only the last 64 elements of a row are not -inf.
    """
    values = case.parameters.get("values", "normal")
    if values not in ("minus_inf_rows", "not_finite", "spike_first", "late_start"):
        return given.rows(case, generator)
    plain = {name: value for name, value in case.parameters.items() if name != "values"}
    (x,) = given.rows(Case(case.name, plain), generator)
    if values == "minus_inf_rows":
        x[::2] = -float("inf")
    elif values == "spike_first":
        x[:, 0] = 50.0
    elif values == "late_start":
        x[:, :-64] = -float("inf")
    else:
        x[0, x.shape[1] // 2] = float("nan")
        x[1, -1] = float("inf")
        x[2, 0] = x[2, -1] = -float("inf")
    return (x,)


def max_and_sum(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """m and d of each row, (M, 1) float64. A row of only -inf has d = 0. (Rows drawn far apart
    and rows of 2**31 elements are as right in float64 as any.)"""
    x = x.double()
    m = x.amax(-1, keepdim=True)
    origin = torch.where(m == -float("inf"), 0.0, m)
    return m, (x - origin).exp().sum(-1, keepdim=True)


def timed_reading(N: int, elements: int = 2**29) -> SpeedTarget:
    """Rows of N bfloat16 elements, 1 GiB read and next to nothing written."""
    return SpeedTarget(
        Case(f"N={N}", {"M": elements // N, "N": N, "dtype": "bfloat16"}),
        lambda arguments: arguments[0].nbytes,
    )


def counted_reading(M: int, N: int) -> Floor:
    """M rows of N bfloat16 elements, each read once; each row leaves two float32."""
    case = Case(f"N={N}", {"M": M, "N": N, "dtype": "bfloat16"})
    return Floor(case, lambda arguments: arguments[0].nbytes + 8 * len(arguments[0]))


# What every one of the chapter's kernels must survive.
SPECIAL_ROWS = (
    case("one_row", "a single row", 1, 777, "float16"),
    case("one_column", "a row of one element", 5, 1, "float32"),
    case("no_rows", "nothing to do", 0, 64, "float32"),
    case("all_equal", "every element is the maximum", 2, 1000, "bfloat16", values="equal"),
    case("large_values", "exp(10000) is infinite", 3, 300, "float32", values="large"),
    case(
        "very_negative", "0 is larger than every element", 3, 300, "float32", values="very_negative"
    ),
    case("partly_minus_inf", "rows masked in part", 6, 200, "float32", values="half_minus_inf"),
    case("minus_inf_rows", "rows masked altogether", 5, 250, "float32", values="minus_inf_rows"),
    case("scales", "rows that share no scale, some a warp", 7, 60, "float32", values="scales"),
    case("strided_rows", "rows lie 256 elements apart", 4, 192, "float32", row_stride=256),
    case(
        "huge_index",
        "the last row begins past 2^31 elements",
        3,
        1000,
        "bfloat16",
        row_stride=2**30 + 64,
        needs_gpu=True,
        sparse=True,
    ),
)

WARP_CASES = (
    case("whole_warp", "each lane holds four vectors", 4, 1024, "bfloat16"),
    case("one_lane", "only lane 0 has elements", 4, 8, "bfloat16"),
    case("eight_lanes", "lanes 8 to 31 have no element", 5, 64, "bfloat16"),
    case("sixteen_lanes", "lanes 16 to 31 have no element", 4, 128, "bfloat16"),
    case("ragged", "the last of four rounds has 29 vectors", 7, 1000, "float16"),
    case("odd_columns", "no two elements fit N: one element a load", 3, 777, "bfloat16"),
    case("tail_1", "one element past four whole rounds", 6, 129, "float32"),
    case("last_block", "9 rows, 4 a block", 9, 512, "float32"),
    *SPECIAL_ROWS,
    case("many_rows", "more blocks than run at a time", 100_003, 130, "bfloat16", needs_gpu=True),
)

BLOCK_CASES = (
    case("whole_block", "each thread holds two vectors", 3, 4096, "bfloat16"),
    case("one_warp", "only warp 0 has elements", 4, 256, "bfloat16"),
    case("tail_1", "one element past whole rounds", 2, 1025, "float32"),
    case("ragged", "the last round is not full", 2, 5000, "float16"),
    case("odd_columns", "no two elements fit N: one element a load", 2, 3001, "bfloat16"),
    case("longest", "64 elements a thread", 1, 16384, "bfloat16"),
    case("rising", "each warp has a larger maximum", 2, 2048, "float32", values="rising"),
    case("falling", "each warp has a smaller maximum", 2, 2048, "float32", values="falling"),
    case("late_start", "most warps hold only -inf", 2, 2048, "bfloat16", values="late_start"),
    case("spike_in_the_tail", "the last element wins", 2, 2049, "float32", values="spike_last"),
    *SPECIAL_ROWS,
    case("many_rows", "more blocks than run at a time", 100_003, 1030, "bfloat16", needs_gpu=True),
)

SOFTMAX_CASES = (
    case("row_a_warp", "each lane holds four vectors", 9, 1024, "bfloat16"),
    case("row_a_block", "four warps on a row", 3, 2048, "bfloat16"),
    case("rows_share_a_block", "two rows a block, eight warps each", 3, 8192, "bfloat16"),
    case("rows_share_a_warp", "four rows a warp", 21, 50, "float16"),
    case("tail_1", "one element past a power of two", 5, 129, "float32"),
    case("not_a_multiple", "the last vectors are missing", 5, 1000, "bfloat16"),
    case("past_an_entry", "one element more than a table's entry", 2, 1025, "bfloat16"),
    case("odd_columns", "no two elements fit N: one element a load", 2, 8191, "float16"),
    case("wide_float32", "32 warps on a row", 2, 8192, "float32"),
    case("rising", "each warp has a larger maximum", 2, 4096, "float32", values="rising"),
    case("falling", "each warp has a smaller maximum", 2, 4096, "float32", values="falling"),
    case("late_start", "most warps hold only -inf", 2, 2048, "bfloat16", values="late_start"),
    case("spike_in_the_tail", "the last element wins", 2, 2049, "float32", values="spike_last"),
    case(
        "not_finite", "NaN and inf spread over their row", 4, 2048, "float32", values="not_finite"
    ),
    *SPECIAL_ROWS,
    case("many_rows", "more blocks than run at a time", 100_003, 130, "bfloat16", needs_gpu=True),
    case(
        "huge_output",
        "2^31 elements, and 3 rows",
        2**31 // 4096 + 3,
        4096,
        "bfloat16",
        needs_gpu=True,
    ),
)
