"""A course of four small exercises, one a rung: what the tool itself is tested on."""

# %% setup
import functools

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
import triton
import triton.language as tl
from cutlass.cute.runtime import from_dlpack, make_fake_compact_tensor, make_fake_stream


# %% exercise ch90.bytes_moved
def bytes_moved(elements: int, itemsize: int) -> int:
    """Bytes that a copy of ``elements`` moves: each is read once and written once."""
    ### BEGIN SOLUTION count a read and a write (1 line)
    return 2 * elements * itemsize
    ### END SOLUTION


# %% exercise ch90.compiled_gelu
@torch.compile(fullgraph=True)
def compiled_gelu(x: torch.Tensor) -> torch.Tensor:
    """x * sigmoid(1.702 * x), in one kernel."""
    ### BEGIN SOLUTION the formula (1 line)
    return x * torch.sigmoid(1.702 * x)
    ### END SOLUTION


# %% exercise ch90.triton_scale
@triton.jit
def scale_kernel(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ### BEGIN SOLUTION load, scale and store what exists (3 lines)
    exists = offsets < n
    x = tl.load(x_ptr + offsets, mask=exists, other=0.0)
    tl.store(out_ptr + offsets, x * factor, mask=exists)
    ### END SOLUTION


def triton_scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    """x * factor for a contiguous float32 vector on a CUDA device."""
    if not x.is_cuda:
        raise ValueError("x must be on a CUDA device")
    out = torch.empty_like(x)
    scale_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), factor, BLOCK=1024)
    return out


# %% exercise ch90.cute_copy
@cute.kernel
def copy_kernel(mX: cute.Tensor, mO: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    ### BEGIN SOLUTION one element a thread, where there is one (3 lines)
    i = block * 128 + thread
    if i < cute.size(mX):
        mO[i] = mX[i]
    ### END SOLUTION


@cute.jit
def launch(mX: cute.Tensor, mO: cute.Tensor, stream: cuda.CUstream):
    blocks = cute.ceil_div(cute.size(mX), 128)
    copy_kernel(mX, mO).launch(grid=(blocks, 1, 1), block=(128, 1, 1), stream=stream)


@functools.cache
def compile_copy():
    """The copy of a float32 vector of any length."""
    fake = make_fake_compact_tensor(cutlass.Float32, (cute.sym_int(),), assumed_align=4)
    return cute.compile(launch, fake, fake, make_fake_stream())


def cute_copy(x: torch.Tensor) -> torch.Tensor:
    """A copy of a contiguous float32 vector on a CUDA device."""
    out = torch.empty_like(x)
    stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
    # Marked dynamic as the compiled function was: else it would see a vector of length 0.
    compile_copy()(
        from_dlpack(x).mark_layout_dynamic(), from_dlpack(out).mark_layout_dynamic(), stream
    )
    return out
