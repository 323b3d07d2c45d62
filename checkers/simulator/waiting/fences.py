"""What fences leave behind for other instructions to build on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from checkers.simulator.machine.wave import Wave


class Fences:
    """Of a wave. init_fenced: (threads,) up to which of its mbarrier.init a thread has executed
    fence.mbarrier_init, 0 for none: even a relaxed cluster barrier passes these on."""

    def __init__(self, wave: Wave) -> None:
        self.init_fenced = np.zeros(wave.warps * 32, np.int64)


class TensorMapFences:
    """Tensor maps in memory that the kernel itself has changed.

    version: how often the map at an address was changed.  released, acquired: up to which version
    its change was passed on to the tensormap proxy, and taken over there by a warp.
    """

    def __init__(self, wave: Wave) -> None:
        self.version: dict[int, int] = {}
        self.released: dict[int, int] = {}
        self.acquired: dict[tuple[int, int], int] = {}

    def changed(self, address: int) -> None:
        self.version[address] = self.version.get(address, 0) + 1

    def release(self) -> None:
        """fence.proxy.tensormap::generic.release: of all that was changed so far."""
        self.released.update(self.version)

    def acquire(self, warp: int, address: int) -> None:
        """fence.proxy.tensormap::generic.acquire by a warp."""
        self.acquired[warp, address] = self.released.get(address, 0)

    def is_visible(self, warp: int, address: int) -> bool:
        """Whether a copy started by ``warp`` sees the map at ``address`` as it is now."""
        version = self.version.get(address, 0)
        return version == 0 or self.acquired.get((warp, address), 0) == version
