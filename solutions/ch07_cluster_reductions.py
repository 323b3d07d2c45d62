"""Softmax at the speed of the memory, for rows of 1 to 262144 elements, forward and backward.

A row belongs to some lanes of a warp, to some warps of a block, or to all blocks of a cluster. Each
thread loads its part once, 16 bytes at a time, and keeps it in registers. Each warp makes two
numbers of its part: m, the maximum, and d, the sum of exp(x - m). The pairs of all warps of a row meet
in shared memory, across blocks through distributed shared memory, and every warp combines them. So
there is one exchange, and each element crosses the memory bus twice: once in, once out.

Sources: Milakov and Gimelshein, Online normalizer calculation for softmax (2018), for the pairs;
QuACK's reductions for sending them to all peers with st.async; the PTX manual on mbarriers.
"""

# %% setup
import functools
import math
from dataclasses import dataclass

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass import Boolean, Float32, Int32, Int64, const_expr
from cutlass.cute.runtime import from_dlpack, make_fake_stream, make_fake_tensor

CUTE_DTYPE = {
    torch.float32: cutlass.Float32,
    torch.float16: cutlass.Float16,
    torch.bfloat16: cutlass.BFloat16,
}
LONGEST_ROW = 262144
PAIR_BYTES = 8  # m and d, float32 both


