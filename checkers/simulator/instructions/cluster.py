"""Clusters: barrier.cluster (PTX ISA 9.7.13.3), mapa (9.7.9.23), getctarank (9.7.9.24)."""

from __future__ import annotations

from typing import Any

import numpy as np

from checkers.simulator.copies.shared_places import RANK_SHIFT
from checkers.simulator.machine.building import Builder, translates
from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.ptx.modifiers import Modifiers
from checkers.simulator.ptx.program import Instruction
from checkers.simulator.reports.faults import Kind
from checkers.simulator.waiting.clusters import Clusters
from checkers.simulator.waiting.fences import Fences
from checkers.simulator.waiting.mbarrier_lookup import Mbarriers


def barrier_cluster(instruction: Instruction, modifiers: Modifiers) -> Step:
    """barrier.cluster.arrive and .wait; ``modifiers``: what is left behind .cluster."""
    if modifiers.one_of("arrive", "wait") == "wait":
        modifiers.one_of("acquire", default="acquire")
        modifiers.flag("aligned")
        modifiers.done()
        return _wait
    relaxed = modifiers.one_of("release", "relaxed", default="release") == "relaxed"
    modifiers.flag("aligned")
    modifiers.done()

    def arrive(group: Group) -> None:
        wave, state = group.wave, group.wave.state(Clusters)
        threads = group.threads()
        clusters = state.of(threads)
        knowledge: dict[int, Any] = {}
        for cluster in np.unique(clusters).tolist():
            these = threads[clusters == cluster]
            if relaxed:
                knowledge[cluster] = _of_fences(group, these)
            else:
                knowledge[cluster] = wave.clocks.release(these)
            if wave.log.enabled:
                wave.log.signal(group, ("cluster", cluster, int(state.phase[cluster])))
        state.arrive(group, knowledge, relaxed)

    return arrive


def _of_fences(group: Group, threads: np.ndarray) -> Any:
    """What a relaxed arrive passes on: what fences before it have made ready to be."""
    wave = group.wave
    known: Any = None
    for thread in threads[wave.clocks.fence_row[threads] >= 0].tolist():
        own = wave.clocks.fence_knowledge(thread)
        known = own if known is None else known.join(own)
    fences, mbarriers = wave.state(Fences), wave.state(Mbarriers)
    for thread in threads[fences.init_fenced[threads] > 0].tolist():
        block = int(wave.block_of(np.int64(thread)))
        cluster = block // wave.cluster_size
        agent = wave.clocks.agent(cluster, mbarriers.init_key(block))
        own = wave.clocks.nothing(cluster).with_agent(agent, int(fences.init_fenced[thread]))
        known = own if known is None else known.join(own)
    return known


def _wait(group: Group) -> list[Group] | None:
    wave, state = group.wave, group.wave.state(Clusters)
    threads = group.threads()
    strangers = state.waits_for[threads] == 0
    if strangers.any():
        wave.faults.report(
            Kind.CLUSTER,
            "barrier.cluster.wait without an arrive before it",
            group=group.narrowed(group.spread(strangers, False)),
        )
    over = state.is_over(threads)
    clusters = state.of(threads)
    done = group.narrowed(group.spread(over, False)) if over.any() else None
    going: list[Group] | None = None
    if done is not group:
        for cluster in np.unique(clusters[~over]).tolist():
            late = group.narrowed(group.spread(~over & (clusters == cluster), False))
            assert late is not None
            wave.park(late, state.wait_of(cluster), retry=True)
        going = [] if done is None else [done]
    if done is None:
        return going
    wave.counters.add("cluster_waits", done.n, done.site)
    done_threads = done.threads()
    of = state.of(done_threads)
    for cluster in np.unique(of).tolist():
        these = done_threads[of == cluster]
        agent = wave.clocks.agent(cluster, ("cluster barrier",))
        known = wave.clocks.nothing(cluster).with_agent(agent, int(state.phase[cluster]))
        if state.published[cluster] is not None:
            known = known.join(state.published[cluster])
        wave.clocks.acquire(these, known)
        if wave.log.enabled:
            key = ("cluster", cluster, int(state.phase[cluster]) - 1)
            wave.log.waited(done, "the cluster's barrier", key)
    state.passed(done_threads)
    return going


@translates("mapa", section="9.7.9.23")
def mapa(instruction: Instruction, build: Builder) -> Step:
    """The address that the same variable has in another block of the cluster."""
    modifiers = build.modifiers(instruction)
    modifiers.flag("shared::cluster")
    kind = modifiers.one_of("u32", "u64")
    modifiers.done()
    write = build.destination(instruction.operands[0], kind)
    address = build.source(instruction.operands[1], kind)
    rank = build.source(instruction.operands[2], "u32")
    dtype = np.uint32 if kind == "u32" else np.uint64
    # The rank's bits; those above are the generic window's.
    rest = dtype(~(0xFF << RANK_SHIFT) & (0xFFFFFFFF if kind == "u32" else 0xFFFFFFFFFFFFFFFF))

    def step(group: Group) -> None:
        # A rank beyond the cluster is no fault yet: compilers move mapa before the branch that
        # keeps such lanes away. Whoever uses the address is told; 255 stands for all of them.
        ranks = np.minimum(np.asarray(rank(group)), 255)
        write(group, (address(group) & rest) | (ranks.astype(dtype) << dtype(RANK_SHIFT)))

    return step


@translates("getctarank", section="9.7.9.24")
def getctarank(instruction: Instruction, build: Builder) -> Step:
    """The rank of the block whose shared memory an address lies in."""
    modifiers = build.modifiers(instruction)
    modifiers.flag("shared::cluster")
    kind = modifiers.one_of("u32", "u64")
    modifiers.done()
    write = build.destination(instruction.operands[0], "u32")
    address = build.source(instruction.operands[1], kind)

    def step(group: Group) -> None:
        low = np.asarray(address(group)).astype(np.uint64) & np.uint64(0xFFFFFFFF)
        write(group, (low >> np.uint64(RANK_SHIFT)).astype(np.uint32))

    return step
