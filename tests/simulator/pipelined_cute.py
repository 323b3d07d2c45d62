"""CuTe DSL kernels that move tiles through pipelines of TMA copies: what the DSL's own pipeline
classes become."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
import cutlass.pipeline as pipeline
from cutlass.cute.nvgpu import cpasync

TILE = (32, 64)
STAGES = 3
CONSUMERS = 64


@cute.kernel
def double_kernel(
    load: cute.CopyAtom,
    source: cute.Tensor,
    store: cute.CopyAtom,
    target: cute.Tensor,
    layout: cute.Layout,
    without: cutlass.Constexpr[str],
):
    """Warp 0 loads the tiles of a column of tiles; warps 1 and 2 double them; warp 1 stores them."""
    tid, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    column, _, _ = cute.arch.block_idx()
    smem = cutlass.memory.SmemAllocator()
    barriers = smem.allocate_array(cutlass.Int64, 2 * STAGES)
    tiles = smem.allocate_tensor(cutlass.Float32, layout, byte_alignment=1024)
    results = smem.allocate_tensor(
        cutlass.Float32, cute.make_layout(TILE, stride=(TILE[1], 1)), byte_alignment=1024
    )
    loads = pipeline.PipelineTmaAsync.create(
        barrier_storage=barriers,
        num_stages=STAGES,
        producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, CONSUMERS // 32),
        tx_count=TILE[0] * TILE[1] * (2 if without == "half the bytes" else 4),
    )
    stores = pipeline.PipelineTmaStore.create(
        num_stages=1, producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, CONSUMERS)
    )
    sources = cute.local_tile(source, TILE, (None, column))
    targets = cute.local_tile(target, TILE, (None, column))
    to, tiles_in = cpasync.tma_partition(
        load, 0, cute.make_layout(1), cute.group_modes(tiles, 0, 2), cute.group_modes(sources, 0, 2)
    )
    results_out, tiles_out = cpasync.tma_partition(
        store,
        0,
        cute.make_layout(1),
        cute.group_modes(results, 0, 2),
        cute.group_modes(targets, 0, 2),
    )
    count = cute.size(sources, mode=[2])
    if warp == 0:
        producer = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, STAGES)
        for i in cutlass.range(count):
            loads.producer_acquire(producer)
            cute.copy(
                load,
                tiles_in[None, i],
                to[None, producer.index],
                tma_bar_ptr=loads.producer_get_barrier(producer),
            )
            loads.producer_commit(producer)
            producer.advance()
        loads.producer_tail(producer)
    else:
        consumer = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, STAGES)
        for i in cutlass.range(count):
            if cutlass.const_expr(without != "wait"):
                loads.consumer_wait(consumer)
            for row in cutlass.range(TILE[0]):
                results[row, tid - 32] = 2 * tiles[row, tid - 32, consumer.index]
            if cutlass.const_expr(without != "warp sync"):
                cute.arch.sync_warp()  # one lane of the warp arrives for all
            if cutlass.const_expr(without != "release"):
                loads.consumer_release(consumer)
            consumer.advance()
            if cutlass.const_expr(without != "fence"):
                cute.arch.fence_proxy("async.shared", space="cta")
            cute.arch.barrier(barrier_id=1, number_of_threads=CONSUMERS)
            if warp == 1:
                cute.copy(store, results_out, tiles_out[None, i])
                stores.producer_commit()
                if cutlass.const_expr(without != "store wait"):
                    stores.producer_acquire()
            cute.arch.barrier(barrier_id=1, number_of_threads=CONSUMERS)


@cute.jit
def double(source: cute.Tensor, target: cute.Tensor, without: cutlass.Constexpr[str]):
    """target = 2 * source, both (M, N) float32, M a multiple of 32, N of 64.

    without: a part that is left out, "" for none.
    """
    one = cute.make_layout(TILE, stride=(TILE[1], 1))
    layout = cute.make_layout((*TILE, STAGES), stride=(TILE[1], 1, TILE[0] * TILE[1]))
    load, sources = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileG2SOp(), source, one, TILE
    )
    store, targets = cpasync.make_tiled_tma_atom(
        cpasync.CopyBulkTensorTileS2GOp(), target, one, TILE
    )
    double_kernel(load, sources, store, targets, layout, without).launch(
        grid=(cute.size(source, mode=[1]) // TILE[1], 1, 1), block=(96, 1, 1)
    )
