"""The simulated GPU of chapter 0 has every trap that its lesson tells of, by known amounts."""

from __future__ import annotations

import pytest

from solutions.ch00_measure_first import SimulatedGpu, make_buffers, time_kernel


def behind_a_pause(gpu: SimulatedGpu, buffers: list, launches: int) -> list[float]:
    """The GPU's own time for each launch, with no gap between them."""
    gpu.pause(1e6)
    marks = [gpu.record()]
    for index in range(launches):
        gpu.launch(buffers[index % len(buffers)])
        marks.append(gpu.record())
    gpu.synchronize()
    return [start.elapsed_us(end) for start, end in zip(marks, marks[1:], strict=False)]


def test_the_host_is_done_long_before_the_gpu() -> None:
    gpu = SimulatedGpu(kernel_us=800.0)
    for buffer in make_buffers(10, 1):
        gpu.launch(buffer)
    assert gpu.clock_us() == pytest.approx(40.0)
    gpu.synchronize()
    assert gpu.clock_us() == pytest.approx(8004.0)


def test_a_mark_has_no_time_before_the_gpu_has_reached_it() -> None:
    gpu = SimulatedGpu(kernel_us=800.0)
    start = gpu.record()
    gpu.launch(make_buffers(1, 1)[0])
    end = gpu.record()
    with pytest.raises(RuntimeError, match="not reached yet"):
        start.elapsed_us(end)


def test_a_set_of_buffers_larger_than_the_cache_is_never_found_in_it() -> None:
    gpu = SimulatedGpu(kernel_us=100.0, cache_speedup=2.0)
    assert behind_a_pause(gpu, make_buffers(8, 20_000_000), 24) == pytest.approx([100.0] * 24)


def test_buffers_that_fit_together_are_found_in_the_cache() -> None:
    gpu = SimulatedGpu(kernel_us=100.0, cache_speedup=2.0)
    times = behind_a_pause(gpu, make_buffers(2, 20_000_000), 6)
    assert times == pytest.approx([100.0, 100.0, 50.0, 50.0, 50.0, 50.0])


def test_only_the_first_launches_are_slow() -> None:
    gpu = SimulatedGpu(kernel_us=100.0, slow_launches=2)
    assert behind_a_pause(gpu, make_buffers(4, 1), 4) == pytest.approx([150.0, 150.0, 100.0, 100.0])


def test_strays_go_both_ways() -> None:
    times = behind_a_pause(SimulatedGpu(kernel_us=100.0, strays=True), make_buffers(4, 1), 14)
    assert max(times) == pytest.approx(600.0)
    assert min(times) == pytest.approx(70.0)
    assert sorted(times)[7] == pytest.approx(100.0)


def test_the_same_timing_comes_out_every_time() -> None:
    options = {"kernel_us": 12.0, "compile_us": 1e5, "slow_launches": 15, "strays": True}
    timed = {time_kernel(SimulatedGpu(**options), make_buffers(8, 20_000_000)) for _ in range(3)}
    assert len(timed) == 1
    assert timed.pop() == pytest.approx(12.0)
