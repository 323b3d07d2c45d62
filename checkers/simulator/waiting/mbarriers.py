"""mbarrier objects: what the hardware keeps in 8 opaque bytes of shared memory, and more.

PTX ISA 9.7.13.15. An object counts the arrivals still pending in its current phase and the bytes
of asynchronous copies still to come (the tx-count); a phase is complete when both are zero. Here it also
knows its phases by number, not only by parity, who arrived and where, and which copies are in
flight: so that a hang or a wait for the wrong phase can be explained.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.simulator.machine.wave import Wait
from checkers.simulator.memory.touched import Touched
from checkers.simulator.reports.faults import Access, Fault, Kind
from checkers.simulator.reports.places import learners_place
from checkers.simulator.waiting import mbarrier_words as words

if TYPE_CHECKING:
    from checkers.simulator.machine.wave import Wave
    from checkers.simulator.ptx.program import Instruction

LIMIT = (1 << 20) - 1  # of the counts and, either way, of the tx-count
BYTES = 8
NEVER = -2  # last phase that a thread saw complete: none, not even the one before the first


@dataclass(frozen=True)
class Arrival:
    """What happened to a barrier in a phase. what: "arrive", "expect" or "complete"."""

    what: str
    amount: int
    thread: int | None
    site: Instruction


@dataclass(eq=False)
class PhaseWait(Wait):
    """Threads that wait for one phase of one barrier."""

    barrier: Mbarrier | None = None
    phase: int = 0
    first_time: bool = False  # none of them had waited for this barrier before
    skipped: bool = False  # one asks for this phase who had last asked for the one two before
    thread: int = 0  # one of them, and where it waits
    site: Instruction | None = None

    def reason(self) -> str:
        assert self.barrier is not None
        return words.why_not(self.barrier, self)

    def at_deadlock(self) -> Fault | None:
        """Names bytes that don't add up, or a parity not flipped, as a fault of their own."""
        assert self.barrier is not None
        fault = self.barrier.blame_bytes()
        if self.skipped and self.site is not None:
            parity = self.barrier.report(
                Kind.PHASE,
                f"A wait on {self.barrier.name} is for parity {self.phase & 1}, as it did the last time: "
                f"phase {self.phase - 1} lies between, with the other parity",
                self.thread,
                self.site,
            )
            fault = fault or parity
        return fault or self.barrier.blamed


