"""cp.async, its groups, and cp.async.mbarrier.arrive: PTX ISA 9.7.9.25.3, 9.7.13.15.15.

All that begins with cp is translated from here; bulk and tensor copies are handed on.
"""

from __future__ import annotations

import numpy as np

from checkers.simulator.copies.async_access import writing
from checkers.simulator.copies.copies import Copies, Source
from checkers.simulator.copies.engine import Operation
from checkers.simulator.copies.shared_places import places
from checkers.simulator.instructions import bulk, tensor_copy
from checkers.simulator.machine.building import Builder, translates
from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.ptx.modifiers import Modifiers, Unsupported
from checkers.simulator.ptx.program import Immediate, Instruction, Register
from checkers.simulator.reports.faults import Kind
from checkers.simulator.waiting.mbarrier_lookup import each_barrier
from checkers.simulator.waiting.mbarriers import Mbarrier

SIZES = (4, 8, 16)


@translates("cp", section="9.7.9.25, 9.7.9.27, 9.7.13.15.15")
def cp(instruction: Instruction, build: Builder) -> Step:
    modifiers = build.modifiers(instruction)
    reduces = modifiers.flag("reduce")
    if not modifiers.flag("async"):
        raise Unsupported(instruction, "only asynchronous copies begin with cp")
    if modifiers.flag("bulk"):
        if modifiers.flag("tensor"):
            return tensor_copy.translate(instruction, build, modifiers, reduces)
        return bulk.translate(instruction, build, modifiers, reduces)
    if reduces:
        raise Unsupported(instruction, "only bulk copies reduce")
    if modifiers.flag("mbarrier"):
        return _mbarrier_arrive(instruction, build, modifiers)
    if modifiers.flag("commit_group"):
        modifiers.done()
        return lambda group: group.wave.state(Copies).commit(group)
    if modifiers.flag("wait_all"):
        modifiers.done()
        return _wait_all
    if modifiers.flag("wait_group"):
        modifiers.done()
        leave = number_of_groups(instruction)
        return lambda group: group.wave.state(Copies).wait(group, leave)
    return _copy(instruction, build, modifiers)


def number_of_groups(instruction: Instruction) -> int:
    """The immediate N of a wait_group."""
    count = instruction.operands[0]
    if not isinstance(count, Immediate):
        raise Unsupported(instruction, "a wait_group takes a constant")
    return int(count.value)


def _wait_all(group: Group) -> None:
    state = group.wave.state(Copies)
    state.commit(group)
    state.wait(group, 0)


def _copy(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    modifiers.one_of("ca", "cg")  # where it is cached: no difference here
    modifiers.one_of("shared", "shared::cta")
    modifiers.one_of("global")
    hinted = "L2::cache_hint" in modifiers.drop_prefixed("L2::")
    modifiers.done()
    operands = list(instruction.operands)
    if hinted:
        operands.pop()
    to, source = build.address(operands[0]), build.address(operands[1])
    size = int(operands[2].value) if isinstance(operands[2], Immediate) else 0
    if size not in SIZES:
        raise Unsupported(instruction, "cp.async copies 4, 8 or 16 bytes")
    src_size = ignored = None
    if len(operands) > 3:
        extra = operands[3]
        if isinstance(extra, Register) and build.kernel.slot_bits[build.slot(extra)] == 1:
            ignored = build.source(extra, "pred")
        else:
            src_size = build.source(extra, "u32")

    def step(group: Group) -> None:
        wave = group.wave
        threads = group.threads()
        count = np.full(len(threads), size, np.int64)
        if src_size is not None:
            count = group.lanes(np.asarray(src_size(group))).astype(np.int64)
            _check_source_size(group, count, size)
        if ignored is not None:
            count = np.where(group.lanes(ignored(group)), 0, count)
        agents = wave.clocks.agents("cp.async", threads)
        times = agents.tick()
        targets = places(group, to(group), generic=False)
        addresses = group.lanes(source(group)).astype(np.int64)
        _check_alignment(group, targets.offsets, addresses, size)
        reads = Source.begin(group, addresses, count, size, times)
        place = ("shared", targets.blocks, targets.offsets, size, agents, times, "cp.async")
        writes = writing(group, threads, *place)
        _count(group, threads, addresses, count, size)
        operation = wave.state(Copies).start(group, reads, writes, times)
        if wave.log.enabled:
            wave.log.start(group, operation, "copy", "cp.async", bytes=int(count.sum()))

    return step


def _check_alignment(group: Group, offsets: np.ndarray, addresses: np.ndarray, size: int) -> None:
    """Both ends lie at multiples of the size; where they don't, they are rounded down."""
    for name, values in (("destination", offsets), ("source", addresses)):
        bad = values % size != 0
        if bad.any():
            group.wave.faults.report(
                Kind.MISALIGNED,
                f"The {name} of a cp.async of {size} bytes is at no multiple of {size}",
                group=group.narrowed(group.spread(bad, False)),
            )
            values -= values % size


def _count(
    group: Group, threads: np.ndarray, addresses: np.ndarray, count: np.ndarray, size: int
) -> None:
    wave, read = group.wave, count > 0
    wave.counters.add("cp_async_bytes", int(count.sum()), group.site)
    if read.any():
        moved, needed = wave.memory.transactions.sectors(threads[read], addresses[read], size)
        wave.counters.add("global_load_bytes", int(count.sum()), group.site)
        wave.counters.add("global_load_sectors", moved, group.site)
        wave.counters.add("global_load_sectors_needed", needed, group.site)
        wave.counters.add("global_load_requests", group.n, group.site)


def _check_source_size(group: Group, count: np.ndarray, size: int) -> None:
    if (count > size).any():
        group.wave.faults.report(
            Kind.UNDEFINED,
            f"cp.async is to read {int(count.max())} bytes for a copy of {size}",
            group=group.narrowed(group.spread(count > size, False)),
        )
        np.minimum(count, size, out=count)


# --- cp.async.mbarrier.arrive ------------------------------------------------------------------------


class CopyArrival(Operation):
    """An arrival at an mbarrier once all copies that some threads have started are complete."""

    def __init__(self, cluster: int, barrier: Mbarrier, group: Group) -> None:
        super().__init__(cluster, group.site)
        self.barrier = barrier
        self.threads = group.threads()
        self._wave = group.wave
        agents = self._wave.clocks.agents("cp.async", self.threads)
        self._knowledge = self._wave.clocks.nothing(cluster).with_agent(agents, agents.last())

    def complete(self) -> None:
        self._wave.state(Copies).land_all_of(self.threads)
        self.barrier.arrive(len(self.threads), int(self.threads[0]), self.site, self._knowledge)


def _mbarrier_arrive(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    modifiers.one_of("arrive")
    noinc = modifiers.flag("noinc")
    space = modifiers.one_of("shared", "shared::cta", default="")
    modifiers.one_of("b64")
    modifiers.done()
    address = build.address(instruction.operands[0])
    what = "cp.async.mbarrier.arrive"

    def step(group: Group) -> None:
        wave = group.wave
        copies = wave.state(Copies)
        for barrier, part in each_barrier(group, address(group), space, what, remote=False):
            threads = part.threads()
            if not noinc:
                barrier.increment(len(threads), int(threads[0]), part.site)
            copies.track(threads)
            wave.engine.issue(CopyArrival(barrier.block // wave.cluster_size, barrier, part))

    return step
