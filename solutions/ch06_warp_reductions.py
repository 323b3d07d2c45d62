"""Reductions by shuffles and shared memory, and softmax at the speed of a copy, in CuTe DSL.

Three kernels, each one step from the one before: a row a warp, reduced by a butterfly of shuffles;
a row a block, whose warps exchange their results through shared memory; softmax, where a row gets as
many threads as suit its length. Each reads its row once, 16 bytes a load, and keeps it in registers.
Tensors are named as in CUTLASS: mX is all of X in global memory, gX the part of one thread block,
tXgX the part of one thread, tXrX the same values in registers, tXcX their coordinates, tXpX their
predicates.
"""

# %% setup
import functools
import math
import operator

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass import Float32, const_expr
from cutlass.cute.runtime import from_dlpack, make_fake_stream, make_fake_tensor

CUTE_DTYPE = {
    torch.float32: cutlass.Float32,
    torch.float16: cutlass.Float16,
    torch.bfloat16: cutlass.BFloat16,
}
LANES = 32  # threads of a warp


def check_rows(x: torch.Tensor, longest: int) -> None:
    """What every function below asks of a matrix; a compiled kernel would check none of it."""
    if not x.is_cuda or x.get_device() != torch.cuda.current_device():
        raise ValueError(f"x must be on the current CUDA device, got {x.device}")
    if x.dtype not in CUTE_DTYPE:
        raise ValueError(f"x must be float32, float16 or bfloat16, got {x.dtype}")
    if x.dim() != 2 or (x.shape[1] > 1 and x.stride(1) != 1):
        raise ValueError("x must be a matrix whose rows are contiguous: x.stride(1) == 1")
    if x.shape[0] > 1 and x.stride(0) == 0:
        # CuTe keeps a stride of 0 static; the kernels are compiled for a dynamic one.
        raise ValueError("x's rows must lie apart, x.stride(0) > 0, and not be expanded from one")
    if not 1 <= x.shape[1] <= longest or x.shape[0] >= 2**31 - 1024:
        wanted = f"1 to {longest} columns, and fewer than 2**31 - 1024 rows"
        raise ValueError(f"x must have {wanted}, got {tuple(x.shape)}")


def current_stream() -> cuda.CUstream:
    """The caller's stream: work on another one would race with the caller's own."""
    return cuda.CUstream(torch.cuda.current_stream().cuda_stream)


def widest_vector(x: torch.Tensor) -> int:
    """Elements of the widest vector, 16 bytes at most, that fits the rows of x and of a contiguous
    copy of it (chapter 4)."""
    row_stride = x.stride(0) if x.shape[0] > 1 else 0
    must_divide = (n * x.itemsize for n in (x.shape[1], row_stride))
    return math.gcd(16, x.data_ptr(), *must_divide) // x.itemsize


def fake_rows(dtype: torch.dtype, N: int, vector: int):
    """Stands for a matrix of N columns, any number of rows and any distance between them."""
    return make_fake_tensor(
        CUTE_DTYPE[dtype],
        (cute.sym_int(), N),
        (cute.sym_int64(divisibility=vector), 1),  # 64 bits: row * stride may pass 2**31
        assumed_align=vector * dtype.itemsize,
    )


def as_rows(x: torch.Tensor, vector: int):
    """A matrix as a kernel compiled for fake_rows takes it. A column may have any stride(1)."""
    rows = x.detach().as_strided(x.shape, (x.stride(0), 1))
    return from_dlpack(rows, assumed_align=vector * x.itemsize).mark_layout_dynamic(1)


def copy_of_rows(element_type, rows: int, threads: int, vector: int) -> cute.TiledCopy:
    """``rows`` rows at a time, each by ``threads`` neighbouring threads with a vector each."""
    load_store = cute.make_copy_atom(
        cute.nvgpu.CopyUniversalOp(), element_type, num_bits_per_copy=vector * element_type.width
    )
    owners = cute.make_ordered_layout((rows, threads), order=(1, 0))  # along the row first
    return cute.make_tiled_copy_tv(load_store, owners, cute.make_layout((1, vector)))


