"""The compile and the codegen stage: limits, and what the PTX and SASS must show."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from checkers.exercise import Exercise, Stage
from checkers.grading.artifacts import CompiledKernel


def check_compiled(
    exercise: Exercise, kernels: Sequence[CompiledKernel], tree: ast.Module | None = None
) -> Stage:
    """The compile stage, once everything has compiled: registers, spills, shared memory, threads
    and cluster within the limits of each target (the compiler checks none of these)."""
    raise NotImplementedError


def check_rules(
    exercise: Exercise,
    kernels: Sequence[CompiledKernel] = (),
    measures: Mapping[str, float] | None = None,
    tree: ast.Module | None = None,
    source: str = "",
    first_line: int = 1,
) -> Stage:
    """The codegen stage: every Rule against every kernel and target, every GraphRule against
    ``measures``. The Finding is complete (diagnosed with error "rule:NAME")."""
    raise NotImplementedError
