"""Random accesses and barriers, held against a list of every access ever made to each byte."""

from __future__ import annotations

import random

import numpy as np
import pytest

from checkers.simulator.engine import Schedule
from checkers.simulator.gpus import gpu
from checkers.simulator.group import Group
from checkers.simulator.machine import Wave
from checkers.simulator.run import Limits, Run
from tests.simulator.harness import launch_of

BYTES = 256
BODY = """
    .shared .align 16 .b8 s[256]; mov.u32 %r1, s;
    ld.shared.b16 %h1, [%r1]; st.shared.b16 [%r1], %h1; ld.global.b16 %h1, [%x]; st.global.b16 [%x], %h1;
"""


def new_wave(blocks):
    x = np.zeros(BYTES + 32, np.uint8)
    x = x[-x.ctypes.data % 32 :][:BYTES]
    launch = launch_of(BODY, block=64, grid=blocks, x=x)
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


def some_lanes(wave, rng):
    """A group of some warps, some lanes of each."""
    warps = np.array(sorted(rng.sample(range(wave.warps), rng.choice([1, 1, 2, wave.warps]))))
    mask = np.array([[rng.random() < 0.5 for _ in range(32)] for _ in warps])
    mask[:, rng.randrange(32)] = True
    return Group(wave, 1, warps, mask if rng.random() < 0.7 else None)


def one_step(wave, history, rng, space, base, origin):
    """An access or a barrier on both sides: (found now, should be found)."""
    if rng.random() < rng.barriers:
        block = rng.randrange(wave.blocks)
        warps = rng.choice([[0], [1], [0, 1], [0, 1]])
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
    address = group.spread((starts + base).astype(np.uint64))
    before = len(wave.faults)
    if write:
        values = [group.spread(threads.astype(f"u{size}") + 200 * origin) for _ in range(count)]
        wave.memory.store(group, space, address, values, size)
    else:
        wave.memory.load(group, space, address, size, count)
    blocks = threads // 64 if space == "shared" else np.zeros(len(threads), np.int64)
    places = (starts + blocks * 10_000).tolist()
    wrong = history.access(threads.tolist(), places, width, write)
    return len(wave.faults) > before, wrong


@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize("seed", range(25))
def test_the_first_race_is_found_when_it_happens(space, seed):
    rng = random.Random(seed)
    rng.barriers = rng.choice([0.3, 0.7])
    wave, x = new_wave(rng.choice([1, 2]))
    history = History(wave.warps * 32)
    base = 1024 if space == "shared" else x.ctypes.data
    if space == "shared":  # so that nothing is uninitialised
        everyone = Group(wave, 1, np.arange(0, wave.warps, 2))
        offsets = np.tile(np.arange(32) * 8 + 1024, (everyone.n, 1)).astype(np.uint64)
        wave.memory.store(everyone, "shared", offsets, [np.zeros((everyone.n, 32), np.uint64)], 8)
        for block in range(wave.blocks):
            wave.clocks.meet(np.arange(64) + 64 * block)
    for step in range(60):
        found, wrong = one_step(wave, history, rng, space, base, step)
        assert found == wrong, (step, [f.message for f in wave.faults])
        if found:
            return
