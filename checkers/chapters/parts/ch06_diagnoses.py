"""What wrong reductions have in common: the probable mistakes of chapter 6, most telling first.
Those of its softmax are in ``ch06_softmax_diagnoses.py``."""

from __future__ import annotations

from dataclasses import replace

from checkers.chapters.parts.ch06_syntax import (
    barrier_in_an_if,
    called,
    copies_unguarded,
    fills_after_the_copy,
    fills_with_a_number,
    fills_with_zero,
    first_exchange_after_exp,
    maximum_from_a_number,
    names_a_mask,
    never_fills,
    nothing_subtracted,
    rounds_to_16_bits,
)
from checkers.exercise import Diagnosis

BUTTERFLY = "Five exchanges"
PARTNERS = "Who must take part"
ROW = "A row in 32 lanes"
PAIRS = "Two numbers are enough"
SLOTS = "Slots and a barrier"
RESCALE = "Maxima that differ"
SHAPES = "How many threads for a row"
SOFTMAX = "Softmax, once across memory"


TOOK_PYTORCH = Diagnosis(
    "The reduction is what you write here: neither PyTorch nor a ready-made warp reduction may do it.",
    BUTTERFLY,
    stage="source",
    error="check:forbidden",
)
LIBRARY = replace(
    TOOK_PYTORCH,
    says="PyTorch does the work here, so there is no kernel to learn from: launch your own.",
    reread=SOFTMAX,
)
NO_KERNEL = Diagnosis(
    "No kernel was compiled. The results are new tensors, and the compiled launch fills them.",
    ROW,
    error="check:no_kernel",
)
INPUT_RETURNED = Diagnosis(
    "What the first call returned changed when x changed: the function returns x, or a buffer that "
    "it keeps. Allocate the output anew in every call.",
    ROW,
    error="check:stale",
)
NO_READS = Diagnosis(
    "Nothing is read from x: the load is missing, or what was loaded is never used and the compiler "
    "threw it away.",
    ROW,
    error="rule:reads",
)
NO_WRITES = Diagnosis(
    "Nothing is written to the output: copy the registers out, under the predicate.",
    SOFTMAX,
    error="rule:writes",
)
NARROW = Diagnosis(
    "The loads are narrower than 16 bytes, although these rows allow 16.",
    ROW,
    error="rule:wide_loads",
)
NARROW_STORES = replace(
    NARROW,
    says="The stores are narrower than 16 bytes, although these rows allow 16.",
    error="rule:wide_stores",
)
LOADED_TWICE = Diagnosis(
    "x is loaded again after the reduction has begun. The row is in registers: exp(x - m) of every "
    "element is already there, and only a factor is missing.",
    SOFTMAX,
    error="rule:loads_first",
)
OUT_OF_BOUNDS = Diagnosis(
    "Threads past the edge of the matrix read or wrote: give each copy pred=tXpX.",
    ROW,
    error="check:out_of_bounds",
)
UNGUARDED_COPY = replace(OUT_OF_BOUNDS, source=copies_unguarded)
WRONG_MASK = Diagnosis(
    "The shuffle's mask and the lanes that execute it are not the same. All 32 lanes execute it here, "
    "so the mask names all 32: leave it out.",
    PARTNERS,
    error="fault:collective",
    source=names_a_mask,
)
NEVER_CAME = Diagnosis(
    "A shuffle waits for all lanes that its mask names, and some never come. Lanes without elements "
    "take part like all others: no shuffle inside an `if` on the lane. They hold -inf.",
    PARTNERS,
    error="fault:collective",
)
PADDED_WITH_ZERO = Diagnosis(
    "The places past the end of a row hold 0: in a row of negative numbers 0 wins the maximum, and "
    "exp(0 - m) of each such place goes into the sum. Only -inf takes part in neither.",
    ROW,
    source=fills_with_zero,
)
PADDED_WITH_A_NUMBER = replace(
    PADDED_WITH_ZERO,
    says="The places past the end of a row hold a number. However small it is, it wins the maximum of a "
    "row that holds smaller ones, or nothing but -inf. Only -inf wins over nothing, and exp(-inf) is 0.",
    source=fills_with_a_number,
)
FILLED_TOO_LATE = replace(
    PADDED_WITH_ZERO,
    says="The registers are filled after the copy, so what was loaded is gone. Fill first: the copy then "
    "overwrites what exists, and leaves the rest at -inf.",
    source=fills_after_the_copy,
)
NOT_FILLED = Diagnosis(
    "A load that is switched off leaves its registers as they were, and nobody has set them: fill "
    "tXrX with -inf before the copy.",
    ROW,
    source=never_fills,
)
SIXTEEN_BITS = Diagnosis(
    "Right in float32, wrong in 16 bits: something is rounded to 16 bits before the sum is done. Convert "
    "right after loading, .load().to(Float32), and round once, at the end.",
    ROW,
    cases=frozenset({"whole_warp", "row_a_warp"}),
    passing=frozenset({"tail_1", "large_values", "scales"}),
)
ROUNDED_TO_16_BITS = Diagnosis(
    "Something is rounded to 16 bits on the way. Convert once, right after loading, "
    ".load().to(Float32), and stay in float32: m and d are float32.",
    ROW,
    source=rounds_to_16_bits,
)
FROM_A_NUMBER = Diagnosis(
    "The maximum of a thread's own elements begins with a number, which wins where all of them are "
    "smaller: begin with -Float32.inf.",
    ROW,
    cases=frozenset({"very_negative"}),
    source=maximum_from_a_number,
)
NO_MAXIMUM = Diagnosis(
    "No maximum is subtracted before exp: exp(89) is already infinite in float32.",
    PAIRS,
    source=nothing_subtracted,
)
MINUS_INF = Diagnosis(
    "NaN where there is nothing but -inf: the maximum is then -inf, and -inf - -inf is NaN. "
    "Subtract 0 instead, and every exp is 0.",
    PAIRS,
    cases=frozenset({"minus_inf_rows", "late_start", "one_warp", "rows_share_a_warp"}),
    passing=frozenset({"all_equal", "scales", "very_negative", "large_values"}),
)
ORDINARY = MINUS_INF.passing  # beside the ordinary case of each exercise, named below
WARP_MINUS_INF, BLOCK_MINUS_INF, ROWS_MINUS_INF = (
    replace(MINUS_INF, passing=ORDINARY | {name})
    for name in ("whole_warp", "whole_block", "row_a_block")
)
ONLY_LANE_0 = Diagnosis(
    "shuffle_sync_down brings values to lower lanes only: after five of them lane 0 has the whole "
    "result, and the others have parts of it. Every lane needs the maximum to subtract it.",
    BUTTERFLY,
    source=lambda tree: called(tree, "shuffle_sync_down") > 0,
)
UPPER_HALF = Diagnosis(
    "Right while the row lies in lanes 0 to 15, wrong when the other half has elements: lanes 16 apart "
    "never exchange, or some of the upper ones are left out. Five exchanges: 16, 8, 4, 2, 1.",
    BUTTERFLY,
    cases=frozenset({"whole_warp"}),
    passing=frozenset({"one_lane", "eight_lanes", "sixteen_lanes"}),
)
OWN_MAXIMUM = Diagnosis(
    "Each lane subtracted its own maximum, so the sums of different lanes have different units and "
    "can't be added. First the row's maximum, in all lanes; then exp.",
    PAIRS,
    source=first_exchange_after_exp,
)
SUM_NOT_EXCHANGED = Diagnosis(
    "Only one of the two went through the butterfly: the maximum and the sum are both spread over 32 "
    "lanes.",
    BUTTERFLY,
    source=lambda tree: called(tree, "butterfly") < 2,
)
NOT_ALL_LANES = Diagnosis(
    "Right while one lane holds the row, wrong when several do: some lanes were left out, or "
    "counted twice. After exchanges over 16, 8, 4, 2 and 1 lanes each lane has met all others once.",
    BUTTERFLY,
    cases=frozenset({"whole_warp"}),
    passing=frozenset({"one_lane", "one_column"}),
)
COUNTED_TWICE = Diagnosis(
    "Wrong even for a row of one element, whose m is that element and whose d is exp(0) = 1. Is something "
    "counted twice? The distances are 16, 8, 4, 2 and 1; any other set brings back what a lane already "
    "has. Is m the maximum of x, beginning with -inf, and d the sum of exp(x - m), beginning with 0?",
    BUTTERFLY,
    cases=frozenset({"one_column"}),
)
NEEDLESS_BARRIER = Diagnosis(
    "The 32 lanes of a warp exchange through registers: no barrier and no shared memory is needed.",
    BUTTERFLY,
    error="rule:no_barrier",
)


