"""The GPUs that can be stood for, by what code asks of them."""

from __future__ import annotations

from dataclasses import dataclass


class UnknownGPU(ValueError):
    """No GPU of that name is known; the text says which are."""


@dataclass(frozen=True)
class GPU:
    """key: of ``--gpu``.  arch: "sm_90a".  sms: streaming multiprocessors.  l2_bytes,
    memory_bytes: as the driver reports them.  shared_per_block: bytes of dynamic shared memory
    that a block may ask for (opt-in).  shared_per_sm: bytes, 1 KiB of a block is the system's.
    largest_cluster: of blocks, the non-portable limit.
    """

    key: str
    name: str
    capability: tuple[int, int]
    sms: int
    l2_bytes: int
    memory_bytes: int
    shared_per_block: int = 227 * 1024
    shared_per_sm: int = 228 * 1024
    registers_per_sm: int = 65536
    threads_per_sm: int = 2048
    blocks_per_sm: int = 32
    largest_cluster: int = 16

    @property
    def arch(self) -> str:
        """The architecture with its accelerated features."""
        return f"sm_{self.capability[0]}{self.capability[1]}a"


GPUS = {
    gpu.key: gpu
    for gpu in (
        GPU("h100", "NVIDIA H100 SXM", (9, 0), 132, 50 * 2**20, 80 * 10**9),
        GPU("h200", "NVIDIA H200", (9, 0), 132, 60 * 2**20, 141 * 10**9),
        GPU("b200", "NVIDIA B200", (10, 0), 148, 126 * 2**20, 180 * 10**9),
    )
}


def find(key: str) -> GPU:
    """The GPU called ``key``. Raises UnknownGPU naming the known ones."""
    try:
        return GPUS[key.lower()]
    except KeyError:
        raise UnknownGPU(f"no GPU {key!r} is known; known are: {', '.join(GPUS)}") from None
