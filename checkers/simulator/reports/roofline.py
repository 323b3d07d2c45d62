"""The roofline card: which of a GPU's limits a kernel would meet first, from its counts alone.

Every bound is a floor: the time for which one unit alone would be busy, all SMs at work and
nothing ever waiting. The real time is more: latency, waiting, uneven work and launching (about 2
microseconds) are not in it. It says where to look, and does not predict.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from checkers.simulator.reports.counters import Counters, Derived
from checkers.simulator.reports.gpus import GPU

REGISTERS_GRAIN = 256  # registers are given to a warp in such pieces
SHARED_GRAIN = 128  # and shared memory to a block, in bytes
WAVEFRONT_BYTES = 128  # of shared memory in a pass without conflicts
BAR = 20  # characters


@dataclass(frozen=True)
class Bound:
    """A limit. microseconds: the least time that it allows.  what: what was counted, in words."""

    name: str
    what: str
    microseconds: float


@dataclass(frozen=True)
class Occupancy:
    """How many blocks an SM holds at a time. limits: the number that each resource allows."""

    blocks: int
    warps: int
    warps_most: int
    limits: dict[str, int]

    @property
    def limited_by(self) -> list[str]:
        """The resources that allow no more."""
        return [name for name, blocks in self.limits.items() if blocks == self.blocks]


@dataclass(frozen=True)
class Roofline:
    """bounds: those that count anything, the largest first.  sms_busy: SMs with a block."""

    kernel: str
    gpu: GPU
    blocks: int
    sms_busy: int
    bounds: tuple[Bound, ...]
    occupancy: Occupancy

    @property
    def floor(self) -> Bound | None:
        """The limit that is met first; None for a kernel that did nothing."""
        return self.bounds[0] if self.bounds else None

    def share(self, bound: Bound) -> float:
        """A bound relative to the floor."""
        return bound.microseconds / self.bounds[0].microseconds

    def to_json(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "gpu": self.gpu.title,
            "confirmed_on_hardware": self.gpu.confirmed,
            "blocks": self.blocks,
            "sms_busy": self.sms_busy,
            "sms": self.gpu.sms,
            "bounds": [
                {
                    "name": bound.name,
                    "what": bound.what,
                    "microseconds": bound.microseconds,
                    "share": self.share(bound),
                }
                for bound in self.bounds
            ],
            "occupancy": {
                "blocks_per_sm": self.occupancy.blocks,
                "warps_per_sm": self.occupancy.warps,
                "warps_most": self.occupancy.warps_most,
                "limits": self.occupancy.limits,
            },
        }

    def text(self) -> str:
        """The card, in lines of at most 80 characters."""
        lines = [f"Roofline of {self.kernel} on {self.gpu.title}"[:80]]
        for bound in self.bounds:
            share = self.share(bound)
            if share < 0.005 and bound is not self.bounds[-1]:
                continue
            bar = "#" * max(1, round(BAR * share))
            time = _time(bound.microseconds)
            lines.append(f"  {bound.name:<16} {time:>10}  {share:>4.0%}  {bar}")
        if self.floor is None:
            lines.append("  nothing was counted")
        else:
            lines.append(f"  Met first: {self.floor.name} ({self.floor.what}).")
        lines += self._occupancy_lines()
        lines.append("  A floor from counts, not a prediction: waiting and latency come on top.")
        if not self.gpu.confirmed:
            lines.append("  Data-sheet limits, not confirmed on hardware here.")
        return "\n".join(lines)

    def _occupancy_lines(self) -> list[str]:
        o = self.occupancy
        if not o.blocks:
            return [f"  No block fits an SM: too much {' and '.join(o.limited_by)}."]
        of_warps = f"{o.warps} of {o.warps_most} warps"
        lines = [
            f"  An SM holds {o.blocks} block{'s' * (o.blocks != 1)} ({of_warps}), "
            f"limited by {' and '.join(o.limited_by)}."
        ]
        if self.sms_busy < self.gpu.sms:
            lines.append(f"  Only {self.sms_busy} of {self.gpu.sms} SMs have a block.")
        return lines


def roofline(
    counters: Counters,
    gpu: GPU,
    *,
    kernel: str,
    blocks: int,
    threads: int,
    shared_bytes: int = 0,
    registers: int | None = None,
) -> Roofline:
    """The card of one launch.

    blocks: of the whole grid.  threads, shared_bytes: of a block, static and dynamic shared memory together.
    registers: of a thread, None when unknown.
    """
    busy = min(gpu.sms, blocks)
    bounds = [bound for bound in _bounds(counters, gpu, max(busy, 1)) if bound.microseconds > 0]
    bounds.sort(key=lambda bound: -bound.microseconds)
    return Roofline(
        kernel, gpu, blocks, busy, tuple(bounds), occupancy(gpu, threads, shared_bytes, registers)
    )


def occupancy(
    gpu: GPU, threads: int, shared_bytes: int = 0, registers: int | None = None
) -> Occupancy:
    """Blocks and warps that an SM holds at once, as the occupancy calculator works it out."""
    warps = math.ceil(threads / 32)
    limits = {"threads": gpu.threads_per_sm // (32 * warps), "blocks": gpu.blocks_per_sm}
    shared = _round_up(shared_bytes, SHARED_GRAIN) + gpu.shared_reserved
    limits["shared memory"] = gpu.shared_per_sm // shared
    if shared_bytes > gpu.shared_per_block:
        limits["shared memory"] = 0
    if registers:
        of_warp = _round_up(32 * registers, REGISTERS_GRAIN)
        limits["registers"] = gpu.registers_per_sm // of_warp // warps
    blocks = min(limits.values())
    return Occupancy(blocks, blocks * warps, gpu.threads_per_sm // 32, limits)


def _bounds(counters: Counters, gpu: GPU, sms: int) -> list[Bound]:
    derived = Derived(counters)
    clock = gpu.clock_hz
    footprint = counters["global_read_footprint"] + counters["global_write_footprint"]
    traffic = derived.global_bytes
    bounds = [
        Bound(
            "HBM bandwidth",
            f"each of {_count(footprint, 'byte')} once, from cold caches",
            1e6 * footprint / gpu.hbm_bytes_per_s,
        ),
        Bound(
            "L2 bandwidth",
            f"{_count(traffic, 'byte')} in sectors and copies, without L1",
            1e6 * traffic / (gpu.l2_bytes_per_clock * clock),
        ),
    ]
    wavefronts = counters["shared_load_wavefronts"] + counters["shared_store_wavefronts"]
    wavefronts += counters["matrix_shared_bytes"] // WAVEFRONT_BYTES
    bounds.append(
        Bound(
            "shared memory",
            f"{_count(wavefronts, 'wavefront')}",
            1e6 * wavefronts / (gpu.shared_wavefronts_per_clock * sms * clock),
        )
    )
    tensor = 0.0
    for kind, rate in gpu.tensor_flops.items():
        tensor += counters[f"mma_flops_{kind}"] / (rate * sms / gpu.sms)
    bounds.append(Bound("tensor cores", f"{_count(derived.flops, 'flop')}", 1e6 * tensor))
    bounds.append(
        Bound(
            "issue",
            f"{_count(derived.instructions, 'warp instruction')} of PTX",
            1e6 * derived.instructions / (gpu.issue_per_clock * sms * clock),
        )
    )
    for name, label in _UNITS.items():
        issued = counters[f"instructions_{name}"]
        lanes = getattr(gpu, f"{name}_per_clock")
        what = f"{_count(issued, 'warp instruction')} of PTX"
        bounds.append(Bound(label, what, 1e6 * 32 * issued / (lanes * sms * clock)))
    return bounds


_UNITS = {
    "fp32": "fp32 units",
    "fp16": "fp16 units",
    "fp64": "fp64 units",
    "integer": "integer units",
    "convert": "conversions",
    "special": "special function",
    "exchange": "lane exchange",
}


def _round_up(number: int, grain: int) -> int:
    return -(-number // grain) * grain


def _time(microseconds: float) -> str:
    if microseconds >= 1000:
        return f"{microseconds / 1000:.3g} ms"
    return f"{microseconds:.3g} us" if microseconds >= 1 else f"{1000 * microseconds:.3g} ns"


def _count(number: int, what: str) -> str:
    """ "12.3 M bytes", "1 wavefront"."""
    for scale, letter in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**4, "k")):
        if number >= scale:
            divisor = 1000 if letter == "k" else scale
            return f"{number / divisor:.3g} {letter} {what}s"
    return f"{number} {what}{'' if number == 1 else 's'}"
