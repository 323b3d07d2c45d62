"""The vocabulary in which a chapter's checker states its exercises.

A file in ``checkers/chapters/`` holds data and small functions, no machinery: it says what must
hold, and the stages in ``checkers/grading/`` find out whether it does. A chapter's module defines

    EXERCISES: tuple[Exercise, ...]     in the order of the lesson
    BENCH: Bench | None                 the chapter's speed table, if it has one
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any

import torch


class Rung(Enum):
    """Which tool an exercise's answer is written with. It decides which stages apply."""

    PYTHON = "python"  # plain functions, layout puzzles: source, run
    TORCH = "torch.compile"  # source, compile, run, codegen, speed
    TRITON = "triton"  # source, compile, run, codegen, speed
    CUTE = "cute"  # source, compile, run, codegen, speed

    @property
    def stages(self) -> tuple[str, ...]:
        """Names of the stages that an exercise of this rung goes through, in order."""
        if self is Rung.PYTHON:
            return ("source", "run")
        return ("source", "compile", "run", "codegen", "speed")


@dataclass(frozen=True)
class Case:
    """One named set of parameters that an answer must be right on.

    name: lower_snake_case, says what is special: ``tail_1``, ``one_row``, ``spike_in_the_tail``.
    parameters: what ``Exercise.inputs`` builds the arguments from; shown in reports, so keep to
        ints, floats, strings ("float32" for dtypes) and tuples.
    why: half a sentence, shown when the case fails: what kind of mistake it is there to find.
    needs_gpu: too large, or too slow, for the CPU.
    sparse: reaches far but touches little (three rows, 2 GiB apart): the simulator can run it
        although it needs_gpu.
    window: only for the simulator: so many elements at either end of each flat tensor are filled
        and compared, and only the first and the last blocks of the grid run. What lies between
        takes no memory.
    """

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    needs_gpu: bool = False
    sparse: bool = False
    window: int = 0

    def __getitem__(self, key: str) -> Any:
        return self.parameters[key]

    @property
    def dtype(self) -> torch.dtype:
        """The parameter ``dtype``, a string such as "bfloat16", as PyTorch's."""
        return getattr(torch, self.parameters["dtype"])

    def __str__(self) -> str:
        shown = ", ".join(f"{key}={value}" for key, value in self.parameters.items())
        return f"{self.name} ({shown})" if shown else self.name


@dataclass(frozen=True)
class Tolerance:
    """How far from the oracle an answer may be, relative to the scale of the answer.

    The error of an element is |got - expected| / scale. The scale is the largest |expected| over
    ``scale_dims`` (the last dimension by default: each row has its own scale), never below
    ``floor``. An element is wrong when its error exceeds ``relative``, or when one of the two is
    NaN and the other is not. ``relative`` None: from the dtype of the answer and the length of
    the reduction, see ``bound``.
    """

    relative: float | None = None
    scale_dims: tuple[int, ...] = (-1,)
    floor: float = 1e-30
    exact: bool = False  # bit for bit (copies), NaN equal to NaN

    def bound(self, dtype: torch.dtype, reduction_length: int = 1) -> float:
        """The relative error allowed for an answer of ``dtype`` after a sum of that many terms."""
        if self.relative is not None:
            return self.relative
        # One ulp of the scale to round a 16-bit answer (half would do for its largest element),
        # and float32 sums in any order: the error of a sum of n terms grows like sqrt(n) ulps. A factor of 4 leaves room for exp2 and fast division.
        rounding = torch.finfo(dtype).eps
        accumulation = torch.finfo(torch.float32).eps * max(1, reduction_length) ** 0.5
        return (
            4 * (rounding + accumulation) if dtype == torch.float32 else rounding + 4 * accumulation
        )


@dataclass(frozen=True)
class Invariant:
    """A property every answer has, checked beside the oracle: ``holds(result, arguments)``
    returns None, or one sentence that says what was found."""

    name: str
    holds: Callable[[Any, tuple], str | None]


