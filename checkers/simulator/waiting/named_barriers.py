"""The sixteen named barriers of a block. PTX ISA 9.7.13.1.

A barrier counts warps: one has arrived when all its threads that have not exited have. It is over
when as many warps as its count asks for (or all that are left, when it names no count) have come;
then it is as new. Which threads, how many and in what form is up to the first who arrive;
those who come later must agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.simulator.machine.kernel import instruction_of
from checkers.simulator.machine.wave import Wait
from checkers.simulator.memory.lanes import line_name, warps_name
from checkers.simulator.reports.faults import Access, Fault, Kind, Severity

if TYPE_CHECKING:
    from checkers.simulator.machine.group import Group
    from checkers.simulator.machine.wave import Wave
    from checkers.simulator.ptx.program import Instruction

Writer = Callable[["Group", np.ndarray], None]


@dataclass(frozen=True)
class Form:
    """How an instruction uses a barrier. kind: "sync", "arrive", "popc", "and" or "or"; the last
    three are reductions. write: the result of a reduction. aligned: all lanes of a warp together."""

    kind: str
    aligned: bool
    write: Writer | None = None

    @property
    def reduces(self) -> bool:
        return self.kind in ("popc", "and", "or")


@dataclass(eq=False)
class BarrierWait(Wait):
    """Threads that wait at one named barrier of one block."""

    barrier: NamedBarrier | None = None

    def reason(self) -> str:
        assert self.barrier is not None
        return self.barrier.why_not()

    def at_deadlock(self) -> Fault | None:
        """A warp of which only a part has come is a fault of its own."""
        assert self.barrier is not None
        return self.barrier.blame_divergence()


class NamedBarrier:
    """One barrier of one block.

    count: threads that take part, 0 for all of the block.  arrived: (warps of the block, 32) bool.
    again: warps that came once more before it was over: with a count, each coming counts.
    generation: how often it was over.
    """

    def __init__(self, wave: Wave, block: int, number: int) -> None:
        self.wave = wave
        self.block, self.number = block, number
        self.first_warp = block * wave.warps_per_block
        self.generation = 0
        self._reset()

    def _reset(self) -> None:
        self.count = 0
        self.form: Form | None = None
        self.site: Instruction | None = None
        self.thread: int | None = None
        self.arrived = np.zeros((self.wave.warps_per_block, 32), bool)
        self.again = 0
        self.sites: dict[int, Instruction] = {}  # warp of the block: where it arrived
        self.waiting: list[tuple[Group, Form]] = []
        self.wait = BarrierWait("bar", False, self)
        self.knowledge: Any = None
        self.votes = [0, 0]  # threads whose predicate was false, true

    @property
    def is_new(self) -> bool:
        return self.form is None

    @property
    def key(self) -> tuple[str, int, int, int]:
        return ("bar", self.block, self.number, self.generation)

    def live(self) -> np.ndarray:
        """(warps of the block, 32) bool: threads that have not exited."""
        return self.wave.live[self.first_warp : self.first_warp + self.wave.warps_per_block]

    def complete_warps(self) -> np.ndarray:
        """(warps of the block,) bool: those that have arrived with all that is left of them."""
        return self.arrived.any(axis=1) & ~(self.live() & ~self.arrived).any(axis=1)

    def missing(self) -> int:
        """How many warps are still to come."""
        if self.count:
            return self.count // 32 - int(self.complete_warps().sum()) - self.again
        return int((self.live() & ~self.arrived).any(axis=1).sum())

    # --- arriving --------------------------------------------------------------------------------

    def arrive(
        self, part: Group, form: Form, count: int, predicate: np.ndarray | None
    ) -> list[Group]:
        """The lanes of ``part``, all of this block, arrive. Those that go on at once.

        predicate: (n, 32) bool, for reductions.
        """
        going: list[Group] = []
        rows = part.warps - self.first_warp
        part = self._without_repeaters(part, rows, form, going)
        while part is not None:
            rows = part.warps - self.first_warp
            if self.is_new:
                self.form, self.count, self.site = form, count, part.site
                self.thread = int(part.threads()[0])
            else:
                self._check_agreement(part, form, count)
            lack = self.missing() if self.count else part.n
            now, later = part, None
            if part.n > max(lack, 1):
                first = np.arange(part.n) < lack
                now, later = part.only_warps(first), part.only_warps(~first)
            going += self._come(now, form, predicate, part)
            part = later
        return going

    def _come(
        self, now: Group, form: Form, predicate: np.ndarray | None, whole: Group
    ) -> list[Group]:
        wave, threads = self.wave, now.threads()
        rows = now.warps - self.first_warp
        self.again += int((self.arrived[rows] & now.active()).any(axis=1).sum())
        self.arrived[rows] |= now.active()
        for row in rows.tolist():
            self.sites.setdefault(row, now.site)
        if predicate is not None:
            votes = now.lanes(predicate[np.searchsorted(whole.warps, now.warps)])
            self.votes[1] += int(votes.sum())
            self.votes[0] += len(votes) - int(votes.sum())
        knowledge = wave.clocks.release(threads)
        self.knowledge = knowledge if self.knowledge is None else self.knowledge.join(knowledge)
        wave.log.signal(now, self.key)
        if form.kind != "arrive":
            self.waiting.append((now, form))
        if self.missing() <= 0:
            return self._over(None if form.kind != "arrive" else [now], last=now)
        if form.kind == "arrive":
            return [now]
        wave.park(now, self.wait, retry=False)
        return []

    def _over(self, going: list[Group] | None, last: Group | None) -> list[Group]:
        """The barrier is complete: all who wait go on. ``last``: completed it, and is not parked."""
        wave = self.wave
        waiting, wait, key = self.waiting, self.wait, self.key
        if waiting:
            threads = np.concatenate([group.threads() for group, _ in waiting])
            wave.clocks.acquire(threads, self.knowledge)
        no, yes = self.votes
        results = {"popc": yes, "and": no == 0, "or": yes > 0}
        for group, form in waiting:
            wave.log.waited(group, f"barrier {self.number}", key)
            if form.write is not None:
                form.write(group, np.array(results[form.kind]))
        self.generation += 1
        self._reset()
        wave.progressed(meeting=True)
        wave.wake(wait)
        if going is not None:
            return going
        return [last] if last is not None else []

    def someone_exited(self) -> None:
        """Threads left the block: what is left of it may have arrived already."""
        if not self.is_new and self.missing() <= 0 and self.arrived.any():
            self._note_absent()
            self._over(None, last=None)

    def _note_absent(self) -> None:
        """A barrier of the whole block that some threads ended without: a GPU lets it pass."""
        came, all_ = int(self.arrived.sum()), self.wave.threads_per_block
        if self.count or came == all_:
            return
        self.wave.faults.report(
            Kind.BARRIER,
            f"Barrier {self.number} is for all {all_} threads of the block, {came} came, and the others "
            "ended without: does it stand in a branch?",
            thread=self.thread,
            site=self.site,
            severity=Severity.NOTE,
        )

    # --- faults ----------------------------------------------------------------------------------

    def _report(
        self, message: str, group: Group | None = None, severity: Severity = Severity.ERROR
    ) -> None:
        other = None
        if self.site is not None:
            other = Access(self.thread, self.site, f"first to come to barrier {self.number}")
        self.wave.faults.report(Kind.BARRIER, message, group=group, other=other, severity=severity)

    def _without_repeaters(
        self, part: Group, rows: np.ndarray, form: Form, going: list[Group]
    ) -> Group | None:
        """``part`` without lanes that have arrived already, where that can't be; these go on.

        With a count it can be: the manual warns of it, and FlashAttention's epilogue lives by it (a
        warp arrives for its own part and then waits for all). So that is a note.
        """
        again = self.arrived[rows] & part.active()
        if not again.any():
            self._check_divergence(part, rows, form)
            return part
        those = part.narrowed(again)
        assert those is not None
        if self.count:
            self._report(
                f"A warp comes to barrier {self.number} again before the barrier is over, and "
                f"counts once more: {self._tally()}",
                those,
                Severity.NOTE,
            )
            return part
        self._report(
            f"A warp comes to barrier {self.number} again before the barrier is over: "
            f"{self._tally()}",
            those,
        )
        going.append(those)
        return part.narrowed(~again)

    def _check_divergence(self, part: Group, rows: np.ndarray, form: Form) -> None:
        """Lanes of one warp that come from different places, to a barrier that allows only one."""
        for row in rows.tolist():
            site = self.sites.get(row)
            if site is not None and site is not part.site and form.aligned:
                self._report(
                    f"Lanes of one warp come to barrier {self.number} from two places: this one "
                    f"and {line_name(site)}; all lanes of a warp must come together",
                    part,
                )
                return

    def _check_agreement(self, part: Group, form: Form, count: int) -> None:
        assert self.form is not None
        if count != self.count:
            size = self.wave.threads_per_block
            self._report(
                f"Barrier {self.number} is for {count or size} threads here, and for "
                f"{self.count or size} where the first came",
                part,
            )
        if form.reduces != self.form.reduces or (form.reduces and form.kind != self.form.kind):
            self._report(
                f"Barrier {self.number} is a {form.kind} here and a {self.form.kind} where the "
                "first came: a reduction must not be mixed with others",
                part,
            )

    def blame_divergence(self) -> Fault | None:
        """At a deadlock: reports a warp of which only a part has come, unless the others would come
        if they were not held up elsewhere."""
        left_out = self.live() & ~self.arrived
        held = self.wave.held_up("bar", "warp")[self.first_warp : self.first_warp + len(left_out)]
        parted = self.arrived.any(axis=1) & left_out.any(axis=1) & ~(left_out & held).any(axis=1)
        first: Fault | None = None
        for row in np.flatnonzero(parted).tolist():
            lane = int(np.flatnonzero(self.arrived[row])[0])
            told = self.wave.faults.report(
                Kind.BARRIER,
                f"Only {int(self.arrived[row].sum())} lanes of warp {row} come to barrier "
                f"{self.number}: the barrier waits for the {int(left_out[row].sum())} others",
                thread=(self.first_warp + row) * 32 + lane,
                site=self.sites[row],
            )
            first = first or told
        return first

    def _tally(self) -> str:
        came = (int(self.complete_warps().sum()) + self.again) * 32
        total = self.count or int(self.live().any(axis=1).sum()) * 32
        return f"{came} of {total} threads have arrived"

    def why_not(self) -> str:
        """Who has not come, and where they are."""
        wave = self.wave
        text = f"waits at barrier {self.number}: {self._tally()}"
        absent = np.flatnonzero(~self.complete_warps()).tolist()
        gone = [w for w in absent if not self.live()[w].any()]
        elsewhere: dict[str, list[int]] = {}
        for groups in wave.parked().values():
            for group in groups:
                site = instruction_of(wave.kernel, group.parked_at)
                for warp in (group.warps - self.first_warp).tolist():
                    if warp in absent and warp not in gone:
                        elsewhere.setdefault(line_name(site), []).append(warp)
        parts = [f"{warps_name(gone)} exited"] if gone else []
        parts += [f"{warps_name(sorted(set(w)))} at {at}" for at, w in elsewhere.items()]
        return "; ".join([text, *parts])


class NamedBarriers:
    """Those of a wave, made when first used."""

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        self.all: dict[tuple[int, int], NamedBarrier] = {}
        wave.exit_hooks.append(self._exited)

    def of(self, block: int, number: int) -> NamedBarrier:
        barrier = self.all.get((block, number))
        if barrier is None:
            barrier = self.all[block, number] = NamedBarrier(self.wave, block, number)
        return barrier

    def _exited(self, group: Group) -> None:
        blocks = set(group.blocks().tolist())
        for barrier in list(self.all.values()):
            if barrier.block in blocks:
                barrier.someone_exited()
