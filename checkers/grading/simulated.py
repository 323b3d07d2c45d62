"""What the simulator found, in the words of a report.

An answer's launches run under ``simulating``; each gives a Result with faults and counters. A fault
is the reason of a failure before any wrong value is: it says who, where, and with whom.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from checkers.exercise import Finding
from checkers.grading.source import line_picture
from checkers.grading.verify import Wrong
from checkers.simulator.ptx.program import Place as SourcePlace
from checkers.simulator.reports.faults import Fault, Kind, learners_place

if TYPE_CHECKING:
    from checkers.simulator.machine.run import Result

GPU = "h200"  # what CuTe DSL and Triton compile for, and what torch.cuda says
SIMULATOR = str(Path(__file__).resolve().parents[1] / "simulator")

# Shown first when there are several: what they do to memory makes others follow.
MOST_TELLING = (Kind.OUT_OF_BOUNDS, Kind.MISALIGNED)
# Faults that a GPU shows in another way, which diagnoses know.
SHOWS_AS = {Kind.OUT_OF_BOUNDS: "check:out_of_bounds", Kind.RACE: "check:race"}


class Faulty(Wrong):
    """A launch has faults; ``faults`` are its errors, the one to show first."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = sorted(faults, key=_rank)
        first = self.faults[0]
        error = " ".join(dict.fromkeys(word for fault in self.faults for word in words_of(fault)))
        super().__init__(Finding(first.message, probable=usual_cause(first)), error)

    def explained(self, text: str, file: str, first_line: int) -> Wrong:
        """The same with the learner's lines.

        text: of ``file``, where the answer ran from.  first_line: the one that the learner knows
        as line 1.
        """
        fault = self.faults[0]
        other = fault.other.place if fault.other is not None else None
        places = [fault.place, other, *map(learners_place, fault.also)]
        pictures = [_line(place, text, file, first_line) for place in places]

        def told(words: str) -> str:
            return with_learners_lines(words, first_line) if any(pictures) else words

        number = fault.place.line - first_line + 1 if fault.place and pictures[0] else 0
        where = f"line {number}: " if number > 0 else ""
        finding = Finding(
            f"{where}{told(fault.message)}",
            element=told(element_of(fault)),
            picture="\n".join(dict.fromkeys(picture for picture in pictures if picture)),
            probable=usual_cause(fault),
        )
        return Wrong(finding, self.error)


def check(results: Sequence[Result]) -> None:
    """Raises Faulty when a launch has an error, Wrong when one was stopped without."""
    faults = [fault for result in results for fault in result.faults if fault.is_error]
    if faults:
        raise Faulty(faults)
    for result in results:
        if result.stopped:
            raise Wrong(Finding(f"The kernel did not end: {result.stopped}."), "check:timeout")


def with_learners_lines(words: str, first_line: int) -> str:
    """A sentence with the lines of the file that ran told as those of the learner's cell, which
    begins at ``first_line``."""

    def told(match: re.Match[str]) -> str:
        number = int(match[1]) - first_line + 1
        return f"line {number}" if number > 0 else "a line above this cell"

    return re.sub(r"(?<!PTX )\bline (\d+)", told, words)


def words_of(fault: Fault) -> list[str]:
    """A fault as Evidence.error has it: "check:out_of_bounds", "fault:out_of_bounds"."""
    known = [SHOWS_AS[fault.kind]] if fault.kind in SHOWS_AS else []
    return [*known, f"fault:{fault.kind}"]


def element_of(fault: Fault) -> str:
    """Who did it, with whom, and how often."""
    parts = [str(fault.who)] if fault.who else []
    if fault.other is not None:
        by = f", by {fault.other.who}" if fault.other.who else ""
        parts.append(f"the other access: {fault.other.what}{by}")
    if fault.count > 1:
        parts.append(f"{fault.count} times")
    waiting = [f"\n{sentence}" for sentence in fault.details.get("waiting", ())]
    return "; ".join(parts) + "".join(waiting)


def usual_cause(fault: Fault) -> str:
    """What the kind of fault means, and its likeliest cause."""
    lore = fault.kind.lore
    return f"{lore.title}. {lore.causes[0]}"


def is_simulators_own(error: BaseException) -> bool:
    """Whether the simulator itself broke: neither the answer nor the kernel raised this."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = bool(frames) and frames[-1].filename.startswith(SIMULATOR)
    return inside and isinstance(
        error, ArithmeticError | AssertionError | AttributeError | LookupError | TypeError
    )


def _rank(fault: Fault) -> int:
    return MOST_TELLING.index(fault.kind) if fault.kind in MOST_TELLING else len(MOST_TELLING)


def _line(place: SourcePlace | None, text: str, file: str, first_line: int) -> str:
    if place is None or Path(place.file).name != Path(file).name:
        return ""
    return line_picture(text, place.line, first_line=first_line)
