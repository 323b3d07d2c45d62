"""The run stage, in a worker's child: is the answer right on every case; then, is it fast."""

from __future__ import annotations

import ast
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
from checkers.grading.diagnose import diagnose
from checkers.grading.memory import Watch
from checkers.grading.simulated import Faulty, is_simulators_own
from checkers.grading.stages import failed, skipped, stage_to_json
from checkers.grading.verify import Wrong
from checkers.simulator.ptx.lexer import PtxSyntaxError
from checkers.simulator.ptx.modifiers import Unsupported

Emit = Callable[..., None]
# PTX that the simulator does not know: the answer's fault it is not.
NOT_SIMULATED = (Unsupported, PtxSyntaxError)


def main(job: Mapping[str, Any], emit: Emit) -> None:
    """The job: emits ``case`` events as it goes, then ``stage`` events for run and speed."""
    exercise = Course(Path(job["root"])).exercise(job["exercise"])
    place = place_for(exercise, job["device"])
    timed = exercise.speed and place.device == "cuda"
    counted = exercise.floors and place.kind == "simulator"
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
    """What came of the cases. too_large: those that the GPU's free memory did not allow."""

    passed: list[str] = field(default_factory=list)
    wrong: list[tuple[Case, Wrong]] = field(default_factory=list)
    too_large: list[str] = field(default_factory=list)
    worst: float = 0.0  # the largest error over its bound


def run_stage(
    exercise: Exercise, place: Place, job: Mapping[str, Any], emit: Emit
) -> tuple[Stage, Callable | None]:
    """The run stage, and the answer's function when it was right on every case."""
    source = Source(job)
    try:
        function = load_function(exercise, place, source)
    except Wrong as wrong:
        evidence = Evidence("run", error=wrong.error, tree=ast.parse(source.text))
        return failed("run", diagnose(exercise, evidence, wrong.finding)), None
    try:
        results = run_cases(exercise, place, source, function, emit)
    except NOT_SIMULATED as unknown:
        return skipped("run", f"needs a GPU: {unknown}"), None
    if results.wrong:
        return wrong_stage(exercise, place, source, results), None
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


def load_function(exercise: Exercise, place: Place, source: Source) -> Callable:
    """Runs the answer's module and finds its function. Raises Wrong."""
    watch = Watch()
    try:
        with place.entered(watch), watch.pause():
            module = answer_module.load(source.job)
    except BaseException as error:  # sys.exit and KeyboardInterrupt too: it is the answer's code
        raise source.explain(error) from error
    finding = answer_module.missing_function(exercise, module)
    if finding is not None:
        raise Wrong(finding, "check:missing_function")
    return getattr(module, exercise.function)


def run_cases(
    exercise: Exercise, place: Place, source: Source, function: Callable, emit: Emit
) -> Results:
    """Runs every case that can run here, the large ones only while all is right."""
    results = Results()
    for case in exercise.cases:
        if not place.takes(case) or (case.needs_gpu and results.wrong):
            continue
        emit("case", name=case.name)
        try:
            error = CaseRunner(exercise, place, case, source.job["seed"]).check(function)
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
                continue
            if error is raised or is_simulators_own(error):
                raise  # the grader's own
            if isinstance(error, NOT_SIMULATED):
                raise error from None
            results.wrong.append((case, source.explain(error)))
            if place.device == "cuda":
                break  # the context may be lost: what follows would tell of that only
    return results


def wrong_stage(exercise: Exercise, place: Place, source: Source, results: Results) -> Stage:
    """The stage of an answer that is wrong on some case: the first one is shown."""
    case, wrong = results.wrong[0]
    evidence = Evidence(
        "run",
        cases=tuple(case.name for case, _ in results.wrong),
        passed=tuple(results.passed),
        patterns=wrong.patterns,
        error=wrong.error,
        tree=ast.parse(source.text),
    )
    finding = with_case(diagnose(exercise, evidence, wrong.finding), case)
    counts = {"cases": len(results.passed) + len(results.wrong), "wrong": len(results.wrong)}
    return failed("run", finding, **counts, where=place.kind)


def with_case(finding: Finding, case: Case) -> Finding:
    """The finding, its case named with what it is there to find."""
    return replace(finding, case=f"{case}: {case.why}" if case.why else str(case))
