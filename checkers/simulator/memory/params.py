"""Kernel parameters and constant memory: bytes that are only read, the same for all threads.

PTX ISA 5.1.3, 5.1.6. Parameters lie at PARAM_WINDOW | offset, constants at CONST_WINDOW + offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.simulator.machine.kernel import PARAM_WINDOW
from checkers.simulator.memory.bank import Bank
from checkers.simulator.memory.lanes import Lanes
from checkers.simulator.memory.order import Order
from checkers.simulator.memory.regions import CONST_WINDOW
from checkers.simulator.reports.faults import Kind

if TYPE_CHECKING:
    from checkers.simulator.memory.spaces import Memory


def parameter_bytes(kernel: Any, parameters: list[bytes]) -> np.ndarray:
    """The parameter buffer: each parameter's bytes at its offset."""
    declared = kernel.function.parameters
    size = max([p.offset + p.bytes for p in declared], default=0)
    buffer = np.zeros(size, np.uint8)
    for variable, value in zip(declared, parameters, strict=True):
        raw = np.frombuffer(value, np.uint8)[: variable.bytes]
        buffer[variable.offset : variable.offset + len(raw)] = raw
    return buffer


def padded(data: np.ndarray) -> Bank:
    """A bank of at least these bytes."""
    room = np.zeros(-(-(len(data) + 1) // 32) * 32, np.uint8)
    room[: len(data)] = data
    return Bank(room)


class ConstAccess:
    """Places are generic addresses, or offsets of the state space's own, (k,) int64."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.wave = memory.wave
        parameters = parameter_bytes(self.wave.kernel, self.wave.launch.parameters)
        constants = memory.heap.const
        self.parameters, self.parameter_size = padded(parameters), len(parameters)
        self.constants, self.constant_size = padded(constants), len(constants)

    def load(
        self, lanes: Lanes, places: np.ndarray, order: Order
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """(values, kept) as those of the other spaces."""
        first = int(places[0])
        constant = first >= CONST_WINDOW if first >> 58 else order.space == "const"
        window = CONST_WINDOW if constant else PARAM_WINDOW
        offset = places - window if first >> 58 else places
        bank = self.constants if constant else self.parameters
        size = self.constant_size if constant else self.parameter_size
        what = "constant memory" if constant else "the kernel's parameters"
        wrong = (offset < 0) | (offset + order.width > size)
        if wrong.any():
            at = int(offset[np.flatnonzero(wrong)[0]])
            lanes.fault(
                Kind.OUT_OF_BOUNDS,
                wrong,
                f"a {order.width}-byte load at byte {at} of {what}, which has {size} bytes",
            )
        crooked = ((offset & (order.width - 1)) != 0) & ~wrong
        if crooked.any():
            lanes.fault(
                Kind.MISALIGNED,
                crooked,
                f"a {order.width}-byte load of {what} needs an address that is a multiple of "
                f"{order.width}",
            )
        bad = wrong | crooked
        if not bad.any():
            return bank.take(offset, order.bytes_each, order.count), None
        kept = np.flatnonzero(~bad)
        return bank.take(offset[kept], order.bytes_each, order.count), kept

    def store(self, lanes: Lanes, places: np.ndarray, data: np.ndarray, order: Order) -> None:
        """Never allowed."""
        lanes.fault(
            Kind.READ_ONLY,
            np.ones(len(places), bool),
            "constant memory and the kernel's parameters can't be written",
        )

    def atomic(
        self, lanes: Lanes, places: np.ndarray, inputs: Any, update: Any, order: Order
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Never allowed."""
        self.store(lanes, places, np.zeros(0), order)
        shape = (0, order.count, *([2] if order.bytes_each == 16 else []))
        return np.zeros(shape, np.dtype(f"u{min(order.bytes_each, 8)}")), np.zeros(0, np.int64)
