"""setmaxnreg: PTX ISA 9.7.19.5. Registers move between a warpgroup and its block's pool.

A block starts with all of its registers in its warps: as many for each thread as .maxnreg says, else the
most that fits 64 Ki for the threads of the block. What a .dec gives back an .inc may take; one that finds
too few waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from checkers.simulator.machine.building import Builder, translates
from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.machine.wave import Wait
from checkers.simulator.ptx.modifiers import Unsupported
from checkers.simulator.ptx.program import Immediate, Instruction
from checkers.simulator.reports.faults import Kind

if TYPE_CHECKING:
    from checkers.simulator.machine.wave import Wave

REGISTERS_OF_AN_SM = 65536
MOST = 256  # of a thread
WARPGROUP = 4


@dataclass(eq=False)
class PoolWait(Wait):
    """Warps that wait for registers of their block."""

    pools: RegisterPools | None = None
    block: int = 0
    wanted: int = 0

    def reason(self) -> str:
        assert self.pools is not None
        free = int(self.pools.free[self.block])
        return (
            f"waits for {self.wanted} registers a thread (setmaxnreg.inc): the block's pool holds "
            f"{free}, no warpgroup has given back enough"
        )


class RegisterPools:
    """owned: (warps,) registers of each thread.  free: (blocks,) in the pool."""

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        function = wave.kernel.function
        threads = wave.warps_per_block * 32
        fits = min(REGISTERS_OF_AN_SM // threads // 8 * 8, MOST)
        self.at_start = function.max_registers or fits
        self.is_declared = function.max_registers is not None
        self.owned = np.full(wave.warps, self.at_start, np.int64)
        self.free = np.zeros(wave.blocks, np.int64)
        self.waits: dict[int, PoolWait] = {}
        self.site: Instruction | None = None  # the last setmaxnreg
        wave.exit_checks.append(self._at_exit)

    def _at_exit(self, block: int) -> None:
        size = self.wave.warps_per_block
        owned = self.owned[block * size : (block + 1) * size]
        for first in range(0, size - size % WARPGROUP, WARPGROUP):
            those = owned[first : first + WARPGROUP]
            if (those != those[0]).any():
                self.wave.faults.report(
                    Kind.REGISTERS,
                    f"The warps of warpgroup {first // WARPGROUP} did not all execute the same "
                    f"setmaxnreg: they own {', '.join(map(str, those.tolist()))} registers a thread",
                    thread=(block * size + first) * 32,
                    site=self.site,
                )


@translates("setmaxnreg", section="9.7.19.5")
def setmaxnreg(instruction: Instruction, build: Builder) -> Step:
    modifiers = build.modifiers(instruction)
    increases = modifiers.one_of("inc", "dec") == "inc"
    modifiers.one_of("sync")
    modifiers.one_of("aligned")
    modifiers.one_of("u32")
    modifiers.done()
    operand = instruction.operands[0]
    if not isinstance(operand, Immediate):
        raise Unsupported(instruction, "the number of registers is a constant")
    wanted = int(operand.value)
    if wanted % 8 or not 24 <= wanted <= MOST:
        raise Unsupported(instruction, f"{wanted} registers: it is 24 to {MOST}, a multiple of 8")

    def step(group: Group) -> list[Group] | None:
        wave = group.wave
        pools = wave.state(RegisterPools)
        pools.site = group.site
        if group.mask is not None and (group.mask != wave.live[group.warps]).any():
            wave.faults.report(
                Kind.COLLECTIVE, "setmaxnreg is executed by only a part of a warp", group=group
            )
        _check_direction(group, pools, wanted, increases)
        going = np.ones(group.n, bool)
        blocks = group.blocks()
        for i, warp in enumerate(group.warps.tolist()):
            block = int(blocks[i])
            more = (wanted - int(pools.owned[warp])) * 32
            if more > pools.free[block]:
                going[i] = False
                continue
            pools.free[block] -= more
            pools.owned[warp] = wanted
            if more < 0:
                wave.progressed()
                if block in pools.waits:
                    wave.wake(pools.waits.pop(block))
        if going.all():
            return None
        for block in np.unique(blocks[~going]).tolist():
            wait = pools.waits.setdefault(block, PoolWait("registers", False, pools, block, wanted))
            wave.park(group.only_warps(~going & (blocks == block)), wait, retry=True)
        return [group.only_warps(going)] if going.any() else []

    return step


def _check_direction(group: Group, pools: RegisterPools, wanted: int, increases: bool) -> None:
    """.dec must not raise the number, .inc not lower it. Only where the start is declared: else it
    is the compiler's choice, which the PTX does not show."""
    owned = pools.owned[group.warps]
    started = owned == pools.at_start
    wrong = (owned > wanted) if increases else (owned < wanted)
    if not pools.is_declared:
        wrong = wrong & ~started
    if wrong.any():
        verb = "inc" if increases else "dec"
        group.wave.faults.report(
            Kind.REGISTERS,
            f"setmaxnreg.{verb} to {wanted} by a warp that has {int(owned[wrong][0])} registers a "
            "thread",
            group=group.only_warps(wrong),
        )
