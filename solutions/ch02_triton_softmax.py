"""Softmax over rows in Triton: a row a program, several rows a program, a row in blocks, tuned.

Read top to bottom. Every kernel reads x and writes y, both (M, N) with contiguous rows, and does
its arithmetic in float32. ``cols`` are the columns that this program's lanes hold, ``inside``
says which of them exist, ``m`` is a row's maximum, ``d`` its denominator, the sum of exp(x - m).
"""

# %% setup
import os

import torch
import triton
import triton.language as tl

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # NumPy runs the kernels, on the CPU
LONGEST_ROW = 262144


def matrix_shape(x: torch.Tensor, longest: int = LONGEST_ROW) -> tuple[int, int]:
    """(M, N) of a matrix that this chapter's kernels take; ValueError says what they want."""
    if x.ndim != 2 or x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise ValueError(
            f"x must be (M, N) float32, float16 or bfloat16, not {tuple(x.shape)} {x.dtype}"
        )
    if not INTERPRETED and not (x.is_cuda and x.get_device() == torch.cuda.current_device()):
        raise ValueError(f"x must be on the current CUDA device, not on {x.device}")
    M, N = x.shape
    if N > 1 and x.stride(1) != 1:
        raise ValueError(f"the rows of x must be contiguous: x.stride(1) is {x.stride(1)}, not 1")
    if N > longest:
        raise ValueError(f"rows may have at most {longest} elements, not {N}")
    return M, N


def time_configuration(call, quantiles) -> list[float]:
    """Milliseconds of ``call`` at the quantiles, L2 flushed between runs: for ``triton.autotune``.

    The interpreter has no clock worth reading: there, every configuration runs once and ties.
    """
    if INTERPRETED:
        call()
        return [1.0 for _ in quantiles]
    benchmark = triton.runtime.driver.active.get_benchmarker()
    return benchmark(call, quantiles=quantiles, warmup=10, rep=40)


# %% exercise ch02.row_softmax
@triton.jit
def row_softmax_kernel(x_ptr, y_ptr, N, x_stride, y_stride, BLOCK: tl.constexpr):
    """One program, one row: BLOCK lanes, of which the first N have a column."""
    cols = tl.arange(0, BLOCK)
    inside = cols < N
    ### BEGIN SOLUTION x_row, y_row: where this program's row begins, in 64 bits (3 lines)
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * x_stride
    y_row = y_ptr + row * y_stride
    ### END SOLUTION
    # A lane without a column must not win the maximum, nor add to the sum.
    ### BEGIN SOLUTION x: the row, as float32 (1 line)
    x = tl.load(x_row + cols, mask=inside, other=-float("inf")).to(tl.float32)
    ### END SOLUTION
    ### BEGIN SOLUTION y: the softmax of x; divide once a row, 1.0 / sum (2 or 3 lines)
    e = tl.exp(x - tl.max(x, axis=0))
    y = e * (1.0 / tl.sum(e, axis=0))
    ### END SOLUTION
    tl.store(y_row + cols, y, mask=inside)  # rounds to y's dtype


