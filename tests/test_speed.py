"""The speed stage's verdicts, and the file of its targets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from checkers.exercise import Case, Exercise, Rung, SpeedTarget, Verdict
from checkers.grading import rulers, speed
from checkers.grading.speed import Interval, check_speed, judge, ratio_interval
from checkers.grading.timing import Options
from checkers.thresholds import FILE, Target, Thresholds
from tests.fake_gpu import FakeDevice, copy_ruler, kernel

RATE = 80e6  # bytes a second: the ruler takes 10 us for a case's 800 bytes
CASES = (Case("wide", {"N": 100}), Case("narrow", {"N": 100}))


def exercise(*cases: Case) -> Exercise:
    return Exercise(
        id="ch99.double",
        title="",
        points=1,
        minutes=1,
        rung=Rung.TRITON,
        function="double",
        section="## Doubling",
        cases=(),
        inputs=lambda case, generator: (torch.randn(case["N"], generator=generator),),
        oracle=lambda x: 2 * x,
        hints=("", "", ""),
        mistakes=(),
        speed=tuple(SpeedTarget(case, lambda arguments: 2 * arguments[0].nbytes) for case in cases),
    )


def doubled(case: Case, output: torch.Tensor, arguments: tuple) -> str | None:
    return None if torch.equal(output, 2 * arguments[0]) else "not twice the input"


def target(pass_ratio: float, **more) -> Target:
    return Target(
        "ch99.double", pass_ratio=pass_ratio, **{"arch": "sm_90", "verified": True, **more}
    )


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    return fake(monkeypatch)


def fake(monkeypatch: pytest.MonkeyPatch, **options) -> FakeDevice:
    device = FakeDevice(**options)
    ruler = replace(rulers.RULERS["copy"], prepare=copy_ruler(device, RATE))
    monkeypatch.setitem(rulers.RULERS, "copy", ruler)
    monkeypatch.setattr(rulers, "prepare_copy", copy_ruler(device, RATE))
    return device


def check(device: FakeDevice, seconds: float, *targets: Target, cases=CASES[:1], right=True):
    answer = kernel(device, "answer", seconds, right)
    options = Options(batch_seconds=1e-3, rounds=20)
    return check_speed(
        exercise(*cases), answer, 1, Thresholds(targets), "sm_90", doubled, device, "GPU", options
    )


def test_an_answer_above_its_target_passes_and_says_by_how_much(device: FakeDevice) -> None:
    stage = check(device, 11e-6, target(0.85))
    assert stage.verdict is Verdict.PASS
    assert "0.91 of this GPU's copy bandwidth" in stage.reason
    (measured,) = stage.measures["cases"]
    assert measured["ratio"] == pytest.approx(10 / 11, abs=1e-3)
    assert measured["pass"] == 0.85
    assert measured["samples"] == 20
    assert measured["mode"] == "graph"


def test_a_slow_answer_fails_with_the_traffic_that_would_explain_it(device: FakeDevice) -> None:
    stage = check(device, 20e-6, target(0.85))
    assert stage.verdict is Verdict.FAIL
    assert stage.reason.startswith("too slow: 0.50 of this GPU's copy bandwidth")
    assert stage.finding is not None
    assert "2.0 times the bytes" in stage.finding.probable
    assert stage.finding.reread == "## Doubling"


def test_an_answer_at_its_target_is_undecided_after_four_times_the_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = check(fake(monkeypatch, noise=0.1), 11e-6, target(10 / 11))
    assert stage.verdict is Verdict.UNDECIDED
    assert "run it again" in stage.reason
    assert stage.measures["cases"][0]["samples"] == 80


def test_faster_than_the_memory_is_refused(device: FakeDevice) -> None:
    # The limit is the ruler's rate / 0.9, and 5 % above that is refused: 10 us * 0.9 / 1.05.
    assert check(device, 8.7e-6, target(0.85)).verdict is Verdict.PASS
    stage = check(device, 8.4e-6, target(0.85))
    assert stage.verdict is Verdict.FAIL
    assert "impossible" in stage.reason


def test_faster_than_the_memory_is_believed_of_a_working_set_that_the_l2_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = fake(monkeypatch, l2_bytes=10**9)
    assert check(device, 5e-6, target(0.85)).verdict is Verdict.PASS


def test_a_wrong_answer_is_not_timed(device: FakeDevice) -> None:
    stage = check(device, 1e-6, target(0.85), right=False)
    assert stage.verdict is Verdict.FAIL
    assert "not twice the input" in stage.reason


def test_the_worst_case_decides(device: FakeDevice) -> None:
    stage = check(device, 11e-6, target(0.85), target(0.95, case="narrow"), cases=CASES)
    assert stage.verdict is Verdict.FAIL
    assert stage.reason.startswith("narrow: too slow")
    assert [one["pass"] for one in stage.measures["cases"]] == [0.85, 0.95]


@pytest.mark.parametrize("advice", [target(0.99, verified=False), target(0.99, arch="sm_100")])
def test_a_target_nobody_has_measured_only_advises(device: FakeDevice, advice: Target) -> None:
    stage = check(device, 20e-6, advice)
    assert stage.verdict is Verdict.PASS
    assert "advised: 0.99" in stage.reason


def test_an_exception_while_timed_is_a_failure_with_its_text(device: FakeDevice) -> None:
    def answer(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("N must be at most 64")

    stage = check_speed(
        exercise(CASES[0]), answer, 1, Thresholds(()), "sm_90", doubled, device, "GPU"
    )
    assert stage.verdict is Verdict.FAIL
    assert "ValueError: N must be at most 64" in stage.reason


def test_too_little_memory_skips_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    device = fake(monkeypatch, free=1000)
    stage = check(device, 11e-6, target(0.85))
    assert stage.verdict is Verdict.SKIP
    assert "free GPU memory" in stage.reason


def test_a_replaced_clock_fails(device: FakeDevice) -> None:
    device.replaced = "time.perf_counter"
    stage = check(device, 11e-6, target(0.85))
    assert stage.verdict is Verdict.FAIL
    assert "time.perf_counter was replaced" in stage.reason


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_stage_is_skipped() -> None:
    stage = speed.stage_for(exercise(CASES[0]), lambda x: x, {"root": ".", "seed": 1}, "cuda")
    assert (stage.verdict, stage.reason) == (Verdict.SKIP, "needs a GPU")


def test_the_interval_covers_the_ratio_and_narrows_with_rounds() -> None:
    rng = np.random.default_rng(0)

    def interval(rounds: int) -> Interval:
        ruler = 1 + 0.02 * rng.standard_normal(rounds)
        return ratio_interval(ruler, 1.25 + 0.02 * rng.standard_normal(rounds), seed=3)

    few, many = interval(20), interval(2000)
    assert few.low < 0.8 < few.high
    assert many.low < 0.8 < many.high
    assert many.high - many.low < 0.2 * (few.high - few.low)


def test_rounds_disturbed_together_do_not_widen_the_interval() -> None:
    disturbance = np.where(np.arange(60) % 2, 1.0, 1.5)
    interval = ratio_interval(disturbance, 2 * disturbance, seed=0)
    assert (interval.low, interval.high) == (0.5, 0.5)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.86, 0.9, Verdict.PASS),
        (0.8, 0.84, Verdict.FAIL),
        (0.84, 0.86, Verdict.UNDECIDED),
        (0.85, 0.86, Verdict.PASS),
    ],
)
def test_only_a_whole_interval_on_one_side_decides(low, high, verdict) -> None:
    assert judge(Interval(0.85, low, high), 0.85) is verdict


def test_the_timed_outputs_are_verified_as_the_run_stage_does() -> None:
    x = torch.randn(100)
    whole = exercise(CASES[0])
    assert speed.verified(whole, CASES[0], 2 * x, (x,)) is None
    assert "off by more than" in speed.verified(whole, CASES[0], x, (x,))
    assert "dtype" in speed.verified(whole, CASES[0], 2 * x.half(), (x,))


def test_inputs_are_drawn_with_the_given_seed() -> None:
    draw = exercise(CASES[0]).inputs
    one, again, other = (speed.device_inputs(draw, CASES[0], seed, "cpu")[0] for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)


# Targets


def test_a_lookup_falls_back_to_the_default_then_to_another_architecture() -> None:
    default, wide = target(0.8), target(0.9, case="wide")
    blackwell = target(0.7, arch="sm_100", verified=False)
    thresholds = Thresholds((default, wide, blackwell))
    assert thresholds.find("ch99.double", "wide", "sm_90").target is wide
    assert thresholds.find("ch99.double", "narrow", "sm_90").target is default
    assert thresholds.find("ch99.double", "wide", "sm_100").target is blackwell
    assert not thresholds.find("ch99.double", "wide", "sm_100").binding
    assert thresholds.find("ch99.double", "wide", "sm_80").target is wide
    assert not thresholds.find("ch99.double", "wide", "sm_80").binding
    assert thresholds.find("ch99.other", "wide", "sm_90") is None


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    thresholds = Thresholds(
        (
            target(0.85, case="wide", reference=0.93, gpu='"A" GPU', samples=60, date="2026-11-30"),
            target(0.5),
        )
    )
    path = tmp_path / "thresholds.toml"
    thresholds.write(path)
    assert set(Thresholds.read(path).targets) == set(thresholds.targets)
    once = path.read_text()
    Thresholds.read(path).write(path)
    assert path.read_text() == once


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[target]]\nexercise = "a"\narch = "sm_90"\npas = 1', "unknown key 'pas'"),
        ('[[target]]\nexercise = "a"\narch = "sm_90"', "lacks 'pass'"),
        ("[[target", "thresholds.toml"),
    ],
)
def test_a_broken_file_is_an_error_that_names_it(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "thresholds.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        Thresholds.read(path)


def test_the_committed_file_can_be_read_and_written_unchanged(tmp_path: Path) -> None:
    thresholds = Thresholds.read(FILE)
    assert thresholds.targets
    thresholds.write(tmp_path / "thresholds.toml")
    assert (tmp_path / "thresholds.toml").read_text() == FILE.read_text()
