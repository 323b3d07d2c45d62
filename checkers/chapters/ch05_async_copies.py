"""ch05: silu with asynchronous copies: a ring of cp.async stages, a bulk copy, a warp that produces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from checkers.chapters.parts import ch05_bulk as bulk
from checkers.chapters.parts import ch05_pipelined as pipelined
from checkers.chapters.parts import ch05_ring as ring
from checkers.chapters.parts import ch05_ring_mistakes as ring_mistakes
from checkers.chapters.parts.ch05_cases import (
    bytes_moved,
    call_on_view,
    call_with_blocks,
    case,
    matrix,
    matrix_input,
    silu,
    silu_input,
    silu_of_columns,
)
from checkers.exercise import (
    Bench,
    Case,
    Exercise,
    Floor,
    Implementation,
    Rule,
    Rung,
    SpeedTarget,
)

# The work is the kernel's; PyTorch may allocate and view.
FORBIDDEN = (
    ".clone",
    ".copy_",
    ".contiguous",
    "torch.clone",
    "torch.nn.functional",
    "torch.sigmoid",
    ".sigmoid",
    "torch.from_dlpack",
    "torch.utils.dlpack",
    "triton",
)


# --- what the generated code must show -----------------------------------------------------------

NO_LOADS = Rule(
    "no_plain_loads",
    "ld.global",
    "x should come by asynchronous copies alone, and the code loads from global memory itself "
    "(ld.global)",
    at_most=0,
)
WIDE_STORES = Rule(
    "wide_stores",
    "st.global",
    "every store to global memory should take 128 bits (st.global.v4.b32)",
    min_bits=128,
    every=True,
)
WIDE_READS = Rule(
    "wide_reads",
    "ld.shared",
    "every load from shared memory should bring 128 bits (ld.shared.v4.b32)",
    min_bits=128,
    every=True,
)
MBARRIER = (
    Rule("init", "mbarrier.init", "no mbarrier is initialised (mbarrier.init)", at_least=1),
    Rule(
        "init_fence",
        "fence.mbarrier_init",
        "nothing makes the initialised barriers visible to the copy engine (fence.mbarrier_init)",
        at_least=1,
    ),
    Rule(
        "waits",
        "mbarrier.try_wait",
        "nothing in the code waits on an mbarrier (mbarrier.try_wait)",
        at_least=1,
    ),
)


# --- pipelined_silu ------------------------------------------------------------------------------

PIPELINED = Exercise(
    id="ch05.pipelined_silu",
    title="A ring of stages, filled with cp.async",
    points=14,
    minutes=12,
    rung=Rung.CUTE,
    function="pipelined_silu",
    section="A copy that nobody waits for",
    cases=(
        case(
            "many_rounds", "each stage is used again and again", (11 * 1024,), "bfloat16", blocks=1
        ),
        case(
            "tail_1_vector", "the last tile has one vector", (7 * 1024 + 8,), "bfloat16", blocks=2
        ),
        case("three_blocks", "a block's tiles lie three apart", (13, 512), "float32", blocks=3),
        case("fewer_tiles_than_stages", "", (2 * 1024,), "float16", blocks=1),
        case("one_vector", "a single thread has work", (4,), "float32"),
        case("ragged", "a short last tile", (77, 24), "bfloat16"),
        case("large_values", "x to +-1000: exp overflows", (64, 128), "float32", scale=300.0),
        case("empty", "no element, no launch", (0,), "float32"),
        case("many_blocks", "the GPU is full", (4096, 2056), "bfloat16", needs_gpu=True),
        case(
            "huge_index",
            "past 2**32 elements: 32-bit products wrap",
            (2**32 + 3 * 1024,),
            "bfloat16",
            needs_gpu=True,
        ),
        case(
            "huge_ends",
            "the same, a block a tile, only its first and last tiles",
            (2**32 + 3 * 1024,),
            "bfloat16",
            needs_gpu=True,
            window=3 * 1024,
        ),
    ),
    inputs=silu_input,
    oracle=silu,
    call=call_with_blocks,
    forbidden=FORBIDDEN,
    rules=(
        Rule(
            "asynchronous",
            "cp.async",
            "the copies to shared memory should be 16 bytes each and asynchronous "
            "(cp.async.ca.shared.global ..., 16)",
            modifiers=("shared", "global"),
            min_bits=128,
            at_least=2,
        ),
        Rule("groups", "cp.async.commit_group", "no group of copies is committed", at_least=1),
        Rule("waits", "cp.async.wait_group", "nothing waits for the copies", at_least=1),
        NO_LOADS,
        WIDE_READS,
        WIDE_STORES,
    ),
    speed=(
        SpeedTarget(case("large", "", (2**28,), "bfloat16", needs_gpu=True), bytes_moved),
        SpeedTarget(case("large_float32", "", (2**27,), "float32", needs_gpu=True), bytes_moved),
    ),
    floors=(Floor(case("whole_tiles", "", (16, 1024), "bfloat16", blocks=2), bytes_moved),),
    hints=pipelined.HINTS,
    diagnoses=pipelined.DIAGNOSES,
    mistakes=pipelined.MISTAKES,
    compile_cases=("many_rounds",),
    max_registers=128,
)


# --- bulk_silu -----------------------------------------------------------------------------------

BULK = Exercise(
    id="ch05.bulk_silu",
    title="One bulk copy a tile, reported by an mbarrier",
    points=14,
    minutes=10,
    rung=Rung.CUTE,
    function="bulk_silu",
    section="One instruction a tile",
    cases=(
        case("many_rounds", "one barrier, phase after phase", (7 * 2048,), "bfloat16", blocks=1),
        case("one_tile", "a single phase", (1024,), "float32"),
        case("two_blocks", "a block's tiles lie two apart", (5, 1024), "float32", blocks=2),
        case("half", "the third dtype", (3, 4, 1024), "float16", blocks=1),
        case("large_values", "x to +-1000: exp overflows", (4, 2048), "float32", scale=300.0),
        case("empty", "no element, no launch", (0,), "float32"),
        case("many_blocks", "the GPU is full", (4096, 4096), "bfloat16", needs_gpu=True),
        case(
            "huge_index",
            "past 2**32 elements: 32-bit products wrap",
            (2**32 + 3 * 2048,),
            "bfloat16",
            needs_gpu=True,
        ),
        case(
            "huge_ends",
            "the same, a block a tile, only its first and last tiles",
            (2**32 + 3 * 2048,),
            "bfloat16",
            needs_gpu=True,
            window=3 * 2048,
        ),
    ),
    inputs=silu_input,
    oracle=silu,
    call=call_with_blocks,
    forbidden=FORBIDDEN,
    rules=(
        Rule(
            "bulk",
            "cp.async.bulk",
            "the tile should come by one bulk copy (cp.async.bulk)",
            at_least=1,
        ),
        *MBARRIER,
        NO_LOADS,
        WIDE_READS,
        WIDE_STORES,
    ),
    speed=(
        SpeedTarget(case("large", "", (2**28,), "bfloat16", needs_gpu=True), bytes_moved),
        SpeedTarget(case("large_float32", "", (2**27,), "float32", needs_gpu=True), bytes_moved),
    ),
    floors=(Floor(case("whole_tiles", "", (8, 2048), "bfloat16", blocks=2), bytes_moved),),
    hints=bulk.HINTS,
    diagnoses=bulk.DIAGNOSES,
    mistakes=bulk.MISTAKES,
    compile_cases=("many_rounds", "one_tile"),
    max_registers=128,
)


# --- ring_silu -----------------------------------------------------------------------------------

RING = Exercise(
    id="ch05.ring_silu",
    title="A warp that copies, four that compute",
    points=18,
    minutes=13,
    rung=Rung.CUTE,
    function="ring_silu",
    section="Producer and consumers",
    cases=(
        matrix("many_rounds", "each stage is used again and again", 88, 256, "bfloat16", blocks=1),
        matrix("ragged_both", "the last tiles are short both ways", 37, 264, "bfloat16", blocks=2),
        matrix("three_blocks", "a block's tiles lie three apart", 48, 384, "float32", blocks=3),
        matrix("fewer_tiles_than_stages", "", 16, 128, "float32", blocks=1),
        matrix("one_vector", "a single thread has work", 1, 8, "float16"),
        matrix("pitched", "rows further apart than N", 40, 296, "bfloat16", pitch=304, blocks=1),
        matrix("tall", "narrow rows", 165, 8, "bfloat16", blocks=2),
        matrix("large_values", "x to +-1000: exp overflows", 64, 128, "float32", scale=300.0),
        matrix("empty", "no row, no launch", 0, 8, "float32"),
        matrix("many_blocks", "the GPU is full", 4096, 2056, "bfloat16", needs_gpu=True),
        matrix(
            "huge_index",
            "past 2**31 elements: 32-bit offsets wrap",
            70_001,
            32_760,
            "bfloat16",
            needs_gpu=True,
        ),
    ),
    inputs=matrix_input,
    oracle=silu_of_columns,
    call=call_on_view,
    forbidden=FORBIDDEN,
    rules=(
        Rule(
            "tma",
            "cp.async.bulk.tensor",
            "the tiles should come by TMA (cp.async.bulk.tensor)",
            at_least=1,
        ),
        *MBARRIER,
        NO_LOADS,
        WIDE_READS,
        WIDE_STORES,
    ),
    speed=(
        SpeedTarget(matrix("large", "", 2**16, 2**12, "bfloat16", needs_gpu=True), bytes_moved),
        SpeedTarget(
            matrix("large_float32", "", 2**15, 2**12, "float32", needs_gpu=True), bytes_moved
        ),
    ),
    floors=(Floor(matrix("whole_tiles", "", 32, 512, "bfloat16", blocks=2), bytes_moved),),
    hints=ring.HINTS,
    diagnoses=ring.DIAGNOSES,
    mistakes=ring_mistakes.MISTAKES,
    compile_cases=("many_rounds",),
    max_registers=128,
)

EXERCISES: tuple[Exercise, ...] = (PIPELINED, BULK, RING)


# --- speed table ---------------------------------------------------------------------------------


def bench_input(case: Case, generator: torch.Generator) -> tuple[torch.Tensor]:
    """A matrix of N elements in rows of 4096."""
    flat = replace(case, parameters={"shape": (case["N"] // 4096, 4096), "dtype": case["dtype"]})
    return (silu_input(flat, generator)[0],)


def of_solution(name: str) -> Callable[[], Callable]:
    """Loads a function of the solution's module."""

    def load() -> Callable:
        from solutions import ch05_async_copies as solution

        return getattr(solution, name)

    return load


def load_eager() -> Callable:
    """PyTorch as it is written: one kernel."""
    return torch.nn.functional.silu


def load_compiled() -> Callable:
    """torch.compile of the same."""
    return torch.compile(torch.nn.functional.silu)


def bench_case(N: int, dtype: str = "bfloat16") -> Case:
    """A row of the table."""
    return Case(f"silu_{dtype}_{N}", {"N": N, "dtype": dtype}, needs_gpu=True)


BENCH = Bench(
    title="silu(x)",
    cases=(*(bench_case(2**k) for k in (20, 22, 24, 26, 28)), bench_case(2**28, "float32")),
    inputs=bench_input,
    work=lambda case: 2 * case["N"] * case.dtype.itemsize,
    implementations=(
        Implementation("solution", of_solution("ring_silu")),
        Implementation("bulk_silu", of_solution("bulk_silu")),
        Implementation("pipelined_silu", of_solution("pipelined_silu")),
        Implementation("direct_silu", of_solution("direct_silu")),
        Implementation("triton", of_solution("triton_silu")),
        Implementation("torch.compile", load_compiled),
        Implementation("eager", load_eager),
    ),
)
