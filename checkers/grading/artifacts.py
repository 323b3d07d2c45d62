"""What the compile stage caught: one compiled kernel for one target."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel as the tool chain left it, and how it was to be launched.

    name: the name in the PTX, or a unique part of it. One PTX text may hold several kernels (a
        CuTe DSL host function with two launches); each gets its own CompiledKernel.
    target: "sm_90a" or "sm_100a".  ptx: the text.  cubin: the bytes, empty if not kept.
    threads: per block; None when the launch was not seen (the PTX's .reqntid is used then).
    shared_bytes: dynamic shared memory of the launch.  cluster, grid: (x, y, z); grid None when
        unknown.  source_file: the file of the learner's code, as .file names it in the PTX.
    """

    name: str
    target: str
    ptx: str
    cubin: bytes = b""
    threads: int | None = None
    shared_bytes: int = 0
    cluster: tuple[int, int, int] = (1, 1, 1)
    grid: tuple[int, int, int] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    source_file: str = ""

    def to_json(self) -> dict[str, Any]:
        """A dictionary that json.dumps takes; the cubin in base64."""
        return asdict(self) | {
            "cubin": base64.b64encode(self.cubin).decode("ascii"),
            "metadata": dict(self.metadata),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CompiledKernel:
        """The inverse of ``to_json``, also after a trip through json.dumps and json.loads."""
        grid = data["grid"]
        return cls(
            **dict(data)
            | {
                "cubin": base64.b64decode(data["cubin"]),
                "cluster": tuple(data["cluster"]),
                "grid": None if grid is None else tuple(grid),
            }
        )
