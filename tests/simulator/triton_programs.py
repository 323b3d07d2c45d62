"""Triton programs beyond the course's: matrix products, attention, norms, atomics, reductions."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def dot(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = a @ b for row-major a (M, K), b (K, N), c (M, N), ragged shapes too."""
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    sums = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(a + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k < K), other=0.0)
        y = tl.load(
            b + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0
        )
        sums = tl.dot(x, y, sums)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c + m[:, None] * N + n[None, :], sums.to(c.dtype.element_ty), mask=inside)


@triton.jit
def dot_transposed(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = a @ b.T for row-major a (BM, K), b (BN, K): what fp8 needs, whose tiles lie along K."""
    m, n = tl.arange(0, BM), tl.arange(0, BN)
    sums = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(a + m[:, None] * K + k[None, :])
        y = tl.load(b + n[None, :] * K + k[:, None])
        sums = tl.dot(x, y, sums)
    tl.store(c + m[:, None] * BN + n[None, :], sums)


@triton.jit
def attention(q, k, v, out, S, scale, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    """One head, (S, D) each: softmax(q k^T scale) v with running maximum and sum, causal."""
    first = tl.program_id(0) * BM
    m, d = first + tl.arange(0, BM), tl.arange(0, D)
    query = tl.load(q + m[:, None] * D + d[None, :], mask=m[:, None] < S, other=0.0)
    top = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    sums = tl.zeros((BM, D), tl.float32)
    for start in range(0, first + BM, BN):
        n = start + tl.arange(0, BN)
        key = tl.load(k + n[None, :] * D + d[:, None], mask=n[None, :] < S, other=0.0)
        scores = tl.dot(query, key) * scale
        scores = tl.where((m[:, None] >= n[None, :]) & (n[None, :] < S), scores, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp(scores - higher[:, None])
        shrunk = tl.exp(top - higher)
        value = tl.load(v + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
        sums = tl.dot(weights.to(value.dtype), value, sums * shrunk[:, None])
        total = total * shrunk + tl.sum(weights, 1)
        top = higher
    tl.store(out + m[:, None] * D + d[None, :], sums / total[:, None], mask=m[:, None] < S)


@triton.jit
def layer_norm(x, weight, bias, out, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0) * N
    mean = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mean += tl.load(x + row + at, mask=at < N, other=0.0).to(tl.float32)
    mean = tl.sum(mean) / N
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        apart = tl.load(x + row + at, mask=at < N, other=0.0).to(tl.float32) - mean
        squares += tl.where(at < N, apart * apart, 0.0)
    scale = tl.rsqrt(tl.sum(squares) / N + eps)
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < N
        y = (tl.load(x + row + at, mask=inside).to(tl.float32) - mean) * scale
        y = y * tl.load(weight + at, mask=inside) + tl.load(bias + at, mask=inside)
        tl.store(out + row + at, y.to(out.dtype.element_ty), mask=inside)


@triton.jit
def layer_norm_weight_gradient(x, dy, dw, locks, N, BLOCK: tl.constexpr):
    """dw (N,) += sum over rows of x * dy, under a lock, as Triton's tutorial does it."""
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * N
    part = tl.load(x + row + at, mask=at < N) * tl.load(dy + row + at, mask=at < N)
    while tl.atomic_cas(locks, 0, 1) == 1:
        pass
    part += tl.load(dw + at, mask=at < N)
    tl.store(dw + at, part, mask=at < N)
    tl.debug_barrier()
    tl.atomic_xchg(locks, 0)


@triton.jit
def histogram(x, counts, largest, n, BLOCK: tl.constexpr):
    """Atomics whose lanes meet: counts (16,) of x % 16, and the largest x."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0)
    tl.atomic_add(counts + value % 16, 1, mask=at < n)
    tl.atomic_max(largest, tl.max(value))


@triton.jit
def reductions(x, out, PITCH: tl.constexpr, N: tl.constexpr):
    """Of N values by all threads of the block, in rows of out: their sum, maximum and where it is;
    the running sum; the values in order."""
    at = tl.arange(0, N)
    value = tl.load(x + at)
    tl.store(out, tl.sum(value))
    tl.store(out + 1, tl.max(value))
    tl.store(out + 2, tl.argmax(value, 0).to(tl.float32))
    tl.store(out + PITCH + at, tl.cumsum(value))
    tl.store(out + 2 * PITCH + at, tl.sort(value))


@triton.jit
def double_in_place(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(x + at, 2 * value, mask=at < n)


@triton.jit
def double_and_read_back(x, out, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x + at, 2 * tl.load(x + at))
    tl.store(out + at, tl.load(x + at))


@triton.jit
def reverse_in_place(x, BLOCK: tl.constexpr):
    """Wrong: nothing makes the stores wait for the loads of other threads."""
    at = tl.arange(0, BLOCK)
    tl.store(x + BLOCK - 1 - at, tl.load(x + at))


@triton.jit
def shift_in_place(x, BLOCK: tl.constexpr):
    """Wrong: programs take what a neighbour may have overwritten."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at + BLOCK))
