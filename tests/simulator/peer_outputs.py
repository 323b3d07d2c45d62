"""Calls of others' kernels, on fixed inputs: run once on a GPU and kept, run on the simulator in the
tests. They use what the course's first kernels don't: clusters, TMA, wgmma, fused products."""

from __future__ import annotations

from pathlib import Path

import torch

from tests.simulator.course_outputs import Call

DATA = Path(__file__).resolve().parents[1] / "data" / "peer_outputs_h200"


def calls() -> list[Call]:
    """quack's and FlashAttention 4's. Raises ImportError where they are not installed."""
    from flash_attn.cute.interface import flash_attn_func
    from quack.gemm_config import GemmConfig
    from quack.gemm_interface import gemm_tuned
    from quack.rmsnorm import layernorm_fwd, rmsnorm
    from quack.softmax import softmax

    bf16, f32 = torch.bfloat16, torch.float32

    def attention(causal: bool):
        def run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            out = flash_attn_func(q, k, v, causal=causal)
            return out[0] if isinstance(out, tuple) else out

        return run

    def gemm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        c = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
        config = GemmConfig(tile_m=128, tile_n=128, pingpong=True, cluster_m=2, cluster_n=1)
        gemm_tuned.fn(a, b, c, config=config)
        return c

    heads = ((1, 160, 2, 128), bf16)
    return [
        Call("quack.softmax.bfloat16", softmax, (((5, 1000), bf16),)),
        Call("quack.softmax.float32", softmax, (((3, 4096), f32),)),
        Call("quack.softmax.cluster", softmax, (((1, 40000), bf16),)),
        Call("quack.rmsnorm", rmsnorm, (((4, 2048), bf16), ((2048,), f32))),
        Call(
            "quack.layernorm",
            lambda x, weight: layernorm_fwd(x, weight, eps=1e-5),
            (((4, 2048), bf16), ((2048,), f32)),
        ),
        Call("quack.gemm", gemm, (((256, 192), bf16), ((192, 256), bf16))),
        Call("flash_attention.forward", attention(False), (heads, heads, heads)),
        Call("flash_attention.causal", attention(True), (heads, heads, heads)),
    ]
