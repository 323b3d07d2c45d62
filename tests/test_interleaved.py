"""The tuning scripts' clock, on a GPU that keeps a diary."""

from __future__ import annotations

import pytest
import torch

from tests.gpu.interleaved import timed


@pytest.fixture
def diary(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    entries: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            self.at = len(entries)
            entries.append("event")

        def elapsed_time(self, stop: Event) -> float:
            return float(stop.at - self.at)

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: entries.append("sleep"))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: entries.append("synchronize"))
    return entries


def test_every_round_is_queued_and_takes_all_in_turn(diary: list[str]) -> None:
    launches = {name: lambda name=name: diary.append(name) for name in ("a", "b")}
    assert timed(launches, rounds=3, warm_up=1) == {"a": [2.0] * 3, "b": [2.0] * 3}
    one = ["sleep", "event", "a", "event", "event", "b", "event", "synchronize"]
    assert diary == one * 4
