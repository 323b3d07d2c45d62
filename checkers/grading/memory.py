"""Watches what an answer does with memory and with PyTorch.

Tensors lie between guard zones, so that a store out of bounds leaves a mark and a load out of
bounds brings NaN; fresh tensors are full of NaN, so that what was never written shows; operators
other than allocating and viewing are noted, so that the library can't do the kernel's work.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

GUARD_BYTES = 1 << 16
POISON_INT = 0x7B  # every byte of a poisoned integer

# Operators that allocate, view, or only look at a tensor's description.
FREE_OPS = frozenset(
    "aten::" + name
    for name in (
        "empty empty_like empty_strided new_empty new_empty_strided zeros zeros_like new_zeros "
        "zero_ fill_ full full_like new_full alias as_strided view _unsafe_view reshape "
        "_reshape_alias detach expand permute t transpose squeeze unsqueeze unflatten slice select "
        "narrow split flatten view_as unbind lift_fresh set_ resize_ is_pinned record_stream"
    ).split()
)


def poison(tensor: torch.Tensor) -> None:
    """Fills a tensor with NaN, or with a pattern where its dtype has no NaN, in place."""
    if tensor.is_floating_point() or tensor.is_complex():
        tensor.fill_(float("nan"))
    elif tensor.dtype == torch.bool:
        tensor.fill_(True)
    else:
        tensor.view(torch.uint8).fill_(POISON_INT) if tensor.numel() else None


@dataclass
class Guarded:
    """A tensor between two guard zones of one buffer."""

    tensor: torch.Tensor
    before: torch.Tensor
    after: torch.Tensor

    def torn(self) -> str | None:
        """Where a guard zone was written: "before", "after", or None."""
        for name, zone in (("before", self.before), ("after", self.after)):
            if not bool((zone.view(torch.uint8) == self._pattern(zone)).all()):
                return name
        return None

    @staticmethod
    def _pattern(zone: torch.Tensor) -> torch.Tensor:
        fresh = torch.empty(1, dtype=zone.dtype, device=zone.device)
        poison(fresh)
        return fresh.expand(zone.numel()).contiguous().view(torch.uint8)


def guarded(size: Any, stride: Any, dtype: torch.dtype, device: Any) -> Guarded:
    """A poisoned tensor of that geometry, between guard zones of GUARD_BYTES."""
    span = 0 if 0 in size else 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    guard = GUARD_BYTES // dtype.itemsize
    buffer = torch.empty(span + 2 * guard, dtype=dtype, device=device)
    poison(buffer)
    tensor = buffer.as_strided(size, stride, guard)
    return Guarded(tensor, buffer[:guard], buffer[guard + span :])


def guarded_copy(tensor: torch.Tensor, device: Any) -> Guarded:
    """A copy of ``tensor`` on ``device``, same sizes and strides, between guard zones."""
    kept = guarded(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, device)
    kept.tensor.copy_(tensor)
    if tensor.requires_grad:
        kept.tensor.requires_grad_()
    return kept


@dataclass
class Watch(TorchDispatchMode):
    """While entered, notes operators and gives fresh tensors guard zones and poison.

    allowed: operators beyond FREE_OPS that may be used.  used: those that were, and may not.
    """

    allowed: frozenset[str] = frozenset()
    used: list[str] = field(default_factory=list)
    fresh: list[Guarded] = field(default_factory=list)
    suspended: int = 0

    def __post_init__(self) -> None:
        TorchDispatchMode.__init__(self)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if self.suspended:
            return result
        name = func._schema.name
        if name not in FREE_OPS and name not in self.allowed and name not in self.used:
            self.used.append(name)
        if "empty" in name and isinstance(result, torch.Tensor):
            kept = guarded(tuple(result.shape), tuple(result.stride()), result.dtype, result.device)
            self.fresh.append(kept)
            return kept.tensor
        return result

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """What runs within is the grader's or the interpreter's, not the answer's."""
        self.suspended += 1
        try:
            yield
        finally:
            self.suspended -= 1


@contextlib.contextmanager
def interpreter_apart(watch: Watch, unwrap: Callable[[Any], Any]) -> Iterator[None]:
    """Within, Triton's interpreter works on plain tensors and is not watched."""
    from triton.runtime import interpreter

    original = interpreter.GridExecutor.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        with watch.pause(), torch._C.DisableTorchFunction():
            plain = {name: unwrap(value) for name, value in kwargs.items()}
            return original(self, *(unwrap(value) for value in args), **plain)

    interpreter.GridExecutor.__call__ = call
    try:
        yield
    finally:
        interpreter.GridExecutor.__call__ = original
