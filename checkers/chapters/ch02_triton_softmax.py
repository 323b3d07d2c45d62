"""Chapter 2: softmax in Triton. What its kernels are given is in ``parts/ch02_rows.py``, what
wrong kernels look like in ``parts/ch02_mistakes.py`` and ``ch02_tuning_mistakes.py``."""

from __future__ import annotations

from collections.abc import Callable

import torch

from checkers.chapters.parts import ch02_mistakes as wrong
from checkers.chapters.parts import ch02_rows as given
from checkers.chapters.parts import ch02_tuning_mistakes as mistuned
from checkers.chapters.parts.ch02_tuning import call_in_sequence
from checkers.exercise import (
    Bench,
    Case,
    Exercise,
    Implementation,
    Rule,
    Rung,
)


def case(
    name: str,
    M: int,
    N: int,
    dtype: str,
    why: str,
    needs_gpu: bool = False,
    sparse: bool = False,
    **more: object,
) -> Case:
    """A case of M rows of N elements."""
    return Case(name, {"M": M, "N": N, "dtype": dtype, **more}, why, needs_gpu, sparse)


VECTORS = (
    Rule(
        "vector_loads",
        "ld.global",
        "Rows that are 16-byte aligned are to be loaded 128 bits at a time: neighbouring lanes must "
        "take neighbouring columns, with no stride between them.",
        min_bits=128,
        every=True,
    ),
    Rule(
        "vector_stores",
        "st.global",
        "Rows that are 16-byte aligned are to be stored 128 bits at a time: neighbouring lanes must "
        "take neighbouring columns, with no stride between them.",
        min_bits=128,
        every=True,
    ),
)
FAST_EXP = Rule(
    "fast_exponential",
    "ex2.approx",
    "exp is to be the hardware's: tl.exp of a float32 becomes one multiplication and ex2.approx.",
    at_least=1,
)

ROW_CASES = (
    case("tail_1", 3, 129, "float32", "one element past a power of two"),
    case("not_a_multiple", 5, 1000, "bfloat16", "24 lanes have no column"),
    case("one_row", 1, 777, "float16", "a single row"),
    case("one_column", 4, 1, "float32", "a row of one element is 1"),
    case("no_rows", 0, 64, "float32", "nothing to do"),
    case("aligned", 5, 512, "float16", "every lane has a column"),
    case("large_values", 3, 300, "float32", "exp(10000) is infinite", values="large"),
    case(
        "very_negative", 3, 300, "float32", "0 is larger than every element", values="very_negative"
    ),
    case("all_equal", 2, 500, "bfloat16", "every element is 1 / N", values="equal"),
    case("partly_minus_inf", 6, 200, "float32", "rows masked in part", values="half_minus_inf"),
    case("spike_in_the_tail", 2, 1025, "float32", "the last element wins", values="spike_last"),
    case("scales", 7, 100, "float32", "rows that share no scale", values="scales"),
    case("strided_rows", 4, 192, "float32", "rows lie 256 elements apart", row_stride=256),
    case("many_rows", 100_003, 130, "bfloat16", "more programs than run at a time", True),
    case(
        "huge_index",
        3,
        1000,
        "bfloat16",
        "the last row begins past 2^31 elements",
        needs_gpu=True,
        sparse=True,
        row_stride=2**30 + 64,
    ),
)
WIDE = case("wide", 2, 16384, "bfloat16", "a long row")
HUGE_OUTPUT = case(
    "huge_output", 2**31 // 4096 + 3, 4096, "bfloat16", "2^31 elements, and 3 rows", True
)


ROW_SOFTMAX = Exercise(
    id="ch02.row_softmax",
    title="One row a program",
    points=10,
    minutes=12,
    rung=Rung.TRITON,
    function="row_softmax",
    section=given.PROGRAMS,
    cases=(*ROW_CASES, WIDE, HUGE_OUTPUT),
    inputs=given.rows,
    oracle=given.softmax,
    reduction_length=given.length,
    forbidden=given.FORBIDDEN,
    compile_cases=("wide",),
    rules=(*VECTORS, FAST_EXP),
    speed=(given.timed(1024), given.timed(4096), given.timed(16384)),
    floors=(given.counted(8, 1024), given.counted(2, 16384)),
    hints=(
        "Which row does program 7 compute, and at which address does that row begin when rows lie "
        "x_stride elements apart?",
        "The row begins at x_ptr + row * x_stride, row being tl.program_id(0) in 64 bits. A lane "
        "past the end must hold the number that changes neither a maximum nor a sum of exponentials.",
        'x = tl.load(x_row + cols, mask=inside, other=-float("inf")).to(tl.float32)',
    ),
    diagnoses=wrong.ROW_DIAGNOSES,
    mistakes=wrong.ROW_SOFTMAX,
)

