"""Grades an answer: strings the stages together and keeps the workers warm.

with Grader(course) as grader:
    report = grader.grade(exercise, answer)
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from checkers import answers
from checkers.answers import Answer
from checkers.course import Course
from checkers.exercise import Evidence, Exercise, Finding, Report, Rung, Stage, Verdict
from checkers.grading import answer_module, simulated_first, stages
from checkers.grading.diagnose import diagnose
from checkers.grading.source import check_source
from checkers.grading.worker import Ending, Worker, WorkerError

OnStage = Callable[[Stage], None]
DEVICES = ("auto", "cuda", "simulator")
# What a simulated run imports beside the DSL's own modules.
SIMULATOR = ("checkers.simulator", "checkers.grading.run")
ASK_THE_SIMULATOR = " The simulator (`--device simulator`) says which threads wait, and for what."


class DeviceError(Exception):
    """The device that was asked for is not there; the text says what is."""


@dataclass(frozen=True)
class Limits:
    """Seconds that a stage's child may take. Importing the libraries does not count."""

    compile: float = 60.0
    run: float = 60.0
    run_cuda: float = 240.0  # cases past 2^31 elements, and the timing
    case_cuda: float = 90.0  # one of the other cases, of a kernel that may hang
    inductor: float = 180.0  # compile or run of torch.compile's rung: a cold cache and g++

    def of(self, stage: str, exercise: Exercise, place: str) -> float:
        """The limit of a stage ("compile" or "run") of an exercise at a place."""
        if stage == "run" and place == "cuda":
            return self.run_cuda
        own = self.compile if stage == "compile" else self.run
        return max(own, self.inductor) if exercise.rung is Rung.TORCH else own


def cuda_available() -> bool:
    """Whether PyTorch sees a CUDA GPU."""
    import torch

    return torch.cuda.is_available()


def resolve_device(device: str) -> str:
    """ "cuda" or "simulator" for what was asked. Raises DeviceError when it can't be had."""
    if device not in DEVICES:
        raise DeviceError(f"there is no device {device!r}: choose one of {', '.join(DEVICES)}.")
    if device == "auto":
        return "cuda" if cuda_available() else "simulator"
    if device == "cuda" and not cuda_available():
        raise DeviceError(
            "PyTorch sees no CUDA GPU here. Without --device, everything that needs none is "
            "graded; `ladder doctor` says more."
        )
    return device


