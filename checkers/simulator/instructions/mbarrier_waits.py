"""mbarrier.test_wait and try_wait: PTX ISA 9.7.13.15.16.

A wait names a phase by its parity, or by the state that an arrive returned. Only the current phase
and the one before may be asked about; with a parity a thread that is two behind can't tell, and one
that forgot to flip its parity is answered at once. Both are found here, since every thread's last
wait is remembered.
"""

from __future__ import annotations

import numpy as np

from checkers.simulator.copies.shared_places import only
from checkers.simulator.machine.building import Builder
from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.memory.touched import Touched
from checkers.simulator.ptx.modifiers import Modifiers
from checkers.simulator.ptx.program import Instruction
from checkers.simulator.reports.faults import Access, Kind
from checkers.simulator.waiting.mbarrier_lookup import (
    PENDING_BITS,
    each_barrier,
    lanes_of,
    sem_and_scope,
)
from checkers.simulator.waiting.mbarriers import NEVER, Mbarrier, PhaseWait


def wait(instruction: Instruction, build: Builder, modifiers: Modifiers, blocks: bool) -> Step:
    by_parity = modifiers.flag("parity")
    acquires = sem_and_scope(modifiers, ("acquire", "relaxed"), "acquire") == "acquire"
    space = modifiers.one_of("shared", "shared::cta", default="")
    modifiers.one_of("b64")
    modifiers.done()
    write = build.destination(instruction.operands[0], "pred")
    address = build.address(instruction.operands[1])
    phase = build.source(instruction.operands[2], "u32" if by_parity else "b64")
    if len(instruction.operands) > 3:
        build.source(instruction.operands[3], "u32")  # the time limit is a hint
    what = "mbarrier.try_wait" if blocks else "mbarrier.test_wait"

    def step(group: Group) -> list[Group] | None:
        wave = group.wave
        timed_out, group.timed_out = group.timed_out, False
        phases = phase(group)
        done = np.ones((group.n, 32), bool)
        parked = np.zeros((group.n, 32), bool)
        waiting: list[tuple[Mbarrier, int, Group]] = []
        missing: tuple[Mbarrier, int, Group] | None = None
        for barrier, part in each_barrier(group, address(group), space, what, remote=False):
            values = lanes_of(part, group, phases)
            asked = _asked_by_parity(barrier, part, values) if by_parity else None
            if asked is None:
                asked = _asked_by_state(barrier, part, values)
            ready = asked < barrier.phase
            if ready.all():
                _over(barrier, part, asked, acquires)
                continue
            rows = np.searchsorted(group.warps, part.warps)
            if ready.any():
                some = only(part, ready)
                assert some is not None
                _over(barrier, some, asked[ready], acquires)
            done[rows] &= part.spread(ready, True)
            missing = (barrier, int(asked[~ready][0]), part)
            if blocks and not timed_out:
                parked[rows] |= part.spread(~ready, False)
                late = only(part, ~ready)
                assert late is not None
                waiting.append((barrier, int(asked[~ready][0]), late))
        if not waiting:
            write(group, done)
            if missing is not None and not blocks:
                barrier, asked_phase, part = missing
                wait = barrier.wait_for(asked_phase)
                _note(wait, barrier, part, by_parity)
                wave.polled(group, wait)
            return None
        going = group.narrowed(~parked)
        for barrier, asked_phase, late in waiting:
            _note(barrier.wait_for(asked_phase), barrier, late, by_parity)
            wave.counters.add("mbarrier_parks", late.n, late.site)
            wave.park(late, barrier.wait_for(asked_phase), retry=True)
        if going is None:
            return []
        write(going, done[np.searchsorted(group.warps, going.warps)])
        return [going]

    return step


def _note(wait: PhaseWait, barrier: Mbarrier, late: Group, by_parity: bool) -> None:
    """Keeps what explains a wait that never ends."""
    threads = late.threads()
    seen = barrier.last_seen(threads)
    wait.first_time = bool((seen == NEVER).all())
    skipped = (seen > NEVER) & (seen == wait.phase - 2)
    if by_parity and skipped.any():
        wait.skipped = True
        wait.thread, wait.site = int(threads[skipped][0]), late.site


