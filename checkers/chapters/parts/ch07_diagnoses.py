"""The probable mistakes of chapter 7's exercises, most telling first."""

from __future__ import annotations

import ast

from checkers.chapters.parts import ch07_exchange as exchange
from checkers.chapters.parts.ch07_syntax import guarded, scales_by_the_row
from checkers.exercise import Diagnosis
from checkers.grading import syntax
from checkers.grading.syntax_calls import argument_is

SOFTMAX_ANY = "Softmax, any row"
SPECIAL = "Infinity and NaN"

REDUCTION: tuple[Diagnosis, ...] = (
    *exchange.EXCHANGE,
    exchange.NOT_TO_ALL,
    exchange.UNFINISHED,
    exchange.SAME_SLOT,
    exchange.SAME_SLOT_TOO,
    exchange.EMPTY_SLOT,
    exchange.STUCK,
    exchange.SECOND_BARRIER,
    Diagnosis(
        "The sums are added as they are. Each counts exp(x - m) for the maximum of its own part; "
        "multiply it by exp(m - row_m) first.",
        exchange.COMBINE,
        stage="run",
        error="check:values",
        source=syntax.negated(scales_by_the_row),
    ),
    Diagnosis(
        "The maximum is right and the sum is not: a part's sum is multiplied by exp(m - row_m), "
        "which is 1 at most, and 0 for a part of only -inf.",
        exchange.COMBINE,
        stage="run",
        error="check:values",
    ),
)

# Of the softmax only.
ROW_FORGOTTEN = Diagnosis(
    "Rows of one block share slots: the first index of slots is the warp's row in the block.",
    SOFTMAX_ANY,
    stage="run",
    error="check:race",
    source=syntax.negated(lambda tree: "slots[row, place" in ast.unparse(tree)),
)
NO_BLOCK_BARRIER = Diagnosis(
    "Within one block the pairs are read before they are known to be written: lane 0 of each warp "
    "writes, then all threads come to cute.arch.barrier(), then all read.",
    SOFTMAX_ANY,
    stage="run",
    error="check:race",
    source=syntax.any_of(syntax.no_call("cute.arch.barrier"), guarded("cute.arch.barrier")),
)
SOFTMAX: tuple[Diagnosis, ...] = (
    *exchange.EXCHANGE,
    exchange.NOT_TO_ALL,
    exchange.UNFINISHED,
    NO_BLOCK_BARRIER,
    ROW_FORGOTTEN,
    exchange.SAME_SLOT,
    exchange.SAME_SLOT_TOO,
    exchange.EMPTY_SLOT,
    exchange.STUCK,
    Diagnosis(
        "The kernel stores into x: run(softmax_kernel, tile, x, out) takes the input first.",
        SOFTMAX_ANY,
        error="check:input_modified",
    ),
    Diagnosis(
        "Right up to 32 pairs a row, wrong with more: a warp has 32 lanes, so a lane combines every "
        "32nd pair.",
        SOFTMAX_ANY,
        cases=frozenset({"eight_blocks", "longest"}),
        passing=frozenset({"cluster", "sixteen_warps"}),
    ),
    Diagnosis(
        "Where a row has no element the load must bring -inf: 0 wins the maximum of negative "
        "numbers, and its exp goes into the sum.",
        SOFTMAX_ANY,
        stage="run",
        error="check:values",
        source=lambda tree: "-math.inf" not in ast.unparse(tree),
    ),
    Diagnosis(
        "The division is missing: each row must sum to 1.",
        SOFTMAX_ANY,
        stage="run",
        error="check:values",
        source=syntax.all_of(
            syntax.no_call("cute.arch.rcp_approx"),
            lambda tree: not any(isinstance(n, ast.Div) for n in ast.walk(tree)),
        ),
    ),
    Diagnosis(
        "The warp's own sum is divided by, not the row's: row_d counts all parts.",
        SOFTMAX_ANY,
        stage="run",
        error="check:values",
        source=argument_is("cute.arch.rcp_approx", 0, "d"),
    ),
    Diagnosis(
        "Each warp's e belongs to the warp's own maximum. Before the division it needs the factor "
        "exp(m - row_m).",
        exchange.COMBINE,
        stage="run",
        error="check:values",
        source=lambda tree: "exp(m - row_m" not in ast.unparse(tree),
    ),
    Diagnosis(
        "The sums are added as they are. Each counts exp(x - m) for the maximum of its own part; "
        "multiply it by exp(m - row_m) first.",
        exchange.COMBINE,
        stage="run",
        error="check:values",
        source=lambda tree: "ms.load() - row_m" not in ast.unparse(tree),
    ),
    Diagnosis(
        "A row of only -inf, or one with inf or NaN, is NaN in PyTorch, all of it: don't repair it.",
        SPECIAL,
        stage="run",
        cases=frozenset({"special", "special_blocks"}),
        passing=frozenset({"block", "cluster", "large_values", "masked", "falling"}),
    ),
    Diagnosis(
        "The values are off: e * exp(m - row_m) / row_d, with m of the warp and both others of the "
        "row.",
        SOFTMAX_ANY,
        stage="run",
        error="check:values",
    ),
)
