"""ch06: reductions by shuffles and through shared memory, and softmax of rows up to 8192. What the
kernels are given is in ``parts/ch06_rows.py``, what wrong ones look like in
``parts/ch06_diagnoses.py`` and ``ch06_mistakes.py``."""

from __future__ import annotations

from collections.abc import Callable

import torch

from checkers.chapters.parts import ch02_rows
from checkers.chapters.parts import ch06_diagnoses as diagnoses
from checkers.chapters.parts import ch06_mistakes as mistakes
from checkers.chapters.parts import ch06_rows as given
from checkers.chapters.parts import ch06_softmax_diagnoses as softmax_diagnoses
from checkers.exercise import Bench, Case, Exercise, Implementation, Rule, Rung

# --- what the generated code must show -----------------------------------------------------------

READS = (
    Rule(
        "reads",
        "ld.global",
        "the kernel should read x from global memory, and no load is left in its code",
        at_least=1,
    ),
    Rule(
        "wide_loads",
        "ld.global",
        "every load from global memory should bring 128 bits (ld.global.v4.b32)",
        min_bits=128,
        every=True,
    ),
    Rule(
        "loads_first",
        "ld.global",
        "x should be read once: no load of it after the first exchange between lanes",
        before="shfl.sync.bfly",
    ),
)
SHUFFLES = Rule(
    "shuffles",
    "shfl.sync",
    "lanes of a warp should exchange values through registers (shfl.sync)",
    at_least=10,  # five for the maximum, five for the sum
)
FAST_EXP = Rule(
    "fast_exponential",
    "ex2.approx",
    "exp is to be the hardware's: cute.math.exp(..., fastmath=True) becomes a multiplication and "
    "ex2.approx",
    at_least=1,
)
ONE_BARRIER = Rule(
    "one_barrier",
    "bar.sync",
    "one exchange between the warps, and so one barrier, is enough",
    at_most=1,
)


def float32(arguments: tuple) -> torch.dtype:
    """The dtype of m and d."""
    return torch.float32


WARP = Exercise(
    id="ch06.warp_reduction",
    title="One row a warp: maximum and sum by shuffles",
    points=10,
    minutes=10,
    rung=Rung.CUTE,
    function="warp_max_and_sum",
    section=diagnoses.BUTTERFLY,
    cases=given.WARP_CASES,
    inputs=given.rows,
    oracle=given.max_and_sum,
    output_dtype=float32,
    reduction_length=ch02_rows.length,
    forbidden=(
        *given.FORBIDDEN,
        "cute.arch.warp_reduction",
        "cute.arch.warp_reduction_max",
        "cute.arch.warp_reduction_sum",
        "cute.arch.warp_redux_sync",
    ),
    rules=(
        *READS,
        SHUFFLES,
        FAST_EXP,
        Rule("no_barrier", "bar.sync", "a warp that has its row alone needs no barrier", at_most=0),
    ),
    speed=(given.timed_reading(1024),),
    floors=(given.counted_reading(16, 1024),),
    hints=(
        "Lane 5 wants what lane 21 holds, and the other way round. After this exchange, which lanes "
        "still lack something that lane 5 has?",
        "Exchange with the lane 16 away, then 8, 4, 2 and 1, and combine what comes with what you "
        "have. First the maximum of the row in every lane; then exp of each element minus it; then "
        "the sum of these. Where there is no element the register must hold -inf.",
        "for distance in (16, 8, 4, 2, 1): value = combine(value, "
        "cute.arch.shuffle_sync_bfly(value, offset=distance))",
    ),
    diagnoses=diagnoses.WARP,
    mistakes=mistakes.WARP,
    compile_cases=("whole_warp",),
    max_registers=128,
)

BLOCK = Exercise(
    id="ch06.block_reduction",
    title="One row a block: pairs through shared memory",
    points=10,
    minutes=10,
    rung=Rung.CUTE,
    function="block_max_and_sum",
    section=diagnoses.SLOTS,
    cases=given.BLOCK_CASES,
    inputs=given.rows,
    oracle=given.max_and_sum,
    output_dtype=float32,
    reduction_length=ch02_rows.length,
    forbidden=given.FORBIDDEN,
    rules=(*READS, SHUFFLES, FAST_EXP, ONE_BARRIER),
    speed=(given.timed_reading(8192),),
    floors=(given.counted_reading(2, 8192),),
    hints=(
        "Each of the eight warps knows its own maximum and its own sum. What must every thread know "
        "before it can combine them, and who must have finished before it may look?",
        "Lane 0 leaves the warp's pair in the warp's slots. After a barrier of the block lane i takes "
        "the pair of warp i; lanes without a warp hold -inf and 0. The maximum of the maxima is the "
        "row's; each sum is multiplied by exp(its maximum - the row's) before they are added.",
        "row_d = cute.arch.warp_reduction_sum(d * cute.math.exp(m - origin, fastmath=True))",
    ),
    diagnoses=diagnoses.BLOCK,
    mistakes=mistakes.BLOCK,
    compile_cases=("whole_block",),
    max_registers=128,
)

