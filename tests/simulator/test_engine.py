"""The engine: when asynchronous work is done, under each schedule."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from checkers.simulator.copies.engine import Call, Engine, Schedule


@pytest.mark.parametrize("text", ["latest", "earliest", "random:0", "random:12"])
def test_a_schedule_is_read_and_written_alike(text):
    assert str(Schedule.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["", "late", "random", "random:", "random:-1", "random:x", "latest:1"]
)
def test_another_schedule_says_what_is_allowed(text):
    with pytest.raises(ValueError, match="latest, earliest or random:SEED"):
        Schedule.parse(text)


class World:
    """An engine whose operations note their names when they are done."""

    def __init__(self, schedule: str) -> None:
        self.done: list[str] = []
        wave = SimpleNamespace(progressed=lambda: None, schedule=Schedule.parse(schedule))
        self.engine = Engine(wave)

    def issue(self, name: str, cluster: int = 0, queue: str | None = None) -> Call:
        return self.engine.issue(Call(cluster, None, lambda: self.done.append(name), queue))


def test_earliest_is_at_issue_and_latest_when_asked():
    early, late = World("earliest"), World("latest")
    early.issue("a")
    operation = late.issue("a")
    assert early.done == ["a"] and late.done == []
    late.engine.complete(operation)
    late.engine.complete(operation)
    assert late.done == ["a"]


def test_one_of_each_cluster_the_oldest_first():
    world = World("latest")
    for name, cluster in [("a", 0), ("b", 1), ("c", 0)]:
        world.issue(name, cluster)
    assert world.engine.complete_one() and sorted(world.done) == ["a", "b"]
    assert world.engine.complete_one() and world.done[-1] == "c"
    assert not world.engine.complete_one()


def test_a_queue_keeps_its_order():
    world = World("latest")
    world.issue("a", queue="q")
    world.issue("other")
    last = world.issue("c", queue="q")
    world.engine.complete(last)
    assert world.done == ["a", "c"]


@pytest.mark.parametrize("seed", range(5))
def test_random_does_everything_sooner_or_later_and_queues_in_order(seed):
    world = World(f"random:{seed}")
    for i in range(10):
        world.issue(f"q{i}", queue="q")
        world.issue(f"x{i}")
    for _ in range(1000):
        world.engine.tick()
    assert len(world.done) == 20
    assert [name for name in world.done if name[0] == "q"] == [f"q{i}" for i in range(10)]
    again = World(f"random:{seed}")
    for i in range(10):
        again.issue(f"q{i}", queue="q")
        again.issue(f"x{i}")
    for _ in range(1000):
        again.engine.tick()
    assert again.done == world.done


def test_drain_does_what_is_chosen():
    world = World("latest")
    kept = world.issue("a")
    world.issue("b")
    world.engine.drain(lambda operation: operation is not kept)
    assert world.done == ["b"] and world.engine.pending() == [kept]
    world.engine.drain()
    assert world.done == ["b", "a"]
