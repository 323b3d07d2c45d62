"""The clocks against a table of every thread with every other, kept the slow and plain way."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import pytest

from checkers.simulator.memory.clocks import Clocks


def fake_wave(blocks=1, warps=1, cluster=1, threads=None):
    heap = SimpleNamespace(clusters_begun=0)
    return SimpleNamespace(
        blocks=blocks,
        warps_per_block=warps,
        threads_per_block=threads or warps * 32,
        cluster_size=cluster,
        memory=SimpleNamespace(heap=heap),
    )


class Plain:
    """Each thread's set of the actions that it knows of; an action is (actor, number)."""

    def __init__(self, threads):
        self.known = [set() for _ in range(threads)]
        self.fenced = [set() for _ in range(threads)]
        self.done = [[] for _ in range(threads)]

    def release(self, threads):
        known, fenced = set(), set()
        for t in threads:
            known |= self.known[t] | set(self.done[t])
            fenced |= self.fenced[t]
        return known, fenced

    def acquire(self, threads, knowledge):
        for t in threads:
            self.known[t] |= knowledge[0]
            self.fenced[t] |= knowledge[1]

    def meet(self, threads):
        self.acquire(threads, self.release(threads))

    def fence(self, threads):
        for t in threads:
            self.fenced[t] |= self.known[t] | set(self.done[t])

    def knows(self, thread, action, fenced=False):
        if fenced:
            return action in self.fenced[thread]
        return action in self.known[thread] or action in self.done[thread]


def agree(clocks, plain, actions, threads, rng):
    for action in rng.sample(actions, min(len(actions), 40)):
        who, time, _ = action
        actors = np.full(len(threads), who, np.uint32)
        times = np.full(len(threads), time, np.uint32)
        for fenced in (False, True):
            got = clocks.sees(threads, actors, times, fenced=fenced)
            wanted = [plain.knows(t, action, fenced) for t in threads.tolist()]
            assert got.tolist() == wanted, (action, fenced)