class Grader:
    """Grades answers of a course; its workers start with the first and end with ``close``."""

    def __init__(self, course: Course, limits: Limits = Limits()) -> None:
        self.course = course
        self.limits = limits
        # Triton's default to 3.9, without its warning.
        cuda = {"TRITON_DEFAULT_FP_FUSION": "1", "TRITON_INTERPRET": "0"}
        # Small tensors: threads cost more than they bring. NumPy would warn of every masked lane
        # of Triton's interpreter.
        cpu = {
            **cuda,
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
            "PYTHONWARNINGS": "ignore::RuntimeWarning",
        }
        self._compiling = Worker(cpu)
        self._on_cuda = Worker(cuda)
        self._on_cpu = Worker({**cpu, "TRITON_INTERPRET": "1"})

    def __enter__(self) -> Grader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the workers."""
        for worker in (self._compiling, self._on_cuda, self._on_cpu):
            worker.close()

    def grade(
        self,
        exercise: Exercise,
        answer: Answer,
        device: str = "auto",
        seed: int | None = None,
        on_stage: OnStage | None = None,
        simulate: bool = True,
    ) -> Report:
        """The report on one answer.

        device: "auto", "cuda" or "simulator".  seed: of the random inputs, to replay a failure.
        on_stage: called with each stage as it ends.  simulate: a CuTe DSL answer runs on a GPU only
        if the simulator finds no fault.
        Raises DeviceError, WorkerError, and AnswerError when the course itself is damaged.
        """
        place = resolve_device(device)
        seed = random.SystemRandom().randrange(2**31) if seed is None else seed
        done: list[Stage] = []

        def finished(stage: Stage) -> None:
            if stage.name in stages.applicable(exercise):
                done.append(stage)
                if on_stage is not None:
                    on_stage(stage)

        source = self._check_source(exercise, answer)
        finished(source)
        if source.verdict is Verdict.PASS:
            job = {
                "root": str(self.course.root),
                "exercise": exercise.id,
                "setup": answer.setup,
                "source": answer.source,
                "seed": seed,
                "device": "cuda" if place == "cuda" else "cpu",
            }
            for stage in self._later_stages(exercise, job, place, simulate):
                finished(stage)
        return stages.report(exercise, seed, done)

    def _check_source(self, exercise: Exercise, answer: Answer) -> Stage:
        skeleton = answers.skeleton_of(self.course, exercise.id)
        setup = answer.setup
        return check_source(
            exercise, setup + answer.source, setup + skeleton, setup.count("\n") + 1
        )

    def _later_stages(
        self, exercise: Exercise, job: Mapping[str, Any], place: str, simulate: bool
    ) -> list[Stage]:
        """compile, run, codegen and speed, in the report's order."""
        compiled, codegen = None, None
        if "compile" in exercise.rung.stages:
            compiled, codegen = self._compile(exercise, job, place)
            if compiled.verdict is Verdict.FAIL:
                later = [
                    stages.skipped("run", "it does not compile yet"),
                    codegen,
                    stages.skipped("speed", "an answer is timed once it is right"),
                ]
                return [compiled, *later]
        run, speed = self._run(exercise, job, place, simulate)
        return [stage for stage in (compiled, run, codegen, speed) if stage is not None]

    def _compile(
        self, exercise: Exercise, job: Mapping[str, Any], place: str
    ) -> tuple[Stage, Stage]:
        worker = self._compiling
        if exercise.rung is Rung.TORCH:  # what Inductor generates depends on the device
            worker = self._on_cuda if place == "cuda" else self._on_cpu
        limit = self.limits.of("compile", exercise, place)
        ending = worker.run(
            "checkers.grading.compile.main", dict(job), limit, preload(exercise, job)
        )
        found = reported(ending)
        nothing = stages.skipped("codegen", "there is no code to read until it compiles")
        if "compile" not in found:
            stage = broken("compile", exercise, ending, limit, job)
            return stages.with_output(stage, ending.printed), nothing
        compiled = stages.with_output(found["compile"], ending.printed)
        return compiled, stages.with_output(found.get("codegen", nothing), ending.printed)

    def _run(
        self, exercise: Exercise, job: Mapping[str, Any], place: str, simulate: bool
    ) -> tuple[Stage, Stage]:
        """run and speed. Without a GPU a Triton answer runs in its interpreter first: it finds most
        mistakes, and faster."""
        if place == "cuda":
            if simulate and simulated_first.is_simulated_first(exercise):
                return self._run_simulated_first(exercise, job)
            return self._run_on(self._on_cuda, exercise, job, place)
        simulated = {**job, "device": "simulator"}
        if exercise.rung is Rung.CUTE:
            return self._run_on(self._compiling, exercise, simulated, place)
        run, speed = self._run_on(self._on_cpu, exercise, job, place)
        if exercise.rung is not Rung.TRITON or run.verdict is not Verdict.PASS:
            return run, speed
        on_simulator, speed = self._run_on(self._compiling, exercise, simulated, place)
        seconds = run.seconds + on_simulator.seconds
        return replace(on_simulator, seconds=seconds), speed

    def _run_simulated_first(
        self, exercise: Exercise, job: Mapping[str, Any]
    ) -> tuple[Stage, Stage]:
        """run and speed on the GPU, for what the simulator does not find wrong. In two processes: a
        module that has been simulated may keep what was compiled for the simulator."""
        try:
            on_simulator = {**job, "device": "simulator", "counted": False}
            run, speed = self._run_on(self._compiling, exercise, on_simulator, "simulator")
        except WorkerError as error:
            run = simulated_first.broke(error)
        if run.verdict is Verdict.FAIL:
            return simulated_first.rejected(run), speed
        on_gpu, speed = self._run_on(self._on_cuda, exercise, {**job, "simulated": True}, "cuda")
        return simulated_first.joined(run, on_gpu), speed

    def _run_on(
        self, worker: Worker, exercise: Exercise, job: Mapping[str, Any], place: str
    ) -> tuple[Stage, Stage]:
        limit = self.limits.of("run", exercise, place)
        if place == "cuda" and exercise.rung in (Rung.TRITON, Rung.CUTE):
            job = {**job, "case_limit": self.limits.case_cuda}
        ending = worker.run("checkers.grading.run.main", dict(job), limit, preload(exercise, job))
        found = reported(ending)
        untimed = stages.skipped("speed", "an answer is timed once it is right")
        if "run" not in found:
            stage = broken("run", exercise, ending, limit, job)
            return stages.with_output(stage, ending.printed), untimed
        run = stages.with_output(found["run"], ending.printed)
        if run.verdict is not Verdict.PASS:
            return run, untimed
        measured = exercise.speed if job["device"] == "cuda" else exercise.floors
        if job["device"] == "cpu" or not measured or not job.get("counted", True):
            return run, stages.skipped("speed", stages.NEEDS_GPU)
        if "speed" not in found:
            return run, broken("speed", exercise, ending, limit, job)
        return run, stages.with_output(found["speed"], ending.printed)


