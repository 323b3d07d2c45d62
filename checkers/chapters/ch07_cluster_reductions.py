"""ch07: rows that the blocks of a cluster share, and one softmax for all lengths."""

from __future__ import annotations

from collections.abc import Callable

import torch

from checkers.chapters.parts import ch02_rows
from checkers.chapters.parts import ch07_diagnoses as diagnoses
from checkers.chapters.parts import ch07_mistakes as mistakes
from checkers.chapters.parts import ch07_rows as given
from checkers.chapters.parts.ch07_rows import case
from checkers.exercise import Bench, Case, Exercise, Implementation, Rule, Rung

# The work is the kernel's; PyTorch may allocate and view.
FORBIDDEN = (
    *ch02_rows.FORBIDDEN,
    "torch.logsumexp",
    "torch.max",
    "torch.amax",
    "torch.sum",
    "torch.exp",
    ".logsumexp",
    ".amax",
    ".contiguous",
    ".clone",
    "triton",
)


# --- what the generated code must show -----------------------------------------------------------

WIDE_LOADS = Rule(
    "wide_loads",
    "ld.global",
    "every load from global memory should bring 128 bits (ld.global.v4.b32)",
    min_bits=128,
    every=True,
)
FAST_EXP = Rule(
    "fast_exponential", "ex2.approx", "exp should be the hardware's, ex2.approx", at_least=1
)
CLUSTER = (
    Rule(
        "remote_stores",
        "st.async",
        "the pairs should go to the peers by st.async, whose bytes their mbarriers count",
        at_least=1,
    ),
    Rule(
        "expects",
        "mbarrier.expect_tx",  # and mbarrier.arrive.expect_tx, which has all of its parts
        "the mbarrier should be told how many bytes will arrive: expect_tx",
        at_least=1,
    ),
    Rule(
        "arrives",
        "barrier.cluster.arrive",
        "the blocks of a cluster should tell each other that their mbarriers are initialised",
        at_least=1,
    ),
    Rule(
        "one_cluster_barrier",
        "barrier.cluster.wait",
        "one wait for the cluster is enough, before the first remote store: each block's own "
        "mbarrier says when its pairs are there",
        at_most=1,
    ),
    Rule(
        "cluster_wait",
        "barrier.cluster.wait",
        "before the first remote store every block should wait for the cluster",
        at_least=1,
    ),
)


# --- cluster_reduction ---------------------------------------------------------------------------

REDUCTION = Exercise(
    id="ch07.cluster_reduction",
    title="A row for all blocks of a cluster",
    points=14,
    minutes=14,
    rung=Rung.CUTE,
    function="row_pairs",
    section="An mbarrier that counts bytes",
    cases=(
        case("two_blocks", "a cluster of 2", 3, 1024, "float32", blocks=2),
        case("four_blocks", "every thread has whole vectors", 3, 4096, "bfloat16", blocks=4),
        case("eight_blocks", "16 pairs meet", 2, 8192, "float16", blocks=8),
        case("sixteen_blocks", "the largest cluster, 32 pairs", 2, 8192, "bfloat16", blocks=16),
        case(
            "falling",
            "each block has a smaller maximum, by more than exp can bridge",
            2,
            3000,
            "float32",
            blocks=4,
            values="falling",
        ),
        case(
            "rising",
            "each block has a larger maximum",
            2,
            3000,
            "float32",
            blocks=4,
            values="rising",
        ),
        case(
            "masked_blocks",
            "some blocks hold -inf only",
            4,
            4096,
            "float32",
            blocks=4,
            values="half_minus_inf",
        ),
        case("ragged", "the last block's part is short", 3, 1001, "bfloat16", blocks=4),
        case("short", "most blocks have no element", 3, 5, "float32", blocks=16),
        case("large_values", "exp(10000) is infinite", 2, 900, "float32", blocks=2, values="large"),
        case("pitched", "rows 1200 elements apart", 4, 1024, "float32", blocks=2, row_stride=1200),
        case("no_rows", "nothing to do", 0, 64, "float32", blocks=4),
        case(
            "many_rows",
            "more clusters than run at a time",
            20_000,
            8192,
            "bfloat16",
            True,
            blocks=8,
        ),
    ),
    inputs=given.rows_and_blocks,
    oracle=given.row_pairs,
    output_dtype=lambda arguments: torch.float32,
    reduction_length=ch02_rows.length,
    forbidden=FORBIDDEN,
    compile_cases=("four_blocks",),
    rules=(WIDE_LOADS, FAST_EXP, *CLUSTER),
    speed=(given.timed_reading(32768, blocks=2), given.timed_reading(65536, blocks=4)),
    floors=(given.counted(2, 8192, tensors=1, blocks=8),),
    hints=(
        "A pair can arrive before its receiver has looked at its own mbarrier. Which two things must "
        "hold by then, and who sees to each of them?",
        "Thread 0 initialises the mbarrier for one arrival, then comes the fence, then the relaxed "
        "arrive; the wait stands just before the first send. One thread arrives and expects "
        "tile.pairs * PAIR_BYTES. Lane p sends to peer p, into the slot of its own rank and warp. "
        "In the end each sum is multiplied by exp(m - row_m).",
        "cute.arch.mbarrier_arrive_and_expect_tx(mbar, tile.pairs * PAIR_BYTES); "
        "send_pair(m, d, slots[0, rank * tile.warps + warp, None], mbar, lane); "
        "cute.arch.mbarrier_wait(mbar, 0)",
    ),
    diagnoses=diagnoses.REDUCTION,
    mistakes=mistakes.REDUCTION,
    max_registers=128,
)