class Mbarrier:
    """One barrier object.

    block: in the wave.  offset: in its shared memory.  expected: arrivals of a phase.
    pending: arrivals that are missing in this one.  tx: bytes announced and not yet arrived (negative:
    arrived and not announced).  phase: number of the current, incomplete one.
    """

    def __init__(
        self, wave: Wave, block: int, offset: int, count: int, thread: int, site: Instruction
    ) -> None:
        self.wave = wave
        self.block, self.offset = block, offset
        self.thread, self.site = thread, site
        self.expected = self.pending = count
        self.tx = 0
        self.phase = 0
        self.history: list[Arrival] = []
        self.last_history: list[Arrival] = []
        self.arrived_ever = False
        self.last_arrival: Instruction | None = None
        self.raised: Instruction | None = None  # a cp.async.mbarrier.arrive that is not .noinc
        self.last_copy: Any = None  # the last bulk copy that signals it, and in which phase
        self.last_copy_phase = 0
        self.copies: dict[Any, int] = {}  # operations in flight: bytes that they will bring
        self.number = len(wave.memory.shared.barriers)  # tells objects at one place apart
        self.agent = wave.clocks.agent(
            block // wave.cluster_size, ("mbarrier", block, offset, self.number)
        )
        self._others: dict[Any, None] = {}  # agents whose work its phases publish as well
        self.published: Any = None  # what a wait for a complete phase learns
        self._arriving: Any = None
        self._waits: dict[int, PhaseWait] = {}
        first = block * wave.warps_per_block * 32
        self._first_thread = first
        self.seen = np.full(wave.warps_per_block * 32, NEVER, np.int64)
        self.repeated: dict[int, Instruction] = {}  # threads whose last wait saw nothing new
        self.trusted = np.zeros(wave.warps * 32, bool)  # threads known to have seen the init
        self.init_agent: Any = None
        self.init_time = 0
        self.init_stamp = int(wave.clocks.stamp[thread >> 5])  # alike: no release between two inits
        self.blamed: Fault | None = None  # a fault since which its counts or phases are not right

    # --- words -----------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The barrier in words: by its variable's name, else by its place."""
        return words.name_of(self)

    @property
    def key(self) -> tuple[str, int, int, int]:
        """Of the current phase, for the log."""
        return ("mbarrier", self.block, self.offset, self.phase)

    def key_of(self, phase: int) -> tuple[str, int, int, int]:
        return ("mbarrier", self.block, self.offset, phase)

    # --- what happens to it ----------------------------------------------------------------------

    def report(
        self,
        kind: Kind,
        message: str,
        thread: int | None,
        site: Instruction,
        follows: Fault | None = None,
    ) -> Fault:
        """A fault at this barrier, beside the place where it was initialised."""
        other = Access(self.thread, self.site, f"initialised with count {self.expected}")
        message = message[0].upper() + message[1:]
        return self.wave.faults.report(
            kind, message, thread=thread, site=site, other=other, follows=follows
        )

    def blame(self, fault: Fault) -> None:
        """Its counts or phases are wrong from now on, because of a fault."""
        self.blamed = self.blamed or fault

    def arrive(
        self,
        count: int,
        thread: int | None,
        site: Instruction,
        knowledge: Any = None,
        drop: bool = False,
        may_complete: bool = True,
        several: bool = False,
    ) -> None:
        """An arrive-on operation of ``count``, by one thread or (``several``) some of one warp.

        knowledge: what it releases.  may_complete False: .noComplete.
        """
        began = self.phase
        if drop:
            self.expected -= count
            if self.expected < 0:
                self.report(
                    Kind.MBARRIER,
                    f"An arrive_drop takes {count} from {self.name}, more than it expects",
                    thread,
                    site,
                )
                self.expected = 0
        while count:
            now = min(count, self.pending)
            if now == 0:
                self._too_many(count, thread, site)
                return
            self._join(knowledge)
            self.history.append(Arrival("arrive", now, thread, site))
            self.arrived_ever = True
            self.last_arrival = site
            self.pending -= now
            count -= now
            if self.pending == 0 and self.tx == 0 and not may_complete:
                self.report(
                    Kind.MBARRIER,
                    f"An arrive.noComplete completes phase {self.phase} of {self.name}",
                    thread,
                    site,
                )
            self._advance()
            if count and several and self.phase > began:
                told = self.report(
                    Kind.MBARRIER,
                    f"The lanes of one warp complete phase {began} of {self.name} and arrive in "
                    f"the next one as well: it takes {self.expected} arrival"
                    f"{'s' if self.expected != 1 else ''} a phase, and more lanes arrive at once",
                    thread,
                    site,
                )
                self.blame(told)
                several = False

    def expect(self, amount: int, thread: int | None, site: Instruction) -> None:
        """An expect-tx operation of ``amount`` bytes."""
        self.history.append(Arrival("expect", amount, thread, site))
        self._add_tx(amount, thread, site)
        self._advance()

    def complete_tx(
        self, amount: int, thread: int | None, site: Instruction, knowledge: Any = None
    ) -> None:
        """A complete-tx operation of ``amount`` bytes."""
        self._join(knowledge)
        self.history.append(Arrival("complete", amount, thread, site))
        self._add_tx(-amount, thread, site)
        self._advance()

    def increment(self, count: int, thread: int, site: Instruction) -> None:
        """cp.async.mbarrier.arrive without .noinc: as many arrivals more in this phase."""
        if self.pending + count > LIMIT:
            self.report(
                Kind.MBARRIER, f"{self.name} counts more than {LIMIT} arrivals", thread, site
            )
            return
        self.pending += count
        self.raised = site

    def publish(self, knowledge: Any) -> None:
        """Knowledge that the phase's completion passes on, with no arrival of its own."""
        self._join(knowledge)

    def also_publishes(self, agent: Any) -> None:
        """Another agent whose work this barrier's phases complete, with the same times."""
        self._others[agent] = None

    # --- copies ----------------------------------------------------------------------------------

    def starts(self, operation: Any, amount: int) -> int:
        """A copy that will complete ``amount`` bytes here; the time of its agent: phase + 1."""
        self.copies[operation] = amount
        self.last_copy, self.last_copy_phase = operation, self.phase
        return self.phase + 1

    def lands(self, operation: Any, thread: int | None, site: Instruction) -> None:
        """The copy is complete."""
        amount = self.copies.pop(operation, 0)
        self.complete_tx(amount, thread, site)

    # --- waiting ---------------------------------------------------------------------------------

    def wait_for(self, phase: int) -> PhaseWait:
        """The Wait of those who need ``phase``."""
        wait = self._waits.get(phase)
        if wait is None:
            wait = PhaseWait("mbarrier", True, self, phase)
            self._waits[phase] = wait
        return wait

    def last_seen(self, threads: np.ndarray) -> np.ndarray:
        """The last phase that each of these threads of its block saw complete."""
        return self.seen[threads - self._first_thread]

    def saw(self, threads: np.ndarray, phase: int | np.ndarray, site: Instruction) -> None:
        """A wait for ``phase`` by these threads is over."""
        at = threads - self._first_thread
        before = self.seen[at]
        again = before >= phase
        if self.repeated:
            for thread in threads[~again].tolist():
                self.repeated.pop(thread, None)
        if again.any():
            self.repeated.update(dict.fromkeys(threads[again].tolist(), site))
        self.seen[at] = np.maximum(before, phase)

    def was_told_of(self, phase: int) -> bool:
        """Whether anybody announced bytes in this phase, the current one or the one before; True for
        phases that are forgotten."""
        known = {self.phase: self.history, self.phase - 1: self.last_history}
        return phase not in known or any(a.what == "expect" for a in known[phase])

    def blame_silence(self, phase: int) -> None:
        """Reports that a copy of this phase was never announced."""
        copy = self.last_copy
        told = self.report(
            Kind.EXPECT_TX,
            f"A copy that signals {self.name} is under way in phase {phase}, and nobody told the "
            "barrier to expect its bytes (expect_tx): it goes on without them",
            copy.thread,
            copy.site,
        )
        self.wave.state(Touched).spoil(int(self.agent.who), phase + 1, told)

    def blame_bytes(self) -> Fault | None:
        """At a deadlock: reports EXPECT_TX when it is the bytes that are wrong."""
        if self.tx == 0:
            return None
        told = [a for a in self.history if a.what == "expect"]
        came = [a for a in self.history if a.what == "complete"]
        at = (told or came or [Arrival("", 0, self.thread, self.site)])[-1]
        if told and self.pending:
            return None
        before = self.blamed
        same_line = before is not None and learners_place(at.site) == before.place
        return self.report(
            Kind.EXPECT_TX,
            f"Phase {self.phase} of {self.name} can't complete: {words.bytes_of(self)}",
            at.thread,
            at.site,
            before if same_line else None,
        )

    def init_known_by(self, threads: np.ndarray) -> np.ndarray:
        """(k,) bool: whether they have synchronised with the thread that initialised it."""
        return self.wave.clocks.agent_times(threads, self.init_agent) >= self.init_time

    def phases_known_by(self, threads: np.ndarray) -> np.ndarray:
        """(k,) how many phases they know to be complete, from their own waits or from others."""
        return self.wave.clocks.agent_times(threads, self.agent)

    # --- inside ----------------------------------------------------------------------------------

    def _join(self, knowledge: Any) -> None:
        if knowledge is None:
            return
        self._arriving = knowledge if self._arriving is None else self._arriving.join(knowledge)

    def _add_tx(self, amount: int, thread: int | None, site: Instruction) -> None:
        self.tx += amount
        if not -LIMIT <= self.tx <= LIMIT:
            self.report(
                Kind.EXPECT_TX,
                f"The tx-count of {self.name} becomes {self.tx}, beyond the {LIMIT} bytes that it "
                "can count",
                thread,
                site,
            )
            self.tx -= amount

    def _advance(self) -> None:
        """Goes to the next phase when nothing is missing in this one."""
        if self.pending or self.tx:
            return
        if self.copies:
            self._completed_without_copies()
        knowledge = self._arriving
        nothing = self.wave.clocks.nothing(self.block // self.wave.cluster_size)
        knowledge = nothing if knowledge is None else knowledge
        for agent in (self.agent, *self._others):
            knowledge = knowledge.with_agent(agent, self.phase + 1)
        if self.published is not None:
            knowledge = knowledge.join(self.published)
        self.published = knowledge
        self._arriving = None
        self.last_history, self.history = self.history, []
        done = self.phase
        self.phase += 1
        self.pending = self.expected
        self.wave.progressed()
        wait = self._waits.pop(done, None)
        if wait is not None:
            self.wave.wake(wait)

    def _completed_without_copies(self) -> None:
        operation, amount = next(iter(self.copies.items()))
        last = self.history[-1] if self.history else None
        told = self.report(
            Kind.EXPECT_TX,
            f"Phase {self.phase} of {self.name} completes while a copy of {amount} bytes that "
            "signals it is still in flight: nobody told the phase to expect these bytes",
            last.thread if last else None,
            operation.site,
        )
        self.blame(told)

    def _too_many(self, count: int, thread: int | None, site: Instruction) -> None:
        detail = words.bytes_of(self)
        touched = self.wave.state(Touched)
        # Its copies in flight are one operation of its agent for each phase.
        time, flying = np.array([self.phase + 1]), bool(self.copies) and thread is not None
        operation = (np.array([thread]), np.array([self.agent.who]), time)
        told = self.report(
            Kind.MBARRIER,
            f"{count} more arrival{'s' if count > 1 else ''} at {self.name} than the "
            f"{self.expected} of phase {self.phase}"
            + (f", which is not over: {detail}" * bool(detail)),
            thread,
            site,
            touched.cause(operation) if flying else None,
        )
        self.blame(told)
        if flying:
            touched.note(operation, told)
