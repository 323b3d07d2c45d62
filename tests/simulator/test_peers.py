"""Kernels of others, unchanged and with PyTorch tensors, through TVM FFI: caught, run, and right."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from checkers.simulator.launch import catching, simulating

pytest.importorskip("quack", reason="quack-kernels is not installed: pip install -e .[peers]")


@pytest.fixture(scope="module")
def quack() -> Iterator[SimpleNamespace]:
    """The functions that are called; imported where a GPU seems to be, as they expect."""
    with catching():
        from quack.cross_entropy import cross_entropy
        from quack.rmsnorm import rmsnorm
        from quack.softmax import softmax
    yield SimpleNamespace(softmax=softmax, rmsnorm=rmsnorm, cross_entropy=cross_entropy)


def random(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*shape, generator=generator).to(dtype)


@pytest.mark.parametrize(("rows", "columns", "cluster"), [(8, 1024, 1), (2, 32768, 2)])
def test_softmax_is_right_and_without_fault(quack, rows, columns, cluster):
    x = random(rows, columns)
    with simulating("h100") as results:
        y = quack.softmax(x.cuda()).cpu()
    (result,) = results
    assert result.faults == [] and result.launch.cluster == (1, cluster, 1)
    assert {t.name for t in result.launch.tensors} == {"mX", "mO"}
    torch.testing.assert_close(y.float(), F.softmax(x.float(), -1), rtol=1e-2, atol=1e-4)


def test_rmsnorm_is_right_forward_and_backward(quack):
    x, weight, gradient = random(8, 1024), random(1024, dtype=torch.float32), random(8, 1024)
    a, b = x.float().requires_grad_(), weight.clone().requires_grad_()
    want = F.rms_norm(a, (1024,), b, 1e-6)
    want.backward(gradient.float())
    with simulating("h100") as results:
        u, v = x.cuda().requires_grad_(), weight.cuda().requires_grad_()
        got = quack.rmsnorm(u, v)
        got.backward(gradient.cuda())
        found = [t.float().cpu().detach() for t in (got, u.grad, v.grad)]
    assert len(results) == 2 and all(result.faults == [] for result in results)
    for mine, theirs in zip(found, (want.detach(), a.grad, b.grad), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=2e-2, atol=2e-2)


def test_cross_entropy_is_right(quack):
    x, target = random(8, 2048), torch.arange(8) * 100
    with simulating("h100") as results:
        loss = quack.cross_entropy(x.cuda(), target.cuda(), reduction="none").cpu()
    assert [result.faults for result in results] == [[]]
    torch.testing.assert_close(loss, F.cross_entropy(x.float(), target, reduction="none"))


def test_on_blackwell_the_same_functions_give_the_same(quack):
    x = random(4, 512)
    with simulating("b200") as results:
        y = quack.softmax(x.cuda()).cpu()
    assert results[0].launch.arch == "sm_100a" and results[0].faults == []
    torch.testing.assert_close(y.float(), F.softmax(x.float(), -1), rtol=1e-2, atol=1e-4)
