"""The GPU as the timing sees it: run a batch between two events, capture it, read its clock.

``timing.py`` knows only the ``Device`` protocol, so that its rules are tested without a GPU.
Import this module before a learner's code: it keeps the clock's functions as they were then, uses
those, and says when one of them has been replaced since.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from checkers import machine

# (owner, attribute, what it was when this module was imported)
_CLOCK: tuple[tuple[Any, str, Any], ...] = tuple(
    (owner, name, getattr(owner, name))
    for owner, name in (
        (time, "perf_counter"),
        (time, "time"),
        (torch.cuda, "Event"),
        (torch.cuda, "Stream"),
        (torch.cuda, "CUDAGraph"),
        (torch.cuda, "graph"),
        (torch.cuda, "synchronize"),
        (torch.cuda, "current_stream"),
        (torch.cuda, "set_stream"),
        (torch.cuda, "_sleep"),
        (torch.cuda.Event, "record"),
        (torch.cuda.Event, "elapsed_time"),
        (torch.cuda.Event, "synchronize"),
        (torch.cuda.CUDAGraph, "replay"),
        (torch.cuda.CUDAGraph, "capture_begin"),
        (torch.cuda.CUDAGraph, "capture_end"),
    )
)
_perf_counter = time.perf_counter
_Event = torch.cuda.Event
_Stream = torch.cuda.Stream
_CUDAGraph = torch.cuda.CUDAGraph
_graph = torch.cuda.graph
_synchronize = torch.cuda.synchronize
_current_stream = torch.cuda.current_stream
_set_stream = torch.cuda.set_stream
_sleep = torch.cuda._sleep

# Cycles of the spinning kernel that keeps the GPU busy while the host enqueues a batch. Above any
# SM clock, so that the wait is at least as long as asked for.
_CYCLES_PER_SECOND = 2.2e9


class NotCapturable(Exception):
    """A batch can't be captured in a CUDA graph; the text is CUDA's or PyTorch's reason."""


@dataclass(frozen=True)
class Elapsed:
    """What one batch took, in seconds.

    stream: between two events around it on the caller's stream.
    tail: how long the device still worked once that stream was done (other streams).
    host: until the host had enqueued it.
    """

    stream: float
    tail: float
    host: float


class Device(Protocol):
    """What the timing needs of a GPU."""

    l2_bytes: int
    torch_device: str  # where its tensors live: "cuda:0"

    def free_bytes(self) -> int:
        """Bytes that can still be allocated."""

    def now(self) -> float:
        """Host clock, seconds."""

    def synchronize(self) -> None:
        """Waits for every stream of the device."""

    def run(self, batch: Callable[[], None], queue_seconds: float) -> Elapsed:
        """Runs a batch alone on the device, enqueued while the GPU is kept busy that long."""

    def capture(self, batch: Callable[[], None]) -> Callable[[], None]:
        """The batch as a graph; calling the result replays it. Raises NotCapturable."""

    def sm_clock(self) -> int | None:
        """MHz now, or None."""

    def patched(self) -> str | None:
        """The name of a clock's function that was replaced, or None."""


class CudaDevice:
    """A CUDA device: PyTorch's events and graphs."""

    def __init__(self, index: int = 0) -> None:
        self.index = index
        self.torch_device = f"cuda:{index}"
        self.l2_bytes = torch.cuda.get_device_properties(index).L2_cache_size

    def free_bytes(self) -> int:
        free, _ = torch.cuda.mem_get_info(self.index)
        cached = torch.cuda.memory_reserved(self.index) - torch.cuda.memory_allocated(self.index)
        return free + cached

    def now(self) -> float:
        return _perf_counter()

    def synchronize(self) -> None:
        _synchronize(self.index)

    def run(self, batch: Callable[[], None], queue_seconds: float) -> Elapsed:
        start, end = _Event(enable_timing=True), _Event(enable_timing=True)
        # The stream of now: a batch that changes the current stream doesn't move the end event.
        stream = _current_stream(self.index)
        _synchronize(self.index)
        if queue_seconds > 0:
            _sleep(int(queue_seconds * _CYCLES_PER_SECOND))
        began = _perf_counter()
        start.record(stream)
        batch()
        end.record(stream)
        enqueued = _perf_counter()
        end.synchronize()
        stream_done = _perf_counter()
        _synchronize(self.index)
        device_done = _perf_counter()
        _set_stream(stream)
        return Elapsed(
            stream=start.elapsed_time(end) * 1e-3,
            tail=device_done - stream_done,
            host=enqueued - began,
        )

    def capture(self, batch: Callable[[], None]) -> Callable[[], None]:
        stream = _current_stream(self.index)
        graph = _CUDAGraph()
        _synchronize(self.index)
        try:
            with _graph(graph, stream=_Stream(self.index), capture_error_mode="thread_local"):
                batch()
        except Exception as error:
            # After a failed capture PyTorch leaves the capture's stream as the current one.
            _set_stream(stream)
            _synchronize(self.index)
            cause = error.__context__ or error
            raise NotCapturable(str(cause).partition("\n")[0]) from error
        return graph.replay

    def sm_clock(self) -> int | None:
        return machine.sm_clock(self.index)

    def patched(self) -> str | None:
        for owner, name, original in _CLOCK:
            if getattr(owner, name) is not original:
                return f"{owner.__name__}.{name}"
        return None
