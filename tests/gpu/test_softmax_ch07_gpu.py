"""Chapter 7's softmax on a GPU: past 2^31 elements, long rows, memory, streams, training, compiled."""

from __future__ import annotations

import time

import pytest
import torch

from checkers.chapters.parts import ch07_rows as given
from checkers.exercise import Tolerance
from checkers.grading.compare import compare
from solutions import ch07_cluster_reductions as ch07

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
LENGTHS = (1, 40, 256, 1000, 2047, 4096, 12345, 32768, 65535, 131072, 262143, 262144)


def assert_softmax(got: torch.Tensor, x: torch.Tensor) -> None:
    """Right within the tolerance of the exercise, NaN exactly where PyTorch has it."""
    compared = compare(got, x.double().softmax(-1), Tolerance(), x.dtype, x.shape[1])
    assert compared.ok, str(compared)


@pytest.mark.parametrize("N", LENGTHS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_softmax_is_float64s_the_same_every_time(dtype: torch.dtype, N: int) -> None:
    x = torch.randn(max(1, 2**22 // N) + 3, N, device="cuda").to(dtype)
    first = ch07.softmax_forward(x)
    assert_softmax(first, x)
    for _ in range(20):
        assert torch.equal(ch07.softmax_forward(x), first)


@pytest.mark.parametrize("N", (40, 300, 3000, 20000, 262144))
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_special_rows_are_what_pytorch_makes_of_them(dtype: torch.dtype, N: int) -> None:
    x = given.special_rows(torch.randn(len(given.SPECIAL), N), dtype).to(dtype).cuda()
    assert_softmax(ch07.softmax_forward(x), x)


@pytest.mark.parametrize("N", (128, 4096, 65536))
def test_rows_past_two_to_the_31_elements(N: int) -> None:
    M = 2**31 // N + 3
    x = torch.randn(1024 // 8, N, device="cuda").bfloat16().repeat(-(-M // 128), 1)[:M]
    y = ch07.softmax(x)
    for rows in (slice(0, 64), slice(M // 2, M // 2 + 64), slice(M - 64, M)):
        assert_softmax(y[rows], x[rows])
    dx = ch07.softmax_backward(y, x)
    last = slice(M - 64, M)
    wide = y[last].double()
    want = wide * (x[last].double() - (wide * x[last].double()).sum(-1, keepdim=True))
    assert compare(dx[last], want, Tolerance(), x.dtype, N).ok


def test_row_offsets_past_two_to_the_31_elements() -> None:
    x = torch.randn(3 * (2**30 + 64), device="cuda", dtype=torch.bfloat16)
    rows = x.as_strided((3, 1000), (2**30 + 64, 1))
    assert_softmax(ch07.softmax_forward(rows), rows)


@pytest.mark.parametrize("N", (256, 8192, 262144))
def test_no_memory_is_taken_but_for_the_results(N: int) -> None:
    x = torch.randn(2**27 // N, N, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    dy = torch.randn_like(x)
    for _ in range(2):  # the first call compiles, and loads the kernels
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        y = ch07.softmax(x)
        assert torch.cuda.max_memory_allocated() - before == x.nbytes
        (dx,) = torch.autograd.grad(y, x, dy)
        assert torch.cuda.max_memory_allocated() - before == 2 * x.nbytes
        del y, dx


@pytest.mark.parametrize("N", (256, 8192, 65536, 262144))
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
@pytest.mark.parametrize("backward", (False, True), ids=("forward", "backward"))
def test_a_configuration_compiles_in_two_seconds(
    dtype: torch.dtype, N: int, backward: bool
) -> None:
    kernel, operands = (ch07.backward_kernel, 3) if backward else (ch07.softmax_kernel, 2)
    matrices = [torch.empty(1, N, device="cuda", dtype=dtype) for _ in range(operands)]
    tile = ch07.tile_for(*matrices, backward=backward)
    forms = tuple((t.dtype, ch07.row_alignment(t)) for t in matrices)
    compile_anew = ch07.compile_kernel.__wrapped__
    compile_anew(
        ch07.softmax_kernel, ch07.tile_for(matrices[0]), forms[:2]
    )  # what is lazily loaded
    begin = time.perf_counter()
    compile_anew(kernel, tile, forms)
    assert time.perf_counter() - begin < 2


def test_the_current_stream_is_used() -> None:
    """Work that is enqueued on a side stream before it is seen by the kernel."""
    side = torch.cuda.Stream()
    x = torch.zeros(4096, 4096, device="cuda")
    ch07.softmax_forward(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(100_000_000)
        x.copy_(torch.randn(4096, 4096, device="cuda"))
        y = ch07.softmax_forward(x)
    side.synchronize()
    assert_softmax(y, x)


def test_a_cuda_graph_can_hold_it() -> None:
    x = torch.randn(64, 65536, device="cuda")
    ch07.softmax(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = ch07.softmax(x)
    x.normal_()
    graph.replay()
    assert_softmax(y, x)


@pytest.mark.parametrize("N", (40, 257, 4096, 32768, 262144))
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("compiled", (False, True), ids=("eager", "compiled"))
def test_it_trains(dtype: torch.dtype, N: int, compiled: bool) -> None:
    def loss(x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return (ch07.softmax(x * 2) * weights).float().sum()

    if compiled:
        torch.compiler.reset()
        loss = torch.compile(loss, fullgraph=True)
    x = torch.randn(33, N, device="cuda").to(dtype).requires_grad_()
    weights = torch.randn(33, N, device="cuda").to(dtype)
    loss(x, weights).backward()
    wide = (x.detach() * 2).double()
    y, w = wide.softmax(-1), weights.double()
    want = 2 * y * (w - (y * w).sum(-1, keepdim=True))
    error = (x.grad.double() - want).abs().amax(-1)
    scale = y.amax(-1) * w.abs().amax(-1) * 2
    assert (error <= 8 * torch.finfo(dtype).eps * scale + 1e-6 * scale).all()


def test_gradcheck_in_float32() -> None:
    x = torch.randn(3, 12, device="cuda", requires_grad=True)
    assert torch.autograd.gradcheck(ch07.softmax, x, eps=1e-2, atol=1e-3, rtol=1e-2)


def test_opcheck_finds_nothing_wrong_with_the_operators() -> None:
    x = torch.randn(3, 300, device="cuda", requires_grad=True)
    torch.library.opcheck(ch07.softmax_operator, (x,))
    y = ch07.softmax_forward(x).detach()
    torch.library.opcheck(ch07.softmax_backward, (y, torch.randn_like(y)))
