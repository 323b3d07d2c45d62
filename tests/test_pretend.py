"""CPU tensors that claim CUDA: code written for a GPU takes them, and memory stays shared."""

from __future__ import annotations

import pytest
import torch

from checkers.simulator.gpus import gpu
from checkers.simulator.launch.device import PretendCuda, PretendTensor, pretended, real


def test_a_pretended_tensor_claims_cuda_and_shares_memory():
    x = torch.arange(6.0)
    claimed = pretended(x)
    assert claimed.is_cuda and claimed.device == torch.device("cuda", 0) and not claimed.is_cpu
    assert claimed.data_ptr() == x.data_ptr()
    assert type(real(claimed)) is torch.Tensor
    assert real(claimed).data_ptr() == x.data_ptr()


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.empty_like(x),
        lambda x: torch.empty(3, device=x.device),
        lambda x: torch.empty((2, 3), device="cuda", dtype=torch.float16),
        lambda x: x.new_empty(4),
        lambda x: x.view(-1),
        lambda x: x.detach()[1:],
        lambda x: torch.zeros(3).to("cuda"),
        lambda x: torch.zeros(3).cuda(),
        lambda x: x.to(torch.float16),
    ],
)
def test_what_is_made_on_cuda_claims_cuda(make):
    with PretendCuda():
        assert make(pretended(torch.ones(2, 3))).is_cuda


@pytest.mark.parametrize(
    "make", [lambda x: x.cpu(), lambda x: x.to("cpu"), lambda x: torch.zeros(3)]
)
def test_what_is_made_on_the_cpu_does_not(make):
    with PretendCuda():
        assert not make(pretended(torch.ones(2, 3))).is_cuda


def test_launch_code_gets_answers_for_the_chosen_capability():
    with PretendCuda(gpu("b200")):
        assert torch.cuda.is_available()
        assert torch.cuda.get_device_capability() == (10, 0)
        assert torch.cuda.current_stream().cuda_stream == 0
        assert torch.cuda.get_device_properties(0).multi_processor_count == 148


def test_cute_dsl_sees_global_memory():
    from cutlass.cute.runtime import from_dlpack

    with PretendCuda():
        claimed = pretended(torch.ones(2, 4))
        assert "gmem" in str(from_dlpack(claimed))
        assert "gmem" in str(from_dlpack(claimed.detach()))


def test_pretending_ends_with_the_context():
    before = torch.cuda.current_stream
    with PretendCuda():
        assert torch.cuda.current_stream is not before
    assert torch.cuda.current_stream is before
    assert isinstance(pretended([torch.ones(1)])[0], PretendTensor)
