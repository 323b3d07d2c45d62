"""The compile stage, in a worker's child: runs the answer where launches only compile.

Reports two stages: ``compile`` (does it compile for every target, within the limits), and
``codegen`` (does the code show the technique), since both look at the same kernels.
"""

from __future__ import annotations

import ast
import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from checkers.course import Course
from checkers.exercise import Case, Evidence, Exercise, Finding, Rung, Stage, Verdict
from checkers.grading import answer_module, errors
from checkers.grading.artifacts import CompiledKernel
from checkers.grading.cases import generator_for
from checkers.grading.codegen import check_compiled, check_rules
from checkers.grading.diagnose import diagnose
from checkers.grading.stages import applicable, failed, skipped, stage_to_json
from checkers.simulator.launch.device import PretendCuda, pretended
from checkers.simulator.reports.gpus import gpu

Emit = Callable[..., None]


def main(job: Mapping[str, Any], emit: Emit) -> None:
    """The job: emits ``stage`` events for the compile and the codegen stage."""
    exercise = Course(Path(job["root"])).exercise(job["exercise"])
    for stage in stages(exercise, job):
        if stage.name in applicable(exercise):
            emit("stage", stage=stage_to_json(stage))


def stages(exercise: Exercise, job: Mapping[str, Any]) -> tuple[Stage, ...]:
    """The outcome of both stages."""
    begun = time.monotonic()
    text = job["setup"] + job["source"]
    tree = ast.parse(text)
    first_line = answer_module.setup_lines(job) + 1
    kernels: list[CompiledKernel] = []
    measures: Mapping[str, float] | None = None
    tag = ""
    try:
        if exercise.rung is Rung.TORCH:
            measures = measure_graphs(exercise, job)
        else:
            for tag, capturing in captures(exercise, job, kernels):
                with capturing:
                    call_cases(exercise, job, tag)
    except MissingFunction as error:
        finding = error.args[0]
        evidence = Evidence("compile", error="check:missing_function", tree=tree)
        return (failed("compile", diagnose(exercise, evidence, finding)), not_read())
    except BaseException as error:
        finding = errors.explain(error, text, str(answer_module.file_of(job, tag)), first_line)
        evidence = Evidence("compile", error=errors.error_text(error), tree=tree)
        return (failed("compile", diagnose(exercise, evidence, finding)), not_read())
    seconds = time.monotonic() - begun
    if exercise.rung is Rung.TORCH:
        assert measures is not None
        compiled = Stage("compile", Verdict.PASS, "torch.compile took it", seconds, dict(measures))
    elif not kernels:
        finding = Finding(
            f"`{exercise.function}` launched no kernel: nothing was compiled.",
            probable=LAUNCHED_NOTHING[exercise.rung],
        )
        evidence = Evidence("compile", error="check:no_kernel", tree=tree)
        return (failed("compile", diagnose(exercise, evidence, finding)), not_read())
    else:
        compiled = check_compiled(exercise, kernels, tree)
    rules = (
        check_rules(exercise, kernels, measures, tree, text, first_line)
        if exercise.rules
        else not_read()
    )
    return (replace(compiled, seconds=seconds), rules)


LAUNCHED_NOTHING = {
    Rung.TRITON: "A Triton kernel runs when it is called with a grid: `kernel[grid](...)`.",
    Rung.CUTE: (
        "A CuTe DSL kernel runs when a compiled host function is called: `cute.compile(launch, ...)` "
        "once, then the function that it returns."
    ),
}


class MissingFunction(Exception):
    """The answer does not define what it must; carries the finding."""


def not_read() -> Stage:
    """The codegen stage of an answer that gave no code to read."""
    return skipped("codegen", "there is no code to read until it compiles")


def captures(
    exercise: Exercise, job: Mapping[str, Any], kernels: list[CompiledKernel]
) -> Iterator[tuple[str, contextlib.AbstractContextManager]]:
    """One pass over the cases for each context: Triton compiles for one target at a time,
    CuTe DSL for all at once."""
    from checkers.grading import capture

    if exercise.rung is Rung.CUTE:
        yield "", capture.cute_compiling(Path(job["scratch"]), kernels)
        return
    for target in capture.TARGETS:
        yield f"_{target}", capture.triton_compiling(target, kernels)


def compile_cases(exercise: Exercise) -> tuple[Case, ...]:
    """The cases that are compiled."""
    if exercise.compile_cases:
        return tuple(case for case in exercise.cases if case.name in exercise.compile_cases)
    return tuple(case for case in exercise.cases if not case.needs_gpu)[:1]


def call_cases(exercise: Exercise, job: Mapping[str, Any], tag: str) -> None:
    """Calls the answer on the cases to be compiled, with tensors that claim to be on CUDA."""
    with PretendCuda(gpu("b200" if tag.endswith("sm_100a") else "h200")):
        module = answer_module.load(job, tag)
        function = function_of(exercise, module)
        for case in compile_cases(exercise):
            arguments = exercise.inputs(case, generator_for(job["seed"], case, 0))
            exercise.call(function, pretended(arguments))


def function_of(exercise: Exercise, module: ModuleType) -> Callable:
    """The answer's function. Raises MissingFunction."""
    finding = answer_module.missing_function(exercise, module)
    if finding is not None:
        raise MissingFunction(finding)
    return getattr(module, exercise.function)


def measure_graphs(exercise: Exercise, job: Mapping[str, Any]) -> dict[str, float]:
    """What torch.compile made of the answer, on the first case."""
    from checkers.grading.torch_compile import measure

    function = function_of(exercise, answer_module.load(job))
    case = compile_cases(exercise)[0]
    arguments = exercise.inputs(case, generator_for(job["seed"], case, 0))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    arguments = tuple(a.to(device) if isinstance(a, torch.Tensor) else a for a in arguments)
    result = measure(lambda: exercise.call(function, arguments))
    sys.stdout.flush()
    return dict(result)
