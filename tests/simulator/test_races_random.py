"""Random accesses and barriers, held against a list of every access ever made to each byte."""

from __future__ import annotations

import random

import numpy as np
import pytest

from checkers.simulator.copies.engine import Schedule
from checkers.simulator.machine.group import Group
from checkers.simulator.machine.run import Limits, Run
from checkers.simulator.machine.wave import Wave
from checkers.simulator.reports.gpus import gpu
from tests.simulator.harness import launch_of

BYTES = 256
BODY = """
    .shared .align 16 .b8 s[256]; mov.u32 %r1, s;
    ld.shared.b16 %h1, [%r1]; st.shared.b16 [%r1], %h1; ld.global.b16 %h1, [%x]; st.global.b16 [%x], %h1;
"""


REMOTE = "ld.shared::cluster.b16 %h1, [%r1];"


def new_wave(blocks, cluster=1):
    x = np.zeros(BYTES + 32, np.uint8)
    x = x[-x.ctypes.data % 32 :][:BYTES]
    body = BODY + REMOTE if cluster > 1 else BODY
    launch = launch_of(body, block=64, grid=blocks, cluster=cluster, x=x)
    run = Run(launch, Schedule.parse("latest"), gpu("h100"), False, Limits())
    return Wave(run, 0, run.clusters), x


class History:
    """Everything that happened to each byte, and what each thread has synchronised with."""

    def __init__(self, threads):
        self.known = [set() for _ in range(threads)]
        self.done = [set() for _ in range(threads)]
        self.bytes = {}
        self.events = 0

    def meet(self, threads):
        everything = set()
        for t in threads:
            everything |= self.known[t] | self.done[t]
        for t in threads:
            self.known[t] = set(everything)

    def access(self, threads, starts, width, write):
        """Whether one of these accesses races with an earlier one."""
        bad = False
        for t, start in zip(threads, starts, strict=True):
            seen = self.known[t] | self.done[t]
            for byte in range(start, start + width):
                for event, wrote in self.bytes.get(byte, ()):
                    bad |= (wrote or write) and event not in seen
        for t, start in zip(threads, starts, strict=True):
            self.events += 1
            self.done[t].add(self.events)
            for byte in range(start, start + width):
                self.bytes.setdefault(byte, []).append((self.events, write))
        return bad


def initialise(wave):
    """The first warp of each block writes all of its shared memory, and everybody knows."""
    first = Group(wave, 1, np.arange(0, wave.warps, 2))
    ranks = (np.arange(wave.blocks) % wave.cluster_size)[:, None] << 24
    offsets = (np.arange(32) * 8 + 1024 + ranks).astype(np.uint64)
    wave.memory.store(first, "shared", offsets, [np.zeros((first.n, 32), np.uint64)], 8)
    threads = np.arange(wave.warps * 32)
    wave.clocks.meet(threads, threads // (64 * wave.cluster_size))


def some_lanes(wave, rng):
    """A group of some warps, some lanes of each."""
    warps = np.array(sorted(rng.sample(range(wave.warps), rng.choice([1, 1, 2, wave.warps]))))
    mask = np.array([[rng.random() < 0.5 for _ in range(32)] for _ in warps])
    mask[:, rng.randrange(32)] = True
    return Group(wave, 1, warps, mask if rng.random() < 0.7 else None)


def races(wave):
    return sum(fault.kind == "race" for fault in wave.faults)


def one_step(wave, history, rng, space, base, origin):
    """An access or a barrier on both sides: (found now, should be found)."""
    if rng.random() < rng.barriers:
        block = rng.randrange(wave.blocks)
        warps = rng.choice([[0], [1], [0, 1], [0, 1]])
        if wave.cluster_size > 1 and rng.random() < 0.5:
            block, warps = 0, range(wave.warps)
        threads = np.concatenate([np.arange(32) + 32 * (2 * block + w) for w in warps])
        wave.clocks.meet(threads)
        history.meet(threads.tolist())
        return False, False
    group = some_lanes(wave, rng)
    threads = group.threads()
    size = rng.choice([2, 4, 8])
    count = rng.choice([1, 2]) if size * 2 <= 16 else 1
    width = size * count
    spots = BYTES // width
    starts = rng.sample(range(spots), min(spots, 16))
    starts = np.array([rng.choice(starts) * width for _ in threads])
    write = rng.random() < 0.4
    if (
        write
    ):  # each lane its own place: what lanes of one instruction do to each other is elsewhere
        threads, first = threads[: len(set(starts.tolist()))], sorted(set(starts.tolist()))
        starts = np.array(first[: len(threads)])
        mask = np.zeros((wave.warps, 32), bool)
        mask[threads // 32, threads % 32] = True
        warps = np.unique(threads // 32)
        group = Group(wave, 1, warps, mask[warps])
    blocks = threads // 64 if space.startswith("shared") else np.zeros(len(threads), np.int64)
    if space == "shared::cluster":  # each lane in the block that it likes
        blocks = np.array([rng.randrange(wave.blocks) for _ in threads])
    ranks = blocks if wave.cluster_size > 1 else np.zeros(len(threads), np.int64)
    address = group.spread((starts + base + (ranks << 24)).astype(np.uint64))
    before = races(wave)
    if write:
        values = [group.spread(threads.astype(f"u{size}") + 200 * origin) for _ in range(count)]
        wave.memory.store(group, space, address, values, size)
    else:
        wave.memory.load(group, space, address, size, count)
    places = (starts + blocks * 10_000).tolist()
    wrong = history.access(threads.tolist(), places, width, write)
    return races(wave) > before, wrong


@pytest.mark.parametrize("space", ["shared", "shared::cluster", "global"])
@pytest.mark.parametrize("seed", range(25))
def test_the_first_race_is_found_when_it_happens(space, seed):
    rng = random.Random(seed)
    rng.barriers = rng.choice([0.3, 0.7])
    cluster = 1 if space == "global" else rng.choice([1, 2]) if space == "shared" else 2
    wave, x = new_wave(2 if cluster == 2 else rng.choice([1, 2]), cluster)
    history = History(wave.warps * 32)
    base = 1024 if space.startswith("shared") else wave.launch.tensors[0].address
    if space.startswith("shared"):
        initialise(wave)
    for step in range(60):
        found, wrong = one_step(wave, history, rng, space, base, step)
        assert found == wrong, (step, [f.message for f in wave.faults])
        if found:
            return
