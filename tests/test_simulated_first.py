"""With a GPU, CuTe DSL answers run on the simulator first: what it rejects never reaches the GPU.

The GPU's worker is one that only notes its jobs; the simulator is the real one where its words matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from checkers import answers
from checkers.answers import Answer
from checkers.exercise import Case, Finding, Report, Stage, Verdict
from checkers.grading import stages
from checkers.grading.grader import Grader, Limits
from checkers.grading.worker import Ending, WorkerError
from tests.test_grader import BYTES, COPY, SCALE, TINY, stage

INDEX = "    i = block * 128 + thread\n"
HALF_A_BARRIER = "cute.arch.barrier(barrier_id=1, number_of_threads=128)"
HANGS = (INDEX, f"{INDEX}    if thread < 64:\n        {HALF_A_BARRIER}\n")
RIGHT_ON_GPU = Stage("run", Verdict.PASS, "right on 3 cases", 0.5, {"cases": 3, "where": "cuda"})
RIGHT_SIMULATED = replace(RIGHT_ON_GPU, measures={"cases": 3, "where": "simulator"})
FAST = Stage("speed", Verdict.PASS, "0.99 of the copy bandwidth")


class FakeWorker:
    """Notes its jobs and reports the same stages of each, or raises ``error``."""

    def __init__(self, *found: Stage, error: Exception | None = None, kind: str = "done") -> None:
        self.found, self.error, self.kind = found, error, kind
        self.jobs: list[dict] = []
        self.limits: list[float] = []

    def run(self, target, job, limit_s, preload=(), on_event=None) -> Ending:
        self.jobs.append(job)
        self.limits.append(limit_s)
        if self.error is not None:
            raise self.error
        events = [
            {"event": "stage", "stage": stages.stage_to_json(stage)}
            for stage in self.found
            if stage.name in ("run", "speed")
        ]
        return Ending(self.kind, 1.0, [{"event": "case", "name": "aligned"}, *events])

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def warm() -> Iterator[Grader]:
    with Grader(TINY, Limits(compile=40, run=40)) as grader:
        yield grader


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeWorker:
    """The GPU that there seems to be: everything is right on it."""
    monkeypatch.setattr("checkers.grading.grader.cuda_available", lambda: True)
    return FakeWorker(RIGHT_ON_GPU)


Check = Callable[..., Report]


@pytest.fixture
def check(warm: Grader, gpu: FakeWorker, monkeypatch: pytest.MonkeyPatch) -> Check:
    """``check((text, instead)...)`` grades the changed reference, by default with a GPU."""

    def graded(*changes: tuple[str, str], exercise=COPY, device="cuda", **options) -> Report:
        monkeypatch.setattr(warm, "_on_cuda", gpu)
        reference = answers.from_solution(TINY, exercise.id)
        cell = answers.with_mistake(reference.source, changes, "")
        answer = Answer(cell, "a test", reference.setup)
        return warm.grade(exercise, answer, device, seed=7, **options)

    return graded


def parts(report: Report) -> list[dict]:
    return list(stage(report, "run").measures["parts"])


@pytest.fixture
def simulated(warm: Grader, monkeypatch: pytest.MonkeyPatch) -> Callable[..., FakeWorker]:
    """``simulated(stage, ...)`` makes these the outcome of the run on the simulator."""
    real = warm._compiling

    def set_to(*found: Stage, **how) -> FakeWorker:
        fake = FakeWorker(*found, **how)

        def run(target, job, *rest, **options):
            chosen = fake if target.endswith(".run.main") else real
            return chosen.run(target, job, *rest, **options)

        monkeypatch.setattr(warm, "_compiling", type("Both", (), {"run": staticmethod(run)}))
        return fake

    return set_to


# --- what the simulator rejects ------------------------------------------------------------------


def test_a_kernel_that_hangs_on_the_simulator_never_reaches_the_gpu(check, gpu):
    report = check(HANGS)
    run = stage(report, "run")
    assert (report.verdict, report.points, gpu.jobs) == (Verdict.FAIL, 0, [])
    assert "No thread can go on" in run.reason
    assert "64 of 128 threads have arrived" in run.finding.element
    assert run.finding.where == "on the simulator, where it runs first; the GPU was left alone"
    assert run.measures["where"] == "simulator"
    (first, second) = parts(report)
    assert (first["where"], first["verdict"], first["cases"]) == ("simulator", "fail", 1)
    assert (second["where"], second["verdict"]) == ("cuda", "skip")


def test_a_fault_is_told_in_the_same_words_with_a_gpu_and_without(check):
    guard = ("if i < cute.size(mX):", "if i >= 0:")
    with_gpu, without = (stage(check(guard, device=d), "run") for d in ("cuda", "simulator"))
    assert with_gpu.reason.startswith("line 7: mX[1025]: a 4-byte load begins")
    assert replace(with_gpu.finding, where="") == without.finding
    assert with_gpu.reason == without.reason


def test_a_simulation_that_does_not_end_keeps_the_kernel_from_the_gpu(check, gpu, simulated):
    fake = simulated(kind="timeout")
    report = check()
    assert "Not done after 40 seconds on case aligned" in stage(report, "run").reason
    assert stage(report, "run").finding.where.startswith("on the simulator")
    assert (fake.limits, gpu.jobs) == ([40], [])


# --- what it lets through ------------------------------------------------------------------------


def test_an_answer_without_faults_runs_on_the_gpu_too(check, gpu):
    report = check()
    run = stage(report, "run")
    assert (run.verdict, report.points) == (Verdict.PASS, 10)
    assert run.reason == "simulator: no fault on 3 cases; GPU: right on 3 cases"
    (job,) = gpu.jobs
    assert (job["device"], job["seed"], job["exercise"]) == ("cuda", 7, "ch90.cute_copy")
    (first, second) = parts(report)
    assert (first["where"], first["verdict"], first["cases"]) == ("simulator", "pass", 3)
    assert second == {"where": "cuda", "verdict": "pass", "cases": 3, "seconds": 0.5}
    assert run.seconds == pytest.approx(first["seconds"] + 0.5, abs=0.01)
    assert run.measures["where"] == "cuda"


def test_what_only_the_gpu_finds_is_said_to_be_found_there(check, gpu, simulated):
    simulated(RIGHT_SIMULATED)
    wrong = Finding("3 of 2048 elements are off.", probable="A race.")
    gpu.found = (stages.failed("run", wrong, cases=3, wrong=1, where="cuda"),)
    report = check()
    run = stage(report, "run")
    assert (report.verdict, run.reason, run.finding.probable) == (
        Verdict.FAIL,
        wrong.summary,
        "A race.",
    )
    assert run.finding.where == "on the GPU; the simulator found no fault on 3 cases"
    assert [part["verdict"] for part in parts(report)] == ["pass", "fail"]


def test_speed_is_measured_on_the_gpu_and_nothing_is_counted(warm, gpu, simulated, monkeypatch):
    fake = simulated(RIGHT_SIMULATED)
    gpu.found = (RIGHT_ON_GPU, FAST)
    monkeypatch.setattr(warm, "_on_cuda", gpu)
    timed = replace(COPY, speed=(object(),), floors=(object(),))
    job = {"setup": "", "source": "", "device": "cuda"}
    run, speed = warm._run(timed, job, "cuda", simulate=True)
    assert (run.verdict, speed) == (Verdict.PASS, FAST)
    (job,) = fake.jobs
    assert (job["device"], job["counted"]) == ("simulator", False)


# --- where it can't tell -------------------------------------------------------------------------

UNKNOWN = "the simulator can't run `tcgen05.shift ...;` (PTX line 9): there is no such instruction"


def test_an_instruction_that_the_simulator_lacks_leaves_it_to_the_gpu(check, gpu, simulated):
    simulated(replace(stages.skipped("run", f"needs a GPU: {UNKNOWN}"), measures={"cases": 1}))
    report = check()
    run = stage(report, "run")
    assert (run.verdict, len(gpu.jobs)) == (Verdict.PASS, 1)
    assert run.reason == f"GPU: right on 3 cases; not simulated: {UNKNOWN}"
    (first, _) = parts(report)
    assert first["verdict"] == "skip" and first["reason"] == UNKNOWN and first["cases"] == 1


def test_a_simulator_that_breaks_leaves_it_to_the_gpu(check, gpu, simulated):
    broken = "the grader itself failed, not the answer:\nTraceback ...\nKeyError: 'r12'\n"
    simulated(error=WorkerError(broken))
    report = check()
    run = stage(report, "run")
    assert (run.verdict, len(gpu.jobs)) == (Verdict.PASS, 1)
    assert (
        run.reason == "GPU: right on 3 cases; not simulated: the simulator failed (KeyError: 'r12')"
    )


def test_a_failure_on_the_gpu_says_that_nothing_was_simulated(check, gpu, simulated):
    simulated(stages.skipped("run", f"needs a GPU: {UNKNOWN}"))
    gpu.found = (stages.failed("run", Finding("off."), where="cuda"),)
    finding = stage(check(), "run").finding
    assert finding.where == f"on the GPU; not simulated: {UNKNOWN}"


# --- what does not run twice ---------------------------------------------------------------------


def test_the_simulator_can_be_left_out(check, gpu, simulated):
    fake = simulated(RIGHT_SIMULATED)
    report = check(HANGS, simulate=False)
    assert (fake.jobs, len(gpu.jobs)) == ([], 1)
    assert stage(report, "run").reason == "right on 3 cases"
    assert "parts" not in stage(report, "run").measures


@pytest.mark.parametrize("exercise", [BYTES, SCALE], ids=lambda exercise: exercise.id)
def test_other_rungs_run_on_the_gpu_at_once(check, gpu, simulated, exercise):
    fake = simulated(RIGHT_SIMULATED)
    check(exercise=exercise)
    assert (fake.jobs, len(gpu.jobs)) == ([], 1)


def test_an_exercise_with_large_cases_alone_has_nothing_to_simulate(
    warm, gpu, simulated, monkeypatch
):
    fake = simulated(RIGHT_SIMULATED)
    monkeypatch.setattr(warm, "_on_cuda", gpu)
    large = replace(COPY, cases=(Case("huge", needs_gpu=True),))
    run, _ = warm._run(large, {"setup": "", "source": "", "device": "cuda"}, "cuda", simulate=True)
    assert (fake.jobs, run.reason) == ([], "right on 3 cases")


def test_without_a_gpu_nothing_changes(check, gpu):
    report = check(device="simulator")
    assert stage(report, "run").reason == "right on 3 cases"
    assert "parts" not in stage(report, "run").measures and gpu.jobs == []


# --- a hang on the GPU ---------------------------------------------------------------------------


def test_a_hang_on_the_gpu_says_how_to_learn_more(check, gpu):
    gpu.kind, gpu.found = "timeout", ()
    finding = stage(check(simulate=False), "run").finding
    assert "on case aligned: it was stopped" in finding.summary
    assert "--device simulator" in finding.probable


def test_a_small_case_has_a_limit_of_its_own_on_the_gpu(check, gpu):
    check()
    (job,) = gpu.jobs
    assert job["case_limit"] == Limits().case_cuda < Limits().run_cuda == gpu.limits[0]
