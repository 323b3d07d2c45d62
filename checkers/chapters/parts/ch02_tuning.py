"""Watches Triton's autotuner while an answer is called with one shape after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock


class TuningError(Exception):
    """The autotuner was not used as it should be; the text says how."""


@dataclass(frozen=True)
class Launch:
    """One launch of an autotuned kernel: what for, and whether configurations were timed."""

    tuner: Any
    M: int
    N: int
    tuned: bool


@dataclass
class Watched:
    """The launches seen so far. shape: (M, N) of the matrix that is worked on now."""

    shape: tuple[int, int] = (0, 0)
    launches: tuple[Launch, ...] = ()


@contextmanager
def watched_tuners() -> Iterator[Watched]:
    """Within, every autotuner starts without results, and its launches are noted."""
    from triton.runtime.autotuner import Autotuner

    watched = Watched()
    launch = Autotuner.run

    def run(self: Any, *arguments: Any, **options: Any) -> Any:
        if all(seen.tuner is not self for seen in watched.launches):
            self.cache.clear()
        before = len(self.cache)
        result = launch(self, *arguments, **options)
        seen = Launch(self, *watched.shape, tuned=len(self.cache) > before)
        watched.launches += (seen,)
        return result

    with mock.patch.object(Autotuner, "run", run):
        yield watched


def call_in_sequence(function: Callable, arguments: tuple) -> Any:
    """Calls the answer on each matrix in turn; for more than one, the tuning is judged as well.

    Raises TuningError.
    """
    if len(arguments) == 1:
        return function(*arguments)
    with watched_tuners() as watched:
        results = []
        for x in arguments:
            watched.shape = tuple(x.shape)
            results.append(function(x))
    judge(watched.launches)
    return tuple(results)


def judge(launches: tuple[Launch, ...]) -> None:
    """Raises TuningError for the first thing that is wrong with the tuning."""
    if not launches:
        raise TuningError("no autotuned kernel was launched")
    for number, later in enumerate(launches):
        if len(later.tuner.configs) < 2:
            raise TuningError("an autotuner has a single configuration: there is nothing to choose")
        for earlier in launches[:number]:
            if earlier.tuner is later.tuner:
                compare(earlier, later)


def compare(earlier: Launch, later: Launch) -> None:
    """Two launches of one kernel."""
    if earlier.N == later.N and later.tuned:
        raise TuningError(
            f"the configurations were timed again when only the number of rows changed, from "
            f"{earlier.M} to {later.M}"
        )
    if 2 * earlier.N < later.N and earlier.tuned and not later.tuned:
        raise TuningError(
            f"the configuration chosen for rows of {earlier.N} elements was kept for rows of "
            f"{later.N}"
        )
