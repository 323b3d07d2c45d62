"""One launch from its first wave to its last, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from checkers.simulator.copies.engine import Schedule
from checkers.simulator.launch.records import Launch
from checkers.simulator.machine.kernel import Kernel, load
from checkers.simulator.machine.wave import Wave
from checkers.simulator.memory.apart import moved_apart, number_words
from checkers.simulator.reports.counters import Counters
from checkers.simulator.reports.faults import Fault, Faults, Stop
from checkers.simulator.reports.gpus import GPU
from checkers.simulator.reports.gpus import gpu as gpu_named
from checkers.simulator.reports.instruction_classes import instruction_class
from checkers.simulator.reports.log import NO_LOG, Log, NoLog

# A wave takes as many clusters as keep numpy busy, within memory.
THREADS_A_WAVE = 8192
REGISTER_BYTES_A_WAVE = 400 << 20
SHARED_BYTES_A_WAVE = 32 << 20
# A grid of so few threads runs as one wave: its blocks may wait for each other.
THREADS_TOGETHER = 16384


@dataclass(frozen=True)
class Limits:
    """steps: Python steps of a wave before the run is stopped. seconds: of the whole launch."""

    steps: int = 20_000_000
    seconds: float = float("inf")


@dataclass
class Result:
    """What came of a launch.

    faults: errors and notes.  stopped: why the run ended early, "" if it didn't.  counters, log:
    see those modules.  seconds: it took.  output: what printf wrote.  issues: warp instructions of
    each instruction of the kernel.
    """

    launch: Launch
    kernel: Kernel
    gpu: GPU
    schedule: str
    faults: list[Fault]
    stopped: str
    counters: Counters
    log: Any
    seconds: float
    output: str
    shared_bytes: int
    issues: np.ndarray = field(repr=False)

    @property
    def ok(self) -> bool:
        """No fault that is an error."""
        return not any(fault.is_error for fault in self.faults)


class BadLaunch(ValueError):
    """A launch that the GPU would refuse; the message says what was wanted."""


class Run:
    """A launch while it runs: what its waves share."""

    def __init__(
        self, launch: Launch, schedule: Schedule, gpu: GPU, log: bool, limits: Limits
    ) -> None:
        self.kernel = load(launch.ptx, launch.kernel)
        self.launch = moved_apart(launch, number_words(self.kernel.function))
        self.schedule = schedule
        self.gpu = gpu
        self.limits = limits
        self.faults = Faults()
        self.counters = Counters()
        self.output: list[str] = []
        asked = tuple(launch.cluster)
        self.cluster = asked if asked != (1, 1, 1) else self.kernel.function.cluster or (1, 1, 1)
        self.explicit_cluster = int(self.cluster != (1, 1, 1))
        self.cluster_size = int(np.prod(self.cluster))
        self.shared_bytes = self.kernel.dynamic_shared_start + launch.dynamic_shared
        self.thread_instructions = 0
        self.issues = np.zeros(len(self.kernel.instructions) + 1, np.int64)
        self.started = time.monotonic()
        self.blocks_done = 0
        self.heap: Any = None  # global memory, made by the first wave
        self._check()
        warps = -(-int(np.prod(launch.block)) // 32)
        self.first_log: Log | NoLog = Log(warps, self.cluster_size) if log else NO_LOG

    def _check(self) -> None:
        launch, gpu = self.launch, self.gpu
        threads = int(np.prod(launch.block))
        if not 1 <= threads <= 1024 or min(launch.block) < 1:
            raise BadLaunch(f"a block has 1 to 1024 threads, not {launch.block}")
        if min(launch.grid) < 1:
            raise BadLaunch(f"a grid has at least one block in every direction, not {launch.grid}")
        if any(g % c for g, c in zip(launch.grid, self.cluster, strict=True)):
            raise BadLaunch(f"the grid {launch.grid} is not whole clusters of {self.cluster}")
        if self.cluster_size > 16:
            raise BadLaunch(f"a cluster has at most 16 blocks, not {self.cluster}")
        declared = self.kernel.function.threads
        if declared and self.kernel.function.threads_exact and tuple(launch.block) != declared:
            raise BadLaunch(f"the kernel was compiled for blocks of {declared}, not {launch.block}")
        if self.shared_bytes > gpu.shared_per_block + 1024:
            raise BadLaunch(
                f"a block of {gpu.name} has at most {gpu.shared_per_block} bytes of shared "
                f"memory, this one asks for {self.shared_bytes - 1024}"
            )

    @property
    def clusters(self) -> int:
        return int(np.prod(self.launch.grid)) // self.cluster_size

    def block_ids(self, first: int, count: int) -> np.ndarray:
        """(count * cluster_size, 3): ctaid of the blocks of some clusters, x fastest."""
        per_axis = np.array(self.launch.grid) // np.array(self.cluster)
        cluster = _unravel(np.arange(first, first + count), per_axis)
        rank = _unravel(np.arange(self.cluster_size), np.array(self.cluster))
        ids = cluster[:, None, :] * np.array(self.cluster) + rank[None]
        return ids.reshape(-1, 3)

    @property
    def log(self) -> Log | NoLog:
        """The event log: it follows the first wave."""
        return NO_LOG if self.blocks_done else self.first_log

    def too_long(self) -> None:
        """Called when a wave did more steps than the limit."""
        raise Stop(f"stopped after {self.limits.steps} steps: does a loop never end?")

    def go(self) -> str:
        """Runs all waves; why it stopped early, or ""."""
        threads = -(-int(np.prod(self.launch.block)) // 32) * 32 * self.cluster_size
        registers = sum(max(bits // 8, 1) for bits in self.kernel.slot_bits)
        together = max(
            1,
            min(
                THREADS_A_WAVE // threads,
                REGISTER_BYTES_A_WAVE // max(registers * threads, 1),
                SHARED_BYTES_A_WAVE // (self.shared_bytes * self.cluster_size),
            ),
        )
        if self.clusters * threads <= THREADS_TOGETHER:
            together = self.clusters
        try:
            for first, count in self._spans(together):
                wave = Wave(self, first, count)
                try:
                    wave.go()
                finally:
                    wave.close()
                self.blocks_done += wave.blocks
                if time.monotonic() - self.started > self.limits.seconds:
                    raise Stop(f"stopped after {self.limits.seconds:.0f} s")
        except Stop as stop:
            return str(stop)
        return ""

    def _spans(self, together: int) -> Iterator[tuple[int, int]]:
        """(first, count): the clusters of each wave, at most ``together``.

        A launch with the attribute "ends": n runs only its first and its last n clusters, for
        grids that are too large to run whole.
        """
        ends = self.launch.attributes.get("ends", self.clusters)
        parts = [range(self.clusters)]
        if 2 * ends < self.clusters:
            parts = [range(ends), range(self.clusters - ends, self.clusters)]
        for part in parts:
            for first in part[::together]:
                yield first, min(together, part.stop - first)


def _unravel(index: np.ndarray, shape: np.ndarray) -> np.ndarray:
    x, y, _ = (int(size) for size in shape)
    return np.stack([index % x, index // x % y, index // (x * y)], axis=-1)


def simulate(
    launch: Launch,
    *,
    schedule: str | Schedule = "latest",
    gpu: str | GPU = "h100",
    log: bool = False,
    limits: Limits | None = None,
) -> Result:
    """Runs a launch. Its tensors are left as the GPU would have left them.

    Raises PtxSyntaxError, KeyError (no such kernel), Unsupported and BadLaunch; what the kernel
    does wrong is in the result.
    """
    run = Run(
        launch,
        Schedule.parse(schedule) if isinstance(schedule, str) else schedule,
        gpu_named(gpu) if isinstance(gpu, str) else gpu,
        log,
        limits or Limits(),
    )
    with np.errstate(all="ignore"):
        stopped = run.go()
    issues = np.cumsum(run.issues)[:-1]
    for instruction, count in zip(run.kernel.instructions, issues.tolist(), strict=True):
        if count:
            run.counters.add(f"instructions_{instruction_class(instruction)}", count, instruction)
    run.counters.add("thread_instructions", run.thread_instructions)
    run.counters.add("blocks", run.blocks_done)
    if run.heap is not None:
        for way in ("read", "write"):
            run.counters.add(f"global_{way}_footprint", run.heap.footprint(way))
    run.faults.wave = None
    return Result(
        launch=launch,
        kernel=run.kernel,
        gpu=run.gpu,
        schedule=str(run.schedule),
        faults=list(run.faults),
        stopped=stopped,
        counters=run.counters,
        log=run.first_log,
        seconds=time.monotonic() - run.started,
        output="".join(run.output),
        shared_bytes=run.shared_bytes,
        issues=issues,
    )
