"""mbarrier: PTX ISA 9.7.13.15, all operations but cp.async.mbarrier.arrive (cp_async.py)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from checkers.simulator.building import Builder, translates
from checkers.simulator.clusters import Clusters
from checkers.simulator.faults import Access, Kind
from checkers.simulator.group import Group
from checkers.simulator.kernel import Step
from checkers.simulator.mbarriers import BYTES, LIMIT, Mbarrier, Mbarriers
from checkers.simulator.modifiers import Modifiers, Unsupported
from checkers.simulator.program import Address, Immediate, Instruction, Operand, Sink
from checkers.simulator.shared_places import only, places, report_invalid

SPACES = ("shared", "shared::cta", "shared::cluster")
SCOPES = ("cta", "cluster", "gpu", "sys")
PENDING_BITS = 20  # of the opaque state; the phase stands above


@translates("mbarrier", section="9.7.13.15")
def mbarrier(instruction: Instruction, build: Builder) -> Step:
    modifiers = build.modifiers(instruction)
    operation = modifiers.take()
    translator = _OPERATIONS.get(operation or "")
    if translator is None:
        raise Unsupported(instruction, f"mbarrier has no operation .{operation}")
    return translator(instruction, build, modifiers)


# --- finding the barrier ---------------------------------------------------------------------------


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
    distinct = [int(key[0])] if (key == key[0]).all() else np.unique(key).tolist()
    for one in distinct:
        if one < 0:
            continue
        part = only(group, key == one)
        assert part is not None
        block, offset = one >> 24, one & 0xFFFFFF
        chosen = key == one
        if where.remote[chosen].any():
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
    part.wave.faults.report(Kind.MBARRIER, f"{what} on an mbarrier {why}", group=part, other=other)


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
    part.wave.faults.report(
        Kind.MBARRIER,
        f"{what} on {barrier.name}, whose initialisation is not visible to this thread: "
        f"{needed} must stand between",
        group=blind,
        other=Access(barrier.thread, barrier.site, "mbarrier.init"),
    )


# --- init, inval -----------------------------------------------------------------------------------


def _init(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    space = modifiers.one_of("shared", "shared::cta", default="")
    modifiers.one_of("b64")
    modifiers.done()
    address = build.address(instruction.operands[0])
    count = build.source(instruction.operands[1], "u32")

    def step(group: Group) -> None:
        state = group.wave.state(Mbarriers)
        where = places(group, address(group), space == "")
        counts = group.lanes(count(group))
        bad = ~where.valid | where.remote | (where.offsets % BYTES != 0)
        if bad.any():
            group.wave.faults.report(
                Kind.MBARRIER,
                "mbarrier.init needs 8 bytes of the block's own shared memory, at a multiple of 8",
                group=only(group, bad),
            )
        for i in np.flatnonzero(~bad).tolist():
            state.init(
                int(where.blocks[i]),
                int(where.offsets[i]),
                int(counts[i]),
                int(where.threads[i]),
                group,
            )

    return step


def _inval(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    space = modifiers.one_of("shared", "shared::cta", default="")
    modifiers.one_of("b64")
    modifiers.done()
    address = build.address(instruction.operands[0])

    def step(group: Group) -> None:
        state = group.wave.state(Mbarriers)
        for barrier, part in each_barrier(group, address(group), space, "mbarrier.inval", False):
            state.inval(barrier, int(part.threads()[0]), part)

    return step


# --- arrive, expect_tx, complete_tx ------------------------------------------------------------------


def _sem_scope(modifiers: Modifiers, sems: tuple[str, ...], default: str) -> str:
    """Takes .sem and .scope, in any place; the .sem. The scope only has to be one: a barrier of
    another block is named by its address, and ordering with it is taken as meant."""
    sem = modifiers.one_of(*sems, default=default)
    modifiers.one_of(*SCOPES, default="cta")
    return sem


def _tx(instruction: Instruction, build: Builder, modifiers: Modifiers, sign: int) -> Step:
    _sem_scope(modifiers, ("relaxed",), "relaxed")
    space = modifiers.one_of(*SPACES, default="")
    modifiers.one_of("b64")
    modifiers.done()
    address = build.address(instruction.operands[0])
    amount = build.source(instruction.operands[1], "u32")
    what = "mbarrier.expect_tx" if sign > 0 else "mbarrier.complete_tx"

    def step(group: Group) -> None:
        amounts = amount(group)
        for barrier, part in each_barrier(group, address(group), space, what):
            total = int(_for(part, group, amounts).sum())
            change = barrier.expect if sign > 0 else barrier.complete_tx
            change(total, int(part.threads()[0]), part.site)

    return step


def _for(part: Group, group: Group, values: np.ndarray) -> np.ndarray:
    """(k,) the part's lanes of an operand that was read for the whole group, as int64."""
    values = np.asarray(values)
    if values.ndim < 2:
        return np.full(len(part.threads()), int(values), np.int64)
    if part is not group:
        values = values[np.searchsorted(group.warps, part.warps)]
    return part.lanes(values).astype(np.int64)


