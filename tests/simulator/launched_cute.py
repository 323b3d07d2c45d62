"""CuTe DSL kernels whose launches the tests catch: small, one feature each."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import cpasync


@cute.kernel
def add_kernel(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, n: cutlass.Int32):
    tid, _, _ = cute.arch.thread_idx()
    bid, _, _ = cute.arch.block_idx()
    i = bid * 128 + tid
    if i < n:
        c[i] = a[i] + b[i]


@cute.jit
def add(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    n = cute.size(a)
    add_kernel(a, b, c, n).launch(grid=((n + 127) // 128, 1, 1), block=(128, 1, 1))


@cute.jit
def add_one_too_many(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    n = cute.size(a)
    add_kernel(a, b, c, n + 1).launch(grid=((n + 128) // 128, 1, 1), block=(128, 1, 1))


@cute.jit
def add_twice(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor):
    """c = a + b, then b = c + a."""
    n = cute.size(a)
    add_kernel(a, b, c, n).launch(grid=((n + 127) // 128, 1, 1), block=(128, 1, 1))
    add_kernel(c, a, b, n).launch(grid=((n + 127) // 128, 1, 1), block=(128, 1, 1))


@cute.jit
def add_lists(inputs: list, out: cute.Tensor):
    n = cute.size(out)
    add_kernel(inputs[0], inputs[1], out, n).launch(
        grid=((n + 127) // 128, 1, 1), block=(128, 1, 1)
    )


@cute.kernel
def rank_kernel(out: cute.Tensor):
    tid, _, _ = cute.arch.thread_idx()
    rank = cute.arch.block_idx_in_cluster()
    smem = cutlass.memory.SmemAllocator()
    buffer = smem.allocate_tensor(cutlass.Float32, cute.make_layout(64), byte_alignment=16)
    buffer[tid] = cutlass.Float32(rank)
    cute.arch.sync_threads()
    bid, _, _ = cute.arch.block_idx()
    out[bid * 64 + tid] = buffer[63 - tid]


@cute.jit
def ranks(out: cute.Tensor):
    rank_kernel(out).launch(
        grid=(cute.size(out) // 64, 1, 1), block=(64, 1, 1), cluster=(2, 1, 1), smem=4096
    )


@cute.kernel
def tma_kernel(
    atom: cute.CopyAtom, source: cute.Tensor, out: cute.Tensor, layout: cute.ComposedLayout
):
    tid, _, _ = cute.arch.thread_idx()
    smem = cutlass.memory.SmemAllocator()
    barrier = smem.allocate_array(cutlass.Int64, 1)
    tile = smem.allocate_tensor(
        cutlass.Float16, layout.outer, byte_alignment=1024, swizzle=layout.inner
    )
    if tid == 0:
        cute.arch.mbarrier_init(barrier, 1)
    cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    tiles = cute.local_tile(source, (32, 64), (0, 0))
    to, gmem = cpasync.tma_partition(
        atom, 0, cute.make_layout(1), cute.group_modes(tile, 0, 2), cute.group_modes(tiles, 0, 2)
    )
    if cute.arch.make_warp_uniform(tid // 32) == 0:  # the copy elects one thread itself
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(barrier, 32 * 64 * 2)
        cute.copy(atom, gmem, to, tma_bar_ptr=barrier)
    cute.arch.mbarrier_wait(barrier, 0)
    for row in range(32):
        out[row, tid] = tile[row, tid]


@cute.jit
def tma_copy(source: cute.Tensor, out: cute.Tensor):
    """Tile (0, 0) of source, (32, 64) of float16, by TMA with a 128-byte swizzle."""
    atom = cute.nvgpu.warpgroup.make_smem_layout_atom(
        cute.nvgpu.warpgroup.SmemLayoutAtomKind.K_SW128, cutlass.Float16
    )
    layout = cute.tile_to_shape(atom, (32, 64), order=(0, 1))
    copy, coordinates = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileG2SOp(), source, layout, (32, 64)
    )
    tma_kernel(copy, coordinates, out, layout).launch(grid=(1, 1, 1), block=(64, 1, 1))
