"""A warm process that forks one child a job. Run as ``python -m checkers.grading.zygote``.

Importing PyTorch, Triton and CuTe DSL takes seconds; a fork of a process that has them takes
milliseconds. The zygote never touches CUDA, so that each child can start it afresh, and a child's
crash, exit or poisoned context is that child's alone.

Jobs come in as lines of JSON on standard input. Events go out as lines of JSON on what was
standard output: ``started`` with the child's pid, whatever the job reports, ``exited`` with its
wait status. What the answer prints goes to the file that the job names.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1  # prctl(2): the child dies with the zygote


def emitter(descriptor: int, nonce: str) -> Callable[..., None]:
    """A function that writes one event as a line of JSON to ``descriptor``."""

    def emit(event: str, **fields: Any) -> None:
        line = json.dumps({"event": event, "nonce": nonce, **fields}) + "\n"
        view = memoryview(line.encode())
        while view:
            view = view[os.write(descriptor, view) :]

    return emit


def tracing(emit: Callable[..., None], limit: float) -> Callable[..., None]:
    """``emit``; and just before the grader's patience ends, with the limit or ``within`` seconds of
    an event, the place where the answer is then is written to descriptor 2."""
    end = time.monotonic() + limit

    def arm(within: float) -> None:
        wait = min(within, end - time.monotonic())
        faulthandler.dump_traceback_later(max(0.5, wait - 0.5), file=2)

    def emit_and_arm(event: str, **fields: Any) -> None:
        emit(event, **fields)
        arm(fields.get("within", limit))

    arm(limit)
    return emit_and_arm


def serve(events: int) -> None:
    """Runs jobs until standard input ends."""
    for line in sys.stdin:
        job = json.loads(line)
        for name in job["preload"]:
            importlib.import_module(name)
        emit = emitter(events, job["nonce"])
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            emit("broken", traceback=f"importing {job['preload']} started CUDA in the zygote")
        pid = os.fork()
        if pid == 0:
            child(job, events)
        emit("started", pid=pid)
        emit("exited", status=status_of(pid))


def status_of(pid: int) -> int:
    """The child's wait status when it has ended. If the grader ends first, killed perhaps, nobody
    is left to limit the child: it is killed, and this process exits."""
    ended = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(sys.stdin.fileno(), 0)  # told of its other end's closing only
    ready = {descriptor for descriptor, _ in poll.poll()}
    os.close(ended)
    if sys.stdin.fileno() in ready:
        os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):  # it may not have made its group yet
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def child(job: dict[str, Any], events: int) -> None:
    """Runs one job and exits; never returns."""
    os.setsid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    printed = os.open(job["printed"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    faulthandler.enable(file=2)
    emit = tracing(emitter(events, job["nonce"]), job["limit"])
    code = 1
    try:
        module, _, name = job["run"].rpartition(".")
        getattr(importlib.import_module(module), name)(job, emit)
        code = 0
    except BaseException:  # a job reports what the answer raises: this is the grader's own
        emitter(events, job["nonce"])("broken", traceback=traceback.format_exc())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Keeps the event pipe away from descriptor 1, where an answer's prints would go."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    events = os.dup(1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    serve(events)


if __name__ == "__main__":
    main()
