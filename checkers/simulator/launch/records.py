"""What is simulated: one launch of one kernel, and the tensors that it may touch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Dim3 = tuple[int, int, int]


@dataclass
class Tensor:
    """A tensor in global memory, in the words of the source that made it.

    name: as the source calls it ("x", "params.weight", "tensors[2]").  address: of its first
    element, a real one.  shape, strides: in elements.  dtype: PyTorch's name without "torch.",
    "bfloat16".  nbytes: from ``address`` to the end of its last element, 0 when it is empty.
    owner: keeps the memory alive.  writable: False where a kernel must not write.
    real: where its bytes are, when ``address`` is what the kernel is told in its place.
    """

    name: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    itemsize: int
    nbytes: int
    owner: Any = field(default=None, repr=False, compare=False)
    writable: bool = True
    real: int | None = None

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.address + self.nbytes


@dataclass
class Launch:
    """One launch, as the host code asked for it.

    ptx: the whole module.  kernel: the name of its .entry.  cluster: (1, 1, 1) where none was
    asked for.  dynamic_shared: bytes.  parameters: the bytes of each .param, in order.
    arch: "sm_90a".  attributes: others that the launch had, by name: "cooperative",
    "programmatic_stream_serialization"; and "source_name", what the source calls the kernel;
    "compiler", "cute" or "triton".
    """

    ptx: str
    kernel: str
    grid: Dim3
    block: Dim3
    cluster: Dim3
    dynamic_shared: int
    parameters: list[bytes]
    tensors: list[Tensor]
    arch: str
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The kernel as a reader knows it: by the name in the source, where that is known."""
        return str(self.attributes.get("source_name") or self.kernel)
