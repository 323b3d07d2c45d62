"""Local memory: each thread its own bytes, without anybody to race with.

PTX ISA 5.1.5. What is kept of it is which bytes were ever written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.simulator.machine.kernel import LOCAL_WINDOW
from checkers.simulator.memory.bank import Bank
from checkers.simulator.memory.lanes import Lanes, thread_name
from checkers.simulator.memory.order import Order
from checkers.simulator.reports.faults import Kind

if TYPE_CHECKING:
    from checkers.simulator.memory.spaces import Memory


class LocalMemory:
    """bytes: of a thread.  stride: from one thread to the next in ``bank``.  written: bool, of
    every byte.  Places are offsets or generic addresses, (k,) int64.
    """

    def __init__(self, memory: Memory, threads: int, size: int) -> None:
        self.memory = memory
        self.wave = memory.wave
        self.bytes = size
        self.stride = -(-max(size, 1) // 32) * 32
        self.bank = Bank(np.full(self.stride * threads, 0xFF, np.uint8))
        self.written = np.zeros(self.stride * threads, bool)

    def load(
        self, lanes: Lanes, places: np.ndarray, order: Order
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """(values, kept): (m, count) elements of the lanes ``kept``, None for all."""
        lanes, position, kept = self._place(lanes, places, order.width, "load")
        written = self.written.reshape(-1, order.width).take(position // order.width, axis=0)
        if not written.all():
            self._unwritten(lanes, position, ~written.all(axis=1))
        self.wave.counters.add("local_load_bytes", len(position) * order.width, self.memory.site)
        return self.bank.take(position, order.bytes_each, order.count), kept

    def store(self, lanes: Lanes, places: np.ndarray, data: np.ndarray, order: Order) -> None:
        """Stores (k, count) elements."""
        lanes, position, kept = self._place(lanes, places, order.width, "store")
        values = data if kept is None else data[kept]
        self.bank.give(position, values, order.bytes_each, order.count)
        self.written.reshape(-1, order.width)[position // order.width] = True
        self.wave.counters.add("local_store_bytes", len(position) * order.width, self.memory.site)

    def atomic(
        self, lanes: Lanes, places: np.ndarray, inputs: Any, update: Any, order: Order
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Never allowed (PTX ISA 9.7.13.5)."""
        lanes.fault(
            Kind.OUT_OF_BOUNDS,
            np.ones(len(places), bool),
            "an atomic works on global and shared memory, this address is in local memory",
        )
        shape = (0, order.count, *([2] if order.bytes_each == 16 else []))
        return np.zeros(shape, np.dtype(f"u{min(order.bytes_each, 8)}")), np.zeros(0, np.int64)

    def _place(
        self, lanes: Lanes, places: np.ndarray, width: int, verb: str
    ) -> tuple[Lanes, np.ndarray, np.ndarray | None]:
        """(lanes, position, kept) of those that are in bounds and aligned; reports the others."""
        offset = places & (LOCAL_WINDOW - 1)
        position = lanes.threads * self.stride + offset
        wrong = (offset < 0) | (offset + width > self.bytes)
        if wrong.any():
            at = int(offset[np.flatnonzero(wrong)[0]])
            lanes.fault(
                Kind.OUT_OF_BOUNDS,
                wrong,
                f"a {width}-byte {verb} at byte {at} of the thread's {self.bytes} bytes of local "
                "memory",
                details={"offset": at, "local_bytes": self.bytes, "bytes": width},
            )
        crooked = ((offset & (width - 1)) != 0) & ~wrong
        if crooked.any():
            lanes.fault(
                Kind.MISALIGNED,
                crooked,
                f"a {width}-byte {verb} of local memory needs an address that is a multiple of {width}",
            )
        bad = wrong | crooked
        if not bad.any():
            return lanes, position, None
        kept = np.flatnonzero(~bad)
        return lanes.only_at(kept), position[kept], kept

    def _unwritten(self, lanes: Lanes, position: np.ndarray, bad: np.ndarray) -> None:
        i = int(np.flatnonzero(bad)[0])
        lanes.fault(
            Kind.UNINITIALISED,
            bad,
            f"{thread_name(self.wave, int(lanes.threads[i]))} reads byte "
            f"{int(position[i]) % self.stride} of its local memory, which it has not written yet",
        )