def tile_of_rows(N: int, rows: int, threads: int, vector: int) -> tuple[int, int]:
    """A block's tile: whole rows, rounded up to the same number of vectors for each thread."""
    return rows, cute.round_up(N, threads * vector)


@cute.jit
def inside(tXcX: cute.Tensor, shape: cute.Shape):
    """One predicate a vector: does its first element, and so all of it, exist? (chapter 4)"""
    tXpX = cute.make_rmem_tensor((1, tXcX.shape[1], tXcX.shape[2]), cutlass.Boolean)
    for row in cutlass.range_constexpr(tXpX.shape[1]):
        for column in cutlass.range_constexpr(tXpX.shape[2]):
            tXpX[0, row, column] = cute.elem_less(tXcX[0, row, column], shape)
    return tXpX


# %% exercise ch06.warp_reduction
ROWS = 4  # rows a block, each with a warp of its own


def butterfly(value, combine):
    """``combine`` of the 32 lanes' values, in every lane. combine: a function of two values."""
    ### BEGIN SOLUTION five exchanges, each with another distance between the lanes (3 lines)
    for distance in (16, 8, 4, 2, 1):
        value = combine(value, cute.arch.shuffle_sync_bfly(value, offset=distance))
    return value
    ### END SOLUTION


@cute.kernel
def warp_reduction_kernel(
    mX: cute.Tensor,
    mMax: cute.Tensor,
    mSum: cute.Tensor,
    tiled_copy: cute.TiledCopy,
    tiler: cutlass.Constexpr,
):
    """One row a warp. mX: (M, N); mMax, mSum: (M,) float32."""
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    gX = cute.local_tile(mX, tiler, (bidx, 0))
    cX = cute.local_tile(cute.make_identity_tensor(mX.shape), tiler, (bidx, 0))
    thr_copy = tiled_copy.get_slice(tidx)
    tXgX, tXcX = thr_copy.partition_S(gX), thr_copy.partition_S(cX)
    tXrX = cute.make_rmem_tensor_like(tXgX)
    tXpX = inside(tXcX, mX.shape)
    ### BEGIN SOLUTION fill and load, m, what to subtract, exp, d: same m and d in each lane (7 lines)
    tXrX.fill(-tXrX.element_type.inf)  # what changes neither a maximum nor a sum of exp
    cute.copy(tiled_copy, tXgX, tXrX, pred=tXpX)
    x = tXrX.load().to(Float32)
    m = butterfly(x.reduce(cute.ReductionOp.MAX, -Float32.inf, 0), cute.arch.fmax)
    origin = Float32(0.0) if m == -Float32.inf else m  # -inf - -inf would be NaN
    e = cute.math.exp(x - origin, fastmath=True)
    d = butterfly(e.reduce(cute.ReductionOp.ADD, Float32(0.0), 0), operator.add)
    ### END SOLUTION
    row = bidx * ROWS + cute.arch.warp_idx()
    if row < mX.shape[0] and cute.arch.lane_idx() == 0:
        mMax[row], mSum[row] = m, d


@cute.jit
def warp_reduction_launch(
    mX: cute.Tensor,
    mMax: cute.Tensor,
    mSum: cute.Tensor,
    stream: cuda.CUstream,
    vector: cutlass.Constexpr,
):
    """ROWS rows a block, the last block rounded up."""
    tiled_copy = copy_of_rows(mX.element_type, ROWS, LANES, vector)
    tiler = tile_of_rows(mX.shape[1], ROWS, LANES, vector)
    warp_reduction_kernel(mX, mMax, mSum, tiled_copy, tiler).launch(
        grid=(cute.ceil_div(mX.shape[0], ROWS), 1, 1), block=(ROWS * LANES, 1, 1), stream=stream
    )