@dataclass(frozen=True)
class Rule:
    """What the generated code must, or must not, contain.

    A rule reads parsed instructions (``grading/assembly.py``), never the text. It matches an
    instruction whose opcode begins with ``opcode`` ("ld.global", "cp.async.bulk", "shfl.sync"),
    has all of ``modifiers`` ("v4", "L2::128B"), and moves at least ``min_bits`` per thread.

    at_least / at_most: how many matching instructions there must be in the code as written.
    every: all instructions of ``opcode`` must match (every global load is 128 bits wide); an
        instruction behind a branch or predicate for the tail counts too, so use it with care.
    before: all matching instructions must stand before the first one of this opcode.
    language: "ptx" or "sass".  targets: which cross-compilations it holds for.
    kernel: only kernels whose name contains this; "" means all.
    says: the sentence shown when it is broken: what was wanted, and what was found instead.
    """

    name: str
    opcode: str
    says: str
    modifiers: tuple[str, ...] = ()
    min_bits: int = 0
    at_least: int | None = None
    at_most: int | None = None
    every: bool = False
    before: str = ""
    language: str = "ptx"
    targets: tuple[str, ...] = ("sm_90a", "sm_100a")
    kernel: str = ""


@dataclass(frozen=True)
class GraphRule:
    """What torch.compile must have done, for Rung.TORCH: a bound on one of the measures

    graphs, graph_breaks, recompiles, kernels (generated by Inductor for the first case).
    """

    name: str
    measure: str
    says: str
    at_least: int | None = None
    at_most: int | None = None


@dataclass(frozen=True)
class SpeedTarget:
    """A case to be timed, and how much work it is. Thresholds live in thresholds.toml.

    work: from the arguments, the bytes that must move (ruler "copy") or the floating-point
        operations that must be done (ruler "cublas", "cudnn").
    """

    case: Case
    work: Callable[[tuple], int]
    ruler: str = "copy"


@dataclass(frozen=True)
class Floor:
    """A case that is counted on the simulator where there is no GPU to time it on.

    case: a small one with whole tiles, so that edges don't count.
    work: from the arguments, the bytes of global memory that must move.
    at_most: how many times as many its warps may ask for, in whole sectors of 32 bytes.
    """

    case: Case
    work: Callable[[tuple], int]
    at_most: float = 1.05


@dataclass(frozen=True)
class Evidence:
    """What the stages found out about a wrong answer; diagnoses match on it."""

    stage: str
    cases: tuple[str, ...] = ()  # names of the failing cases
    passed: tuple[str, ...] = ()  # names of the cases that were right
    patterns: frozenset[str] = frozenset()  # from grading/patterns.py, of the first failing case
    # Type and text of an exception, "rule:NAME" of a broken rule, "check:NAME" of what the grader
    # looked at, "fault:KIND" of what the simulator found; several are set apart by spaces.
    error: str = ""
    tree: ast.Module | None = None  # the learner's source


# Beginnings of Evidence.error that say what was computed, not that nothing was.
ABOUT_VALUES = (
    "check:values",
    "check:out_of_bounds",
    "check:race",
    "check:invariant",
    "check:stale",
    "check:input_modified",
    "fault:",
)


