"""A GPU made of numbers: kernels are functions that spend its time, so that the timing's rules are
tested exactly, and without a GPU."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

import torch

from checkers.grading.cuda_device import Elapsed, NotCapturable


class FakeDevice:
    """Implements cuda_device.Device. A kernel calls ``spend``; all times are in seconds.

    noise: relative, uniform, of every kernel.  host_seconds: of enqueuing one batch.
    drift(n): factor on the time of the n-th kernel since the beginning (a clock that changes).
    """

    torch_device = "cpu"

    def __init__(
        self,
        l2_bytes: int = 4000,
        free: int = 10**9,
        noise: float = 0.0,
        drift: Callable[[int], float] = lambda kernel: 1.0,
        capturable: bool = True,
    ) -> None:
        self.l2_bytes = l2_bytes
        self.free = free
        self.noise = noise
        self.drift = drift
        self.capturable = capturable
        self.clock = 0.0
        self.stream = 0.0
        self.side = 0.0
        self.kernels: list[str] = []
        self.batches: list[str] = []
        self.queues: list[float] = []
        self.replaced: str | None = None
        self._random = random.Random(0)
        self._captured: list[Callable[[], None]] | None = None

    def spend(self, name: str, seconds: float, effect: Callable[[], None] | None = None) -> None:
        """Launches a kernel: it takes ``seconds`` and then has its effect."""
        if self._captured is not None:
            self._captured.append(partial(self._execute, name, seconds, effect))
            return
        self._execute(name, seconds, effect)

    def spend_aside(self, seconds: float) -> None:
        """Launches a kernel on another stream, which nothing waits for."""
        self.side += seconds

    def _execute(self, name: str, seconds: float, effect: Callable[[], None] | None) -> None:
        jitter = 1 + self.noise * (2 * self._random.random() - 1)
        self.stream += seconds * jitter * self.drift(len(self.kernels))
        self.kernels.append(name)
        if effect is not None:
            effect()

    # Device

    def free_bytes(self) -> int:
        return self.free

    def now(self) -> float:
        return self.clock

    def synchronize(self) -> None:
        self.side = 0.0

    def run(self, batch: Callable[[], None], queue_seconds: float) -> Elapsed:
        self.side = 0.0
        before, first = self.stream, len(self.kernels)
        batch()
        took = self.stream - before
        self.clock += took + self.side + 1e-5
        self.batches.append(self.kernels[first] if len(self.kernels) > first else "")
        self.queues.append(queue_seconds)
        tail, self.side = max(0.0, self.side - took), 0.0
        return Elapsed(took, tail, 1e-5)

    def capture(self, batch: Callable[[], None]) -> Callable[[], None]:
        if not self.capturable:
            raise NotCapturable("operation not permitted when stream is capturing")
        self._captured = captured = []
        batch()
        self._captured = None

        def replay() -> None:
            for kernel in captured:
                kernel()

        return replay

    def sm_clock(self) -> int | None:
        return 1980

    def patched(self) -> str | None:
        return self.replaced


def copy_ruler(device: FakeDevice, bytes_per_second: float) -> Callable[[int, int], Sequence]:
    """``prepare`` of a ruler that moves bytes at that rate on the fake GPU."""
    return lambda work, sets: [
        partial(device.spend, "copy", work / bytes_per_second) for _ in range(sets)
    ]


def kernel(
    device: FakeDevice, name: str, seconds: float, right: bool = True
) -> Callable[[torch.Tensor], torch.Tensor]:
    """A kernel that doubles its input, in ``seconds``; a wrong one leaves its output as it was."""

    def double(x: torch.Tensor) -> torch.Tensor:
        out = torch.zeros_like(x)
        device.spend(name, seconds, (lambda: out.copy_(2 * x)) if right else None)
        return out

    return double
