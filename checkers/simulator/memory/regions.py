"""Global memory: the launch's tensors and the module's variables, in place.

A *region* is a stretch of memory that belongs to one or more tensors that overlap or are views of
one another; its bytes are the very bytes of the tensors. All else is out of bounds.
"""

from __future__ import annotations

import bisect
import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.simulator.launch.records import Tensor
from checkers.simulator.memory.apart import stretches
from checkers.simulator.memory.bank import Bank
from checkers.simulator.memory.shadow import WIDEST, GlobalReads, Shadow

if TYPE_CHECKING:
    from checkers.simulator.memory.repeats import Repeats
    from checkers.simulator.ptx.program import Instruction, Module

# Constant memory is reached through its own window.
CONST_WINDOW = (1 << 58) | (1 << 48)
CONST_BYTES = 65536


class Region:
    """``start``, ``end``: addresses.  base: ``start`` rounded down to 32 bytes, the address of
    bank.data[0].  valid: (end - base,) bool, which bytes belong to a tensor; None when all do.
    written: whether the kernel has written into it.  Its shadow is made when it first has.
    """

    def __init__(self, start: int, end: int, tensors: list[Tensor], grain: int) -> None:
        self.start, self.end = start, end
        self.tensors = tensors
        self.base = start // WIDEST * WIDEST
        size = -(-(end - self.base) // WIDEST) * WIDEST
        moved = tensors[0].address - (tensors[0].real or tensors[0].address)
        self.bank = Bank(_memory(self.base - moved, size))
        self.size = size
        self.grain = grain
        self.written = False
        self.writable = all(t.writable for t in tensors)
        self.valid = self._valid()
        self._shadow: Shadow | None = None
        self._reads: GlobalReads | None = None
        self.repeats: Repeats | None = None
        self._touched: dict[str, np.ndarray] = {}

    def touch(self, way: str, position: np.ndarray, width: int) -> None:
        """Notes the sectors of aligned accesses of ``width`` bytes at byte ``position`` (k,).
        way: "read" or "write"."""
        touched = self._touched.get(way)
        if touched is None:
            touched = self._touched[way] = np.zeros(self.size // WIDEST, bool)
        first = position // WIDEST
        for step in range(max(1, width // WIDEST)):
            touched[first + step] = True

    def footprint(self, way: str) -> int:
        """Bytes of the sectors that were touched."""
        touched = self._touched.get(way)
        return 0 if touched is None else WIDEST * int(np.count_nonzero(touched))

    @property
    def shadow(self) -> Shadow:
        if self._shadow is None:
            self._shadow = Shadow(self.size, self.grain)
        return self._shadow

    @property
    def reads(self) -> GlobalReads:
        if self._reads is None:
            self._reads = GlobalReads(self.shadow, self.repeats)
        return self._reads

    def _valid(self) -> np.ndarray | None:
        """Which bytes are some tensor's element."""
        if any(
            _is_dense(t) and t.address == self.start and t.end == self.end for t in self.tensors
        ):
            return None
        valid = np.zeros(self.size, bool)
        for tensor in self.tensors:
            at = tensor.address - self.base
            if _is_dense(tensor):
                valid[at : at + tensor.nbytes] = True
                continue
            strides = [s * tensor.itemsize for s in tensor.strides]
            np.lib.stride_tricks.as_strided(
                valid[at:], (*tensor.shape, tensor.itemsize), (*strides, 1)
            )[...] = True
        return None if valid[self.start - self.base : self.end - self.base].all() else valid


def _memory(address: int, size: int) -> np.ndarray:
    """The bytes at a real address; pages that nobody touches are not read."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def _is_dense(tensor: Tensor) -> bool:
    """Whether its elements fill its bytes without a gap."""
    expected = 1
    for stride, size in sorted(zip(tensor.strides, tensor.shape, strict=True)):
        if size == 1 or stride == 0:
            continue
        if stride != expected:
            return False
        expected *= size
    return expected * tensor.itemsize == tensor.nbytes


class Heap:
    """Global memory over a whole launch: its shadow goes on from wave to wave.

    sites: the instructions that accessed memory, by the number that the shadow keeps of them.
    clusters_begun: of the grid, in the waves so far.
    """

    def __init__(self, tensors: list[Tensor], module: Module | None, grain: int) -> None:
        self.grain = grain
        self.clusters_begun = 0
        self.sites: list[Instruction | None] = [None]
        self.strength: list[int] = [0]
        self._site_numbers: dict[int, int] = {}
        self.symbols: dict[str, int] = {}
        self.owned: list[np.ndarray] = []
        self.const = np.zeros(0, np.uint8)
        self.variables = self._declare(module)
        everything = [t for t in tensors if t.nbytes] + self.variables
        self.tensors = everything
        self.regions = [Region(a, b, ts, grain) for a, b, ts in stretches(everything)]
        self._starts = [r.start for r in self.regions]
        self.starts = np.array(self._starts, np.int64)
        self.locations: dict[Any, Any] = {}
        self.repeats: Repeats | None = None

    def expect_repeats(self, repeats: Repeats) -> None:
        """The launch is Triton's: see repeats.py."""
        self.repeats = repeats
        for region in self.regions:
            region.repeats = repeats

    def _declare(self, module: Module | None) -> list[Tensor]:
        """Gives the module's .global and .const variables their memory."""
        found: list[Tensor] = []
        constants = bytearray()
        holders: dict[str, Any] = {}  # where the bytes of a variable with addresses in it start
        variables = module.variables if module else ()
        for variable in variables:
            if variable.space == "global":
                room = np.zeros(max(variable.bytes, 1) + 256, np.uint8)
                skip = -room.ctypes.data % max(variable.align, 16)
                part = room[skip : skip + variable.bytes]
                part[: len(variable.data)] = np.frombuffer(variable.data, np.uint8)
                self.owned.append(room)
                holders[variable.name] = (part, 0)
                address = part.ctypes.data
                size = max(int("".join(c for c in variable.type if c.isdigit()) or 8) // 8, 1)
                shape = (variable.bytes // size,)
                self.symbols[variable.name] = address
                if variable.bytes:
                    found.append(
                        Tensor(
                            variable.name, address, shape, (1,), variable.type, size, variable.bytes
                        )
                    )
            elif variable.space == "const":
                constants += bytes(-len(constants) % variable.align)
                self.symbols[variable.name] = CONST_WINDOW + len(constants)
                holders[variable.name] = (constants, len(constants))
                constants += variable.data + bytes(variable.bytes - len(variable.data))
        for variable in variables:
            for each in variable.relocations:
                # A function's address is no number here; an indirect call is refused.
                address = (self.symbols.get(each.symbol, 0) + each.addend) >> each.shift
                raw = (address & ((1 << 8 * each.bytes) - 1)).to_bytes(each.bytes, "little")
                holder, start = holders[variable.name]
                start += each.offset
                holder[start : start + each.bytes] = (
                    raw if holder is constants else np.frombuffer(raw, np.uint8)
                )
        if constants:
            self.const = np.frombuffer(bytes(constants), np.uint8)
        return found

    def footprint(self, way: str) -> int:
        """Bytes of all sectors that were touched. way: "read" or "write"."""
        return sum(region.footprint(way) for region in self.regions)

    def region_at(self, address: int) -> Region | None:
        """The region that the byte at ``address`` is in."""
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0 or address >= self.regions[at].end:
            return None
        return self.regions[at]

    def site(self, instruction: Instruction, strength: int = 0) -> int:
        """The number that the shadow keeps of an instruction. strength: see races.py."""
        number = self._site_numbers.get(id(instruction))
        if number is None:
            number = self._site_numbers[id(instruction)] = min(len(self.sites), 0xFFFF)
            if number == len(self.sites):
                self.sites.append(instruction)
                self.strength.append(strength)
        return number
