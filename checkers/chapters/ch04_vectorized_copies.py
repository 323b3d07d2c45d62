"""ch04: copies in CuTe DSL, from one element a thread to 16-byte vectors, predicates and fusion."""

from __future__ import annotations

from collections.abc import Callable

import torch

from checkers.chapters.parts import ch04_diagnoses as diagnoses
from checkers.chapters.parts import ch04_mistakes as mistakes
from checkers.exercise import (
    Bench,
    Case,
    Exercise,
    Floor,
    Implementation,
    Rule,
    Rung,
    SpeedTarget,
    Tolerance,
)

# Elements of one block of vector_copy: 128 threads, 2 vectors of 16 bytes each.
TILE = {"float32": 1024, "float16": 2048, "bfloat16": 2048}

# The work is the kernel's; PyTorch may allocate and view.
FORBIDDEN = (
    ".clone",
    ".copy_",
    ".contiguous",
    ".repeat",
    "torch.clone",
    "torch.cat",
    "torch.stack",
    "torch.from_dlpack",
    "torch.utils.dlpack",
    "torch.nn.functional",
    "torch.sigmoid",
    ".sigmoid",
    "triton",
)


# --- inputs and oracles --------------------------------------------------------------------------


def random_like(case: Case, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Normal numbers of the case's dtype."""
    return torch.randn(shape, generator=generator).to(case.dtype)


def flat_input(case: Case, generator: torch.Generator) -> tuple[torch.Tensor]:
    """x of the case's ``shape``. A huge one repeats a block whose length is no power of two: an
    address that wrapped around never holds the right value by chance. Of one with a window only the
    ends are filled."""
    shape = case["shape"]
    numel = torch.Size(shape).numel()
    if case.window:
        x = torch.empty(numel, dtype=case.dtype)
        x[: case.window], x[-case.window :] = random_like(case, (2, case.window), generator)
        return (x.view(shape),)
    block = random_like(case, (min(numel, 1_000_003),), generator)
    if "special_values" in case.name:
        special = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e-7])
        block[: len(special)] = special.to(case.dtype)
    x = torch.empty(numel, dtype=case.dtype)
    for begin in range(0, numel, max(1, len(block))):
        x[begin : begin + len(block)] = block[: numel - begin]
    return (x.view(shape),)


def ragged_input(case: Case, generator: torch.Generator) -> tuple[torch.Tensor, int, int]:
    """A matrix of M rows of ``pitch`` elements, and the first column and the number of columns of
    the view that the answer is given."""
    M, N = case["M"], case["N"]
    pitch = case.parameters.get("pitch", N)
    base = Case(case.name, {"shape": (M, pitch), "dtype": case["dtype"]})
    return (*flat_input(base, generator), case.parameters.get("first", 0), N)


def call_on_view(function: Callable, arguments: tuple) -> torch.Tensor:
    """Calls ragged_copy on the columns asked for: the view shares the matrix's memory."""
    x, first, columns = arguments
    return function(x[:, first : first + columns])


def copy_of(x: torch.Tensor) -> torch.Tensor:
    """What a copy must hold."""
    return x


def copy_of_columns(x: torch.Tensor, first: int, columns: int) -> torch.Tensor:
    """What a copy of a view must hold."""
    return x[:, first : first + columns]


