"""What engines do to memory: copies and tensor cores that work beside the threads.

Such work is held against the others when it is issued, by what its issuer knows then; from that
moment on its bytes count as read or written by its *agent*. Who has not waited for the agent
up to that time, and touches them, does it too early.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.simulator.memory import readers
from checkers.simulator.memory.engine_words import engine_words
from checkers.simulator.memory.knowledge import Agent
from checkers.simulator.memory.lanes import line_name, thread_name
from checkers.simulator.memory.order import SCOPES
from checkers.simulator.memory.races import Target
from checkers.simulator.memory.rows import COLUMN_BITS, COLUMN_MASK
from checkers.simulator.memory.shadow import AGENT, ASYNC, BARRIER, TIME_MASK, Shadow, put
from checkers.simulator.memory.touched import Operations, Touched
from checkers.simulator.reports.faults import Access, Fault, Kind

if TYPE_CHECKING:
    from checkers.simulator.memory.spaces import Memory
    from checkers.simulator.ptx.program import Instruction


@dataclass
class Ticket:
    """A piece of asynchronous work. time: of the agent, (k,) for private agents."""

    agent: Agent
    time: Any
    write: bool
    done: bool = False


class Asynchronous:
    """The part of Memory that engines use."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.wave = memory.wave
        self._slots: dict[int, dict[int, int]] = {}

    def begin(
        self,
        space: str,
        block: Any,
        offsets: np.ndarray,
        write: bool,
        agent: Agent,
        site: Instruction,
        issuer: Any,
        time: Any = None,
        width: int = 1,
    ) -> Ticket:
        """See Memory.begin_async."""
        time = agent.tick() if time is None else time
        ticket = Ticket(agent, time, write)
        offsets = np.asarray(offsets, np.int64)
        if not len(offsets):
            return ticket
        many = np.broadcast_to
        each = np.asarray(time, np.uint32)
        flags = AGENT if agent.generic else AGENT | ASYNC
        stamped = many(each | flags, offsets.shape)
        who = many(np.asarray(agent.who, np.uint32), offsets.shape)
        threads = many(np.asarray(issuer, np.int64), offsets.shape)
        if space == "shared":
            blocks = many(np.asarray(block, np.int64), offsets.shape)
            position = blocks * self.memory.shared.stride + offsets
            self._shared(position, width, write, agent, who, stamped, threads, site)
            return ticket
        for region, chosen in self.memory.regions_of(offsets):
            if region is not None:
                part = (offsets[chosen] - region.base, width, write, agent)
                region.touch("write" if write else "read", part[0], width)
                self._global(region, *part, who[chosen], stamped[chosen], threads[chosen], site)
        return ticket

    # --- shared memory -------------------------------------------------------------------------

    def _shared(
        self,
        position: np.ndarray,
        width: int,
        write: bool,
        agent: Agent,
        who: np.ndarray,
        stamped: np.ndarray,
        threads: np.ndarray,
        site: Instruction,
    ) -> None:
        shared = self.memory.shared
        grains, lane = _grains(shared.shadow, position, width)
        threads, who, stamped = threads[lane], who[lane], stamped[lane]
        target = self.memory.shared_target(grains << shared.shadow.shift, shared.shadow.grain)
        number = self.memory.heap.site(site)
        self._against_writes(target, threads, agent, site, write)
        if not write:
            self._note_read(shared.reads, grains, who, stamped, number)
            return
        latest = shared.reads.latest[grains]
        if latest.any():
            every = latest[:, None]
            for found in readers.of_shared(self.memory.races, threads, target, every):
                of = found.operations(threads)
                self._too_early(
                    target, threads, found.lane, found.who, found.site, "read", agent, site, of
                )
            put(shared.reads.latest, grains, 1, 0)
        shared.shadow.wrote(grains, 1, who, stamped, number)

    def _note_read(
        self, reads: Any, grains: np.ndarray, who: np.ndarray, stamped: np.ndarray, site: int
    ) -> None:
        """Keeps that an agent reads these grains, in a table of its own."""
        actors = [int(who[0])] if (who == who[0]).all() else np.unique(who).tolist()
        for actor in actors:
            slot = self._slot(actor >> COLUMN_BITS, actor & int(COLUMN_MASK))
            mine = slice(None) if len(actors) == 1 else who == actor
            reads.read_by_agent(grains[mine], 1, who[mine], stamped[mine], slot, site)

    def _slot(self, cluster: int, column: int) -> int:
        """The table of reads for an agent of a cluster; each cluster fills them from the first."""
        slots = self._slots.setdefault(cluster, {})
        return slots.setdefault(column, len(slots))

    # --- global memory -------------------------------------------------------------------------

    def _global(
        self,
        region: Any,
        position: np.ndarray,
        width: int,
        write: bool,
        agent: Agent,
        who: np.ndarray,
        stamped: np.ndarray,
        threads: np.ndarray,
        site: Instruction,
    ) -> None:
        number = self.memory.heap.site(site)
        if not write and not region.written:
            # Nothing to be held against; noted as it is, in case somebody writes.
            grain = region.shadow.grain
            if width % grain == 0 and not (position % grain).any():
                grains = position // grain
                if width > grain:
                    grains = (grains[:, None] + np.arange(width // grain)).ravel()
                    who, stamped = (
                        np.repeat(who, width // grain),
                        np.repeat(stamped, width // grain),
                    )
            else:
                grains, lane = _grains(region.shadow, position, width)
                who, stamped = who[lane], stamped[lane]
            region.reads.read(grains, 1, who, stamped, number)
            return
        grains, lane = _grains(region.shadow, position, width)
        threads, who, stamped = threads[lane], who[lane], stamped[lane]
        target = self.memory.global_target(region, grains << region.shadow.shift, region.grain)
        if region.written:
            self._against_writes(target, threads, agent, site, write)
        if not write:
            region.reads.read(grains, 1, who, stamped, number)
            return
        if region.reads.any:
            for found in readers.of_global(self.memory.races, threads, target, region, 0):
                self._too_early(
                    target, threads, found.lane, found.who, found.site, "read", agent, site
                )
        region.written = True
        region.shadow.wrote(grains, 1, who, stamped, number)

    # --- checks --------------------------------------------------------------------------------

    def _against_writes(
        self, target: Target, threads: np.ndarray, agent: Agent, site: Instruction, write: bool
    ) -> None:
        """Holds (k,) grains that an agent will touch against their last writes."""
        shadow = target.shadow
        times, who = shadow.time[target.index], shadow.who[target.index]
        # Neighbouring grains were mostly written together: one of each stretch is asked about.
        new = np.ones(len(times), bool)
        new[1:] = (times[1:] != times[:-1]) | (who[1:] != who[:-1]) | (threads[1:] != threads[:-1])
        first = np.flatnonzero(new)
        times, who, threads = times[first], who[first], threads[first]
        never = times == 0
        if target.space == "shared" and never.any() and not write:
            i = int(np.flatnonzero(never)[0])
            self._report(
                Kind.UNINITIALISED,
                f"{_engine(agent, site)} reads {target.name(int(first[i]))}, which nobody has written yet",
                int(threads[i]),
                site,
            )
        if self.wave.suspects is not None and target.space == "shared" and not write:
            self.wave.suspects.engine_read(target.index, site, f"{_engine(agent, site)} reads it")
        barrier = times == BARRIER
        if barrier.any():
            there = self.memory.shared.barriers[int(who[barrier][0])]
            self._report(
                Kind.MBARRIER,
                f"{_engine(agent, site)} {'writes over' if write else 'reads'} the bytes of {there.name} "
                "while it is in use",
                int(threads[barrier][0]),
                site,
                Access(there.thread, there.site, "mbarrier.init"),
            )
        flagged = (times & AGENT) != 0
        plain = np.where(flagged, times & TIME_MASK, times)
        clocks = self.wave.clocks
        unseen = ~clocks.sees(threads, who, plain) & ~never & ~barrier
        if write and unseen.any():
            # Two reductions of one place are atomic, whoever does them.
            heap = self.memory.heap
            mine = heap.strength[heap.site(site)]
            theirs = np.array(heap.strength)[shadow.site[target.index[first]]]
            unseen &= (
                np.minimum(mine, theirs) < SCOPES["gpu" if target.space == "global" else "cluster"]
            )
        if unseen.any():
            i = int(np.flatnonzero(unseen)[0])
            where = int(shadow.site[target.index[first[i]]])
            self._too_early(
                target,
                threads[i : i + 1],
                0,
                int(who[i]),
                where,
                "wrote",
                agent,
                site,
                (threads[unseen], who[unseen], plain[unseen]),
                write,
                int(first[i]),
            )
        if agent.generic:
            return
        open_ = self.memory.races.not_fenced(threads, who, times) & ~unseen
        if write and open_.any():
            # The manual names no proxy for the word that tcgen05.alloc stores, and Triton lets TMA
            # write over it with no fence once all have read it.
            sites = self.memory.heap.sites
            allocs = [n for n, site in enumerate(sites) if site and site.opcode == "tcgen05"]
            open_ &= ~np.isin(shadow.site[target.index[first]], allocs)
        if open_.any():
            i = int(np.flatnonzero(open_)[0])
            where = self.memory.heap.sites[int(shadow.site[target.index[first[i]]])]
            by, kind = clocks.describe(int(who[i]))
            name = thread_name(self.wave, by, int(threads[i])) if by is not None else "a thread"
            writer = (
                f"{engine_words(kind, where)[0]} of {name}"
                if kind not in ("", "elsewhere")
                else name
            )
            place = target.name(int(first[i]))
            self._report(
                Kind.PROXY_FENCE,
                f"{_engine(agent, site)} {'overwrites' if write else 'reads'} {place}, which {writer} wrote "
                f"({line_name(where)}); no fence.proxy.async lies between",
                int(threads[i]),
                site,
                Access(by, where, f"wrote {place}"),
            )

    def _too_early(
        self,
        target: Target,
        threads: np.ndarray,
        lane: int,
        who: int,
        site_number: int,
        did: str,
        agent: Agent,
        site: Instruction,
        operations: Operations | None = None,
        write: bool = True,
        at: int | None = None,
    ) -> None:
        """An agent touches what ``who`` ``did`` without its issuer knowing. operations: what all
        issuers at fault touch, for the case that it is an engine's."""
        other, kind = self.wave.clocks.describe(who)
        where = self.memory.heap.sites[site_number]
        issuer = int(threads[lane])
        place = target.name(lane if at is None else at)
        verb = "overwrites" if write else "reads"
        cause: Fault | None = None
        touched = self.wave.state(Touched)
        if kind and kind != "elsewhere":
            whom, missing = engine_words(kind, where)
            fault = Kind.OVERWRITTEN_IN_FLIGHT if did == "read" else Kind.READ_BEFORE_WAIT
            if did == "wrote" and write:
                fault = Kind.RACE
            did = "reads" if did == "read" else "writes"
            cause = touched.cause(operations) if operations is not None else None
        else:
            whom = "a thread of an earlier block"
            if other is not None:
                whom = thread_name(self.wave, other, issuer)
            missing = (
                f"no synchronisation with {thread_name(self.wave, issuer)}, which started it, lies "
                "between"
            )
            fault = Kind.RACE
            if other is not None and agent.kind == "mbarrier":
                self._blame_parity(agent, other)
            operations = None
        told = self._report(
            fault,
            f"{_engine(agent, site)} {verb} {place}, which {whom} {did} ({line_name(where)}); {missing}",
            issuer,
            site,
            Access(other, where, f"{did} {place}"),
            cause,
        )
        if operations is not None:
            touched.note(operations, told)
            if kind == agent.kind == "mbarrier" and who == agent.who:
                self._blame_barrier(agent, told)

    def _blame_barrier(self, agent: Agent, fault: Fault) -> None:
        """Its copies overtake each other: so do its phases."""
        from checkers.simulator.waiting.mbarrier_lookup import Mbarriers

        barrier = self.wave.state(Mbarriers).find(*agent.key[1:3])
        if barrier is not None:
            barrier.blame(fault)

    def _blame_parity(self, agent: Agent, thread: int) -> None:
        """A thread used the buffer too early: was its last wait for it satisfied by an old phase?"""
        from checkers.simulator.waiting.mbarrier_lookup import Mbarriers

        self.wave.state(Mbarriers).blame_parity(agent.key, thread)

    def _report(
        self,
        kind: Kind,
        message: str,
        thread: int,
        site: Instruction,
        other: Access | None = None,
        follows: Fault | None = None,
    ) -> Fault:
        message = message[0].upper() + message[1:]
        return self.wave.faults.report(
            kind, message, thread=thread, site=site, other=other, follows=follows
        )


def _engine(agent: Agent, site: Instruction) -> str:
    return engine_words(agent.kind, site)[0]


def _grains(shadow: Shadow, position: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """(grains, lane): the grains of accesses of ``width`` bytes, without immediate repetitions, and
    which access each belongs to."""
    first = position >> shadow.shift
    count = ((position + width - 1) >> shadow.shift) - first + 1
    most = int(count.max())
    lane = np.arange(len(position))
    if most > 1:
        lane = np.repeat(lane, count)
        starts = np.repeat(np.cumsum(count) - count, count)
        grains = first[lane] + np.arange(len(lane)) - starts
    else:
        grains = first
    new = np.ones(len(grains), bool)
    new[1:] = grains[1:] != grains[:-1]
    if new.all():
        return grains, lane
    return grains[new], lane[new]
