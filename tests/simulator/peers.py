"""What the tests of others' kernels share: small GPUs, quack's and FlashAttention's memory of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from checkers.simulator.launch import simulating
from checkers.simulator.launch.device import real
from checkers.simulator.reports.gpus import GPU, GPUS

QUACK = "quack-kernels is not installed: pip install -e '.[peers]'"
FLASH_ATTENTION = "flash-attn-4 is not installed: pip install -e '.[peers]'"


@contextmanager
def simulated(gpu: str, sms: int = 2) -> Iterator[list[Any]]:
    """simulating() a GPU of few SMs: a persistent kernel then has more tiles than blocks.

    quack and FlashAttention remember the first GPU that they see; what they remember is cleared.
    """
    with simulating(small(gpu, sms)) as results:
        forget()
        try:
            yield results
        finally:
            forget()


def small(gpu: str, sms: int = 2) -> GPU:
    """A GPU of the table with few SMs."""
    return replace(GPUS[gpu], sms=sms)


def forget() -> None:
    """Clears the caches of the functions and methods of quack and flash_attn."""
    for name, module in list(sys.modules.items()):
        if not name.startswith(("quack", "flash_attn")):
            continue
        values = list(vars(module).values())
        values += [
            getattr(each, member)
            for each in values
            if isinstance(each, type) and each.__module__ == name
            for member in vars(each)
            if not member.startswith("__")
        ]
        for value in values:
            if callable(value) and hasattr(value, "cache_clear"):
                value.cache_clear()


def random(*shape: int, dtype: torch.dtype = torch.bfloat16, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).to(dtype)


def near(got: torch.Tensor, want: torch.Tensor, tolerance: float, scale: float = 1.0) -> None:
    """Both times ``scale``, which brings small values to about one: to rounding of ``tolerance``."""
    got, want = real(got.detach()).float() * scale, want.detach().float() * scale
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)
