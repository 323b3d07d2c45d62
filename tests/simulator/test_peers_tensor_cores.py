"""Kernels of others for tensor cores, unchanged: attention and GEMMs that give the right numbers."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from checkers.simulator.launch import simulating


def random(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*shape, generator=generator).bfloat16()


GEMM = """
import torch
from quack.gemm_interface import gemm

torch.manual_seed(1)
a, b = (torch.randn(*shape, device="cuda").bfloat16() for shape in [(256, 128), (128, 256)])
c = gemm(a, b, tuned=False)
torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=1e-2, atol=5e-2)
"""


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["h100", "b200"])
def test_quacks_persistent_gemm(gpu, tmp_path):
    """Warp-specialised, TMA, cluster of 2, wgmma or tcgen05. In a process of its own: quack remembers the GPU."""
    pytest.importorskip("quack", reason="quack-kernels is not installed: pip install -e .[peers]")
    (tmp_path / "gemm.py").write_text(GEMM)
    command = [sys.executable, "-m", "checkers", "simulate", "gemm.py", "--gpu", gpu, "--json", "-"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    (launch,) = json.loads(ran.stdout)["launches"]
    assert launch["ok"] and launch["cluster"] == [2, 1, 1]
    assert launch["counters"]["totals"]["mma_flops_bf16"] >= 2 * 256 * 256 * 128


@pytest.mark.parametrize("causal", [False, True])
def test_flash_attention_4_forward_on_hopper(causal):
    pytest.importorskip("flash_attn.cute", reason="flash-attn-4 is not installed (PyPI, beta)")
    q, k, v = (random(1, 256, 1, 128) for _ in range(3))
    with simulating("h100") as results:
        from flash_attn.cute.interface import flash_attn_func

        out = flash_attn_func(q.cuda(), k.cuda(), v.cuda(), causal=causal)
        out = (out[0] if isinstance(out, tuple) else out).cpu()
    (result,) = results
    assert [str(fault) for fault in result.faults if fault.is_error] == []
    q, k, v = (t.float().transpose(1, 2) for t in (q, k, v))
    want = F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2)
    torch.testing.assert_close(out.float(), want, rtol=2e-2, atol=1e-2)