SHORT_ROWS = Exercise(
    id="ch02.short_rows",
    title="Several rows a program",
    points=10,
    minutes=10,
    rung=Rung.TRITON,
    function="short_rows_softmax",
    section=given.SHORT,
    cases=(
        *ROW_CASES,
        case("last_program", 9, 256, "bfloat16", "8 rows a program, so the second has one"),
        HUGE_OUTPUT,
    ),
    inputs=given.rows,
    oracle=given.softmax,
    reduction_length=given.length,
    forbidden=given.FORBIDDEN,
    compile_cases=("last_program",),
    rules=(
        *VECTORS,
        FAST_EXP,
        Rule(
            "no_barrier",
            "bar.sync",
            "256 elements are 8 for each lane of a warp: one warp reduces its row alone, so that no "
            "barrier between warps is needed. The columns must be the block's last axis.",
            at_most=0,
        ),
    ),
    speed=(given.timed(256), given.timed(512), given.timed(1024)),
    floors=(given.counted(64, 256), given.counted(16, 1024)),
    hints=(
        "Program 3 takes 8 rows. Which are they, written with tl.arange as a column of numbers?",
        "rows has the shape (ROWS, 1) and cols (1, BLOCK): every expression of both is a block of "
        "(ROWS, BLOCK). Reduce it along axis=1 and keep the axis, so that each row gets its own.",
        "e = tl.exp(x - tl.max(x, axis=1, keep_dims=True))",
    ),
    diagnoses=wrong.SHORT_DIAGNOSES,
    mistakes=wrong.SHORT_ROWS,
)

LONG_ROWS = Exercise(
    id="ch02.long_rows",
    title="Online softmax over blocks",
    points=12,
    minutes=15,
    rung=Rung.TRITON,
    function="long_rows_softmax",
    section=given.LONG,
    cases=(
        *ROW_CASES,
        case("two_blocks", 2, 16384, "bfloat16", "both blocks are full"),
        case("ragged_blocks", 2, 20001, "float16", "the last of three blocks is not full"),
        case("rising", 2, 17000, "float32", "each block has a larger maximum", values="rising"),
        case("falling", 2, 17000, "float32", "each block has a smaller maximum", values="falling"),
        case("late_start", 2, 20000, "float32", "a block of -inf only", values="half_minus_inf"),
        case("late_spike", 1, 16385, "bfloat16", "alone in its block", values="spike_last"),
        case("one_long_row", 1, 262144, "bfloat16", "no program can hold the whole row"),
        case("longest", 64, 262144, "bfloat16", "the longest row", True),
    ),
    inputs=given.rows,
    oracle=given.softmax,
    reduction_length=given.length,
    forbidden=given.FORBIDDEN,
    compile_cases=("two_blocks", "one_long_row"),
    rules=(*VECTORS, FAST_EXP),
    speed=(given.timed(32768), given.timed(131072), given.timed(262144)),
    floors=(given.counted(1, 65536, reads=2),),
    hints=(
        "After the first block d is a sum of exp(x - m). Now a block comes with a larger maximum. "
        "By which factor is every term of d too large?",
        "exp(x - m_new) = exp(x - m) * exp(m - m_new): multiply d by that second factor, then add "
        "the new block's terms. While every element so far is -inf, subtract 0, not -inf.",
        "d = d * tl.exp(m - origin) + tl.sum(tl.exp(x - origin), axis=0)",
    ),
    diagnoses=wrong.LONG_DIAGNOSES,
    mistakes=wrong.LONG_ROWS,
)


