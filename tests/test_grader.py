"""The grader end to end, on the tiny course: verdicts, points, and endings that are not errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from checkers import answers
from checkers.answers import Answer
from checkers.course import Course
from checkers.exercise import Report, Stage, Verdict
from checkers.grading import stages
from checkers.grading.grader import DeviceError, Grader, Limits, resolve_device

TINY = Course(Path(__file__).parent / "tiny")
SCALE, COPY, GELU, BYTES = (
    TINY.exercise(f"ch90.{name}")
    for name in ("triton_scale", "cute_copy", "compiled_gelu", "bytes_moved")
)


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader(TINY, Limits(compile=40, run=40)) as warm:
        yield warm


def graded(grader: Grader, exercise_id: str, *replace: tuple[str, str], answer: str = "") -> Report:
    """The report on the reference with some of its text replaced, on the simulator side."""
    reference = answers.from_solution(TINY, exercise_id)
    cell = answers.with_mistake(reference.source, replace, answer)
    changed = Answer(cell, "a test", reference.setup)
    return grader.grade(TINY.exercise(exercise_id), changed, device="simulator", seed=7)


def stage(report: Report, name: str) -> Stage:
    return next(stage for stage in report.stages if stage.name == name)


def finding_text(report: Report) -> str:
    """Everything that the failing stage tells the learner."""
    failing = next(stage for stage in report.stages if stage.verdict is Verdict.FAIL)
    assert failing.finding is not None
    return f"{failing.finding.summary}\n{failing.finding.probable}\n{failing.finding.output}"


@pytest.mark.parametrize("exercise", TINY.exercises, ids=lambda exercise: exercise.id)
def test_a_reference_passes_every_stage_that_can_run(grader, exercise):
    report = grader.grade(exercise, answers.from_solution(TINY, exercise.id), "simulator")
    assert report.verdict is Verdict.PASS, report
    assert report.points + report.open_points == exercise.points


@pytest.mark.parametrize("exercise", TINY.exercises, ids=lambda exercise: exercise.id)
def test_an_untouched_skeleton_is_not_attempted(grader, exercise):
    reference = answers.from_solution(TINY, exercise.id)
    untouched = Answer(answers.skeleton_of(TINY, exercise.id), "a test", reference.setup)
    report = grader.grade(exercise, untouched, "simulator")
    assert (report.verdict, report.points) == (Verdict.NOT_ATTEMPTED, 0)
    assert [stage["verdict"] for stage in report.to_json()["stages"]] == ["skip"]


@pytest.mark.parametrize("name", ["ch90.cute_copy", "ch90.triton_scale"])
def test_without_a_gpu_kernels_run_on_the_simulator(grader, name):
    report = graded(grader, name)
    run = stage(report, "run")
    assert (run.verdict, run.reason) == (Verdict.PASS, "right on 3 cases")
    assert run.measures["where"] == "simulator"
    assert (report.points, report.open_points) == (10, 0)


def test_a_missing_guard_is_a_fault_with_the_learners_line(grader):
    report = graded(grader, "ch90.cute_copy", ("if i < cute.size(mX):", "if i >= 0:"))
    finding = stage(report, "run").finding
    assert finding.summary.startswith("line 7: mX[1025]: a 4-byte load begins")
    assert finding.picture == "   7 |         mO[i] = mX[i]"
    assert finding.case.startswith("tail_1")
    assert finding.element.startswith("thread 1 (warp 0, lane 1) of block 8; ")
    assert report.points == 0


def test_a_store_past_the_end_is_found(grader):
    report = graded(grader, "ch90.triton_scale", ("x * factor, mask=exists", "x * factor"))
    assert (report.verdict, report.points) == (Verdict.FAIL, 0)
    assert "wrote past the end of the output" in finding_text(report)
    assert stage(report, "run").finding.case.startswith("tail_1")


def test_an_endless_loop_is_stopped_at_its_limit():
    with Grader(TINY, Limits(compile=4, run=4)) as impatient:
        report = graded(
            impatient, "ch90.triton_scale", ("out = torch", "while True: pass\n    out = torch")
        )
    assert "Not done after 4 seconds" in finding_text(report)
    assert "condition never becomes false" in finding_text(report)
    (line,) = stage(report, "compile").finding.picture.splitlines()
    assert line.endswith("|     while True: pass")


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ("import os; os._exit(3)", "exit code 3"),
        ("import os; os._exit(0)", "ended the process"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "segmentation fault"),
        ("raise SystemExit(2)", "SystemExit"),
        ("raise RuntimeError('no luck')", "no luck"),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_every_way_to_end_the_process_costs_one_sentence(grader, ending, words):
    report = graded(grader, "ch90.bytes_moved", answer=ending)
    assert report.verdict is Verdict.FAIL
    assert words in finding_text(report)


def test_after_a_crash_the_same_grader_goes_on(grader):
    graded(grader, "ch90.bytes_moved", answer="import os; os._exit(9)")
    assert graded(grader, "ch90.bytes_moved").verdict is Verdict.PASS


def test_a_missing_function_is_named(grader):
    report = graded(grader, "ch90.bytes_moved", ("def bytes_moved", "def moved_bytes"))
    assert "there is no function bytes_moved" in finding_text(report)


@pytest.mark.parametrize(
    ("last_line", "words"),
    [
        ("return None", "got None"),
        ("return out.view(1, -1)", "Wanted shape"),
        ("return 1.5", "Wanted a torch.Tensor"),
        ("return torch.empty(x.shape, dtype=torch.float16, device=x.device)", "Wanted dtype"),
    ],
)
def test_a_wrong_form_is_named_before_values_are_looked_at(grader, last_line, words):
    report = graded(grader, "ch90.triton_scale", ("return out", last_line))
    assert words in finding_text(report)


def test_what_the_answer_printed_is_shown_with_its_failure(grader):
    report = graded(
        grader, "ch90.triton_scale", ("return out", "print('n is', x.numel()); return None")
    )
    assert "n is 2048" in finding_text(report)


def test_the_seed_replays_the_same_inputs(grader):
    wrong = ("x * factor, mask=exists", "x * factor + 1, mask=exists")
    first, second = (graded(grader, "ch90.triton_scale", wrong) for _ in range(2))
    assert first.seed == second.seed == 7
    assert stage(first, "run").finding.element == stage(second, "run").finding.element


def test_a_broken_rule_fails_the_codegen_stage_alone(grader):
    narrow = [
        ("offsets < n", "(offsets < n) & (offsets % 2 < 2)"),
        ("tl.load(x_ptr + offsets,", "tl.load(x_ptr + offsets * (n // n),"),
    ]
    report = graded(grader, "ch90.triton_scale", *narrow)
    assert stage(report, "run").verdict is Verdict.PASS
    assert stage(report, "codegen").verdict is Verdict.FAIL
    assert 0 < report.points < SCALE.points


def test_points_are_shared_over_the_stages_that_apply():
    assert stages.shares(BYTES) == {"source": 0, "run": 4}
    assert sum(stages.shares(SCALE).values()) == 10
    assert stages.shares(SCALE) == {"source": 0, "compile": 1, "run": 7, "codegen": 2}


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(DeviceError, match="choose one of auto, cuda, simulator"):
        resolve_device("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(DeviceError, match="no CUDA GPU"):
            resolve_device("cuda")