@functools.cache
def compile_warp_reduction(dtype: torch.dtype, N: int, vector: int):
    """The compiled launch for a dtype, a row length and a vector width, for any M and row stride."""
    mX = fake_rows(dtype, N, vector)
    mMax, mSum = (make_fake_tensor(Float32, (cute.sym_int(),), (1,)) for _ in range(2))
    return cute.compile(warp_reduction_launch, mX, mMax, mSum, make_fake_stream(), vector)


def warp_max_and_sum(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """m = max(x) and d = sum(exp(x - m)) of each row, one row a warp.

    x: (M, N) float32, float16 or bfloat16 on a CUDA device, rows contiguous, 1 <= N <= 1024.
    Returns two (M, 1) float32 tensors; a row of only -inf has m = -inf and d = 0, one with NaN has
    d = NaN and any m. Reads x once.
    Raises ValueError naming what x must be.
    """
    check_rows(x, longest=1024)
    m, d = (torch.empty(x.shape[0], 1, dtype=torch.float32, device=x.device) for _ in range(2))
    if x.numel():
        vector = widest_vector(x)
        results = (from_dlpack(t.view(-1)).mark_layout_dynamic(0) for t in (m, d))
        launch = compile_warp_reduction(x.dtype, x.shape[1], vector)
        launch(as_rows(x, vector), *results, current_stream())
    return m, d


# %% exercise ch06.block_reduction
WARPS = 8  # of a block, all on one row


@cute.jit
def block_reduce(m: Float32, d: Float32, slots: cute.Tensor):
    """The row's (m, d), in every thread, from the (m, d) of each warp's part of it.

    slots: (WARPS, 2) float32 in shared memory. One barrier.
    """
    warp, lane = cute.arch.warp_idx(), cute.arch.lane_idx()
    ### BEGIN SOLUTION leave the warp's pair, wait, take one pair a lane, combine them (9 lines)
    if lane == 0:
        slots[warp, 0], slots[warp, 1] = m, d
    cute.arch.barrier()
    m, d = -Float32.inf, Float32(0.0)  # of lanes without a pair
    if lane < WARPS:
        m, d = slots[lane, 0], slots[lane, 1]
    row_m = cute.arch.warp_reduction_max(m)
    origin = Float32(0.0) if row_m == -Float32.inf else row_m
    row_d = cute.arch.warp_reduction_sum(d * cute.math.exp(m - origin, fastmath=True))
    return row_m, row_d
    ### END SOLUTION


@cute.kernel
def block_reduction_kernel(
    mX: cute.Tensor,
    mMax: cute.Tensor,
    mSum: cute.Tensor,
    tiled_copy: cute.TiledCopy,
    tiler: cutlass.Constexpr,
):
    """One row a block. mX: (M, N); mMax, mSum: (M,) float32."""
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    gX = cute.local_tile(mX, tiler, (bidx, 0))
    cX = cute.local_tile(cute.make_identity_tensor(mX.shape), tiler, (bidx, 0))
    thr_copy = tiled_copy.get_slice(tidx)
    tXgX, tXcX = thr_copy.partition_S(gX), thr_copy.partition_S(cX)
    tXrX = cute.make_rmem_tensor_like(tXgX)
    slots = cutlass.memory.SmemAllocator().allocate_tensor(
        Float32, cute.make_layout((WARPS, 2), stride=(2, 1)), byte_alignment=8
    )
    tXrX.fill(-tXrX.element_type.inf)
    cute.copy(tiled_copy, tXgX, tXrX, pred=inside(tXcX, mX.shape))
    x = tXrX.load().to(Float32)
    # The library's butterflies: the five lines of the exercise before.
    m = cute.arch.warp_reduction_max(x.reduce(cute.ReductionOp.MAX, -Float32.inf, 0))
    origin = Float32(0.0) if m == -Float32.inf else m
    e = cute.math.exp(x - origin, fastmath=True)
    d = cute.arch.warp_reduction_sum(e.reduce(cute.ReductionOp.ADD, Float32(0.0), 0))
    m, d = block_reduce(m, d, slots)
    if tidx == 0:
        mMax[bidx], mSum[bidx] = m, d


@cute.jit
def block_reduction_launch(
    mX: cute.Tensor,
    mMax: cute.Tensor,
    mSum: cute.Tensor,
    stream: cuda.CUstream,
    vector: cutlass.Constexpr,
):
    """One block a row."""
    tiled_copy = copy_of_rows(mX.element_type, 1, WARPS * LANES, vector)
    tiler = tile_of_rows(mX.shape[1], 1, WARPS * LANES, vector)
    block_reduction_kernel(mX, mMax, mSum, tiled_copy, tiler).launch(
        grid=(mX.shape[0], 1, 1), block=(WARPS * LANES, 1, 1), stream=stream
    )


@functools.cache
def compile_block_reduction(dtype: torch.dtype, N: int, vector: int):
    """The compiled launch for a dtype, a row length and a vector width, for any M and row stride."""
    mX = fake_rows(dtype, N, vector)
    mMax, mSum = (make_fake_tensor(Float32, (cute.sym_int(),), (1,)) for _ in range(2))
    return cute.compile(block_reduction_launch, mX, mMax, mSum, make_fake_stream(), vector)


def block_max_and_sum(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """m = max(x) and d = sum(exp(x - m)) of each row, one row a block.

    x: (M, N) float32, float16 or bfloat16 on a CUDA device, rows contiguous, 1 <= N <= 16384.
    Returns two (M, 1) float32 tensors; a row of only -inf has m = -inf and d = 0, one with NaN has
    d = NaN and any m. Reads x once.
    Raises ValueError naming what x must be.
    """
    check_rows(x, longest=16384)
    m, d = (torch.empty(x.shape[0], 1, dtype=torch.float32, device=x.device) for _ in range(2))
    if x.numel():
        vector = widest_vector(x)
        results = (from_dlpack(t.view(-1)).mark_layout_dynamic(0) for t in (m, d))
        launch = compile_block_reduction(x.dtype, x.shape[1], vector)
        launch(as_rows(x, vector), *results, current_stream())
    return m, d


# %% exercise ch06.softmax
# Rows of at most so many elements: (threads a block, threads a row). docs/notes/ch06.md has the
# measurements that chose them.
TABLE_16_BIT = {
    64: (128, 8),
    128: (128, 16),
    512: (128, 32),
    1024: (64, 32),
    2048: (128, 128),
    4096: (512, 128),
    8192: (512, 256),
}
TABLE_32_BIT = {
    32: (128, 8),
    64: (128, 16),
    256: (128, 32),
    512: (64, 32),
    1024: (64, 64),
    2048: (512, 32),
    4096: (512, 64),
    8192: (1024, 1024),
}


@cute.jit
def whole_row(m: Float32, d: Float32, slots: cute.Tensor, warps: cutlass.Constexpr):
    """(m, d) of the warp's row from those of the ``warps`` warps on it; one barrier.

    slots: (rows, warps, 2) float32 in shared memory: a block may have several rows.
    """
    warp, lane = cute.arch.warp_idx(), cute.arch.lane_idx()
    ### BEGIN SOLUTION as in the block reduction, with the slots of this warp's row (10 lines)
    row, place = warp // warps, warp % warps
    if lane == 0:
        slots[row, place, 0], slots[row, place, 1] = m, d
    cute.arch.barrier()
    m, d = -Float32.inf, Float32(0.0)
    if lane < warps:
        m, d = slots[row, lane, 0], slots[row, lane, 1]
    row_m = cute.arch.warp_reduction_max(m)
    origin = Float32(0.0) if row_m == -Float32.inf else row_m
    row_d = cute.arch.warp_reduction_sum(d * cute.math.exp(m - origin, fastmath=True))
    return row_m, row_d
    ### END SOLUTION


@cute.kernel
def softmax_kernel(
    mX: cute.Tensor,
    mO: cute.Tensor,
    tiled_copy: cute.TiledCopy,
    tiler: cutlass.Constexpr,
    threads: cutlass.Constexpr,
):
    """tiler[0] rows a block, each by ``threads`` threads. mX, mO: (M, N)."""
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    gX, gO = (cute.local_tile(t, tiler, (bidx, 0)) for t in (mX, mO))
    cX = cute.local_tile(cute.make_identity_tensor(mX.shape), tiler, (bidx, 0))
    thr_copy = tiled_copy.get_slice(tidx)
    tXgX, tXcX, tXgO = thr_copy.partition_S(gX), thr_copy.partition_S(cX), thr_copy.partition_D(gO)
    tXrX, tXrO = cute.make_rmem_tensor_like(tXgX), cute.make_rmem_tensor_like(tXgO)
    tXpX = inside(tXcX, mX.shape)
    lanes, warps = min(threads, LANES), max(threads // LANES, 1)  # of a row: in a warp, of a block
    slots = cutlass.memory.SmemAllocator().allocate_tensor(
        Float32,
        cute.make_ordered_layout((tiler[0], warps, 2), order=(2, 1, 0)),
        byte_alignment=8,
    )
    ### BEGIN SOLUTION fill and load; m, e, d of the lanes; of the row; e scaled and stored (14 lines)
    tXrX.fill(-tXrX.element_type.inf)
    cute.copy(tiled_copy, tXgX, tXrX, pred=tXpX)
    x = tXrX.load().to(Float32)
    m = cute.arch.warp_reduction_max(
        x.reduce(cute.ReductionOp.MAX, -Float32.inf, 0), threads_in_group=lanes
    )
    origin = Float32(0.0) if m == -Float32.inf else m
    e = cute.math.exp(x - origin, fastmath=True)
    d = cute.arch.warp_reduction_sum(
        e.reduce(cute.ReductionOp.ADD, Float32(0.0), 0), threads_in_group=lanes
    )
    scale = Float32(1.0)
    if const_expr(warps > 1):
        row_m, d = whole_row(m, d, slots, warps)
        scale = cute.math.exp(m - row_m, fastmath=True)  # e knows only its own warp's maximum
    y = e * (scale * cute.arch.rcp_approx(d))
    tXrO.store(y.to(mO.element_type))
    cute.copy(tiled_copy, tXrO, tXgO, pred=tXpX)
    ### END SOLUTION


@cute.jit
def softmax_launch(
    mX: cute.Tensor,
    mO: cute.Tensor,
    stream: cuda.CUstream,
    vector: cutlass.Constexpr,
    block_threads: cutlass.Constexpr,
    threads: cutlass.Constexpr,
):
    """As many rows a block as its threads suffice for, the last block rounded up."""
    rows = block_threads // threads
    tiled_copy = copy_of_rows(mX.element_type, rows, threads, vector)
    tiler = tile_of_rows(mX.shape[1], rows, threads, vector)
    softmax_kernel(mX, mO, tiled_copy, tiler, threads).launch(
        grid=(cute.ceil_div(mX.shape[0], rows), 1, 1),
        block=(block_threads, 1, 1),
        stream=stream,
    )


@functools.cache
def compile_softmax(dtype: torch.dtype, N: int, vector: int, block_threads: int, threads: int):
    """The compiled launch for a dtype, a row length, a vector width and a number of threads."""
    mX, mO = fake_rows(dtype, N, vector), fake_rows(dtype, N, vector)
    return cute.compile(softmax_launch, mX, mO, make_fake_stream(), vector, block_threads, threads)


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last dimension, a row in the registers of 8 to 1024 threads. No autograd.

    x: (M, N) float32, float16 or bfloat16 on a CUDA device, rows contiguous, 1 <= N <= 8192.
    Returns a contiguous (M, N) in x's dtype. Moves 2*M*N*itemsize bytes: each element is read once
    and written once. Raises ValueError naming what x must be.
    """
    check_rows(x, longest=8192)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        N, vector = x.shape[1], widest_vector(x)
        table = TABLE_16_BIT if x.itemsize == 2 else TABLE_32_BIT
        block_threads, threads = table[min(longest for longest in table if N <= longest)]
        launch = compile_softmax(x.dtype, N, vector, block_threads, threads)
        launch(as_rows(x, vector), as_rows(out, vector), current_stream())
    return out
