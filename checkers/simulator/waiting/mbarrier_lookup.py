"""The mbarrier that a lane addresses: found, and checked for whether it may be used there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from checkers.simulator.copies.shared_places import only, places, report_invalid, split
from checkers.simulator.machine.group import Group
from checkers.simulator.ptx.modifiers import Modifiers
from checkers.simulator.reports.faults import Access, Fault, Kind
from checkers.simulator.waiting.clusters import Clusters
from checkers.simulator.waiting.mbarriers import BYTES, LIMIT, NEVER, Mbarrier

if TYPE_CHECKING:
    from checkers.simulator.machine.wave import Wave
    from checkers.simulator.ptx.program import Instruction

SPACES = ("shared", "shared::cta", "shared::cluster")
SCOPES = ("cta", "cluster", "gpu", "sys")
PENDING_BITS = 20  # of the opaque state; the phase stands above


class Mbarriers:
    """All live mbarrier objects of a wave, by block and offset.

    dead: those that were invalidated, with the thread and instruction that did it.
    """

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        self.live: dict[tuple[int, int], Mbarrier] = {}
        self.dead: dict[tuple[int, int], tuple[int, Instruction]] = {}
        self.last_init: dict[int, int] = {}  # thread: the number of its last init in its block
        self._inits: dict[int, int] = {}  # block: how many
        # The first fault of those that use one object before its init, or the inits of one thread
        # with no release between them.
        self.unborn: dict[tuple[int, int], Fault] = {}
        self.unseen: dict[tuple[int, int, int], Fault] = {}
        wave.exit_checks.append(self._at_exit)

    def find(self, block: int, offset: int) -> Mbarrier | None:
        return self.live.get((block, offset))

    def of_block(self, block: int) -> list[Mbarrier]:
        """Those that live in the shared memory of a block."""
        return [barrier for (b, _), barrier in self.live.items() if b == block]

    def init(self, block: int, offset: int, count: int, thread: int, group: Group) -> None:
        """mbarrier.init by ``thread``, one of ``group``."""
        site = group.site
        if not 1 <= count <= LIMIT:
            self.wave.faults.report(
                Kind.MBARRIER,
                f"mbarrier.init with a count of {count}: it is 1 to {LIMIT}",
                thread=thread,
                site=site,
            )
            count = min(max(count, 1), LIMIT)
        there = self.live.get((block, offset))
        if there is not None:
            there.report(
                Kind.MBARRIER,
                f"{there.name} is initialised again while it is in use: mbarrier.inval comes first",
                thread,
                site,
            )
        clocks, cluster = self.wave.clocks, block // self.wave.cluster_size
        agent = clocks.agent(cluster, self.init_key(block))
        time = self._inits[block] = self._inits.get(block, 0) + 1
        self.last_init[thread] = time
        # Who initialises knows of it, and passes it on by whatever it releases later.
        clocks.acquire(np.array([thread]), clocks.nothing(cluster).with_agent(agent, time))
        barrier = Mbarrier(self.wave, block, offset, count, thread, site)
        barrier.init_agent, barrier.init_time = agent, time
        self.live[block, offset] = barrier
        self.dead.pop((block, offset), None)
        self.wave.memory.claim(group, block, offset, BYTES, thread, barrier)

    def inval(self, barrier: Mbarrier, thread: int, group: Group) -> None:
        """mbarrier.inval by ``thread``, one of ``group``."""
        if barrier.copies:
            barrier.report(
                Kind.MBARRIER,
                f"{barrier.name} is invalidated while a copy that signals it is in flight",
                thread,
                group.site,
            )
        place = (barrier.block, barrier.offset)
        self.live.pop(place, None)
        self.dead[place] = (thread, group.site)
        self.wave.memory.unclaim(barrier.block, barrier.offset, BYTES)

    def explain(self, key: tuple, thread: int, time: int) -> str:
        """Why ``thread`` does not know of a copy at ``time`` of the barrier whose agent is ``key``,
        though it waited for the barrier; "" when it did not."""
        barrier = self.find(*key[1:3])
        if barrier is None or int(self.wave.block_of(np.int64(thread))) != barrier.block:
            return ""
        seen, phase = int(barrier.last_seen(np.array([thread]))[0]), time - 1
        if seen == NEVER or seen >= phase:
            return ""
        if not barrier.was_told_of(phase):
            barrier.blame_silence(phase)
            return f"{barrier.name} was not told to expect its bytes, so no wait covers it"
        before = f"phase {seen}" if seen >= 0 else "the state before its first phase"
        return (
            f"the thread's last wait on {barrier.name} was satisfied by {before}, the copy is of "
            f"phase {phase}: does the parity flip?"
        )

    def blame_parity(self, key: tuple, thread: int) -> None:
        """Reports that ``thread`` waited twice for one phase of the barrier whose agent is ``key``,
        if it did: it then touched what the next phase's copy was to bring, or to fill."""
        barrier = self.find(*key[1:3])
        site = barrier.repeated.get(thread) if barrier is not None else None
        if barrier is None or site is None:
            return
        seen = int(barrier.last_seen(np.array([thread]))[0])
        barrier.report(
            Kind.PHASE,
            f"A wait on {barrier.name} is for parity {seen & 1} again, which phase {seen} had satisfied "
            f"the last time: it returned before the copy of phase {seen + 1} was even started",
            thread,
            site,
        )

    def _at_exit(self, block: int) -> None:
        """Bytes that came and that nobody ever announced."""
        for barrier in self.of_block(block):
            if barrier.tx < 0:
                barrier.blame_bytes()

    @staticmethod
    def init_key(block: int) -> tuple[str, int]:
        """The agent whose times number the inits of a block."""
        return ("mbarrier init", block)


