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
from checkers.simulator.ptx.program import Instruction
from checkers.simulator.ptx.program import Place as SourcePlace
from checkers.simulator.reports.faults import Fault, Kind, by_cause, in_short, learners_place

if TYPE_CHECKING:
    from checkers.simulator.machine.run import Result

GPU = "h200"  # what CuTe DSL and Triton compile for, and what torch.cuda says
SIMULATOR = str(Path(__file__).resolve().parents[1] / "simulator")

# Shown first when there are several: what they do to memory makes others follow.
MOST_TELLING = (Kind.OUT_OF_BOUNDS, Kind.MISALIGNED)
# Faults that a GPU shows in another way, which diagnoses know.
SHOWS_AS = {Kind.OUT_OF_BOUNDS: "check:out_of_bounds", Kind.RACE: "check:race"}


class Faulty(Wrong):
    """Launches have faults; ``faults`` are their errors, the one to show first. causes: those that
    follow from no other, in that order, each with those that follow from it."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.causes = sorted(by_cause(faults), key=lambda cause: _rank(cause[0]))
        self.faults = [fault for lead, others in self.causes for fault in (lead, *others)]
        first = self.faults[0]
        error = " ".join(dict.fromkeys(word for fault in self.faults for word in words_of(fault)))
        super().__init__(Finding(first.message, probable=usual_cause(first)), error)

    def explained(self, text: str, file: str, first_line: int) -> Wrong:
        """The same with the learner's lines.

        text: of ``file``, where the answer ran from.  first_line: the one that the learner knows
        as line 1.
        """
        fault = self.faults[0]
        other = fault.other.site if fault.other is not None else None
        places = [_own(site, file, first_line) for site in (fault.site, other, *fault.also)]
        pictures = [_line(place, text, file, first_line) for place in places]

        def told(words: str) -> str:
            return with_learners_lines(words, first_line) if any(pictures) else words

        number = places[0].line - first_line + 1 if places[0] and pictures[0] else 0
        where = f"line {number}: " if number > 0 else ""
        finding = Finding(
            f"{where}{told(fault.message)}",
            element=told("\n".join([element_of(fault), *self._beside()])),
            picture="\n".join(dict.fromkeys(picture for picture in pictures if picture)),
            probable=usual_cause(fault),
        )
        return Wrong(finding, self.error)

    def _beside(self) -> list[str]:
        """Lines that name the faults which are not shown."""
        (_, others), *more = self.causes
        lines = []
        if others:
            some = "1 more that follows" if len(others) == 1 else f"{len(others)} more that follow"
            lines.append(f"and {some} from it: {_named(others)}")
        if more:
            some = "another fault" if len(more) == 1 else f"{len(more)} other faults"
            lines.append(f"and {some}: {_named([lead for lead, _ in more])}")
        return lines


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


def _named(faults: Sequence[Fault]) -> str:
    return "; ".join(dict.fromkeys(in_short(fault) for fault in faults))


def _rank(fault: Fault) -> int:
    return MOST_TELLING.index(fault.kind) if fault.kind in MOST_TELLING else len(MOST_TELLING)


def _own(site: Instruction | None, file: str, first_line: int) -> SourcePlace | None:
    """The innermost place of an instruction that is in the learner's cell, else in no library."""
    for place in site.places if site is not None else ():
        if Path(place.file).name == Path(file).name and place.line >= first_line:
            return place
    return learners_place(site)


def _line(place: SourcePlace | None, text: str, file: str, first_line: int) -> str:
    """The line of a place, with its number in the cell; without where it stands above it."""
    if place is None or Path(place.file).name != Path(file).name:
        return ""
    picture = line_picture(text, place.line, first_line=first_line)
    return picture if place.line >= first_line else f"     | {picture.partition(' | ')[2]}"