def row_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last dimension, one row a program.

    x: (M, N) float32, float16 or bfloat16 on a CUDA device, rows contiguous, N <= 65536.
    Returns (M, N) in x's dtype. Moves 2*M*N*itemsize bytes: each element is read and written once.
    Raises ValueError naming what x must be.
    """
    M, N = matrix_shape(x, longest=65536)
    y = torch.empty_like(x)
    if x.numel() == 0:
        return y
    BLOCK = triton.next_power_of_2(N)
    num_warps = min(max(BLOCK // 512, 1), 32)  # 16 elements a thread
    ### BEGIN SOLUTION launch one program a row, with num_warps=num_warps (2 lines)
    strides = x.stride(0), y.stride(0)
    row_softmax_kernel[(M,)](x, y, N, *strides, BLOCK=BLOCK, num_warps=num_warps)
    ### END SOLUTION
    return y


# %% exercise ch02.short_rows
@triton.jit
def short_rows_kernel(
    x_ptr, y_ptr, M, N, x_stride, y_stride, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """One program, ROWS rows: a block of (ROWS, BLOCK) lanes."""
    cols = tl.arange(0, BLOCK)[None, :]
    # rows: the numbers of this program's rows, (ROWS, 1), in 64 bits. inside: (ROWS, BLOCK) bool.
    ### BEGIN SOLUTION rows, and inside: which lanes have an element (2 lines)
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = (rows < M) & (cols < N)
    ### END SOLUTION
    ### BEGIN SOLUTION x: the rows, as float32; y: the softmax of each (3 lines)
    x = tl.load(x_ptr + rows * x_stride + cols, mask=inside, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=1, keep_dims=True))
    y = e * (1.0 / tl.sum(e, axis=1, keep_dims=True))
    ### END SOLUTION
    tl.store(y_ptr + rows * y_stride + cols, y, mask=inside)


def short_rows_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last dimension, several rows a program.

    x: (M, N) float32, float16 or bfloat16 on a CUDA device, rows contiguous, N <= 4096.
    Returns (M, N) in x's dtype. Moves 2*M*N*itemsize bytes: each element is read and written once.
    Raises ValueError naming what x must be.
    """
    M, N = matrix_shape(x, longest=4096)
    y = torch.empty_like(x)
    if x.numel() == 0:
        return y
    BLOCK = triton.next_power_of_2(N)
    ROWS = max(2048 // BLOCK, 1)  # 16 elements for each of 128 threads
    ### BEGIN SOLUTION launch with enough programs for M rows, 4 warps each (2 or 3 lines)
    grid = (triton.cdiv(M, ROWS),)
    strides = x.stride(0), y.stride(0)
    short_rows_kernel[grid](x, y, M, N, *strides, ROWS=ROWS, BLOCK=BLOCK, num_warps=4)
    ### END SOLUTION
    return y


# %% exercise ch02.long_rows
@triton.jit
def long_rows_kernel(x_ptr, y_ptr, N, x_stride, y_stride, BLOCK: tl.constexpr):
    """One program, one row, BLOCK columns at a time: there to find m and d, and back to write."""
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * x_stride
    y_row = y_ptr + row * y_stride
    lanes = tl.arange(0, BLOCK)
    m = -float("inf")  # maximum of the blocks seen so far
    d = 0.0  # sum of exp(x - m) over them
    for start in range(0, N, BLOCK):
        cols = start + lanes
        # It is read again below: evict_last asks the L2 cache to keep it until then.
        x = tl.load(
            x_row + cols, mask=cols < N, other=-float("inf"), eviction_policy="evict_last"
        ).to(tl.float32)
        # Also right while all that was seen is -inf: -inf - -inf would be NaN.
        ### BEGIN SOLUTION bring m and d up to date with this block (4 lines)
        m_new = tl.maximum(m, tl.max(x, axis=0))
        origin = tl.where(m_new == -float("inf"), 0.0, m_new)
        d = d * tl.exp(m - origin) + tl.sum(tl.exp(x - origin), axis=0)
        m = m_new
        ### END SOLUTION
    scale = 1.0 / d
    last = (tl.cdiv(N, BLOCK) - 1) * BLOCK  # first column of the last block, which L2 still has
    for step in range(0, N, BLOCK):
        ### BEGIN SOLUTION cols: this block's columns, backwards from last (1 line)
        cols = last - step + lanes
        ### END SOLUTION
        inside = cols < N
        x = tl.load(x_row + cols, mask=inside, other=0.0, eviction_policy="evict_first")
        ### BEGIN SOLUTION y: softmax of this block, from x, m, scale (1 line)
        y = tl.exp(x.to(tl.float32) - m) * scale
        ### END SOLUTION
        tl.store(y_row + cols, y, mask=inside, eviction_policy="evict_first")


def long_rows_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last dimension, a row in blocks: online softmax (arXiv 1805.02867).

    x: (M, N) float32, float16 or bfloat16 on a CUDA device, rows contiguous, N <= 262144.
    Returns (M, N) in x's dtype. Reads x twice and writes y once: 3*M*N*itemsize bytes, less what
    of the second reading the L2 cache still holds.
    Raises ValueError naming what x must be.
    """
    M, N = matrix_shape(x)
    y = torch.empty_like(x)
    if x.numel() == 0:
        return y
    BLOCK = min(triton.next_power_of_2(N), 8192)
    strides = x.stride(0), y.stride(0)
    long_rows_kernel[(M,)](x, y, N, *strides, BLOCK=BLOCK, num_warps=8)
    return y


# %% exercise ch02.autotune
# 4 to 8 triton.Config({"ELEMENTS": lanes of a program}, num_warps=...), ELEMENTS from 1024 to 8192,
# 16 or 32 of them a thread; and a list of the kernel's arguments that the choice depends on.
### BEGIN SOLUTION SHORT_CONFIGS and SHORT_KEY (6 lines)
SHORT_CONFIGS = [
    triton.Config({"ELEMENTS": elements}, num_warps=elements // (32 * per_thread))
    for elements in (1024, 2048, 4096, 8192)
    for per_thread in (16, 32)
]
SHORT_KEY = ["BLOCK", "MANY"]  # not N: 1000 and 1001 want the same
### END SOLUTION


def with_one_or_two_rows(configs, named_arguments, **launch):
    """The configurations whose programs hold one row or two, or 1024 elements: others can't win."""
    BLOCK = launch["BLOCK"]
    return [c for c in configs if BLOCK <= c.kwargs["ELEMENTS"] <= max(2 * BLOCK, 1024)]


@triton.autotune(
    configs=SHORT_CONFIGS,
    key=SHORT_KEY,
    prune_configs_by={"early_config_prune": with_one_or_two_rows},
    do_bench=time_configuration,
)
@triton.jit
def tuned_short_kernel(
    x_ptr,
    y_ptr,
    M,
    N,
    x_stride,
    y_stride,
    BLOCK: tl.constexpr,
    MANY: tl.constexpr,
    ELEMENTS: tl.constexpr,
):
    """A program of ELEMENTS lanes: ELEMENTS // BLOCK whole rows. MANY is for the key."""
    ROWS: tl.constexpr = ELEMENTS // BLOCK
    ### BEGIN SOLUTION your kernel of ch02.short_rows (7 lines)
    cols = tl.arange(0, BLOCK)[None, :]
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    inside = (rows < M) & (cols < N)
    x = tl.load(x_ptr + rows * x_stride + cols, mask=inside, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=1, keep_dims=True))
    y = e * (1.0 / tl.sum(e, axis=1, keep_dims=True))
    tl.store(y_ptr + rows * y_stride + cols, y, mask=inside)
    ### END SOLUTION


