"""A tile of a matrix product in Triton: TMA brings the operands, wgmma multiplies them."""

from __future__ import annotations

from collections.abc import Callable

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def matmul_described(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = a @ b.T; a, b and c are descriptors of row-major (M, K), (N, K) and (M, N)."""
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    sums = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        sums = tl.dot(a.load([m, k]), b.load([n, k]).T, sums)
    c.store([m, n], sums.to(tl.bfloat16))


def prepared(
    M: int, N: int, K: int, BM: int = 128, BN: int = 256, BK: int = 64
) -> Callable[[], torch.Tensor]:
    """A call that multiplies (M, K) by (N, K)^T in bfloat16, on tensors "on cuda"."""
    a = torch.randn(M, K, device="cuda").to(torch.bfloat16)
    b = torch.randn(N, K, device="cuda").to(torch.bfloat16)
    c = torch.empty(M, N, device="cuda", dtype=torch.bfloat16)
    described = [
        TensorDescriptor(x, list(x.shape), list(x.stride()), [rows, columns])
        for x, rows, columns in ((a, BM, BK), (b, BN, BK), (c, BM, BN))
    ]

    def call() -> torch.Tensor:
        grid = (triton.cdiv(M, BM), triton.cdiv(N, BN))
        matmul_described[grid](*described, K, BM=BM, BN=BN, BK=BK, num_warps=8, num_stages=3)
        return c

    call.expected = a.float() @ b.float().T  # type: ignore[attr-defined]
    return call
