"""Wrong softmax kernels of chapter 2, and the diagnoses that only some exercises need.

Each mistake is the reference with a few words changed, or a function that takes its place.
"""

from __future__ import annotations

import ast

from checkers.chapters.parts import ch02_rows as given
from checkers.exercise import Diagnosis, Mistake
from checkers.grading import syntax

OTHER = 'other=-float("inf")'


def mistake(name: str, diagnosis: Diagnosis, *swaps: tuple[str, str], **more: object) -> Mistake:
    """A mistake found by running, unless ``stage`` says otherwise."""
    stage = str(more.pop("stage", "run"))
    return Mistake(name, stage, diagnosis.says, replace=swaps, **more)  # type: ignore[arg-type]


def no_kernel(function: str, value: str, name: str) -> Mistake:
    """An answer that launches nothing."""
    answer = f"def {function}(x):\n    return {value}\n"
    return Mistake(name, "compile", given.NO_KERNEL.says, answer=answer)


def library(function: str) -> Mistake:
    """The library does the work."""
    answer = f"def {function}(x):\n    return torch.softmax(x, dim=-1)\n"
    return Mistake("calls_the_library", "source", "torch.softmax may not be used", answer=answer)


# --- ch02.row_softmax --------------------------------------------------------------------------

FIRST_ROW = Diagnosis(
    "Only the first row was computed: the grid has one program. It needs one for each row: "
    "kernel[(M,)](...).",
    given.PROGRAMS,
    patterns=frozenset({"first_row_only"}),
)
ROW_DIAGNOSES = (*given.COMMON, FIRST_ROW, given.NOT_DIVIDED)

_ROW_Y = "y = torch.empty_like(x)"
_ROW_LAUNCH = "row_softmax_kernel[(M,)](x, y, N,"
_ROW_E = "e = tl.exp(x - tl.max(x, axis=0))"
_ROW_RESULT = "y = e * (1.0 / tl.sum(e, axis=0))"

ROW_SOFTMAX = (
    mistake("missing_mask", given.LOAD_UNMASKED, (f"mask=inside, {OTHER}", "")),
    mistake("missing_other", given.NO_OTHER, (f"mask=inside, {OTHER}", "mask=inside")),
    mistake("other_is_zero", given.OTHER_IS_ZERO, (OTHER, "other=0.0")),
    mistake("store_unmasked", given.STORE_UNMASKED, ("y, mask=inside)", "y)")),
    mistake("no_maximum", given.NO_MAXIMUM, (_ROW_E, "e = tl.exp(x)")),
    mistake(
        "sum_in_16_bits",
        given.SIXTEEN_BITS,
        ("tl.sum(e, axis=0)", "tl.sum(e.to(tl.float16), axis=0).to(tl.float32)"),
    ),
    mistake("not_divided", given.NOT_DIVIDED, (_ROW_RESULT, "y = e")),
    mistake("one_program", FIRST_ROW, (_ROW_LAUNCH, "row_softmax_kernel[(1,)](x, y, N,")),
    mistake("rows_N_apart", given.WRONG_STRIDE, ("x_ptr + row * x_stride", "x_ptr + row * N")),
    mistake("stores_zeros", given.ALL_ZERO, (_ROW_RESULT, "y = e * 0.0")),
    Mistake(
        "returns_the_input",
        "run",
        given.INPUT_RETURNED.says,
        answer="""
def row_softmax(x):
    M, N = x.shape
    y = torch.empty_like(x)
    if x.numel():
        BLOCK = triton.next_power_of_2(N)
        row_softmax_kernel[(M,)](x, y, N, x.stride(0), y.stride(0), BLOCK=BLOCK, num_warps=16)
    return x
""",
    ),
    mistake(
        "writes_the_input", given.INPUT_WRITTEN, (_ROW_LAUNCH, "row_softmax_kernel[(M,)](x, x, N,")
    ),
    mistake(
        "float32_output",
        given.DTYPE,
        (_ROW_Y, "y = torch.empty(M, N, dtype=torch.float32, device=x.device)"),
    ),
    mistake(
        "row_in_32_bits",
        given.OVERFLOW,
        ("tl.program_id(0).to(tl.int64)", "tl.program_id(0)"),
    ),
    no_kernel("row_softmax", "torch.zeros_like(x)", "zeros_without_a_kernel"),
    no_kernel("row_softmax", "x", "the_input_without_a_kernel"),
    library("row_softmax"),
)

# --- ch02.short_rows ---------------------------------------------------------------------------

