"""Runs the simulator's golden cases on the GPU of this machine and keeps what they gave.

    python3 tests/gpu/golden/record.py --out DIR [--family NAME ...] [--base DIR] [--seconds 60]

Writes recording.json and outputs.xz to DIR (a few MB at most). Each family runs in a process of its own, which
is killed after --seconds, and a new one goes on after a kernel that hangs or breaks the context.
With --base, families that are not run now are taken over from that older recording.
Needs Python, NumPy and the driver (libcuda.so.1), no toolkit. Exits 1 if any case failed.
"""

from __future__ import annotations

import argparse
import datetime
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, BinaryIO

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from tests.gpu.golden.driver import CudaError, Driver  # noqa: E402
from tests.simulator.golden.families import FAMILIES  # noqa: E402
from tests.simulator.golden.recording import Recording  # noqa: E402

# After one of these (illegal address, instruction, misaligned, ...) the context is lost: the child
# ends and a new one goes on after the case.
FATAL_CODES = ("error 700", "error 702", "error 710", *(f"error {n}" for n in range(714, 721)))

HUNG = 10.0  # seconds without a case being finished; the first includes the driver's start
ATTEMPTS = 8  # children for one family


def run_family(family: str, skip: set[str], stream: BinaryIO) -> None:
    """Runs a family's cases but ``skip``; writes a pickle of each (name, what) to ``stream``."""

    def say(name: str, what: Any) -> None:
        pickle.dump((name, what), stream)
        stream.flush()

    driver = Driver()
    say("", driver.describe())
    for case in FAMILIES[family]():
        if case.name in skip:
            continue
        buffers = case.make()
        say(case.name, "started")
        try:
            after = driver.run(case, [buffer.data for buffer in buffers])
        except CudaError as error:
            say(case.name, str(error))
            if any(code in str(error) for code in FATAL_CODES):
                return
            continue
        kept = [a.tobytes() for a, buffer in zip(after, buffers, strict=True) if buffer.keep]
        say(case.name, (case.digest(buffers), kept, case.compact))


def read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """(machine, name to result, error text or "started") of what a child has written so far."""
    machine: dict[str, Any] = {}
    results: dict[str, Any] = {}
    with path.open("rb") as stream:
        while True:
            try:
                name, what = pickle.load(stream)
            except (EOFError, pickle.UnpicklingError):
                return machine, results
            if name:
                results[name] = what
            else:
                machine = what


def record_family(family: str, seconds: float, recording: Recording) -> dict[str, str]:
    """Runs a family in children until all its cases have run. Returns name to error."""
    deadline = time.monotonic() + seconds
    errors: dict[str, str] = {}
    done: set[str] = set()
    for _ in range(ATTEMPTS):
        with tempfile.TemporaryDirectory() as folder:
            path, skip = Path(folder) / "results", Path(folder) / "skip"
            skip.write_text("\n".join(done))
            command = [
                sys.executable,
                __file__,
                "--child",
                str(path),
                str(skip),
                "--family",
                family,
            ]
            failure = run_child(command, path, deadline)
            machine, results = read(path) if path.exists() else ({}, {})
        recording.machine.update(machine)
        for name, what in results.items():
            if isinstance(what, tuple):
                digest, kept, compact = what
                recording.add(family, name, digest, kept, compact)
            else:
                errors[name] = failure or "the process ended" if what == "started" else what
        done |= set(results)
        lost = any(code in errors.get(name, "") for name in results for code in FATAL_CODES)
        if failure and not results:
            errors["(process)"] = failure
        if not results or not (failure or lost):
            return errors
        if time.monotonic() > deadline:
            break
    errors["(rest)"] = "not run: no time, or too many failures"
    return errors


def run_child(command: list[str], path: Path, deadline: float) -> str:
    """Runs a child until it ends, "" if well; kills it when it writes nothing for HUNG seconds or
    the deadline passes."""
    with tempfile.TemporaryFile("w+") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log)
        size, since = 0, time.monotonic()
        while child.poll() is None:
            now = time.monotonic()
            grown = path.stat().st_size if path.exists() else 0
            if grown != size:
                size, since = grown, now
            if now - since > HUNG or now > deadline:
                child.kill()
                child.wait()
                return f"hung: killed after {now - since:.0f} s of this case"
            time.sleep(0.05)
        log.seek(0)
        return log.read()[-2000:] or f"exit {child.returncode}" if child.returncode else ""


def driver_version() -> str:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True).stdout.strip().splitlines()[0]
    except (OSError, IndexError):
        return "unknown"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--base", type=Path)
    parser.add_argument("--family", action="append", choices=list(FAMILIES))
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    families = arguments.family or list(FAMILIES)
    if arguments.child:
        path, skip = arguments.child
        with open(path, "wb") as stream:
            run_family(families[0], set(Path(skip).read_text().splitlines()), stream)
        return 0
    if arguments.out is None:
        parser.error("--out is needed")
    recording, failed = Recording(), 0
    old = Recording.load(arguments.base) if arguments.base else None
    for family in FAMILIES:
        if family not in families:
            for name, entry in (old.cases.get(family, {}) if old else {}).items():
                kept = old.outputs[family, name]
                recording.add(family, name, entry["digest"], kept, entry.get("compact", False))
            continue
        start = time.monotonic()
        errors = record_family(family, arguments.seconds, recording)
        ran = len(recording.cases.get(family, {}))
        took = time.monotonic() - start
        print(f"{family}: {ran} recorded, {len(errors)} failed, {took:.1f} s", flush=True)
        for name, error in errors.items():
            print(f"  {family}/{name}: {error}", flush=True)
        failed += len(errors)
    recording.machine["driver"] = driver_version()
    recording.machine["date"] = datetime.date.today().isoformat()
    recording.save(arguments.out)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