# --- softmax -------------------------------------------------------------------------------------

SOFTMAX = Exercise(
    id="ch07.softmax",
    title="Softmax, from one element to 262144",
    points=16,
    minutes=16,
    rung=Rung.CUTE,
    function="softmax_forward",
    section="Softmax, any row",
    cases=(
        case("part_of_a_warp", "8 lanes a row, four rows a warp", 9, 40, "bfloat16"),
        case("one_warp", "a warp a row, four rows a block", 5, 256, "bfloat16"),
        case("four_warps", "four rows a block, four warps each", 5, 4096, "bfloat16"),
        case("block", "a block a row", 2, 2048, "float16"),
        case("sixteen_warps", "16 warps a row", 2, 9000, "float32"),
        case("cluster", "4 blocks a row", 2, 32768, "bfloat16"),
        case("eight_blocks", "8 blocks of 8 warps: 64 pairs", 1, 65536, "bfloat16"),
        case("longest", "16 blocks of 8 warps: 128 pairs", 1, 262144, "bfloat16"),
        case("one_element", "a row of one element is 1", 4, 1, "float32"),
        case("odd_short", "no two elements fit a load", 5, 129, "bfloat16"),
        case("odd_long", "the same, in a cluster", 1, 32765, "float16"),
        case("no_rows", "nothing to do", 0, 64, "float32"),
        case("one_row", "rows of the block that don't exist", 1, 777, "float16"),
        case("large_values", "exp(10000) is infinite", 3, 3000, "float32", values="large"),
        case("very_negative", "0 is larger than all", 3, 3001, "float32", values="very_negative"),
        case("all_equal", "every element is 1 / N", 2, 5000, "bfloat16", values="equal"),
        case("masked", "warps that hold -inf only", 6, 2500, "float32", values="half_minus_inf"),
        case("masked_blocks", "blocks too", 2, 20000, "float32", values="half_minus_inf"),
        case("falling", "each warp's maximum is far lower", 2, 8000, "float32", values="falling"),
        case("falling_blocks", "each block's", 1, 20000, "float32", values="falling"),
        case("special", "inf, NaN and the ends of the range", 8, 1000, "float32", values="special"),
        case("special_blocks", "the same, in a cluster", 8, 20000, "bfloat16", values="special"),
        case("pitched", "rows 256 elements apart", 4, 192, "float32", row_stride=256),
        case("many_rows", "more blocks than run at a time", 100_003, 130, "bfloat16", True),
        case(
            "huge_index",
            "the last row begins past 2^31 elements",
            3,
            1000,
            "bfloat16",
            True,
            sparse=True,
            row_stride=2**30 + 64,
        ),
        case("huge", "2^31 elements and 3 rows", 2**31 // 4096 + 3, 4096, "bfloat16", True),
    ),
    inputs=given.rows,
    oracle=ch02_rows.softmax,
    reduction_length=ch02_rows.length,
    forbidden=FORBIDDEN,
    compile_cases=("cluster", "block"),
    rules=(WIDE_LOADS, FAST_EXP),
    speed=tuple(
        given.timed(N) for N in (256, 1024, 4096, 8192, 16384, 32768, 65536, 131072, 262144)
    ),
    floors=(
        given.counted(64, 256),
        given.counted(16, 1024),
        given.counted(2, 16384),
        given.counted(1, 65536),
    ),
    hints=(
        "Each warp holds e = exp(x - m) with its own m, and the row's m may be larger. By which "
        "factor is each e too large, and what is it divided by?",
        "In a cluster everything is as in the exercise before, with rows * pairs pairs on the way, "
        "for a block may hold several rows. In one block the slots are in its own shared memory: "
        "lane 0 writes, a barrier, all read. A lane combines every 32nd pair.",
        "scale = cute.math.exp(m - row_m, fastmath=True) * cute.arch.rcp_approx(row_d); "
        "place += cute.arch.block_idx_in_cluster() * tile.warps; "
        "scaled = ds.load() * cute.math.exp(ms.load() - row_m, fastmath=True)",
    ),
    diagnoses=diagnoses.SOFTMAX,
    mistakes=mistakes.SOFTMAX,
)

EXERCISES: tuple[Exercise, ...] = (REDUCTION, SOFTMAX)


# --- speed table ---------------------------------------------------------------------------------


def bench_case(op: str, M: int, N: int, dtype: str) -> Case:
    """A row of the table. op: "forward", "small_grid" (forward too, of 4096 rows) or "backward"."""
    parameters = {"op": op, "M": M, "N": N, "dtype": dtype}
    return Case(f"{op}_{dtype}_{N}", parameters, needs_gpu=True)


def bench_input(case: Case, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    """x; for "backward" y and dy, y the softmax of something."""
    (x,) = given.rows(case, generator)
    if case["op"] != "backward":
        return (x,)
    for part in x.split(max(1, given.ELEMENTS // 16 // case["N"])):  # in place, in little memory
        part.copy_(part.softmax(-1))
    return x, given.rows(case, generator)[0]


def bench_work(case: Case) -> int:
    """Bytes that must move: two tensors forward, three backward."""
    tensors = 3 if case["op"] == "backward" else 2
    return tensors * case["M"] * case["N"] * case.dtype.itemsize


def by_operands(forward: Callable, backward: Callable | None = None) -> Callable:
    """One function for both directions: y and dy are two, x is one."""
    return lambda *operands: backward(*operands) if len(operands) == 2 else forward(*operands)


def forward_only(case: Case) -> bool:
    """For implementations that have no backward pass."""
    return case["op"] != "backward"


def load_solution() -> Callable:
    from solutions import ch07_cluster_reductions as solution

    return by_operands(solution.softmax, solution.softmax_backward)


def load_quack() -> Callable:
    from quack.softmax import softmax_bwd, softmax_fwd

    return by_operands(softmax_fwd, lambda y, dy: softmax_bwd(dy, y))


def softmax_of(x: torch.Tensor) -> torch.Tensor:
    """Softmax as PyTorch has it."""
    return torch.softmax(x, dim=-1)


def gradient_of(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    """Its backward pass, the operator that autograd calls."""
    return torch.ops.aten._softmax_backward_data(dy, y, -1, y.dtype)


def load_compiled() -> Callable:
    return by_operands(
        torch.compile(softmax_of, dynamic=False), torch.compile(gradient_of, dynamic=False)
    )


def load_triton() -> Callable:
    from solutions import ch02_triton_softmax

    return ch02_triton_softmax.tuned_softmax


LENGTHS = tuple(2**power for power in range(8, 19))
BACKWARD = LENGTHS[2:]

BENCH = Bench(
    title="Softmax, forward and backward",
    cases=tuple(
        bench_case(op, rows or given.ELEMENTS // N, N, dtype)
        for op, lengths, rows in (
            ("forward", LENGTHS, 0),
            ("small_grid", (256, 512, 1024), 4096),
            ("backward", BACKWARD, 0),
        )
        for dtype in ("bfloat16", "float32")
        for N in lengths
    ),
    inputs=bench_input,
    work=bench_work,
    implementations=(
        Implementation("solution", load_solution),
        Implementation("quack", load_quack),
        Implementation("torch.compile", load_compiled),
        Implementation("triton", load_triton, forward_only),
        Implementation("eager", lambda: by_operands(softmax_of, gradient_of)),
    ),
)
