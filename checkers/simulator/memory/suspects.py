"""Threads that read shared memory which nobody wrote, until what they made of it is used.

A block's tile may hang over the edge of the matrix: its last rows are never copied in, its threads
read them all the same, compute, and store nothing. That is legal and usual, a NOTE. It is a fault
when such a thread stores to global memory. What it hands on by shared memory or a shuffle makes
others suspect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.simulator.memory.shadow import put, rows
from checkers.simulator.reports.faults import Access, Kind, Severity

if TYPE_CHECKING:
    from checkers.simulator.memory.lanes import Lanes
    from checkers.simulator.ptx.program import Instruction


@dataclass
class Cause:
    """A load of what nobody wrote. thread: the first that did it.  times: how many did."""

    site: Instruction
    message: str
    thread: int
    details: dict[str, Any] = field(default_factory=dict)
    times: int = 0
    told: bool = False


class Suspects:
    """cause: (threads,) int32, for each thread of the wave the number of its Cause, 0 for none."""

    def __init__(self, wave: Any) -> None:
        self.wave = wave
        self.cause = np.zeros(wave.warps * 32, np.int32)
        self.causes: list[Cause] = []
        self._numbers: dict[int, int] = {}  # by id of the site
        self._grains: np.ndarray | None = None  # the cause behind each grain of shared memory

    def read(self, lanes: Lanes, bad: np.ndarray, message: str, details: dict[str, Any]) -> None:
        """The lanes ``bad`` (k,) read what nobody wrote; ``message`` is about the first."""
        site = lanes.group.site
        threads = lanes.threads[bad]
        number = self._numbers.get(id(site))
        if number is None:
            self.causes.append(Cause(site, message, int(threads[0]), details))
            number = self._numbers[id(site)] = len(self.causes)
        self.causes[number - 1].times += len(threads)
        self.cause[threads] = number

    # --- how it spreads ------------------------------------------------------------------------

    def loaded(self, threads: np.ndarray, index: np.ndarray, count: int) -> None:
        """Threads read rows of ``count`` grains of shared memory."""
        if self._grains is not None:
            found = rows(self._grains, index, count).max(axis=1)
            some = found > 0
            self.cause[threads[some]] = found[some]

    def stored(self, threads: np.ndarray, index: np.ndarray, count: int, grains: int) -> None:
        """Threads wrote shared memory, of ``grains`` grains in all."""
        cause = self.cause[threads]
        if self._grains is None:
            if not cause.any():
                return
            self._grains = np.zeros(grains, np.int32)
        put(self._grains, index, count, cause)

    def exchanged(self, warps: np.ndarray, source: np.ndarray, active: np.ndarray) -> None:
        """Lanes took a value from lanes ``source`` (n, 32) of their warps."""
        there = self.cause.reshape(-1, 32)[warps]
        found = np.where(active, np.take_along_axis(there, source, axis=1), 0)
        self.cause.reshape(-1, 32)[warps] = np.where(found > 0, found, there)

    # --- what comes of it ----------------------------------------------------------------------

    def published(
        self, threads: np.ndarray, site: Instruction, verb: str, place: Callable[[int], str]
    ) -> None:
        """Threads store to global memory: for suspects that is a fault. place(i): the i-th one's,
        in words."""
        cause = self.cause[threads]
        for number in np.unique(cause).tolist():
            if number:
                i = int(np.flatnonzero(cause == number)[0])
                used = f"{verb} what it made of it to {place(i)}"
                self._tell(self.causes[number - 1], Access(int(threads[i]), site, used))

    def engine_read(self, index: np.ndarray, site: Instruction, what: str) -> None:
        """An engine reads grains of shared memory, to copy or to multiply them."""
        if self._grains is not None:
            for number in np.unique(self._grains[index]).tolist():
                if number:
                    self._tell(self.causes[number - 1], Access(None, site, what))

    def _tell(self, cause: Cause, used: Access) -> None:
        if not cause.told:
            cause.told = True
            self.wave.faults.report(
                Kind.UNINITIALISED,
                cause.message,
                thread=cause.thread,
                site=cause.site,
                other=used,
                details=cause.details,
                times=cause.times,
            )

    def close(self) -> None:
        """The wave is over: what was read and never used is noted."""
        for cause in self.causes:
            if not cause.told:
                self.wave.faults.report(
                    Kind.UNINITIALISED,
                    f"{cause.message}; none of these threads stored to global memory after that",
                    thread=cause.thread,
                    site=cause.site,
                    details=cause.details,
                    severity=Severity.NOTE,
                    times=cause.times,
                )