def _arrive(
    instruction: Instruction, build: Builder, modifiers: Modifiers, drop: bool = False
) -> Step:
    expects = modifiers.flag("expect_tx")
    may_complete = not modifiers.flag("noComplete")
    releases = _sem_scope(modifiers, ("release", "relaxed"), "release") == "release"
    space = modifiers.one_of(*SPACES, default="")
    modifiers.one_of("b64")
    modifiers.done()
    operands = list(instruction.operands)
    result: Operand = Sink()
    if not isinstance(operands[0], Address):
        result = operands.pop(0)
    address = build.address(operands[0])
    number = build.source(operands[1] if len(operands) > 1 else _ONE, "u32")
    write = build.destination(result, "b64")
    wants_state = not isinstance(result, Sink)
    what = instruction.name.split(".shared")[0].removesuffix(".b64")

    def step(group: Group) -> None:
        wave = group.wave
        numbers = number(group)
        addresses = address(group)
        states = np.zeros((group.n, 32), np.uint64) if wants_state else None
        for barrier, part in each_barrier(group, addresses, space, what):
            threads = part.threads()
            first = int(threads[0])
            values = _for(part, group, numbers)
            knowledge = wave.clocks.release(threads) if releases else None
            counts = np.ones(len(threads), np.int64) if expects else values
            if states is not None:
                before = barrier.pending - (np.cumsum(counts) - counts)
                rows = np.searchsorted(group.warps, part.warps)
                token = (barrier.phase << PENDING_BITS) | np.maximum(before, 0)
                states[rows] = part.spread(token.astype(np.uint64))
            if expects:
                barrier.expect(int(values.sum()), first, part.site)
            elif (values < 1).any() or (values > LIMIT).any():
                wave.faults.report(
                    Kind.MBARRIER,
                    f"{what} with a count of {int(values.min())}: it is at least 1",
                    group=part,
                )
            wave.log.signal(part, barrier.key)
            _arrive_in_order(barrier, part, counts, knowledge, drop, may_complete)
        if states is not None:
            write(group, states)

    return step


def _arrive_in_order(
    barrier: Mbarrier,
    part: Group,
    counts: np.ndarray,
    knowledge: object,
    drop: bool,
    may_complete: bool,
) -> None:
    """Arrives for all lanes: at once when they fit into the phase, else warp by warp."""
    threads, site = part.threads(), part.site
    total = int(counts.sum())
    if total <= barrier.pending or part.n == 1:
        barrier.arrive(
            total,
            int(threads[0]),
            site,
            knowledge,
            drop,
            may_complete,
            several=len(threads) > 1,
        )
        return
    warps = threads // 32
    for warp in part.warps.tolist():
        lanes = warps == warp
        barrier.arrive(
            int(counts[lanes].sum()),
            int(threads[lanes][0]),
            site,
            knowledge,
            drop,
            may_complete,
            several=int(lanes.sum()) > 1,
        )


_ONE = Immediate("int", 1, 1)


# --- waits -----------------------------------------------------------------------------------------


def _wait(instruction: Instruction, build: Builder, modifiers: Modifiers, blocks: bool) -> Step:
    by_parity = modifiers.flag("parity")
    acquires = _sem_scope(modifiers, ("acquire", "relaxed"), "acquire") == "acquire"
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
        for barrier, part in each_barrier(group, address(group), space, what, remote=False):
            values = _for(part, group, phases)
            asked = _asked_by_parity(barrier, part, values) if by_parity else None
            if asked is None:
                asked = _asked_by_state(barrier, part, values)
            ready = asked < barrier.phase
            rows = np.searchsorted(group.warps, part.warps)
            if ready.all():
                _over(barrier, part, asked, acquires)
                continue
            if ready.any():
                some = only(part, ready)
                assert some is not None
                _over(barrier, some, asked[ready], acquires)
            done[rows] &= part.spread(ready, True)
            if blocks and not timed_out:
                parked[rows] |= part.spread(~ready, False)
                late = only(part, ~ready)
                assert late is not None
                waiting.append((barrier, int(asked[~ready][0]), late))
        if not waiting:
            write(group, done)
            if not done.all() and not blocks:
                wave.polled(group)
            return None
        going = group.narrowed(~parked)
        for barrier, asked_phase, late in waiting:
            wait = barrier.wait_for(asked_phase)
            wait.first_time = bool((barrier.last_seen(late.threads()) < 0).all())
            wave.counters.add("mbarrier_parks", late.n, late.site)
            wave.park(late, wait, retry=True)
        if going is None:
            return []
        write(going, done[np.searchsorted(group.warps, going.warps)])
        return [going]

    return step


