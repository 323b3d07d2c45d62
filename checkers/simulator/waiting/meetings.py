"""Instructions that a whole warp, or a whole warpgroup, executes together (.sync.aligned).

The machine may bring the lanes of a warp, or the warps of a warpgroup, to such an instruction one
after another. Those that come first are parked until the last one is there; then the instruction
runs once, for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.simulator.machine.group import LANES, Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.machine.wave import Wait
from checkers.simulator.reports.faults import Fault, Kind

if TYPE_CHECKING:
    from checkers.simulator.machine.wave import Wave

WARPGROUP = 4  # warps


def collective(what: str, warps: int, step: Callable[[Group], None]) -> Step:
    """``step`` for whole units of ``warps`` warps (1, or 4 for a warpgroup, counted from the
    block's first). what: the instruction, for reports."""

    def run(group: Group) -> list[Group] | None:
        if group.mask is None and (warps == 1 or _whole(group)):
            return step(group)
        return group.wave.state(Meetings).gather(group, warps, what, step)

    return run


def _whole(group: Group) -> bool:
    """Whether ``group`` consists of whole warpgroups of blocks that consist of such."""
    if group.n % WARPGROUP or group.wave.warps_per_block % WARPGROUP:
        return False
    firsts = group.warps[::WARPGROUP]
    return bool((firsts % WARPGROUP == 0).all() and (group.warps[3::4] - firsts == 3).all())


@dataclass(eq=False, kw_only=True)
class Meeting(Wait):
    """Some of the lanes that an instruction needs, waiting for the others.

    size: warps of a unit.  warps: flat indices of those that the block has.  present: (warps, 32)
    bool, the lanes that are here.
    """

    wave: Wave
    pc: int
    what: str
    size: int
    step: Callable[[Group], None]
    warps: np.ndarray
    present: np.ndarray

    def reason(self) -> str:
        return f"{self.what} needs {self._whom()}, but {self._missing()} did not come"

    def _whom(self) -> str:
        if self.size == 1:
            return "all 32 lanes of its warp"
        return f"all {self.size} warps of its warpgroup"

    def _missing(self) -> str:
        if self.size == 1:
            return f"{int((~self.present).sum())} of them"
        absent = self.warps[~self.present.all(axis=1)] % self.wave.warps_per_block
        if not len(absent):
            return f"{self.size - len(self.warps)} warps, which the block does not have,"
        names = ", ".join(map(str, absent.tolist()))
        return f"warp {names}" if len(absent) == 1 else f"warps {names}"

    def complete(self) -> bool:
        """Whether nobody who has not exited is missing."""
        return not (self.wave.live[self.warps] & ~self.present).any()

    def blame(self) -> Fault:
        """Reports that some are missing."""
        warp, lane = np.argwhere(self.present)[0]
        return self.wave.faults.report(
            Kind.COLLECTIVE,
            f"{self.what} belongs to {self._whom()}, but {self._missing()} didn't take part.",
            thread=int(self.warps[warp]) * LANES + int(lane),
            site=self.wave.kernel.instructions[self.pc],
        )

    at_deadlock = blame

    def run(self) -> None:
        """Executes the instruction for those present, who then go on. What a part of a warpgroup
        would do is not known: it is left out."""
        whole = len(self.warps) == self.size and self.present.all()
        if not whole:
            self.blame()
        if whole or self.size == 1:
            mask = None if whole else self.present
            self.step(Group(self.wave, self.pc, self.warps, mask))
        self.wave.wake(self)


class Open:
    """The meetings of a wave that some have not come to yet, by a key of the kind's own.

    A meeting has warps, complete() and run().
    """

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        self.open: dict[tuple[int, int, int], Any] = {}
        wave.exit_hooks.append(self._exited)

    def join(self, key: tuple[int, int, int], meeting: Any, group: Group) -> bool:
        """``group``, counted in ``meeting`` already, goes on when nobody is missing; else it is
        parked until the last one comes."""
        if meeting.complete():
            self.open.pop(key, None)
            meeting.run()
            return True
        self.open[key] = meeting
        self.wave.park(group, meeting, retry=False)
        return False

    def _exited(self, group: Group) -> None:
        """Those who left will not come: the others go on without them."""
        for key, meeting in list(self.open.items()):
            if np.isin(meeting.warps, group.warps).any() and meeting.complete():
                del self.open[key]
                meeting.run()


class Meetings(Open):
    """Those of whole warps and warpgroups."""

    def gather(
        self, group: Group, size: int, what: str, step: Callable[[Group], None]
    ) -> list[Group]:
        """Runs ``step`` for the units that are complete; the groups of these that go on."""
        per_block = self.wave.warps_per_block
        units = -(-per_block // size)
        unit = group.blocks() * units + group.warps % per_block // size
        going_on = []
        for one in np.unique(unit).tolist():
            part = group.only_warps(np.flatnonzero(unit == one))
            key = (group.pc, size, one)
            meeting = self.open.get(key)
            if meeting is None:
                first = one // units * per_block + one % units * size
                warps = np.arange(first, min(first + size, (one // units + 1) * per_block))
                present = np.zeros((len(warps), LANES), bool)
                meeting = Meeting(
                    kind="collective",
                    wave=self.wave,
                    pc=group.pc,
                    what=what,
                    size=size,
                    step=step,
                    warps=warps,
                    present=present,
                )
            meeting.present[part.warps - meeting.warps[0]] |= part.active()
            if self.join(key, meeting, part):
                going_on.append(part)
        return going_on