@dataclass(frozen=True)
class Tile:
    """Who holds what of rows of N elements: the one description that every kernel here shares."""

    N: int
    vector: int  # elements of one load
    block_threads: int
    row_threads: int  # so many of them share a row: a power of two; a whole warp or more of them,
    blocks: int  # and so do the blocks of a cluster

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return self.block_threads // self.row_threads

    @property
    def columns(self) -> int:
        """Elements of a row that a block takes: the same number of vectors for each thread."""
        step = self.row_threads * self.vector
        return step * -(-self.N // (step * self.blocks))

    @property
    def warps(self) -> int:
        """Warps of a block that share a row."""
        return max(self.row_threads // 32, 1)

    @property
    def pairs(self) -> int:
        """Pairs that a row is combined from: one a warp."""
        return self.warps * self.blocks


def partition(tile: Tile, *tensors: cute.Tensor) -> tuple:
    """The copy atom, which of this thread's vectors exist, and its part of each (M, N) tensor."""
    tidx, _, _ = cute.arch.thread_idx()
    bidx, rank, _ = cute.arch.block_idx()
    mX = tensors[0]
    load_store = cute.make_copy_atom(
        cute.nvgpu.CopyUniversalOp(),
        mX.element_type,
        num_bits_per_copy=tile.vector * mX.element_type.width,
    )
    threads = cute.make_ordered_layout((tile.rows, tile.row_threads), order=(1, 0))
    values = cute.make_layout((1, tile.vector))
    thr_copy = cute.make_tiled_copy_tv(load_store, threads, values).get_slice(tidx)
    tXcX, *parts = (
        thr_copy.partition_S(cute.local_tile(tensor, (tile.rows, tile.columns), (bidx, rank)))
        for tensor in (cute.make_identity_tensor(mX.shape), *tensors)
    )  # each ((vector, 1), 1, vectors of a thread)
    tXpX = cute.make_rmem_tensor((1, 1, tXcX.shape[2]), Boolean)
    for v in range(tXcX.shape[2]):
        if tile.N == tile.columns * tile.blocks:  # whole tiles: only rows can be missing
            tXpX[0, 0, v] = tXcX[0, 0, v][0] < mX.shape[0]
        else:
            tXpX[0, 0, v] = cute.elem_less(tXcX[0, 0, v], mX.shape)
    return load_store, tXpX, *parts


def load(load_store, tXgX: cute.Tensor, tXpX: cute.Tensor, padding: float) -> cute.TensorSSA:
    """This thread's elements as float32, and ``padding`` where the row has none."""
    tXrX = cute.make_rmem_tensor_like(tXgX)
    tXrX.fill(tXrX.element_type(padding))
    cute.copy(load_store, tXgX, tXrX, pred=tXpX)
    return tXrX.load().to(Float32)


def store(load_store, values: cute.TensorSSA, tXgO: cute.Tensor, tXpX: cute.Tensor) -> None:
    """Rounds to the output's dtype, once, and stores what exists."""
    tXrO = cute.make_rmem_tensor_like(tXgO)
    tXrO.store(values.to(tXrO.element_type))
    cute.copy(load_store, tXrO, tXgO, pred=tXpX)


@cute.jit
def online_pair(x: cute.TensorSSA, lanes: cutlass.Constexpr):
    """(exp(x - m), m, d) of the elements that ``lanes`` neighbouring lanes hold of a row."""
    m = x.reduce(cute.ReductionOp.MAX, -Float32.inf, 0)
    m = cute.arch.warp_reduction_max(m, threads_in_group=lanes)
    # Only -inf so far: subtract 0, and each exp is 0. -inf - -inf would be NaN.
    e = cute.math.exp(x - (Float32(0.0) if m == -Float32.inf else m), fastmath=True)
    d = e.reduce(cute.ReductionOp.ADD, Float32(0.0), 0)
    return e, m, cute.arch.warp_reduction_sum(d, threads_in_group=lanes)


def allocate_slots(tile: Tile) -> tuple[cute.Tensor, cute.Pointer]:
    """Shared memory of a block: (rows, pairs, 2) float32, and one mbarrier."""
    smem = cutlass.utils.SmemAllocator()
    mbar = smem.allocate_array(Int64, 1)
    layout = cute.make_ordered_layout((tile.rows, tile.pairs, 2), order=(2, 1, 0))
    return smem.allocate_tensor(Float32, layout, byte_alignment=PAIR_BYTES), mbar


def send_pair(m: Float32, d: Float32, slot: cute.Tensor, mbar: cute.Pointer, peer: Int32) -> None:
    """st.async: the pair to the same slot in block ``peer`` of the cluster, and when it has
    arrived there, its 8 bytes are counted on that block's mbarrier. slot: (2,), shared."""
    address = cute.make_ptr(
        Int32, slot.iterator.toint(), cute.AddressSpace.smem, assumed_align=PAIR_BYTES
    )
    cute.arch.store_async_dsmem(address, (m.bitcast(Int32), d.bitcast(Int32)), mbar, peer)


def check_matrix(name: str, x: torch.Tensor) -> None:
    """What every function below asks of a tensor; a compiled kernel would check none of it."""
    if not x.is_cuda or x.get_device() != torch.cuda.current_device():
        raise ValueError(f"{name} must be on the current CUDA device, got {x.device}")
    if x.dtype not in CUTE_DTYPE:
        raise ValueError(f"{name} must be float32, float16 or bfloat16, got {x.dtype}")
    if x.dim() != 2 or not 1 <= x.shape[1] <= LONGEST_ROW or x.shape[0] >= 2**31 - 1024:
        raise ValueError(
            f"{name} must be (M, N) with 1 <= N <= {LONGEST_ROW}, got {tuple(x.shape)}"
        )
    if x.shape[1] > 1 and x.stride(1) != 1:
        raise ValueError(f"{name} must have contiguous rows: {name}.stride(1) == 1")


def widest_vector(*tensors: torch.Tensor) -> int:
    """Elements of the widest load, 16 bytes at most, that fits every row of each tensor."""
    itemsize = tensors[0].itemsize
    parts = (
        n
        for t in tensors
        for n in (t.data_ptr(), *(n * itemsize for n in (t.shape[1], t.stride(0))))
    )
    return math.gcd(16, *parts) // itemsize


def to_cute(x: torch.Tensor, vector: int) -> cute.Tensor:
    """x as a compiled kernel takes it: sizes and strides are sent along."""
    return from_dlpack(x.detach(), assumed_align=vector * x.itemsize).mark_layout_dynamic(1)


def fake_matrix(dtype: torch.dtype, tile: Tile) -> cute.Tensor:
    """(M, N) to compile for: any M, any row stride (64 bits: row * stride may pass 2**31)."""
    strides = (cute.sym_int64(divisibility=tile.vector), 1)
    align = tile.vector * dtype.itemsize
    return make_fake_tensor(
        CUTE_DTYPE[dtype], (cute.sym_int(), tile.N), strides, assumed_align=align
    )


def current_stream() -> cuda.CUstream:
    """The caller's stream: work on another one would race with the caller's own."""
    return cuda.CUstream(torch.cuda.current_stream().cuda_stream)


# %% exercise ch07.cluster_reduction
@cute.jit
def cluster_pair(
    m: Float32, d: Float32, slots: cute.Tensor, mbar: cute.Pointer, tile: cutlass.Constexpr
):
    """(m, d) of a whole row, in every warp of every block of the cluster, from a pair a warp."""
    warp, lane = cute.arch.warp_idx(), cute.arch.lane_idx()
    rank = cute.arch.block_idx_in_cluster()
    ### BEGIN SOLUTION expect, wait for the peers' barriers, send to every peer, wait (8 lines)
    if warp == 0:
        with cute.arch.elect_one():  # before any pair can arrive: the barrier can't complete early
            cute.arch.mbarrier_arrive_and_expect_tx(mbar, tile.pairs * PAIR_BYTES)
    cute.arch.cluster_wait()  # every block's barrier is initialised now
    if lane < tile.blocks:  # one lane, one peer
        send_pair(m, d, slots[0, rank * tile.warps + warp, None], mbar, lane)
    cute.arch.mbarrier_wait(mbar, 0)  # all pairs of the row are here
    ### END SOLUTION
    m, d = -Float32.inf, Float32(0.0)
    if lane < tile.pairs:
        m, d = slots[0, lane, 0], slots[0, lane, 1]
    ### BEGIN SOLUTION the row's maximum, then the sums, scaled to it, added up (2 lines)
    row_m = cute.arch.warp_reduction_max(m)
    row_d = cute.arch.warp_reduction_sum(d * cute.math.exp(m - row_m, fastmath=True))
    ### END SOLUTION
    return row_m, row_d


@cute.kernel
def row_pairs_kernel(mX: cute.Tensor, mM: cute.Tensor, mD: cute.Tensor, tile: cutlass.Constexpr):
    """One row a cluster. mX: (M, N). mM, mD: (M, blocks), what each block knows in the end."""
    tidx, _, _ = cute.arch.thread_idx()
    bidx, rank, _ = cute.arch.block_idx()
    load_store, tXpX, tXgX = partition(tile, mX)
    slots, mbar = allocate_slots(tile)
    ### BEGIN SOLUTION one thread initialises mbar; fence; say so to the cluster (4 lines)
    if tidx == 0:
        cute.arch.mbarrier_init(mbar, 1)  # one arrival, the one that brings expect_tx
    cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive_relaxed()  # early: the peers' loads hide the way
    ### END SOLUTION
    _, m, d = online_pair(load(load_store, tXgX, tXpX, -math.inf), 32)
    m, d = cluster_pair(m, d, slots, mbar, tile)
    if tidx == 0:
        mM[bidx, rank], mD[bidx, rank] = m, d


@cute.jit
def row_pairs_launch(
    mX: cute.Tensor,
    mM: cute.Tensor,
    mD: cute.Tensor,
    stream: cuda.CUstream,
    tile: cutlass.Constexpr,
):
    """A row of blocks for each row of X, and these are one cluster."""
    ### BEGIN SOLUTION the grid, the block and the cluster (6 lines)
    row_pairs_kernel(mX, mM, mD, tile).launch(
        grid=(mX.shape[0], tile.blocks, 1),
        block=(tile.block_threads, 1, 1),
        cluster=(1, tile.blocks, 1),
        stream=stream,
    )
    ### END SOLUTION


@functools.cache
def compile_row_pairs(dtype: torch.dtype, tile: Tile):
    """The compiled launch for a dtype and a tile, for any M and row stride."""
    mM = make_fake_tensor(Float32, (cute.sym_int(), tile.blocks), (tile.blocks, 1), assumed_align=4)
    return cute.compile(
        row_pairs_launch, fake_matrix(dtype, tile), mM, mM, make_fake_stream(), tile
    )


def row_pairs(x: torch.Tensor, blocks: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The maximum m of each row, and d, the sum of exp(x - m): as each block of its cluster has them.

    x: (M, N) float32, float16 or bfloat16, rows contiguous, N <= 262144.  blocks: 2, 4, 8 or 16.
    Returns m and d, (M, blocks) float32 each, equal along a row. Reads M*N*itemsize bytes.
    Raises ValueError naming the argument and what it must be.
    """
    check_matrix("x", x)
    if blocks not in (2, 4, 8, 16):
        raise ValueError(f"blocks must be 2, 4, 8 or 16, got {blocks}")
    m, d = (torch.empty(x.shape[0], blocks, device=x.device) for _ in range(2))
    if x.numel():
        tile = Tile(x.shape[1], widest_vector(x), 64, 64, blocks)
        arguments = to_cute(x, tile.vector), to_cute(m, 1), to_cute(d, 1)
        compile_row_pairs(x.dtype, tile)(*arguments, current_stream())
    return m, d


# %% exercise ch07.softmax
# Rows of at most N elements: (threads a block, threads a row, blocks a row). Each entry is the fastest
# of those tried in docs/data/tune_ch07_h200.json, at that N, M * N = 2**29 (tests/gpu/tune_ch07.py).
# fmt: off
TILES = {
    # N:    forward, 16 bits   forward, 32 bits   backward, 16 bits  backward, 32 bits
    32:     ((128, 8, 1),      (128, 8, 1),       (128, 8, 1),       (128, 8, 1)),
    64:     ((128, 8, 1),      (128, 16, 1),      (128, 8, 1),       (128, 16, 1)),
    128:    ((128, 16, 1),     (128, 32, 1),      (128, 16, 1),      (128, 32, 1)),
    256:    ((128, 32, 1),     (128, 32, 1),      (128, 32, 1),      (128, 32, 1)),
    512:    ((64, 32, 1),      (64, 32, 1),       (128, 32, 1),      (128, 32, 1)),
    1024:   ((128, 64, 1),     (128, 128, 1),     (128, 32, 1),      (128, 32, 1)),
    2048:   ((128, 128, 1),    (128, 32, 1),      (128, 128, 1),     (128, 128, 1)),
    4096:   ((64, 64, 1),      (512, 512, 1),     (512, 512, 1),     (512, 512, 1)),
    8192:   ((512, 256, 1),    (1024, 1024, 1),   (512, 512, 1),     (1024, 1024, 1)),
    16384:  ((512, 512, 1),    (512, 512, 1),     (256, 256, 2),     (1024, 1024, 1)),
    32768:  ((128, 128, 4),    (512, 512, 2),     (256, 256, 4),     (256, 256, 2)),
    65536:  ((256, 256, 8),    (512, 512, 4),     (256, 256, 8),     (512, 512, 4)),
    131072: ((256, 256, 8),    (512, 512, 8),     (256, 256, 16),    (256, 256, 16)),
    262144: ((256, 256, 16),   (256, 256, 16),    (512, 512, 8),     (256, 256, 16)),
}
# fmt: on


def tile_for(x: torch.Tensor, vector: int, backward: bool = False) -> Tile:
    """The tile of the first entry that holds rows as long as those of x."""
    N = x.shape[1]
    chosen = next(tiles for longest, tiles in TILES.items() if N <= longest)
    return Tile(N, vector, *chosen[2 * backward + (x.itemsize == 4)])


@cute.jit
def row_pair(
    m: Float32, d: Float32, slots: cute.Tensor, mbar: cute.Pointer, tile: cutlass.Constexpr
):
    """(m, d) of a whole row in every thread that shares it, from a pair a warp, in one exchange."""
    warp, lane = cute.arch.warp_idx(), cute.arch.lane_idx()
    row, place = warp // tile.warps, warp % tile.warps
    each = -(-tile.pairs // 32)  # pairs that a lane combines
    ms, ds = (cute.make_rmem_tensor((each,), Float32) for _ in range(2))
    ms.fill(-Float32.inf)
    ds.fill(0.0)
    ### BEGIN SOLUTION send and wait, in a cluster or in a block, and fill ms and ds (16 lines)
    if const_expr(tile.blocks > 1):
        if warp == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(mbar, tile.rows * tile.pairs * PAIR_BYTES)
        cute.arch.cluster_wait()
        place += cute.arch.block_idx_in_cluster() * tile.warps
        if lane < tile.blocks:
            send_pair(m, d, slots[row, place, None], mbar, lane)
        cute.arch.mbarrier_wait(mbar, 0)
    else:
        if lane == 0:
            slots[row, place, 0], slots[row, place, 1] = m, d
        cute.arch.barrier()
    for i in cutlass.range_constexpr(each):
        if lane + 32 * i < tile.pairs:
            ms[i], ds[i] = slots[row, lane + 32 * i, 0], slots[row, lane + 32 * i, 1]
    ### END SOLUTION
    row_m = cute.arch.warp_reduction_max(ms.load().reduce(cute.ReductionOp.MAX, -Float32.inf, 0))
    scaled = ds.load() * cute.math.exp(ms.load() - row_m, fastmath=True)
    return row_m, cute.arch.warp_reduction_sum(scaled.reduce(cute.ReductionOp.ADD, Float32(0.0), 0))


@cute.jit
def open_exchange(tile: cutlass.Constexpr) -> tuple[cute.Tensor, cute.Pointer]:
    """The slots and the mbarrier of row_pair, and word to the cluster that they are ready."""
    slots, mbar = allocate_slots(tile)
    if const_expr(tile.blocks > 1):
        if cute.arch.thread_idx()[0] == 0:
            cute.arch.mbarrier_init(mbar, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.cluster_arrive_relaxed()
    return slots, mbar


@cute.kernel
def softmax_kernel(mX: cute.Tensor, mO: cute.Tensor, tile: cutlass.Constexpr):
    """Softmax of the rows of X. mX, mO: (M, N)."""
    load_store, tXpX, tXgX, tXgO = partition(tile, mX, mO)
    slots, mbar = open_exchange(tile)
    ### BEGIN SOLUTION load, this warp's pair, the row's pair, scale, store (7 lines)
    x = load(load_store, tXgX, tXpX, -math.inf)
    e, m, d = online_pair(x, min(tile.row_threads, 32))
    row_m, row_d = m, d
    if const_expr(tile.pairs > 1):
        row_m, row_d = row_pair(m, d, slots, mbar, tile)
    # A row of only -inf has m - row_m = NaN, and all of it becomes NaN, as in PyTorch.
    scale = cute.math.exp(m - row_m, fastmath=True) * cute.arch.rcp_approx(row_d)
    store(load_store, e * scale, tXgO, tXpX)
    ### END SOLUTION


@cute.jit
def launch(
    kernel: cutlass.Constexpr, tensors: tuple, stream: cuda.CUstream, tile: cutlass.Constexpr
):
    """Blocks for all rows. One block a row is no cluster: launching one of 1 would take longer."""
    kernel(*tensors, tile).launch(
        grid=(cute.ceil_div(tensors[0].shape[0], tile.rows), tile.blocks, 1),
        block=(tile.block_threads, 1, 1),
        cluster=(1, tile.blocks, 1) if const_expr(tile.blocks > 1) else None,
        stream=stream,
    )


@functools.cache
def compile_rows(kernel, tensors: int, dtype: torch.dtype, tile: Tile):
    """The compiled launch of a kernel of so many (M, N) tensors, for any M and row strides."""
    fakes = tuple(fake_matrix(dtype, tile) for _ in range(tensors))
    return cute.compile(launch, kernel, fakes, make_fake_stream(), tile)


def softmax_forward(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last dimension, without autograd. NaN where torch.softmax has NaN.

    x: (M, N) float32, float16 or bfloat16 on a CUDA device of capability 9.0 or higher, rows
       contiguous, any distance between them, N <= 262144. Computed in float32.
    Returns a contiguous (M, N) in x's dtype. Moves 2*M*N*itemsize bytes.
    Raises ValueError naming the argument and what it must be.
    """
    check_matrix("x", x)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.shape[0]:
        vector = widest_vector(x)
        tile = tile_for(x, vector)
        tensors = tuple(to_cute(t, vector) for t in (x, out))
        compile_rows(softmax_kernel, 2, x.dtype, tile)(tensors, current_stream())
    return out


# %% reference the backward pass, and an operator that trains and that torch.compile keeps
@cute.kernel
def softmax_backward_kernel(
    mY: cute.Tensor, mdY: cute.Tensor, mdX: cute.Tensor, tile: cutlass.Constexpr
):
    """dX = Y * (dY - the row's sum of Y * dY). mY, mdY, mdX: (M, N)."""
    load_store, tXpX, tXgY, tXgdY, tXgdX = partition(tile, mY, mdY, mdX)
    slots, mbar = open_exchange(tile)
    y, dy = (load(load_store, part, tXpX, 0.0) for part in (tXgY, tXgdY))
    dot = (y * dy).reduce(cute.ReductionOp.ADD, Float32(0.0), 0)
    dot = cute.arch.warp_reduction_sum(dot, threads_in_group=min(tile.row_threads, 32))
    if const_expr(tile.pairs > 1):
        _, dot = row_pair(Float32(0.0), dot, slots, mbar, tile)  # of one maximum: a plain sum
    store(load_store, y * (dy - dot), tXgdX, tXpX)


@torch.library.custom_op("kernel_ladder::softmax", mutates_args=(), device_types="cuda")
def softmax_operator(x: torch.Tensor) -> torch.Tensor:
    """softmax_forward as an operator of PyTorch."""
    return softmax_forward(x)


@torch.library.custom_op("kernel_ladder::softmax_backward", mutates_args=(), device_types="cuda")
def softmax_backward(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    """The gradient of x from softmax's output and its gradient: (M, N), of one dtype.

    Returns a contiguous (M, N). Moves 3*M*N*itemsize bytes.
    """
    check_matrix("y", y)
    check_matrix("dy", dy)
    if y.shape != dy.shape or y.dtype != dy.dtype:
        raise ValueError("dy must have the shape and dtype of y")
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    if y.shape[0]:
        vector = widest_vector(y, dy)
        tile = tile_for(y, vector, backward=True)
        tensors = tuple(to_cute(t, vector) for t in (y, dy, dx))
        compile_rows(softmax_backward_kernel, 3, y.dtype, tile)(tensors, current_stream())
    return dx


@softmax_operator.register_fake
@softmax_backward.register_fake
def made_like(x: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
    """What torch.compile is told of both operators: a contiguous tensor like the first."""
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def save_output(ctx, inputs: tuple, output: torch.Tensor) -> None:
    """Y is all that the backward pass needs of the forward pass."""
    ctx.save_for_backward(output)


def gradient(ctx, dy: torch.Tensor) -> torch.Tensor:
    """dX. The dY of a sum is one number with strides of 0: that one is written out first."""
    return softmax_backward(ctx.saved_tensors[0], dy if dy.stride(1) == 1 else dy.contiguous())


softmax_operator.register_autograd(gradient, setup_context=save_output)


def softmax(x: torch.Tensor) -> torch.Tensor:
    """softmax_forward that can be trained through (once differentiable), also in torch.compile."""
    if not x.is_cuda:
        raise ValueError(f"x must be on a CUDA device, got {x.device}")
    return softmax_operator(x)