def pair_input(case: Case, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """x and y of the case's ``shape``; with ``scale`` x reaches where exp overflows."""
    x, y = flat_input(case, generator)[0], flat_input(case, generator)[0]
    return x * case.parameters.get("scale", 1), y


def silu_mul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """silu(x) * y, in float64 for float32 inputs; float32 is exact enough for 16 bits, and an
    oracle of 2**31 elements has to fit beside the answer."""
    wide = torch.float64 if x.dtype == torch.float32 else torch.float32
    x, y = x.to(wide), y.to(wide)
    return x.sigmoid().mul_(x).mul_(y)


def counted(tensors: int, case: Case) -> Floor:
    """The least that a kernel moves of ``tensors`` tensors of the case's size."""
    return Floor(case, bytes_of(tensors))


def bytes_of(tensors: int) -> Callable[[tuple], int]:
    """Bytes moved when ``tensors`` tensors of the first argument's size are read or written."""
    return lambda arguments: tensors * arguments[0].numel() * arguments[0].itemsize


def case(name: str, why: str, shape: tuple[int, ...], dtype: str, **options: object) -> Case:
    """A case of the flat exercises."""
    flags = {name: options.pop(name) for name in ("needs_gpu", "window") if name in options}
    return Case(name, {"shape": shape, "dtype": dtype, **options}, why, **flags)


def matrix(name: str, why: str, M: int, N: int, dtype: str, **options: object) -> Case:
    """A case of the ragged copy."""
    needs_gpu = bool(options.pop("needs_gpu", False))
    return Case(name, {"M": M, "N": N, "dtype": dtype, **options}, why, needs_gpu)


# --- what the generated code must show -----------------------------------------------------------


def vector_rules(loads: str, stores: str) -> tuple[Rule, ...]:
    """Every global access is 128 bits wide, and there are some."""
    return (
        Rule("writes", "st.global", stores, at_least=1),
        Rule("reads", "ld.global", loads, at_least=1),
        Rule(
            "wide_loads",
            "ld.global",
            "every load from global memory should bring 128 bits (ld.global.v4.b32)",
            min_bits=128,
            every=True,
        ),
        Rule(
            "wide_stores",
            "st.global",
            "every store to global memory should take 128 bits (st.global.v4.b32)",
            min_bits=128,
            every=True,
        ),
    )


READS = "the kernel should read x from global memory, and no load is left in its code"
WRITES = "the kernel should write the output to global memory, and no store is left in its code"

GUARD = Rule(
    "guard",
    "bra",
    "some threads of the last block have nothing to copy, and nothing in the code skips their "
    "accesses: no branch, no predicate",
    at_least=1,
)


# --- scalar_copy ---------------------------------------------------------------------------------


SCALAR = Exercise(
    id="ch04.scalar_copy",
    title="The first kernel: one element a thread",
    points=8,
    minutes=8,
    rung=Rung.CUTE,
    function="scalar_copy",
    section="From a Python function to a kernel",
    cases=(
        case("tail_1", "one element past whole blocks", (1025,), "float32"),
        case("whole_blocks", "every thread has an element", (1024,), "float32"),
        case("one_element", "a single thread has work", (1,), "float32"),
        case("short_block", "less than a block", (100,), "bfloat16"),
        case("matrix", "any shape, 2145 elements", (33, 65), "float16"),
        case("special_values", "NaN, infinities and -0 are copied bit by bit", (300,), "float32"),
        case("empty", "no element, no launch", (0,), "float32"),
        case(
            "many_blocks",
            "more blocks than fit on the GPU",
            (2**24 + 3,),
            "bfloat16",
            needs_gpu=True,
        ),
    ),
    inputs=flat_input,
    oracle=copy_of,
    tolerance=Tolerance(exact=True),
    forbidden=FORBIDDEN,
    rules=(
        Rule("writes", "st.global", WRITES, at_least=1),
        Rule("reads", "ld.global", READS, at_least=1),
        GUARD,
    ),
    hints=(
        "How many threads come before thread tidx of block bidx? What must a thread do whose "
        "number is N or more?",
        "The element is bidx * THREADS + tidx. The grid rounds up, so guard the copy with an `if`; "
        "a kernel can't `return` early. Calling the kernel makes a launcher; "
        ".launch(grid=, block=, stream=) starts it.",
        "if i < mX.shape[0]: mO[i] = mX[i]; "
        "grid=(cute.ceil_div(mX.shape[0], THREADS), 1, 1); "
        "make_fake_compact_tensor(CUTE_DTYPE[dtype], (cute.sym_int(),))",
    ),
    diagnoses=diagnoses.SCALAR,
    mistakes=mistakes.SCALAR,
    compile_cases=("tail_1",),
)


# --- vector_copy ---------------------------------------------------------------------------------

VECTOR = Exercise(
    id="ch04.vector_copy",
    title="16 bytes a load, and more than one in flight",
    points=12,
    minutes=10,
    rung=Rung.CUTE,
    function="vector_copy",
    section="Which thread takes which 16 bytes",
    cases=(
        case("three_tiles", "a block a tile", (3, TILE["bfloat16"]), "bfloat16"),
        case("one_tile", "a single block", (TILE["float32"],), "float32"),
        case("half", "the third dtype", (2 * TILE["float16"],), "float16"),
        case("matrix", "any shape with whole tiles", (96, 512), "bfloat16"),
        case(
            "special_values",
            "NaN, infinities and -0 are copied bit by bit",
            (2 * TILE["float32"],),
            "float32",
        ),
        case("empty", "no element, no launch", (0,), "float32"),
        case(
            "many_tiles",
            "more blocks than fit on the GPU",
            (4096 * 1024,),
            "float32",
            needs_gpu=True,
        ),
        case(
            "huge_index",
            "past 2**32 elements: 32-bit products wrap",
            (2**32 + 3 * TILE["bfloat16"],),
            "bfloat16",
            needs_gpu=True,
        ),
        case(
            "huge_ends",
            "the same, only its first and last tiles",
            (2**32 + 3 * TILE["bfloat16"],),
            "bfloat16",
            window=3 * TILE["bfloat16"],
        ),
    ),
    inputs=flat_input,
    oracle=copy_of,
    tolerance=Tolerance(exact=True),
    forbidden=FORBIDDEN,
    rules=(
        *vector_rules(READS, WRITES),
        Rule(
            "loads_first",
            "ld.global",
            "all loads should be under way before the first store",
            before="st.global",
        ),
    ),
    speed=(
        SpeedTarget(case("large", "", (2**28,), "bfloat16", needs_gpu=True), bytes_of(2)),
        SpeedTarget(case("large_float32", "", (2**27,), "float32", needs_gpu=True), bytes_of(2)),
    ),
    floors=(counted(2, case("whole_tiles", "", (16 * TILE["bfloat16"],), "bfloat16")),),
    hints=(
        "32 threads of a warp load at once. Which 512 bytes should they touch together, and where "
        "does the same thread's second vector lie?",
        "The layout maps (thread, (element, vector)) to an index in the tile: a thread is a vector "
        "further, an element 1, the next vector of the same thread a whole row of THREADS vectors "
        "further. Compose gX with it, take your row, load everything, then store everything.",
        "cute.make_layout((THREADS, (vector, VECTORS)), stride=(vector, (1, THREADS * vector))); "
        "tXgX = cute.composition(gX, tv_layout)[(tidx, (None, None))]",
    ),
    diagnoses=diagnoses.VECTOR,
    mistakes=mistakes.VECTOR,
    compile_cases=("three_tiles", "one_tile"),
    max_registers=64,
)


# --- ragged_copy ---------------------------------------------------------------------------------

RAGGED = Exercise(
    id="ch04.ragged_copy",
    title="Any shape: predicates, and vectors as wide as they may be",
    points=14,
    minutes=10,
    rung=Rung.CUTE,
    function="ragged_copy",
    section="Predicates",
    cases=(
        matrix("ragged_both", "the last tile is short both ways", 33, 264, "bfloat16"),
        matrix("whole_tiles", "no edge inside a tile", 32, 512, "bfloat16"),
        matrix("ragged_rows", "17 rows, tiles of 8", 17, 256, "float32"),
        matrix("odd_columns", "no two elements fit N: one element a load", 18, 257, "bfloat16"),
        matrix("half_vectors", "N is a multiple of 8 bytes", 16, 260, "float16"),
        matrix("quarter_vectors", "N is a multiple of 4 bytes", 5, 258, "bfloat16"),
        matrix("one_row", "", 1, 4099, "float32"),
        matrix("one_column", "", 70, 1, "bfloat16"),
        matrix("one_element", "", 1, 1, "float32"),
        matrix("empty", "no row, no launch", 0, 5, "float32"),
        matrix("pitched", "rows 600 bytes apart: 8-byte vectors", 20, 256, "bfloat16", pitch=300),
        matrix(
            "off_boundary",
            "the view starts one element past a boundary",
            20,
            256,
            "bfloat16",
            pitch=264,
            first=1,
        ),
        matrix(
            "tall",
            "more than 65535 tiles of rows",
            65536 * 8 + 9,
            2,
            "bfloat16",
            needs_gpu=True,
        ),
        matrix(
            "huge_index",
            "past 2**31 elements: 32-bit offsets wrap",
            70_001,
            32_760,
            "bfloat16",
            needs_gpu=True,
        ),
    ),
    inputs=ragged_input,
    oracle=copy_of_columns,
    call=call_on_view,
    tolerance=Tolerance(exact=True),
    forbidden=FORBIDDEN,
    rules=(*vector_rules(READS, WRITES), GUARD),
    speed=(
        SpeedTarget(
            matrix("large", "", 2**16, 4104, "bfloat16", needs_gpu=True),
            lambda arguments: 2 * arguments[0].numel() * arguments[0].itemsize,
        ),
    ),
    floors=(counted(2, matrix("whole_tiles", "", 32, 512, "bfloat16")),),
    hints=(
        "A tile hangs over the edge. How can a thread tell from its coordinates that a vector does "
        "not exist? And what must a vector's width divide, so that it exists as a whole or not at "
        "all?",
        "tXcX holds each element's coordinate in the matrix. Compare the coordinate of each "
        "vector's first element with mX.shape, once a vector, and give the result to both copies. "
        "The width divides N, the row stride and the address.",
        "tXpX[0, row, column] = cute.elem_less(tXcX[0, row, column], mX.shape); "
        "cute.copy(tiled_copy, tXgX, tXrX, pred=tXpX); math.gcd(16, x.data_ptr(), ...)",
    ),
    diagnoses=diagnoses.RAGGED,
    mistakes=mistakes.RAGGED,
    compile_cases=("ragged_both", "odd_columns", "half_vectors"),
    max_registers=128,
)


# --- fused_elementwise ---------------------------------------------------------------------------

FUSED = Exercise(
    id="ch04.fused_elementwise",
    title="Arithmetic on the way: silu(x) * y in one pass",
    points=10,
    minutes=7,
    rung=Rung.CUTE,
    function="silu_mul",
    section="Arithmetic on the way",
    cases=(
        case("tail_1_vector", "one vector past whole blocks", (513 * 8,), "bfloat16"),
        case("whole_blocks", "every thread has vectors", (4, 2048), "float32"),
        case("one_vector", "a single thread has work", (8,), "float16"),
        case("ragged", "a short last block", (77, 24), "bfloat16"),
        case("float32", "full precision", (1000, 4), "float32"),
        case(
            "large_values", "x to +-1000: exp overflows float32", (64, 128), "float32", scale=300.0
        ),
        case("large_half", "x to +-30 in float16", (64, 128), "float16", scale=8.0),
        case("empty", "no element, no launch", (0,), "float32"),
        case(
            "many_blocks",
            "more blocks than fit on the GPU",
            (4096, 2056),
            "bfloat16",
            needs_gpu=True,
        ),
        case(
            "huge_index",
            "past 2**31 elements: 32-bit indices wrap",
            (2**31 + 4104,),
            "bfloat16",
            needs_gpu=True,
        ),
    ),
    inputs=pair_input,
    oracle=silu_mul,
    forbidden=FORBIDDEN,
    rules=(
        *vector_rules(
            "the kernel should read x and y from global memory, and no load is left in its code",
            WRITES,
        ),
        GUARD,
        Rule(
            "float32",
            "cvt",
            "each value is converted once after its load, and each result once before its store; "
            "there are more conversions in the code than that",
            at_most=3 * 16 + 8,  # 16 values of each tensor a thread; a few are for addresses
        ),
    ),
    speed=(
        SpeedTarget(case("large", "", (2**28,), "bfloat16", needs_gpu=True), bytes_of(3)),
        SpeedTarget(case("large_float32", "", (2**27,), "float32", needs_gpu=True), bytes_of(3)),
    ),
    floors=(counted(3, case("whole_blocks", "", (16, 2048), "bfloat16")),),
    hints=(
        "Which values are still in 16 bits when you multiply them? And what does exp(-x) do when x "
        "is -1000?",
        "Copy X and Y to registers under the predicate, .load() both and convert them to "
        "cutlass.Float32. sigmoid(x) = 1 / (1 + exp(-x)) stays finite at both ends. Convert the "
        "result to the output's type, .store() it, and copy it out under the predicate.",
        "sigmoid = cute.math.rcp(1.0 + cute.math.exp(-x, fastmath=True), approx=True, ftz=True); "
        "tXrO.store((x * sigmoid * y).to(mO.element_type))",
    ),
    diagnoses=diagnoses.FUSED,
    mistakes=mistakes.FUSED,
    compile_cases=("tail_1_vector",),
    max_registers=128,
)

EXERCISES: tuple[Exercise, ...] = (SCALAR, VECTOR, RAGGED, FUSED)


# --- speed table ---------------------------------------------------------------------------------


def bench_input(case: Case, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
    """x for op "copy", x and y for "silu_mul"."""
    flat = Case(case.name, {"shape": (case["N"],), "dtype": case["dtype"]})
    operands = 1 if case["op"] == "copy" else 2
    return tuple(flat_input(flat, generator)[0] for _ in range(operands))


def bench_work(case: Case) -> int:
    """Bytes read and written."""
    return (2 if case["op"] == "copy" else 3) * case["N"] * case.dtype.itemsize


def by_operands(copy: Callable, fused: Callable) -> Callable:
    """One function for both operations: the number of operands tells which is meant."""
    return lambda *operands: copy(*operands) if len(operands) == 1 else fused(*operands)


def load_solution() -> Callable:
    """vector_copy and silu_mul."""
    from solutions import ch04_vectorized_copies as solution

    return by_operands(solution.vector_copy, solution.silu_mul)


def load_scalar() -> Callable:
    """One element a thread."""
    from solutions import ch04_vectorized_copies as solution

    return by_operands(solution.scalar_copy, solution.scalar_silu_mul)


def load_triton() -> Callable:
    """The same two kernels in Triton."""
    from solutions import ch04_vectorized_copies as solution

    return by_operands(solution.triton_copy, solution.triton_silu_mul)


def eager_silu_mul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Two kernels, and an intermediate tensor between them."""
    return torch.nn.functional.silu(x) * y


def load_eager() -> Callable:
    """PyTorch as it is written."""
    return by_operands(torch.clone, eager_silu_mul)


def load_compiled() -> Callable:
    """torch.compile of the same."""
    return by_operands(torch.compile(torch.clone), torch.compile(eager_silu_mul))


def bench_case(op: str, N: int, dtype: str = "bfloat16") -> Case:
    """A row of the table."""
    return Case(f"{op}_{dtype}_{N}", {"op": op, "N": N, "dtype": dtype}, needs_gpu=True)


BENCH = Bench(
    title="Copy and silu(x) * y",
    cases=(
        *(bench_case("copy", 2**k) for k in (20, 22, 24, 26, 28)),
        bench_case("copy", 2**28, "float32"),
        *(bench_case("silu_mul", 2**k) for k in (20, 22, 24, 26, 28)),
        bench_case("silu_mul", 2**27, "float32"),
    ),
    inputs=bench_input,
    work=bench_work,
    implementations=(
        Implementation("solution", load_solution),
        Implementation("scalar_copy", load_scalar),
        Implementation("triton", load_triton),
        Implementation("torch.compile", load_compiled),
        Implementation("eager", load_eager),
    ),
)
