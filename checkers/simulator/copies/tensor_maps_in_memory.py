"""Tensor maps where kernels find them: in a parameter, a constant, or global memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from checkers.simulator.copies.tensormap import MAP_BYTES, TensorMap, decode
from checkers.simulator.machine.kernel import PARAM_WINDOW
from checkers.simulator.memory.regions import CONST_WINDOW
from checkers.simulator.reports.faults import Kind
from checkers.simulator.waiting.fences import TensorMapFences

if TYPE_CHECKING:
    from checkers.simulator.machine.group import Group

ALIGNMENT = 64


def map_bytes(part: Group, address: int) -> bytes | None:
    """The 128 bytes at a generic address; None when they are in no memory that can hold a map."""
    memory = part.wave.memory
    top = address >> 56
    if top == PARAM_WINDOW >> 56:
        is_const = address >= CONST_WINDOW
        bank = memory.const if is_const else memory.parameters
        at = address - (CONST_WINDOW if is_const else PARAM_WINDOW)
        if at + MAP_BYTES > len(bank.data):
            return None
        return bank.data[at : at + MAP_BYTES].tobytes()
    if top:
        return None
    region = memory.heap.region_at(address)
    if region is None or address + MAP_BYTES > region.end:
        return None
    return memory.read_bytes("global", 0, np.arange(address, address + MAP_BYTES)).tobytes()


def map_at(part: Group, thread: int, address: int) -> TensorMap | None:
    """The map that a copy of the one lane of ``part`` uses; None, and a fault, when there is none."""
    faults = part.wave.faults
    data = map_bytes(part, address) if address % ALIGNMENT == 0 else None
    if data is None:
        where = (
            "at no multiple of 64 bytes" if address % ALIGNMENT else "in no memory of the launch"
        )
        faults.report(
            Kind.TENSOR_MAP,
            f"The address of the tensor map is {where}: a map is a kernel parameter (__grid_constant__), a "
            "constant, or lies in global memory",
            group=part,
        )
        return None
    if not part.wave.state(TensorMapFences).is_visible(thread // 32, address):
        faults.report(
            Kind.TENSOR_MAP,
            "The tensor map was changed on the device, and no fence.proxy.tensormap::generic pair "
            "(.release after the change, .acquire here) lies between",
            group=part,
        )
    try:
        return decode(data)
    except ValueError as error:
        faults.report(Kind.TENSOR_MAP, f"The tensor map can't be read: {error}", group=part)
        return None