@pytest.mark.parametrize("seed", range(12))
def test_the_clocks_agree_with_sets_of_actions(seed):
    rng = random.Random(seed)
    cluster = rng.choice([1, 1, 2])
    wave = fake_wave(blocks=2, warps=2, cluster=cluster)
    clocks, threads = Clocks(wave), np.arange(128)
    plain = Plain(128)
    actions, kept = [], []
    each = clocks.threads_each
    for step in range(120):
        first = rng.randrange(128 // each) * each
        some = np.array(
            sorted(rng.sample(range(first, first + each), rng.choice([1, 2, 32, each])))
        )
        what = rng.choice(["act", "act", "release", "acquire", "meet", "meet all", "fence"])
        if what == "act":
            for t in some.tolist():
                action = (int(clocks.who[t]), clocks.now, step)
                plain.done[t].append(action)
                actions.append(action)
        elif what == "release":
            kept.append((first, clocks.release(some), plain.release(some.tolist())))
        elif what == "acquire" and kept:
            home, knowledge, sets = rng.choice(kept)
            if home == first or rng.random() < 0.3:
                clocks.acquire(some, knowledge)
                plain.acquire(some.tolist(), sets)
        elif what == "meet":
            clocks.meet(some)
            plain.meet(some.tolist())
        elif what == "meet all":
            clocks.meet(threads, threads // each)
            for start in range(0, 128, each):
                plain.meet(range(start, start + each))
        elif what == "fence":
            clocks.proxy_fence(some)
            plain.fence(some.tolist())
    assert len(actions) > 100
    agree(clocks, plain, actions, threads, rng)


def test_a_barrier_of_many_threads_makes_one_row():
    clocks = Clocks(fake_wave(blocks=8, warps=32))
    threads = np.arange(8 * 1024)
    for _ in range(500):
        clocks.meet(threads, threads // 1024)
    assert len(np.unique(clocks.row)) == 8
    assert len(clocks.known) <= 128


def test_a_barrier_raises_the_floor_and_absent_lanes_do_not_lower_it():
    clocks = Clocks(fake_wave(warps=2, threads=40))
    threads = np.arange(40)
    assert clocks.least_known(threads, False) == 0
    before = clocks.now
    clocks.meet(threads)
    assert clocks.least_known(threads, False) == before


def test_one_lane_that_releases_does_not_release_for_its_warp():
    clocks = Clocks(fake_wave(warps=2))
    wrote = clocks.now
    knowledge = clocks.release(np.array([3]))
    clocks.acquire(np.array([40]), knowledge)
    assert clocks.knows(np.array([40, 40]), np.array([3, 4]), wrote).tolist() == [True, False]


def test_an_agent_is_known_up_to_the_time_that_was_waited_for():
    clocks = Clocks(fake_wave(warps=2))
    agent = clocks.agent(0, ("mbarrier", 0, 1024))
    clocks.acquire(np.array([5]), clocks.nothing(0).with_agent(agent, 2))
    one = np.array([5])
    assert clocks.knows(one, agent.column, 2).all()
    assert not clocks.knows(one, agent.column, 3).any()
    assert clocks.agent_times(np.array([5, 6]), agent).tolist() == [2, 0]
    other = clocks.agent(0, ("mbarrier", 0, 1032))
    assert not clocks.knows(one, other.column, 1).any()


def test_a_wait_for_own_copies_is_passed_on_by_a_barrier():
    clocks = Clocks(fake_wave(warps=2))
    threads = np.arange(64)
    agents = clocks.agents("cp.async", threads)
    assert agents.tick().tolist() == [1] * 64
    clocks.learn(threads, agents, 1)
    rows_before = len(np.unique(clocks.row))
    assert rows_before == 1  # what each knows of its own copies needs no row of its own
    mine = clocks.sees(threads, agents.who, np.ones(64, np.uint32))
    assert mine.all()
    of_first = np.full(64, agents.who[0])
    assert clocks.sees(threads, of_first, np.ones(64, np.uint32)).tolist() == [True] + [False] * 63
    clocks.meet(threads)
    assert clocks.sees(threads, of_first, np.ones(64, np.uint32)).all()


def test_knowledge_of_private_agents_can_be_handed_on_alone():
    clocks = Clocks(fake_wave(warps=1))
    agents = clocks.agents("cp.async", np.array([2, 3]))
    agents.tick()
    clocks.acquire(np.array([9]), clocks.nothing(0).with_agent(agents, agents.last()))
    assert clocks.sees(np.array([9, 9]), agents.who, np.ones(2, np.uint32)).all()


def test_a_release_fence_covers_what_came_before_it_only():
    clocks = Clocks(fake_wave(warps=2))
    early = clocks.now
    clocks.fence_release(np.array([0]))
    late = clocks.now
    clocks.acquire(np.array([33]), clocks.fence_knowledge(0))
    assert clocks.knows(np.array([33]), 0, early).all()
    assert not clocks.knows(np.array([33]), 0, late).any()
    assert clocks.fence_knowledge(1) is None


def test_another_cluster_is_known_by_what_was_acquired_from_it():
    clocks = Clocks(fake_wave(blocks=3, warps=1))
    first = clocks.now
    clocks.meet(np.arange(32))
    knowledge = clocks.release(np.array([0]))
    later = clocks.now
    clocks.acquire(np.array([32]), knowledge)
    clocks.meet(np.arange(32, 64))
    reader = np.full(1, 63)
    assert clocks.sees(reader, clocks.who[[17]], np.array([first], np.uint32)).all()
    assert not clocks.sees(reader, clocks.who[[17]], np.array([later], np.uint32)).any()
    assert not clocks.sees(np.full(1, 64), clocks.who[[17]], np.array([first], np.uint32)).any()


def test_waves_after_one_another_have_clusters_of_their_own():
    wave = fake_wave(blocks=2, warps=1)
    first = Clocks(wave)
    second = Clocks(wave)
    assert set(first.who.tolist()).isdisjoint(second.who.tolist())
    assert second.describe(int(first.who[0])) == (None, "elsewhere")
    assert second.describe(int(second.who[40])) == (40, "")
