"""The run stage, in a worker's child: is the answer right on every case; then, is it fast."""

from __future__ import annotations

import ast
import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from checkers.course import Course
from checkers.exercise import Case, Evidence, Exercise, Finding, Stage, Verdict
from checkers.grading import answer_module, errors
from checkers.grading.cases import AnswerRaised, CaseRunner, Place, place_for
from checkers.grading.counted import stage_for as counted_stage
from checkers.grading.diagnose import diagnose, telling_cases
from checkers.grading.memory import Watch
from checkers.grading.simulated import Faulty, is_simulators_own
from checkers.grading.stages import NEEDS_GPU, failed, skipped, stage_to_json
from checkers.grading.verify import Wrong
from checkers.simulator.launch.catcher import NotStoodFor
from checkers.simulator.ptx.lexer import PtxSyntaxError
from checkers.simulator.ptx.modifiers import Unsupported

Emit = Callable[..., None]
# What the simulator does not know: the answer's fault it is not.
NOT_SIMULATED = (Unsupported, PtxSyntaxError, NotStoodFor)


def main(job: Mapping[str, Any], emit: Emit) -> None:
    """The job: emits ``case`` events as it goes, then ``stage`` events for run and speed."""
    exercise = Course(Path(job["root"])).exercise(job["exercise"])
    place = place_for(exercise, job["device"])
    timed = exercise.speed and place.device == "cuda"
    counted = exercise.floors and place.kind == "simulator" and job.get("counted", True)
    if timed:
        # Before the answer: the clock's functions are remembered as they are now.
        from checkers.grading import speed
    begun = time.monotonic()
    stage, function = run_stage(exercise, place, job, emit)
    emit("stage", stage=stage_to_json(replace(stage, seconds=time.monotonic() - begun)))
    if function is not None and timed:
        emit("case", name="speed")
        emit("stage", stage=stage_to_json(speed.stage_for(exercise, function, job, place.device)))
    if function is not None and counted:
        emit("case", name="speed")
        emit("stage", stage=stage_to_json(counted_stage(exercise, function, job, place)))


@dataclass(frozen=True)
class Source:
    """The text that runs, and the file it runs from."""

    job: Mapping[str, Any]

    @property
    def text(self) -> str:
        return self.job["setup"] + self.job["source"]

    @functools.cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    def explain(self, error: BaseException) -> Wrong:
        """What the answer raised, with the learner's line."""
        path, first_line = answer_module.file_of(self.job), answer_module.setup_lines(self.job) + 1
        finding = errors.explain(error, self.text, str(path), first_line)
        return Wrong(finding, errors.error_text(error))

    def explain_faults(self, faulty: Faulty) -> Wrong:
        """What the simulator found, with the learner's line."""
        path, first_line = answer_module.file_of(self.job), answer_module.setup_lines(self.job) + 1
        return faulty.explained(self.text, str(path), first_line)


@dataclass
class Results:
    """What came of the cases.

    too_large: those that the GPU's free memory did not allow.  unknown: the first thing in them that
    the simulator does not know.
    """

    passed: list[str] = field(default_factory=list)
    wrong: list[tuple[Case, Wrong]] = field(default_factory=list)
    too_large: list[str] = field(default_factory=list)
    unknown: BaseException | None = None
    worst: float = 0.0  # the largest error over its bound


def run_stage(
    exercise: Exercise, place: Place, job: Mapping[str, Any], emit: Emit
) -> tuple[Stage, Callable | None]:
    """The run stage, and the answer's function when it was right on every case."""
    source = Source(job)
    try:
        function = load_function(exercise, place, source)
    except Wrong as wrong:
        evidence = Evidence("run", error=wrong.error, tree=source.tree)
        return failed("run", diagnose(exercise, evidence, wrong.finding)), None
    except NOT_SIMULATED as unknown:
        return not_simulated(unknown, 0), None
    results = run_cases(exercise, place, source, function, emit)
    if results.wrong:
        return wrong_stage(exercise, place, source, results), None
    if results.unknown is not None:
        return not_simulated(results.unknown, len(results.passed)), None
    reason = f"right on {len(results.passed)} cases"
    if results.too_large:
        reason += f"; not enough free GPU memory for {', '.join(results.too_large)}"
    waiting = [case.name for case in exercise.cases if case.needs_gpu and not place.takes(case)]
    if waiting:
        reason += f"; not tried without a GPU: {', '.join(waiting)}"
    measures = {
        "cases": len(results.passed),
        "too_large": results.too_large,
        "largest_error_over_bound": round(results.worst, 3),
        "where": place.kind,
    }
    return Stage("run", Verdict.PASS, reason, 0.0, measures), function


