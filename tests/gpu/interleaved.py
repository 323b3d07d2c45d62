"""How the tuning scripts time: every launch in turn, each round behind the same queue."""

from __future__ import annotations

from collections.abc import Callable

import torch

Launch = Callable[[], object]


def timed(launches: dict[str, Launch], rounds: int, warm_up: int = 2) -> dict[str, list[float]]:
    """Milliseconds of each launch, all in turn in every round; the first rounds warm up."""
    times: dict[str, list[float]] = {name: [] for name in launches}
    for round_index in range(rounds + warm_up):
        events = {}
        torch.cuda._sleep(2_000_000)  # about 1 ms: what comes first is queued behind it too
        for name, launch in launches.items():
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            launch()
            stop.record()
            events[name] = (start, stop)
        torch.cuda.synchronize()
        if round_index >= warm_up:
            for name, (start, stop) in events.items():
                times[name].append(start.elapsed_time(stop))
    return times


def graphed(launch: Launch, launches: int) -> Callable[[], None]:
    """So many of a launch as one CUDA graph."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            launch()
    return graph.replay
