"""bar and barrier: PTX ISA 9.7.13.1; barrier.cluster and bar.warp are handed on.

A whole block that arrives together, the usual case, needs no parking; all else is left to the
barrier's own bookkeeping (named_barriers.py).
"""

from __future__ import annotations

import numpy as np

from checkers.simulator.instructions import cluster
from checkers.simulator.machine.building import Builder, translates
from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.ptx.modifiers import Unsupported
from checkers.simulator.ptx.program import Immediate, Instruction, Register
from checkers.simulator.reports.faults import Kind
from checkers.simulator.waiting.named_barriers import Form, NamedBarriers

BARRIERS = 16
REDUCTIONS = {"popc": "u32", "and": "pred", "or": "pred"}


@translates("bar", "barrier", section="9.7.13.1, 9.7.13.2, 9.7.13.3")
def barrier(instruction: Instruction, build: Builder) -> Step:
    modifiers = build.modifiers(instruction)
    if modifiers.flag("warp"):
        from checkers.simulator.instructions.warp import bar_warp_sync

        return bar_warp_sync(instruction, build)
    if modifiers.flag("cluster"):
        return cluster.barrier_cluster(instruction, modifiers)
    modifiers.flag("cta")
    aligned = modifiers.flag("aligned") or instruction.opcode == "bar"
    kind = modifiers.one_of("sync", "arrive", "red")
    operands = list(instruction.operands)
    write = None
    predicate = None
    if kind == "red":
        kind = modifiers.one_of(*REDUCTIONS)
        modifiers.one_of(REDUCTIONS[kind])
        write = build.destination(operands.pop(0), REDUCTIONS[kind])
        predicate = build.source(operands.pop(), "pred")
    modifiers.done()
    form = Form(kind, aligned, write)
    number = build.source(operands[0], "u32")
    count = build.source(operands[1], "u32") if len(operands) > 1 else None
    if kind == "arrive" and count is None:
        raise Unsupported(instruction, "an arrive names the number of threads that take part")
    if len(operands) > 2:
        raise Unsupported(instruction, "a barrier has a number and a count of threads, no more")
    constant = isinstance(operands[0], Immediate) and not isinstance(operands[-1], Register)

    def step(group: Group) -> list[Group] | None:
        wave = group.wave
        numbers = _per_warp(group, number(group))
        counts = _per_warp(group, count(group)) if count else np.zeros(group.n, np.int64)
        if kind != "arrive":
            wave.counters.add("barrier_waits", group.n, group.site)
        state = wave.state(NamedBarriers)
        if kind == "sync" and constant and _meets_whole(group, state, numbers, counts):
            return None
        group = _sound(group, numbers, counts)
        votes = np.broadcast_to(predicate(group), (group.n, 32)) if predicate else None
        going: list[Group] = []
        keys = group.blocks() * BARRIERS + numbers % BARRIERS
        for key in np.unique(keys).tolist():
            chosen = keys == key
            part = group if chosen.all() else group.only_warps(chosen)
            threads = int(counts[chosen][0])
            going += state.of(key // BARRIERS, key % BARRIERS).arrive(
                part, form, threads, None if votes is None else votes[chosen]
            )
        return going

    return step


def _per_warp(group: Group, values: np.ndarray) -> np.ndarray:
    """(n,) int64: an operand of each warp, from its first active lane."""
    values = np.asarray(values)
    if values.ndim < 2:
        return np.full(group.n, int(values), np.int64)
    if group.mask is None:
        return values[:, 0].astype(np.int64)
    return values[np.arange(group.n), group.mask.argmax(axis=1)].astype(np.int64)


def _sound(group: Group, numbers: np.ndarray, counts: np.ndarray) -> Group:
    """Reports numbers and counts that can't be, and puts possible ones in their place."""
    size = group.wave.warps_per_block * 32
    if (numbers >= BARRIERS).any():
        group.wave.faults.report(
            Kind.BARRIER,
            f"There is no barrier {int(numbers.max())}: a block has 0 to {BARRIERS - 1}",
            group=group,
        )
    if (counts % 32).any():
        bad = int(counts[counts % 32 != 0][0])
        group.wave.faults.report(
            Kind.BARRIER,
            f"A barrier for {bad} threads: the number must be a multiple of 32, a warp comes whole",
            group=group,
        )
        counts += -counts % 32
    if (counts > size).any():
        group.wave.faults.report(
            Kind.BARRIER,
            f"A barrier for {int(counts.max())} threads, in a block of "
            f"{group.wave.threads_per_block}",
            group=group,
        )
    return group


def _meets_whole(
    group: Group, state: NamedBarriers, numbers: np.ndarray, counts: np.ndarray
) -> bool:
    """All participants of a barrier, of one block or of each of several, come together: they
    synchronise at once. Whether that was the case."""
    wave = group.wave
    count = int(counts[0])
    size = count // 32 if count else wave.warps_per_block
    number = int(numbers[0])
    if number >= BARRIERS or count % 32 or size > wave.warps_per_block or group.n % size:
        return False
    blocks = group.blocks()
    firsts = blocks[::size]
    if (blocks[size - 1 :: size] != firsts).any() or (firsts[1:] == firsts[:-1]).any():
        return False
    if group.mask is not None and not np.array_equal(group.mask, wave.live[group.warps]):
        return False
    for block in firsts.tolist():
        there = state.all.get((block, number))
        if there is not None and not there.is_new:
            return False
    labels = None if group.n == size else wave.block_of(group.threads())
    wave.clocks.meet(group.threads(), labels)
    if wave.log.enabled:
        for block in firsts.tolist():
            there = state.of(block, number)
            wave.log.signal(group, there.key)
            wave.log.waited(group, f"barrier {number}", there.key)
            there.generation += 1
    wave.progressed(meeting=True)
    return True
