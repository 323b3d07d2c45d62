"""Kernels of others for tensor cores, unchanged: attention and GEMMs that give the right numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from checkers.simulator.launch import simulating
from checkers.simulator.launch.device import real
from tests.simulator.harness import kinds
from tests.simulator.peers import FLASH_ATTENTION, QUACK, near, random, simulated, small


def multiplied(gpu: str, M: int, N: int, K: int, **config: Any) -> Any:
    """The Result of quack's GEMM, whose product is held against PyTorch's, and against itself under
    other schedules."""
    pytest.importorskip("quack", reason=QUACK)
    a, b = random(M, K), random(K, N, seed=2)
    with simulated(gpu) as results:
        from quack.gemm_config import GemmConfig
        from quack.gemm_interface import gemm_tuned

        capacity = 9 if gpu == "h100" else 10
        tile = {"tile_m": 128, "tile_n": 128, "cluster_m": 1, "cluster_n": 1} | config

        def product() -> torch.Tensor:
            c = torch.empty(M, N, dtype=torch.bfloat16, device="cuda")
            chosen = GemmConfig(device_capacity=capacity, **tile)
            gemm_tuned.fn(a.cuda(), b.cuda(), c, config=chosen)
            return c

        c = product()
        for schedule in ("earliest", "random:1"):
            with simulating(small(gpu), schedule) as others:
                assert torch.equal(real(product()), real(c))
            assert [kinds(result) for result in others] == [[]]
    near(c, a.float() @ b.float(), 1e-2)
    (result,) = results
    assert kinds(result) == []
    assert result.counters["mma_flops_bf16"] >= 2 * M * N * K
    return result


@pytest.mark.parametrize("pingpong", [False, True])
def test_a_persistent_gemm_with_more_tiles_than_blocks_on_hopper(pingpong):
    """Warp-specialised, TMA and wgmma; two warpgroups share a tile or take turns at tiles."""
    result = multiplied("h100", 512, 384, 128, pingpong=pingpong)
    assert result.launch.grid == (1, 1, 2)  # for 12 tiles


def test_a_persistent_gemm_of_ragged_shape_whose_clusters_share_tiles():
    result = multiplied("h100", 200, 400, 136, pingpong=False, tile_n=192, cluster_m=2)
    assert result.launch.cluster == (2, 1, 1)


@pytest.mark.parametrize("cluster", [1, 2])
def test_a_tcgen05_gemm_on_blackwell(cluster):
    """Blocks ask for further tiles (cluster launch control); a pair shares one mma."""
    result = multiplied("b200", 300, 264, 136, pingpong=False, cluster_m=cluster)
    assert result.launch.cluster == (cluster, 1, 1)
    assert f"tcgen05.mma.cta_group::{cluster}" in result.launch.ptx


def attended(
    gpu: str, shape: tuple[int, int, int, int], causal: bool, kv: tuple[int, int] | None = None
) -> list[Any]:
    """The Results of FlashAttention 4 forward and, without ``kv``, backward, held against
    PyTorch's. shape: (batch, length, heads, head size) of q.  kv: length and heads of k and v."""
    pytest.importorskip("flash_attn.cute", reason=FLASH_ATTENTION)
    batch, length, heads, size = shape
    keys, kv_heads = kv or (length, heads)
    q = random(*shape)
    k, v = (random(batch, keys, kv_heads, size, seed=i) for i in (2, 3))
    plain = [t.float().requires_grad_() for t in (q, k, v)]
    want = F.scaled_dot_product_attention(
        *(t.transpose(1, 2) for t in plain), is_causal=causal, enable_gqa=kv_heads != heads
    ).transpose(1, 2)
    with simulated(gpu) as results:
        from flash_attn.cute.interface import flash_attn_func

        there = [t.cuda().requires_grad_() for t in (q, k, v)]
        out = flash_attn_func(*there, causal=causal)
        out = out[0] if isinstance(out, tuple) else out
        near(out, want, 1e-2)
        if kv is None and gpu == "h100":
            gradient = random(*shape, seed=4)
            want.backward(gradient.float())
            out.backward(gradient.cuda())
            for mine, theirs in zip(there, plain, strict=True):
                near(mine.grad, theirs.grad, 2e-2)
    assert [kinds(result) for result in results] == [[] for _ in results]
    return results


@pytest.mark.parametrize("causal", [False, True])
def test_flash_attention_4_forward_on_hopper(causal):
    """Ragged; with more keys than queries and two query heads a key head, where not causal."""
    kv = (200, 2) if causal else (320, 1)
    (result,) = attended("h100", (1, 200, 2, 128), causal, kv)
    assert "wgmma" in result.launch.ptx


@pytest.mark.slow
def test_flash_attention_4_backward_on_hopper():
    results = attended("h100", (1, 128, 1, 64), causal=True)
    assert [result.launch.title.split(".")[0] for result in results] == [
        "FlashAttentionForwardSm90",
        "FlashAttentionBackwardPreprocess",
        "FlashAttentionBackwardSm90",
        "FlashAttentionBackwardPostprocess",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
def test_flash_attention_4_forward_on_blackwell(causal):
    (result,) = attended("b200", (1, 256, 1, 128), causal, kv=(256, 1))
    assert "tcgen05.mma" in result.launch.ptx
