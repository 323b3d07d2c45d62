"""Copies that reach the memory's speed, and the first fused kernel, in CuTe DSL.

Four kernels, each one step from the one before: one element a thread; 16 bytes a load through a
thread-value layout; ragged matrices through predicates; arithmetic between load and store. Read
them in that order. Tensors are named as in CUTLASS: mX is all of X in global memory, gX the part
of one thread block, tXgX the part of one thread (cut by X's partition, in global memory), tXrX
the same values in registers, tXcX their coordinates, tXpX their predicates.
"""

# %% setup
import functools
import math

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import (
    from_dlpack,
    make_fake_compact_tensor,
    make_fake_stream,
    make_fake_tensor,
)

CUTE_DTYPE = {
    torch.float32: cutlass.Float32,
    torch.float16: cutlass.Float16,
    torch.bfloat16: cutlass.BFloat16,
}
THREADS = 128  # per block: 16 blocks fill an SM's 2048 thread slots
VECTORS = 2  # 16-byte loads that a thread issues before its first store: 64 KiB an SM in flight
VECTOR_BITS = 128  # the widest load of Hopper: 4 float32 or 8 bfloat16


def check_argument(name: str, x: torch.Tensor) -> None:
    """What every function below asks of a tensor; a compiled kernel would check none of it."""
    if not x.is_cuda or x.get_device() != torch.cuda.current_device():
        raise ValueError(f"{name} must be on the current CUDA device, got {x.device}")
    if x.dtype not in CUTE_DTYPE:
        raise ValueError(f"{name} must be float32, float16 or bfloat16, got {x.dtype}")


def current_stream() -> cuda.CUstream:
    """The caller's stream: work on another one would race with the caller's own."""
    return cuda.CUstream(torch.cuda.current_stream().cuda_stream)


# %% exercise ch04.scalar_copy
@cute.kernel
def scalar_copy_kernel(mX: cute.Tensor, mO: cute.Tensor):
    """One element a thread. mX, mO: (N,)."""
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    ### BEGIN SOLUTION this thread's element, copied only if it exists (3 lines)
    i = bidx * THREADS + tidx
    if i < mX.shape[0]:  # the last block has more threads than elements are left
        mO[i] = mX[i]
    ### END SOLUTION


