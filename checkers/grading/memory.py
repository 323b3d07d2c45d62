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

from checkers.grading.poison import poison_

GUARD_BYTES = 1 << 16
GUARD_INTEGER = 0x7B
SPARSE = 1000  # elements of a tensor's extent to one of its own, from which on gaps stay untouched
VIRTUAL = 1 << 31  # bytes of a CPU tensor, from which on it gets no guards and no poison
SPOILS, SHOWS = float("nan"), 27008.0  # marks of guard zones, around inputs and around outputs

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


def fill_guard(zone: torch.Tensor, mark: float) -> None:
    """Fills a guard zone, in place: floats with ``mark``, a dtype without NaN with a rare number.

    Around inputs the mark is NaN: a load from there spoils the answer (it is not the NaN of
    ``poison``, so that it is told from never writing). Around outputs it is a number: a NaN that
    is stored there must leave a trace.
    """
    if zone.is_floating_point() or zone.is_complex():
        zone.fill_(mark)
    elif zone.dtype == torch.bool:
        zone.fill_(True)
    else:
        zone.fill_(GUARD_INTEGER)


# Those that allocate and fill: their tensors get guard zones too, but no poison.
FILLED_OPS = frozenset(
    f"aten::{name}" for name in "zeros zeros_like new_zeros full full_like new_full".split()
)


@dataclass
class Guarded:
    """A tensor between two guard zones of one buffer."""

    tensor: torch.Tensor
    before: torch.Tensor
    after: torch.Tensor
    mark: float

    def torn(self) -> str | None:
        """Where a guard zone was written: "before", "after", or None."""
        for name, zone in (("before", self.before), ("after", self.after)):
            if not bool((zone.view(torch.uint8) == self._pattern(zone)).all()):
                return name
        return None

    def _pattern(self, zone: torch.Tensor) -> torch.Tensor:
        fresh = torch.empty(1, dtype=zone.dtype, device=zone.device)
        fill_guard(fresh, self.mark)
        return fresh.expand(zone.numel()).contiguous().view(torch.uint8)


def guarded(size: Any, stride: Any, dtype: torch.dtype, device: Any, mark: float) -> Guarded:
    """A tensor of that geometry, full of poison, between guard zones of GUARD_BYTES."""
    span = 0 if 0 in size else 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    guard = GUARD_BYTES // dtype.itemsize
    buffer = torch.empty(span + 2 * guard, dtype=dtype, device=device)
    before, after = buffer[:guard], buffer[guard + span :]
    tensor = buffer.as_strided(size, stride, guard)
    if span > SPARSE * tensor.numel():  # gigabytes that nobody touches need no memory
        fill_guard(before, mark)
        fill_guard(after, mark)
        poison_(tensor)
    else:
        fill_guard(buffer, mark)
        poison_(buffer[guard : guard + span])
    return Guarded(tensor, before, after, mark)


def guarded_copy(tensor: torch.Tensor, device: Any) -> Guarded:
    """A copy of ``tensor`` on ``device``, same sizes and strides, between guard zones."""
    kept = guarded(tensor.shape, tensor.stride(), tensor.dtype, device, SPOILS)
    kept.tensor.copy_(tensor)
    if tensor.requires_grad:
        kept.tensor.requires_grad_()
    return kept


def virtual(tensor: torch.Tensor) -> bool:
    """So large a CPU tensor that only its ends are used: writing all of it would take memory."""
    return tensor.device.type == "cpu" and tensor.nbytes > VIRTUAL


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
        fresh = "empty" in name or name in FILLED_OPS
        if fresh and isinstance(result, torch.Tensor) and not virtual(result):
            kept = guarded(result.shape, result.stride(), result.dtype, result.device, SHOWS)
            if name in FILLED_OPS:
                kept.tensor.copy_(result)
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
