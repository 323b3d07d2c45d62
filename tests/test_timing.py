"""The rules of the timing, on a GPU made of numbers."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
import torch

from checkers.grading import cuda_device, rulers, timing
from checkers.grading.timing import Options, measure
from tests.fake_gpu import FakeDevice, copy_ruler, kernel

OPTIONS = Options(batch_seconds=1e-3, rounds=20)
WORK = 800  # bytes: 400 read, 400 written
RATE = 800 / 10e-6  # the ruler takes 10 us


def inputs(index: int) -> tuple[torch.Tensor]:
    return (torch.full((100,), float(index + 1)),)


def doubled(output: torch.Tensor, arguments: tuple) -> str | None:
    return None if torch.equal(output, 2 * arguments[0]) else "not twice the input"


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    fake = FakeDevice()
    use_ruler(fake, monkeypatch)
    return fake


def use_ruler(fake: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    ruler = replace(rulers.RULERS["copy"], prepare=copy_ruler(fake, RATE))
    monkeypatch.setitem(rulers.RULERS, "copy", ruler)


def run(device: FakeDevice, options: Options = OPTIONS, **candidates) -> dict[str, timing.Timing]:
    return measure(candidates, inputs, "copy", WORK, options, doubled, device)


def test_medians_rates_and_ruler_are_reported(device: FakeDevice) -> None:
    timings = run(device, answer=kernel(device, "answer", 20e-6))
    assert timings["answer"].median == pytest.approx(20e-6)
    assert timings["answer"].rate() == pytest.approx(WORK / 20e-6)
    assert timings["copy"].rate() == pytest.approx(RATE)
    assert timings["answer"].samples == 20
    assert timings["answer"].clock_before == timings["answer"].clock_after == 1980


def test_slow_rounds_lower_p10_and_not_p90() -> None:
    one = timing.Timing("x", 100, seconds=(1.0,) * 8 + (2.0,) * 2)
    assert one.rate() == 100
    assert one.rate(90) == 100
    assert one.rate(5) == pytest.approx(50)


def test_inputs_rotate_over_more_than_twice_the_l2(device: FakeDevice) -> None:
    timings = run(device, answer=kernel(device, "answer", 20e-6))
    assert timings["answer"].sets == 21  # 21 * 400 bytes > 2 * 4000
    assert timings["answer"].cold


@pytest.mark.parametrize(
    ("set_bytes", "free", "sets"),
    [(400, 10**9, 21), (8001, 10**9, 1), (8000, 10**9, 2), (1, 10**9, 1024), (400, 16_000, 5)],
)
def test_the_number_of_sets_follows_l2_and_memory(set_bytes: int, free: int, sets: int) -> None:
    device = FakeDevice(l2_bytes=4000, free=free)
    assert timing.count_sets(set_bytes, device, OPTIONS, candidates=1) == sets


def test_a_working_set_larger_than_the_memory_says_how_much_it_needs() -> None:
    with pytest.raises(timing.NotEnoughMemory, match="4.0 GiB"):
        timing.count_sets(2**30, FakeDevice(free=2**31), OPTIONS, candidates=1)


def test_ruler_and_candidates_take_turns_and_the_first_changes(device: FakeDevice) -> None:
    run(device, a=kernel(device, "a", 20e-6), b=kernel(device, "b", 30e-6))
    timed = device.batches[-2 - 20 * 3 : -2]  # the last two verify
    assert timed[:9] == ["copy", "a", "b", "a", "b", "copy", "b", "copy", "a"]
    assert all(timed.count(name) == 20 for name in ("copy", "a", "b"))


def test_a_clock_that_changes_does_not_change_the_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    device = FakeDevice(drift=lambda kernel: 1 + kernel / 20_000)
    use_ruler(device, monkeypatch)
    timings = run(device, answer=kernel(device, "answer", 20e-6))
    assert timings["answer"].seconds[-1] > 1.1 * timings["answer"].seconds[0]
    assert timings["copy"].median / timings["answer"].median == pytest.approx(0.5, rel=0.02)


def test_short_kernels_are_captured_and_long_ones_queued(device: FakeDevice) -> None:
    timings = run(device, short=kernel(device, "short", 99e-6), long=kernel(device, "long", 101e-6))
    assert timings["short"].mode == "graph"
    assert timings["long"].mode == "queue"
    assert all(queue > 0 for queue in device.queues[-40:])


def test_a_candidate_that_cannot_be_captured_is_queued_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = FakeDevice(capturable=False)
    use_ruler(device, monkeypatch)
    answer = run(device, answer=kernel(device, "answer", 20e-6))["answer"]
    assert answer.mode == "queue"
    assert "capturing" in answer.why_not_graph
    assert answer.median == pytest.approx(20e-6)


def test_a_batch_is_whole_passes_over_the_sets() -> None:
    assert timing.batch_calls(1e-5, 21, OPTIONS) == 105
    assert timing.batch_calls(1e-7, 21, OPTIONS) == 4095
    assert timing.batch_calls(5e-3, 1, OPTIONS) == 1
    assert timing.batch_calls(5e-4, 21, OPTIONS) == 2


def test_warming_up_ends_when_two_rounds_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    device = FakeDevice(drift=lambda kernel: 1 + max(0.0, 1 - kernel / 2000))
    use_ruler(device, monkeypatch)
    answer = run(device, answer=kernel(device, "answer", 20e-6))["answer"]
    assert answer.settled
    assert answer.warmup_rounds > 3


def test_warming_up_is_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    device = FakeDevice(noise=0.9)
    use_ruler(device, monkeypatch)
    options = replace(OPTIONS, agreement=1e-9, warmup_seconds=0.05)
    answer = run(device, options, answer=kernel(device, "answer", 20e-6))["answer"]
    assert not answer.settled
    assert answer.warmup_rounds < 50


def test_the_rounds_stop_at_the_budget(device: FakeDevice) -> None:
    options = replace(OPTIONS, rounds=1000, min_rounds=10, budget_seconds=0.05)
    assert 10 <= run(device, options, answer=kernel(device, "a", 20e-6))["answer"].samples < 50


def test_a_wrong_kernel_is_never_timed(device: FakeDevice) -> None:
    answer = run(device, answer=kernel(device, "answer", 1e-6, right=False))["answer"]
    assert "not twice the input" in answer.refused
    assert answer.seconds == ()
    assert device.kernels.count("answer") == 2  # compiled, then verified


def test_a_kernel_that_works_only_when_looked_at_is_refused(device: FakeDevice) -> None:
    honest, skips = kernel(device, "answer", 20e-6), kernel(device, "answer", 1e-6, right=False)
    calls = iter(range(10**6))

    def answer(x: torch.Tensor) -> torch.Tensor:
        return honest(x) if next(calls) < 2 else skips(x)

    refused = run(device, answer=answer)["answer"].refused
    assert "wrong when timed" in refused


def test_an_answer_kept_from_an_earlier_call_is_refused(device: FakeDevice) -> None:
    honest = kernel(device, "answer", 20e-6)
    kept: dict[int, torch.Tensor] = {}

    def answer(x: torch.Tensor) -> torch.Tensor:
        if x.data_ptr() not in kept:
            kept[x.data_ptr()] = honest(x)
        return kept[x.data_ptr()]

    assert "not twice the input" in run(device, answer=answer)["answer"].refused


def test_work_on_another_stream_is_refused(device: FakeDevice) -> None:
    def answer(x: torch.Tensor) -> torch.Tensor:
        device.spend_aside(300e-6)
        return 2 * x

    assert "another stream" in run(device, answer=answer)["answer"].refused


def test_a_replaced_clock_is_refused_before_and_after(device: FakeDevice) -> None:
    def answer(x: torch.Tensor) -> torch.Tensor:
        device.replaced = "torch.cuda.Event.elapsed_time"
        return 2 * x

    with pytest.raises(timing.ClockPatched, match="elapsed_time"):
        run(device, answer=answer)
    with pytest.raises(timing.ClockPatched, match="elapsed_time"):
        run(device, answer=kernel(device, "answer", 20e-6))


@pytest.mark.parametrize(
    ("owner", "name", "shown"),
    [
        (time, "perf_counter", "time.perf_counter"),
        (torch.cuda.Event, "elapsed_time", "Event.elapsed_time"),
        (torch.cuda, "synchronize", "torch.cuda.synchronize"),
        (torch.cuda.CUDAGraph, "replay", "CUDAGraph.replay"),
    ],
)
def test_every_function_of_the_clock_is_watched(
    owner: object, name: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = object.__new__(cuda_device.CudaDevice)
    assert device.patched() is None
    monkeypatch.setattr(owner, name, lambda *arguments: 1e-9)
    assert device.patched() == shown


def test_what_a_candidate_raises_is_raised(device: FakeDevice) -> None:
    def answer(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("rows must be contiguous")

    with pytest.raises(ValueError, match="contiguous"):
        run(device, answer=answer)


def test_an_output_that_is_an_input_is_not_poisoned(device: FakeDevice) -> None:
    lane = timing.Lane("x", [], [])
    x = torch.ones(3)
    lane.outputs = [(x[1:], torch.ones(2)), torch.ones(2, dtype=torch.int32)]
    lane.protected = frozenset({x.untyped_storage().data_ptr()})
    lane.poison()
    assert torch.equal(x, torch.ones(3))
    assert lane.outputs[0][1].isnan().all()
    assert lane.outputs[1].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("gpu", "gbps"),
    [
        ("NVIDIA H200", 4800.0),
        ("NVIDIA GH200 480GB", 4900.0),
        ("NVIDIA GB200", 8000.0),
        ("NVIDIA L40S", 864.0),
        ("NVIDIA A100-SXM4-40GB", 1555.0),
        ("Some Card", None),
    ],
)
def test_datasheet_bandwidth_by_name(gpu: str, gbps: float | None) -> None:
    assert rulers.datasheet_gbps(gpu) == gbps
