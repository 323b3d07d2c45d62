"""Who gets the launches that are caught: one catcher at a time, for one GPU.

What compiled host code calls (ctypes callbacks, Triton's launcher) finds it here, because a
function that was compiled once may be called again under another catcher.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from checkers.simulator.gpus import GPU
from checkers.simulator.launch.records import Launch
from checkers.simulator.launch.tensors import Seen


class LaunchError(RuntimeError):
    """A launch that the GPU would have refused, or that can't be caught; says why."""


@dataclass
class Catcher:
    """gpu: the one that is stood for.  caught: called with each launch, when the host code makes
    it, so that what the host does next sees what the kernel wrote.  seen: the tensors that the
    host code has named or passed.  error: what ``caught`` raised, until Python can raise it.
    """

    gpu: GPU
    caught: Callable[[Launch], None]
    seen: Seen = field(default_factory=Seen)
    error: BaseException | None = None

    current: ClassVar[Catcher | None] = None

    @classmethod
    def active(cls) -> Catcher:
        """Raises LaunchError outside of a catching context."""
        if cls.current is None:
            raise LaunchError(
                "a kernel that was compiled for the simulator was launched outside of it: "
                "call it within `with simulating():`"
            )
        return cls.current

    def deliver(self, launch: Launch) -> None:
        """Checks the launch as a GPU's driver would, and hands it on. Raises LaunchError."""
        if launch.arch != self.gpu.arch:
            raise LaunchError(
                f"{launch.kernel} was compiled for {launch.arch}, and the simulated GPU is "
                f"{self.gpu.title} ({self.gpu.arch}): choose the GPU that it was written for"
            )
        refuse(launch, self.gpu)
        self.caught(launch)

    @contextlib.contextmanager
    def entered(self) -> Iterator[Catcher]:
        """Within, this catcher gets the launches."""
        before, Catcher.current = Catcher.current, self
        try:
            yield self
        finally:
            Catcher.current = before

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """Raises what was kept in ``error`` in place of what the code within made of it."""
        self.error = None
        try:
            yield
        except BaseException:
            if self.error is None:
                raise
        error, self.error = self.error, None
        if error is not None:
            raise error


def refuse(launch: Launch, gpu: GPU) -> None:
    """Raises LaunchError where cuLaunchKernelEx returns an error (CUDA programming guide, table of
    technical specifications)."""
    name, (bx, by, bz) = launch.kernel, launch.block
    if bx * by * bz > 1024 or bz > 64:
        raise LaunchError(
            f"{name}: a block of {launch.block} threads; at most 1024 in all, 64 in z"
        )
    if min(*launch.block, *launch.grid, *launch.cluster) < 1:
        raise LaunchError(f"{name}: grid {launch.grid} of blocks {launch.block}: none may be 0")
    if launch.grid[0] >= 2**31 or max(launch.grid[1:]) > 65535:
        raise LaunchError(f"{name}: grid {launch.grid}; at most (2147483647, 65535, 65535)")
    if launch.dynamic_shared > gpu.shared_per_block:
        raise LaunchError(
            f"{name}: {launch.dynamic_shared} bytes of dynamic shared memory; "
            f"a block of {gpu.title} has {gpu.shared_per_block}"
        )
    if any(g % c for g, c in zip(launch.grid, launch.cluster, strict=True)):
        raise LaunchError(
            f"{name}: grid {launch.grid} is no multiple of the cluster {launch.cluster}"
        )
    blocks = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
    if blocks > 16:
        raise LaunchError(f"{name}: a cluster of {blocks} blocks; at most 16 (8 are portable)")


def current_seen() -> Seen | None:
    """The tensors of the active catcher, if there is one."""
    return Catcher.current.seen if Catcher.current is not None else None


def keep(error: BaseException) -> None:
    """Notes what a callback raised: C code calls it, and can't pass exceptions on."""
    if Catcher.current is not None and Catcher.current.error is None:
        Catcher.current.error = error


def unseen(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` as a frame that CuTe DSL takes for its own when it looks for the caller's line:
    it skips files whose name starts with "<"."""
    function.__code__ = function.__code__.replace(co_filename="<simulator>")  # type: ignore[attr-defined]
    return function


@unseen
def call_with_names(function: Callable[..., Any], names: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls compiled host code: ``names`` are notes for its arguments, and what a callback of it
    raised comes out as itself."""
    catcher = Catcher.current
    if catcher is None:
        return function(*args, **kwargs)
    with catcher.seen.call(names), catcher.raising():
        return function(*args, **kwargs)
