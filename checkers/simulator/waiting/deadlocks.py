"""Nobody can go on: who waits where for what, a line for each wait however many wait there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from checkers.simulator.machine.group import LANES, Group
from checkers.simulator.machine.kernel import instruction_of
from checkers.simulator.memory.lanes import line_name, warps_name
from checkers.simulator.reports.faults import Kind, Stop, place_and_opcode

if TYPE_CHECKING:
    from checkers.simulator.machine.wave import Wait, Wave
    from checkers.simulator.ptx.program import Instruction

MOST = 16  # waits that a report lists


@dataclass
class Waiting:
    """Who waits at one place for one thing.

    reason: of the first of them.  blocks: the warps by block, both counted in the wave.  thread: the
    only one of a block, where it is one lane of one warp.  alike: the others' reasons are the same
    to the number.
    """

    site: Instruction
    reason: str
    blocks: dict[int, set[int]]
    thread: int | None
    alike: bool = True

    def sentence(self, wave: Wave) -> str:
        """ "warps 0 to 3 of block 0 and of 7 more at line 41: waits for ..."."""
        (first, warps), *others = self.blocks.items()
        each = wave.warps_per_block
        names = warps_name(sorted(warp - first * each for warp in warps))
        if self.thread is not None:
            names = f"thread {self.thread}"
        x, y, z = wave.block_ids[first].tolist()
        whom = f"{names} of block {(x, y, z) if y or z else x}"
        if others:
            own = {warp - first * each for warp in warps}
            same = all({warp - b * each for warp in there} == own for b, there in others)
            count = sum(len(there) for _, there in others)
            blocks = f"{len(others)} more block{'s' if len(others) > 1 else ''}"
            whom += f" and of {blocks}" if same else f" and {count} of {blocks}"
        text = f"{whom} at {line_name(self.site)}: {self.reason}"
        return text if self.alike else f"{text} (so the first; others for another stage or phase)"


def report(wave: Wave, polling: list[Group]) -> NoReturn:
    """Reports who waits for what, and stops. polling: those that look again and again."""
    parked = wave.parked()
    for group in polling:
        group.parked_at = group.pc
    causes = [wait.at_deadlock() for wait in parked]
    waits = [(wait.reason(), groups) for wait, groups in parked.items()]
    for group in polling:
        wait = wave.polled_for(group)
        causes.append(wait.at_deadlock() if wait is not None else None)
        reason = wait.reason() if wait else "polls for something that never changes"
        waits.append((reason, [group]))
    found: dict[tuple, list[Waiting]] = {}
    for reason, groups in waits:
        for group in groups:
            _add(found, wave, group, reason)
            wave.log.stuck(group, reason)
    listed = [waiting for some in found.values() for waiting in some]
    sentences = [waiting.sentence(wave) for waiting in listed[:MOST]]
    if len(listed) > MOST:
        sentences.append(f"and {len(listed) - MOST} more waits")
    later = int(np.prod(wave.launch.grid)) - wave.run.blocks_done - wave.blocks
    if later > 0:
        sentences.append(
            f"{later} more blocks of the grid start only when these are done: if it is they who "
            "are waited for, try a smaller grid"
        )
    # Where each wait has a fault of its own, these are why nobody goes on.
    first = _first_to_tell(parked, polling)
    wave.faults.report(
        Kind.DEADLOCK,
        "No thread can go on: each waits for something that will not happen.",
        thread=int(first.threads()[0]),
        site=instruction_of(wave.kernel, first.parked_at),
        details={"waiting": sentences},
        also=tuple(waiting.site for waiting in listed[:MOST]),
        follows=causes[0] if all(causes) else None,
    )
    raise Stop("deadlock")


def _first_to_tell(parked: dict[Wait, list[Group]], polling: list[Group]) -> Group:
    """Who waits at a barrier of the block is seldom to blame while others wait for something else."""
    elsewhere = [group for wait, some in parked.items() if wait.kind != "bar" for group in some]
    everyone = [group for some in parked.values() for group in some]
    return next(iter([*elsewhere, *polling, *everyone]))


def _add(found: dict[tuple, list[Waiting]], wave: Wave, group: Group, reason: str) -> None:
    """Counts a group among those that wait at its place: with who gives the same reason, or who
    gives one that differs in numbers only and is of other blocks (their barriers are their own)."""
    site = instruction_of(wave.kernel, group.parked_at)
    words = "".join(letter for letter in reason if not letter.isdigit())
    some = found.setdefault((place_and_opcode(site), words), [])
    lanes = group.active()
    for block in np.unique(group.blocks()).tolist():
        mine = group.blocks() == block
        warps = set(group.warps[mine].tolist())
        alone = len(warps) == 1 and int(lanes[mine].sum()) == 1
        thread = None
        if alone:
            thread = min(warps) % wave.warps_per_block * LANES + int(lanes[mine][0].argmax())
        there = next((w for w in some if w.reason == reason and w.thread == thread), None)
        if there is None:
            there = next((w for w in some if block not in w.blocks and w.thread == thread), None)
        if there is None:
            some.append(Waiting(site, reason, {block: warps}, thread))
            continue
        there.alike &= there.reason == reason
        there.blocks.setdefault(block, set()).update(warps)
