"""Memory filled with a value that no computation gives, to see what an answer never wrote.

Floats get a NaN. Which NaN matters: 0/0 and inf-inf give one with the sign bit set on x86 and one
with all bits set on an NVIDIA GPU, so a positive NaN with any other payload was put there, and
not computed. Integers get a rare number.
"""

from __future__ import annotations

import torch

_INTEGER_OF_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

# Bits of the poison by dtype. The float8 formats have too few NaNs to tell one from another.
_BITS: dict[torch.dtype, int] = {
    torch.float64: 0x7FF8_5A5A_5A5A_5A5A,
    torch.float32: 0x7FDA_5A5A,
    torch.float16: 0x7E5A,
    torch.bfloat16: 0x7FDA,
    torch.int64: 0x7B7B_7B7B_7B7B_7B7B,
    torch.int32: 0x7B7B_7B7B,
    torch.int16: 0x7B7B,
    torch.int8: 0x7B,
    torch.uint8: 0x7B,
}


def poison_(tensor: torch.Tensor) -> torch.Tensor:
    """Fills a tensor with poison, in place; one whose dtype has none (bool, complex) with NaN
    where there is one."""
    bits = _BITS.get(tensor.dtype)
    if bits is not None:
        tensor.view(_INTEGER_OF_SIZE[tensor.element_size()]).fill_(bits)
    elif tensor.is_floating_point() or tensor.is_complex():
        tensor.fill_(float("nan"))
    return tensor


def poisoned(tensor: torch.Tensor) -> torch.Tensor:
    """Which elements still hold poison: bool, the tensor's shape. Never true for a dtype that has
    no poison of its own."""
    bits = _BITS.get(tensor.dtype)
    if bits is None:
        return torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
    found = tensor.detach().view(_INTEGER_OF_SIZE[tensor.element_size()])
    return found == bits
