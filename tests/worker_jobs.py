"""Jobs that end in every way, for test_worker.py."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any


def counts(job: dict[str, Any], emit: Callable[..., None]) -> None:
    upto = job["upto"]
    print("counting")
    for number in range(upto):
        emit("count", number=number)


def sleeps_with_a_child(job: dict[str, Any], emit: Callable[..., None]) -> None:
    child = subprocess.Popen(["sleep", "60"])
    emit("child", child=child.pid)
    time.sleep(60)


def exits(job: dict[str, Any], emit: Callable[..., None]) -> None:
    os._exit(3)


def segfaults(job: dict[str, Any], emit: Callable[..., None]) -> None:
    ctypes.string_at(0)


def kills_its_parent(job: dict[str, Any], emit: Callable[..., None]) -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


def waits_after_a_case(job: dict[str, Any], emit: Callable[..., None]) -> None:
    """Emits one event for each of the job's waits, (within, seconds), and sleeps so long."""
    for within, seconds in job["waits"]:
        emit("case", **({"within": within} if within else {}))
        time.sleep(seconds)
