"""Shared memory of the blocks of a wave, one after another in one array.

PTX ISA 5.1.7. A shared address is (rank << 24) | offset; the block of that rank in the cluster has
the byte. Offsets begin at SHARED_BASE: what lies before belongs to the system.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from checkers.simulator.machine.kernel import SHARED_BASE
from checkers.simulator.memory.bank import Bank
from checkers.simulator.memory.shadow import WIDEST, Shadow, SharedReads

RANK_SHIFT = 24
OFFSET_MASK = (1 << RANK_SHIFT) - 1


class SharedMemory:
    """bytes: of a block, the system's included.  stride: from one block to the next in ``bank``.

    Filled with 0xFF, NaNs, since no value may be relied on. across: the kernel may address
    another block's shared memory, so its readers are kept for all warps of the cluster.
    """

    def __init__(self, wave: Any, size: int, grain: int, across: bool) -> None:
        self.wave = wave
        self.bytes = size
        self.stride = -(-size // 128) * 128
        total = self.stride * wave.blocks
        self.bank = Bank(np.full(total, 0xFF, np.uint8))
        self.shadow = Shadow(total, grain)
        self.across = across
        self.warps = wave.warps_per_block * (wave.cluster_size if across else 1)
        self.reads = SharedReads(self.shadow, self.warps)
        self.barriers: list[Any] = [None]
        threads = np.arange(wave.blocks * wave.warps_per_block * 32)
        self.block = threads // (wave.warps_per_block * 32)
        self.first = self.block * self.stride
        self.reader = (threads >> 5) % self.warps
        assert self.stride % WIDEST == 0

    def offsets(
        self, threads: np.ndarray, address: np.ndarray, cluster: bool
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """(offset, position, inside) of 32-bit shared addresses, (k,) int64.

        cluster: another block's address is allowed. position: in bank.  inside: whether the
        address is that of an allowed block; None when all are.
        """
        if self.wave.cluster_size == 1:
            return address, self.first[threads] + address, None
        rank, offset = address >> RANK_SHIFT, address & OFFSET_MASK
        own = self.block[threads]
        own_rank = own % self.wave.cluster_size
        if (rank == own_rank).all():
            return offset, self.first[threads] + offset, None
        inside = rank < self.wave.cluster_size if cluster else rank == own_rank
        block = own - own_rank + np.minimum(rank, self.wave.cluster_size - 1)
        return offset, block * self.stride + offset, None if inside.all() else inside

    def out_of_bounds(self, offset: np.ndarray, width: int) -> np.ndarray | None:
        """Which of (k,) accesses don't lie in a block's variables; None when all do."""
        if int(offset.min()) >= SHARED_BASE and int(offset.max()) + width <= self.bytes:
            return None
        return (offset < SHARED_BASE) | (offset + width > self.bytes)
