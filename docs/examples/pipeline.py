"""A pipeline of three stages: one warp loads tiles by TMA, two warps double them.

ladder simulate docs/examples/pipeline.py --timeline pipeline.svg
ladder simulate docs/examples/pipeline.py wait         without the consumer's wait
ladder simulate docs/examples/pipeline.py release      without giving a stage back
"""

import sys

import cutlass
import cutlass.cute as cute
import cutlass.pipeline as pipeline
import torch
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import from_dlpack

TILE = (32, 64)  # 8 KiB of float32
STAGES = 3
CONSUMERS = 64  # threads: one for each column of a tile


@cute.kernel
def double_kernel(
    load: cute.CopyAtom,
    mX: cute.Tensor,
    mY: cute.Tensor,
    stages: cute.Layout,
    without: cutlass.Constexpr[str],
):
    thread, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    smem = cutlass.memory.SmemAllocator()
    barriers = smem.allocate_array(cutlass.Int64, 2 * STAGES)
    sX = smem.allocate_tensor(cutlass.Float32, stages, byte_alignment=128)
    loads = pipeline.PipelineTmaAsync.create(
        barrier_storage=barriers,
        num_stages=STAGES,
        producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, CONSUMERS // 32),
        tx_count=TILE[0] * TILE[1] * 4,
    )
    gX = cute.local_tile(mX, TILE, (None, 0))
    gY = cute.local_tile(mY, TILE, (None, 0))
    tXsX, tXgX = cpasync.tma_partition(
        load, 0, cute.make_layout(1), cute.group_modes(sX, 0, 2), cute.group_modes(gX, 0, 2)
    )
    tiles = cute.size(gX, mode=[2])
    if warp == 0:
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, STAGES)
        for i in cutlass.range(tiles):
            loads.producer_acquire(state)
            cute.copy(
                load,
                tXgX[None, i],
                tXsX[None, state.index],
                tma_bar_ptr=loads.producer_get_barrier(state),
            )
            loads.producer_commit(state)
            state.advance()
        loads.producer_tail(state)
    else:
        state = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, STAGES)
        for i in cutlass.range(tiles):
            if cutlass.const_expr(without != "wait"):
                loads.consumer_wait(state)
            for row in cutlass.range(TILE[0]):
                gY[row, thread - 32, i] = 2.0 * sX[row, thread - 32, state.index]
            cute.arch.sync_warp()  # one lane of each warp gives the stage back for all
            if cutlass.const_expr(without != "release"):
                loads.consumer_release(state)
            state.advance()


@cute.jit
def double(mX: cute.Tensor, mY: cute.Tensor, without: cutlass.Constexpr[str]):
    one = cute.make_layout(TILE, stride=(TILE[1], 1))
    stages = cute.make_layout((*TILE, STAGES), stride=(TILE[1], 1, TILE[0] * TILE[1]))
    load, gX = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), mX, one, TILE)
    double_kernel(load, gX, mY, stages, without).launch(
        grid=[1, 1, 1], block=[32 + CONSUMERS, 1, 1]
    )


x = torch.arange(8 * 32 * 64, dtype=torch.float32, device="cuda").reshape(-1, 64)
y = torch.empty_like(x)
double(from_dlpack(x), from_dlpack(y), sys.argv[1] if len(sys.argv) > 1 else "")
torch.testing.assert_close(y, 2 * x)
