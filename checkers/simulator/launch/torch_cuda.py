"""What ``torch.cuda`` says about the simulated GPU: its properties, its streams, its memory.

Everything is done at once and in order, so streams, events and synchronisation have nothing to do.
Times are those of the simulator, not of a GPU.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from checkers.simulator.reports.gpus import GPU

CUDA = torch.device("cuda", 0)


class Stream:
    """Stands for torch.cuda.Stream; a context manager as well, like the real one."""

    cuda_stream = 0
    device = CUDA
    device_index = 0
    priority = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        """A stream has no state here."""

    def synchronize(self) -> None:
        """What was put on it is done."""

    def query(self) -> bool:
        return True

    def wait_stream(self, stream: Any) -> None:
        """It is done."""

    def wait_event(self, event: Any) -> None:
        """It has passed."""

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record(self)
        return event

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self.cuda_stream)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        """Nothing to restore."""


class Event:
    """Stands for torch.cuda.Event; its times are the simulator's."""

    cuda_event = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        self.time = 0.0

    def record(self, stream: Any = None) -> None:
        self.time = time.perf_counter()

    def synchronize(self) -> None:
        """It has passed."""

    def wait(self, stream: Any = None) -> None:
        """It has passed."""

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds that the simulation took."""
        return (end.time - self.time) * 1e3


def properties_of(gpu: GPU) -> SimpleNamespace:
    """What torch.cuda.get_device_properties gives."""
    return SimpleNamespace(
        name=gpu.title,
        major=gpu.capability[0],
        minor=gpu.capability[1],
        multi_processor_count=gpu.sms,
        L2_cache_size=gpu.l2_bytes,
        total_memory=gpu.hbm_bytes,
        shared_memory_per_block=48 * 1024,
        shared_memory_per_block_optin=gpu.shared_per_block,
        shared_memory_per_multiprocessor=gpu.shared_per_sm,
        regs_per_multiprocessor=gpu.registers_per_sm,
        max_threads_per_multi_processor=gpu.threads_per_sm,
        max_threads_per_block=gpu.threads_per_block,
        clock_rate=int(gpu.clock_ghz * 1e6),
        warp_size=32,
        is_integrated=0,
        is_multi_gpu_board=0,
        gcnArchName="",
    )


@contextlib.contextmanager
def _device(_: Any = None) -> Iterator[None]:
    yield


def _functions(gpu: GPU) -> dict[str, Any]:
    """The names of torch.cuda that are answered."""
    properties = properties_of(gpu)
    stream = Stream()
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "is_bf16_supported": lambda including_emulation=True: True,
        "is_current_stream_capturing": lambda: False,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "current_stream": lambda device=None: stream,
        "default_stream": lambda device=None: stream,
        "set_stream": lambda stream: None,
        "stream": lambda stream: contextlib.nullcontext(stream),
        "Stream": Stream,
        "ExternalStream": Stream,
        "Event": Event,
        "synchronize": lambda device=None: None,
        "get_device_capability": lambda device=None: gpu.capability,
        "get_device_properties": lambda device=None: properties,
        "get_device_name": lambda device=None: gpu.title,
        "get_arch_list": lambda: [gpu.arch.rstrip("a")],
        "device": _device,
        "device_of": _device,
        "mem_get_info": lambda device=None: (gpu.hbm_bytes, gpu.hbm_bytes),
        "memory_summary": lambda *_, **__: "",
        "memory_stats": lambda device=None: {},
    }
    for name in ("memory_allocated", "memory_reserved", "max_memory_allocated"):
        answers[name] = lambda device=None: 0
    answers["max_memory_reserved"] = answers["memory_allocated"]
    for name in ("empty_cache", "ipc_collect"):
        answers[name] = lambda: None
    for name in ("reset_peak_memory_stats", "reset_accumulated_memory_stats"):
        answers[name] = lambda device=None: None
    for name in ("manual_seed", "manual_seed_all"):
        answers[name] = lambda seed: None
    return answers


class Generator(torch.Generator):
    """A generator for any device: its numbers are the CPU's."""

    def __new__(cls, device: Any = "cpu") -> Generator:
        return super().__new__(cls, "cpu")


def _left_as_it_is(model: Any = None, **_: Any) -> Any:
    """Stands for torch.compile: what it would generate is for a real GPU, so functions run eagerly."""
    if model is None:
        return lambda function: function
    return model


@contextlib.contextmanager
def torch_compile_left_out() -> Iterator[None]:
    """Within, what torch.compile was or is given runs eagerly; launches in it are caught."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(torch, "compile", _left_as_it_is))
        if "torch._dynamo" in sys.modules:  # else nothing is compiled yet, and importing it is slow
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield


@contextlib.contextmanager
def torch_cuda_answering(gpu: GPU) -> Iterator[None]:
    """Within, torch.cuda answers for ``gpu``."""
    with contextlib.ExitStack() as stack:
        for name, answer in _functions(gpu).items():
            stack.enter_context(mock.patch.object(torch.cuda, name, answer))
        stack.enter_context(mock.patch.object(torch, "Generator", Generator))
        stack.enter_context(torch_compile_left_out())
        if torch.version.cuda is None:
            stack.enter_context(mock.patch.object(torch.version, "cuda", "13.0"))
        yield
