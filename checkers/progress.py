"""What a learner has done so far, in ``<course>/.ladder/``: plain files, on this machine only.

    .ladder/progress.json             best and latest outcome, hints taken, for each exercise
    .ladder/answers/ch02.row_softmax/ every distinct answer that was graded, oldest first

Every change is written to a temporary file that then replaces the old one, so an interrupted run
leaves the state before or after an exercise, never half of one. A file that cannot be read, or
that a newer version of the course wrote, is moved aside and named in a warning, never overwritten.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

try:
    import fcntl
except ImportError:  # Windows: two commands at the same moment are then not kept apart
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:  # checkers.exercise imports torch; progress must be readable without it
    from checkers.exercise import Report

SCHEMA = 1
NOT_ATTEMPTED = "not_attempted"
# A pass outranks any failure; among equals the points decide.
_RANK = {"not_attempted": 0, "fail": 1, "undecided": 2, "pass": 3}


def _replaces(new: Outcome, best: Outcome | None) -> bool:
    """Whether a report is to be the best one: it is at least as good, or it is the first that ran
    an answer of which only the compiling had passed."""
    return best is None or _key(new) >= _key(best) or (new.ran and not best.ran)


class ProgressWarning(UserWarning):
    """Something about the stored progress that the learner should know; nothing was lost."""


@dataclass(frozen=True)
class Outcome:
    """What is remembered of one report. ``date``: ISO 8601, local time with its offset."""

    verdict: str
    points: int
    max_points: int
    open_points: int
    seed: int
    date: str
    ran: bool = True  # the answer was run on cases, not only compiled


@dataclass(frozen=True)
class Entry:
    """Everything remembered about one exercise."""

    best: Outcome | None = None
    last: Outcome | None = None
    attempts: int = 0
    hints: int = 0
    solution_shown: bool = False

    @property
    def status(self) -> str:
        """The verdict of the best report, "not_attempted" before the first."""
        return self.best.verdict if self.best else NOT_ATTEMPTED


@dataclass(frozen=True)
class SavedAnswer:
    """One distinct answer as the learner wrote it."""

    path: Path
    source: str


@dataclass
class Progress:
    """The stored progress of the course at ``root``. Cheap to make; reads the disk at each call,
    so a notebook and a terminal see each other's results."""

    root: Path
    folder: Path = field(init=False)

    def __post_init__(self) -> None:
        self.root = Path(self.root)
        self.folder = self.root / ".ladder"

    @property
    def file(self) -> Path:
        return self.folder / "progress.json"

    # ---- reading

    def entry(self, exercise_id: str) -> Entry:
        """What is remembered about an exercise; an empty Entry when nothing is."""
        return self.entries().get(exercise_id, Entry())

    def entries(self) -> dict[str, Entry]:
        """What is remembered about every exercise, by id."""
        return self._read()

    def status(self, exercise_id: str) -> str:
        """ "pass", "fail", "undecided" or "not_attempted": the best report so far."""
        return self.entry(exercise_id).status

    def hints_shown(self, exercise_id: str) -> int:
        """How many hints of the exercise the learner has seen."""
        return self.entry(exercise_id).hints

    def answers(self, exercise_id: str) -> list[SavedAnswer]:
        """Every distinct answer that was saved, oldest first."""
        paths = sorted((self.folder / "answers" / exercise_id).glob("[0-9]*.py"))
        return [SavedAnswer(path, path.read_bytes().decode("utf-8")) for path in paths]

    # ---- writing

    def record(self, report: Report) -> Entry:
        """Remember a report at once; returns the exercise's new entry. A report that says "not
        attempted" changes nothing."""
        if report.verdict.value == NOT_ATTEMPTED:
            return self.entry(report.id)
        outcome = Outcome(
            verdict=report.verdict.value,
            points=report.points,
            max_points=report.max_points,
            open_points=report.open_points,
            seed=report.seed,
            date=_now(),
            ran=any(s.name == "run" and s.verdict.value != "skip" for s in report.stages),
        )
        with self._locked():
            entries = self._read()
            old = entries.get(report.id, Entry())
            best = outcome if _replaces(outcome, old.best) else old.best
            entries[report.id] = _changed(old, best=best, last=outcome, attempts=old.attempts + 1)
            self._write(entries)
            return entries[report.id]

    def show_next_hint(self, exercise_id: str, available: int = 3) -> int:
        """Count one more hint as seen, up to ``available``; returns its index, from 0. When all
        have been seen the last one's index is returned again."""
        with self._locked():
            entries = self._read()
            old = entries.get(exercise_id, Entry())
            hints = min(old.hints + 1, available)
            if hints != old.hints:
                entries[exercise_id] = _changed(old, hints=hints)
                self._write(entries)
            return hints - 1

    def mark_solution_shown(self, exercise_id: str) -> None:
        """Remember that the reference was shown."""
        with self._locked():
            entries = self._read()
            entries[exercise_id] = _changed(entries.get(exercise_id, Entry()), solution_shown=True)
            self._write(entries)

    def save_answer(self, exercise_id: str, source: str) -> Path:
        """Keep an answer's source; returns its file. One that was saved before is not written
        twice; empty lines at its end make no difference."""
        source = source.rstrip("\r\n") + "\n"
        with self._locked():
            known = self.answers(exercise_id)
            for answer in known:
                if answer.source == source:
                    return answer.path
            folder = self.folder / "answers" / exercise_id
            folder.mkdir(parents=True, exist_ok=True)
            stamp = datetime.now().strftime("%Y-%m-%d_%H%M%S")
            path = folder / f"{_next_number(known):04d}_{stamp}.py"
            _write_atomically(path, source)
            return path

    # ---- the file

    def _read(self) -> dict[str, Entry]:
        try:
            text = self.file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        except UnicodeDecodeError:
            text = ""
        try:
            stored = json.loads(text)
            schema = stored["schema"]
            if isinstance(schema, int) and schema > SCHEMA:
                self._move_aside("newer", f"it was written by a newer version (format {schema})")
                return {}
            return {name: _entry(values) for name, values in stored["exercises"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            self._move_aside("unreadable", f"it cannot be read ({type(problem).__name__})")
            return {}

    def _write(self, entries: dict[str, Entry]) -> None:
        stored = {
            "schema": SCHEMA,
            "exercises": {name: asdict(entry) for name, entry in sorted(entries.items())},
        }
        _write_atomically(self.file, json.dumps(stored, indent=1) + "\n")

    def _move_aside(self, word: str, reason: str) -> None:
        stamp = datetime.now().strftime("%Y-%m-%d_%H%M%S_%f")
        kept = self.file.with_name(f"progress.{word}.{stamp}.json")
        try:
            self.file.rename(kept)
        except FileNotFoundError:  # another command moved it first
            return
        warnings.warn(
            f"{self.file} was set aside because {reason}; progress starts afresh, your answers "
            f"are untouched. The old file is kept as {kept}.",
            ProgressWarning,
            stacklevel=4,
        )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the folder for a read, change and write; a notebook and a terminal may both run."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as handle:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield


def _key(outcome: Outcome) -> tuple[int, int]:
    return (_RANK.get(outcome.verdict, 0), outcome.points)


def _changed(entry: Entry, **changes: Any) -> Entry:
    return Entry(**{item.name: getattr(entry, item.name) for item in fields(Entry)} | changes)


def _entry(values: dict[str, Any]) -> Entry:
    outcomes = {
        name: Outcome(**values[name]) if values.get(name) else None for name in ("best", "last")
    }
    return Entry(
        attempts=int(values.get("attempts", 0)),
        hints=int(values.get("hints", 0)),
        solution_shown=bool(values.get("solution_shown", False)),
        **outcomes,
    )


def _next_number(known: list[SavedAnswer]) -> int:
    return 1 + max((int(answer.path.name.partition("_")[0]) for answer in known), default=0)


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


def _write_atomically(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
