"""What calibrating makes of a reference's ratio, here and on other GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from checkers.calibrate import Measured, calibrate, reference_of, settle
from checkers.course import Course
from checkers.exercise import Case, Exercise, Rung, SpeedTarget
from checkers.grading.timing import Options
from checkers.thresholds import Target, Thresholds
from tests.fake_gpu import kernel
from tests.test_speed import device, target  # noqa: F401  the fixture

MACHINE = {"arch": "sm_90", "gpu": "NVIDIA H200", "driver": "580.1", "date": "2026-11-30"}
WIDE = SpeedTarget(Case("wide"), lambda arguments: 800)
DOUBLE = Exercise(
    id="ch99.double",
    title="",
    points=1,
    minutes=1,
    rung=Rung.TRITON,
    function="double",
    section="",
    cases=(),
    inputs=lambda case, generator: (torch.randn(100, generator=generator),),
    oracle=lambda x: 2 * x,
    hints=("", "", ""),
    mistakes=(),
    speed=(WIDE,),
)


def settled(ratio: float, *before: Target, arch: str = "sm_90") -> tuple[Target, str | None]:
    machine = {**MACHINE, "arch": arch}
    return settle(Thresholds(before), DOUBLE, WIDE, Measured(ratio, 60), machine)


def test_on_the_design_gpu_pass_stays_what_the_course_promises() -> None:
    written, problem = settled(0.97, target(0.85, verified=False))
    assert problem is None
    assert written == Target(
        exercise="ch99.double",
        arch="sm_90",
        pass_ratio=0.85,
        case="wide",
        reference=0.97,
        verified=True,
        gpu="NVIDIA H200",
        driver="580.1",
        date="2026-11-30",
        samples=60,
    )


@pytest.mark.parametrize("ratio", [0.80, 0.86])
def test_a_reference_below_the_promise_is_a_problem_and_lowers_nothing(ratio: float) -> None:
    written, problem = settled(ratio, target(0.85))
    assert problem is not None and f"{ratio:.3f}" in problem
    assert (written.pass_ratio, written.verified) == (0.85, False)


def test_elsewhere_pass_is_what_the_reference_reaches_or_the_design() -> None:
    slow, problem = settled(0.70, target(0.85), arch="sm_80")
    assert (slow.pass_ratio, slow.verified, problem) == (0.67, True, None)
    fast, _ = settled(0.97, target(0.85), arch="sm_80")
    assert fast.pass_ratio == 0.85
    again, _ = settled(0.97, target(0.85), slow, arch="sm_80")
    assert again.pass_ratio == 0.85  # not a ratchet


def test_without_a_design_the_reference_alone_decides() -> None:
    written, problem = settled(0.50)
    assert (written.pass_ratio, problem) == (0.48, None)


def test_calibrating_a_course_writes_its_file_and_keeps_the_rest(
    tmp_path: Path,
    device,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for folder in ("checkers/chapters", "solutions"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "checkers/chapters/ch99_made_up.py").write_text("EXERCISES = ()\n")
    (tmp_path / "solutions/ch99_made_up.py").write_text("def double(x):\n    return 2 * x\n")
    chapter = Course(tmp_path).chapter("ch99")
    assert reference_of(chapter, DOUBLE)(3) == 6
    spends = kernel(device, "answer", 10.5e-6)
    monkeypatch.setattr("checkers.calibrate.reference_of", lambda chapter, exercise: spends)
    path = tmp_path / "checkers/thresholds.toml"
    other = Target("ch98.other", "sm_90", 0.5)
    Thresholds((target(0.85, verified=False), other)).write(path)
    monkeypatch.setattr("checkers.machine.describe_machine", lambda: MACHINE)
    monkeypatch.setattr("checkers.calibrate.verified", lambda *anything: "not like that")
    outcome = calibrate(Course(tmp_path), [DOUBLE], device=device, options=Options(rounds=12))
    assert "the reference is refused" in outcome.problems[0]
    assert Thresholds.read(path).targets == (other, target(0.85, verified=False))

    monkeypatch.setattr("checkers.calibrate.verified", lambda *anything: None)
    outcome = calibrate(Course(tmp_path), [DOUBLE], device=device, options=Options(rounds=12))
    assert outcome.problems == ()
    assert outcome.targets[0].reference == pytest.approx(10 / 10.5, abs=1e-3)
    assert outcome.targets[0] in Thresholds.read(path).targets
    assert other in Thresholds.read(path).targets
