"""The lanes that a membermask names come together: PTX ISA 9.7.9.6, 9.7.13.2, 9.7.13.9 to 14.

Each lane that executes a ``.sync`` instruction waits until all lanes of its mask that have not exited
execute it too. Usually they stand in one group and it runs at once. Those that come earlier are parked;
the last one runs the instruction for all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.simulator.machine.group import LANES, Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.machine.wave import Wait
from checkers.simulator.reports.faults import Fault, Kind, Severity
from checkers.simulator.waiting.meetings import Open

if TYPE_CHECKING:
    from checkers.simulator.machine.wave import Wave

_BIT = np.left_shift(np.uint32(1), np.arange(LANES, dtype=np.uint32))


def bits_of(lanes: np.ndarray) -> np.ndarray:
    """(...,) uint32: the lanes, (..., 32) bool, as a mask with lane 0 in bit 0."""
    return np.where(lanes, _BIT, np.uint32(0)).sum(axis=-1, dtype=np.uint32)


def lanes_of(mask: Any) -> np.ndarray:
    """(..., 32) bool: the lanes that masks, (...,) uint32, name."""
    return (np.asarray(mask, np.uint32)[..., None] & _BIT) != 0


def named(lanes: np.ndarray) -> str:
    """ "lane 3", "lanes 16 to 31", "lanes 1, 3, 5 and 26 more" of (32,) bool."""
    which = np.flatnonzero(lanes).tolist()
    if len(which) == 1:
        return f"lane {which[0]}"
    if which[-1] - which[0] == len(which) - 1:
        return f"lanes {which[0]} to {which[-1]}"
    if len(which) <= 4:
        return f"lanes {', '.join(map(str, which[:-1]))} and {which[-1]}"
    return f"lanes {', '.join(map(str, which[:3]))} and {len(which) - 3} more"


def together(
    what: str,
    mask: Callable[[Group], Any],
    step: Callable[[Group], None],
    *,
    anywhere: bool = False,
    needs_exited: bool = False,
) -> Step:
    """``step`` for the lanes of each mask together.

    what: the instruction, for reports.  mask: reads the membermask, a number or (n, 32).  step: gets
    groups in whose warps the active lanes are all that take part.  anywhere: the lanes may stand at
    different instructions with the same mask.  needs_exited: the manual names all threads of the
    mask, not only those that have not exited.
    """

    def run(group: Group) -> list[Group] | None:
        masks = np.asarray(mask(group), np.uint32)
        if masks.ndim == 0 and masks == 0xFFFFFFFF and group.mask is None:
            return step(group)
        active = group.active()
        if masks.ndim < 2:
            masks = np.broadcast_to(masks, active.shape)
        # One mask for all active lanes of a warp, that names them and nobody who is missing.
        first = masks[np.arange(group.n), active.argmax(axis=1)]
        members = lanes_of(first)
        alike = (masks == first[:, None]) | ~active
        missing = members & group.wave.live[group.warps] & ~active
        whole = alike.all(axis=1) & ~missing.any(axis=1) & ~(active & ~members).any(axis=1)
        if needs_exited:
            _note_exited(group, what, members)
        if whole.all():
            return step(group)
        going_on = []
        if whole.any():
            part = group.only_warps(np.flatnonzero(whole))
            step(part)
            going_on.append(part)
        meetings = group.wave.state(WarpMeetings)
        for row in np.flatnonzero(~whole).tolist():
            for value in np.unique(masks[row][active[row]]).tolist():
                lanes = active[row] & (masks[row] == value)
                part = Group(group.wave, group.pc, group.warps[row : row + 1], lanes[None])
                going_on += meetings.come(part, value, what, step, anywhere)
        return going_on

    return run


def _note_exited(group: Group, what: str, members: np.ndarray) -> None:
    """Notes masks that name threads which have exited."""
    wave = group.wave
    existed = np.arange(wave.warps_per_block * LANES) < wave.threads_per_block
    existed = existed.reshape(-1, LANES)[group.warps % wave.warps_per_block]
    gone = members & existed & ~wave.live[group.warps]
    if gone.any():
        row = int(gone.any(axis=1).argmax())
        wave.faults.report(
            Kind.COLLECTIVE,
            f"The mask of {what} names {named(gone[row])}, which have exited; hardware goes on "
            "without them, the manual does not promise it.",
            thread=int(group.warps[row]) * LANES + int(group.active()[row].argmax()),
            site=group.site,
            severity=Severity.NOTE,
        )


@dataclass(eq=False, kw_only=True)
class WarpMeeting(Wait):
    """Some lanes of a warp, waiting for the others of their mask. present: (32,) bool."""

    wave: Wave
    pc: int
    warp: int
    mask: int
    what: str
    step: Callable[[Group], None]
    present: np.ndarray

    def missing(self) -> np.ndarray:
        """(32,) bool: the lanes of the mask that have neither come nor exited."""
        return lanes_of(self.mask) & self.wave.live[self.warp] & ~self.present

    @property
    def warps(self) -> np.ndarray:
        return np.array([self.warp])

    def complete(self) -> bool:
        """Whether nobody is missing."""
        return not self.missing().any()

    def reason(self) -> str:
        return f"waits in {self.what} for {named(self.missing())} of its mask {self.mask:#010x}"

    def at_deadlock(self) -> Fault:
        """Reports that some never come."""
        return self.wave.faults.report(
            Kind.COLLECTIVE,
            f"{self.what} waits for all lanes of its mask {self.mask:#010x}, but "
            f"{named(self.missing())} never came to it.",
            thread=self.warp * LANES + int(self.present.argmax()),
            site=self.wave.kernel.instructions[self.pc],
        )

    def run(self) -> None:
        """Executes the instruction for those present."""
        mask = None if self.present.all() else self.present[None]
        self.step(Group(self.wave, self.pc, self.warps, mask))
        self.wave.progressed()
        self.wave.wake(self)


class WarpMeetings(Open):
    """Those of the lanes that a membermask names."""

    def come(
        self, group: Group, mask: int, what: str, step: Callable[[Group], None], anywhere: bool
    ) -> list[Group]:
        """``group``, of one warp, comes to the meeting of ``mask``: itself if it goes on."""
        lanes, warp = group.active()[0], int(group.warps[0])
        strangers = lanes & ~lanes_of(mask)
        if strangers.any():
            lane = int(strangers.argmax())
            self.wave.faults.report(
                Kind.COLLECTIVE,
                f"Lane {lane} executes {what} with the mask {mask:#010x}, which does not name it.",
                thread=warp * LANES + lane,
                site=group.site,
            )
        key = (warp, mask, -1 if anywhere else group.pc)
        meeting = self.open.get(key)
        if meeting is None:
            meeting = WarpMeeting(
                kind="warp",
                wave=self.wave,
                pc=group.pc,
                warp=warp,
                mask=mask,
                what=what,
                step=step,
                present=np.zeros(LANES, bool),
            )
        meeting.present |= lanes
        return [group] if self.join(key, meeting, group) else []