NEEDLESS_BARRIER_IN_BRANCH = replace(
    NEEDLESS_BARRIER, error="fault:collective", source=barrier_in_an_if
)


WARP: tuple[Diagnosis, ...] = (
    TOOK_PYTORCH,
    NO_KERNEL,
    INPUT_RETURNED,
    NO_READS,
    NARROW,
    LOADED_TWICE,
    NEEDLESS_BARRIER,
    OUT_OF_BOUNDS,
    NEEDLESS_BARRIER_IN_BRANCH,
    WRONG_MASK,
    NEVER_CAME,
    ONLY_LANE_0,
    FILLED_TOO_LATE,
    PADDED_WITH_ZERO,
    PADDED_WITH_A_NUMBER,
    NOT_FILLED,
    NO_MAXIMUM,
    FROM_A_NUMBER,
    SIXTEEN_BITS,
    ROUNDED_TO_16_BITS,
    WARP_MINUS_INF,
    UPPER_HALF,
    SUM_NOT_EXCHANGED,
    OWN_MAXIMUM,
    NOT_ALL_LANES,
    COUNTED_TWICE,
)

# --- block_reduction -----------------------------------------------------------------------------

REUSED_SLOTS = Diagnosis(
    "The slots are used a second time, and nothing keeps a fast warp from writing them while a slow "
    "one still reads what they held: a barrier is missing between the last read and the next "
    "write. Better: exchange (m, d) once.",
    SLOTS,
    error="fault:race",
    source=lambda tree: called(tree, "barrier") > 1,
)
BARRIER_IN_BRANCH = Diagnosis(
    "The barrier waits for every thread of the block, and it stands where only some of them come: put "
    "it outside of the `if`.",
    SLOTS,
    error="fault:",
    source=barrier_in_an_if,
)
WRONG_WRITE = Diagnosis(
    "Several warps write the same slot: a warp's slot has the warp's number, whichever lane writes it.",
    SLOTS,
    error="fault:race",
    source=lambda tree: called(tree, "barrier") == 1,
)
WRONG_PLACE = replace(
    WRONG_WRITE,
    says="Several warps write the same slot. A warp's slots are slots[row, place]: with row = warp // warps "
    "and place = warp % warps no two warps share them.",
)
NO_BARRIER = Diagnosis(
    "A warp reads slots that another has not written yet: a barrier of the whole block is missing "
    "between the write and the read. (sync_warp waits for one warp only.)",
    SLOTS,
    error="fault:race",
)
NO_BARRIER_UNWRITTEN = replace(NO_BARRIER, error="fault:uninitialised")
SLOTS_PAST_THE_END = Diagnosis(
    "Lanes read slots that no warp has written: only as many lanes as there are warps have a pair to "
    "read. The others hold -inf and 0.",
    SLOTS,
    error="fault:uninitialised",
    source=lambda tree: called(tree, "barrier") == 1,
)
SLOTS_OUT_OF_BOUNDS = replace(
    SLOTS_PAST_THE_END,
    says="There are only as many slots as warps. Lane 0 alone writes, to its warp's slot, and only as many "
    "lanes as there are warps have a pair to read. The others hold -inf and 0.",
    error="check:out_of_bounds",
)
MISSING_LANES_ZERO = Diagnosis(
    "The lanes without a warp's pair hold 0 as their maximum: in a row of negative numbers that wins. "
    "They need -inf.",
    RESCALE,
    cases=frozenset({"very_negative"}),
    passing=frozenset({"large_values", "all_equal", "whole_block"}),
)
UNSCALED = Diagnosis(
    "Right where all warps have the same maximum, wrong where they differ: each d counts in units of "
    "exp of its own warp's maximum. Multiply it by exp(m_warp - m_row) before you add.",
    RESCALE,
    cases=frozenset({"whole_block", "rising", "row_a_block"}),
    passing=frozenset({"all_equal", "one_column"}),
)
UPSIDE_DOWN = Diagnosis(
    "The factor is upside down: a warp whose maximum is smaller than the row's has counted too much, and "
    "exp(m_warp - m_row) is below 1. Turned round it is infinite for the lanes that hold -inf.",
    RESCALE,
    patterns=frozenset({"nan_everywhere"}),
)
OWN_PAIR = Diagnosis(
    "Right where the first warp has all that counts: pairs of other warps are lost. Lane i reads the pair of "
    "warp i, for all of the row's warps, and the row's pair is returned, not the warp's.",
    RESCALE,
    cases=frozenset({"rising", "whole_block"}),
    passing=frozenset({"falling", "one_warp", "one_column"}),
)
PAIRS_COUNTED_TWICE = Diagnosis(
    "Wrong even for a row of one element, whose m is that element and whose d is exp(0) = 1. Is a pair "
    "counted twice, or m taken for d? There are 8 pairs and 32 lanes: lanes without one hold (-inf, 0).",
    SLOTS,
    cases=frozenset({"one_column"}),
)
TOO_MANY_BARRIERS = Diagnosis(
    "Two barriers or more, as when the maximum travels first and then the sum. Let the pair (m, d) travel "
    "at once: what was summed with a smaller maximum is rescaled, and one barrier is enough.",
    RESCALE,
    error="rule:one_barrier",
)

BLOCK: tuple[Diagnosis, ...] = (
    LIBRARY,
    NO_KERNEL,
    INPUT_RETURNED,
    NO_READS,
    NARROW,
    LOADED_TWICE,
    TOO_MANY_BARRIERS,
    BARRIER_IN_BRANCH,
    WRONG_MASK,
    NEVER_CAME,
    REUSED_SLOTS,
    WRONG_WRITE,
    SLOTS_PAST_THE_END,
    SLOTS_OUT_OF_BOUNDS,
    NO_BARRIER,
    NO_BARRIER_UNWRITTEN,
    OWN_PAIR,
    UPSIDE_DOWN,
    BLOCK_MINUS_INF,
    MISSING_LANES_ZERO,
    UNSCALED,
    PAIRS_COUNTED_TWICE,
)
