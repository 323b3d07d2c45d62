"""Triton programs beyond the course's, on Hopper and Blackwell: right, and without false alarm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from triton.tools.tensor_descriptor import TensorDescriptor

from checkers.simulator.launch import simulating
from tests.simulator import triton_programs as programs
from tests.simulator.gemm_tile import matmul_described
from tests.simulator.harness import kinds

GPUS = pytest.mark.parametrize("gpu", ["h100", "b200"])
WORDS = {"h100": "wgmma.mma_async", "b200": "tcgen05.mma"}


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*shape, generator=generator).to(dtype)


def launched(gpu: str, launch: Callable[..., Any], *tensors: torch.Tensor) -> Any:
    """The Result of one launch; the tensors, which are given to it "on cuda", get what it wrote."""
    with simulating(gpu) as results:
        there = [t.cuda() for t in tensors]
        launch(*there)
        for mine, theirs in zip(tensors, there, strict=True):
            mine.copy_(theirs.cpu())
    (result,) = results
    return result


def near(got: torch.Tensor, want: torch.Tensor, tolerance: float) -> None:
    torch.testing.assert_close(got.float(), want.float(), rtol=tolerance, atol=tolerance)


@GPUS
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float16, 2e-2), (torch.bfloat16, 5e-2), (torch.float32, 5e-2)],
)
def test_dot(gpu, dtype, tolerance):
    M, N, K = 100, 120, 72
    a, b, c = random(M, K, dtype=dtype), random(K, N, dtype=dtype), torch.zeros(M, N, dtype=dtype)
    result = launched(
        gpu,
        lambda *t: programs.dot[(2, 1)](*t, M, N, K, BM=64, BN=128, BK=32, num_warps=4),
        a,
        b,
        c,
    )
    assert result.faults == []
    near(c, a.float() @ b.float(), tolerance)
    kind = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "tf32"}[dtype]
    assert result.counters[f"mma_flops_{kind}"] > 0


@GPUS
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_dot_of_fp8(gpu, dtype):
    a, b, c = random(64, 128).to(dtype), random(64, 128).to(dtype), torch.zeros(64, 64)
    result = launched(
        gpu, lambda *t: programs.dot_transposed[(1,)](*t, 128, BM=64, BN=64, BK=64), a, b, c
    )
    assert result.faults == []
    near(c, a.float() @ b.float().T, 5e-2)


@GPUS
@pytest.mark.parametrize("warps", [4, 8])
def test_dot_of_tiles_that_tma_brings(gpu, warps):
    a, b = random(128, 256, dtype=torch.float16), random(128, 256, dtype=torch.float16)
    c = torch.zeros(128, 128, dtype=torch.bfloat16)

    def launch(*tensors: torch.Tensor) -> None:
        boxes = ([128, 64], [128, 64], [128, 128])
        described = [
            TensorDescriptor.from_tensor(*each) for each in zip(tensors, boxes, strict=True)
        ]
        matmul_described[(1, 1)](*described, 256, 128, 128, 64, num_warps=warps, num_stages=3)

    result = launched(gpu, launch, a, b, c)
    assert result.faults == [] and WORDS[gpu] in result.launch.ptx
    assert "cp.async.bulk.tensor" in result.launch.ptx
    near(c, a.float() @ b.float().T, 5e-2)


@GPUS
def test_attention(gpu):
    S, D = 100, 64
    q, k, v = (random(S, D, dtype=torch.float16) for _ in range(3))
    out = torch.zeros(S, D)
    result = launched(
        gpu,
        lambda *t: programs.attention[(2,)](*t, S, D**-0.5, BM=64, BN=32, D=D),
        q,
        k,
        v,
        out,
    )
    assert result.faults == []
    want = F.scaled_dot_product_attention(*(t.float()[None] for t in (q, k, v)), is_causal=True)
    near(out, want[0], 5e-3)


@GPUS
def test_layer_norm(gpu):
    x, out = random(3, 1000, dtype=torch.float16), torch.zeros(3, 1000, dtype=torch.float16)
    weight, bias = random(1000), random(1000)
    result = launched(
        gpu,
        lambda *t: programs.layer_norm[(3,)](*t, 1000, 1e-5, BLOCK=256),
        x,
        weight,
        bias,
        out,
    )
    assert result.faults == []
    near(out, F.layer_norm(x.float(), (1000,), weight, bias), 5e-3)


@pytest.mark.parametrize("schedule", ["latest", "random:1"])
def test_programs_that_add_up_under_a_lock(schedule):
    x, dy, dw, locks = random(6, 100), random(6, 100), torch.zeros(100), torch.zeros(1).int()
    with simulating("h100", schedule=schedule) as results:
        there = [t.cuda() for t in (x, dy, dw, locks)]
        programs.layer_norm_weight_gradient[(6,)](*there, 100, BLOCK=128)
        dw = there[2].cpu()
    assert [kinds(result) for result in results] == [[]]
    near(dw, (x * dy).sum(0), 1e-5)


def test_atomics_whose_lanes_meet():
    x = torch.arange(1000).int() * 7 % 311
    counts, largest = torch.zeros(16).int(), torch.zeros(1).int()
    result = launched(
        "h100", lambda *t: programs.histogram[(4,)](*t, 1000, BLOCK=256), x, counts, largest
    )
    assert result.faults == [] and int(largest) == int(x.max())
    assert counts.tolist() == torch.bincount(x % 16, minlength=16).tolist()


@pytest.mark.parametrize("N", [1, 16, 256])
@pytest.mark.parametrize("warps", [1, 4])
def test_reductions_of_fewer_elements_than_threads_and_of_more(N, warps):
    x, out = random(N), torch.zeros(3, max(N, 4))
    result = launched(
        "h100", lambda *t: programs.reductions[(1,)](*t, max(N, 4), N=N, num_warps=warps), x, out
    )
    assert result.faults == []
    near(out[0, :3], torch.tensor([x.sum(), x.max(), float(x.argmax())]), 1e-5)
    near(out[1, :N], x.cumsum(0), 1e-4)
    near(out[2, :N], x.sort().values, 0)


@pytest.mark.parametrize("n", [1, 32, 100])
def test_in_place_with_fewer_elements_than_threads_is_a_note_at_most(n):
    x = random(n)
    want = 2 * x
    block = max(1, 1 << (n - 1).bit_length())
    result = launched(
        "h100", lambda x: programs.double_in_place[(1,)](x, n, BLOCK=block, num_warps=8), x
    )
    assert result.ok and torch.equal(x, want)
    assert all("only repeats the load" in fault.message for fault in result.faults)


def test_a_note_of_a_repeated_load_names_both_threads():
    x = random(64)
    result = launched(
        "h100", lambda x: programs.double_in_place[(1,)](x, 64, BLOCK=64, num_warps=4), x
    )
    (note,) = result.faults
    assert "thread 64 only repeats the load of thread 0" in note.message


def test_reading_back_what_was_stored_is_a_note_for_threads_without_an_element():
    x, out = random(64), torch.zeros(64)
    want = 2 * x
    result = launched(
        "h100", lambda *t: programs.double_and_read_back[(1,)](*t, BLOCK=64, num_warps=4), x, out
    )
    assert result.ok and torch.equal(out, want)


@pytest.mark.parametrize("block", [64, 128])
def test_a_race_between_elements_is_still_an_error(block):
    result = launched(
        "h100",
        lambda x: programs.reverse_in_place[(1,)](x, BLOCK=block, num_warps=4),
        random(block),
    )
    assert kinds(result) == ["race"]


def test_a_race_between_programs_is_still_an_error():
    result = launched(
        "h100",
        lambda x: programs.shift_in_place[(2,)](x, BLOCK=64, num_warps=4),
        random(192),
    )
    assert kinds(result) == ["race"]
