"""Loads, stores and atomics of global memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.simulator.memory import naming
from checkers.simulator.memory.lanes import Lanes, thread_name
from checkers.simulator.memory.order import WIDEST_SCOPE, Order, Update
from checkers.simulator.memory.regions import Region
from checkers.simulator.memory.shadow import rows
from checkers.simulator.reports.faults import Kind

if TYPE_CHECKING:
    from checkers.simulator.memory.races import Target
    from checkers.simulator.memory.spaces import Memory


class GlobalAccess:
    """Accesses to the regions of the heap. Places are addresses, (k,) int64."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.wave = memory.wave

    def load(
        self, lanes: Lanes, places: np.ndarray, order: Order
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """(values, kept): (m, count) elements of the lanes ``kept``, None for all."""
        whole = self._whole(lanes, places, order.width, "load")
        if whole is not None:
            return self._load(lanes, places, whole, order), None
        found, kept = [], []
        for region, at in self._parts(lanes, places, order.width, "load"):
            part = lanes.only_at(at)
            found.append(self._load(part, places[at], region, order))
            kept.append(at)
        return _together(found, kept, order)

    def store(self, lanes: Lanes, places: np.ndarray, data: np.ndarray, order: Order) -> None:
        """Stores (k, count) elements."""
        whole = self._whole(lanes, places, order.width, "store")
        if whole is not None and whole.writable:
            self._store(lanes, places, data, whole, order)
            return
        for region, at in self._parts(lanes, places, order.width, "store"):
            self._store(lanes.only_at(at), places[at], data[at], region, order)

    def atomic(
        self,
        lanes: Lanes,
        places: np.ndarray,
        inputs: list[np.ndarray],
        update: Update,
        order: Order,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """As load; the values are those from before."""
        found, kept = [], []
        for region, at in self._parts(lanes, places, order.width, "atomic"):
            part, where = lanes.only_at(at), places[at] - region.base
            target = self.memory.global_target(region, where, order.width)
            site = self.memory.heap.site(lanes.group.site, order.strength)
            races = self.memory.races
            races.global_write(part, target, region, site, order.strength, None, True)
            if order.strength < WIDEST_SCOPE:
                races.among_atomics(part, target, site, order.strength)
            flat = region.bank.view(order.bytes_each, 1)[:, 0]
            first = where // order.bytes_each
            before = [
                update(flat, first + i, [x[at] for x in inputs[i :: order.count]], True)
                for i in range(order.count)
            ]
            old = np.stack(before, axis=1)
            if not np.array_equal(old, region.bank.take(where, order.bytes_each, order.count)):
                self.wave.progressed()  # a lock that stays taken is no progress
            self.memory.patterns.atomic("global", part.threads, places[at], order)
            self._count("load", part.threads, places[at], order.width, region)
            self._count("store", part.threads, places[at], order.width, region)
            found.append(old)
            kept.append(at)
        return _together(found, kept, order)

    # --- one region ----------------------------------------------------------------------------

    def _load(self, lanes: Lanes, places: np.ndarray, region: Region, order: Order) -> np.ndarray:
        position = places - region.base
        target = self.memory.global_target(region, position, order.width)
        site = self.memory.heap.site(lanes.group.site, order.strength)
        self.memory.races.global_read(lanes, target, region, site, order.strength)
        if not order.coherent and region.written:
            self._incoherent(lanes, target)
        if order.strength:
            self.memory.patterns.read("global", lanes.threads, places, order)
        self._count("load", lanes.threads, places, order.width, region)
        return region.bank.take(position, order.bytes_each, order.count)

    def _store(
        self, lanes: Lanes, places: np.ndarray, data: np.ndarray, region: Region, order: Order
    ) -> None:
        position = places - region.base
        target = self.memory.global_target(region, position, order.width)
        site = self.memory.heap.site(lanes.group.site, order.strength)
        bank, races = region.bank, self.memory.races

        def same() -> np.ndarray:
            there = bank.take(position, order.bytes_each, order.count)
            return (there == data).reshape(len(data), -1).all(axis=1)

        races.global_write(lanes, target, region, site, order.strength, same, False)
        bank.give(position, data, order.bytes_each, order.count)
        if not order.strength:
            differs = ~same()
            if differs.any():
                races.among_lanes(lanes, target, differs)
        else:
            self.memory.patterns.wrote("global", lanes.threads, places, order)
            self.wave.progressed()
        self._count("store", lanes.threads, places, order.width, region)

    def _count(
        self, way: str, threads: np.ndarray, places: np.ndarray, width: int, region: Region
    ) -> None:
        region.touch("read" if way == "load" else "write", places - region.base, width)
        add, site = self.wave.counters.add, self.memory.site
        moved, needed = self.memory.transactions.sectors(threads, places, width)
        add(f"global_{way}_bytes", len(threads) * width, site)
        add(f"global_{way}_sectors", moved, site)
        add(f"global_{way}_sectors_needed", needed, site)
        add(f"global_{way}_requests", self.memory.transactions.warps(threads), site)

    def _incoherent(self, lanes: Lanes, target: Target) -> None:
        times = rows(target.shadow.time, target.index, target.count)
        stale = times.any(axis=1)
        if not stale.any():
            return
        i = int(np.flatnonzero(stale)[0])
        lanes.fault(
            Kind.RACE,
            stale,
            f"{thread_name(self.wave, int(lanes.threads[i]))} reads {target.name(i)} with ld.global.nc, "
            "which is for data that stays as it is during the kernel, but the kernel has written it",
        )

    # --- bounds --------------------------------------------------------------------------------

    def _whole(self, lanes: Lanes, places: np.ndarray, width: int, verb: str) -> Region | None:
        """The region, when all lanes are in bounds of one and aligned."""
        low, high = int(places.min()), int(places.max())
        region = self.memory.heap.region_at(low)
        if region is None or high + width > region.end or region.valid is not None:
            return None
        if int(np.bitwise_or.reduce(places)) & (width - 1):
            return None
        return region

    def _parts(
        self, lanes: Lanes, places: np.ndarray, width: int, verb: str
    ) -> list[tuple[Region, np.ndarray]]:
        """(region, which lanes), of those that are in bounds and aligned; reports the others."""
        crooked = (places & (width - 1)) != 0
        if crooked.any():
            self._misaligned(lanes, places, width, verb, crooked)
        out = []
        outside = np.zeros(len(places), bool)
        for region, chosen in self.memory.regions_of(places):
            at = np.arange(len(places))[chosen]
            if region is None:
                outside[at] = True
                continue
            wrong = places[at] + width > region.end
            if region.valid is not None:
                bytes_of = (places[at] - region.base)[:, None] + np.arange(width)
                inside = np.minimum(bytes_of, len(region.valid) - 1)
                wrong |= ~region.valid[inside].all(axis=1)
            outside[at[wrong]] = True
            if verb != "load" and not region.writable:
                self._read_only(lanes, places, at[~wrong], region)
                continue
            good = at[~wrong & ~crooked[at]]
            if len(good):
                out.append((region, good))
        outside &= ~crooked
        if outside.any():
            self._outside(lanes, places, width, verb, outside)
        return out

    def _misaligned(
        self, lanes: Lanes, places: np.ndarray, width: int, verb: str, bad: np.ndarray
    ) -> None:
        i = int(np.flatnonzero(bad)[0])
        address = int(places[i])
        tensor = naming.tensor_at(self.memory.heap.tensors, address)
        place = naming.element(tensor, address) if tensor else "its address"
        off = address % width
        lanes.fault(
            Kind.MISALIGNED,
            bad,
            f"{place}: a {width}-byte {verb} needs an address that is a multiple of {width}, this one "
            f"is {off} more",
            details={"place": place, "bytes": width, "past_multiple": off},
        )

    def _outside(
        self, lanes: Lanes, places: np.ndarray, width: int, verb: str, bad: np.ndarray
    ) -> None:
        i = int(np.flatnonzero(bad)[0])
        address = int(places[i])
        words, details = naming.whereabouts(self.memory.heap.tensors, address, width)
        index = details.get("index")
        name = ""
        if index is not None and "tensor" in details:
            name = f"{details['tensor']}[{', '.join(str(n) for n in index)}]: "
        article = "an" if verb == "atomic" or width == 8 else "a"
        lanes.fault(
            Kind.OUT_OF_BOUNDS,
            bad,
            f"{name}{article} {width}-byte {verb} {words}",
            details=details | {"bytes": width},
        )

    def _read_only(self, lanes: Lanes, places: np.ndarray, at: np.ndarray, region: Region) -> None:
        if not len(at):
            return
        bad = np.zeros(len(places), bool)
        bad[at] = True
        address = int(places[at[0]])
        tensor = naming.tensor_at(region.tensors, address)
        lanes.fault(
            Kind.READ_ONLY,
            bad,
            f"{naming.element(tensor, address) if tensor else 'global memory'} is written, but its "
            "tensor must only be read",
            details={"tensor": tensor.name if tensor else ""},
        )


def _together(
    found: list[np.ndarray], kept: list[np.ndarray], order: Order
) -> tuple[np.ndarray, np.ndarray]:
    """Parts of an access joined: (values, which lanes)."""
    if not found:
        tail: list[Any] = [2] if order.bytes_each == 16 else []
        empty = np.zeros((0, order.count, *tail), np.dtype(f"u{min(order.bytes_each, 8)}"))
        return empty, np.zeros(0, np.int64)
    return np.concatenate(found), np.concatenate(kept)
