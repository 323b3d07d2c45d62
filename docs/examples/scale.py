"""y = 2 * x, one element a thread, with one thread too many: the first example of docs/simulator.md.

ladder simulate docs/examples/scale.py             finds it
ladder simulate docs/examples/scale.py corrected   finds nothing
"""

import sys

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def scale_kernel(mX: cute.Tensor, mY: cute.Tensor, last: cutlass.Int32):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * 128 + thread
    if i <= last:
        mY[i] = 2.0 * mX[i]


@cute.jit
def scale(mX: cute.Tensor, mY: cute.Tensor, last: cutlass.Int32):
    blocks = cute.ceil_div(mX.shape[0], 128)
    scale_kernel(mX, mY, last).launch(grid=[blocks, 1, 1], block=[128, 1, 1])


x = torch.arange(1000, dtype=torch.float32, device="cuda")
y = torch.empty_like(x)
last = 999 if "corrected" in sys.argv else 1000
scale(from_dlpack(x), from_dlpack(y), last)
torch.testing.assert_close(y, 2 * x)
