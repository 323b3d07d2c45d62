"""One case of the run stage: builds the arguments, calls the answer as often as needed, compares.

On a CUDA GPU the answer runs there. Without one, Triton and CuTe DSL kernels run on the simulator, and
Triton's in its interpreter as well, on CPU tensors that claim to be CUDA ones; plain Python and
torch.compile run on CPU tensors.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from checkers.exercise import Case, Exercise, Finding, Rung
from checkers.grading import simulated
from checkers.grading.memory import Guarded, Watch, guarded_copy, interpreter_apart
from checkers.grading.verify import Wrong, check_same, check_values, same_bits, tensors_of
from checkers.simulator.launch.device import PretendCuda, pretended, real

GPU_RUNS = 3  # a race shows by an answer that changes
LARGE = 1 << 30  # bytes of an answer
WINDOW_CLUSTERS = 4  # at either end of the grid of a case with a window


class AnswerRaised(Exception):
    """The answer raised the exception that this one is raised from."""


@dataclass(frozen=True)
class Place:
    """Where the answer runs.

    kind: "cuda", "simulator" or "interpreter" (both with pretended CUDA tensors), or "cpu".
    results: of the simulator, one for each launch since the place was last entered.
    ends: how many clusters it runs at either end of a grid, 0 for all.
    """

    kind: str
    results: list[Any] = field(default_factory=list, compare=False)
    ends: int = 0

    @property
    def device(self) -> str:
        return "cuda" if self.kind == "cuda" else "cpu"

    @contextlib.contextmanager
    def entered(self, watch: Watch) -> Iterator[None]:
        """The answer's code runs within, watched."""
        with contextlib.ExitStack() as stack:
            if self.kind == "interpreter":
                stack.enter_context(interpreter_apart(watch, real))
                stack.enter_context(PretendCuda())
            if self.kind == "simulator":
                from checkers.simulator.launch import simulating

                self.results.clear()
                found = self.results.append
                stack.enter_context(simulating(simulated.GPU, on_result=found, before=self.before))
            stack.enter_context(watch)
            yield

    def give(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor as the answer sees it."""
        return pretended(tensor) if self.kind in ("interpreter", "simulator") else tensor

    def before(self, launch: Any) -> None:
        """Called with each launch that is to be simulated."""
        if self.ends:
            launch.attributes["ends"] = self.ends

    def takes(self, case: Case) -> bool:
        """Whether a case can run here."""
        if case.window:
            return self.kind == "simulator"
        if not case.needs_gpu or self.kind == "cuda":
            return True
        return case.sparse and self.kind == "simulator"


def place_for(exercise: Exercise, device: str) -> Place:
    """Where this exercise's answer runs for a job's device: "cuda", "simulator" or "cpu"."""
    if exercise.rung is Rung.PYTHON:
        return Place("cpu")
    if device == "cuda":
        return Place("cuda")
    if device == "simulator" and exercise.rung in (Rung.TRITON, Rung.CUTE):
        return Place("simulator")
    return Place("interpreter" if exercise.rung is Rung.TRITON else "cpu")


def generator_for(seed: int, case: Case, repetition: int) -> torch.Generator:
    """Random numbers of one case and repetition; the same for the same seed."""
    mixed = zlib.crc32(f"{seed}/{case.name}/{repetition}".encode())
    return torch.Generator().manual_seed(mixed)


@contextlib.contextmanager
def answering() -> Iterator[None]:
    """What is raised within is the answer's; what is raised elsewhere is the grader's."""
    try:
        yield
    except BaseException as error:
        raise AnswerRaised from error


class CaseRunner:
    """One case: builds its arguments, calls the answer as often as needed, and compares."""

    def __init__(self, exercise: Exercise, place: Place, case: Case, seed: int) -> None:
        self.exercise = exercise
        self.place = place
        self.case = case
        self.seed = seed

    def check(self, function: Callable) -> float:
        """The largest error over its bound. Raises Wrong or AnswerRaised."""
        if self.exercise.rung is Rung.PYTHON:
            return self.check_once(function, 0)[0]
        if self.case.window:
            return self.check_ends(function)
        if self.place.kind == "simulator":
            # The interpreter has already looked for what Triton answers keep between calls.
            reuse = self.exercise.rung is Rung.CUTE and not self.case.needs_gpu
            return self.check_once(function, 0, reuse)[0]
        worst, first = self.check_once(function, 0)
        if sum(answer.nbytes for answer in first) > LARGE:
            return worst  # too large to keep several answers of
        if self.place.device == "cuda":
            for _ in range(GPU_RUNS - 1):
                again_worst, again = self.check_once(function, 0)
                worst = max(worst, again_worst)
                check_same(first, again)
        fresh_worst, _ = self.check_once(function, 1, reuse=True)
        return max(worst, fresh_worst)

    def check_ends(self, function: Callable) -> float:
        """Runs the ends of a grid that is too large to run whole, and compares the ends of the
        answer. The exercise's arguments and its answer are flat tensors of one length."""
        window = self.case.window
        generator = generator_for(self.seed, self.case, 0)
        arguments = self.exercise.inputs(self.case, generator)
        given = tuple(self.place.give(argument) for argument in arguments)
        runner = replace(self.place, ends=WINDOW_CLUSTERS)
        result, _ = CaseRunner(self.exercise, runner, self.case, self.seed).call(function, given)

        def ends(tensor: torch.Tensor) -> torch.Tensor:
            flat = real(tensor).flatten()
            return torch.cat([flat[:window], flat[-window:]])

        parts = tuple(ends(argument) for argument in arguments)
        return check_values(
            self.exercise, self.case, ends(result), self.exercise.oracle(*parts), parts
        )

    def check_once(
        self, function: Callable, repetition: int, reuse: bool = False
    ) -> tuple[float, list[torch.Tensor]]:
        """Calls once on fresh inputs and compares. With ``reuse``, the same tensors are given new
        contents and the call is repeated, to find answers that are kept between calls."""
        exercise, case = self.exercise, self.case
        arguments = exercise.inputs(case, generator_for(self.seed, case, repetition))
        kept: list[Guarded | None] = [
            guarded_copy(a, self.place.device) if isinstance(a, torch.Tensor) else None
            for a in arguments
        ]
        given = tuple(
            a if k is None else self.place.give(k.tensor)
            for a, k in zip(arguments, kept, strict=True)
        )
        result, watch = self.call(function, given)
        worst = self.verify(result, arguments, kept, watch, ())
        answers = [t.clone() for t in tensors_of(real(result))]
        if not reuse or not any(kept):
            return worst, answers
        before = [t for t in tensors_of(real(result))]
        renewed = exercise.inputs(case, generator_for(self.seed, case, repetition + 1))
        for new, old in zip(renewed, kept, strict=True):
            if old is not None:
                with torch.no_grad():
                    old.tensor.copy_(new)
        renewed = tuple(
            new if old is not None else argument
            for new, old, argument in zip(renewed, kept, arguments, strict=True)
        )
        result, watch = self.call(function, given)
        worst = max(worst, self.verify(result, renewed, kept, watch, answers))
        for old, copy in zip(before, answers, strict=True):
            if not same_bits(old, copy):
                raise Wrong(
                    Finding(
                        "The second call overwrote what the first one returned.",
                        probable="Each call must return a tensor of its own: allocate the output "
                        "inside the function, and keep nothing between calls.",
                    ),
                    "check:stale",
                )
        return worst, answers

    def call(self, function: Callable, arguments: tuple) -> tuple[Any, Watch]:
        """Calls the answer, watched; on a GPU, on a stream of its own that alone is waited for."""
        exercise = self.exercise
        # torch.compile's own run-time operators are the point of that rung, so only the
        # guard zones are of use there.
        watch = Watch(allowed=frozenset(exercise.allowed_ops))
        watched = exercise.rung in (Rung.TRITON, Rung.CUTE)
        entered = self.place.entered(watch) if watched else contextlib.nullcontext()
        if self.place.device != "cuda":
            with answering(), entered:
                result = exercise.call(function, arguments)
            simulated.check(self.place.results)
            return result, watch
        stream = torch.cuda.Stream()
        torch.cuda.synchronize()
        with answering(), torch.cuda.stream(stream):
            with entered:
                result = exercise.call(function, arguments)
            stream.synchronize()  # where an illegal access comes to light
        snapshots = [t.clone() for t in tensors_of(result)]
        torch.cuda.synchronize()
        for now, at_stream_end in zip(tensors_of(result), snapshots, strict=True):
            if not same_bits(now, at_stream_end):
                raise Wrong(
                    Finding(
                        "The result was not ready when the current stream had finished.",
                        probable="The kernel runs on another stream than PyTorch's current one; "
                        "launch it on `torch.cuda.current_stream()`.",
                    ),
                    "check:stream",
                )
        return result, watch

    def verify(
        self,
        result: Any,
        arguments: tuple,
        kept: Sequence[Guarded | None],
        watch: Watch,
        previous: Sequence[torch.Tensor],
    ) -> float:
        """Compares a result with the oracle's for ``arguments``; returns the error over its bound.

        Raises Wrong: guard zones and inputs first, then type, shape and dtype, then values.
        """
        clones = tuple(
            a.detach().clone().to(self.place.device) if isinstance(a, torch.Tensor) else a
            for a in arguments
        )
        expected = self.exercise.oracle(*clones)
        if watch.used:
            raise Wrong(torch_did_it(watch.used[0]), f"check:torch_ops:{watch.used[0]}")
        self.check_guards(kept, watch)
        self.check_inputs(clones, kept)
        got = real(result)
        worst = check_values(self.exercise, self.case, got, expected, arguments, previous)
        for invariant in self.exercise.invariants:
            says = invariant.holds(got, clones)
            if says:
                raise Wrong(Finding(says), f"check:invariant:{invariant.name}")
        return worst

    def check_guards(self, kept: Sequence[Guarded | None], watch: Watch) -> None:
        """No store went before or past a tensor."""
        named = [(f"argument {i + 1}", k) for i, k in enumerate(kept) if k is not None]
        named += [("the output", guard) for guard in watch.fresh]
        for name, guard in named:
            side = guard.torn()
            if side:
                where = "past the end of" if side == "after" else "before the start of"
                raise Wrong(
                    Finding(
                        f"The kernel wrote {where} {name}, of shape {tuple(guard.tensor.shape)}.",
                        probable="A store has no mask, or a mask that lets through elements that "
                        "do not exist.",
                    ),
                    "check:out_of_bounds",
                )

    def check_inputs(self, clones: tuple, kept: Sequence[Guarded | None]) -> None:
        """No argument was written to."""
        for number, (clone, guard) in enumerate(zip(clones, kept, strict=True), 1):
            if guard is not None and not same_bits(clone, guard.tensor.detach()):
                raise Wrong(
                    Finding(
                        f"Argument {number} was written to: the function must leave its inputs "
                        "as they are.",
                        probable="The store goes to the input's pointer; give the kernel the "
                        "output's.",
                    ),
                    "check:input_modified",
                )


def torch_did_it(operator: str) -> Finding:
    """PyTorch computed something that the kernel was to compute."""
    return Finding(
        f"The function computes with PyTorch ({operator}): that is the kernel's work.",
        probable="Around the kernel only allocating (torch.empty_like) and viewing are allowed; "
        "move the arithmetic, copies and casts into the kernel.",
    )
