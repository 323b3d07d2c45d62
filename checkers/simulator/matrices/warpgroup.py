"""What wgmma leaves open: multiplications in flight, and the registers that they use.

PTX ISA 9.7.15.7. Registers are ordered only by wgmma.fence before the multiplication and by
wgmma.wait_group after it. Every ordinary access to a register that some wgmma of the kernel uses
comes by here first: it is too early while the multiplication isn't waited for, and it makes a new
fence necessary.

Reads of shared memory and the arithmetic are done as late as the rules allow, at the wait, unless
the run's schedule says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.simulator.copies.engine import Call
from checkers.simulator.machine.group import LANES, Group
from checkers.simulator.matrices.accumulators import Accumulator, Warpgroups
from checkers.simulator.matrices.matrix_layouts import Fragment
from checkers.simulator.reports.faults import Access, Kind, Severity

if TYPE_CHECKING:
    from checkers.simulator.machine.wave import Wave
    from checkers.simulator.ptx.program import Instruction


@dataclass(eq=False)
class Multiplication:
    """One wgmma.mma_async of some warpgroups, in flight.

    serial: number in the wave, from 1.  groups: (k,) warpgroups.  run: does the arithmetic for
    some of them (positions in ``groups``).  ticket: the memory's for what they read, or None.
    times: per warpgroup, of its engine.  left: (k,) bool, not computed yet.
    """

    site: Instruction
    serial: int
    groups: np.ndarray
    run: Any
    ticket: Any
    times: list[int]
    left: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.left = np.ones(len(self.groups), bool)


class WgmmaState:
    """All of a wave's wgmma: ``wave.state(WgmmaState)``.

    By register slot and warp: touched, the fence count at the last ordinary access; written and
    read, the serial of the last multiplication with it as accumulator or as operand A; shape and
    fenced, the shape and the fence count of the former.
    By warp: fences done; issued, committed, finished: serials up to which it issued, committed and
    waited.
    """

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        self.groups = Warpgroups(wave)
        size = (len(wave.kernel.slot_bits), wave.warps)
        self.touched = np.zeros(size, np.int32)
        self.written = np.zeros(size, np.int32)
        self.read = np.zeros(size, np.int32)
        self.shape = np.zeros(size, np.int32)
        self.fenced = np.zeros(size, np.int32)
        self.fences = np.zeros(wave.warps, np.int32)
        self.issued = np.zeros(wave.warps, np.int32)
        self.committed = np.zeros(wave.warps, np.int32)
        self.finished = np.zeros(wave.warps, np.int32)
        self.waited_when = np.full(wave.warps, -1, np.int32)  # serial issued at the last wait
        self.waited_for = np.zeros(wave.warps, np.int32)  # operand of the last wait
        self.commits: list[list[int]] = [[] for _ in range(wave.warps)]
        self.pending: list[Multiplication] = []
        self.serials: dict[int, Multiplication] = {}
        self.quiet = True  # nothing is in flight
        self._serial = 0
        self._accumulators: dict[tuple[int, ...], Accumulator] = {}
        self._holders: dict[int, list[Accumulator]] = {}
        self._agents: dict[int, Any] = {}
        self._announced: dict[int, tuple[int, set[Any], int]] = {}
        wave.exit_checks.append(self._at_exit)

    # --- registers -----------------------------------------------------------------------------

    def agent(self, one: int) -> Any:
        """The engine, in the clocks' terms, that works for a warpgroup."""
        found = self._agents.get(one)
        if found is None:
            cluster = int(self.groups.block[one]) // self.wave.cluster_size
            first = int(self.groups.warps[one, 0])
            found = self._agents[one] = self.wave.clocks.agent(cluster, ("wgmma", first))
        return found

    def announced(self, one: int) -> tuple[int, set[Any]]:
        """The engine's time of a warpgroup's present, uncommitted wgmma-group, and the tiles that
        were announced to the memory for it."""
        first = int(self.groups.warps[one, 0])
        found = self._announced.get(one)
        if found is None or self.committed[first] >= found[2]:
            found = (self.agent(one).tick(), set(), self._serial + 1)
            self._announced[one] = found
        return found[:2]

    def accumulator(self, slots: tuple[int, ...], fragment: Fragment) -> Accumulator:
        """The accumulator in these registers."""
        found = self._accumulators.get(slots)
        if found is None:
            found = Accumulator(self.wave, self.groups, slots, fragment)
            for other in self._accumulators.values():
                if not set(slots).isdisjoint(other.slots):
                    found.rivals.append(other)
                    other.rivals.append(found)
            self._accumulators[slots] = found
            for slot in slots:
                self._holders.setdefault(slot, []).append(found)
        return found

    def touch(
        self, group: Group, touches: Sequence[tuple[int, bool]], constant: bool = False
    ) -> None:
        """An ordinary instruction is about to read or write registers.

        constant: it sets them to a constant. Compilers put that behind a fence that stands behind
        it in the source, so it is no touch when no wgmma has used the register since the fence.
        """
        rows = group.rows
        for slot, writes in touches:
            if not self.quiet:
                self._too_early(group, slot, writes)
            fences = self.fences[rows]
            sunk = constant & (fences > 0) & (self.fenced[slot, rows] < fences)
            self.touched[slot, rows] = np.where(sunk, self.touched[slot, rows], fences)
            self.give_back(slot, group.warps)

    def give_back(self, slot: int, warps: np.ndarray) -> None:
        """Brings a register up to date, where it is part of accumulators kept as matrices."""
        for accumulator in self._holders.get(slot, ()):
            if accumulator.any_held:
                accumulator.give_back(self.groups.of_warp[warps])

    def _too_early(self, group: Group, slot: int, writes: bool) -> None:
        finished = self.finished[group.rows]
        for uses, what in ((self.written, "accumulator"), (self.read, "operand A")):
            late = uses[slot, group.rows] > finished
            if late.any():
                self._blame(group, int(np.argmax(late)), uses[slot, group.rows], what, writes)
                return

    def _blame(self, group: Group, at: int, serials: np.ndarray, what: str, writes: bool) -> None:
        """Reports an access to a register of a multiplication that is not waited for."""
        warp, serial = int(group.warps[at]), int(serials[at])
        multiplication = self.serials[serial]
        action = "overwritten" if writes else "read"
        holder = "The accumulator" if what == "accumulator" else "A register of operand A"
        waited = self.waited_when[warp] >= serial
        if serial > self.committed[warp]:
            why = "its wgmma was never committed"
            if waited:
                why += ": wgmma.wait_group waits only for what wgmma.commit_group closed before"
        elif waited:
            n = int(self.waited_for[warp])
            why = (
                f"the wait covers it: wgmma.wait_group {n} lets the newest "
                f"{'group' if n == 1 else f'{n} groups'} go on, and this wgmma is in one of them"
            )
        else:
            why = "wgmma.wait_group says that its wgmma is complete"
        joint = ", but" if serial > self.committed[warp] else " before"
        harmless = what == "operand A" and not writes
        self.wave.faults.report(
            Kind.ACCUMULATOR,
            f"{holder} of wgmma is {action}{joint} {why}.",
            group=group.only_warps(np.array([at])),
            other=Access(warp * LANES, multiplication.site, "wgmma.mma_async in flight"),
            severity=Severity.NOTE if harmless else Severity.ERROR,
        )

    def check_fence(
        self, group: Group, accumulator: tuple[int, ...], operand: tuple[int, ...], shape: int
    ) -> None:
        """Reports registers that were touched since the last wgmma.fence. An accumulator that
        another wgmma of the same shape wrote needs none."""
        rows = group.rows
        fences, slots = self.fences[rows], list(accumulator + operand)
        missing = (self.touched[slots][:, rows] >= fences).any(axis=0)
        if missing.any():
            at = int(np.argmax(missing))
            if fences[at] == 0:
                why = "before the first wgmma.mma_async"
            else:
                why = (
                    "between the last access to its registers by other instructions and this "
                    "wgmma.mma_async"
                )
            self._no_fence(group, missing, f"wgmma.fence is missing {why}.")
            return
        if self.quiet:
            return
        own = list(accumulator)
        other = (
            (self.written[own][:, rows] > self.finished[rows])
            & (self.shape[own][:, rows] != shape)
            & (self.fenced[own][:, rows] == fences)
        )
        if other.any():
            self._no_fence(
                group,
                other.any(axis=0),
                "wgmma.fence is missing between two wgmma of different shapes that use one "
                "accumulator.",
            )
        late = (self.written[list(operand)][:, rows] > self.finished[rows]).any(axis=0)
        if late.any():
            at = int(np.argmax(late))
            slot = next(s for s in operand if self.written[s, rows][at] > self.finished[rows][at])
            self._blame(group, at, self.written[slot, rows], "accumulator", False)

    def _no_fence(self, group: Group, missing: np.ndarray, message: str) -> None:
        self.wave.faults.report(Kind.WGMMA_FENCE, message, group=group.only_warps(missing))

    # --- multiplications -----------------------------------------------------------------------

    def issue(
        self,
        group: Group,
        accumulator: tuple[int, ...],
        operand: tuple[int, ...],
        shape: int,
        run: Any,
        ticket: Any,
        times: list[int],
    ) -> None:
        """A multiplication of the warpgroups of ``group`` starts."""
        self._serial += 1
        groups = self.groups.of_warp[group.warps[::4]]
        one = Multiplication(group.site, self._serial, groups, run, ticket, times)
        cells = np.ix_(accumulator, group.warps)
        self.written[cells] = self._serial
        self.shape[cells] = shape
        self.fenced[cells] = self.fences[group.warps]
        if operand:
            self.read[np.ix_(operand, group.warps)] = self._serial
        self.issued[group.rows] = self._serial
        self.pending.append(one)
        self.serials[one.serial] = one
        if self.wave.log.enabled:
            for position, which in enumerate(groups.tolist()):
                part = group.only_warps(np.arange(4) + 4 * position)
                key = ("wgmma", one.serial, which)
                self.wave.log.start(part, key, "tensor", "wgmma", flops=run.shape.flops)
        self.quiet = False
        if self.wave.schedule.kind == "earliest":
            self._compute(one, one.left.copy())
        elif self.wave.schedule.kind == "random":
            cluster = int(self.groups.block[groups[0]]) // self.wave.cluster_size
            self.wave.engine.issue(
                Call(cluster, group.site, lambda: self._compute(one, one.left.copy()), "wgmma")
            )

    def fence(self, group: Group) -> None:
        self.fences[group.rows] += 1

    def commit(self, group: Group) -> None:
        for warp in group.warps.tolist():
            self.commits[warp].append(int(self.issued[warp]))
        self.committed[group.rows] = self.issued[group.rows]

    def wait(self, group: Group, leave: int) -> None:
        """Waits until at most ``leave`` groups of each warp are in flight."""
        for warp in group.warps.tolist():
            commits = self.commits[warp]
            if len(commits) > leave:
                self.finished[warp] = commits[-leave - 1]
                del commits[: len(commits) - leave]
        self.waited_when[group.rows] = self.issued[group.rows]
        self.waited_for[group.rows] = leave
        finished = self.finished[self.groups.warps].max(axis=1)
        for one in list(self.pending):
            done = one.left & (finished[one.groups] >= one.serial)
            if done.any():
                self._compute(one, done)
        self._learn(group)
        if self.wave.log.enabled:
            self._log_wait(group)
        self.pending = [one for one in self.pending if self._open(one)]
        self.quiet = bool((self.finished >= self.issued).all())
        if self.quiet:
            self.serials.clear()

    def _log_wait(self, group: Group) -> None:
        """Each warpgroup's part of ``group`` has waited for what is finished now."""
        of_warp = self.groups.of_warp[group.warps]
        for which in np.unique(of_warp).tolist():
            part = group.only_warps(of_warp == which)
            last = int(self.finished[part.warps].max())
            keys = [
                ("wgmma", one.serial, which)
                for one in self.pending
                if one.serial <= last and which in one.groups
            ]
            for key in keys:
                self.wave.log.finish(key)
            self.wave.log.waited(part, "wgmma", *keys)

    def _open(self, one: Multiplication) -> bool:
        """Whether some warp of its warpgroups still has to wait for it."""
        return bool((self.finished[self.groups.warps[one.groups]] < one.serial).any())

    def _learn(self, group: Group) -> None:
        """The warps that waited know that the engine has read its operands."""
        of_warp = self.groups.of_warp[group.warps]
        for which in np.unique(of_warp).tolist():
            warps = group.warps[of_warp == which]
            for finished in np.unique(self.finished[warps]).tolist():
                times = [
                    one.times[int(np.flatnonzero(one.groups == which)[0])]
                    for one in self.pending
                    if one.serial <= finished and which in one.groups
                ]
                if times:
                    chosen = warps[self.finished[warps] == finished]
                    threads = (chosen[:, None] * LANES + np.arange(LANES)).ravel()
                    self.wave.clocks.learn(threads, self.agent(which), max(times))

    def _compute(self, one: Multiplication, which: np.ndarray) -> None:
        """Does a multiplication for some of its warpgroups."""
        at = np.flatnonzero(which & one.left)
        if not len(at):
            return
        one.left[at] = False
        one.run(at)
        if one.ticket is not None and not one.left.any():
            self.wave.memory.end_async(one.ticket)

    def _at_exit(self, block: int) -> None:
        """Reports what a block that ends leaves in flight."""
        warps = np.arange(self.wave.warps_per_block) + block * self.wave.warps_per_block
        left = warps[self.issued[warps] > self.finished[warps]]
        if not len(left):
            return
        warp = int(left[0])
        site = self.serials[int(self.issued[warp])].site
        never = "committed" if self.issued[warp] > self.committed[warp] else "waited for"
        self.wave.faults.report(
            Kind.EXIT_IN_FLIGHT,
            f"The block ends while its wgmma is in flight: it was never {never}.",
            thread=warp * LANES,
            site=site,
        )
