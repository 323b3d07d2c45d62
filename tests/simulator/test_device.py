"""CPU tensors that claim CUDA: code written for a GPU takes them, and memory stays shared."""

from __future__ import annotations

import pytest
import torch

from checkers.simulator.launch.device import PretendCuda, PretendTensor, pretended, real
from checkers.simulator.reports.gpus import gpu


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


def test_a_copy_to_the_gpu_is_a_copy():
    x = torch.zeros(3)
    with PretendCuda():
        for copy in (x.cuda(), x.to("cuda"), x.to(device="cuda"), x.to(0)):
            copy.add_(1)
            assert copy.is_cuda
            assert x.tolist() == [0, 0, 0] and copy.cpu().tolist() == [1, 1, 1]
        assert copy.cuda() is copy


def test_the_default_device_and_device_contexts_are_seen():
    with PretendCuda():
        with torch.device("cuda"):
            assert torch.ones(2).is_cuda
        assert not torch.ones(2).is_cuda
        torch.set_default_device("cuda")
        try:
            assert torch.ones(2).is_cuda
        finally:
            torch.set_default_device(None)


def test_a_module_on_the_gpu_has_its_parameters_there_and_trains():
    with PretendCuda():
        layer = torch.nn.Linear(2, 1).cuda()
        assert all(parameter.is_cuda for parameter in layer.parameters())
        layer(torch.ones(3, 2, device="cuda")).sum().backward()
        assert layer.weight.grad.is_cuda and layer.weight.grad.tolist() == [[3.0, 3.0]]


def test_a_leaf_made_on_the_gpu_gets_its_gradient():
    with PretendCuda():
        x = torch.ones(2, device="cuda", requires_grad=True)
        (x * 3).sum().backward()
        assert x.is_leaf and x.grad.tolist() == [3.0, 3.0]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.empty_like(x).copy_(2 * x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        assert gradient.is_cuda and x.is_cuda
        assert torch.empty(1, device="cuda").is_cuda
        return 2 * gradient


def test_backward_functions_meet_tensors_on_the_gpu():
    with PretendCuda():
        x = torch.ones(2, device="cuda", requires_grad=True)
        (Doubled.apply(x) * 5).sum().backward()
        assert x.grad.tolist() == [10.0, 10.0]


def test_an_operator_for_cuda_only_takes_pretended_tensors():
    @torch.library.custom_op("ladder_test::before", mutates_args=(), device_types="cuda")
    def before(x: torch.Tensor) -> torch.Tensor:
        assert x.is_cuda
        return torch.empty(3, device="cuda").fill_(7)

    with PretendCuda():

        @torch.library.custom_op("ladder_test::within", mutates_args=(), device_types="cuda")
        def within(x: torch.Tensor) -> torch.Tensor:
            return torch.empty(3, device=x.device).fill_(8)

        x = torch.ones(1, device="cuda")
        assert before(x).is_cuda and before(x).tolist() == [7, 7, 7]
        assert torch.ops.ladder_test.within(x).tolist() == [8, 8, 8]


def test_random_numbers_are_the_cpus():
    with PretendCuda():
        generator = torch.Generator(device="cuda").manual_seed(5)
        given = torch.randn(4, device="cuda", generator=generator)
    assert torch.equal(real(given), torch.randn(4, generator=torch.Generator().manual_seed(5)))


def test_events_streams_and_memory_functions_have_nothing_to_do():
    with PretendCuda():
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        with torch.cuda.stream(torch.cuda.Stream()) as stream:
            torch.cuda.current_stream().wait_stream(stream or torch.cuda.current_stream())
        end.record()
        torch.cuda.synchronize()
        assert start.elapsed_time(end) >= 0
        assert torch.cuda.max_memory_allocated() == 0 and torch.cuda.device_count() == 1
        torch.cuda.empty_cache()


@pytest.mark.parametrize(("name", "sms", "major"), [("h100", 132, 9), ("b200", 148, 10)])
def test_the_properties_are_those_of_the_gpu(name, sms, major):
    with PretendCuda(gpu(name)):
        properties = torch.cuda.get_device_properties("cuda")
        assert properties.multi_processor_count == sms
        assert properties.major == major
        assert properties.shared_memory_per_block_optin == 227 * 1024
        assert torch.cuda.get_device_name() == gpu(name).title


def test_a_tensor_prints_as_on_the_gpu():
    with PretendCuda():
        x = torch.ones(2, device="cuda", dtype=torch.float16)
        assert repr(x) == "tensor([1., 1.], device='cuda:0', dtype=torch.float16)"
        assert repr(x[0].float()) == "tensor(1., device='cuda:0')"
        assert f"{x[0].item():.1f}" == "1.0"


def test_what_is_compiled_runs_eagerly():
    """In the simulated GPU's name nothing can be generated for it; kernels within are launched."""
    before = torch.compile(lambda x: x * 2)  # imports the compiler
    with PretendCuda():

        @torch.compile(fullgraph=True)
        def double(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        x = torch.ones(4, device="cuda")
        for function in (before, double, torch.compile(double)):
            result = function(x)
            assert result.is_cuda and result.tolist() == [2.0] * 4