@dataclass(frozen=True)
class Diagnosis:
    """A probable mistake, in one sentence, and where to reread. All given conditions must hold;
    the first diagnosis of an exercise that matches is shown.

    cases: one of these is among the failing ones.  passing: all of these were right.
    patterns: all of these were seen.  error: this text is in the error.
    source: a predicate over the syntax tree, from ``checkers/grading/syntax.py`` or your own.
    """

    says: str
    reread: str = ""  # a heading of the lesson
    stage: str = ""
    cases: frozenset[str] = frozenset()
    passing: frozenset[str] = frozenset()
    patterns: frozenset[str] = frozenset()
    error: str = ""
    source: Callable[[ast.Module], bool] | None = None

    def matches(self, evidence: Evidence) -> bool:
        """Whether this explains the evidence. What only the source tells explains wrong values
        and stores out of bounds; an exception, a limit or a hang has a cause of its own."""
        return self.asks_for(evidence, frozenset()) == frozenset()

    def asks_for(self, evidence: Evidence, untried: frozenset[str]) -> frozenset[str] | None:
        """The cases among ``untried`` on which it still depends whether this explains the evidence:
        empty when it does, None when it does not whatever they bring."""
        failing, passed = frozenset(evidence.cases), frozenset(evidence.passed)
        found = (self.stage, self.cases, self.passing, self.patterns, self.error)
        about_values = evidence.error.startswith(ABOUT_VALUES)
        if self.source is not None and not any(found) and not about_values:
            return None
        if not (
            (not self.stage or self.stage == evidence.stage)
            and (not self.cases or bool(self.cases & (failing | untried)))
            and self.passing <= passed | untried
            and self.patterns <= evidence.patterns
            and self.error in evidence.error
            and (self.source is None or (evidence.tree is not None and self.source(evidence.tree)))
        ):
            return None
        to_fail = self.cases if self.cases and not self.cases & failing else frozenset()
        return (to_fail | (self.passing - passed)) & untried


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that learners write, kept to prove that it is rejected and explained.

    Either ``replace``: pairs of (text in the reference solution's cell, what stands there
    instead), each text occurring exactly once; or ``answer``: source that defines the exercise's
    function anew and is appended to the reference's cell.
    diagnosis: text that the report must contain.  stage: where it must be caught.
    needs_gpu: it can only be seen on a GPU (a race, an overflow past 2^31 elements).
    """

    name: str
    stage: str
    diagnosis: str
    replace: tuple[tuple[str, str], ...] = ()
    answer: str = ""
    needs_gpu: bool = False


def call_directly(function: Callable, arguments: tuple) -> Any:
    """How an answer is called unless the exercise says otherwise."""
    return function(*arguments)


@dataclass(frozen=True)
class Exercise:
    """One exercise: what is asked, how it is graded, and how a learner is helped.

    id: "ch02.row_softmax".  function: the name that the answer must define.
    inputs(case, generator): the arguments, CPU tensors drawn from ``generator`` (the grader
        moves them to the device); called anew for every run with another seed.
    oracle(*arguments): what is right, float64 tensors or plain values; gets clones. May return a
        tuple when the function does.
    call(function, arguments): for answers that must be called in a special way (layouts inside a
        jit function, a sequence of shapes); returns what is compared with the oracle's.
    output_dtype(arguments): dtype the answer must have; None: that of the first tensor argument.
    reduction_length(case): terms in the longest sum, for the tolerance.
    forbidden: dotted names that the answer may not use ("torch.softmax", ".softmax" for a method),
        with any import alias resolved.
    allowed_ops: aten operators that the answer may run besides allocating and viewing ("aten::add").
    hints: a question, a direction, the key line.
    section: the lesson's heading that teaches this.
    speed: what is timed on a GPU.  floors: what is counted where there is none.
    compile_cases: names of the cases that the compile and codegen stages look at; without any,
        the first one. Choose those where the technique shows (aligned rows for 128-bit loads).
    """

    id: str
    title: str
    points: int
    minutes: int
    rung: Rung
    function: str
    section: str
    cases: tuple[Case, ...]
    inputs: Callable[[Case, torch.Generator], tuple]
    oracle: Callable[..., Any]
    hints: tuple[str, str, str]
    mistakes: tuple[Mistake, ...]
    diagnoses: tuple[Diagnosis, ...] = ()
    call: Callable[[Callable, tuple], Any] = call_directly
    output_dtype: Callable[[tuple], torch.dtype | None] | None = None
    reduction_length: Callable[[Case], int] = lambda case: 1
    tolerance: Tolerance = Tolerance()
    invariants: tuple[Invariant, ...] = ()
    forbidden: tuple[str, ...] = ()
    allowed_ops: tuple[str, ...] = ()
    rules: tuple[Rule | GraphRule, ...] = ()
    speed: tuple[SpeedTarget, ...] = ()
    floors: tuple[Floor, ...] = ()
    max_registers: int = 255
    compile_cases: tuple[str, ...] = ()

    @property
    def chapter(self) -> str:
        """The short name of its chapter: "ch02"."""
        return self.id.partition(".")[0]


@dataclass(frozen=True)
class Implementation:
    """One competitor of a chapter's speed table. ``load()`` imports and returns a function of
    the bench's arguments; an ImportError it raises means "not installed here" and is reported.
    ``covers(case)``: whether it is made for that case; the table has no entry where it is not."""

    name: str
    load: Callable[[], Callable]
    covers: Callable[[Case], bool] = lambda case: True


@dataclass(frozen=True)
class Bench:
    """A chapter's speed table: every implementation on every case, interleaved with the ruler.

    inputs(case, generator): as in Exercise.  work(case): bytes or floating-point operations.
    unit: "GB/s" or "TFLOP/s".  x_axis: the parameter that the plot is drawn over.
    """

    title: str
    cases: tuple[Case, ...]
    inputs: Callable[[Case, torch.Generator], tuple]
    work: Callable[[Case], int]
    implementations: tuple[Implementation, ...]
    unit: str = "GB/s"
    ruler: str = "copy"
    x_axis: str = "N"


class Verdict(StrEnum):
    """Of a stage: pass, fail, skip, undecided. Of an exercise: pass, fail, not_attempted, undecided."""

    PASS = "pass"
    FAIL = "fail"
    SKIP = "skip"
    UNDECIDED = "undecided"
    NOT_ATTEMPTED = "not_attempted"


@dataclass(frozen=True)
class Finding:
    """A failure as a lesson: what, where, a picture, the probable mistake, where to reread."""

    summary: str  # one sentence: what is wrong
    case: str = ""  # "tail_1 (M=4, N=129, dtype=float32): one element past a tile"
    element: str = ""  # "[3, 128]: got nan, expected 0.0071"
    picture: str = ""  # a few lines of text: where the errors are, or the source line
    probable: str = ""  # the diagnosis
    reread: str = ""  # heading of the lesson
    output: str = ""  # what the answer printed, its end
    where: str = ""  # with a GPU and the simulator both: which of them found it


@dataclass(frozen=True)
class Stage:
    """The outcome of one stage."""

    name: str
    verdict: Verdict
    reason: str = ""
    seconds: float = 0.0
    measures: Mapping[str, Any] = field(default_factory=dict)
    finding: Finding | None = None


@dataclass(frozen=True)
class Report:
    """The outcome of one exercise."""

    id: str
    verdict: Verdict
    points: int
    max_points: int
    seed: int
    stages: tuple[Stage, ...]
    open_points: int = 0  # points of skipped stages: still to be earned, elsewhere

    def to_json(self) -> dict[str, Any]:
        """The exercise as ``ladder check --json`` writes it. A stage is passed, failed, skipped or
        undecided: "not attempted" is of the exercise alone, and its source stage is skipped."""
        named = {Verdict.NOT_ATTEMPTED: Verdict.SKIP}
        return {
            "id": self.id,
            "verdict": self.verdict.value,
            "points": self.points,
            "max_points": self.max_points,
            "seed": self.seed,
            "stages": [
                {
                    "name": stage.name,
                    "verdict": named.get(stage.verdict, stage.verdict).value,
                    "reason": stage.reason,
                    "seconds": round(stage.seconds, 3),
                    "measures": dict(stage.measures),
                }
                for stage in self.stages
            ],
        }
