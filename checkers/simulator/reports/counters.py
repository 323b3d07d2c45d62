"""Counters: what a kernel did, in numbers that don't depend on the machine.

Every number has a name, a unit and a meaning here; the parts of the machine add to it with the
instruction that did it: ``wave.counters.add("global_load_bytes", 512, group.site)``. All count the
whole grid. A "needed" number is the least with which the same request could have been served.

Sectors are 32 bytes, aligned: the unit in which L2 hands global memory to an SM. Wavefronts are
passes of a warp's access through the 32 banks of shared memory, of 4 bytes each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from checkers.simulator.ptx.program import Instruction
from checkers.simulator.reports.instruction_classes import CLASSES

SECTOR_BYTES = 32


@dataclass(frozen=True)
class Counter:
    """name: in code and JSON.  unit: of the number.  meaning: a line for the table."""

    name: str
    unit: str
    meaning: str


def _both(space: str, unit: str, suffix: str, meaning: str) -> list[Counter]:
    """A counter for loads and one for stores."""
    return [
        Counter(f"{space}_{way}_{suffix}", unit, meaning.format(way=way))
        for way in ("load", "store")
    ]


_DECLARED = [
    # Ordinary global memory accesses, cp.async among the loads.
    *_both("global", "bytes", "bytes", "asked for by {way}s of global memory, each lane's own"),
    *_both("global", "sectors", "sectors", "of 32 bytes that these {way}s touch"),
    *_both("global", "sectors", "sectors_needed", "that would hold the bytes of these {way}s"),
    *_both("global", "requests", "requests", "warps that executed a global {way}"),
    Counter("global_read_footprint", "bytes", "of the distinct sectors that were read"),
    Counter("global_write_footprint", "bytes", "of the distinct sectors that were written"),
    # Shared memory.
    *_both("shared", "bytes", "bytes", "asked for by {way}s of shared memory"),
    *_both("shared", "wavefronts", "wavefronts", "that these {way}s take"),
    *_both("shared", "wavefronts", "wavefronts_needed", "that they would take without conflicts"),
    *_both("shared", "requests", "requests", "warps that executed a shared {way}"),
    *_both("cluster", "bytes", "bytes", "{way}s of another block's shared memory"),
    *_both("local", "bytes", "bytes", "{way}s of local memory: spilled or indexed arrays"),
    # Asynchronous copies.
    Counter("cp_async_bytes", "bytes", "copied by cp.async (also counted as global loads)"),
    Counter("tma_load_bytes", "bytes", "read from global memory by tensor copies"),
    Counter("tma_store_bytes", "bytes", "written to global memory by tensor copies"),
    Counter("tma_reduce_bytes", "bytes", "added into global memory by tensor copies"),
    Counter("tma_multicast_bytes", "bytes", "written into further blocks by multicast"),
    Counter("tma_prefetch_bytes", "bytes", "brought to L2 by tensor prefetches"),
    Counter("tma_requests", "copies", "tensor copies started"),
    Counter("bulk_load_bytes", "bytes", "read from global memory by bulk copies"),
    Counter("bulk_store_bytes", "bytes", "written to global memory by bulk copies"),
    Counter("bulk_reduce_bytes", "bytes", "added into global memory by bulk copies"),
    Counter("bulk_cluster_bytes", "bytes", "copied to another block's shared memory"),
    Counter("bulk_prefetch_bytes", "bytes", "brought to L2 by bulk prefetches"),
    Counter("bulk_requests", "copies", "bulk copies started"),
    # Atomics.
    Counter("atomics", "operations", "atomic operations, a lane each, of any memory"),
    Counter("global_atomics", "operations", "of them on global memory"),
    Counter("shared_atomics", "operations", "of them on shared memory"),
    # Waiting.
    Counter("barrier_waits", "warps", "that waited at a barrier of the block"),
    Counter("cluster_waits", "warps", "that waited at a barrier of the cluster"),
    Counter("mbarrier_waits", "warps", "that waited for an mbarrier's phase"),
    Counter("mbarrier_parks", "warps", "that found the phase incomplete and had to stop"),
    # Matrices.
    Counter("ldmatrix_bytes", "bytes", "loaded by ldmatrix (also counted as shared loads)"),
    Counter("stmatrix_bytes", "bytes", "stored by stmatrix (also counted as shared stores)"),
    Counter("mma_instructions", "warps", "that executed mma.sync"),
    Counter("wgmma_instructions", "warpgroups", "that executed wgmma.mma_async"),
    Counter("tcgen05_instructions", "instructions", "tcgen05.mma started"),
    Counter("matrix_shared_bytes", "bytes", "of shared memory read by wgmma and tcgen05.mma"),
    Counter("tensor_memory_load_bytes", "bytes", "read by tcgen05.ld"),
    Counter("tensor_memory_store_bytes", "bytes", "written by tcgen05.st and tcgen05.cp"),
    *(
        Counter(f"mma_flops_{kind}", "flop", f"of tensor cores with {kind} operands")
        for kind in ("f64", "tf32", "f16", "bf16", "f8", "f6", "f4", "i8", "i4", "b1")
    ),
    *(
        Counter(f"instructions_{name}", "warp instructions", meaning)
        for name, meaning in CLASSES.items()
    ),
    Counter("thread_instructions", "instructions", "lanes that took part, over all instructions"),
    Counter("divergent_branches", "warps", "whose lanes parted at a branch"),
    Counter("blocks", "blocks", "that ran"),
]
COUNTERS: dict[str, Counter] = {counter.name: counter for counter in _DECLARED}


class Counters:
    """Totals by name, and by name and instruction."""

    def __init__(self) -> None:
        self._by_site: dict[str, dict[Instruction | None, int]] = {}

    def add(self, name: str, amount: int, site: Instruction | None = None) -> None:
        """Adds to ``name``, one of ``COUNTERS``; KeyError for another."""
        sites = self._by_site.get(name)
        if sites is None:
            if name not in COUNTERS:
                raise KeyError(f"no counter is called {name!r}: declare it in counters.py")
            sites = self._by_site[name] = {}
        sites[site] = sites.get(site, 0) + int(amount)

    def __getitem__(self, name: str) -> int:
        """The total, 0 when nothing was added."""
        if name not in COUNTERS:
            raise KeyError(name)
        return sum(self._by_site.get(name, {}).values())

    def __iter__(self) -> Iterator[str]:
        """Names with a total, in the order of ``COUNTERS``."""
        return (name for name in COUNTERS if self[name])

    def total(self, prefix: str) -> int:
        """The sum over all names that begin with ``prefix``."""
        return sum(self[name] for name in COUNTERS if name.startswith(prefix))

    def at(self, name: str) -> dict[Instruction | None, int]:
        """``name`` by instruction, the largest first."""
        sites = self._by_site.get(name, {})
        return dict(sorted(sites.items(), key=lambda item: -item[1]))

    def merge(self, other: Counters) -> None:
        """Adds what ``other`` counted (another wave, or another launch)."""
        for name, sites in other._by_site.items():
            for site, amount in sites.items():
                self.add(name, amount, site)

    def to_json(self, sites: bool = False) -> dict[str, Any]:
        """{"totals": {name: n}, "derived": {...}}, and on request "by_instruction": a list of
        {"line": of the PTX, "ptx": text, "file", "source_line", and the counters there}."""
        data: dict[str, Any] = {
            "totals": {name: self[name] for name in self},
            "derived": Derived(self).to_json(),
        }
        if sites:
            data["by_instruction"] = self._by_instruction()
        return data

    def _by_instruction(self) -> list[dict[str, Any]]:
        rows: dict[Instruction, dict[str, int]] = {}
        for name, sites in self._by_site.items():
            for site, amount in sites.items():
                if site is not None:
                    rows.setdefault(site, {})[name] = amount
        listed = []
        for site, counts in sorted(rows.items(), key=lambda item: item[0].line):
            place = site.places[0] if site.places else None
            where = {"file": place.file, "source_line": place.line} if place else {}
            listed.append({"line": site.line, "ptx": site.text, **where, "counters": counts})
        return listed


@dataclass(frozen=True)
class Derived:
    """Values worked out from counters; None where there is nothing to divide."""

    counters: Counters

    @property
    def load_efficiency(self) -> float | None:
        """Sectors needed over sectors moved by global loads, at most 1."""
        return self._ratio("global_load_sectors_needed", "global_load_sectors")

    @property
    def store_efficiency(self) -> float | None:
        """The same for global stores."""
        return self._ratio("global_store_sectors_needed", "global_store_sectors")

    @property
    def sector_efficiency(self) -> float | None:
        """The same for both together."""
        moved = self.counters["global_load_sectors"] + self.counters["global_store_sectors"]
        needed = self.counters["global_load_sectors_needed"]
        needed += self.counters["global_store_sectors_needed"]
        return needed / moved if moved else None

    @property
    def shared_load_conflicts(self) -> float | None:
        """Wavefronts over those needed: 1 without bank conflicts, 32 at worst."""
        return self._ratio("shared_load_wavefronts", "shared_load_wavefronts_needed")

    @property
    def shared_store_conflicts(self) -> float | None:
        """The same for stores."""
        return self._ratio("shared_store_wavefronts", "shared_store_wavefronts_needed")

    @property
    def global_bytes(self) -> int:
        """Bytes asked of L2, as if there were no L1: whole sectors, and what engines copied."""
        c = self.counters
        sectors = c["global_load_sectors"] + c["global_store_sectors"]
        return SECTOR_BYTES * sectors + self.tma_bytes + self.bulk_bytes

    @property
    def tma_bytes(self) -> int:
        """Bytes between global memory and the tensor copy engine."""
        c = self.counters
        return c["tma_load_bytes"] + c["tma_store_bytes"] + c["tma_reduce_bytes"]

    @property
    def bulk_bytes(self) -> int:
        """Bytes between global memory and bulk copies."""
        c = self.counters
        return c["bulk_load_bytes"] + c["bulk_store_bytes"] + c["bulk_reduce_bytes"]

    @property
    def bytes_per_load(self) -> float | None:
        """Bytes that a warp's global load asks for, on average: 512 when each lane takes 16."""
        return self._ratio("global_load_bytes", "global_load_requests")

    @property
    def bytes_per_store(self) -> float | None:
        """The same for stores."""
        return self._ratio("global_store_bytes", "global_store_requests")

    @property
    def flops(self) -> int:
        """Of tensor cores, all types."""
        return self.counters.total("mma_flops_")

    @property
    def instructions(self) -> int:
        """Warp instructions issued, of all classes."""
        return self.counters.total("instructions_")

    @property
    def lanes_active(self) -> float | None:
        """Share of lanes that took part in an instruction, on average."""
        issued = 32 * self.instructions
        return self.counters["thread_instructions"] / issued if issued else None

    def _ratio(self, above: str, below: str) -> float | None:
        divisor = self.counters[below]
        return self.counters[above] / divisor if divisor else None

    def to_json(self) -> dict[str, float | int]:
        """Every property by name, those that are None left out."""
        names = [name for name, kind in vars(Derived).items() if isinstance(kind, property)]
        values = {name: getattr(self, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}
