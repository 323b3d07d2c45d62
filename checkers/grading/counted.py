"""The speed stage without a GPU: what a kernel moves, counted on the simulator, against its floor.

A memory-bound kernel can't be faster than the bytes that it must move. How many its warps ask for, in
whole sectors of 32 bytes, does not depend on the machine. (An L1 cache may serve some of them twice:
a kernel that counts on it is not what these chapters teach.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from checkers.exercise import Exercise, Finding, Floor, Stage, Verdict
from checkers.grading.cases import AnswerRaised, CaseRunner, Place, generator_for
from checkers.grading.simulated import Faulty, check
from checkers.simulator.reports.counters import Counters, Derived

FULL_SECTORS = 0.9  # below, what is moved is not what is asked for


@dataclass(frozen=True)
class Counted:
    """What a case asked for. needed: bytes that have to move."""

    floor: Floor
    counters: Counters
    needed: int

    @property
    def derived(self) -> Derived:
        return Derived(self.counters)

    @property
    def ratio(self) -> float:
        """Bytes asked for, in whole sectors, over bytes needed."""
        return self.derived.global_bytes / self.needed

    @property
    def enough(self) -> bool:
        return self.ratio <= self.floor.at_most

    @property
    def sentence(self) -> str:
        efficiency = self.derived.sector_efficiency
        full = f", {efficiency:.0%} of each sector is wanted" if efficiency is not None else ""
        return f"asks for {self.ratio:.2f} times the bytes that must move{full}"

    def measures(self) -> dict[str, Any]:
        derived = self.derived
        found = {
            "case": self.floor.case.name,
            "ratio": self.ratio,
            "pass": self.floor.at_most,
            "bytes_moved": derived.global_bytes,
            "bytes_needed": self.needed,
            "sector_efficiency": derived.sector_efficiency,
            "bytes_per_load": derived.bytes_per_load,
            "bytes_per_store": derived.bytes_per_store,
        }
        return {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in found.items()
            if value is not None
        }


def stage_for(
    exercise: Exercise, function: Callable[..., Any], job: Mapping[str, Any], place: Place
) -> Stage:
    """Counts every floor of the exercise; the worst one decides.

    function: an answer that was right on every case.  place: the simulator.
    """
    began = time.monotonic()
    counted = []
    for floor in exercise.floors:
        try:
            counted.append(count(exercise, function, floor, job["seed"], place))
        except AnswerRaised as raised:
            says = f"{type(raised.__cause__).__name__}: {raised.__cause__}".partition("\n")[0]
            return _failed(exercise, floor, f"raised while it was counted: {says}", "", began)
        except Faulty as faulty:
            finding = faulty.finding
            return _failed(exercise, floor, finding.summary, finding.probable, began)
    worst = max(counted, key=lambda each: each.ratio / each.floor.at_most)
    measures = {"counted": True, "cases": [each.measures() for each in counted]}
    name = f"{worst.floor.case.name}: " if len(counted) > 1 else ""
    if not worst.enough:
        reason = f"{name}{worst.sentence}; at most {worst.floor.at_most:.2f} times are asked"
        return _failed(exercise, worst.floor, reason, explain(worst), began, measures)
    reason = f"{name}{worst.sentence} (counted on the simulator; a GPU would time it)"
    return Stage("speed", Verdict.PASS, reason, time.monotonic() - began, measures)


def count(
    exercise: Exercise, function: Callable[..., Any], floor: Floor, seed: int, place: Place
) -> Counted:
    """Runs one case and adds up what its launches counted. Raises AnswerRaised and Faulty."""
    arguments = exercise.inputs(floor.case, generator_for(seed, floor.case, 0))
    given = tuple(place.give(a) if isinstance(a, torch.Tensor) else a for a in arguments)
    CaseRunner(exercise, place, floor.case, seed).call(function, given)
    check(place.results)
    counters = Counters()
    for result in place.results:
        counters.merge(result.counters)
    return Counted(floor, counters, floor.work(arguments))


def explain(counted: Counted) -> str:
    """What a kernel that asks for so much probably does."""
    efficiency = counted.derived.sector_efficiency
    if efficiency is not None and efficiency < FULL_SECTORS:
        return (
            f"Of every 32 bytes that the memory hands over {32 * efficiency:.0f} are wanted: "
            "neighbouring threads don't access neighbouring addresses. Let thread i take what lies "
            "behind what thread i - 1 takes."
        )
    return (
        "Something is moved more than once: an input is read by several threads or twice by one, or "
        "an intermediate result goes to memory and comes back."
    )


def _failed(
    exercise: Exercise,
    floor: Floor,
    reason: str,
    probable: str,
    began: float,
    measures: Mapping[str, Any] | None = None,
) -> Stage:
    finding = Finding(reason, case=str(floor.case), probable=probable, reread=exercise.section)
    seconds = time.monotonic() - began
    return Stage("speed", Verdict.FAIL, reason, seconds, dict(measures or {}), finding)
