"""Copies that the hardware makes by itself, while the threads compute: silu(x) three times.

Three kernels of the same function, each with one idea more: a ring of stages that every thread
fills for itself with cp.async; one bulk copy for a whole tile, reported by an mbarrier; a ring that
one warp keeps full by TMA for the warps that compute. Read them in that order. Names as in chapter 4:
gX is a tile in global memory, sX the same in shared memory, tXsX a thread's part of it.
"""

# %% setup
import functools

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.nvgpu import cpasync
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
VECTOR_BITS = 128  # what a thread moves at once: 4 float32 or 8 bfloat16
THREADS = 128  # that compute, in each block
TILES_PER_BLOCK = 6  # few: an SM that is late leaves blocks to others; not one: it has to run ahead
FULL_GPU = 2048  # blocks: 16 of THREADS threads on each SM of an H200, nearly


def silu(x: cute.TensorSSA) -> cute.TensorSSA:
    """x / (1 + exp(-x)), in float32 and rounded once. Two instructions are slow: ex2, rcp."""
    wide = x.to(cutlass.Float32)
    sigmoid = cute.math.rcp(1.0 + cute.math.exp(-wide, fastmath=True), approx=True, ftz=True)
    return (wide * sigmoid).to(x.element_type)


def check_argument(x: torch.Tensor) -> None:
    """What every function below asks of x; a compiled kernel would check none of it."""
    if not x.is_cuda or x.get_device() != torch.cuda.current_device():
        raise ValueError(f"x must be on the current CUDA device, got {x.device}")
    if x.dtype not in CUTE_DTYPE:
        raise ValueError(f"x must be float32, float16 or bfloat16, got {x.dtype}")
    if x.data_ptr() % 16:
        raise ValueError("x must start on a 16-byte boundary")
    if x.nbytes >= 2**35:  # its vectors of 16 bytes are counted in 32 bits
        raise ValueError("x must be under 32 GiB")


def current_stream() -> cuda.CUstream:
    """The caller's stream: work on another one would race with the caller's own."""
    return cuda.CUstream(torch.cuda.current_stream().cuda_stream)