def not_simulated(unknown: BaseException, passed: int) -> Stage:
    """The stage of an answer that the simulator can't run, and has found nothing wrong with."""
    stage = skipped("run", f"{NEEDS_GPU}: {unknown}")
    return replace(stage, measures={"cases": passed, "where": "simulator"})


def load_function(exercise: Exercise, place: Place, source: Source) -> Callable:
    """Runs the answer's module and finds its function. Raises Wrong, and NOT_SIMULATED."""
    watch = Watch()
    try:
        with place.entered(watch), watch.pause():
            module = answer_module.load(source.job)
    except NOT_SIMULATED:
        raise
    except BaseException as error:  # sys.exit and KeyboardInterrupt too: it is the answer's code
        raise source.explain(error) from error
    finding = answer_module.missing_function(exercise, module)
    if finding is not None:
        raise Wrong(finding, "check:missing_function")
    return getattr(module, exercise.function)


def run_cases(
    exercise: Exercise, place: Place, source: Source, function: Callable, emit: Emit
) -> Results:
    """Runs every case that can run here; once one is wrong, only what tells the causes apart."""
    results = Results()
    waiting = [case for case in exercise.cases if place.takes(case)]
    while case := next_case(exercise, source, results, waiting):
        waiting.remove(case)
        limit = source.job.get("case_limit")
        emit("case", name=case.name, **({"within": limit} if limit and not case.needs_gpu else {}))
        try:
            goes_on = run_case(
                CaseRunner(exercise, place, case, source.job["seed"]), source, function, results
            )
        except Exception:  # the grader's own
            if place.kind != "simulator" or not results.wrong:
                raise
            break  # what was found counts: a kernel that hangs must not reach a GPU because of this
        if not goes_on:
            break
    return results


def next_case(
    exercise: Exercise, source: Source, results: Results, waiting: list[Case]
) -> Case | None:
    """The first of the waiting cases, while all is right. After that only cases that tell the
    causes of what is wrong apart, and no large ones."""
    if not results.wrong:
        return waiting[0] if waiting else None
    small = [case for case in waiting if not case.needs_gpu]
    untried = frozenset(case.name for case in small)
    telling = telling_cases(exercise, evidence_of(source, results), untried)
    return next((case for case in small if case.name in telling), None)


def run_case(runner: CaseRunner, source: Source, function: Callable, results: Results) -> bool:
    """Runs one case and notes what came of it. Whether the next one may run."""
    case = runner.case
    try:
        error = runner.check(function)
        results.worst = max(results.worst, error)
        results.passed.append(case.name)
    except Faulty as faulty:
        results.wrong.append((case, source.explain_faults(faulty)))
    except Wrong as wrong:
        results.wrong.append((case, wrong))
    except (AnswerRaised, torch.OutOfMemoryError) as raised:
        error = raised.__cause__ if isinstance(raised, AnswerRaised) else raised
        assert error is not None
        if isinstance(error, torch.OutOfMemoryError) and case.needs_gpu:
            results.too_large.append(case.name)
            return True
        if error is raised or is_simulators_own(error):
            raise  # the grader's own
        if isinstance(error, NOT_SIMULATED):
            results.unknown = results.unknown or error
            return True
        results.wrong.append((case, source.explain(error)))
        # On a GPU the context may be lost: what follows would tell of that only.
        return runner.place.device != "cuda"
    return True


def wrong_stage(exercise: Exercise, place: Place, source: Source, results: Results) -> Stage:
    """The stage of an answer that is wrong on some case: the first one is shown."""
    case, wrong = results.wrong[0]
    evidence = evidence_of(source, results)
    finding = with_case(diagnose(exercise, evidence, wrong.finding), case)
    counts = {"cases": len(results.passed) + len(results.wrong), "wrong": len(results.wrong)}
    return failed("run", finding, **counts, where=place.kind)


def evidence_of(source: Source, results: Results) -> Evidence:
    """What the cases say so far; of the first wrong one what it looks like."""
    _, wrong = results.wrong[0]
    return Evidence(
        "run",
        cases=tuple(case.name for case, _ in results.wrong),
        passed=tuple(results.passed),
        patterns=wrong.patterns,
        error=wrong.error,
        tree=source.tree,
    )


def with_case(finding: Finding, case: Case) -> Finding:
    """The finding, its case named with what it is there to find."""
    return replace(finding, case=f"{case}: {case.why}" if case.why else str(case))
