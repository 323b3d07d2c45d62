"""Inductor on this GPU writes what chapter 1 keeps as its reading matter."""

from __future__ import annotations

import pytest
import torch

from checkers.chapters.ch01_torch_compile import GENERATED
from checkers.grading.torch_compile import inspect_compilation
from solutions.ch01_torch_compile import compiled_softmax, fused_softmax, read_kernel

KEPT = {"softmax_1024": (2**19, 1024), "softmax_8192": (2**16, 8192)}


@pytest.mark.parametrize("module", KEPT)
def test_the_kept_module_is_what_this_pytorch_writes(module: str) -> None:
    kept = (GENERATED / f"{module}.txt").read_text()
    x = torch.randn(KEPT[module], dtype=torch.bfloat16, device="cuda")
    compiled_softmax.cache_clear()
    found = inspect_compilation(lambda: fused_softmax(x))
    (code,) = found.code
    if f"PyTorch {torch.__version__.partition('+')[0]} " in kept:
        assert read_kernel(code) == read_kernel(kept)
    else:  # another version may fuse otherwise, but it can be read
        assert read_kernel(code)["x_loads"] >= 1
    expected = torch.softmax(x[:64].double(), dim=-1)
    assert (found.result[:64].double() - expected).abs().max() < 0.01


def test_short_rows_are_one_kernel_that_reads_x_once() -> None:
    x = torch.randn(2**15, 1024, dtype=torch.bfloat16, device="cuda")
    found = inspect_compilation(lambda: fused_softmax(x))
    assert found.measures == {"graphs": 1, "graph_breaks": 0, "recompiles": 0, "kernels": 1}
    assert read_kernel(found.code[0]) == {"kernels": 1, "looped": 0, "x_loads": 1}