ROUNDED_DOWN = Diagnosis(
    "The last rows were never written: M // ROWS programs leave out the rows that remain. Round up: "
    "triton.cdiv(M, ROWS).",
    given.SHORT,
    patterns=frozenset({"last_rows"}),
    source=syntax.no_call("triton.cdiv"),
)
ROWS_UNMASKED = Diagnosis(
    "The mask says nothing about rows: when M is no multiple of ROWS, the last program has rows "
    "that don't exist, and writes them behind the tensor.",
    given.SHORT,
    error="check:out_of_bounds",
)
BLOCK_MAXIMUM_OF_ROWS = Diagnosis(
    "Right for one row, wrong where the rows of a program differ in scale: the maximum or the sum is "
    "taken over the whole block. Reduce along axis=1: each row has its own.",
    given.SHORT,
    cases=frozenset({"scales"}),
    passing=frozenset({"one_row"}),
)
WRONG_AXIS = Diagnosis(
    "A reduction along axis=0 goes down the columns, from row to row. Along axis=1 it stays within "
    "each row.",
    given.SHORT,
    source=syntax.any_of(
        syntax.call_with_keyword("tl.sum", "axis", 0), syntax.call_with_keyword("tl.max", "axis", 0)
    ),
)
SAME_ROWS = Diagnosis(
    "Programs overlap: program 1 must begin where program 0 ends, at row ROWS, so its rows are "
    "tl.program_id(0) * ROWS + tl.arange(0, ROWS).",
    given.SHORT,
    patterns=frozenset({"last_rows"}),
)
SHORT_DIAGNOSES = (
    ROUNDED_DOWN,
    *given.COMMON,
    ROWS_UNMASKED,
    SAME_ROWS,
    BLOCK_MAXIMUM_OF_ROWS,
    WRONG_AXIS,
    given.NOT_DIVIDED,
)

_SHORT_MASK = "inside = (rows < M) & (cols < N)"
_SHORT_E = "e = tl.exp(x - tl.max(x, axis=1, keep_dims=True))"
_SHORT_RESULT = "y = e * (1.0 / tl.sum(e, axis=1, keep_dims=True))"

SHORT_ROWS = (
    mistake("missing_mask", given.LOAD_UNMASKED, (f"mask=inside, {OTHER}", "")),
    mistake("missing_other", given.NO_OTHER, (f"mask=inside, {OTHER}", "mask=inside")),
    mistake("other_is_zero", given.OTHER_IS_ZERO, (OTHER, "other=0.0")),
    mistake("store_unmasked", given.STORE_UNMASKED, ("y, mask=inside)", "y)")),
    mistake("rows_unmasked", ROWS_UNMASKED, (_SHORT_MASK, "inside = (rows >= 0) & (cols < N)")),
    mistake("rounded_down", ROUNDED_DOWN, ("triton.cdiv(M, ROWS)", "max(M // ROWS, 1)")),
    mistake(
        "programs_overlap",
        SAME_ROWS,
        ("tl.program_id(0).to(tl.int64) * ROWS", "tl.program_id(0).to(tl.int64)"),
    ),
    mistake(
        "maximum_of_the_block",
        BLOCK_MAXIMUM_OF_ROWS,
        (_SHORT_E, "e = tl.exp(x - tl.max(tl.max(x, axis=1), axis=0))"),
    ),
    mistake(
        "sum_along_columns",
        WRONG_AXIS,
        (_SHORT_RESULT, "y = e * (1.0 / tl.sum(e, axis=0, keep_dims=True))"),
    ),
    mistake("no_maximum", given.NO_MAXIMUM, (_SHORT_E, "e = tl.exp(x)")),
    mistake("not_divided", given.NOT_DIVIDED, (_SHORT_RESULT, "y = e")),
    mistake("rows_N_apart", given.WRONG_STRIDE, ("x_ptr + rows * x_stride", "x_ptr + rows * N")),
    mistake("stores_zeros", given.ALL_ZERO, (_SHORT_RESULT, "y = e * 0.0")),
    mistake(
        "rows_in_32_bits",
        given.OVERFLOW,
        ("tl.program_id(0).to(tl.int64)", "tl.program_id(0)"),
    ),
    no_kernel("short_rows_softmax", "torch.zeros_like(x)", "zeros_without_a_kernel"),
    library("short_rows_softmax"),
)

# --- ch02.long_rows ----------------------------------------------------------------------------

MANY_BLOCKS = frozenset({"two_blocks", "ragged_blocks", "rising", "falling", "late_spike"})
ONE_BLOCK = frozenset({"not_a_multiple", "aligned", "very_negative"})

