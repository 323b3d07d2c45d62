"""Memory filled with a value that no computation gives, to see what an answer never wrote.

The value is a NaN with a payload of its own, so that it can be told from a NaN that the answer
computed (x86 and NVIDIA GPUs give other bits for 0/0 and inf-inf). Integers get a rare number.
"""

from __future__ import annotations

import torch

_INTEGER_OF_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

# Bits of the poison, by dtype: quiet NaNs with the payload ...5A, and for integers ...5A5A.
_BITS: dict[torch.dtype, int] = {
    torch.float64: 0x7FF8_5A5A_5A5A_5A5A,
    torch.float32: 0x7FDA_5A5A,
    torch.float16: 0x7E5A,
    torch.bfloat16: 0x7FDA,
    torch.float8_e4m3fn: 0x7F,
    torch.float8_e5m2: 0x7F,
    torch.int64: 0x5A5A_5A5A_5A5A_5A5A,
    torch.int32: 0x5A5A_5A5A,
    torch.int16: 0x5A5A,
    torch.int8: 0x5A,
    torch.uint8: 0x5A,
}


def poison_(tensor: torch.Tensor) -> torch.Tensor:
    """Fills a tensor with poison, in place. A dtype without one (bool, complex) is filled with
    what ``full_like(nan)`` gives, or left alone where there is no NaN."""
    bits = _BITS.get(tensor.dtype)
    if bits is not None:
        tensor.view(_INTEGER_OF_SIZE[tensor.element_size()]).fill_(bits)
    elif tensor.is_complex():
        tensor.fill_(float("nan"))
    return tensor


def poisoned(tensor: torch.Tensor) -> torch.Tensor:
    """Which elements still hold poison: bool, the tensor's shape. Never true for a dtype that has
    no poison of its own."""
    bits = _BITS.get(tensor.dtype)
    if bits is None:
        return torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
    return tensor.detach().view(_INTEGER_OF_SIZE[tensor.element_size()]) == bits
