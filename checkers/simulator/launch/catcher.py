"""Who gets the launches that are caught: one catcher at a time, for one GPU.

What compiled host code calls (ctypes callbacks, Triton's launcher) finds it here, because a
function that was compiled once may be called again under another catcher.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from checkers.simulator.launch.records import Launch
from checkers.simulator.launch.tensors import Seen
from checkers.simulator.reports.gpus import GPU, GPUS


class LaunchError(RuntimeError):
    """A launch that can't be caught or run here; says why."""


class NotStoodFor(LaunchError):
    """Host code asks something that the simulator has no answer to: no fault of the code."""


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
        """Hands a launch on. Raises LaunchError for code of another architecture."""
        if launch.arch != self.gpu.arch:
            fitting = " or ".join(gpu.name for gpu in GPUS.values() if gpu.arch == launch.arch)
            raise LaunchError(
                f"{launch.title} was compiled for {launch.arch}, and the simulated GPU is "
                f"{self.gpu.title} ({self.gpu.arch})"
                + (f": choose {fitting}" if fitting else "; no GPU of that architecture is known")
            )
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
            raise error from error.__cause__  # and not "during handling of" CUDA's words for it


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
