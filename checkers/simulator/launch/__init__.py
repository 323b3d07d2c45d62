"""Catches the launches of CuTe DSL and Triton on a machine with no GPU, and simulates them.

    with simulating(gpu="h100") as results:
        softmax(torch.randn(8, 1024, device="cuda"))
    results[0].faults

Within, host code runs as it is: tensors live on the CPU and claim to be on the simulated GPU, kernels are
compiled for it with source lines, and a launch ends when the kernel has been simulated.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from checkers.simulator.launch.records import Launch, Tensor

if TYPE_CHECKING:
    from checkers.simulator.reports.gpus import GPU

__all__ = ["KernelFault", "Launch", "Tensor", "catching", "simulating"]


class KernelFault(RuntimeError):
    """A simulated kernel has faults; ``result`` has them all."""

    def __init__(self, result: Any) -> None:
        errors = [fault for fault in result.faults if fault.is_error]
        super().__init__("\n\n".join(str(fault) for fault in errors))
        self.result = result


@contextlib.contextmanager
def catching(
    gpu: GPU | str = "h100", caught: Callable[[Launch], None] | None = None
) -> Iterator[list[Launch]]:
    """Within, each launch is compiled for ``gpu``, given to ``caught`` and appended to the list.

    ``caught`` is called while the host code waits: what it raises comes out of the launching call. With
    none, nothing runs. Raises ValueError for a GPU that is not known.
    """
    # Imported late: they import torch, and this package is imported for its records.
    from checkers.simulator.launch.catcher import Catcher
    from checkers.simulator.launch.cuda_answers import cuda_bindings_answering
    from checkers.simulator.launch.cute import cute_catching
    from checkers.simulator.launch.device import PretendCuda
    from checkers.simulator.launch.triton import triton_catching
    from checkers.simulator.reports.gpus import gpu as find

    chosen = find(gpu) if isinstance(gpu, str) else gpu
    launches: list[Launch] = []

    def note(launch: Launch) -> None:
        launches.append(launch)
        if caught is not None:
            caught(launch)

    with (
        PretendCuda(chosen),
        cuda_bindings_answering(chosen),
        cute_catching(chosen),
        triton_catching(chosen),
        Catcher(chosen, note).entered(),
    ):
        yield launches


@contextlib.contextmanager
def simulating(
    gpu: GPU | str = "h100",
    schedule: str = "latest",
    on_result: Callable[[Any], None] | None = None,
    *,
    log: bool = False,
    raises: bool = False,
    before: Callable[[Launch], None] | None = None,
) -> Iterator[list[Any]]:
    """Within, each launch is simulated; its Result is appended to the list that this gives.

    schedule: "latest", "earliest" or "random:SEED".  on_result: called with each result.  log: keep
    what a timeline is drawn from.  raises: a kernel with a fault raises KernelFault.  before:
    called with each launch, before it runs.
    """
    from checkers.simulator import simulate

    results: list[Any] = []

    def run(launch: Launch) -> None:
        if before is not None:
            before(launch)
        result = simulate(launch, schedule=schedule, gpu=gpu, log=log)
        results.append(result)
        if on_result is not None:
            on_result(result)
        if raises and not result.ok:
            raise KernelFault(result)

    with catching(gpu, run):
        yield results
