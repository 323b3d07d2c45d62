"""Which tensors a launch may touch, and what the source calls them.

A kernel gets addresses: in its parameters, in TMA descriptors among them, in tables of pointers.
Each is looked up among the arguments of the host function first, whose names a reader knows; then
among every tensor that Python still holds.
"""

from __future__ import annotations

import bisect
import contextlib
import dataclasses
import gc
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

from checkers.simulator.launch.records import Tensor

OWNER = "_simulated_owner"  # attribute of objects that stand for a torch tensor
MAPPINGS = Path("/proc/self/maps")
DEPTH = 4  # of containers within containers
TABLE = 4096  # more integers than this are data, not a table of pointers
NOT_THE_SOURCE = ("checkers.simulator", "cutlass", "triton", "torch", "tvm_ffi", "ctypes")

Names = Callable[[], Iterable[tuple[str, Any]]]


class Seen:
    """The arguments of the host calls that are under way, innermost last."""

    def __init__(self) -> None:
        self._calls: list[Names] = []

    @contextlib.contextmanager
    def call(self, names: Names) -> Iterator[None]:
        """Within, host code runs that was given these (name, value) pairs."""
        self._calls.append(names)
        try:
            yield
        finally:
            self._calls.pop()

    def tensors(self, parameters: Iterable[bytes]) -> list[Tensor]:
        """The tensors that addresses in the parameters lead to, by rising address."""
        known: list[Tensor] = []
        for names in reversed(self._calls):
            for name, value in names():
                known += walk(name, value)
        found: list[Tensor] = []
        words = {word for data in parameters for word in _words(data)}
        while words:
            new = [t for t in reached(words, known) if t not in found]
            found += new
            words = {word for tensor in new for word in _table(tensor)}
        return _outermost(found)


def named(signature: inspect.Signature | None, args: tuple, kwargs: Mapping[str, Any]) -> Names:
    """The arguments of a call by the names of the parameters that they bind to."""

    def pairs() -> Iterable[tuple[str, Any]]:
        if signature is not None:
            with contextlib.suppress(TypeError):
                return list(signature.bind_partial(*args, **kwargs).arguments.items())
        return [*((f"argument {i}", a) for i, a in enumerate(args)), *kwargs.items()]

    return pairs


def walk(name: str, value: Any, depth: int = DEPTH) -> Iterator[Tensor]:
    """The tensors in ``value``: itself, or in its items or attributes."""
    owner = getattr(value, OWNER, None) if not isinstance(value, type) else None
    if isinstance(owner, torch.Tensor):
        value = owner
    if isinstance(value, torch.Tensor):
        yield from described(name, value)
    elif isinstance(value, np.ndarray):
        yield from described(name, torch.from_numpy(value))
    elif depth == 0 or isinstance(value, str | bytes | int | float | type | None):
        return
    else:
        for item_name, item in _items(name, value):
            yield from walk(item_name, item, depth - 1)


def _items(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((f"{name}[{key!r}]", item) for key, item in value.items())
    elif hasattr(value, "_fields") and isinstance(value, tuple):
        yield from ((f"{name}.{field}", getattr(value, field)) for field in value._fields)
    elif isinstance(value, list | tuple):
        yield from ((f"{name}[{index}]", item) for index, item in enumerate(value))
    elif dataclasses.is_dataclass(value) or not _library(type(value).__module__):
        attributes = getattr(value, "__dict__", {})
        yield from ((f"{name}.{key}", item) for key, item in attributes.items())


def _library(module: str) -> bool:
    return module.partition(".")[0] in ("builtins", "cutlass", "triton", "cuda", "torch", "tvm_ffi")


def described(name: str, tensor: torch.Tensor) -> Iterator[Tensor]:
    """The record of one tensor; none for one that has no memory (fake, meta, sparse)."""
    with torch._C.DisableTorchFunction():
        try:
            address = tensor.data_ptr()
        except RuntimeError:
            return
        shape, strides = tuple(tensor.shape), tuple(tensor.stride())
        itemsize = tensor.element_size()
        last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        yield Tensor(
            name=name,
            address=address,
            shape=shape,
            strides=strides,
            dtype=str(tensor.dtype).removeprefix("torch."),
            itemsize=itemsize,
            nbytes=(last + 1) * itemsize if tensor.numel() else 0,
            owner=tensor,
        )


# --- addresses -----------------------------------------------------------------------------------


def _words(data: bytes) -> Iterable[int]:
    return np.frombuffer(data, "<u8", count=len(data) // 8).tolist()


def _table(tensor: Tensor) -> Iterable[int]:
    """The entries of a tensor that may be a table of pointers."""
    if tensor.dtype not in ("int64", "uint64") or tensor.owner.numel() > TABLE:
        return []
    with torch._C.DisableTorchFunction():
        return tensor.owner.detach().cpu().reshape(-1).view(torch.int64).tolist()


def _holds(tensor: Tensor, word: int) -> bool:
    return tensor.address <= word < tensor.end or word == tensor.address


def reached(words: set[int], known: list[Tensor]) -> list[Tensor]:
    """The tensors that the words point into: known ones, else any that Python holds."""
    found = [tensor for tensor in known if any(_holds(tensor, word) for word in words)]
    lost = _addresses({w for w in words if not any(_holds(t, w) for t in found)})
    return found + (_among_all(lost) if lost else [])


def _addresses(words: set[int]) -> set[int]:
    """Those that lie in memory of this process. Two sizes side by side look like an address, and
    the search among all of Python's objects takes longer than a small kernel."""
    words = {w for w in words if 2**16 < w < 2**47}  # user space
    try:
        lines = MAPPINGS.read_text().splitlines() if words else []
    except OSError:
        return words  # not Linux
    spans = [line.partition(" ")[0].split("-") for line in lines]
    edges = [int(edge, 16) for span in spans for edge in span]  # rising; even ones begin a span
    return {w for w in words if bisect.bisect_right(edges, w) % 2}


def _among_all(words: set[int]) -> list[Tensor]:
    found: list[Tensor] = []
    kinds = _tensor_types(torch.Tensor)
    for candidate in gc.get_objects():
        if type(candidate) in kinds:  # asking a set is ten times faster than issubclass
            for tensor in described("", candidate):
                if any(_holds(tensor, word) for word in words):
                    tensor.name = _name_in_frames(tensor)
                    found.append(tensor)
    return found


def _tensor_types(kind: type) -> set[type]:
    """A class and all that derive from it."""
    return {kind}.union(*(_tensor_types(derived) for derived in kind.__subclasses__()))


def _name_in_frames(tensor: Tensor) -> str:
    """The name of a variable of the calling source that holds the tensor, else its address."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(NOT_THE_SOURCE):
            for name, value in frame.f_locals.items():
                if isinstance(value, torch.Tensor) and _same(tensor, value):
                    return name
        frame = frame.f_back
    return f"the tensor at {tensor.address:#x}"


def _same(tensor: Tensor, value: torch.Tensor) -> bool:
    return any((t.address, t.shape) == (tensor.address, tensor.shape) for t in described("", value))


def _outermost(tensors: list[Tensor]) -> list[Tensor]:
    """Without those that lie within another; of equals the first named, by rising address."""
    kept: list[Tensor] = []
    for tensor in sorted(tensors, key=lambda t: (t.address, -t.nbytes)):
        if not any(k.address <= tensor.address and tensor.end <= k.end for k in kept):
            kept.append(tensor)
    return kept
