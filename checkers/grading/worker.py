"""Runs jobs in a child of a warm zygote, under a time limit, and says in words how they end."""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PACKAGE_ROOT = Path(__file__).resolve().parents[2]
TAIL = 2000  # characters of printed output that a report shows
STACK = "Timeout (0:"  # how faulthandler begins what it writes when time is up


class WorkerError(Exception):
    """The worker itself failed, not the answer; the text says what to do."""


@dataclass
class Ending:
    """How a job ended.

    kind: "done", "timeout", "exit" (code or signal in ``detail``).
    events: what the job reported, in order.  printed: the end of what it printed.
    limit: the seconds that were not enough.  stack: where it was then, innermost call first.
    """

    kind: str
    seconds: float
    events: list[dict[str, Any]] = field(default_factory=list)
    detail: str = ""
    printed: str = ""
    limit: float = 0.0
    stack: str = ""


class Worker:
    """One zygote, started on first use, restarted if it dies. Not thread-safe."""

    def __init__(self, environment: dict[str, str], preload: Sequence[str] = ("torch",)) -> None:
        self.environment = environment
        self.preload = tuple(preload)
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""

    def run(
        self,
        target: str,
        job: dict[str, Any],
        limit_s: float,
        preload: Sequence[str] = (),
        on_event: Callable[[dict[str, Any]], None] | None = None,
    ) -> Ending:
        """Runs the function named ``target`` ("package.module.function") on ``job`` in a child.

        The limit starts when the child does, so importing libraries does not count. An event with
        ``within`` gives the next one so many seconds, if they end before the limit does.
        Raises WorkerError when the zygote can't start.
        """
        process = self._started()
        nonce = secrets.token_hex(8)
        with tempfile.TemporaryDirectory(prefix="ladder-") as folder:
            printed = Path(folder, "printed")
            line = json.dumps(
                {
                    **job,
                    "run": target,
                    "nonce": nonce,
                    "limit": limit_s,
                    "preload": [*self.preload, *preload],
                    "printed": str(printed),
                    "scratch": folder,
                }
            )
            assert process.stdin is not None
            try:
                process.stdin.write(line.encode() + b"\n")
                process.stdin.flush()
                ending = self._follow(nonce, limit_s, on_event)
            except BaseException:
                self.close()  # an interrupted job's child must not outlive it
                raise
            text = printed.read_text(errors="replace") if printed.exists() else ""
        if ending.kind == "timeout" and STACK in text:
            text, _, ending.stack = text.rpartition(STACK)
        ending.printed = text if len(text) <= TAIL else "...\n" + text[-TAIL:]
        return ending

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            environment = {**os.environ, **self.environment}
            paths = [str(PACKAGE_ROOT), environment.get("PYTHONPATH", "")]
            environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
            self._buffer = b""
            self._process = subprocess.Popen(
                [sys.executable, "-m", "checkers.grading.zygote"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                start_new_session=True,
            )
        return self._process

    def _follow(
        self, nonce: str, limit_s: float, on_event: Callable[[dict[str, Any]], None] | None
    ) -> Ending:
        begun = time.monotonic()
        deadline = float("inf")
        ending = Ending("done", 0.0, limit=limit_s)
        pid, broken = 0, ""
        while True:
            event = self._next_event(deadline)
            if event is None:
                os.killpg(pid, signal.SIGKILL)
                ending.kind, deadline = "timeout", float("inf")
                continue
            if event.get("nonce") != nonce:
                continue  # an answer may write to any descriptor that it finds
            if event["event"] == "started":
                pid, begun = event["pid"], time.monotonic()
                deadline = begun + limit_s
            elif event["event"] == "broken":
                broken = event["traceback"]
            elif event["event"] == "exited":
                ending.seconds = time.monotonic() - begun
                if broken:
                    raise WorkerError(f"the grader itself failed, not the answer:\n{broken}")
                if ending.kind == "done" and event["status"] != 0:
                    ending.kind, ending.detail = "exit", describe_status(event["status"])
                return ending
            else:
                ending.events.append(event)
                if ending.kind == "done":
                    left = begun + limit_s - time.monotonic()
                    within = event.get("within", left)
                    ending.limit = within if within < left else limit_s
                    deadline = time.monotonic() + min(within, left)
                if on_event is not None:
                    on_event(event)

    def _next_event(self, deadline: float) -> dict[str, Any] | None:
        """The next event, or None when the deadline comes first.

        Raises WorkerError when the zygote died.
        """
        assert self._process is not None and self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._buffer:
            wait = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([descriptor], [], [], None if wait > 1e9 else wait)
            if not ready:
                return None
            chunk = os.read(descriptor, 1 << 16)
            if not chunk:
                code = self._process.wait()
                self._process = None
                raise WorkerError(
                    f"the grading process could not go on ({describe_code(code)}); its message "
                    "stands above. `ladder doctor` checks the installation."
                )
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            event = json.loads(line)
        except ValueError:
            return {}
        return event if isinstance(event, dict) else {}

    def close(self) -> None:
        """Ends the zygote and any child of it."""
        if self._process is not None:
            self._process.kill()  # its children are told to die with it
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
            self._process = None


def describe_status(status: int) -> str:
    """A wait status in words."""
    return describe_code(os.waitstatus_to_exitcode(status))


def describe_code(code: int) -> str:
    """An exit code, or a negative signal number, in words."""
    if code < 0:
        name = signal.Signals(-code).name
        meaning = {
            "SIGSEGV": "a segmentation fault: memory outside of what was allocated was touched",
            "SIGABRT": "aborted: a library found an error that it can't go on from",
            "SIGKILL": "killed from outside: most often the machine ran out of memory",
            "SIGFPE": "an integer division by zero in compiled code",
            "SIGBUS": "a bus error: memory that is not there was touched",
        }
        return f"signal {name}, {meaning[name]}" if name in meaning else f"signal {name}"
    return f"exit code {code}"
