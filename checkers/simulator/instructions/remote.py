"""Stores and reductions that work beside the thread: PTX ISA 9.7.9.12 (st.async), 9.7.13.7 (red.async),
and clusterlaunchcontrol (9.7.13.17, 9.7.13.18).

The value lands in the shared memory of a block of the cluster some time later, and its bytes count on an
mbarrier there.
"""

from __future__ import annotations

import numpy as np

from checkers.simulator.copies.async_access import End, updating, writing
from checkers.simulator.copies.bulk_issue import COMPLETES, each_lane, row_of
from checkers.simulator.copies.engine import Operation
from checkers.simulator.copies.reductions import OPERATIONS, Combine, combine
from checkers.simulator.copies.shared_places import places
from checkers.simulator.machine.building import Builder, translates
from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.machine.registers import NUMPY
from checkers.simulator.ptx.modifiers import Modifiers, Unsupported
from checkers.simulator.ptx.program import TYPE_BITS, Instruction, Vector
from checkers.simulator.reports.faults import Kind
from checkers.simulator.waiting.mbarrier_lookup import each_barrier
from checkers.simulator.waiting.mbarriers import Mbarrier


class RemoteStore(Operation):
    """One lane's st.async or red.async in flight."""

    def __init__(
        self, group: Group, thread: int, end: End, data: np.ndarray, barrier: Mbarrier
    ) -> None:
        super().__init__(barrier.block // group.wave.cluster_size, group.site)
        self.thread, self.end, self.data, self.barrier = thread, end, data, barrier
        self.what = "asynchronous store"

    def complete(self) -> None:
        self.end.finish(self.data)
        self.barrier.lands(self, self.thread, self.site)


def st_async(instruction: Instruction, build: Builder) -> Step:
    """st.async{.weak}{.cluster}{.shared::cluster}.mbarrier::complete_tx::bytes{.v2 .v4}.type."""
    modifiers = build.modifiers(instruction)
    modifiers.one_of("async")
    if "global" in modifiers.left:
        raise Unsupported(instruction, "st.async to global memory is missing")
    modifiers.one_of("weak", default="weak")
    modifiers.one_of("cluster", default="cluster")
    return _translate(instruction, build, modifiers, None)


def red_async(instruction: Instruction, build: Builder) -> Step:
    """red.async.relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes.op.type."""
    modifiers = build.modifiers(instruction)
    modifiers.one_of("async")
    if "global" in modifiers.left:
        raise Unsupported(instruction, "red.async to global memory is missing")
    modifiers.one_of("relaxed")
    modifiers.one_of("cluster")
    operation = modifiers.one_of(*OPERATIONS)
    kind = next(m for m in reversed(instruction.modifiers) if m in TYPE_BITS)
    return _translate(instruction, build, modifiers, combine(operation, NUMPY[kind]))


def _translate(
    instruction: Instruction, build: Builder, modifiers: Modifiers, how: Combine | None
) -> Step:
    space = modifiers.one_of("shared::cluster", default="")
    modifiers.one_of(COMPLETES, default=COMPLETES)
    modifiers.one_of("v2", "v4", default="")
    kind = modifiers.type()
    modifiers.done()
    operands = instruction.operands
    to, signal = build.address(operands[0]), build.address(operands[2])
    values = operands[1].elements if isinstance(operands[1], Vector) else (operands[1],)
    bits = f"b{TYPE_BITS[kind]}"
    readers = [build.source(value, bits) for value in values]
    each = TYPE_BITS[kind] // 8
    what = "st.async" if how is None else "red.async"

    def step(group: Group) -> None:
        wave = group.wave
        where = places(group, to(group), space == "")
        signals = signal(group)
        raw = [group.lanes(np.asarray(read(group))) for read in readers]
        if wave.suspects is not None:
            wave.suspects.published(group.threads(), group.site, "sends", lambda i: "another block")
        for i, part, thread in each_lane(group):
            for barrier, _ in each_barrier(part, row_of(part, group, signals), space, what):
                if barrier.block != int(where.blocks[i]) or not where.valid[i]:
                    wave.faults.report(
                        Kind.CLUSTER,
                        f"{what} writes to one block and signals an mbarrier of another",
                        group=part,
                    )
                    continue
                offset = int(where.offsets[i]) + each * np.arange(len(values), dtype=np.int64)
                data = np.stack([np.frombuffer(r[i].tobytes(), np.uint8) for r in raw])
                agent = wave.clocks.agent(
                    barrier.block // wave.cluster_size,
                    ("st.async", barrier.block, barrier.offset, barrier.number),
                )
                time = barrier.phase + 1
                barrier.also_publishes(agent)
                place = ("shared", barrier.block, offset, each, agent, time, what)
                if how is None:
                    end = writing(part, thread, *place)
                else:
                    end = updating(part, thread, *place, how)
                store = RemoteStore(part, thread, end, data, barrier)
                barrier.starts(store, each * len(values))
                wave.engine.issue(store)

    return step


# --- cluster launch control --------------------------------------------------------------------------


@translates("clusterlaunchcontrol", section="9.7.13.17, 9.7.13.18")
def clusterlaunchcontrol(instruction: Instruction, build: Builder) -> Step:
    """Every request to take over another cluster's work is refused: all clusters are launched, as on
    a GPU that is large enough."""
    modifiers = build.modifiers(instruction)
    if modifiers.one_of("try_cancel", "query_cancel") == "query_cancel":
        return _query(instruction, build, modifiers)
    modifiers.one_of("async")
    space = modifiers.one_of("shared::cta", default="")
    modifiers.one_of(COMPLETES)
    everywhere = modifiers.flag("multicast::cluster::all")
    modifiers.one_of("b128")
    modifiers.done()
    to, signal = build.address(instruction.operands[0]), build.address(instruction.operands[1])
    what = "clusterlaunchcontrol.try_cancel"

    def step(group: Group) -> None:
        wave = group.wave
        where = places(group, to(group), space == "")
        signals = signal(group)
        for i, part, thread in each_lane(group):
            address = row_of(part, group, signals)
            offset = np.array([int(where.offsets[i])])
            own = int(where.blocks[i])
            first = own - own % wave.cluster_size
            blocks = range(first, first + wave.cluster_size) if everywhere else (own,)
            for block in blocks:
                there = (address & np.uint64(0xFFFFFF)) | np.uint64((block - first) << 24)
                for barrier, _ in each_barrier(part, there, "shared::cluster", what):
                    time = barrier.phase + 1
                    end = writing(
                        part, thread, "shared", block, offset, 16, barrier.agent, time, what
                    )
                    answer = RemoteStore(part, thread, end, np.zeros((1, 16), np.uint8), barrier)
                    barrier.starts(answer, 16)
                    wave.engine.issue(answer)

    return step


def _query(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    if modifiers.flag("is_canceled"):
        modifiers.one_of("pred")
        modifiers.one_of("b128")
        modifiers.done()
        write = build.destination(instruction.operands[0], "pred")
        answer = build.source(instruction.operands[1], "b128")
        return lambda group: write(group, answer(group).any(axis=-1))
    forms = ("get_first_ctaid", *(f"get_first_ctaid::{d}" for d in "xyz"))
    modifiers.one_of(*forms)
    modifiers.flag("v4")
    modifiers.one_of("b32")
    modifiers.one_of("b128")
    modifiers.done()
    targets = instruction.operands[0]
    elements = targets.elements if isinstance(targets, Vector) else (targets,)
    writers = [build.destination(element, "b32") for element in elements]

    def step(group: Group) -> None:
        for write in writers:  # undefined for a request that failed, and here all do
            write(group, np.uint32(0))

    return step
