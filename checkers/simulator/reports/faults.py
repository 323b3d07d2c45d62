"""Faults: what a kernel did wrong, who did it, and where in the learner's source.

The parts of the machine call ``wave.faults.report(...)`` and go on as well as they can. Equal
faults, of one kind at one pair of places in the source, are one fault with a count: 4096 threads
with an index too many make one lesson, and so do the 16 copies of an unrolled loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from checkers.simulator.ptx.program import Instruction, Place
from checkers.simulator.reports.fault_kinds import Kind, Severity
from checkers.simulator.reports.places import (
    learners_place,
    place_and_opcode,
    place_to_json,
    ptx_to_json,
    source_line,
)
from checkers.simulator.reports.wrapping import cut, sentence, where
from checkers.wrapping import wrap

if TYPE_CHECKING:
    from checkers.simulator.machine.group import Group
    from checkers.simulator.machine.wave import Wave

__all__ = [
    "Access",
    "Fault",
    "Faults",
    "Kind",
    "Severity",
    "Stop",
    "Who",
    "by_cause",
    "in_short",
    "learners_place",
]

DISTINCT_FAULTS = 20  # a kernel with more has one cause, seen from 20 sides
WIDTH = 80


class Stop(Exception):
    """The run can't go on (a deadlock, a trap), or has nothing more to teach (too many faults).

    The faults reported so far stay. ``str()`` says why, for the report.
    """


@dataclass(frozen=True)
class Access:
    """The other side of a fault.

    thread: flat index in the wave, None for an engine that no thread stands for.
    what: in words, "TMA load into shared memory", "store to x[3]".
    """

    thread: int | None
    site: Instruction | None
    what: str


@dataclass(frozen=True)
class Who:
    """A thread. thread: (x, y, z) in its block; block: (x, y, z) in the grid; lane in its warp."""

    thread: tuple[int, int, int]
    warp: int
    lane: int
    block: tuple[int, int, int]

    def __str__(self) -> str:
        thread = self.thread if any(self.thread[1:]) else self.thread[0]
        block = self.block if any(self.block[1:]) else self.block[0]
        return f"thread {thread} (warp {self.warp}, lane {self.lane}) of block {block}"

    def to_json(self) -> dict[str, Any]:
        return {
            "thread": list(self.thread),
            "warp": self.warp,
            "lane": self.lane,
            "block": list(self.block),
        }


@dataclass(frozen=True)
class OtherAccess:
    """An ``Access`` made readable: it outlives the wave that its thread index belongs to."""

    what: str
    who: Who | None
    site: Instruction | None

    @property
    def place(self) -> Place | None:
        return learners_place(self.site)

    def to_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "who": self.who.to_json() if self.who else None,
            "place": place_to_json(self.place),
            "ptx": ptx_to_json(self.site),
        }


@dataclass
class Fault:
    """One lesson: a kind of fault at one place (and one other, where there are two).

    message: a sentence about the first time that it happened.  who: that first thread, None for
    a fault of no thread.  count: how many times a thread did it.  details: numbers and names for
    the grader and for JSON (tensor, index, shape, bytes...), of the first time; a list of sentences
    under "waiting" (who waits for what) is shown with the fault.  also: where they wait, in order.
    follows: a fault that was found before, and without which this one would not be.
    """

    kind: Kind
    severity: Severity
    message: str
    kernel: str
    who: Who | None = None
    site: Instruction | None = None
    other: OtherAccess | None = None
    count: int = 1
    details: dict[str, Any] = field(default_factory=dict)
    also: tuple[Instruction, ...] = ()
    follows: Fault | None = None

    @property
    def root(self) -> Fault:
        """The fault that this one follows from in the end; itself where it follows from none."""
        return self if self.follows is None else self.follows.root

    @property
    def place(self) -> Place | None:
        """Where in the learner's source, if the PTX says so."""
        return learners_place(self.site)

    @property
    def source(self) -> str:
        """The text of that line, "" if unknown."""
        return source_line(self.place)

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR

    def __str__(self) -> str:
        return self.text()

    def to_json(self) -> dict[str, Any]:
        """Plain data; the fields are described in report.py's schema."""
        lore = self.kind.lore
        return {
            "kind": str(self.kind),
            "severity": str(self.severity),
            "title": lore.title,
            "message": self.message,
            "meaning": lore.meaning,
            "causes": list(lore.causes),
            "reread": list(lore.reread),
            "kernel": self.kernel,
            "who": self.who.to_json() if self.who else None,
            "place": place_to_json(self.place),
            "ptx": ptx_to_json(self.site),
            "other": self.other.to_json() if self.other else None,
            "count": self.count,
            "details": _plain(self.details),
            "also": [place_to_json(learners_place(site)) for site in self.also],
        }

    def text(self, width: int = WIDTH, lore: bool = True) -> str:
        """The lesson for a terminal, in lines of at most ``width`` (source lines are cut).

        lore: with what the kind means and usually comes from.
        """
        head = "NOTE " if self.severity is Severity.NOTE else "FAULT"
        times = f" ({self.count} times)" if self.count > 1 else ""
        lines = [f"{head}  {self.kind.title}{times}", *wrap("  ", sentence(self.message), width)]
        for words, site in zip_longest(self.details.get("waiting", ()), self.also):
            lines += wrap("         - ", words, width)
            quoted = source_line(learners_place(site))
            lines += [cut(f"           > {quoted}", width)] if quoted else []
        who = [str(self.who)] if self.who else []
        who += [f"kernel {self.kernel}"] if self.kernel else []
        lines += wrap("  who    ", ", ".join(who), width)
        lines += where("  where  ", self.place, self.site, width)
        if self.other:
            by = f", by {self.other.who}" if self.other.who else ""
            lines += wrap("  other  ", f"{self.other.what}{by}", width)
            lines += where("         ", self.other.place, self.other.site, width)
        lines += self._lore(width) if lore else []
        return "\n".join(lines)

    def _lore(self, width: int) -> list[str]:
        """What the kind means, what it usually comes from, and which chapter explains it."""
        lines = wrap("  why    ", self.kind.lore.meaning, width)
        lead = "  usual  "
        for cause in self.kind.lore.causes:
            lines += wrap(f"{lead}- ", cause, width)
            lead = " " * len(lead)
        if self.kind.lore.reread:
            lines += wrap("  reread ", ", ".join(self.kind.lore.reread), width)
        return lines


