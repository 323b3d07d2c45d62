"""Softmax at the speed of the memory, for rows of 1 to 262144 elements, forward and backward.

A row belongs to some lanes of a warp, to some warps of a block, or to all blocks of a cluster. Each
thread loads its part once, 16 bytes at a time, and keeps it in registers. Each warp makes two
numbers of its part: m, the maximum, and d, the sum of exp(x - m). The pairs of all warps of a row
meet in shared memory, across blocks through distributed shared memory, and every warp combines
them. So there is one exchange, and each element crosses the memory bus twice: in, and out.

Sources: Milakov and Gimelshein, Online normalizer calculation for softmax (2018), for the pairs;
QuACK's reductions, for sending them to all peers at once; the PTX manual, for st.async.
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
from cutlass.memory import SmemAllocator

CUTE_DTYPE = {
    torch.float32: cutlass.Float32,
    torch.float16: cutlass.Float16,
    torch.bfloat16: cutlass.BFloat16,
}
LONGEST_ROW = 262144
PAIR_BYTES = 8  # m and d, float32 both


@dataclass(frozen=True)
class Tile:
    """Who holds what of rows of N elements: the one description that all kernels here share."""

    N: int
    vector: int  # elements of a load
    block_threads: int
    row_threads: int  # so many neighbours share a row: 8, 16, or whole warps,
    blocks: int  # in each of so many blocks, a cluster

    rows = property(lambda tile: tile.block_threads // tile.row_threads)  # of a block
    warps = property(lambda tile: max(tile.row_threads // 32, 1))  # of a block that share a row
    pairs = property(lambda tile: tile.warps * tile.blocks)  # of a row, one a warp
    steps = property(lambda tile: -(-tile.N // (tile.vector * tile.row_threads * tile.blocks)))
    columns = property(lambda tile: tile.steps * tile.vector * tile.row_threads)  # of a block
    whole = property(lambda tile: tile.columns * tile.blocks == tile.N)  # no vector is missing


def partition(tile: Tile, *tensors: cute.Tensor) -> tuple:
    """A copy atom, which of this thread's vectors exist, and its part of each (M, N) tensor."""
    tidx, _, _ = cute.arch.thread_idx()
    bidx, rank, _ = cute.arch.block_idx()
    dtype, M = tensors[0].element_type, tensors[0].shape[0]
    copy_bits = tile.vector * dtype.width
    atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), dtype, num_bits_per_copy=copy_bits)
    threads = cute.make_ordered_layout((tile.rows, tile.row_threads), order=(1, 0))
    values = cute.make_layout((1, tile.vector))
    thr_copy = cute.make_tiled_copy_tv(atom, threads, values).get_slice(tidx)
    tXcX, *parts = (  # each ((vector, 1), 1, vectors of a thread)
        thr_copy.partition_S(cute.local_tile(tensor, (tile.rows, tile.columns), (bidx, rank)))
        for tensor in (cute.make_identity_tensor(tensors[0].shape), *tensors)
    )
    tXpX = cute.make_rmem_tensor((1, 1, tXcX.shape[2]), Boolean)
    for v in range(tXcX.shape[2]):
        row, column = tXcX[0, 0, v]
        exists = row < M if tile.whole else cute.elem_less((row, column), (M, tile.N))
        tXpX[0, 0, v] = exists
    return atom, tXpX, *parts


def load(tile: Tile, atom: cute.CopyAtom, tXgX: cute.Tensor, tXpX: cute.Tensor, padding: float):
    """This thread's elements as float32, and ``padding`` where a row has none."""
    tXrX = cute.make_rmem_tensor_like(tXgX)
    if not tile.whole:
        tXrX.fill(tXrX.element_type(padding))
    cute.copy(atom, tXgX, tXrX, pred=tXpX)
    return tXrX.load().to(Float32)


def store(atom: cute.CopyAtom, values: cute.TensorSSA, tXgO: cute.Tensor, tXpX: cute.Tensor):
    """Rounds to the output's dtype, once, and stores what exists."""
    tXrO = cute.make_rmem_tensor_like(tXgO)
    tXrO.store(values.to(tXrO.element_type))
    cute.copy(atom, tXrO, tXgO, pred=tXpX)


