"""Runs tests/gpu and writes what happened to docs/data/gpu_tests_GPU.json.

    python tests/gpu/record.py [--out FILE] [--add] [--seconds N] [pytest options]

With --add the rows of tests that don't run this time are kept, so that a long run can be split;
with --seconds no test starts after that many seconds.

Exits as pytest does. The rows are one a test: test, outcome, seconds, and the properties that the
test recorded (a reference's speed ratios).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from checkers.bench import as_text  # noqa: E402
from checkers.machine import describe_machine  # noqa: E402


class Recorder:
    """A pytest plugin that keeps one row a test."""

    def __init__(self, seconds: float) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.session: pytest.Session | None = None
        self.deadline = time.monotonic() + seconds

    def pytest_runtest_logfinish(self) -> None:
        if time.monotonic() > self.deadline and self.session is not None:
            self.session.shouldstop = "the time is up; run the rest with --add"

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self.session = session

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        row = self.rows.setdefault(
            report.nodeid, {"test": report.nodeid, "outcome": "passed", "seconds": 0.0}
        )
        row["seconds"] = round(row["seconds"] + report.duration, 2)
        if report.outcome != "passed":
            row["outcome"] = report.outcome
            row["reason"] = _reason(report)
        if report.when == "call":
            row.update(report.user_properties)


def _reason(report: pytest.TestReport) -> str:
    if isinstance(report.longrepr, tuple):  # a skip: (file, line, reason)
        return report.longrepr[2]
    lines = [line for line in report.longreprtext.splitlines() if line.startswith("E ")]
    return "\n".join(line[1:].strip() for line in lines)[:2000]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--add", action="store_true")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    known, options = parser.parse_known_args()
    recorder = Recorder(known.seconds)
    arguments = ["-q", f"--rootdir={ROOT}", str(ROOT / "tests" / "gpu"), *options]
    if importlib.util.find_spec("pytest_timeout") is None:
        # pyproject.toml sets a timeout, which pytest without that plugin refuses to read.
        arguments += ["-c", os.devnull]
    status = pytest.main(arguments, plugins=[recorder])
    machine = describe_machine()
    name = str(machine["gpu"] or "none").split()[-1].lower()
    out = known.out or ROOT / "docs" / "data" / f"gpu_tests_{name}.json"
    if known.add and out.exists():
        earlier = json.loads(out.read_text(encoding="utf-8"))["rows"]
        recorder.rows = {row["test"]: row for row in earlier} | recorder.rows
    rows = [recorder.rows[test] for test in sorted(recorder.rows)]
    outcomes = [row["outcome"] for row in rows]
    counts = {word: outcomes.count(word) for word in ("passed", "failed", "skipped")}
    data = {"schema": 1, "machine": machine, "summary": counts, "rows": rows}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(as_text(data), encoding="utf-8")
    assert json.loads(out.read_text(encoding="utf-8")) == data
    print(f"{counts}, written to {out}")
    return int(status)


if __name__ == "__main__":
    raise SystemExit(main())