@cute.jit
def scalar_copy_launch(mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
    """Host code: enough blocks of THREADS threads for N elements, the last one rounded up."""
    ### BEGIN SOLUTION number of blocks, then call the kernel and .launch it (2 lines)
    blocks = cute.ceil_div(mX.shape[0], THREADS)
    scalar_copy_kernel(mX, mO).launch(grid=(blocks, 1, 1), block=(THREADS, 1, 1), stream=stream)
    ### END SOLUTION


@functools.cache  # one compilation a dtype: calling scalar_copy_launch itself would trace each time
def compile_scalar_copy(dtype: torch.dtype):
    """The compiled launch for a dtype and any N: fake tensors stand for the real ones."""
    ### BEGIN SOLUTION a fake tensor of dynamic size, and cute.compile (2 lines)
    mX = make_fake_compact_tensor(CUTE_DTYPE[dtype], (cute.sym_int(),))
    return cute.compile(scalar_copy_launch, mX, mX, make_fake_stream())
    ### END SOLUTION


def scalar_copy(x: torch.Tensor) -> torch.Tensor:
    """A copy of x, one element a thread.

    x: any shape, contiguous, float32, float16 or bfloat16, at most 2**30 elements (32-bit index).
    Returns a new tensor like x. Moves 2*numel*itemsize bytes.
    Raises ValueError naming what x must be.
    """
    check_argument("x", x)
    if not x.is_contiguous():
        raise ValueError("x must be contiguous")
    if x.numel() > 2**30:
        raise ValueError(f"x must have at most 2**30 elements, got {x.numel()}")
    out = torch.empty_like(x)
    if x.numel():
        # The kernel was compiled for a dynamic size, so the arguments must carry theirs: without
        # mark_layout_dynamic no size is passed at all, and the kernel reads a stray 0.
        mX, mO = (from_dlpack(t.detach().view(-1)).mark_layout_dynamic(0) for t in (x, out))
        compile_scalar_copy(x.dtype)(mX, mO, current_stream())
    return out


# %% exercise ch04.vector_copy
@cute.kernel
def vector_copy_kernel(mX: cute.Tensor, mO: cute.Tensor, tv_layout: cute.Layout):
    """One tile a block. mX, mO: (tiles, TILE); tv_layout: (thread, value) -> index in a tile."""
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    # 64 bits: on a large tensor tile * TILE is more than a 32-bit product holds.
    tile = cutlass.Int64(bidx)
    gX, gO = mX[(tile, None)], mO[(tile, None)]  # (TILE,)
    load_store = cute.make_copy_atom(
        cute.nvgpu.CopyUniversalOp(), mX.element_type, num_bits_per_copy=VECTOR_BITS
    )
    ### BEGIN SOLUTION the thread's part of gX and gO, registers, all loads, all stores (5 lines)
    tXgX = cute.composition(gX, tv_layout)[(tidx, (None, None))]  # (vector, VECTORS)
    tXgO = cute.composition(gO, tv_layout)[(tidx, (None, None))]
    tXrX = cute.make_rmem_tensor_like(tXgX)
    cute.copy(load_store, tXgX, tXrX)
    cute.copy(load_store, tXrX, tXgO)
    ### END SOLUTION


@cute.jit
def vector_copy_launch(mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
    """One block a tile: neighbouring threads take neighbouring vectors, VECTORS times over."""
    vector = VECTOR_BITS // mX.element_type.width
    ### BEGIN SOLUTION the layout (thread, (element, vector)) -> index in the tile (1 line)
    tv_layout = cute.make_layout(
        (THREADS, (vector, VECTORS)), stride=(vector, (1, THREADS * vector))
    )
    ### END SOLUTION
    vector_copy_kernel(mX, mO, tv_layout).launch(
        grid=(mX.shape[0], 1, 1), block=(THREADS, 1, 1), stream=stream
    )


def tile_elements(dtype: torch.dtype) -> int:
    """Elements that one block of vector_copy moves: THREADS * VECTORS vectors."""
    return THREADS * VECTORS * VECTOR_BITS // 8 // dtype.itemsize


@functools.cache
def compile_vector_copy(dtype: torch.dtype):
    """The compiled launch for a dtype and any number of whole tiles, 16-byte aligned."""
    mX = make_fake_compact_tensor(
        CUTE_DTYPE[dtype],
        (cute.sym_int(), tile_elements(dtype)),
        stride_order=(1, 0),  # 0 marks the mode that runs fastest: row-major
        assumed_align=16,
    )
    return cute.compile(vector_copy_launch, mX, mX, make_fake_stream())


def vector_copy(x: torch.Tensor) -> torch.Tensor:
    """A copy of x, 16 bytes a load and VECTORS loads in flight a thread.

    x: any shape, contiguous, float32, float16 or bfloat16, its data on a 16-byte boundary, its
       number of elements a multiple of tile_elements(dtype) (4 KiB). 64-bit indices.
    Returns a new tensor like x. Moves 2*numel*itemsize bytes.
    Raises ValueError naming what x must be.
    """
    check_argument("x", x)
    if not x.is_contiguous() or x.data_ptr() % 16:
        raise ValueError("x must be contiguous and start on a 16-byte boundary")
    tile = tile_elements(x.dtype)
    if x.numel() % tile:
        raise ValueError(f"x must have a multiple of {tile} elements, got {x.numel()}")
    out = torch.empty_like(x)
    if x.numel():
        mX, mO = (
            from_dlpack(t.detach().view(-1, tile), assumed_align=16).mark_compact_shape_dynamic(
                mode=0, stride_order=(0, 1)
            )
            for t in (x, out)
        )
        compile_vector_copy(x.dtype)(mX, mO, current_stream())
    return out


# %% exercise ch04.ragged_copy
THREAD_ROWS, THREAD_COLUMNS = THREADS // 32, 32  # one warp along a row: neighbours coalesce
TILE_ROWS = THREAD_ROWS  # one row a thread: a second was slower on long rows (docs/notes/ch04.md)
TILE_ROW_BYTES = THREAD_COLUMNS * VECTOR_BITS // 8


@cute.kernel
def ragged_copy_kernel(
    mX: cute.Tensor,
    mO: cute.Tensor,
    tiled_copy: cute.TiledCopy,
    tiler: cutlass.Constexpr,
    column_tiles: cutlass.Int32,
):
    """One (TILE_ROWS, columns) tile a block, and nothing past the edges. mX, mO: (M, N)."""
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    # A grid of one dimension: y and z stop at 65535 blocks, x at 2**31 - 1.
    tile = (bidx // column_tiles, bidx % column_tiles)
    gX, gO = (cute.local_tile(tensor, tiler, tile) for tensor in (mX, mO))
    cX = cute.local_tile(cute.make_identity_tensor(mX.shape), tiler, tile)  # its own coordinates
    thr_copy = tiled_copy.get_slice(tidx)
    tXgX, tXcX, tXgO = thr_copy.partition_S(gX), thr_copy.partition_S(cX), thr_copy.partition_D(gO)
    tXrX = cute.make_rmem_tensor_like(tXgX)  # ((vector, 1), rows, vectors a row)
    # One predicate a vector, not an element: a vector lies inside or outside as a whole, because
    # its width divides N.
    tXpX = cute.make_rmem_tensor((1, tXgX.shape[1], tXgX.shape[2]), cutlass.Boolean)
    ### BEGIN SOLUTION fill tXpX from the vectors' first coordinates, then copy with pred= (5 lines)
    for row in cutlass.range_constexpr(tXpX.shape[1]):
        for column in cutlass.range_constexpr(tXpX.shape[2]):
            tXpX[0, row, column] = cute.elem_less(tXcX[0, row, column], mX.shape)
    cute.copy(tiled_copy, tXgX, tXrX, pred=tXpX)
    cute.copy(tiled_copy, tXrX, tXgO, pred=tXpX)
    ### END SOLUTION


@cute.jit
def ragged_copy_launch(
    mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream, vector: cutlass.Constexpr
):
    """Tiles of TILE_ROWS rows and TILE_ROW_BYTES bytes a row, whatever the vector's width."""
    width = mX.element_type.width
    load_store = cute.make_copy_atom(
        cute.nvgpu.CopyUniversalOp(), mX.element_type, num_bits_per_copy=vector * width
    )
    threads = cute.make_ordered_layout((THREAD_ROWS, THREAD_COLUMNS), order=(1, 0))
    tiled_copy = cute.make_tiled_copy_tv(load_store, threads, cute.make_layout((1, vector)))
    tiler = (TILE_ROWS, TILE_ROW_BYTES * 8 // width)
    row_tiles, column_tiles = cute.ceil_div(mX.shape, tiler)
    ragged_copy_kernel(mX, mO, tiled_copy, tiler, column_tiles).launch(
        grid=(row_tiles * column_tiles, 1, 1), block=(THREADS, 1, 1), stream=stream
    )


def widest_vector(x: torch.Tensor) -> int:
    """Elements of the widest vector, 16 bytes at most, that fits x and a contiguous copy of it.

    It must divide the length of a row (so that a vector never straddles an edge), the distance
    between rows and the start address (so that every vector of every row is aligned).
    """
    ### BEGIN SOLUTION the greatest common divisor of all that it must divide, in elements (2 lines)
    row_stride = x.stride(0) if x.shape[0] > 1 else 0
    return (
        math.gcd(16, x.data_ptr(), *(n * x.itemsize for n in (x.shape[1], row_stride)))
        // x.itemsize
    )
    ### END SOLUTION


@functools.cache
def compile_ragged_copy(dtype: torch.dtype, vector: int):
    """The compiled launch for a dtype and a vector width, for any M, N and row strides."""
    rows, columns = cute.sym_int(), cute.sym_int(divisibility=vector)
    mX, mO = (
        make_fake_tensor(
            CUTE_DTYPE[dtype],
            (rows, columns),
            (cute.sym_int64(divisibility=vector), 1),  # 64 bits: row * stride may pass 2**31
            assumed_align=vector * dtype.itemsize,
        )
        for _ in range(2)
    )
    return cute.compile(ragged_copy_launch, mX, mO, make_fake_stream(), vector)


def ragged_copy(x: torch.Tensor) -> torch.Tensor:
    """A contiguous copy of a matrix of any shape, row distance and alignment. No autograd.

    x: (M, N) float32, float16 or bfloat16, x.stride(1) == 1, any x.stride(0) > 0, fewer than
       2**31 rows and columns (their product may be more). Loads and stores
       are as wide as N, the row stride and the address allow: 16 bytes down to one element.
    Returns a new contiguous (M, N). Moves 2*M*N*itemsize bytes.
    Raises ValueError naming what x must be.
    """
    check_argument("x", x)
    if x.dim() != 2 or (x.shape[1] > 1 and x.stride(1) != 1):
        raise ValueError("x must be a matrix whose rows are contiguous: x.stride(1) == 1")
    if x.shape[0] > 1 and x.stride(0) == 0:  # CuTe keeps a stride of 0 static, the kernel has none
        raise ValueError("x's rows must lie apart, x.stride(0) > 0, and not be expanded from one")
    if max(x.shape) >= 2**31 - 1024:  # rows and columns are counted in 32 bits
        raise ValueError(f"x must have fewer than 2**31 rows and columns, got {tuple(x.shape)}")
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        vector = widest_vector(x)
        # A single column may have any stride(1); CuTe wants it to be 1.
        rows = (t.detach().as_strided(t.shape, (t.stride(0), 1)) for t in (x, out))
        mX, mO = (
            from_dlpack(t, assumed_align=vector * x.itemsize).mark_layout_dynamic(1) for t in rows
        )
        compile_ragged_copy(x.dtype, vector)(mX, mO, current_stream())
    return out


# %% exercise ch04.fused_elementwise
@cute.kernel
def silu_mul_kernel(mX: cute.Tensor, mY: cute.Tensor, mO: cute.Tensor, tiled_copy: cute.TiledCopy):
    """silu(X) * Y, VECTORS vectors a thread. mX, mY, mO: (vectors, elements of a vector)."""
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    tiler = (THREADS * VECTORS, mX.shape[1])
    # 64 bits for the addresses; the coordinates below count vectors, which fit in 32.
    tile = (cutlass.Int64(bidx), 0)
    gX, gY, gO = (cute.local_tile(tensor, tiler, tile) for tensor in (mX, mY, mO))
    cX = cute.local_tile(cute.make_identity_tensor(mX.shape), tiler, (bidx, 0))
    thr_copy = tiled_copy.get_slice(tidx)
    tXgX, tXgY = thr_copy.partition_S(gX), thr_copy.partition_S(gY)
    tXgO, tXcX = thr_copy.partition_D(gO), thr_copy.partition_S(cX)
    tXrX, tXrY, tXrO = (cute.make_rmem_tensor_like(part) for part in (tXgX, tXgY, tXgO))
    tXpX = cute.make_rmem_tensor((1, VECTORS, 1), cutlass.Boolean)
    for v in cutlass.range_constexpr(VECTORS):
        tXpX[0, v, 0] = cute.elem_less(tXcX[0, v, 0], mX.shape)
    ### BEGIN SOLUTION load X and Y, compute x * sigmoid(x) * y in float32, store (6 lines)
    cute.copy(tiled_copy, tXgX, tXrX, pred=tXpX)
    cute.copy(tiled_copy, tXgY, tXrY, pred=tXpX)
    x, y = (part.load().to(cutlass.Float32) for part in (tXrX, tXrY))
    # approx: one instruction. A plain division is about ten, and a subroutine for rare inputs.
    sigmoid = cute.math.rcp(1.0 + cute.math.exp(-x, fastmath=True), approx=True, ftz=True)
    tXrO.store((x * sigmoid * y).to(mO.element_type))
    cute.copy(tiled_copy, tXrO, tXgO, pred=tXpX)
    ### END SOLUTION


@cute.jit
def silu_mul_launch(mX: cute.Tensor, mY: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
    """One block for every THREADS * VECTORS vectors, the last block rounded up."""
    load_store = cute.make_copy_atom(
        cute.nvgpu.CopyUniversalOp(), mX.element_type, num_bits_per_copy=VECTOR_BITS
    )
    tiled_copy = cute.make_tiled_copy_tv(
        load_store, cute.make_layout((THREADS, 1)), cute.make_layout((1, mX.shape[1]))
    )
    silu_mul_kernel(mX, mY, mO, tiled_copy).launch(
        grid=(cute.ceil_div(mX.shape[0], THREADS * VECTORS), 1, 1),
        block=(THREADS, 1, 1),
        stream=stream,
    )


@functools.cache
def compile_silu_mul(dtype: torch.dtype):
    """The compiled launch for a dtype and any number of vectors, 16-byte aligned."""
    vector = VECTOR_BITS // 8 // dtype.itemsize
    mX = make_fake_compact_tensor(
        CUTE_DTYPE[dtype], (cute.sym_int(), vector), stride_order=(1, 0), assumed_align=16
    )
    return cute.compile(silu_mul_launch, mX, mX, mX, make_fake_stream())


def silu_mul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """silu(x) * y = x / (1 + exp(-x)) * y in one pass: the elementwise half of SwiGLU.

    x, y: same shape and dtype, contiguous, float32, float16 or bfloat16, on 16-byte boundaries, the
       number of elements a multiple of 16 bytes. Computed in float32. 64-bit indices.
    Returns a new tensor like x. Moves 3*numel*itemsize bytes.
    Raises ValueError naming the argument and what it must be.
    """
    for name, argument in (("x", x), ("y", y)):
        check_argument(name, argument)
        if not argument.is_contiguous() or argument.data_ptr() % 16:
            raise ValueError(f"{name} must be contiguous and start on a 16-byte boundary")
    if y.shape != x.shape or y.dtype != x.dtype:
        raise ValueError("y must have the shape and dtype of x")
    vector = VECTOR_BITS // 8 // x.itemsize
    if x.numel() % vector:
        raise ValueError(f"x must have a multiple of {vector} elements, got {x.numel()}")
    out = torch.empty_like(x)
    if x.numel():
        arguments = (
            from_dlpack(t.detach().view(-1, vector), assumed_align=16).mark_compact_shape_dynamic(
                mode=0, stride_order=(0, 1)
            )
            for t in (x, y, out)
        )
        compile_silu_mul(x.dtype)(*arguments, current_stream())
    return out


# %% reference the fused kernel with one element a thread, for the speed table
def check_pair(x: torch.Tensor, y: torch.Tensor) -> None:
    """What the kernels of the speed table ask of their operands."""
    check_argument("x", x)
    check_argument("y", y)
    if y.shape != x.shape or y.dtype != x.dtype or not (x.is_contiguous() and y.is_contiguous()):
        raise ValueError("x and y must be contiguous, of one shape and dtype")


@cute.kernel
def scalar_silu_mul_kernel(mX: cute.Tensor, mY: cute.Tensor, mO: cute.Tensor):
    """silu(X) * Y, one element a thread. mX, mY, mO: (N,)."""
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    i = bidx * THREADS + tidx
    if i < mX.shape[0]:
        x, y = mX[i].to(cutlass.Float32), mY[i].to(cutlass.Float32)
        sigmoid = cute.math.rcp(1.0 + cute.math.exp(-x, fastmath=True), approx=True, ftz=True)
        mO[i] = (x * sigmoid * y).to(mO.element_type)


@cute.jit
def scalar_silu_mul_launch(
    mX: cute.Tensor, mY: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream
):
    """Enough blocks of THREADS threads for N elements."""
    blocks = cute.ceil_div(mX.shape[0], THREADS)
    scalar_silu_mul_kernel(mX, mY, mO).launch(
        grid=(blocks, 1, 1), block=(THREADS, 1, 1), stream=stream
    )


@functools.cache
def compile_scalar_silu_mul(dtype: torch.dtype):
    """The compiled launch for a dtype and any N."""
    mX = make_fake_compact_tensor(CUTE_DTYPE[dtype], (cute.sym_int(),))
    return cute.compile(scalar_silu_mul_launch, mX, mX, mX, make_fake_stream())


def scalar_silu_mul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """silu(x) * y of contiguous CUDA tensors of one shape and dtype, at most 2**30 elements."""
    check_pair(x, y)
    if x.numel() > 2**30:
        raise ValueError(f"x must have at most 2**30 elements, got {x.numel()}")
    out = torch.empty_like(x)
    if not x.numel():
        return out
    arguments = (from_dlpack(t.detach().view(-1)).mark_layout_dynamic(0) for t in (x, y, out))
    compile_scalar_silu_mul(x.dtype)(*arguments, current_stream())
    return out


# %% reference the same two kernels in Triton, for the speed table
import triton  # noqa: E402
import triton.language as tl  # noqa: E402

TRITON_BLOCK_BYTES = 4096  # a program: 128 threads with 2 vectors of 16 bytes, as above


@triton.jit
def triton_copy_kernel(x_ptr, out_ptr, numel, BLOCK: tl.constexpr):
    """A block of elements a program."""
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = index < numel
    tl.store(out_ptr + index, tl.load(x_ptr + index, mask=mask), mask=mask)


@triton.jit
def triton_silu_mul_kernel(x_ptr, y_ptr, out_ptr, numel, BLOCK: tl.constexpr):
    """silu(x) * y for a block of elements, in float32."""
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = index < numel
    x = tl.load(x_ptr + index, mask=mask).to(tl.float32)
    y = tl.load(y_ptr + index, mask=mask).to(tl.float32)
    result = x * tl.sigmoid(x) * y
    tl.store(out_ptr + index, result.to(out_ptr.dtype.element_ty), mask=mask)


def triton_copy(x: torch.Tensor) -> torch.Tensor:
    """A copy of a contiguous CUDA tensor of any shape."""
    check_pair(x, x)
    out = torch.empty_like(x)
    block = TRITON_BLOCK_BYTES // x.itemsize
    triton_copy_kernel[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block)
    return out


def triton_silu_mul(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """silu(x) * y of contiguous CUDA tensors of one shape and dtype."""
    check_pair(x, y)
    out = torch.empty_like(x)
    block = TRITON_BLOCK_BYTES // x.itemsize
    triton_silu_mul_kernel[(triton.cdiv(x.numel(), block),)](x, y, out, x.numel(), BLOCK=block)
    return out
