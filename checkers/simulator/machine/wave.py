"""The machine: some clusters of a grid, run together, instruction by instruction.

A *wave* holds warps as rows. Warps at one pc run as one group. A branch may part a group; the
group with the lowest pc goes first, so that parts meet again where their paths join. A group that
must wait is parked; when all are parked, the engine completes an asynchronous operation; when
there is none, waits that may time out do; when that changes nothing, it is a deadlock.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from checkers.simulator.machine.group import LANES, Group
from checkers.simulator.machine.kernel import Kernel
from checkers.simulator.machine.registers import new_register
from checkers.simulator.machine.specials import special_values
from checkers.simulator.memory.suspects import Suspects
from checkers.simulator.reports.faults import Fault, Faults
from checkers.simulator.waiting import deadlocks

if TYPE_CHECKING:
    from checkers.simulator.machine.run import Run

StateType = TypeVar("StateType")

# A polling loop that saw nothing change for so many rounds never will.
IDLE_ROUNDS = 200
# Nor will one with a barrier of its block in it (Triton's loop on an atomic), which is over each time.
VAIN_ROUNDS = 2000


class Jump:
    """What a branch returns: the groups, each with the pc it goes to."""

    __slots__ = ("groups",)

    def __init__(self, *groups: Group) -> None:
        self.groups = groups


@dataclass(eq=False)
class Wait:
    """Why a group stands still. One object for all that wait for the same thing.

    kind: "mbarrier", "bar", "cluster", "warp", ...  may_time_out: the instruction may return
    without what it waits for.
    """

    kind: str = "wait"
    may_time_out: bool = False

    def reason(self) -> str:
        """What it waits for and what is missing, for a deadlock's report."""
        return f"waits ({self.kind})"

    def at_deadlock(self) -> Fault | None:
        """Called when nothing can end it any more: reports what is wrong beyond the deadlock. The
        fault that explains this wait, if there is one."""
        return None