def _over(barrier: Mbarrier, part: Group, asked: np.ndarray, acquires: bool) -> None:
    """The lanes' wait is over: they learn what the phase published."""
    wave, threads = part.wave, part.threads()
    if acquires and barrier.published is not None:
        wave.clocks.acquire(threads, barrier.published)
    barrier.saw(threads, asked)
    wave.counters.add("mbarrier_waits", part.n, part.site)
    if wave.log.enabled:
        wave.log.waited(part, barrier.name, barrier.key_of(int(asked.max())))


def _asked_by_parity(barrier: Mbarrier, part: Group, parity: np.ndarray) -> np.ndarray:
    """(k,) the phase that each lane asks about: the current one or the one before."""
    if ((parity != 0) & (parity != 1)).any():
        part.wave.faults.report(
            Kind.PHASE,
            f"a wait on {barrier.name} asks for parity {int(parity.max())}: it is 0 or 1",
            group=part,
        )
        parity = parity & 1
    current = barrier.phase
    asked = np.where(parity == (current & 1), current, current - 1)
    seen = barrier.last_seen(part.threads())
    _check_repeated(barrier, part, asked, seen)
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
    text = f"waits on {barrier.name} for parity {parity} again, which "
    if phase == 0:
        text += "is true before phase 0 is complete: this wait was to be for parity 0"
    elif barrier.copies:
        text += (
            f"phase {phase - 1} satisfied the last time, while a copy of phase {phase} is still in "
            f"flight: this wait was to be for parity {phase & 1}"
        )
    else:
        return
    part.wave.faults.report(
        Kind.PHASE,
        text,
        group=only(part, again),
        other=Access(barrier.thread, barrier.site, "mbarrier.init"),
    )


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
    part.wave.faults.report(
        Kind.PHASE,
        f"waits on {barrier.name} for phase {first} (parity {first & 1}), but the barrier is in "
        f"phase {barrier.phase} already: it went on without this thread, and a parity can't tell "
        f"phases {first} and {first + 2} apart",
        group=only(part, late),
        other=Access(barrier.thread, barrier.site, "mbarrier.init"),
    )


def _asked_by_state(barrier: Mbarrier, part: Group, states: np.ndarray) -> np.ndarray:
    """(k,) the phase in the states that an arrive returned."""
    asked = states >> PENDING_BITS
    wrong = (asked < barrier.phase - 1) | (asked > barrier.phase)
    if wrong.any():
        part.wave.faults.report(
            Kind.PHASE,
            f"waits on {barrier.name} with the state of phase {int(asked[wrong][0])}, but the "
            f"barrier is in phase {barrier.phase}: only the current phase and the one before may "
            "be asked about",
            group=only(part, wrong),
            other=Access(barrier.thread, barrier.site, "mbarrier.init"),
        )
    return np.minimum(asked, barrier.phase)


def _pending_count(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    modifiers.one_of("b64")
    modifiers.done()
    write = build.destination(instruction.operands[0], "u32")
    state = build.source(instruction.operands[1], "b64")
    mask = np.uint64((1 << PENDING_BITS) - 1)

    def step(group: Group) -> None:
        write(group, (state(group) & mask).astype(np.uint32))

    return step


_OPERATIONS = {
    "init": _init,
    "inval": _inval,
    "expect_tx": lambda i, b, m: _tx(i, b, m, +1),
    "complete_tx": lambda i, b, m: _tx(i, b, m, -1),
    "arrive": _arrive,
    "arrive_drop": lambda i, b, m: _arrive(i, b, m, drop=True),
    "test_wait": lambda i, b, m: _wait(i, b, m, blocks=False),
    "try_wait": lambda i, b, m: _wait(i, b, m, blocks=True),
    "pending_count": _pending_count,
}
