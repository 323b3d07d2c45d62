"""Loads, stores and atomics of shared memory, the block's own or another's of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from checkers.simulator.machine.kernel import SHARED_BASE
from checkers.simulator.memory import naming
from checkers.simulator.memory.lanes import Lanes
from checkers.simulator.memory.order import WIDEST_SCOPE, Order, Update
from checkers.simulator.reports.faults import Kind

if TYPE_CHECKING:
    from checkers.simulator.memory.spaces import Memory


class SharedAccess:
    """Places are shared addresses, (k,) int64; the bits of the generic window are ignored."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.wave = memory.wave
        self.shared = memory.shared

    def load(
        self, lanes: Lanes, places: np.ndarray, order: Order
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """(values, kept): (m, count) elements of the lanes ``kept``, None for all."""
        lanes, position, kept = self._place(lanes, places, order, "load")
        self._neighbours(lanes, position, order)
        if len(position):
            target = self.memory.shared_target(position, order.width)
            site = self.memory.heap.site(lanes.group.site, order.strength)
            self.memory.races.shared_read(lanes, target, site, order.strength)
            if order.strength:
                self.memory.patterns.read("shared", lanes.threads, position, order)
            self._count("load", lanes.threads, position, order)
        return self.shared.bank.take(position, order.bytes_each, order.count), kept

    def store(self, lanes: Lanes, places: np.ndarray, data: np.ndarray, order: Order) -> None:
        """Stores (k, count) elements."""
        lanes, position, kept = self._place(lanes, places, order, "store")
        self._neighbours(lanes, position, order)
        if not len(position):
            return
        values = data if kept is None else data[kept]
        target = self.memory.shared_target(position, order.width)
        site = self.memory.heap.site(lanes.group.site, order.strength)
        bank, races = self.shared.bank, self.memory.races

        def same() -> np.ndarray:
            there = bank.take(position, order.bytes_each, order.count)
            return (there == values).reshape(len(values), -1).all(axis=1)

        races.shared_write(lanes, target, site, order.strength, same, False)
        bank.give(position, values, order.bytes_each, order.count)
        if not order.strength:
            differs = ~same()
            if differs.any():
                races.among_lanes(lanes, target, differs)
        else:
            self.memory.patterns.wrote("shared", lanes.threads, position, order)
            self.wave.progressed()
        self._count("store", lanes.threads, position, order)

    def atomic(
        self,
        lanes: Lanes,
        places: np.ndarray,
        inputs: list[np.ndarray],
        update: Update,
        order: Order,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """As load; the values are those from before."""
        lanes, position, kept = self._place(lanes, places, order, "atomic")
        self._neighbours(lanes, position, order)
        tail = [2] if order.bytes_each == 16 else []
        shape = (len(position), order.count, *tail)
        old = np.zeros(shape, np.dtype(f"u{min(order.bytes_each, 8)}"))
        if not len(position):
            return old, kept
        if kept is not None:
            inputs = [x[kept] for x in inputs]
        target = self.memory.shared_target(position, order.width)
        site = self.memory.heap.site(lanes.group.site, order.strength)
        races = self.memory.races
        races.shared_write(lanes, target, site, order.strength, None, True)
        if self.shared.across and order.strength < WIDEST_SCOPE:
            races.among_atomics(lanes, target, site, order.strength)
        flat = self.shared.bank.view(order.bytes_each, 1)[:, 0]
        first = position // order.bytes_each
        for i in range(order.count):
            old[:, i] = update(flat, first + i, inputs[i :: order.count], False)
        if not np.array_equal(old, self.shared.bank.take(position, order.bytes_each, order.count)):
            self.wave.progressed()  # a lock that stays taken is no progress
        self.memory.patterns.atomic("shared", lanes.threads, position, order)
        self._count("load", lanes.threads, position, order)
        self._count("store", lanes.threads, position, order)
        return old, kept

    def _neighbours(self, lanes: Lanes, position: np.ndarray, order: Order) -> None:
        """Reports accesses to a block of the cluster that has exited or may not have started."""
        if self.wave.cluster_size == 1 or order.space in ("shared", "shared::cta"):
            return
        blocks = position // self.shared.stride
        remote = blocks != self.shared.block[lanes.threads]
        if not remote.any():
            return
        from checkers.simulator.waiting.clusters import Clusters

        for block in np.unique(blocks[remote]).tolist():
            part = lanes.only(blocks == block).as_group()
            clusters = self.wave.state(Clusters)
            if clusters.may_touch(part, block, "shared memory"):
                clusters.touches(part, block)

    def _place(
        self, lanes: Lanes, places: np.ndarray, order: Order, verb: str
    ) -> tuple[Lanes, np.ndarray, np.ndarray | None]:
        """(lanes, position, kept) of those that are in bounds and aligned; reports the others."""
        width = order.width
        address = places if int(places.max()) < 1 << 32 else places & 0xFFFFFFFF
        anywhere = order.space != "shared" and order.space != "shared::cta"
        offset, position, inside = self.shared.offsets(lanes.threads, address, anywhere)
        out = self.shared.out_of_bounds(offset, width)
        crooked = int(np.bitwise_or.reduce(offset)) & (width - 1)
        if inside is None and out is None and not crooked:
            return lanes, position, None
        bad = np.zeros(len(position), bool)
        if inside is not None:
            bad |= ~inside
            self._another_block(lanes, address, ~inside, anywhere)
        if out is not None and (out & ~bad).any():
            self._outside(lanes, offset, width, verb, out & ~bad)
            bad |= out
        askew = ((offset & (width - 1)) != 0) & ~bad
        if askew.any():
            self._misaligned(lanes, offset, width, verb, askew)
            bad |= askew
        kept = np.flatnonzero(~bad)
        return lanes.only_at(kept), position[kept], kept

    def _another_block(
        self, lanes: Lanes, address: np.ndarray, bad: np.ndarray, anywhere: bool
    ) -> None:
        rank = int(address[np.flatnonzero(bad)[0]]) >> 24
        size = self.wave.cluster_size
        if anywhere or rank >= size:
            words = f"names block {rank} of a cluster of {size}"
        else:
            words = (
                f"is the block's of rank {rank}, but .shared reaches the own block only: "
                ".shared::cluster is meant"
            )
        lanes.fault(Kind.OUT_OF_BOUNDS, bad, f"a shared memory address {words}")

    def _outside(
        self, lanes: Lanes, offset: np.ndarray, width: int, verb: str, bad: np.ndarray
    ) -> None:
        at = int(offset[np.flatnonzero(bad)[0]])
        size = self.shared.bytes - SHARED_BASE
        if at < SHARED_BASE:
            words = f"lies {SHARED_BASE - at} bytes before the block's shared memory"
        elif at >= self.shared.bytes:
            words = f"begins {naming.how_far(at - self.shared.bytes)} the end of the block's {size} bytes"
        else:
            words = f"reaches past the end of the block's {size} bytes"
        lanes.fault(
            Kind.OUT_OF_BOUNDS,
            bad,
            f"a {width}-byte {verb} of shared memory {words}",
            details={"offset": at - SHARED_BASE, "shared_bytes": size, "bytes": width},
        )

    def _misaligned(
        self, lanes: Lanes, offset: np.ndarray, width: int, verb: str, bad: np.ndarray
    ) -> None:
        at = int(offset[np.flatnonzero(bad)[0]])
        place = naming.shared_place(self.wave.kernel, at)
        lanes.fault(
            Kind.MISALIGNED,
            bad,
            f"{place}: a {width}-byte {verb} needs an address that is a multiple of {width}, this one "
            f"is {at % width} more",
            details={"place": place, "bytes": width, "past_multiple": at % width},
        )

    def _count(self, way: str, threads: np.ndarray, position: np.ndarray, order: Order) -> None:
        add, site = self.wave.counters.add, self.memory.site
        if self.shared.across and order.space == "shared::cluster":
            remote = position // self.shared.stride != self.shared.block[threads]
            if remote.any():
                add(f"cluster_{way}_bytes", int(remote.sum()) * order.width, site)
                threads, position = threads[~remote], position[~remote]
                if not len(threads):
                    return
        taken, needed = self.memory.transactions.wavefronts(threads, position, order.width)
        add(f"shared_{way}_bytes", len(threads) * order.width, site)
        add(f"shared_{way}_wavefronts", taken, site)
        add(f"shared_{way}_wavefronts_needed", needed, site)
        add(f"shared_{way}_requests", self.memory.transactions.warps(threads), site)