class Wave:
    """The state of some whole clusters of a grid.

    registers: the array of each slot, None until first written.  block_ids: (blocks, 3) ctaid.
    live: (warps, 32) bool, the threads that have not exited.
    """

    def __init__(self, run: Run, first_cluster: int, clusters: int) -> None:
        self.run = run
        self.launch = run.launch
        self.kernel: Kernel = run.kernel
        self.faults: Faults = run.faults
        self.counters = run.counters
        self.log = run.log
        self.schedule = run.schedule
        self.gpu = run.gpu
        self.output = run.output
        self.cluster_size = run.cluster_size
        self.clusters = clusters
        self.blocks = clusters * self.cluster_size
        self.threads_per_block = int(np.prod(run.launch.block))
        self.warps_per_block = -(-self.threads_per_block // LANES)
        self.warps = self.blocks * self.warps_per_block
        self.block_ids = run.block_ids(first_cluster, clusters)
        self.registers: list[np.ndarray | None] = [None] * len(self.kernel.slot_bits)
        self._states: dict[type, Any] = {}
        self.exit_checks: list[Callable[[int], None]] = []
        self.exit_hooks: list[Callable[[Group], None]] = []
        self.suspects: Suspects | None = None
        self.progress = 0
        self.meetings = 0  # of the progress: barriers of a block that were over, and no more
        self.steps_done = 0
        self._ready: dict[int, Group] = {}
        self._polling: list[Group] = []
        self._parked: dict[Wait, list[Group]] = {}
        self._polled = False
        self._polls_for: dict[int, Wait | None] = {}  # by warp, what it last looked for
        self._polled_at = self._timed_out_at = -1  # self.progress when that last happened
        self._news_at = -1
        self._idle_rounds = self._vain_rounds = 0
        self._random = random.Random(run.schedule.seed) if run.schedule.is_random else None

        lanes = np.arange(self.warps_per_block * LANES) < self.threads_per_block
        self.live = np.tile(lanes.reshape(-1, LANES), (self.blocks, 1))
        for name, slot in self.kernel.specials.items():
            self.registers[slot] = special_values(self, name)

        from checkers.simulator.copies.engine import Engine
        from checkers.simulator.memory import Clocks, Memory

        self.faults.wave = self
        self.memory = Memory(self)
        self.clocks = Clocks(self)
        self.engine = Engine(self)
        for prepare in self.kernel.setup:
            prepare(self)

    # --- what instruction families use ---------------------------------------------------------

    def state(self, kind: type[StateType]) -> StateType:
        """This wave's ``kind``, made by ``kind(wave)`` when first asked for."""
        found = self._states.get(kind)
        if found is None:
            found = self._states[kind] = kind(self)
        return found

    def suspect_reads(self) -> Suspects:
        """Who read shared memory that nobody wrote; made on the first such read."""
        if self.suspects is None:
            self.suspects = Suspects(self)
        return self.suspects

    def close(self) -> None:
        """The wave is over, or given up: what was kept for later is told."""
        if self.suspects is not None:
            self.suspects.close()

    def ranks(self, group: Group) -> np.ndarray:
        """(n,) the rank in its cluster of each warp's block."""
        return group.blocks() % self.cluster_size

    def block_of(self, threads: np.ndarray) -> np.ndarray:
        """The block, counted in the wave, of flat thread indices."""
        return threads // (self.warps_per_block * LANES)

    def clock_value(self) -> int:
        """Steps done so far: %clock counts them."""
        return self.steps_done

    def progressed(self, meeting: bool = False) -> None:
        """Something changed that a waiting thread may look for. meeting: just that a barrier of a
        block is over, which a loop that looks in vain may well contain."""
        self.progress += 1
        self.meetings += meeting

    def polled(self, group: Group, wait: Wait | None = None) -> None:
        """``group`` looked for something that is not there yet: let the others run first.

        wait: what it looked for, where that can be said.
        """
        self._polled = True
        if wait is not None or self._polls_for:
            self._polls_for.update(dict.fromkeys(group.warps.tolist(), wait))

    def park(self, group: Group, wait: Wait, retry: bool) -> None:
        """``group`` stands still until wake(wait). retry: the instruction runs again then."""
        group.parked_at = group.pc
        group.pc += 0 if retry else 1
        self._parked.setdefault(wait, []).append(group)

    def wake(self, wait: Wait) -> None:
        """All that were parked with ``wait`` go on."""
        for group in self._parked.pop(wait, ()):
            self._push(group)

    def parked(self) -> dict[Wait, list[Group]]:
        """Who stands still, by what for."""
        return self._parked

    def polled_for(self, group: Group) -> Wait | None:
        """What a group that polls last looked for, where that can be said."""
        return self._polls_for.get(int(group.warps[0]))

    def held_up(self, *harmless: str) -> np.ndarray:
        """(warps, 32) bool: threads that poll, or wait for something of a kind not in ``harmless``."""
        held = np.zeros((self.warps, LANES), bool)
        groups = [(self._polling, True)]
        groups += [(parked, wait.kind not in harmless) for wait, parked in self._parked.items()]
        for some, counts in groups:
            for group in some if counts else ():
                held[group.warps] |= group.active()
        return held

    def exit(self, group: Group) -> None:
        """The threads of ``group`` are done."""
        self.live[group.warps] &= ~group.active()
        self.progressed()
        for hook in self.exit_hooks:
            hook(group)
        for block in np.unique(group.blocks()).tolist():
            first = block * self.warps_per_block
            if not self.live[first : first + self.warps_per_block].any():
                for check in self.exit_checks:
                    check(block)

    def allocate(self, slot: int) -> np.ndarray:
        """The array of a register that is written for the first time."""
        array = new_register(self.kernel.slot_bits[slot], self.warps)
        self.registers[slot] = array
        return array

    def undefined(self, group: Group, slot: int) -> np.ndarray:
        """The array of a register that is read before anyone wrote it."""
        return self.allocate(slot)

    # --- running -------------------------------------------------------------------------------

    def go(self) -> None:
        """Runs until every thread has exited. Raises Stop at a deadlock or trap."""
        self._push(
            Group(self, 0, np.arange(self.warps), None if self.live.all() else self.live.copy())
        )
        while True:
            group = self._next()
            if group is None:
                break
            self._run(group)
        self.engine.drain()

    def _push(self, group: Group) -> None:
        there = self._ready.get(group.pc)
        self._ready[group.pc] = group if there is None else there.merged(group)

    def _next(self) -> Group | None:
        """The group to run; None when all have exited."""
        while True:
            if self._ready:
                if self._random is None:
                    return self._ready.pop(min(self._ready))
                return self._any_ready(self._random)
            if self._polling:
                self._poll_again()
            elif not self._parked:
                return None
            elif not self.engine.complete_one() and not self._time_out():
                deadlocks.report(self, [])

    def _any_ready(self, choice: random.Random) -> Group:
        """A group by chance; of a warp that has parted, the part that is behind goes first: it
        is where the compiler's code makes the parts meet again."""
        pc = choice.choice(list(self._ready))
        warps = self._ready[pc].warps
        behind = [
            other
            for other, group in self._ready.items()
            if other < pc and np.isin(group.warps, warps).any()
        ]
        return self._ready.pop(min([pc, *behind]))

    def _poll_again(self) -> None:
        """Those that poll look again; when nothing changed, asynchronous work is done first."""
        if self._polled_at != self.progress:
            self._polled_at, self._idle_rounds = self.progress, 0
        if self._news_at != self.progress - self.meetings:
            self._news_at, self._vain_rounds = self.progress - self.meetings, 0
        self._vain_rounds += 1
        self._idle_rounds += 1
        if self._idle_rounds > 1 and self.engine.complete_one():
            self._idle_rounds = 0
        polling, self._polling = self._polling, []
        if self._idle_rounds > IDLE_ROUNDS or self._vain_rounds > VAIN_ROUNDS:
            self._polling = polling
            deadlocks.report(self, polling)
        for group in polling:
            self._push(group)

    def _time_out(self) -> bool:
        """Wakes those whose wait may end early, unless the last time changed nothing."""
        waits = [wait for wait in self._parked if wait.may_time_out]
        if not waits or self._timed_out_at == self.progress:
            return False
        self._timed_out_at = self.progress
        for wait in waits:
            for group in self._parked.pop(wait):
                group.timed_out = True
                self._push(group)
        return True

    def _run(self, group: Group | None) -> None:
        """Runs ``group`` until it parts, parks, ends, or others should go first."""
        steps, end = self.kernel.steps, len(self.kernel.steps)
        merge_points, issues = self.kernel.merge_points, self.run.issues
        others = self.schedule.is_random or bool(self._ready)
        while group is not None:
            start = pc = group.pc
            result: Any = None
            while pc < end:
                result = steps[pc](group)
                pc += 1
                if result is not None:
                    break
                group.pc = pc
                if self._polled or (pc in merge_points and (others or self._ready)):
                    break
            issues[start] += group.n
            issues[pc] -= group.n
            self.steps_done += pc - start
            self.run.thread_instructions += group.lane_count * (pc - start)
            if self.log.enabled:
                self.log.issue(group, pc - start)
            if self.steps_done > self.run.limits.steps:
                self.run.too_long()
            group = self._after(group, pc, result)

    def _after(self, group: Group, pc: int, result: Any) -> Group | None:
        """Sorts the groups that a straight run left, at ``pc``; one that goes on at once is
        returned."""
        polled, self._polled = self._polled, False
        if type(result) is Jump:
            if len(result.groups) == 1 and not self._ready and not self.schedule.is_random:
                return result.groups[0]
            parts: Any = result.groups
        elif result is not None:
            parts = result
            for part in parts:
                part.pc = pc
        elif pc >= len(self.kernel.steps) and not polled:
            self.exit(group)
            parts = ()
        else:
            parts = (group,)
        for part in parts:
            if polled:
                self._polling.append(part)
            else:
                self._push(part)
        if self.schedule.is_random:
            self.engine.tick()
        return None
