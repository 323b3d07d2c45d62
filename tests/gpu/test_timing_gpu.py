"""The timing says of real kernels what is true of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from checkers.exercise import Case, Exercise, Rung, SpeedTarget, Verdict
from checkers.grading import rulers
from checkers.grading.cuda_device import CudaDevice
from checkers.grading.speed import check_speed, ratio_interval
from checkers.grading.timing import Options, Timing, measure
from checkers.thresholds import Target, Thresholds

OPTIONS = Options(rounds=40)
MIB = 1 << 20


def random_bytes(size: int):
    """make_inputs of one bfloat16 tensor of ``size`` bytes."""
    return lambda index: (
        torch.randn(
            size // 2,
            device="cuda",
            dtype=torch.bfloat16,
            generator=torch.Generator("cuda").manual_seed(index),
        ),
    )


def same(output: torch.Tensor, arguments: tuple) -> str | None:
    return None if torch.equal(output, arguments[0]) else "not a copy"


def anything(output: object, arguments: tuple) -> str | None:
    return None


def time_copy(function, size: int, verify=same, **options) -> dict[str, Timing]:
    chosen = replace(OPTIONS, **options)
    return measure({"answer": function}, random_bytes(size), "copy", 2 * size, chosen, verify)


def ratio(timings: dict[str, Timing]) -> float:
    assert not timings["answer"].refused, timings["answer"].refused
    return ratio_interval(timings["copy"].seconds, timings["answer"].seconds, 0).ratio


def copied(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x).copy_(x)


def test_the_ruler_reaches_what_the_datasheet_says() -> None:
    datasheet = rulers.datasheet_gbps(torch.cuda.get_device_name())
    if datasheet is None:
        pytest.skip(f"needs a GPU in rulers.DATASHEET_GBPS, not {torch.cuda.get_device_name()}")
    timings = time_copy(copied, 1024 * MIB)
    assert 0.80 * datasheet <= timings["copy"].rate() / 1e9 <= 1.05 * datasheet
    assert 0.80 * datasheet <= rulers.copy_ceiling_gbps(CudaDevice()) <= 1.05 * datasheet


@pytest.mark.parametrize("size", [4 * MIB, 32 * MIB, 1024 * MIB])
def test_the_ratio_of_a_copy_to_the_ruler_is_one(size: int) -> None:
    assert ratio(time_copy(copied, size)) == pytest.approx(1.0, abs=0.02)


def test_small_kernels_go_in_a_graph_and_large_ones_in_a_queue() -> None:
    small, large = time_copy(copied, 4 * MIB), time_copy(copied, 1024 * MIB)
    assert [small[name].mode for name in ("answer", "copy")] == ["graph", "graph"]
    assert [large[name].mode for name in ("answer", "copy")] == ["queue", "queue"]
    assert small["answer"].sets * 4 * MIB > 2 * CudaDevice().l2_bytes
    assert (small["answer"].cold, large["answer"].sets) == (True, 1)
    assert small["answer"].median < 10e-6  # the host alone would take longer


def test_rotation_keeps_small_copies_below_what_memory_can_do() -> None:
    device = CudaDevice()
    limit = rulers.memory_limit_gbps(torch.cuda.get_device_name(), device)
    for size in (2 * MIB, 8 * MIB):
        assert time_copy(copied, size)["answer"].rate() / 1e9 < 1.05 * limit


def test_the_clock_is_reported() -> None:
    timings = time_copy(copied, 4 * MIB)
    for clock in (timings["answer"].clock_before, timings["answer"].clock_after):
        assert clock is not None and 200 < clock < 4000


def test_half_the_work_is_refused() -> None:
    def half(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        out[: len(x) // 2] = x[: len(x) // 2]
        return out

    for size in (4 * MIB, 1024 * MIB):
        assert "not a copy" in time_copy(half, size)["answer"].refused


def test_an_answer_kept_from_an_earlier_call_is_refused() -> None:
    kept: dict[int, torch.Tensor] = {}

    def remembered(x: torch.Tensor) -> torch.Tensor:
        if x.data_ptr() not in kept:
            kept[x.data_ptr()] = copied(x)
        return kept[x.data_ptr()]

    assert "not a copy" in time_copy(remembered, 4 * MIB)["answer"].refused
    kept.clear()
    assert "not a copy" in time_copy(remembered, 512 * MIB)["answer"].refused


def test_work_that_is_skipped_once_the_clock_runs_is_refused() -> None:
    calls = 0

    def lazy(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return copied(x) if calls <= 2 else torch.empty_like(x)

    for size in (4 * MIB, 512 * MIB):
        calls = 0
        assert "wrong when timed" in time_copy(lazy, size)["answer"].refused


@pytest.mark.parametrize("size", [64 * MIB, 1024 * MIB])
def test_work_on_another_stream_is_refused(size: int) -> None:
    side = torch.cuda.Stream()

    def aside(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        with torch.cuda.stream(side):
            out.copy_(x)
        return out

    assert "another stream" in time_copy(aside, size)["answer"].refused


def test_small_work_on_another_stream_is_refused_too() -> None:
    side = torch.cuda.Stream()

    def aside(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        with torch.cuda.stream(side):
            out.copy_(x)
        return out

    assert time_copy(aside, 1 * MIB)["answer"].refused


def test_another_stream_that_is_waited_for_is_timed() -> None:
    side = torch.cuda.Stream()

    def joined(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            out.copy_(x)
        torch.cuda.current_stream().wait_stream(side)
        return out

    assert ratio(time_copy(joined, 1024 * MIB)) == pytest.approx(1.0, abs=0.03)


def test_what_cannot_be_captured_is_queued_and_the_next_candidate_is_captured() -> None:
    before = torch.cuda.current_stream()

    def waits(x: torch.Tensor) -> torch.Tensor:
        out = copied(x)
        torch.cuda.current_stream().synchronize()
        return out

    answer = time_copy(waits, 4 * MIB)["answer"]
    assert (answer.mode, bool(answer.why_not_graph)) == ("queue", True)
    assert torch.cuda.current_stream() == before
    assert time_copy(copied, 4 * MIB)["answer"].mode == "graph"


def test_kernels_of_triton_and_cute_are_captured() -> None:
    triton_softmax = pytest.importorskip("solutions.ch02_triton_softmax").row_softmax
    vector_copy = pytest.importorskip("solutions.ch04_vectorized_copies").vector_copy
    answer = time_copy(vector_copy, 8 * MIB)["answer"]
    assert (answer.mode, answer.why_not_graph, answer.refused) == ("graph", "", "")

    def rows(index: int) -> tuple[torch.Tensor]:
        return (random_bytes(8 * MIB)(index)[0].view(-1, 1024),)

    timings = measure({"answer": triton_softmax}, rows, "copy", 16 * MIB, OPTIONS, anything)
    assert (timings["answer"].mode, timings["answer"].why_not_graph) == ("graph", "")


def doubling(work: int) -> Exercise:
    """An exercise whose case claims to be ``work`` bytes."""
    case = Case("whole", {"size": 256 * MIB})
    return Exercise(
        id="ch99.copy",
        title="",
        points=1,
        minutes=1,
        rung=Rung.TRITON,
        function="copy",
        section="",
        cases=(),
        inputs=lambda case, generator: (
            torch.randn(case["size"] // 4, generator=generator, device=generator.device),
        ),
        oracle=lambda x: x,
        hints=("", "", ""),
        mistakes=(),
        speed=(SpeedTarget(case, lambda arguments: work),),
    )


def stage(work: int, pass_ratio: float, function=copied):
    target = Target("ch99.copy", "sm_90", pass_ratio, verified=True)
    thresholds = Thresholds((target,))
    check = lambda case, output, arguments: None  # noqa: E731
    return check_speed(doubling(work), function, 1, thresholds, "sm_90", check, options=OPTIONS)


def test_faster_than_the_memory_is_refused_as_impossible() -> None:
    # Half of what it claims to move.
    result = stage(2 * 2 * 256 * MIB, 0.85)
    assert result.verdict is Verdict.FAIL
    assert "impossible" in result.reason


def test_a_copy_passes_and_two_copies_are_too_slow() -> None:
    assert stage(2 * 256 * MIB, 0.95).verdict is Verdict.PASS
    slow = stage(2 * 256 * MIB, 0.95, lambda x: copied(copied(x)))
    assert slow.verdict is Verdict.FAIL
    assert slow.measures["cases"][0]["ratio"] == pytest.approx(0.5, abs=0.05)
    assert slow.finding is not None and "2.0 times the bytes" in slow.finding.probable