SOFTMAX = Exercise(
    id="ch06.softmax",
    title="Softmax of rows up to 8192",
    points=14,
    minutes=15,
    rung=Rung.CUTE,
    function="softmax",
    section=diagnoses.SOFTMAX,
    cases=given.SOFTMAX_CASES,
    inputs=given.rows,
    oracle=ch02_rows.softmax,
    reduction_length=ch02_rows.length,
    forbidden=given.FORBIDDEN,
    rules=(
        *READS,
        Rule(
            "writes",
            "st.global",
            "the kernel should write the output, and no store is left in its code",
            at_least=1,
        ),
        Rule(
            "wide_stores",
            "st.global",
            "every store to global memory should take 128 bits (st.global.v4.b32)",
            min_bits=128,
            every=True,
        ),
        SHUFFLES,
        FAST_EXP,
        ONE_BARRIER,
    ),
    speed=tuple(ch02_rows.timed(N) for N in (256, 1024, 4096, 8192)),
    floors=(ch02_rows.counted(32, 256), ch02_rows.counted(2, 8192)),
    hints=(
        "After the exchange each thread still holds exp(x - m) of its elements, with its warp's own m. "
        "By which factor does that differ from the softmax?",
        "Fill with -inf and load; reduce within the row's lanes (threads_in_group=lanes); where a row has "
        "several warps, exchange as in the block reduction, with the slots of this row. The result is "
        "e * exp(m_warp - m_row) / d_row. With one warp a row the first factor is 1.",
        "row, place = warp // warps, warp % warps; y = e * (scale * cute.arch.rcp_approx(d))",
    ),
    diagnoses=softmax_diagnoses.ROWS,
    mistakes=mistakes.SOFTMAX,
    compile_cases=("row_a_block", "rows_share_a_block"),
    max_registers=160,
)

EXERCISES: tuple[Exercise, ...] = (WARP, BLOCK, SOFTMAX)


# --- speed table ---------------------------------------------------------------------------------


def load_solution() -> Callable:
    from solutions import ch06_warp_reductions

    return ch06_warp_reductions.softmax


def load_triton() -> Callable:
    """Chapter 2's best: it chooses between its kernels, and tunes them."""
    from solutions import ch02_triton_softmax

    return ch02_triton_softmax.tuned_softmax


def load_eager() -> Callable:
    return lambda x: torch.softmax(x, dim=-1)


def load_compiled() -> Callable:
    return torch.compile(lambda x: torch.softmax(x, dim=-1), dynamic=False)


def load_quack() -> Callable:
    from quack.softmax import softmax

    return softmax


def bench_case(M: int, N: int, dtype: str) -> Case:
    """A row of the table. grid: "large" is 2^29 elements, "small" 4096 rows, which caches hold."""
    grid = "small" if M == 4096 else "large"
    name = f"{grid}_{dtype}_{N}"
    return Case(name, {"grid": grid, "M": M, "N": N, "dtype": dtype}, needs_gpu=True)


LENGTHS = (256, 512, 1024, 2048, 4096, 8192)
BENCH = Bench(
    title="Softmax of rows up to 8192",
    cases=(
        *(bench_case(2**29 // N, N, dtype) for dtype in ("bfloat16", "float32") for N in LENGTHS),
        *(bench_case(4096, N, dtype) for dtype in ("bfloat16", "float32") for N in LENGTHS[:3]),
    ),
    inputs=given.rows,
    work=lambda case: 2 * case["M"] * case["N"] * case.dtype.itemsize,
    implementations=(
        Implementation("solution", load_solution),
        Implementation("triton", load_triton),
        Implementation("torch.compile", load_compiled),
        Implementation("eager", load_eager),
        Implementation("quack", load_quack),
    ),
)
