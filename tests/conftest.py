"""What several tests share: a made-up course in a folder of its own, and the command run in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    status: int
    out: str
    err: str


Ladder = Callable[..., Outcome]


@pytest.fixture
def ladder(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ladder:
    """``ladder("check", "ch02")`` runs the command in this process, on a terminal of 80 columns."""
    from checkers.cli import run

    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments: str) -> Outcome:
        capsys.readouterr()
        status = run(list(arguments))
        captured = capsys.readouterr()
        return Outcome(status, captured.out, captured.err)

    return call


@pytest.fixture
def in_course(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """``in_course(root)`` makes ``root`` the course that the command finds."""
    return lambda root: monkeypatch.setenv("LADDER_COURSE", str(root))