def each_barrier(
    group: Group, addresses: np.ndarray, space: str, what: str, remote: bool = True
) -> Iterator[tuple[Mbarrier, Group]]:
    """The live barriers that the lanes of ``group`` address, each with its lanes.

    space: the state space modifier, "" for generic.  remote: barriers of other blocks are allowed.
    Reports lanes that address no barrier, one whose init is not visible, or a remote one.
    """
    where = places(group, addresses, space == "")
    if not where.valid.all():
        report_invalid(group, ~where.valid, f"an mbarrier ({what})")
    key = np.where(where.valid, where.blocks << 24 | where.offsets, -1)
    state = group.wave.state(Mbarriers)
    some_remote = bool(where.remote.any())
    for one, part in split(group, key):
        if one < 0:
            continue
        block, offset = one >> 24, one & 0xFFFFFF
        if some_remote and where.remote[key == one].any():
            if not remote or space in ("shared", "shared::cta"):
                group.wave.faults.report(
                    Kind.MBARRIER,
                    f"{what} on an mbarrier of another block: only arrive, expect_tx and complete_tx "
                    "may be remote",
                    group=part,
                )
                continue
            if not group.wave.state(Clusters).may_touch(part, block, "an mbarrier"):
                continue
        barrier = state.find(block, offset)
        if barrier is None:
            _not_live(part, state, block, offset, what)
            continue
        _check_visible(part, barrier, what)
        yield barrier, part


def _not_live(part: Group, state: Mbarriers, block: int, offset: int, what: str) -> None:
    died = state.dead.get((block, offset))
    other = None
    why = "before it was initialised"
    if died is not None:
        other = Access(died[0], died[1], "mbarrier.inval")
        why = "after it was invalidated"
    if offset % BYTES:
        why = f"at byte {offset} of shared memory, no multiple of {BYTES}"
    never = died is None and offset % BYTES == 0
    told = part.wave.faults.report(
        Kind.MBARRIER,
        f"{what} on an mbarrier {why}",
        group=part,
        other=other,
        follows=state.unborn.get((block, offset)) if never else None,
    )
    if never:
        state.unborn.setdefault((block, offset), told.root)


def _check_visible(part: Group, barrier: Mbarrier, what: str) -> None:
    """Whether the lanes know of the init: synchronised with the thread that did it."""
    threads = part.threads()
    if barrier.trusted[threads].all():
        return
    knows = barrier.init_known_by(threads)
    barrier.trusted[threads] = True  # once is enough, said or seen
    if knows.all():
        return
    blind = only(part, ~knows)
    far = bool((part.wave.block_of(threads[~knows]) != barrier.block).any())
    needed = "fence.mbarrier_init and a barrier of the cluster" if far else "a barrier of the block"
    unseen = part.wave.state(Mbarriers).unseen
    inits = barrier.block, barrier.thread, barrier.init_stamp
    told = part.wave.faults.report(
        Kind.MBARRIER,
        f"{what} on {barrier.name}, whose initialisation is not visible to this thread: "
        f"{needed} must stand between",
        group=blind,
        other=Access(barrier.thread, barrier.site, "mbarrier.init"),
        follows=unseen.get(inits),
    )
    unseen.setdefault(inits, told.root)


def sem_and_scope(modifiers: Modifiers, sems: tuple[str, ...], default: str) -> str:
    """Takes .sem and .scope, in any place; the .sem. The scope only has to be one: a barrier of
    another block is named by its address, and ordering with it is taken as meant."""
    sem = modifiers.one_of(*sems, default=default)
    modifiers.one_of(*SCOPES, default="cta")
    return sem


def lanes_of(part: Group, group: Group, values: np.ndarray) -> np.ndarray:
    """(k,) the part's lanes of an operand that was read for the whole group, as int64."""
    values = np.asarray(values)
    if values.ndim < 2:
        return np.full(len(part.threads()), int(values), np.int64)
    if part is not group:
        values = values[np.searchsorted(group.warps, part.warps)]
    return part.lanes(values).astype(np.int64)