# 2 or 3 triton.Config({"BLOCK": lanes of a program}, num_warps=...), maxnreg if you like.
### BEGIN SOLUTION LONG_CONFIGS and LONG_KEY (6 lines)
LONG_CONFIGS = [
    triton.Config({"BLOCK": 4096}, num_warps=8),
    triton.Config({"BLOCK": 8192}, num_warps=8, maxnreg=48),  # 5 programs an SM
    triton.Config({"BLOCK": 16384}, num_warps=16, maxnreg=64),  # 2 programs an SM
]
LONG_KEY = ["LENGTH", "MANY"]
### END SOLUTION


@triton.autotune(configs=LONG_CONFIGS, key=LONG_KEY, do_bench=time_configuration)
@triton.jit
def tuned_long_kernel(
    x_ptr,
    y_ptr,
    N,
    x_stride,
    y_stride,
    LENGTH: tl.constexpr,
    MANY: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """A program takes one row, BLOCK columns at a time. LENGTH, N rounded up, is for the key."""
    ### BEGIN SOLUTION your kernel of ch02.long_rows (25 lines)
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * x_stride
    y_row = y_ptr + row * y_stride
    lanes = tl.arange(0, BLOCK)
    m = -float("inf")
    d = 0.0
    for start in range(0, N, BLOCK):
        cols = start + lanes
        x = tl.load(
            x_row + cols, mask=cols < N, other=-float("inf"), eviction_policy="evict_last"
        ).to(tl.float32)
        m_new = tl.maximum(m, tl.max(x, axis=0))
        origin = tl.where(m_new == -float("inf"), 0.0, m_new)
        d = d * tl.exp(m - origin) + tl.sum(tl.exp(x - origin), axis=0)
        m = m_new
    scale = 1.0 / d
    last = (tl.cdiv(N, BLOCK) - 1) * BLOCK
    for step in range(0, N, BLOCK):
        cols = last - step + lanes
        inside = cols < N
        x = tl.load(x_row + cols, mask=inside, other=0.0, eviction_policy="evict_first")
        y = tl.exp(x.to(tl.float32) - m) * scale
        tl.store(y_row + cols, y, mask=inside, eviction_policy="evict_first")
    ### END SOLUTION


def tuned_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last dimension: whole rows to N = 8192, blocks of a row from there on.

    x: (M, N) float32, float16 or bfloat16 on a CUDA device, rows contiguous, N <= 262144.
    Returns (M, N) in x's dtype. The first call for a dtype and a power of two of N times the
    configurations, which takes about a second; the calls after it reuse the fastest. What was
    chosen for a small x is chosen anew for the first large one.
    Raises ValueError naming what x must be.
    """
    M, N = matrix_shape(x)
    y = torch.empty_like(x)
    if x.numel() == 0:
        return y
    strides = x.stride(0), y.stride(0)
    LENGTH = triton.next_power_of_2(N)
    MANY = x.numel() >= 2**24  # enough to fill a GPU: what is timed with less is noise
    # A grid may depend on the configuration: lambda meta: (..., ) gets its constants by name.
    ### BEGIN SOLUTION launch the kernel that N asks for (5 lines)
    if N <= 8192:
        grid = lambda meta: (triton.cdiv(M, meta["ELEMENTS"] // LENGTH),)  # noqa: E731
        tuned_short_kernel[grid](x, y, M, N, *strides, BLOCK=LENGTH, MANY=MANY)
    else:
        tuned_long_kernel[(M,)](x, y, N, *strides, LENGTH=LENGTH, MANY=MANY)
    ### END SOLUTION
    return y