class Faults:
    """The faults of a launch. One object serves all its waves: the machine sets ``wave``.

    limit: of distinct errors, after which ``report`` raises Stop. As many notes are kept, the
    others are counted in ``notes_dropped``.
    """

    def __init__(self, wave: Wave | None = None, limit: int = DISTINCT_FAULTS):
        self.wave = wave
        self.limit = limit
        self.notes_dropped = 0
        self._found: dict[tuple[Any, ...], Fault] = {}

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._found.values())

    def __len__(self) -> int:
        return len(self._found)

    @property
    def errors(self) -> list[Fault]:
        return [fault for fault in self._found.values() if fault.is_error]

    @property
    def notes(self) -> list[Fault]:
        return [fault for fault in self._found.values() if not fault.is_error]

    def report(
        self,
        kind: Kind,
        message: str,
        *,
        group: Group | None = None,
        thread: int | None = None,
        site: Instruction | None = None,
        other: Access | None = None,
        details: dict[str, Any] | None = None,
        also: tuple[Instruction, ...] = (),
        severity: Severity = Severity.ERROR,
        times: int = 1,
        follows: Fault | None = None,
    ) -> Fault:
        """Note that a thread did wrong, or ``times`` threads, of which ``thread`` was the first.

        group: narrowed to the lanes at fault; gives the site, the first thread and the count,
        where these are not given.  thread: flat index in the wave.  message: a sentence about the
        first of them.  follows: the fault that it follows from; a fault that does not each time
        follows from none.  Raises Stop with the fault that is one of ``limit``.
        """
        if group is not None:
            site = site or group.site
            if thread is None:
                threads = group.threads()
                thread, times = int(threads[0]), len(threads)
        tensor = (details or {}).get("tensor")
        key = (
            kind,
            place_and_opcode(site),
            place_and_opcode(other.site) if other else None,
            tensor,
            severity,
        )
        known = self._found.get(key)
        if known is not None:
            known.count += times
            if follows is None:
                known.follows = None
            return known
        fault = Fault(
            kind=kind,
            severity=severity,
            message=message,
            kernel=self._kernel(),
            who=self.who(thread),
            site=site,
            other=OtherAccess(other.what, self.who(other.thread), other.site) if other else None,
            count=times,
            details=dict(details or {}),
            also=also,
            follows=follows.root if follows is not None and severity is Severity.ERROR else None,
        )
        if severity is Severity.NOTE and len(self.notes) >= self.limit:
            self.notes_dropped += 1
            return fault
        self._found[key] = fault
        if severity is Severity.ERROR and len(self.errors) >= self.limit:
            raise Stop(f"{self.limit} different faults: the run stops here")
        return fault

    def who(self, thread: int | None) -> Who | None:
        """The thread with this flat index in the present wave."""
        wave = self.wave
        if thread is None or wave is None:
            return None
        warp, lane = divmod(int(thread), 32)
        block, warp = divmod(warp, wave.warps_per_block)
        width, height, _ = wave.launch.block
        linear = warp * 32 + lane
        place = (linear % width, linear // width % height, linear // (width * height))
        x, y, z = (int(i) for i in wave.block_ids[block])
        return Who(place, warp, lane, (x, y, z))

    def _kernel(self) -> str:
        return self.wave.launch.title if self.wave is not None else ""


def by_cause(faults: Iterable[Fault]) -> list[tuple[Fault, list[Fault]]]:
    """Faults that follow from no other, errors before notes, each with those that follow from it."""
    found = list(faults)
    here = {id(fault) for fault in found}
    roots = {id(f): f.root if id(f.root) in here else f for f in found}
    leads = sorted((f for f in found if roots[id(f)] is f), key=lambda fault: not fault.is_error)
    return [(f, [g for g in found if g is not f and roots[id(g)] is f]) for f in leads]


def in_short(fault: Fault) -> str:
    """A fault in a few words: "The copy had not landed yet, line 41"."""
    place = fault.place
    at = f", line {place.line}" if place else f", PTX line {fault.site.line}" if fault.site else ""
    return f"{fault.kind.title}{at}"


def _plain(value: Any) -> Any:
    """``value`` as JSON can hold it: NumPy's numbers and tuples made plain."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(item) for item in value]
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return value.item() if hasattr(value, "item") else str(value)