@cute.jit
def warp_pair(x: cute.TensorSSA, tile: cutlass.Constexpr):
    """(exp(x - m), m, d) of the elements that the lanes of one warp hold of a row."""
    lanes = min(tile.row_threads, 32)
    m = x.reduce(cute.ReductionOp.MAX, -Float32.inf, 0)
    m = cute.arch.warp_reduction_max(m, threads_in_group=lanes)
    # Only -inf here: subtract 0, and each exp is 0. -inf - -inf would be NaN.
    e = cute.math.exp(x - (Float32(0.0) if m == -Float32.inf else m), fastmath=True)
    d = e.reduce(cute.ReductionOp.ADD, Float32(0.0), 0)
    return e, m, cute.arch.warp_reduction_sum(d, threads_in_group=lanes)


def allocate_exchange(tile: Tile) -> tuple[cute.Tensor, cute.Pointer]:
    """Shared memory of a block: slots (rows, pairs, 2) of float32, and one mbarrier."""
    smem = SmemAllocator()
    mbar = smem.allocate_array(Int64, 1)
    layout = cute.make_ordered_layout((tile.rows, tile.pairs, 2), order=(2, 1, 0))
    return smem.allocate_tensor(Float32, layout, byte_alignment=PAIR_BYTES), mbar


def send_pair(m: Float32, d: Float32, slot: cute.Tensor, mbar: cute.Pointer, peer: Int32) -> None:
    """st.async of a pair to the same slot in block ``peer`` of the cluster. When it has arrived
    there, its 8 bytes are counted on that block's mbarrier. slot: (2,), shared."""
    place = slot.iterator.toint()
    place = cute.make_ptr(Int32, place, cute.AddressSpace.smem, assumed_align=PAIR_BYTES)
    cute.arch.store_async_dsmem(place, (m.bitcast(Int32), d.bitcast(Int32)), mbar, peer)


def check_matrix(name: str, x: torch.Tensor) -> None:
    """What every function below asks of a tensor; a compiled kernel would check none of it."""
    if not x.is_cuda or x.get_device() != torch.cuda.current_device():
        raise ValueError(f"{name} must be on the current CUDA device, got {x.device}")
    if x.dtype not in CUTE_DTYPE:
        raise ValueError(f"{name} must be float32, float16 or bfloat16, got {x.dtype}")
    if x.dim() != 2 or not 1 <= x.shape[1] <= LONGEST_ROW or x.shape[0] > 2**30:
        limits = f"M <= 2**30 and 1 <= N <= {LONGEST_ROW}"
        raise ValueError(f"{name} must be (M, N), {limits}, got {tuple(x.shape)}")
    if (x.shape[1] > 1 and x.stride(1) != 1) or (x.shape[0] > 1 and x.stride(0) == 0):
        raise ValueError(f"{name} must have contiguous rows, apart: strides (> 0, 1)")


def row_alignment(x: torch.Tensor) -> int:
    """Bytes, 16 at most, that divide the address, the length and the distance of the rows."""
    row_stride = x.stride(0) if x.shape[0] > 1 else 0
    return math.gcd(16, x.data_ptr(), x.shape[1] * x.itemsize, row_stride * x.itemsize)


@cute.jit
def launch(kernel: cutlass.Constexpr, tensors, stream: cuda.CUstream, tile: cutlass.Constexpr):
    """Blocks for all rows, a cluster along each. One block alone is launched faster without."""
    kernel(*tensors, tile).launch(
        grid=(cute.ceil_div(tensors[0].shape[0], tile.rows), tile.blocks, 1),
        block=(tile.block_threads, 1, 1),
        cluster=(1, tile.blocks, 1) if const_expr(tile.blocks > 1) else None,
        stream=stream,
    )