MINUS_INF_BLOCK = Diagnosis(
    "NaN where a row begins with -inf only: then m_new is -inf, and -inf - -inf is NaN. While no "
    "finite element has been seen, subtract 0 instead: exp(-inf - 0) is 0.",
    given.LONG,
    cases=frozenset({"late_start"}),
    passing=MANY_BLOCKS,
)
NO_RESCALE = Diagnosis(
    "Right while the maximum stays the same, wrong when a later block has a larger one: the old d "
    "was summed with the old m, so it must be multiplied by exp(m - m_new) before the new block's "
    "sum is added.",
    given.LONG,
    cases=frozenset({"rising"}),
    passing=ONE_BLOCK | {"falling"},
)
FALLING_MAXIMUM = Diagnosis(
    "Wrong when a later block has a smaller maximum: m must never fall. It is the larger of the old "
    "m and the block's maximum.",
    given.LONG,
    cases=frozenset({"falling"}),
    passing=ONE_BLOCK,
)
BLOCK_MAXIMUM = Diagnosis(
    "Right for rows of one block, wrong for more: the second pass must subtract the whole row's "
    "maximum, m, not the block's own.",
    given.LONG,
    cases=MANY_BLOCKS,
    passing=ONE_BLOCK,
    source=lambda tree: len(syntax.calls(tree, "tl.max")) > 1,
)
M_NOT_KEPT = Diagnosis(
    "m is still -inf after the first pass: the new maximum must become m at the end of each block, "
    "m = m_new.",
    given.LONG,
    source=lambda tree: assignments_to(tree, "m") == 1,
)
BLOCK_LEFT_OUT = Diagnosis(
    "A block of every row was never written: backwards, they begin at last, last - BLOCK, ... down to 0.",
    given.BACK,
    patterns=frozenset({"unwritten"}),
)


def assignments_to(tree: ast.Module, name: str) -> int:
    """How often ``name`` is assigned to."""
    return sum(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        for node in ast.walk(tree)
    )


LONG_DIAGNOSES = (
    *given.COMMON,
    M_NOT_KEPT,
    MINUS_INF_BLOCK,
    NO_RESCALE,
    BLOCK_LEFT_OUT,
    BLOCK_MAXIMUM,
    FALLING_MAXIMUM,
    given.NOT_DIVIDED,
)

_LONG_SUM = "d = d * tl.exp(m - origin) + tl.sum(tl.exp(x - origin), axis=0)"
_LONG_RESULT = "y = tl.exp(x.to(tl.float32) - m) * scale"

LONG_ROWS = (
    mistake("missing_mask", given.LOAD_UNMASKED, (f"mask=cols < N, {OTHER}, ", "")),
    mistake("missing_other", given.NO_OTHER, (f"mask=cols < N, {OTHER},", "mask=cols < N,")),
    mistake("other_is_zero", given.OTHER_IS_ZERO, (OTHER, "other=0.0")),
    mistake("no_rescale", NO_RESCALE, (_LONG_SUM, "d = d + tl.sum(tl.exp(x - origin), axis=0)")),
    mistake(
        "minus_inf_minus_itself",
        MINUS_INF_BLOCK,
        ('origin = tl.where(m_new == -float("inf"), 0.0, m_new)', "origin = m_new"),
    ),
    mistake(
        "maximum_of_the_last_block",
        FALLING_MAXIMUM,
        ("m_new = tl.maximum(m, tl.max(x, axis=0))", "m_new = tl.max(x, axis=0)"),
    ),
    mistake("maximum_not_kept", M_NOT_KEPT, ("        m = m_new\n", "")),
    mistake(
        "block_maximum_in_pass_two",
        BLOCK_MAXIMUM,
        (
            _LONG_RESULT,
            "x = tl.where(inside, x.to(tl.float32), -float('inf'))\n"
            "        y = tl.exp(x - tl.max(x, axis=0)) * scale",
        ),
    ),
    mistake(
        "block_left_out",
        BLOCK_LEFT_OUT,
        ("cols = last - step + lanes", "cols = last + BLOCK - step + lanes"),
    ),
    mistake("not_divided", given.NOT_DIVIDED, (_LONG_RESULT, "y = tl.exp(x.to(tl.float32) - m)")),
    mistake(
        "no_maximum",
        given.NO_MAXIMUM,
        ("m_new = tl.maximum(m, tl.max(x, axis=0))", "m_new = 0.0"),
    ),
    mistake("rows_N_apart", given.WRONG_STRIDE, ("x_ptr + row * x_stride", "x_ptr + row * N")),
    mistake("stores_zeros", given.ALL_ZERO, (_LONG_RESULT, "y = x.to(tl.float32) * 0.0")),
    mistake(
        "row_in_32_bits",
        given.OVERFLOW,
        ("tl.program_id(0).to(tl.int64)", "tl.program_id(0)"),
    ),
    library("long_rows_softmax"),
)