def _over(barrier: Mbarrier, part: Group, asked: np.ndarray, acquires: bool) -> None:
    """The lanes' wait is over: they learn what the phase published."""
    wave, threads = part.wave, part.threads()
    if acquires and barrier.published is not None:
        wave.clocks.acquire(threads, barrier.published)
    barrier.saw(threads, asked, part.site)
    wave.counters.add("mbarrier_waits", part.n, part.site)
    if wave.log.enabled:
        wave.log.waited(part, barrier.name, barrier.key_of(int(asked.max())))


def _asked_by_parity(barrier: Mbarrier, part: Group, parity: np.ndarray) -> np.ndarray:
    """(k,) the phase that each lane asks about: the current one or the one before."""
    if (parity >> 1).any():
        part.wave.faults.report(
            Kind.PHASE,
            f"A wait on {barrier.name} asks for parity {int(parity.max())}: it is 0 or 1",
            group=part,
        )
        parity = parity & 1
    current = barrier.phase
    asked = np.where(parity == (current & 1), current, current - 1)
    seen = barrier.last_seen(part.threads())
    if int(seen.max()) >= current - 1:
        _check_repeated(barrier, part, asked, seen)
    if int(seen.min()) + 2 < current:
        _check_overtaken(barrier, part, parity, seen)
    return asked


def _check_repeated(barrier: Mbarrier, part: Group, asked: np.ndarray, seen: np.ndarray) -> None:
    """Lanes that ask again about a phase that they have seen complete: was the parity flipped?

    Before the first phase that is always wrong; later, only a copy in flight shows it to be.
    """
    again = (asked == seen) & (asked < barrier.phase)
    if not again.any():
        return
    phase, parity = barrier.phase, (barrier.phase - 1) & 1
    text = f"A wait on {barrier.name} is for parity {parity} again, which "
    if phase == 0:
        text += "is true before phase 0 is complete: this wait was to be for parity 0"
    elif barrier.copies:
        text += (
            f"phase {phase - 1} satisfied the last time, while a copy of phase {phase} is still in "
            f"flight: this wait was to be for parity {phase & 1}"
        )
    else:
        return
    those = only(part, again)
    assert those is not None
    told = part.wave.faults.report(
        Kind.PHASE,
        text,
        group=those,
        other=Access(barrier.thread, barrier.site, "mbarrier.init"),
    )
    threads = those.threads()
    who, time = np.full(len(threads), barrier.agent.who), np.full(len(threads), phase + 1)
    part.wave.state(Touched).note((threads, who, time), told)


def _check_overtaken(barrier: Mbarrier, part: Group, parity: np.ndarray, seen: np.ndarray) -> None:
    """Lanes whose phase is two or more behind: a parity can't tell it from the current one."""
    behind = seen + 2 < barrier.phase
    if not behind.any():
        return
    known = np.maximum(seen + 1, barrier.phases_known_by(part.threads()))
    late = (known + 2 <= barrier.phase) & (parity == (known & 1))
    if not late.any():
        return
    first = int(known[late][0])
    told = part.wave.faults.report(
        Kind.PHASE,
        f"A wait on {barrier.name} is for phase {first} (parity {first & 1}), but the barrier is in "
        f"phase {barrier.phase} already: it went on without this thread, and a parity can't tell "
        f"phases {first} and {first + 2} apart",
        group=only(part, late),
        other=Access(barrier.thread, barrier.site, "mbarrier.init"),
        follows=barrier.blamed,
    )
    barrier.blame(told)


def _asked_by_state(barrier: Mbarrier, part: Group, states: np.ndarray) -> np.ndarray:
    """(k,) the phase in the states that an arrive returned."""
    asked = states >> PENDING_BITS
    wrong = (asked < barrier.phase - 1) | (asked > barrier.phase)
    if wrong.any():
        part.wave.faults.report(
            Kind.PHASE,
            f"A wait on {barrier.name} with the state of phase {int(asked[wrong][0])}, but the "
            f"barrier is in phase {barrier.phase}: only the current phase and the one before may "
            "be asked about",
            group=only(part, wrong),
            other=Access(barrier.thread, barrier.site, "mbarrier.init"),
        )
    return np.minimum(asked, barrier.phase)
