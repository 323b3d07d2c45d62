"""ch04: copies in CuTe DSL, from one element a thread to 16-byte vectors, predicates and fusion."""

from __future__ import annotations

from collections.abc import Callable

import torch

from checkers.exercise import (
    Bench,
    Case,
    Diagnosis,
    Exercise,
    Implementation,
    Mistake,
    Rule,
    Rung,
    SpeedTarget,
    Tolerance,
)
from checkers.grading import syntax

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
    address that wrapped around never holds the right value by chance."""
    shape = case["shape"]
    numel = torch.Size(shape).numel()
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


def bytes_of(tensors: int) -> Callable[[tuple], int]:
    """Bytes moved when ``tensors`` tensors of the first argument's size are read or written."""
    return lambda arguments: tensors * arguments[0].numel() * arguments[0].itemsize


def case(name: str, why: str, shape: tuple[int, ...], dtype: str, **options: object) -> Case:
    """A case of the flat exercises."""
    needs_gpu = bool(options.pop("needs_gpu", False))
    return Case(name, {"shape": shape, "dtype": dtype, **options}, why, needs_gpu)


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

TOOK_PYTORCH = Diagnosis(
    "PyTorch does the copy here, so there is no kernel to learn from: allocate with "
    "torch.empty_like, launch your own kernel, return the output.",
    "From a Python function to a kernel",
    stage="source",
    error="check:forbidden",
)
NO_KERNEL = Diagnosis(
    "No kernel was compiled. A copy is a new tensor: allocate it, call what cute.compile returned, "
    "and return the new tensor, not x.",
    "From a Python function to a kernel",
    error="check:no_kernel",
)
INPUT_RETURNED = Diagnosis(
    "What the first call returned changed when x changed: the function returns x, or a buffer that "
    "it keeps. Allocate the output anew in every call.",
    "From a Python function to a kernel",
    error="check:stale",
)
NO_READS = Diagnosis(
    "Nothing is read from x: the values stored come from somewhere else, or what was loaded is "
    "never used and the compiler threw it away.",
    "From a Python function to a kernel",
    error="rule:reads",
)
NO_WRITES = Diagnosis(
    "Nothing is written to the output: the store is missing, or it writes x onto itself, which "
    "the compiler throws away, and all the loads with it.",
    "From a Python function to a kernel",
    error="rule:writes",
)
THREADS = Diagnosis(
    "A block has at most 1024 threads. The DSL compiles any number; the launch then fails.",
    "The launch",
    stage="compile",
    error="threads",
)
INPUT_WRITTEN = Diagnosis(
    "The store goes to X. Store to the partition of the output, tXgO.",
    "Which thread takes which 16 bytes",
    error="check:input_modified",
)
OUT_OF_BOUNDS = Diagnosis(
    "Threads past the edge wrote. Loads and stores both need the predicate, over rows and columns, "
    "from coordinates in the whole matrix: the identity tensor is cut as X is cut.",
    "Predicates",
    error="check:out_of_bounds",
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
        case("many_blocks", "more blocks than fit on the GPU", (2**24 + 3,), "bfloat16"),
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
    diagnoses=(
        TOOK_PYTORCH,
        NO_KERNEL,
        INPUT_RETURNED,
        Diagnosis(
            "A kernel can't return early: both sides of a dynamic `if` are compiled. Turn the test "
            "round and put the copy inside the `if`.",
            "The guard",
            error="EARLY_EXIT",
        ),
        Diagnosis(
            "Calling a kernel only makes a launcher. Start it: .launch(grid=..., block=..., "
            "stream=...).",
            "The launch",
            error="LAUNCH_NEVER_ISSUED",
        ),
        THREADS,
        Diagnosis(
            "Nothing keeps the last block's surplus threads from reading and writing past the end. "
            "Guard the copy with `if i < mX.shape[0]`.",
            "The guard",
            error="rule:guard",
        ),
        NO_WRITES,
        NO_READS,
        Diagnosis(
            "The kernel was compiled for one fixed size and believes it whatever it is given: make "
            "the size dynamic with cute.sym_int().",
            "Compile once, and what a compiled function doesn't check",
            stage="run",
            source=syntax.no_call("cute.sym_int"),
        ),
        Diagnosis(
            "The last elements were never written: the grid has a block too few. Round up with "
            "cute.ceil_div.",
            "The launch",
            cases=frozenset({"tail_1", "short_block", "one_element"}),
            passing=frozenset({"whole_blocks"}),
            patterns=frozenset({"unwritten"}),
        ),
        Diagnosis(
            "Whole blocks are missing: every block copied the same elements. The element's number "
            "needs the block's too: bidx * THREADS + tidx.",
            "The guard",
            passing=frozenset({"one_element", "short_block"}),
            patterns=frozenset({"unwritten"}),
        ),
    ),
    mistakes=(
        Mistake(
            "no_guard",
            "codegen",
            "Nothing keeps the last block's surplus threads",
            replace=(("    if i < mX.shape[0]:", "    if cutlass.const_expr(True):"),),
        ),
        Mistake(
            "early_return",
            "compile",
            "A kernel can't return early",
            replace=(
                (
                    "    if i < mX.shape[0]:  # ",
                    "    if i >= mX.shape[0]:\n        return\n    if True:  # ",
                ),
            ),
        ),
        Mistake(
            "block_of_2048",
            "compile",
            "at most 1024 threads",
            replace=(("block=(THREADS, 1, 1)", "block=(2048, 1, 1)"),),
        ),
        Mistake(
            "no_launch",
            "compile",
            "Calling a kernel only makes a launcher",
            replace=(
                (
                    "scalar_copy_kernel(mX, mO).launch("
                    "grid=(blocks, 1, 1), block=(THREADS, 1, 1), stream=stream)",
                    "scalar_copy_kernel(mX, mO)",
                ),
            ),
        ),
        Mistake(
            "returns_x",
            "compile",
            "No kernel was compiled",
            answer="def scalar_copy(x):\n    return x\n",
        ),
        Mistake(
            "clone",
            "source",
            "PyTorch does the copy here",
            answer="def scalar_copy(x):\n    return x.clone()\n",
        ),
        Mistake(
            "zeros",
            "codegen",
            "Nothing is read from x",
            replace=(("mO[i] = mX[i]", "mO[i] = mO.element_type(0)"),),
        ),
        Mistake(
            "onto_itself",
            "codegen",
            "Nothing is written to the output",
            replace=(("mO[i] = mX[i]", "mX[i] = mX[i]"),),
        ),
        Mistake(
            "block_too_few",
            "run",
            "the grid has a block too few",
            replace=(("cute.ceil_div(mX.shape[0], THREADS)", "mX.shape[0] // THREADS"),),
            needs_gpu=True,
        ),
        Mistake(
            "thread_only",
            "run",
            "every block copied the same elements",
            replace=(("i = bidx * THREADS + tidx", "i = tidx"),),
            needs_gpu=True,
        ),
        Mistake(
            "static_size",
            "run",
            "compiled for one fixed size",
            replace=(("(cute.sym_int(),)", "(1024,)"),),
            needs_gpu=True,
        ),
    ),
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
        case("many_tiles", "more blocks than fit on the GPU", (4096 * 1024,), "float32"),
        case(
            "huge_index",
            "past 2**32 elements: 32-bit products wrap",
            (2**32 + 3 * TILE["bfloat16"],),
            "bfloat16",
            needs_gpu=True,
        ),
    ),
    inputs=flat_input,
    oracle=copy_of,
    tolerance=Tolerance(exact=True),
    forbidden=FORBIDDEN,
    rules=vector_rules(READS, WRITES),
    speed=(
        SpeedTarget(case("large", "", (2**28,), "bfloat16", needs_gpu=True), bytes_of(2)),
        SpeedTarget(case("large_float32", "", (2**27,), "float32", needs_gpu=True), bytes_of(2)),
    ),
    hints=(
        "32 threads of a warp load at once. Which 512 bytes should they touch together, and where "
        "does the same thread's second vector lie?",
        "The layout maps (thread, (element, vector)) to an index in the tile: a thread is a vector "
        "further, an element 1, the next vector of the same thread a whole row of THREADS vectors "
        "further. Compose gX with it, take your row, load everything, then store everything.",
        "cute.make_layout((THREADS, (vector, VECTORS)), stride=(vector, (1, THREADS * vector))); "
        "tXgX = cute.composition(gX, tv_layout)[(tidx, (None, None))]",
    ),
    diagnoses=(
        TOOK_PYTORCH,
        NO_KERNEL,
        INPUT_RETURNED,
        THREADS,
        NO_WRITES,
        NO_READS,
        Diagnosis(
            "The copy atom asks for 128 bits, and nothing promises that a vector starts on such a "
            "boundary: say assumed_align=16, and give neighbouring threads whole vectors: a thread "
            "is `vector` elements further.",
            "Alignment is a promise",
            stage="compile",
            error="alignment (",
        ),
        Diagnosis(
            "The copy atom asks for 128 bits, and the layout has no 128 bits in one piece: the "
            "elements of a vector need stride 1 in the thread-value layout.",
            "Which thread takes which 16 bytes",
            stage="compile",
            error="cannot vectorize",
        ),
        Diagnosis(
            "The loads are narrower than 16 bytes: num_bits_per_copy says how wide one is, and the "
            "tensor must be row-major (stride_order=(1, 0)), or a vector lies in pieces.",
            "How wide is a load",
            error="rule:wide_loads",
        ),
        Diagnosis(
            "The stores are narrower than 16 bytes: num_bits_per_copy says how wide one is.",
            "How wide is a load",
            error="rule:wide_stores",
        ),
        INPUT_WRITTEN,
        Diagnosis(
            "Right on small tensors, wrong past 2**32 elements: tile * TILE is computed in 32 "
            "bits. Widen the tile's number first: cutlass.Int64(bidx).",
            "Large tensors",
            cases=frozenset({"huge_index"}),
            passing=frozenset({"three_tiles", "one_tile"}),
        ),
        Diagnosis(
            "Whole tiles were never written: the grid has a block too few.",
            "Which thread takes which 16 bytes",
            patterns=frozenset({"unwritten", "last_rows"}),
        ),
        Diagnosis(
            "Parts of every tile were never written: the layout sends several vectors to the same "
            "place. Vector v of a thread lies v * THREADS vectors further.",
            "Which thread takes which 16 bytes",
            patterns=frozenset({"unwritten"}),
        ),
    ),
    mistakes=(
        Mistake(
            "one_element_a_load",
            "codegen",
            "The loads are narrower than 16 bytes",
            replace=(("num_bits_per_copy=VECTOR_BITS", "num_bits_per_copy=mX.element_type.width"),),
        ),
        Mistake(
            "half_vectors",
            "codegen",
            "The loads are narrower than 16 bytes",
            replace=(("num_bits_per_copy=VECTOR_BITS", "num_bits_per_copy=64"),),
        ),
        Mistake(
            "elements_strided",
            "compile",
            "no 128 bits in one piece",
            replace=(
                (
                    "stride=(vector, (1, THREADS * vector))",
                    "stride=(1, (THREADS, THREADS * vector))",
                ),
            ),
        ),
        Mistake(
            "threads_overlap",
            "compile",
            "nothing promises that a vector starts on such a boundary",
            replace=(("stride=(vector, (1,", "stride=(1, (1,"),),
        ),
        Mistake(
            "no_alignment",
            "compile",
            "nothing promises that a vector starts on such a boundary",
            replace=(("        assumed_align=16,\n    )", "    )"),),
        ),
        Mistake(
            "column_major",
            "codegen",
            "the tensor must be row-major",
            replace=(("stride_order=(1, 0)", "stride_order=(0, 1)"),),
        ),
        Mistake(
            "no_store",
            "codegen",
            "Nothing is written to the output",
            replace=(("    cute.copy(load_store, tXrX, tXgO)\n", ""),),
        ),
        Mistake(
            "block_of_2048",
            "compile",
            "at most 1024 threads",
            replace=(("block=(THREADS, 1, 1)", "block=(2048, 1, 1)"),),
        ),
        Mistake(
            "returns_x",
            "compile",
            "No kernel was compiled",
            answer="def vector_copy(x):\n    return x\n",
        ),
        Mistake(
            "int32_index",
            "run",
            "tile * TILE is computed in 32 bits",
            replace=(("cutlass.Int64(bidx)", "bidx"),),
            needs_gpu=True,
        ),
        Mistake(
            "vectors_overlap",
            "run",
            "several vectors to the same place",
            replace=(("(1, THREADS * vector)", "(1, vector)"),),
            needs_gpu=True,
        ),
        Mistake(
            "block_too_few",
            "run",
            "the grid has a block too few",
            replace=(("grid=(mX.shape[0], 1, 1)", "grid=(mX.shape[0] - 1, 1, 1)"),),
            needs_gpu=True,
        ),
    ),
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
        matrix("tall", "more than 65535 tiles of rows", 65536 * 8 + 9, 2, "bfloat16"),
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
    diagnoses=(
        TOOK_PYTORCH,
        NO_KERNEL,
        INPUT_RETURNED,
        THREADS,
        NO_WRITES,
        NO_READS,
        Diagnosis(
            "Nothing in the code skips the vectors past the edge: give both copies pred=tXpX.",
            "Predicates",
            error="rule:guard",
        ),
        Diagnosis(
            "The loads are narrower than the rows allow: N, the row stride and the address are "
            "all multiples of 16 bytes here.",
            "As wide as it may be",
            error="rule:wide_loads",
        ),
        Diagnosis(
            "The stores are narrower than the rows allow: N, the row stride and the address are "
            "all multiples of 16 bytes here.",
            "As wide as it may be",
            error="rule:wide_stores",
        ),
        Diagnosis(
            "The predicate tensor needs the shape of what it guards with one entry a vector: "
            "(1, rows, vectors a row), as tXgX has them after its first mode.",
            "Predicates",
            stage="compile",
            error="expects pred",
        ),
        Diagnosis(
            "Wrong as soon as rows lie further apart than N, or start off a boundary: the width "
            "must divide the row stride and the address too.",
            "As wide as it may be",
            cases=frozenset({"pitched", "off_boundary"}),
            passing=frozenset({"whole_tiles", "odd_columns"}),
        ),
        Diagnosis(
            "A vector was promised wider than the view allows: its width must divide N, the row "
            "stride and the address, all three.",
            "As wide as it may be",
            stage="run",
            error="align",
        ),
        OUT_OF_BOUNDS,
        Diagnosis(
            "Some vectors were never written: the predicate is false where it should be true. "
            "Compare the coordinate of each vector's first element, tXcX[0, row, column], with mX.shape.",
            "Predicates",
            stage="run",
            patterns=frozenset({"unwritten"}),
        ),
    ),
    mistakes=(
        Mistake(
            "no_predicate",
            "codegen",
            "Nothing in the code skips the vectors past the edge",
            replace=(
                (
                    "cute.copy(tiled_copy, tXgX, tXrX, pred=tXpX)",
                    "cute.copy(tiled_copy, tXgX, tXrX)",
                ),
                (
                    "cute.copy(tiled_copy, tXrX, tXgO, pred=tXpX)",
                    "cute.copy(tiled_copy, tXrX, tXgO)",
                ),
            ),
        ),
        Mistake(
            "one_element_a_load",
            "codegen",
            "The loads are narrower than the rows allow",
            answer="def widest_vector(x):\n    return 1\n",
        ),
        Mistake(
            "predicate_of_wrong_shape",
            "compile",
            "The predicate tensor needs the shape of what it guards",
            replace=(
                (
                    "cute.make_rmem_tensor((1, tXgX.shape[1], tXgX.shape[2]), cutlass.Boolean)",
                    "cute.make_rmem_tensor((1, 1, tXgX.shape[2]), cutlass.Boolean)",
                ),
            ),
        ),
        Mistake(
            "no_store",
            "codegen",
            "Nothing is written to the output",
            replace=(("    cute.copy(tiled_copy, tXrX, tXgO, pred=tXpX)\n", ""),),
        ),
        Mistake(
            "contiguous",
            "source",
            "PyTorch does the copy here",
            answer="def ragged_copy(x):\n    return x.contiguous()\n",
        ),
        Mistake(
            "returns_x",
            "compile",
            "No kernel was compiled",
            answer="def ragged_copy(x):\n    return x\n",
        ),
        Mistake(
            "rows_only",
            "run",
            "Threads past the edge wrote",
            replace=(
                (
                    "cute.elem_less(tXcX[0, row, column], mX.shape)",
                    "tXcX[0, row, column][0] < mX.shape[0]",
                ),
            ),
            needs_gpu=True,
        ),
        Mistake(
            "store_unguarded",
            "run",
            "Threads past the edge wrote",
            replace=(
                (
                    "cute.copy(tiled_copy, tXrX, tXgO, pred=tXpX)",
                    "cute.copy(tiled_copy, tXrX, tXgO)",
                ),
            ),
            needs_gpu=True,
        ),
        Mistake(
            "width_from_the_dtype",
            "run",
            "A vector was promised wider than the view allows",
            answer="def widest_vector(x):\n    return 16 // x.itemsize\n",
            needs_gpu=True,
        ),
        Mistake(
            "width_from_the_columns",
            "run",
            "must divide the row stride and the address too",
            answer=(
                "def widest_vector(x):\n"
                "    return math.gcd(16, x.shape[1] * x.itemsize) // x.itemsize\n"
            ),
            needs_gpu=True,
        ),
        Mistake(
            "coordinates_in_the_tile",
            "run",
            "from coordinates in the whole matrix",
            replace=(
                (
                    "cute.local_tile(cute.make_identity_tensor(mX.shape), tiler, tile)",
                    "cute.make_identity_tensor(tiler)",
                ),
            ),
            needs_gpu=True,
        ),
    ),
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
        case("many_blocks", "more blocks than fit on the GPU", (4096, 2056), "bfloat16"),
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
    hints=(
        "Which values are still in 16 bits when you multiply them? And what does exp(-x) do when x "
        "is -1000?",
        "Copy X and Y to registers under the predicate, .load() both and convert them to "
        "cutlass.Float32. sigmoid(x) = 1 / (1 + exp(-x)) stays finite at both ends. Convert the "
        "result to the output's type, .store() it, and copy it out under the predicate.",
        "sigmoid = cute.math.rcp(1.0 + cute.math.exp(-x, fastmath=True), approx=True, ftz=True); "
        "tXrO.store((x * sigmoid * y).to(mO.element_type))",
    ),
    diagnoses=(
        TOOK_PYTORCH,
        NO_KERNEL,
        INPUT_RETURNED,
        THREADS,
        NO_WRITES,
        NO_READS,
        Diagnosis(
            "Nothing in the code skips the vectors past the end: give the copies pred=tXpX.",
            "Predicates",
            error="rule:guard",
        ),
        Diagnosis(
            "The loads are narrower than 16 bytes: num_bits_per_copy says how wide one is.",
            "How wide is a load",
            error="rule:wide_loads",
        ),
        Diagnosis(
            "The copy atom is narrower than the vector that a predicate stands for: "
            "num_bits_per_copy=VECTOR_BITS.",
            "Predicates",
            stage="compile",
            error="expects pred",
        ),
        Diagnosis(
            "The arithmetic is not done in float32: convert right after loading, "
            ".load().to(cutlass.Float32).",
            "Arithmetic on the way",
            error="rule:float32",
        ),
        Diagnosis(
            "The types don't fit: values come from registers by .load(), are converted with "
            ".to(...), and .store() wants the element type of the register tensor.",
            "Arithmetic on the way",
            stage="compile",
            error="Type mismatch",
        ),
        OUT_OF_BOUNDS,
        Diagnosis(
            "Right for small x, NaN for large: exp(x) / (1 + exp(x)) is inf / inf from x = 89 on. "
            "1 / (1 + exp(-x)) is not.",
            "Arithmetic on the way",
            cases=frozenset({"large_values"}),
            passing=frozenset({"whole_blocks", "float32"}),
        ),
        Diagnosis(
            "Right in 16 bits, off in float32: something was rounded to 16 bits on the way, or "
            "approximated too coarsely.",
            "Arithmetic on the way",
            cases=frozenset({"float32"}),
            passing=frozenset({"one_vector", "ragged"}),
        ),
        Diagnosis(
            "The values are off: check the formula, silu(x) * y = x / (1 + exp(-x)) * y, its sign, "
            "its factor x, and which of the two is the gate.",
            "Arithmetic on the way",
            stage="run",
            error="check:values",
        ),
    ),
    mistakes=(
        Mistake(
            "no_predicate",
            "codegen",
            "Nothing in the code skips the vectors past the end",
            replace=(
                ("(tiled_copy, tXgX, tXrX, pred=tXpX)", "(tiled_copy, tXgX, tXrX)"),
                ("(tiled_copy, tXgY, tXrY, pred=tXpX)", "(tiled_copy, tXgY, tXrY)"),
                ("(tiled_copy, tXrO, tXgO, pred=tXpX)", "(tiled_copy, tXrO, tXgO)"),
            ),
        ),
        Mistake(
            "half_vectors",
            "compile",
            "narrower than the vector that a predicate stands for",
            replace=(("num_bits_per_copy=VECTOR_BITS", "num_bits_per_copy=64"),),
        ),
        Mistake(
            "in_16_bits",
            "codegen",
            "The arithmetic is not done in float32",
            replace=(("part.load().to(cutlass.Float32)", "part.load()"),),
        ),
        Mistake(
            "not_converted_back",
            "compile",
            "The types don't fit",
            replace=(("(x * sigmoid * y).to(mO.element_type)", "x * sigmoid * y"),),
        ),
        Mistake(
            "no_store",
            "codegen",
            "Nothing is written to the output",
            replace=(("    cute.copy(tiled_copy, tXrO, tXgO, pred=tXpX)\n", ""),),
        ),
        Mistake(
            "in_pytorch",
            "source",
            "PyTorch does the copy here",
            answer="def silu_mul(x, y):\n    return torch.nn.functional.silu(x) * y\n",
        ),
        Mistake(
            "returns_x",
            "compile",
            "No kernel was compiled",
            answer="def silu_mul(x, y):\n    return x\n",
        ),
        Mistake(
            "overflowing_sigmoid",
            "run",
            "inf / inf from x = 89 on",
            replace=(
                (
                    "cute.math.rcp(1.0 + cute.math.exp(-x, fastmath=True), approx=True, ftz=True)",
                    "cute.math.exp(x) / (1.0 + cute.math.exp(x))",
                ),
            ),
            needs_gpu=True,
        ),
        Mistake(
            "gate_swapped",
            "run",
            "check the formula",
            replace=(("x, y = (part.load()", "y, x = (part.load()"),),
            needs_gpu=True,
        ),
        Mistake(
            "sign_lost",
            "run",
            "check the formula",
            replace=(("cute.math.exp(-x,", "cute.math.exp(x,"),),
            needs_gpu=True,
        ),
        Mistake(
            "y_forgotten",
            "run",
            "check the formula",
            replace=(("x * sigmoid * y", "x * sigmoid"),),
            needs_gpu=True,
        ),
    ),
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
    """scalar_copy; it has no fused sister."""
    from solutions import ch04_vectorized_copies as solution

    def only_copies(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError("one element a thread: only the copy is written that way")

    return by_operands(solution.scalar_copy, only_copies)


def load_ragged() -> Callable:
    """ragged_copy, on a matrix of rows of 4096."""
    from solutions import ch04_vectorized_copies as solution

    def only_copies(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError("ragged_copy only copies")

    return by_operands(lambda x: solution.ragged_copy(x.view(-1, 4096)).view(-1), only_copies)


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
        Implementation("ragged_copy", load_ragged),
        Implementation("triton", load_triton),
        Implementation("torch.compile", load_compiled),
        Implementation("eager", load_eager),
    ),
)