def blocks_for(tiles: int, blocks: int | None) -> int:
    """How many blocks to launch: what was asked for, or one for every TILES_PER_BLOCK tiles, but
    enough to fill a GPU; at most one a tile."""
    if blocks is None:
        blocks = max(FULL_GPU, -(-tiles // TILES_PER_BLOCK))
    if blocks < 1:
        raise ValueError(f"blocks must be 1 or more, got {blocks}")
    return min(tiles, blocks)


# %% exercise ch05.pipelined_silu
VECTORS = 1  # 16-byte copies of one thread in a stage; a tile is 2 KiB
STAGES = 3  # one is computed on, two are on their way: 4 KiB a block


@cute.jit
def start_copy(tiled_copy: cute.TiledCopy, mX: cute.Tensor, tXsX: cute.Tensor, tile: cutlass.Int32):
    """Starts this thread's copies of a tile into a stage, as one group; past the end an empty one.

    mX: (vectors, elements of a vector).  tXsX: this thread's part of one stage.
    """
    tidx, _, _ = cute.arch.thread_idx()
    thr_copy = tiled_copy.get_slice(tidx)
    tiler = (THREADS * VECTORS, mX.shape[1])
    where = (cutlass.Int64(tile), 0)  # 64 bits: tile * TILE may be more than a 32-bit product holds
    tXgX = thr_copy.partition_S(cute.local_tile(mX, tiler, where))
    cX = cute.local_tile(cute.make_identity_tensor(mX.shape), tiler, where)
    tXcX = thr_copy.partition_S(cX)
    tXpX = cute.make_rmem_tensor((1, VECTORS, 1), cutlass.Boolean)
    for v in cutlass.range_constexpr(VECTORS):
        tXpX[0, v, 0] = cute.elem_less(tXcX[0, v, 0], mX.shape)
    ### BEGIN SOLUTION the copy, predicated, and its group (2 lines)
    cute.copy(tiled_copy, tXgX, tXsX, pred=tXpX)
    cute.arch.cp_async_commit_group()
    ### END SOLUTION


@cute.jit
def finish_tile(
    tiled_copy: cute.TiledCopy,
    store: cute.CopyAtom,
    tXrX: cute.Tensor,
    mO: cute.Tensor,
    tile: cutlass.Int32,
):
    """Computes silu of this thread's values of a tile and stores it, only where O has elements."""
    tidx, _, _ = cute.arch.thread_idx()
    thr_copy = tiled_copy.get_slice(tidx)
    tiler = (THREADS * VECTORS, mO.shape[1])
    where = (cutlass.Int64(tile), 0)
    tXgO = thr_copy.partition_D(cute.local_tile(mO, tiler, where))
    cO = cute.local_tile(cute.make_identity_tensor(mO.shape), tiler, where)
    tXcO = thr_copy.partition_D(cO)
    tXpO = cute.make_rmem_tensor((1, VECTORS, 1), cutlass.Boolean)
    for v in cutlass.range_constexpr(VECTORS):
        tXpO[0, v, 0] = cute.elem_less(tXcO[0, v, 0], mO.shape)
    tXrO = cute.make_rmem_tensor_like(tXrX)
    tXrO.store(silu(tXrX.load()))
    cute.copy(store, tXrO, tXgO, pred=tXpO)


@cute.kernel
def pipelined_silu_kernel(
    mX: cute.Tensor, mO: cute.Tensor, tiled_copy: cute.TiledCopy, store: cute.CopyAtom
):
    """Tiles bidx, bidx + grid, bidx + 2 grid ...: STAGES - 1 on their way while one is computed."""
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    grid, _, _ = cute.arch.grid_dim()
    tiles = cute.ceil_div(mX.shape[0], THREADS * VECTORS)
    smem = cutlass.memory.SmemAllocator()
    shape = (THREADS * VECTORS, mX.shape[1], STAGES)
    sX = smem.allocate_tensor(
        mX.element_type, cute.make_ordered_layout(shape, order=(1, 0, 2)), byte_alignment=16
    )
    tXsX = tiled_copy.get_slice(tidx).partition_D(sX)  # ((vector, 1), VECTORS, 1, STAGES)
    tXrX = cute.make_rmem_tensor_like(tXsX[None, None, None, 0])
    ### BEGIN SOLUTION STAGES - 1 tiles ahead; then rounds: wait, read, start, finish (11 lines)
    for stage in cutlass.range_constexpr(STAGES - 1):
        start_copy(tiled_copy, mX, tXsX[None, None, None, stage], bidx + stage * grid)
    stage = cutlass.Int32(0)
    for tile in range(bidx, tiles, grid):
        cute.arch.cp_async_wait_group(STAGES - 2)  # STAGES - 1 in flight: the oldest has landed
        cute.autovec_copy(tXsX[None, None, None, stage], tXrX)
        free = (stage + STAGES - 1) % STAGES  # read in the round before
        start_copy(tiled_copy, mX, tXsX[None, None, None, free], tile + (STAGES - 1) * grid)
        finish_tile(tiled_copy, store, tXrX, mO, tile)
        stage = (stage + 1) % STAGES
    cute.arch.cp_async_wait_group(0)  # copies past the end write zeros: they too must have landed
    ### END SOLUTION


@cute.jit
def pipelined_silu_launch(
    mX: cute.Tensor, mO: cute.Tensor, blocks: cutlass.Int32, stream: cuda.CUstream
):
    """Blocks of THREADS threads, neighbouring threads on neighbouring vectors."""
    ### BEGIN SOLUTION the atom that copies 16 bytes from global to shared memory (1 line)
    load = cute.make_copy_atom(cpasync.CopyG2SOp(), mX.element_type, num_bits_per_copy=VECTOR_BITS)
    ### END SOLUTION
    store = cute.make_copy_atom(
        cute.nvgpu.CopyUniversalOp(), mX.element_type, num_bits_per_copy=VECTOR_BITS
    )
    tiled_copy = cute.make_tiled_copy_tv(
        load, cute.make_layout((THREADS, 1)), cute.make_layout((1, mX.shape[1]))
    )
    pipelined_silu_kernel(mX, mO, tiled_copy, store).launch(
        grid=(blocks, 1, 1), block=(THREADS, 1, 1), stream=stream
    )


@functools.cache
def compile_pipelined_silu(dtype: torch.dtype):
    """The compiled launch for a dtype and any number of vectors, 16-byte aligned."""
    vector = VECTOR_BITS // 8 // dtype.itemsize
    mX = make_fake_compact_tensor(
        CUTE_DTYPE[dtype], (cute.sym_int(), vector), stride_order=(1, 0), assumed_align=16
    )
    return cute.compile(pipelined_silu_launch, mX, mX, cutlass.Int32(1), make_fake_stream())


def pipelined_silu(x: torch.Tensor, blocks: int | None = None) -> torch.Tensor:
    """silu(x), its tiles copied to shared memory STAGES - 1 ahead of the arithmetic.

    x: any shape, contiguous, float32, float16 or bfloat16, on a 16-byte boundary, its number of
       elements a multiple of 16 bytes.  blocks: how many walk over the tiles, see blocks_for.
    Returns a new tensor like x. Moves 2*numel*itemsize bytes.
    Raises ValueError naming what x must be.
    """
    check_argument(x)
    vector = VECTOR_BITS // 8 // x.itemsize
    if not x.is_contiguous() or x.numel() % vector:
        raise ValueError(f"x must be contiguous, with a multiple of {vector} elements")
    out = torch.empty_like(x)
    if x.numel():
        mX, mO = (
            from_dlpack(t.detach().view(-1, vector), assumed_align=16).mark_compact_shape_dynamic(
                mode=0, stride_order=(0, 1)
            )
            for t in (x, out)
        )
        tiles = -(-x.numel() // (vector * THREADS * VECTORS))
        compile_pipelined_silu(x.dtype)(mX, mO, blocks_for(tiles, blocks), current_stream())
    return out


# %% exercise ch05.bulk_silu
BULK_VECTORS = 2  # 16-byte vectors of one thread in a tile
BULK_BYTES = THREADS * BULK_VECTORS * VECTOR_BITS // 8  # one copy: 4 KiB


@cute.kernel
def bulk_silu_kernel(mX: cute.Tensor, mO: cute.Tensor, tv_layout: cute.Layout):
    """Tiles bidx, bidx + grid ...: one thread asks, all wait. mX: (tiles, TILE)."""
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    grid, _, _ = cute.arch.grid_dim()
    smem = cutlass.memory.SmemAllocator()
    mbar = smem.allocate_array(cutlass.Int64, 1)
    sX = smem.allocate_tensor(mX.element_type, cute.make_layout(mX.shape[1]), byte_alignment=128)
    tXsX = cute.composition(sX, tv_layout)[(tidx, (None, None))]  # (vector, BULK_VECTORS)
    tXrX, tXrO = (cute.make_rmem_tensor_like(tXsX) for _ in range(2))
    bulk = cute.make_copy_atom(cpasync.CopyBulkG2SOp(), mX.element_type)
    ### BEGIN SOLUTION the barrier: its count, and known to all before it is used (4 lines)
    if tidx == 0:
        cute.arch.mbarrier_init(mbar, 1)  # who arrives: the thread that starts the copy
    cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    ### END SOLUTION
    phase = cutlass.Int32(0)
    for tile in range(bidx, mX.shape[0], grid):
        gX, gO = (tensor[(cutlass.Int64(tile), None)] for tensor in (mX, mO))
        ### BEGIN SOLUTION expect, copy, wait; read into tXrX; what the next round needs (7 lines)
        if tidx == 0:
            cute.arch.mbarrier_arrive_and_expect_tx(mbar, BULK_BYTES)
            cute.copy(bulk, gX, sX, mbar_ptr=mbar)
        cute.arch.mbarrier_wait(mbar, phase)
        cute.autovec_copy(tXsX, tXrX)
        cute.arch.barrier()  # all have read: the next copy may overwrite the tile
        phase ^= 1
        ### END SOLUTION
        tXrO.store(silu(tXrX.load()))
        cute.autovec_copy(tXrO, cute.composition(gO, tv_layout)[(tidx, (None, None))])


@cute.jit
def bulk_silu_launch(
    mX: cute.Tensor, mO: cute.Tensor, blocks: cutlass.Int32, stream: cuda.CUstream
):
    """Neighbouring threads read neighbouring vectors of the tile, as in chapter 4."""
    vector = VECTOR_BITS // mX.element_type.width
    tv_layout = cute.make_layout(
        (THREADS, (vector, BULK_VECTORS)), stride=(vector, (1, THREADS * vector))
    )
    bulk_silu_kernel(mX, mO, tv_layout).launch(
        grid=(blocks, 1, 1), block=(THREADS, 1, 1), stream=stream
    )


@functools.cache
def compile_bulk_silu(dtype: torch.dtype):
    """The compiled launch for a dtype and any number of whole tiles, 16-byte aligned."""
    mX = make_fake_compact_tensor(
        CUTE_DTYPE[dtype],
        (cute.sym_int(), BULK_BYTES // dtype.itemsize),
        stride_order=(1, 0),
        assumed_align=16,
    )
    return cute.compile(bulk_silu_launch, mX, mX, cutlass.Int32(1), make_fake_stream())


def bulk_silu(x: torch.Tensor, blocks: int | None = None) -> torch.Tensor:
    """silu(x), a tile of BULK_BYTES copied by one instruction of one thread.

    x: any shape, contiguous, float32, float16 or bfloat16, on a 16-byte boundary, its number of
       bytes a multiple of BULK_BYTES.  blocks: how many walk over the tiles, see blocks_for.
    Returns a new tensor like x. Moves 2*numel*itemsize bytes.
    Raises ValueError naming what x must be.
    """
    check_argument(x)
    tile = BULK_BYTES // x.itemsize
    if not x.is_contiguous() or x.numel() % tile:
        raise ValueError(f"x must be contiguous, with a multiple of {tile} elements")
    out = torch.empty_like(x)
    if x.numel():
        mX, mO = (
            from_dlpack(t.detach().view(-1, tile), assumed_align=16).mark_compact_shape_dynamic(
                mode=0, stride_order=(0, 1)
            )
            for t in (x, out)
        )
        blocks = blocks_for(x.numel() // tile, blocks)
        compile_bulk_silu(x.dtype)(mX, mO, blocks, current_stream())
    return out


# %% exercise ch05.ring_silu
CONSUMER_WARPS = THREADS // 32  # the producer is one warp more
RING_STAGES = 3
RING_ROWS, RING_ROW_BYTES = 8, 512  # a tile: 4 KiB, a warp reads a row at once


@cute.jit
def next_stage(stage: cutlass.Int32, phase: cutlass.Int32):
    """The stage after this one, and the phase to wait for there: another one after each round."""
    last = stage == RING_STAGES - 1
    return (cutlass.Int32(0) if last else stage + 1), (phase ^ 1 if last else phase)


@cute.jit
def store_silu(tXrX: cute.Tensor, tiled_copy: cute.TiledCopy, mO: cute.Tensor, tiler, tile):
    """silu of this thread's values of a tile, stored where O has elements. mO: (M, N)."""
    tidx, _, _ = cute.arch.thread_idx()
    thr_copy = tiled_copy.get_slice(tidx)
    tXgO = thr_copy.partition_D(cute.local_tile(mO, tiler, tile))
    tXcO = thr_copy.partition_D(cute.local_tile(cute.make_identity_tensor(mO.shape), tiler, tile))
    tXpO = cute.make_rmem_tensor((1, tXgO.shape[1], tXgO.shape[2]), cutlass.Boolean)
    for row in cutlass.range_constexpr(tXpO.shape[1]):
        for column in cutlass.range_constexpr(tXpO.shape[2]):
            tXpO[0, row, column] = cute.elem_less(tXcO[0, row, column], mO.shape)
    tXrO = cute.make_rmem_tensor_like(tXrX)
    tXrO.store(silu(tXrX.load()))
    cute.copy(tiled_copy, tXrO, tXgO, pred=tXpO)


@cute.kernel
def ring_silu_kernel(
    load: cute.CopyAtom,
    mX: cute.Tensor,
    mO: cute.Tensor,
    tiled_copy: cute.TiledCopy,
    tiler: cutlass.Constexpr,
):
    """The last warp fills stages by TMA, the others empty them. mX: coordinates; mO: (M, N)."""
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    grid, _, _ = cute.arch.grid_dim()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    row_tiles, column_tiles = cute.ceil_div(mO.shape, tiler)
    smem = cutlass.memory.SmemAllocator()
    full = smem.allocate_array(cutlass.Int64, RING_STAGES)  # the tile is here: read it
    empty = smem.allocate_array(cutlass.Int64, RING_STAGES)  # all have read it: overwrite it
    sX = smem.allocate_tensor(
        mO.element_type,
        cute.make_ordered_layout((*tiler, RING_STAGES), order=(1, 0, 2)),
        byte_alignment=128,
    )
    gX = cute.local_tile(mX, tiler, (None, None))  # (rows, columns, row tile, column tile)
    tTsX, tTgX = cpasync.tma_partition(
        load, 0, cute.make_layout(1), cute.group_modes(sX, 0, 2), cute.group_modes(gX, 0, 2)
    )  # T: as TMA sees them, a whole tile in mode 0; then the stage, or which tile
    ### BEGIN SOLUTION both barriers of each stage: who arrives there? Then known to all (6 lines)
    if tidx == 0:
        for stage in cutlass.range_constexpr(RING_STAGES):
            cute.arch.mbarrier_init(full + stage, 1)  # the producer, and the bytes
            cute.arch.mbarrier_init(empty + stage, CONSUMER_WARPS)  # one lane of each
    cute.arch.mbarrier_init_fence()
    cute.arch.barrier()
    ### END SOLUTION
    if warp == CONSUMER_WARPS:
        ### BEGIN SOLUTION the producer: wait for an empty stage, expect, copy, next stage (7 lines)
        stage, phase = cutlass.Int32(0), cutlass.Int32(1)  # 1: at first all stages are empty
        for tile in range(bidx, row_tiles * column_tiles, grid):
            cute.arch.mbarrier_wait(empty + stage, phase)
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full + stage, RING_ROWS * RING_ROW_BYTES)
            gX_tile = tTgX[None, tile // column_tiles, tile % column_tiles]
            cute.copy(load, gX_tile, tTsX[None, stage], tma_bar_ptr=full + stage)
            stage, phase = next_stage(stage, phase)
        ### END SOLUTION
    else:
        thr_copy = tiled_copy.get_slice(tidx)
        tXsX = thr_copy.partition_S(sX)  # ((vector, 1), rows, vectors a row, RING_STAGES)
        tXrX = cute.make_rmem_tensor_like(tXsX[None, None, None, 0])
        ### BEGIN SOLUTION a consumer: wait, read, give the stage back, store, next stage (9 lines)
        stage, phase = cutlass.Int32(0), cutlass.Int32(0)
        for tile in range(bidx, row_tiles * column_tiles, grid):
            cute.arch.mbarrier_wait(full + stage, phase)
            cute.autovec_copy(tXsX[None, None, None, stage], tXrX)
            cute.arch.sync_warp()  # all 32 lanes have read
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive(empty + stage)
            where = (tile // column_tiles, tile % column_tiles)
            store_silu(tXrX, tiled_copy, mO, tiler, where)
            stage, phase = next_stage(stage, phase)
        ### END SOLUTION


@cute.jit
def ring_silu_launch(
    mX: cute.Tensor, mO: cute.Tensor, blocks: cutlass.Int32, stream: cuda.CUstream
):
    """A tensor map of X in boxes of one tile, and blocks of the consumers and one warp more."""
    width = mX.element_type.width
    tiler = (RING_ROWS, RING_ROW_BYTES * 8 // width)
    load, coordinates = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileG2SOp(), mX, cute.make_ordered_layout(tiler, order=(1, 0)), tiler
    )
    store = cute.make_copy_atom(
        cute.nvgpu.CopyUniversalOp(), mX.element_type, num_bits_per_copy=VECTOR_BITS
    )
    threads = cute.make_ordered_layout((CONSUMER_WARPS, 32), order=(1, 0))
    tiled_copy = cute.make_tiled_copy_tv(
        store, threads, cute.make_layout((1, VECTOR_BITS // width))
    )
    ring_silu_kernel(load, coordinates, mO, tiled_copy, tiler).launch(
        grid=(blocks, 1, 1), block=(THREADS + 32, 1, 1), stream=stream
    )


@functools.cache
def compile_ring_silu(dtype: torch.dtype):
    """The compiled launch for a dtype, any M, and N and a row stride of whole vectors."""
    vector = VECTOR_BITS // 8 // dtype.itemsize
    mX, mO = (
        make_fake_tensor(
            CUTE_DTYPE[dtype],
            (cute.sym_int(), cute.sym_int(divisibility=vector)),
            (cute.sym_int64(divisibility=vector), 1),
            assumed_align=16,
        )
        for _ in range(2)
    )
    return cute.compile(ring_silu_launch, mX, mO, cutlass.Int32(1), make_fake_stream())


def ring_silu(x: torch.Tensor, blocks: int | None = None) -> torch.Tensor:
    """silu of a matrix: one warp of each block copies tiles by TMA, four compute.

    x: (M, N) float32, float16 or bfloat16, x.stride(1) == 1, on a 16-byte boundary, N and
       x.stride(0) > 0 multiples of 16 bytes.  blocks: how many walk over the tiles, see blocks_for.
    Returns a new contiguous (M, N). Moves 2*M*N*itemsize bytes.
    Raises ValueError naming what x must be.
    """
    check_argument(x)
    vector = VECTOR_BITS // 8 // x.itemsize
    if x.dim() != 2 or (x.shape[1] > 1 and x.stride(1) != 1):
        raise ValueError("x must be a matrix whose rows are contiguous: x.stride(1) == 1")
    several_rows = x.numel() > x.shape[1]
    if x.shape[1] % vector or (several_rows and x.stride(0) % vector):
        raise ValueError(f"x's rows and their distance must be multiples of {vector} elements")
    if several_rows and x.stride(0) == 0:  # CuTe keeps a stride of 0 static, the kernel has none
        raise ValueError("x's rows must lie apart, x.stride(0) > 0, and not be expanded from one")
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        mX, mO = (
            from_dlpack(t.detach(), assumed_align=16).mark_layout_dynamic(1) for t in (x, out)
        )
        tiles = -(-x.shape[0] // RING_ROWS) * -(-x.shape[1] * x.itemsize // RING_ROW_BYTES)
        compile_ring_silu(x.dtype)(mX, mO, blocks_for(tiles, blocks), current_stream())
    return out


# %% reference the same without shared memory, as in chapter 4, for the speed table
@cute.kernel
def direct_silu_kernel(mX: cute.Tensor, mO: cute.Tensor, tv_layout: cute.Layout):
    """Tiles bidx, bidx + grid ...: loads to registers, and waits there. mX: (tiles, TILE)."""
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    grid, _, _ = cute.arch.grid_dim()
    for tile in range(bidx, mX.shape[0], grid):
        tXgX, tXgO = (
            cute.composition(tensor[(cutlass.Int64(tile), None)], tv_layout)[(tidx, (None, None))]
            for tensor in (mX, mO)
        )
        tXrX, tXrO = (cute.make_rmem_tensor_like(tXgX) for _ in range(2))
        cute.autovec_copy(tXgX, tXrX)
        tXrO.store(silu(tXrX.load()))
        cute.autovec_copy(tXrO, tXgO)


@cute.jit
def direct_silu_launch(
    mX: cute.Tensor, mO: cute.Tensor, blocks: cutlass.Int32, stream: cuda.CUstream
):
    """Neighbouring threads load neighbouring vectors, two each."""
    vector = VECTOR_BITS // mX.element_type.width
    tv_layout = cute.make_layout((THREADS, (vector, 2)), stride=(vector, (1, THREADS * vector)))
    direct_silu_kernel(mX, mO, tv_layout).launch(
        grid=(blocks, 1, 1), block=(THREADS, 1, 1), stream=stream
    )


@functools.cache
def compile_direct_silu(dtype: torch.dtype):
    """The compiled launch for a dtype and any number of whole tiles, 16-byte aligned."""
    mX = make_fake_compact_tensor(
        CUTE_DTYPE[dtype],
        (cute.sym_int(), THREADS * 32 // dtype.itemsize),
        stride_order=(1, 0),
        assumed_align=16,
    )
    return cute.compile(direct_silu_launch, mX, mX, cutlass.Int32(1), make_fake_stream())


def direct_silu(x: torch.Tensor, blocks: int | None = None) -> torch.Tensor:
    """silu(x) of a contiguous CUDA tensor with whole tiles of 4 KiB; None: one block a tile."""
    check_argument(x)
    tile = THREADS * 32 // x.itemsize
    if not x.is_contiguous() or x.numel() % tile:
        raise ValueError(f"x must be contiguous, with a multiple of {tile} elements")
    out = torch.empty_like(x)
    if x.numel():
        mX, mO = (
            from_dlpack(t.detach().view(-1, tile), assumed_align=16).mark_compact_shape_dynamic(
                mode=0, stride_order=(0, 1)
            )
            for t in (x, out)
        )
        tiles = x.numel() // tile
        compile_direct_silu(x.dtype)(mX, mO, min(tiles, blocks or tiles), current_stream())
    return out


# %% reference the same in Triton, for the speed table
import triton  # noqa: E402
import triton.language as tl  # noqa: E402


@triton.jit
def triton_silu_kernel(x_ptr, out_ptr, numel, BLOCK: tl.constexpr):
    """silu(x) of a block of elements, in float32."""
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = index < numel
    x = tl.load(x_ptr + index, mask=mask).to(tl.float32)
    tl.store(out_ptr + index, (x * tl.sigmoid(x)).to(out_ptr.dtype.element_ty), mask=mask)


def triton_silu(x: torch.Tensor) -> torch.Tensor:
    """silu(x) of a contiguous CUDA tensor of any shape, 4 KiB a program."""
    check_argument(x)
    out = torch.empty_like(x)
    block = 4096 // x.itemsize
    triton_silu_kernel[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block)
    return out
