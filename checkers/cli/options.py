"""Arguments and options that several commands have."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from checkers.terminal import UserError


class Device(StrEnum):
    """Where an answer is run."""

    AUTO = "auto"
    CUDA = "cuda"
    SIMULATOR = "simulator"


Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[CHAPTER[.EXERCISE]]...", help="ch02 or ch02.row_softmax; all if left out."
    ),
]
ExerciseName = Annotated[str, typer.Argument(metavar="CHAPTER.EXERCISE", help="ch02.row_softmax")]
JsonFile = Annotated[
    Path | None,
    typer.Option("--json", metavar="F", help="Write the outcome as JSON; - is standard output."),
]
WhereToRun = Annotated[Device, typer.Option(help="Where to run.")]
NoSimulator = Annotated[
    bool,
    typer.Option(
        "--no-simulator", help="With a GPU: don't simulate CuTe DSL kernels before they run on it."
    ),
]


def need_a_place(device: Device, no_simulator: bool) -> None:
    """Raises UserError when the options leave nothing to run on."""
    if device is Device.SIMULATOR and no_simulator:
        raise UserError(
            "--device simulator with --no-simulator has nothing to run on: leave one of them out."
        )
