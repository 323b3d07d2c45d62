"""The lanes of a group that make an access, and how their faults are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.simulator.reports.faults import Access, Fault, Kind, Severity
from checkers.simulator.reports.places import learners_place

if TYPE_CHECKING:
    from checkers.simulator.machine.group import Group
    from checkers.simulator.ptx.program import Instruction


class Lanes:
    """(k,) lanes. threads: their flat indices.  at: which of group.threads() they are, None for
    all of them, in order."""

    __slots__ = ("at", "group", "threads", "wave")

    def __init__(self, group: Group, threads: np.ndarray, at: np.ndarray | None = None) -> None:
        self.group = group
        self.wave = group.wave
        self.threads = threads
        self.at = at

    @classmethod
    def of(cls, group: Group) -> Lanes:
        return cls(group, group.threads())

    def only(self, chosen: np.ndarray) -> Lanes:
        """Those that ``chosen`` (k,) bool picks."""
        return self.only_at(np.flatnonzero(chosen))

    def only_at(self, at: np.ndarray) -> Lanes:
        """Those with these indices."""
        return Lanes(self.group, self.threads[at], at if self.at is None else self.at[at])

    def as_group(self) -> Group | None:
        """A group of just these lanes."""
        if self.at is None:
            return self.group
        chosen = np.zeros(len(self.group.threads()), bool)
        chosen[self.at] = True
        return self.group.narrowed(self.group.spread(chosen, False))

    def fault(
        self,
        kind: Kind,
        bad: np.ndarray,
        message: str,
        other: Access | None = None,
        details: dict[str, Any] | None = None,
        severity: Severity = Severity.ERROR,
        follows: Fault | None = None,
    ) -> Fault:
        """Reports a fault of the lanes ``bad`` (k,) bool; ``message`` is about the first."""
        return self.wave.faults.report(
            kind,
            message,
            group=self.only(bad).as_group(),
            other=other,
            details=details,
            severity=severity,
            follows=follows,
        )


def thread_name(wave: Any, thread: int, beside: int | None = None) -> str:
    """ "thread 33"; with its block when that is not the one of thread ``beside``."""
    each = wave.warps_per_block * 32
    name = f"thread {thread % each}"
    if beside is not None and beside // each != thread // each:
        x, y, z = (int(i) for i in wave.block_ids[thread // each])
        name += f" of block {(x, y, z) if y or z else x}"
    return name


def warps_name(numbers: list[int]) -> str:
    """ "warp 3", "warps 0 to 3", "warps 1, 4 and 6" of numbers in order."""
    if len(numbers) == 1:
        return f"warp {numbers[0]}"
    if numbers == list(range(numbers[0], numbers[-1] + 1)) and len(numbers) > 2:
        return f"warps {numbers[0]} to {numbers[-1]}"
    return "warps " + ", ".join(map(str, numbers[:-1])) + f" and {numbers[-1]}"


def line_name(site: Instruction | None) -> str:
    """ "line 41", or the PTX's line where the source's is not known."""
    if site is None:
        return "another place"
    place = learners_place(site)
    return f"line {place.line}" if place else f"PTX line {site.line}"
