"""What the commands share: where they speak, how they write JSON, and how they end."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

PASSED, NOT_PASSED, COULD_NOT_RUN, INTERRUPTED = 0, 1, 2, 130


class UserError(Exception):
    """The command can't do what was asked; the text says what to do instead."""


def console_err() -> Console:
    """Where everything goes that is not the command's result."""
    return Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """A sentence on standard error, word for word."""
    console_err().print(text, markup=False, soft_wrap=True)


def relative(root: Path, path: Path) -> Path:
    """``path`` as it is called in the course, where it lies in it."""
    return path.relative_to(root) if path.is_relative_to(root) else path


def write_json(file: Path | None, content: dict[str, Any]) -> None:
    """Write ``content`` to a file, or to standard output for "-"; nothing without a file."""
    if file is None:
        return
    text = json.dumps(content, indent=1) + "\n"
    if str(file) == "-":
        sys.stdout.write(text)
        return
    with writing_to(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def writing_to(file: Path) -> Iterator[None]:
    """Turns what the disk refuses into a UserError."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{file} can't be written ({error.strerror}): name another.") from error


@contextlib.contextmanager
def measuring() -> Iterator[Callable[[int, int, str], None]]:
    """Yields ``progress(done, total, what)``, shown as a bar on standard error.

    Ctrl-C ends the command with status 130.
    """
    columns = (
        BarColumn(20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    try:
        with Progress(*columns, console=console_err(), transient=True) as bar:
            task = bar.add_task("", total=None)

            def progress(done: int, total: int, what: str) -> None:
                bar.update(task, completed=done, total=total, description=what)

            yield progress
    except KeyboardInterrupt:
        say("ladder: interrupted; nothing was written.")
        raise typer.Exit(INTERRUPTED) from None


def explain(error: Exception) -> int:
    """Say what went wrong and what to do; returns the exit status."""
    if type(error).__module__.partition(".")[0] == "checkers":  # our own errors say what to do
        say(f"ladder: {error}")
    elif isinstance(error, ImportError) and not (error.name or "").startswith("checkers"):
        say(f"ladder: {error}. `ladder doctor` says what to install.")
    else:
        traceback.print_exception(error)
        say("ladder: this is a mistake in the course, not in your answer. Please report it.")
    return COULD_NOT_RUN


def nobody_reads() -> int:
    """Standard output was closed early, as by ``ladder list | head``; returns the exit status."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return COULD_NOT_RUN
