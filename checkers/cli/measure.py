"""``ladder bench`` and ``ladder calibrate``: what is measured on a GPU, and shown elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from checkers.cli.options import JsonFile, Names
from checkers.terminal import (
    NOT_PASSED,
    PASSED,
    UserError,
    console_err,
    measuring,
    relative,
    say,
    write_json,
    writing_to,
)

if TYPE_CHECKING:  # importing these imports torch, which --help does without
    from checkers.course import Chapter


def bench(
    chapter: Annotated[str, typer.Argument(metavar="CHAPTER", help="ch02")],
    json_file: JsonFile = None,
    plot: Annotated[
        bool, typer.Option("--plot", help="Draw it as well, as bench_CHAPTER.svg and .png.")
    ] = False,
    measured: Annotated[
        Path | None,
        typer.Option("--from", metavar="F", help="Show this file instead of measuring."),
    ] = None,
) -> None:
    """A chapter's speed table on this GPU: the reference, its peers, and the ruler."""
    from checkers import bench as benches
    from checkers.course import Course

    found = Course.find().chapter(chapter)
    data = _measured_before(measured) if measured else _measure(found)
    out = console_err() if str(json_file) == "-" else Console()
    out.print(benches.table(data))
    for sentence in benches.skipped(data):
        say(sentence)
    beside = Path(f"bench_{found.name}")
    if str(json_file) == "-":
        write_json(json_file, data)
    elif json_file is not None:
        beside = json_file
        with writing_to(json_file):
            benches.write(data, json_file)
    if plot:
        with writing_to(beside):
            for path in benches.plot(data, beside):
                say(f"drawn: {path}")


def calibrate(names: Names = None) -> None:
    """Measure the reference solutions and rewrite the speed thresholds of this GPU."""
    from checkers.calibrate import calibrate as measure
    from checkers.course import Course

    course = Course.find()
    exercises = course.select(names or [])
    _need_gpu("Thresholds are measured")
    with measuring() as progress:
        outcome = measure(course, exercises, progress)
    for target in outcome.targets:
        typer.echo(
            f"{target.exercise} on {target.case}, {target.arch}: reference {target.reference:.3f}, "
            f"an answer must reach {target.pass_ratio:.2f}"
        )
    for problem in outcome.problems:
        say(problem)
    say(f"written: {relative(course.root, course.root / 'checkers' / 'thresholds.toml')}")
    raise typer.Exit(NOT_PASSED if outcome.problems else PASSED)


def _need_gpu(what: str) -> None:
    import torch

    if not torch.cuda.is_available():
        raise UserError(
            f"{what} on an NVIDIA GPU, and PyTorch sees none here (`ladder doctor` says why). "
            "What was measured elsewhere: ladder bench CHAPTER --from docs/data/FILE.json"
        )


def _measure(chapter: Chapter) -> dict[str, Any]:
    from checkers.bench import run_bench

    if chapter.bench is None:
        raise UserError(f"{chapter.short} has no speed table: its exercises need no GPU.")
    _need_gpu("A speed table is measured")
    with measuring() as progress:
        return run_bench(chapter.bench, chapter.name, progress)


def _measured_before(file: Path) -> dict[str, Any]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{file} is not what `ladder bench --json` writes: {error}") from error
    if not isinstance(data, dict) or not {"machine", "rows", "title"} <= set(data):
        raise UserError(f"{file} is not what `ladder bench --json` writes.")
    return data