@functools.cache
def compile_kernel(kernel, tile: Tile, forms: tuple[tuple[torch.dtype, int], ...]):
    """The compiled launch for matrices of these (dtype, row_alignment), any M, any row stride."""
    fakes = []
    for dtype, align in forms:
        strides = (cute.sym_int64(divisibility=align // dtype.itemsize), 1)  # offsets of 64 bits
        shape = (cute.sym_int(), cute.sym_int())
        fakes.append(make_fake_tensor(CUTE_DTYPE[dtype], shape, strides, assumed_align=align))
    return cute.compile(launch, kernel, tuple(fakes), make_fake_stream(), tile)


def run(kernel, tile: Tile, *tensors: torch.Tensor) -> None:
    """Launches a kernel on matrices of M rows each, on the caller's current stream."""
    if tensors[0].shape[0]:
        forms = tuple((t.dtype, row_alignment(t)) for t in tensors)
        rows = (t.detach().as_strided(t.shape, (t.stride(0), 1)) for t in tensors)  # N may be 1
        arguments = tuple(
            from_dlpack(t, assumed_align=align).mark_layout_dynamic(1)
            for t, (_, align) in zip(rows, forms, strict=True)
        )
        stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
        compile_kernel(kernel, tile, forms)(arguments, stream)


# %% exercise ch07.cluster_reduction
@cute.jit
def cluster_pair(m, d, slots: cute.Tensor, mbar: cute.Pointer, tile: cutlass.Constexpr):
    """(m, d) of a whole row, in every warp of every block of the cluster, from a pair a warp."""
    warp, lane = cute.arch.warp_idx(), cute.arch.lane_idx()
    rank = cute.arch.block_idx_in_cluster()
    ### BEGIN SOLUTION expect, wait until the peers are ready, send to each, wait (7 lines)
    if warp == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(mbar, tile.pairs * PAIR_BYTES)
    cute.arch.cluster_wait()  # now every block's mbarrier is initialised
    if lane < tile.blocks:  # one lane, one peer
        send_pair(m, d, slots[0, rank * tile.warps + warp, None], mbar, lane)
    cute.arch.mbarrier_wait(mbar, 0)  # now all pairs of the row are here
    ### END SOLUTION
    m, d = -Float32.inf, Float32(0.0)  # for lanes that have no pair
    if lane < tile.pairs:
        m, d = slots[0, lane, 0], slots[0, lane, 1]
    ### BEGIN SOLUTION the row's maximum; the sums, each scaled to it, added up (2 lines)
    row_m = cute.arch.warp_reduction_max(m)
    row_d = cute.arch.warp_reduction_sum(d * cute.math.exp(m - row_m, fastmath=True))
    ### END SOLUTION
    return row_m, row_d


@cute.kernel
def row_pairs_kernel(mX: cute.Tensor, mM: cute.Tensor, mD: cute.Tensor, tile: cutlass.Constexpr):
    """One row a cluster. mX: (M, N). mM, mD: (M, blocks), what each block has in the end."""
    tidx, _, _ = cute.arch.thread_idx()
    bidx, rank, _ = cute.arch.block_idx()
    atom, tXpX, tXgX = partition(tile, mX)
    slots, mbar = allocate_exchange(tile)
    ### BEGIN SOLUTION one thread initialises the mbarrier; fence; tell the cluster (4 lines)
    if tidx == 0:
        cute.arch.mbarrier_init(mbar, 1)  # one arrival: that of the thread that expects
    cute.arch.mbarrier_init_fence()
    cute.arch.cluster_arrive_relaxed()  # early: the loads below take longer than the news
    ### END SOLUTION
    _, m, d = warp_pair(load(tile, atom, tXgX, tXpX, -math.inf), tile)
    m, d = cluster_pair(m, d, slots, mbar, tile)
    if tidx == 0:
        mM[bidx, rank], mD[bidx, rank] = m, d


def row_pairs(x: torch.Tensor, blocks: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Each row's maximum m and sum d of exp(x - m), as every block of its cluster has them.

    x: (M, N) float32, float16 or bfloat16, rows contiguous, N <= 65536, 32768 with 2 blocks.
       blocks: 2, 4, 8 or 16. A thread's 64 elements stay in its registers; a lane takes one pair.
    Returns m and d, (M, blocks) float32 each, equal along a row. Reads M*N*itemsize bytes.
    Raises ValueError naming the argument and what it must be.
    """
    check_matrix("x", x)
    if blocks not in (2, 4, 8, 16):
        raise ValueError(f"blocks must be 2, 4, 8 or 16, got {blocks}")
    threads = 32 * min(8, 32 // blocks)
    if x.shape[1] > 64 * threads * blocks:
        raise ValueError(f"x must have at most {64 * threads * blocks} columns, got {x.shape[1]}")
    m, d = (torch.empty(x.shape[0], blocks, device=x.device) for _ in range(2))
    tile = Tile(x.shape[1], row_alignment(x) // x.itemsize, threads, threads, blocks)
    run(row_pairs_kernel, tile, x, m, d)
    return m, d


# %% exercise ch07.softmax
# Rows of at most N elements: (threads a block, threads a row, blocks a row). Each entry is within a
# percent of the fastest that was tried at its N, M * N = 2**29, on an H200, and of those the best
# for 4096 rows, or the smallest cluster: docs/data/tune_ch07_h200.json, docs/notes/ch07.md.
# fmt: off
TILES = {
    # N:    forward, 16 bits   forward, 32 bits   backward, 16 bits  backward, 32 bits
    64:     ((128, 8, 1),      (128, 16, 1),      (128, 8, 1),       (128, 16, 1)),
    128:    ((128, 16, 1),     (128, 32, 1),      (128, 16, 1),      (128, 32, 1)),
    256:    ((128, 32, 1),     (128, 32, 1),      (128, 32, 1),      (128, 32, 1)),
    512:    ((64, 32, 1),      (64, 32, 1),       (128, 32, 1),      (128, 64, 1)),
    1024:   ((64, 32, 1),      (64, 64, 1),       (128, 64, 1),      (256, 256, 1)),
    2048:   ((128, 128, 1),    (1024, 256, 1),    (128, 128, 1),     (512, 512, 1)),
    4096:   ((512, 128, 1),    (512, 64, 1),      (512, 512, 1),     (512, 512, 1)),
    8192:   ((512, 256, 1),    (1024, 1024, 1),   (512, 512, 1),     (1024, 1024, 1)),
    16384:  ((512, 512, 1),    (512, 512, 1),     (256, 256, 2),     (1024, 1024, 1)),
    32768:  ((256, 256, 4),    (1024, 1024, 2),   (256, 256, 4),     (256, 256, 2)),
    65536:  ((256, 256, 8),    (1024, 1024, 2),   (256, 256, 8),     (512, 512, 4)),
    131072: ((256, 256, 8),    (512, 512, 8),     (256, 256, 16),    (256, 256, 16)),
    262144: ((256, 256, 16),   (256, 256, 16),    (512, 512, 8),     (512, 512, 16)),
}
# fmt: on


def tile_for(*tensors: torch.Tensor, backward: bool = False) -> Tile:
    """The tile of the first entry for rows as long as the tensors', with loads that fit all."""
    N, itemsize = tensors[0].shape[1], tensors[0].itemsize
    chosen = next(tiles for longest, tiles in TILES.items() if N <= longest)
    vector = min(map(row_alignment, tensors)) // itemsize
    return Tile(N, vector, *chosen[2 * backward + (itemsize == 4)])


@cute.jit
def open_exchange(tile: cutlass.Constexpr):
    """The slots and the mbarrier of row_pair; in a cluster the peers are told of them."""
    slots, mbar = allocate_exchange(tile)
    if const_expr(tile.blocks > 1):
        if cute.arch.thread_idx()[0] == 0:
            cute.arch.mbarrier_init(mbar, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.cluster_arrive_relaxed()
    return slots, mbar


@cute.jit
def row_pair(m, d, slots: cute.Tensor, mbar: cute.Pointer, tile: cutlass.Constexpr):
    """(m, d) of a whole row, in every warp that shares it, from a pair a warp, in one exchange."""
    warp, lane = cute.arch.warp_idx(), cute.arch.lane_idx()
    row, place = warp // tile.warps, warp % tile.warps
    each = -(-tile.pairs // 32)  # pairs a lane: a row has up to 16 blocks of 16 warps
    ms, ds = (cute.make_rmem_tensor((each,), Float32) for _ in range(2))
    ms.fill(-Float32.inf)
    ds.fill(0.0)
    ### BEGIN SOLUTION send and wait, in a cluster or a block; ms and ds; combine them (19 lines)
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
    row_m = cute.arch.warp_reduction_max(ms.load().reduce(cute.ReductionOp.MAX, -Float32.inf, 0))
    scaled = ds.load() * cute.math.exp(ms.load() - row_m, fastmath=True)
    row_d = cute.arch.warp_reduction_sum(scaled.reduce(cute.ReductionOp.ADD, Float32(0.0), 0))
    ### END SOLUTION
    return row_m, row_d


@cute.kernel
def softmax_kernel(mX: cute.Tensor, mO: cute.Tensor, tile: cutlass.Constexpr):
    """O = softmax of the rows of X. mX, mO: (M, N)."""
    atom, tXpX, tXgX, tXgO = partition(tile, mX, mO)
    slots, mbar = open_exchange(tile)
    ### BEGIN SOLUTION load, the warp's pair, the row's pair, scale, store (6 lines)
    e, m, d = warp_pair(load(tile, atom, tXgX, tXpX, -math.inf), tile)
    row_m, row_d = m, d
    if const_expr(tile.pairs > 1):
        row_m, row_d = row_pair(m, d, slots, mbar, tile)
    # In a row of only -inf m - row_m is NaN, and so is all of the answer, as in PyTorch.
    scale = cute.math.exp(m - row_m, fastmath=True) * cute.arch.rcp_approx(row_d)
    store(atom, e * scale, tXgO, tXpX)
    ### END SOLUTION


def softmax_forward(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last dimension, without autograd; what torch.softmax makes of inf and NaN.

    x: (M, N) float32, float16 or bfloat16 on a CUDA device of capability 9.0 or higher, rows
       contiguous, at any distance, N <= 262144. Computed in float32.
    Returns a contiguous (M, N) in x's dtype. Moves 2*M*N*itemsize bytes.
    Raises ValueError naming the argument and what it must be.
    """
    check_matrix("x", x)
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    run(softmax_kernel, tile_for(x, out), x, out)
    return out


# %% reference the backward pass, and an operator that trains and that torch.compile keeps whole
@cute.kernel
def backward_kernel(mY: cute.Tensor, mdY: cute.Tensor, mdX: cute.Tensor, tile: cutlass.Constexpr):
    """dX = Y * (dY - the row's sum of Y * dY). mY, mdY, mdX: (M, N)."""
    atom, tXpX, tXgY, tXgdY, tXgdX = partition(tile, mY, mdY, mdX)
    slots, mbar = open_exchange(tile)
    y, dy = (load(tile, atom, part, tXpX, 0.0) for part in (tXgY, tXgdY))
    dot = (y * dy).reduce(cute.ReductionOp.ADD, Float32(0.0), 0)
    dot = cute.arch.warp_reduction_sum(dot, threads_in_group=min(tile.row_threads, 32))
    if const_expr(tile.pairs > 1):
        _, dot = row_pair(Float32(0.0), dot, slots, mbar, tile)  # equal m: a plain sum
    store(atom, y * (dy - dot), tXgdX, tXpX)


softmax_operator = torch.library.custom_op(
    "kernel_ladder::softmax", softmax_forward, mutates_args=(), device_types="cuda"
)


@torch.library.custom_op("kernel_ladder::softmax_backward", mutates_args=(), device_types="cuda")
def softmax_backward(y: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
    """x's gradient from softmax's output and its gradient, (M, N) of one dtype, contiguous rows.
    Moves 3*M*N*itemsize bytes."""
    check_matrix("y", y)
    check_matrix("dy", dy)
    if y.shape != dy.shape or y.dtype != dy.dtype:
        raise ValueError("dy must have the shape and dtype of y")
    dx = torch.empty(y.shape, dtype=y.dtype, device=y.device)
    run(backward_kernel, tile_for(y, dy, dx, backward=True), y, dy, dx)
    return dx


@softmax_operator.register_fake
@softmax_backward.register_fake
def contiguous_like(x: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
    """What torch.compile is told of both results."""
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def gradient(ctx, dy: torch.Tensor) -> torch.Tensor:
    """dX. The dY of a sum is one number with strides of 0: that one is written out first."""
    fits = dy.stride(1) == 1 and dy.stride(0) > 0
    return softmax_backward(*ctx.saved_tensors, dy if fits else dy.contiguous())


softmax_operator.register_autograd(
    gradient, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output)
)


def softmax(x: torch.Tensor) -> torch.Tensor:
    """softmax_forward that can be trained through, once differentiable, also in torch.compile."""
    if not x.is_cuda:
        raise ValueError(f"x must be on a CUDA device, got {x.device}")
    return softmax_operator(x)
