"""The memory of a wave: every load, store and atomic comes through here.

Each goes the same way: which lanes, which bytes (in bounds, aligned), is it ordered after what
others did (races.py), the data itself, the counters. A lane whose access is wrong is reported; its load
gives 0, its store is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from checkers.simulator.machine.kernel import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW
from checkers.simulator.memory import naming
from checkers.simulator.memory.asynchronous import Asynchronous, Ticket
from checkers.simulator.memory.global_access import GlobalAccess
from checkers.simulator.memory.grains import grain_of, reads_across
from checkers.simulator.memory.knowledge import Agent
from checkers.simulator.memory.lanes import Lanes
from checkers.simulator.memory.local import LocalMemory
from checkers.simulator.memory.order import Order, Update, order_of
from checkers.simulator.memory.params import ConstAccess
from checkers.simulator.memory.patterns import Patterns
from checkers.simulator.memory.races import Races, Target
from checkers.simulator.memory.regions import Heap, Region
from checkers.simulator.memory.repeats import Repeats
from checkers.simulator.memory.shadow import BARRIER
from checkers.simulator.memory.shared import SharedMemory
from checkers.simulator.memory.shared_access import SharedAccess
from checkers.simulator.memory.transactions import Transactions
from checkers.simulator.ptx.program import Instruction

_WINDOWS = ("global", "shared", "local", "const")


class Memory:
    """All state spaces of a wave; ``heap``, global memory and what is known of it, is the launch's.

    site: the instruction that accesses memory now.
    """

    def __init__(self, wave: Any) -> None:
        self.wave = wave
        self.site: Instruction | None = None
        run = getattr(wave, "run", wave)
        if getattr(run, "heap", None) is None:
            sizes = [t.itemsize for t in wave.launch.tensors if t.nbytes]
            grain = grain_of(wave.kernel, "global", min(sizes, default=1))
            run.heap = Heap(wave.launch.tensors, wave.kernel.module, grain)
            if wave.launch.attributes.get("compiler") == "triton":
                run.heap.expect_repeats(Repeats(run.heap, wave.warps_per_block * 32))
        self.heap: Heap = run.heap
        across = wave.cluster_size > 1 and reads_across(wave.kernel)
        self.shared = SharedMemory(wave, run.shared_bytes, grain_of(wave.kernel, "shared"), across)
        self.races = Races(wave, self.heap, self.shared)
        self.patterns = Patterns(wave, self.heap.locations)
        self.transactions = Transactions()
        self.asynchronous = Asynchronous(self)
        self._access: dict[str, Any] = {
            "global": GlobalAccess(self),
            "shared": SharedAccess(self),
            "local": LocalMemory(self, wave.warps * 32, wave.kernel.local_bytes),
            "const": ConstAccess(self),
        }
        constants = self._access["param"] = self._access["const"]
        self.const, self.parameters = constants.constants, constants.parameters

    def symbol(self, name: str) -> int:
        """The address of a variable of module scope (.global, .const). Raises KeyError."""
        return self.heap.symbols[name]

    # --- for threads ---------------------------------------------------------------------------

    def load(
        self,
        group: Any,
        space: str,
        address: np.ndarray,
        bytes_each: int,
        count: int = 1,
        semantics: str = "weak",
        scope: str = "cta",
        coherent: bool = True,
    ) -> list[np.ndarray]:
        """Loads ``count`` elements of ``bytes_each`` for each active lane.

        space: "global", "shared", "shared::cta", "shared::cluster", "local", "const", "param", or
        "generic" or "" for generic addresses.  address: (n, 32) uint64, in bytes.  semantics:
        "weak", "volatile", "relaxed", "acquire", "mmio".  coherent: False for ld.global.nc.
        Returns ``count`` raw arrays (n, 32) uint16 (1 or 2 bytes), uint32 or uint64; (n, 32, 2)
        uint64 for 16 bytes. Faulty lanes get 0.
        """
        order = order_of(space, bytes_each, count, semantics, scope, coherent)
        self.site = group.site
        places = group.lanes(address).astype(np.int64, copy=False)
        out: np.ndarray | None = None
        for access, lanes, at in self._spaces(group, space, places):
            found, kept = access.load(lanes, places if at is None else places[at], order)
            out = _filled(out, found, at, kept, len(places))
        return _as_registers(group, out, order)

    def store(
        self,
        group: Any,
        space: str,
        address: np.ndarray,
        values: list[np.ndarray],
        bytes_each: int,
        semantics: str = "weak",
        scope: str = "cta",
    ) -> None:
        """Stores ``values``, raw arrays (n, 32) (or (n, 32, 2) for 16 bytes), one after another.

        As load otherwise; semantics: "weak", "volatile", "relaxed", "release", "mmio".
        """
        order = order_of(space, bytes_each, len(values), semantics, scope)
        self.site = group.site
        places = group.lanes(address).astype(np.int64, copy=False)
        tail = [2] if bytes_each == 16 else []
        data = np.empty((len(places), len(values), *tail), np.dtype(f"u{min(bytes_each, 8)}"))
        for i, value in enumerate(values):
            data[:, i] = group.lanes(value)
        for access, lanes, at in self._spaces(group, space, places):
            if at is None:
                access.store(lanes, places, data, order)
            else:
                access.store(lanes, places[at], data[at], order)

    def atomic(
        self,
        group: Any,
        space: str,
        address: np.ndarray,
        operands: list[np.ndarray],
        update: Update,
        bytes_each: int,
        count: int = 1,
        semantics: str = "relaxed",
        scope: str = "gpu",
        returns: bool = True,
    ) -> list[np.ndarray]:
        """An atomic read-modify-write by each active lane, in lane order.

        operands: (n, 32) raw arrays; the ``count`` elements of a vector side by side, then those of
        the next operand.  update(memory, index, operands, is_global) -> old: memory is flat, of
        unsigned elements ((m, 2) for 16 bytes), index (k,) into it, operands (k,) each; it
        changes memory and returns what was there.  returns: False for red, which acquires
        nothing. Returns the old values as load does.
        """
        order = order_of(space, bytes_each, count, semantics, scope, returns=returns)
        self.site = group.site
        places = group.lanes(address).astype(np.int64, copy=False)
        inputs = [group.lanes(operand) for operand in operands]
        out: np.ndarray | None = None
        for access, lanes, at in self._spaces(group, space, places):
            chosen = slice(None) if at is None else at
            given = [x[chosen] for x in inputs]
            found, kept = access.atomic(lanes, places[chosen], given, update, order)
            out = _filled(out, found, at, kept, len(places))
            kind = "global" if access is self._access["global"] else "shared"
            self.wave.counters.add(f"{kind}_atomics", len(found), self.site)
            self.wave.counters.add("atomics", len(found), self.site)
        return _as_registers(group, out, order)

    # --- for engines ---------------------------------------------------------------------------

    def begin_async(
        self,
        space: str,
        block: Any,
        offsets: np.ndarray,
        write: bool,
        agent: Agent,
        site: Instruction,
        issuer_thread: Any,
        time: Any = None,
        width: int = 1,
    ) -> Ticket:
        """Asynchronous work that reads or writes memory is issued.

        space: "shared" or "global".  block: of the bytes, a number or (k,); unused for global.
        offsets: (k,) of pieces of ``width`` bytes: in the block's shared memory, or addresses.
        issuer_thread: a number or (k,).  time: of the agent, the next one where not given; a number or
        (k,).  Reports what the issuer has not synchronised with, and missing proxy fences.
        """
        return self.asynchronous.begin(
            space, block, offsets, write, agent, site, issuer_thread, time, width
        )

    def end_async(self, ticket: Ticket) -> None:
        """The work is done. What it touched was its agent's since it began."""
        ticket.done = True
        self.wave.progressed()

    def read_bytes(
        self,
        space: str,
        block: Any,
        offsets: np.ndarray,
        agent: Any = None,
        site: Any = None,
        width: int = 1,
    ) -> np.ndarray:
        """The bytes at ``offsets`` as they are, without checks: (k,) uint8, (k, width) for pieces of
        more than one byte. Those outside of every tensor give 0."""
        offsets = np.asarray(offsets, np.int64)
        out = np.zeros((len(offsets), width), np.uint8)
        if space == "shared":
            position = np.asarray(block, np.int64) * self.shared.stride + offsets
            out = self.shared.bank.bytes_at(position, width)
        else:
            for region, chosen in self.regions_of(offsets):
                if region is not None:
                    out[chosen] = region.bank.bytes_at(offsets[chosen] - region.base, width)
        return out[:, 0] if width == 1 else out

    def write_bytes(
        self,
        space: str,
        block: Any,
        offsets: np.ndarray,
        data: np.ndarray,
        agent: Any = None,
        site: Any = None,
    ) -> None:
        """Sets the bytes at ``offsets`` (k,), ``data`` (k,) or (k, width) uint8, without checks."""
        offsets = np.asarray(offsets, np.int64)
        data = data.reshape(len(offsets), -1)
        if space == "shared":
            position = np.asarray(block, np.int64) * self.shared.stride + offsets
            self.shared.bank.set_bytes(position, data)
            return
        for region, chosen in self.regions_of(offsets):
            if region is not None:
                region.bank.set_bytes(offsets[chosen] - region.base, data[chosen])

    def claim(
        self, group: Any, block: int, offset: int, size: int, thread: int, barrier: Any
    ) -> None:
        """Bytes of shared memory become an mbarrier object: no ordinary access until unclaim.
        barrier: has name, thread and site for reports."""
        grains = self._grains(block, offset, size)
        self.shared.barriers.append(barrier)
        number = self.heap.site(group.site)
        self.shared.shadow.wrote(grains, 1, len(self.shared.barriers) - 1, BARRIER, number)

    def unclaim(self, block: int, offset: int, size: int) -> None:
        """They are ordinary memory again, with nothing in it."""
        self.shared.shadow.wrote(self._grains(block, offset, size), 1, 0, 0, 0)

    def _grains(self, block: int, offset: int, size: int) -> np.ndarray:
        first = block * self.shared.stride + offset
        shift = self.shared.shadow.shift
        return np.arange(first >> shift, ((first + size - 1) >> shift) + 1)

    # --- where ---------------------------------------------------------------------------------

    def locate(self, group: Any, address: np.ndarray) -> np.ndarray:
        """(n, 32) of the space of generic addresses: 0 global, 1 shared, 2 local, 3 const or
        param."""
        return space_numbers(np.asarray(address).astype(np.int64, copy=False))

    def _spaces(
        self, group: Any, space: str, places: np.ndarray
    ) -> Iterator[tuple[Any, Lanes, np.ndarray | None]]:
        """(the space's accesses, the lanes, which of the group's active ones), None for all."""
        lanes = Lanes.of(group)
        if space not in ("generic", ""):
            yield self._access[space.split("::")[0]], lanes, None
            return
        if int(places.max()) >> 56 == int(places.min()) >> 56 == 0:
            yield self._access["global"], lanes, None
            return
        numbers = space_numbers(places)
        for number in np.unique(numbers).tolist():
            at = np.flatnonzero(numbers == number)
            if len(at) == len(places):
                yield self._access[_WINDOWS[number]], lanes, None
            else:
                yield self._access[_WINDOWS[number]], lanes.only_at(at), at

    def regions_of(self, addresses: np.ndarray) -> Iterator[tuple[Region | None, Any]]:
        """(region, which of the addresses lie in it); None for those in no tensor."""
        low, high = int(addresses.min()), int(addresses.max())
        first = self.heap.region_at(low)
        if first is not None and high < first.end:
            yield first, slice(None)
            return
        at = np.searchsorted(self.heap.starts, addresses, side="right") - 1
        for number in np.unique(at).tolist():
            chosen = at == number
            region = self.heap.regions[number] if number >= 0 else None
            if region is not None:
                inside = chosen & (addresses < region.end)
                if inside.any():
                    yield region, inside
                chosen &= ~inside
            if chosen.any():
                yield None, chosen

    def shared_target(self, position: np.ndarray, width: int) -> Target:
        index, count = self.shared.shadow.index(position, width)
        stride, kernel = self.shared.stride, self.wave.kernel

        def name(i: int) -> str:
            return naming.shared_place(kernel, int(position[i]) % stride)

        return Target("shared", self.shared.shadow, index, count, name, position, width)

    def global_target(self, region: Region, position: np.ndarray, width: int) -> Target:
        index, count = region.shadow.index(position, width)

        def name(i: int) -> str:
            address = region.base + int(position[i])
            tensor = naming.tensor_at(region.tensors, address)
            return naming.element(tensor, address) if tensor else "global memory"

        return Target("global", region.shadow, index, count, name, position, width)


def space_numbers(places: np.ndarray) -> np.ndarray:
    """0 global, 1 shared, 2 local, 3 const or param, of generic addresses."""
    top = places >> 56
    numbers = np.zeros(places.shape, np.int64)
    for number, window in ((1, SHARED_WINDOW), (2, LOCAL_WINDOW), (3, PARAM_WINDOW)):
        numbers[top == window >> 56] = number
    return numbers


def _filled(
    out: np.ndarray | None,
    found: np.ndarray,
    at: np.ndarray | None,
    kept: np.ndarray | None,
    lanes: int,
) -> np.ndarray:
    """``out`` with the values of lanes ``at[kept]``; 0 for those that nothing was found for."""
    if at is None and kept is None:
        return found
    if out is None:
        out = np.zeros((lanes, *found.shape[1:]), found.dtype)
    out[kept if at is None else at if kept is None else at[kept]] = found
    return out


def _as_registers(group: Any, out: np.ndarray | None, order: Order) -> list[np.ndarray]:
    """(k, count) elements as a raw (n, 32) array for each."""
    assert out is not None
    if order.bytes_each == 1:
        out = out.astype(np.uint16)
    return [group.spread(out[:, i]) for i in range(order.count)]
