"""Speed targets: ratios to a ruler that an answer must reach, and where each number came from.

They stand in ``checkers/thresholds.toml``, a ``[[target]]`` table each, which ``ladder calibrate``
rewrites. ``Thresholds.read`` reads it, ``Thresholds.find`` looks one up, ``Thresholds.write`` writes it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parent / "thresholds.toml"

_HEADER = """\
# Speed targets, as ratios to a ruler measured in the same run: an answer must reach `pass`.
# `ladder calibrate` measures `reference`, the reference solution's own ratio on this machine's GPU,
# and writes this file; docs/benchmarking.md says how. A target without `case` holds for all cases of
# its exercise that have none. One that says `verified = false` hasn't been measured on such a
# GPU: it only advises.
"""

# TOML key of each field, in the order of the file. `pass` is a keyword in Python.
_KEYS = {"pass_ratio": "pass"}


@dataclass(frozen=True)
class Target:
    """A ratio to reach.

    exercise: "ch02.row_softmax".  case: name of a SpeedTarget's case, "" for all others.
    arch: "sm_90".  ruler: a name in grading/rulers.py.
    pass_ratio: what an answer must reach.  reference: what the reference solution reached, None
    before it was measured.  verified: it was, and stands above pass_ratio.
    gpu ... samples: of that measurement.
    """

    exercise: str
    arch: str
    pass_ratio: float
    case: str = ""
    ruler: str = "copy"
    reference: float | None = None
    verified: bool = False
    gpu: str = ""
    driver: str = ""
    torch: str = ""
    triton: str = ""
    cutlass_dsl: str = ""
    date: str = ""
    samples: int = 0

    @property
    def key(self) -> tuple[str, str, str]:
        return self.arch, self.exercise, self.case


@dataclass(frozen=True)
class Found:
    """A target that was looked up. binding: it was measured on this architecture."""

    target: Target
    binding: bool


@dataclass(frozen=True)
class Thresholds:
    """All targets of a course."""

    targets: tuple[Target, ...]

    @classmethod
    def read(cls, path: Path = FILE) -> Thresholds:
        """The targets in a file; none when it doesn't exist. Raises ValueError, naming the file and
        the target, when one has an unknown key or lacks one."""
        if not path.exists():
            return cls(())
        with path.open("rb") as file:
            try:
                data = tomllib.load(file)
                return cls(tuple(_target(table) for table in data.get("target", [])))
            except (tomllib.TOMLDecodeError, ValueError) as error:
                raise ValueError(f"{path}: {error}") from error

    def find(self, exercise: str, case: str, arch: str) -> Found | None:
        """The target for a case: its own entry, else its exercise's default; of this architecture,
        else of another one, which doesn't bind. None when the exercise has no target at all."""
        for same_arch in (True, False):
            for name in (case, ""):
                for target in self.targets:
                    if (target.exercise, target.case) != (exercise, name):
                        continue
                    if same_arch and target.arch == arch:
                        return Found(target, target.verified)
                    if not same_arch:
                        return Found(target, False)
        return None

    def updated(self, targets: Iterable[Target]) -> Thresholds:
        """These targets, with those of the same architecture, exercise and case replaced."""
        merged = {target.key: target for target in self.targets}
        merged.update((target.key, target) for target in targets)
        return Thresholds(tuple(merged[key] for key in sorted(merged)))

    def write(self, path: Path = FILE) -> None:
        """Writes the file in full, in the order of architecture, exercise and case."""
        tables = [_toml(target) for target in sorted(self.targets, key=lambda one: one.key)]
        path.write_text("\n".join([_HEADER, *tables]), encoding="utf-8")


def _target(table: dict[str, Any]) -> Target:
    names = {_KEYS.get(name, name): name for name in Target.__dataclass_fields__}
    unknown = [key for key in table if key not in names]
    if unknown:
        raise ValueError(f"target of {table.get('exercise')!r} has an unknown key {unknown[0]!r}")
    missing = [key for key in ("exercise", "arch", "pass") if key not in table]
    if missing:
        raise ValueError(f"target of {table.get('exercise')!r} lacks {missing[0]!r}")
    return Target(**{names[key]: found for key, found in table.items()})


def _toml(target: Target) -> str:
    lines = ["[[target]]"]
    for name, found in asdict(target).items():
        if found in ("", None) or (name == "samples" and not found):
            continue
        # Strings, numbers and booleans are written alike in JSON and TOML.
        lines.append(f"{_KEYS.get(name, name)} = {json.dumps(found, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"
