"""mbarrier: PTX ISA 9.7.13.15, all operations but cp.async.mbarrier.arrive (cp_async.py)."""

from __future__ import annotations

import numpy as np

from checkers.simulator.copies.shared_places import only, places
from checkers.simulator.instructions.mbarrier_waits import wait
from checkers.simulator.machine.building import Builder, translates
from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.ptx.modifiers import Modifiers, Unsupported
from checkers.simulator.ptx.program import Address, Immediate, Instruction, Operand, Sink
from checkers.simulator.reports.faults import Kind
from checkers.simulator.waiting.mbarrier_lookup import (
    PENDING_BITS,
    SPACES,
    Mbarriers,
    each_barrier,
    lanes_of,
    sem_and_scope,
)
from checkers.simulator.waiting.mbarriers import BYTES, LIMIT, Mbarrier


@translates("mbarrier", section="9.7.13.15")
def mbarrier(instruction: Instruction, build: Builder) -> Step:
    modifiers = build.modifiers(instruction)
    operation = modifiers.take()
    translator = _OPERATIONS.get(operation or "")
    if translator is None:
        raise Unsupported(instruction, f"mbarrier has no operation .{operation}")
    return translator(instruction, build, modifiers)


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


def _tx(instruction: Instruction, build: Builder, modifiers: Modifiers, sign: int) -> Step:
    sem_and_scope(modifiers, ("relaxed",), "relaxed")
    space = modifiers.one_of(*SPACES, default="")
    modifiers.one_of("b64")
    modifiers.done()
    address = build.address(instruction.operands[0])
    amount = build.source(instruction.operands[1], "u32")
    what = "mbarrier.expect_tx" if sign > 0 else "mbarrier.complete_tx"

    def step(group: Group) -> None:
        amounts = amount(group)
        for barrier, part in each_barrier(group, address(group), space, what):
            total = int(lanes_of(part, group, amounts).sum())
            change = barrier.expect if sign > 0 else barrier.complete_tx
            change(total, int(part.threads()[0]), part.site)

    return step


def _arrive(
    instruction: Instruction, build: Builder, modifiers: Modifiers, drop: bool = False
) -> Step:
    expects = modifiers.flag("expect_tx")
    may_complete = not modifiers.flag("noComplete")
    releases = sem_and_scope(modifiers, ("release", "relaxed"), "release") == "release"
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
            values = lanes_of(part, group, numbers)
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
    "test_wait": lambda i, b, m: wait(i, b, m, blocks=False),
    "try_wait": lambda i, b, m: wait(i, b, m, blocks=True),
    "pending_count": _pending_count,
}
