"""Wrong copies that learners write, kept to prove that each is rejected and explained."""

from __future__ import annotations

from checkers.exercise import Mistake

SCALAR: tuple[Mistake, ...] = (
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
    ),
    Mistake(
        "thread_only",
        "run",
        "every block copied the same elements",
        replace=(("i = bidx * THREADS + tidx", "i = tidx"),),
    ),
    Mistake(
        "static_size",
        "run",
        "compiled for one fixed size",
        replace=(("(cute.sym_int(),)", "(1024,)"),),
    ),
)

VECTOR: tuple[Mistake, ...] = (
    Mistake(
        "no_registers_between",
        "codegen",
        "Registers hold what is in flight",
        replace=(
            ("    tXrX = cute.make_rmem_tensor_like(tXgX)\n", ""),
            ("cute.copy(load_store, tXgX, tXrX)", "cute.copy(load_store, tXgX, tXgO)"),
            ("    cute.copy(load_store, tXrX, tXgO)\n", ""),
        ),
    ),
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
    ),
    Mistake(
        "vectors_overlap",
        "run",
        "several vectors to the same place",
        replace=(("(1, THREADS * vector)", "(1, vector)"),),
    ),
    Mistake(
        "block_too_few",
        "run",
        "the grid has a block too few",
        replace=(("grid=(mX.shape[0], 1, 1)", "grid=(mX.shape[0] - 1, 1, 1)"),),
    ),
)

RAGGED: tuple[Mistake, ...] = (
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
                "cute.make_rmem_tensor(tXgX.shape, cutlass.Boolean)",
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
    ),
    Mistake(
        "width_from_the_dtype",
        "run",
        "A vector was promised wider than the view allows",
        answer="def widest_vector(x):\n    return 16 // x.itemsize\n",
    ),
    Mistake(
        "width_from_the_columns",
        "run",
        "must divide the row stride and the address too",
        answer=(
            "def widest_vector(x):\n"
            "    return math.gcd(16, x.shape[1] * x.itemsize) // x.itemsize\n"
        ),
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
    ),
)

FUSED: tuple[Mistake, ...] = (
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
    ),
    Mistake(
        "gate_swapped",
        "run",
        "check the formula",
        replace=(("x, y = (part.load()", "y, x = (part.load()"),),
    ),
    Mistake(
        "sign_lost",
        "run",
        "check the formula",
        replace=(("cute.math.exp(-x,", "cute.math.exp(x,"),),
    ),
    Mistake(
        "y_forgotten",
        "run",
        "check the formula",
        replace=(("x * sigmoid * y", "x * sigmoid"),),
    ),
)
