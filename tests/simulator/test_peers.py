"""Quack's kernels, unchanged and with PyTorch tensors, through TVM FFI: caught, run, and right.

Long rows are shared by the blocks of a cluster: they exchange through distributed shared memory.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from checkers.simulator.launch.device import real
from tests.simulator.peers import QUACK, near, random, simulated

pytest.importorskip("quack", reason=QUACK)


@pytest.mark.parametrize(
    ("gpu", "rows", "columns", "cluster"),
    [("h100", 8, 1000, 1), ("h100", 2, 32768, 2), ("h100", 2, 131072, 8), ("b200", 4, 512, 1)],
)
def test_softmax_is_right_forward_and_backward(gpu, rows, columns, cluster):
    x, gradient = random(rows, columns), random(rows, columns, seed=2)
    a = x.float().requires_grad_()
    want = F.softmax(a, -1)
    want.backward(gradient.float())
    with simulated(gpu) as results:
        from quack.softmax import softmax

        b = x.cuda().requires_grad_()
        got = softmax(b)
        got.backward(gradient.cuda())
    assert [result.faults for result in results] == [[], []]
    assert {result.launch.cluster for result in results} == {(1, cluster, 1)}
    assert {t.name for t in results[0].launch.tensors} == {"mX", "mO"}
    near(got, want, 1e-2, scale=columns)
    near(b.grad, a.grad, 2e-2, scale=columns)


@pytest.mark.parametrize(
    ("gpu", "rows", "columns", "clusters"),
    [
        ("h100", 8, 1024, [1, 1]),
        ("h100", 3, 16384, [1, 2]),
        ("h100", 3, 65536, [4, 8]),
        ("b200", 8, 1024, [1, 1]),
    ],
)
def test_rmsnorm_is_right_forward_and_backward(gpu, rows, columns, clusters):
    x, gradient = random(rows, columns), random(rows, columns, seed=2)
    weight = random(columns, dtype=torch.float32, seed=3)
    a, b = x.float().requires_grad_(), weight.clone().requires_grad_()
    want = F.rms_norm(a, (columns,), b, 1e-6)
    want.backward(gradient.float())
    with simulated(gpu) as results:
        from quack.rmsnorm import rmsnorm

        u, v = x.cuda().requires_grad_(), weight.cuda().requires_grad_()
        got = rmsnorm(u, v)
        got.backward(gradient.cuda())
    assert [result.faults for result in results] == [[], []]
    assert [result.launch.cluster[1] for result in results] == clusters
    near(got, want, 1e-2)
    near(u.grad, a.grad, 2e-2)
    near(v.grad, b.grad, 1e-2)


def test_layer_norm_is_right():
    x, weight, bias = random(8, 4096), *(random(4096, dtype=torch.float32, seed=i) for i in (2, 3))
    with simulated("h100") as results:
        from quack.rmsnorm import layernorm_fwd

        got = layernorm_fwd(x.cuda(), weight.cuda(), bias.cuda())
    assert [result.faults for result in results] == [[]]
    near(got, F.layer_norm(x.float(), (4096,), weight, bias, 1e-6), 1e-2)


@pytest.mark.parametrize(
    ("gpu", "rows", "columns", "cluster"),
    [("h100", 8, 2000, 1), ("h100", 3, 65536, 4), ("b200", 8, 2000, 1), ("b200", 3, 65536, 4)],
)
def test_cross_entropy_is_right_forward_and_backward(gpu, rows, columns, cluster):
    x, gradient = random(rows, columns), random(rows, dtype=torch.float32, seed=2)
    target = torch.arange(rows) * (columns // rows)
    target[1] = -100  # a row that doesn't count
    a = x.float().requires_grad_()
    want = F.cross_entropy(a, target, reduction="none")
    want.backward(gradient)
    with simulated(gpu) as results:
        from quack.cross_entropy import cross_entropy

        b = x.cuda().requires_grad_()
        got = cross_entropy(b, target.cuda(), reduction="none")
        got.backward(gradient.cuda())
    assert [result.faults for result in results] == [[], []]
    assert results[0].launch.cluster == (1, cluster, 1)
    near(got, want, 1e-4)
    near(b.grad, a.grad, 2e-2, scale=columns**0.5)


def test_the_largest_of_a_row_and_where_they_are():
    x = random(16, 1024, dtype=torch.float32)
    with simulated("h100") as results:
        from quack.topk import topk

        values, indices = topk(x.cuda(), 8)
    assert [result.faults for result in results] == [[]]
    want = x.topk(8)
    # The index is kept in the lowest ten bits of a value.
    near(values, want.values, 2**-12)
    assert torch.equal(real(indices).long(), want.indices)