def shapes_in_turn(case: Case, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    """One matrix, or, for a case with ``shapes``, one of each (M, N)."""
    shapes = case.parameters.get("shapes")
    if shapes is None:
        return given.rows(case, generator)
    dtype = case["dtype"]
    return tuple(
        given.rows(Case("", {"M": M, "N": N, "dtype": dtype}), generator)[0] for M, N in shapes
    )


def softmax_of_each(*arguments: torch.Tensor) -> torch.Tensor | tuple[torch.Tensor, ...]:
    """The oracle of one matrix or of several."""
    answers = tuple(given.softmax(x) for x in arguments)
    return answers if len(answers) > 1 else answers[0]


# Every configuration runs on every one of these, so they are few.
TUNED_ON = frozenset(
    "tail_1 not_a_multiple one_row one_column no_rows very_negative partly_minus_inf scales "
    "strided_rows many_rows huge_index".split()
)

AUTOTUNE = Exercise(
    id="ch02.autotune",
    title="Autotune, and choose between two kernels",
    points=10,
    minutes=12,
    rung=Rung.TRITON,
    function="tuned_softmax",
    section=given.TUNING,
    cases=(
        *(case for case in ROW_CASES if case.name in TUNED_ON),
        case("short", 9, 512, "bfloat16", "whole rows, several a program"),
        case("long", 2, 16384, "bfloat16", "two blocks and more"),
        case("longest", 64, 262144, "bfloat16", "the longest row", True),
        Case(
            "in_turn",
            {
                "shapes": ((3, 300), (6, 300), (2, 1000), (1, 9000), (1, 20001)),
                "dtype": "bfloat16",
            },
            "each length needs its own choice, each number of rows does not",
        ),
    ),
    inputs=shapes_in_turn,
    oracle=softmax_of_each,
    call=call_in_sequence,
    reduction_length=lambda case: case.parameters.get("N", 20001),
    forbidden=given.FORBIDDEN,
    allowed_ops=("aten::clone", "aten::copy_"),  # tuning in place is found out by its answers
    compile_cases=("short", "long"),
    rules=(*VECTORS, FAST_EXP),
    speed=tuple(given.timed(N) for N in (256, 1024, 4096, 16384, 65536, 131072, 262144)),
    floors=(given.counted(64, 256), given.counted(2, 16384, reads=2)),
    hints=(
        "The tuner has timed N = 300. You call with N = 1000, then with twice as many rows. Which "
        "of these should make it time again?",
        "key names the arguments whose new value asks for a new choice: the power of two that N is "
        "rounded up to. The number of rows is not one of them. The grid may be a function of the "
        "chosen configuration.",
        'grid = lambda meta: (triton.cdiv(M, meta["ELEMENTS"] // LENGTH),)',
    ),
    diagnoses=mistuned.TUNING_DIAGNOSES,
    mistakes=mistuned.AUTOTUNE,
)

EXERCISES = (ROW_SOFTMAX, SHORT_ROWS, LONG_ROWS, AUTOTUNE)


# --- the speed table ---------------------------------------------------------------------------


def load_solution(name: str) -> Callable[[], Callable]:
    """Loads a function of the reference solution."""

    def load() -> Callable:
        from solutions import ch02_triton_softmax

        return getattr(ch02_triton_softmax, name)

    return load


def load_eager() -> Callable:
    return lambda x: torch.softmax(x, dim=-1)


def load_compiled() -> Callable:
    return torch.compile(lambda x: torch.softmax(x, dim=-1), dynamic=False)


def load_quack() -> Callable:
    from quack.softmax import softmax

    return softmax


BENCH = Bench(
    title="Softmax over rows of bfloat16",
    cases=tuple(given.timed(2**power).case for power in range(8, 19)),
    inputs=given.rows,
    work=lambda case: 2 * case["M"] * case["N"] * case.dtype.itemsize,
    implementations=(
        Implementation("solution", load_solution("tuned_softmax")),
        Implementation(
            "row_softmax", load_solution("row_softmax"), lambda case: case["N"] <= 65536
        ),
        Implementation("long_rows_softmax", load_solution("long_rows_softmax")),
        Implementation("eager", load_eager),
        Implementation("torch.compile", load_compiled),
        Implementation("quack", load_quack),
    ),
)
