"""Measures the reference solutions on this machine's GPU and writes what follows to thresholds.toml.

    outcome = calibrate(course, course.select(names), progress)
    outcome.targets    what was written      outcome.problems   sentences; empty when all is well

What an answer must reach (`pass`) follows from the design and from the reference:

* The course is designed on Hopper (sm_90): there `pass` is what the course promises, and calibrating
  never lowers it. A reference that doesn't clear it by MARGIN is a problem to be fixed, and its
  target stays `verified = false`, so that no learner is failed by it meanwhile.
* On any other architecture nobody promised anything. `pass` is the design's, or MARGIN below what the
  reference reaches there, whichever is less: an answer as good as the reference always passes.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Any

import torch

from checkers import machine
from checkers.bench import Progress, quiet
from checkers.course import Chapter, Course
from checkers.exercise import Exercise, SpeedTarget
from checkers.grading import timing
from checkers.grading.cuda_device import CudaDevice, Device
from checkers.grading.speed import (
    ANSWER,
    VerifyCase,
    compile_anew,
    device_inputs,
    ratio_interval,
    verified,
)
from checkers.thresholds import Target, Thresholds

DESIGN_ARCH = "sm_90"
# Runs of the same kernel differ by 1 to 2 %; twice that keeps the reference clear of its target.
MARGIN = 0.04
SEED = 2026


@dataclass(frozen=True)
class Calibration:
    """What calibrating found."""

    targets: tuple[Target, ...]
    problems: tuple[str, ...]


def calibrate(
    course: Course,
    exercises: Sequence[Exercise],
    progress: Progress = quiet,
    device: Device | None = None,
    options: timing.Options | None = None,
) -> Calibration:
    """Measures the references of ``exercises`` and rewrites course/checkers/thresholds.toml.

    Targets of other architectures and exercises stay as they are.
    """
    device = device or CudaDevice()
    options = options or timing.Options(rounds=120, budget_seconds=4.0)
    path = course.root / "checkers" / "thresholds.toml"
    before = Thresholds.read(path)
    described = machine.describe_machine()
    todo = [(exercise, target) for exercise in exercises for target in exercise.speed]
    written, problems = [], []
    for number, (exercise, target) in enumerate(todo):
        progress(number, len(todo), f"{exercise.id} on {target.case.name}")
        function = reference_of(course.chapter(exercise.id), exercise)
        verify = partial(verified, exercise)
        measured = measure_reference(exercise, function, target, verify, device, options)
        if isinstance(measured, str):
            problems.append(f"{exercise.id} on {target.case.name}: {measured}")
            continue
        entry, problem = settle(before, exercise, target, measured, described)
        written.append(entry)
        if problem:
            problems.append(problem)
    progress(len(todo), len(todo), "done")
    before.updated(written).write(path)
    return Calibration(tuple(written), tuple(problems))


@dataclass(frozen=True)
class Measured:
    """The reference's own ratio to the ruler, and from how many rounds."""

    ratio: float
    samples: int


def measure_reference(
    exercise: Exercise,
    function: Callable[..., Any],
    target: SpeedTarget,
    verify: VerifyCase,
    device: Device,
    options: timing.Options,
) -> Measured | str:
    """The reference timed as an answer would be, or why it could not be."""

    def make_inputs(index: int) -> tuple:
        where = device.torch_device
        return device_inputs(exercise.inputs, target.case, SEED + index, where)

    compile_anew(exercise)
    try:
        timings = timing.measure(
            {ANSWER: lambda *arguments: exercise.call(function, arguments)},
            make_inputs,
            target.ruler,
            target.work(make_inputs(0)),
            options,
            partial(verify, target.case),
            device,
        )
    except (timing.NotEnoughMemory, torch.OutOfMemoryError) as error:
        return str(error).partition("\n")[0]
    answer = timings[ANSWER]
    if answer.refused:
        return f"the reference is refused: {answer.refused}"
    interval = ratio_interval(timings[target.ruler].seconds, answer.seconds, SEED)
    return Measured(round(interval.ratio, 3), answer.samples)


def settle(
    before: Thresholds,
    exercise: Exercise,
    target: SpeedTarget,
    measured: Measured,
    described: dict[str, Any],
) -> tuple[Target, str | None]:
    """The target to write for one case, and what is wrong with the reference, if anything."""
    arch = described["arch"]
    name = target.case.name
    design = before.find(exercise.id, name, DESIGN_ARCH)
    reachable = math.floor(100 * (1 - MARGIN) * measured.ratio) / 100
    wanted = design.target.pass_ratio if design else reachable
    problem = None
    if arch == DESIGN_ARCH and reachable < wanted:
        problem = (
            f"{exercise.id} on {name}: the reference reaches {measured.ratio:.3f}, which does not "
            f"clear the {wanted:.2f} asked by {MARGIN:.0%}: make it faster, or change the design"
        )
    entry = Target(
        exercise=exercise.id,
        case=name,
        arch=arch,
        ruler=target.ruler,
        pass_ratio=wanted if arch == DESIGN_ARCH else min(wanted, reachable),
        reference=measured.ratio,
        verified=problem is None,
        samples=measured.samples,
    )
    facts = ("gpu", "driver", "torch", "triton", "cutlass_dsl", "date")
    return replace(entry, **{fact: described.get(fact) or "" for fact in facts}), problem


def reference_of(chapter: Chapter, exercise: Exercise) -> Callable[..., Any]:
    """The exercise's function in the chapter's solutions module.

    Raises AttributeError when the module doesn't define it.
    """
    return getattr(_solution_module(chapter), exercise.function)


def _solution_module(chapter: Chapter) -> ModuleType:
    name = f"solutions.{chapter.name}"
    loaded = sys.modules.get(name)
    if loaded is not None and loaded.__file__ == str(chapter.solution):
        return loaded
    spec = importlib.util.spec_from_file_location(name, chapter.solution)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