def preload(exercise: Exercise, job: Mapping[str, Any]) -> tuple[str, ...]:
    """Libraries that a job needs imported before its child is forked."""
    # With a GPU in sight Inductor's import starts CUDA, which does not survive a fork.
    cpu = job["device"] != "cuda"
    simulator = ("torch._dynamo", *SIMULATOR) if job["device"] == "simulator" else ()
    wanted = {
        Rung.TORCH: ("checkers.grading.inductor_ready",) if cpu else (),
        Rung.TRITON: ("triton", "torch._dynamo") if cpu else ("triton",),
        Rung.CUTE: ("cutlass", "cutlass.cute"),
        Rung.PYTHON: (),
    }[exercise.rung] + simulator
    uses_cute = "import cutlass" in job["setup"] + job["source"]
    return ("cutlass", "cutlass.cute") if uses_cute and not wanted else wanted


def reported(ending: Ending) -> dict[str, Stage]:
    """The stages that a job reported, by name."""
    found = [
        stages.stage_from_json(event["stage"])
        for event in ending.events
        if event["event"] == "stage"
    ]
    return {stage.name: stage for stage in found}


def stopped_at(stack: str, job: Mapping[str, Any]) -> str:
    """The learner's line that was running when time was up; nothing when there is none."""
    for line in stack.splitlines():
        file, _, rest = line.strip().partition(", line ")
        number = rest.partition(" ")[0]
        if answer_module.MODULE_NAME in file and number.isdigit():
            text = (job["setup"] + job["source"]).splitlines()[int(number) - 1]
            return f"{int(number) - answer_module.setup_lines(job)} | {text}"
    return ""


def broken(
    name: str, exercise: Exercise, ending: Ending, limit: float, job: Mapping[str, Any]
) -> Stage:
    """A stage whose child did not live to report it."""
    cases = [event["name"] for event in ending.events if event["event"] == "case"]
    at = f" on case {cases[-1]}" if cases else ""
    if ending.kind == "timeout":
        finding = Finding(
            f"Not done after {ending.limit or limit:.0f} seconds{at}: it was stopped.",
            picture=stopped_at(ending.stack, job),
            probable="Look for a loop whose condition never becomes false"
            + (", or a barrier that not every thread reaches." if name != "compile" else ".")
            + (ASK_THE_SIMULATOR if "case_limit" in job and not job.get("simulated") else ""),
        )
        error = "check:timeout"
    elif ending.kind == "exit":
        finding = Finding(
            f"The process that ran the answer ended{at} before it could report: {ending.detail}.",
            probable="Does the answer call sys.exit or os._exit? A segmentation fault comes from a "
            "pointer or an index outside of a tensor.",
        )
        error = "check:exit"
    else:
        finding = Finding(
            f"The answer ended the process{at} without an error.",
            probable="Does it call os._exit(0), or quit()? A function returns; it never exits.",
        )
        error = "check:exit"
    evidence = Evidence(name, cases=tuple(cases[-1:]), error=error)
    stage = stages.failed(name, diagnose(exercise, evidence, finding))
    return replace(stage, seconds=ending.seconds)


__all__ = ["DEVICES", "DeviceError", "Grader", "Limits", "resolve_device"]
