"""What wrong copies have in common: the probable mistakes of chapter 4, most telling first."""

from __future__ import annotations

from dataclasses import replace

from checkers.exercise import Diagnosis
from checkers.grading import syntax

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

VECTORS_OVERLAP = Diagnosis(
    "Parts of every tile were never written: the layout sends several vectors to the same "
    "place. Vector v of a thread lies v * THREADS vectors further.",
    "Which thread takes which 16 bytes",
)

SCALAR: tuple[Diagnosis, ...] = (
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
)

VECTOR: tuple[Diagnosis, ...] = (
    TOOK_PYTORCH,
    NO_KERNEL,
    INPUT_RETURNED,
    THREADS,
    NO_WRITES,
    NO_READS,
    Diagnosis(
        "A store waits for its load, and the next load stands behind that store. Registers hold "
        "what is in flight: copy all vectors into tXrX first, and then all of them out.",
        "Which thread takes which 16 bytes",
        error="rule:loads_first",
    ),
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
        cases=frozenset({"huge_index", "huge_ends"}),
        passing=frozenset({"three_tiles", "one_tile"}),
    ),
    Diagnosis(
        "Whole tiles were never written: the grid has a block too few.",
        "Which thread takes which 16 bytes",
        patterns=frozenset({"unwritten", "last_rows"}),
    ),
    replace(VECTORS_OVERLAP, error="check:race"),
    replace(VECTORS_OVERLAP, patterns=frozenset({"unwritten"})),
)

RAGGED: tuple[Diagnosis, ...] = (
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
        "Compare the coordinate of each vector's first element with mX.shape.",
        "Predicates",
        stage="run",
        patterns=frozenset({"unwritten"}),
    ),
)

FUSED: tuple[Diagnosis, ...] = (
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
)
