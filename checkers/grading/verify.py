"""Is what an answer returned right: its form, then its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from checkers.exercise import Case, Exercise, Finding
from checkers.grading.compare import Comparison, compare
from checkers.grading.patterns import find_patterns
from checkers.grading.picture import draw


class Wrong(Exception):
    """An answer is not right: the finding, and the evidence for a diagnosis."""

    def __init__(
        self, finding: Finding, error: str = "", patterns: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(finding.summary)
        self.finding = finding
        self.error = error
        self.patterns = patterns


def check_values(
    exercise: Exercise,
    case: Case,
    got: Any,
    expected: Any,
    arguments: tuple,
    previous: Sequence[torch.Tensor] = (),
) -> float:
    """Compares one value, or a tuple of them, with the oracle's; returns error over bound.

    previous: what the function returned for other inputs, to recognise a stale answer.
    Raises Wrong.
    """
    if isinstance(expected, tuple):
        if not isinstance(got, tuple | list) or len(got) != len(expected):
            raise Wrong(
                Finding(f"Wanted {len(expected)} values, got {describe(got)}."), "check:type"
            )
        pairs = zip(got, expected, strict=True)
        return max(check_values(exercise, case, g, e, arguments) for g, e in pairs)
    if not isinstance(expected, torch.Tensor):
        if not plainly_equal(got, expected, exercise.tolerance.relative):
            raise Wrong(Finding(f"Wanted {expected!r}, got {describe(got)}."), "check:value")
        return 0.0
    dtype = wanted_dtype(exercise, arguments, expected)
    check_form(got, expected, dtype, on_cuda=expected.is_cuda)
    length = exercise.reduction_length(case)
    compared = compare(got, expected, exercise.tolerance, dtype, length)
    if compared.ok:
        return compared.worst_error / compared.bound if compared.bound else 0.0
    raise wrong_values(case, got, expected, arguments, compared, previous)


def wanted_dtype(exercise: Exercise, arguments: tuple, expected: torch.Tensor) -> torch.dtype:
    if exercise.output_dtype is not None:
        return exercise.output_dtype(arguments) or expected.dtype
    tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
    return tensors[0].dtype if tensors else expected.dtype


def check_form(got: Any, expected: torch.Tensor, dtype: torch.dtype, on_cuda: bool) -> None:
    """The type, shape, dtype and device of an answer."""
    if type(got) is not torch.Tensor:
        raise Wrong(
            Finding(
                f"Wanted a torch.Tensor, got {describe(got)}.",
                probable="The function does not return its output."
                if got is None
                else "Return the output tensor itself.",
            ),
            "check:type",
        )
    if got.shape != expected.shape:
        raise Wrong(
            Finding(
                f"Wanted shape {tuple(expected.shape)}, got {tuple(got.shape)}.",
                probable="Allocate the output with `torch.empty_like` of the input, or with "
                "the shape that the exercise states.",
            ),
            "check:shape",
        )
    if got.dtype != dtype:
        raise Wrong(
            Finding(
                f"Wanted dtype {dtype}, got {got.dtype}.",
                probable="Compute in float32 if you like, but the output has the dtype that "
                "the exercise states.",
            ),
            "check:dtype",
        )
    if on_cuda and not got.is_cuda:
        raise Wrong(Finding(f"Wanted a tensor on cuda, got one on {got.device}."), "check:device")


def wrong_values(
    case: Case,
    got: torch.Tensor,
    expected: torch.Tensor,
    arguments: tuple,
    compared: Comparison,
    previous: Sequence[torch.Tensor],
) -> Wrong:
    """Values that are wrong, as a finding with a picture."""
    assert compared.wrong_mask is not None
    stale = next((p for p in previous if p.shape == got.shape), None)
    on_device = tuple(a.to(got.device) if isinstance(a, torch.Tensor) else a for a in arguments)
    patterns = find_patterns(got, expected, on_device, compared.wrong_mask, stale)
    share = f"{compared.wrong} of {compared.total} elements"
    finding = Finding(
        f"Wrong on case {case.name}: {share} are off by more than "
        f"{compared.bound:.1e} of their scale.",
        element=str(compared),
        picture=draw(compared.wrong_mask, got),
    )
    return Wrong(finding, "check:values", patterns)


def check_same(first: Sequence[torch.Tensor], again: Sequence[torch.Tensor]) -> None:
    """The same inputs gave the same answer. Raises Wrong (a race)."""
    for a, b in zip(first, again, strict=True):
        if not same_bits(a, b):
            raise Wrong(
                Finding(
                    "The answer changes from run to run on the same inputs: a race.",
                    picture=draw(a != b),
                    probable="Two threads touch the same place with nothing that orders them, "
                    "or something is read before it is written.",
                ),
                "check:race",
                frozenset({"race"}),
            )


def tensors_of(value: Any) -> list[torch.Tensor]:
    """The tensors in a result."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, tuple | list):
        return [tensor for item in value for tensor in tensors_of(item)]
    return []


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal in value, NaN equal to NaN."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    equal = a == b
    if a.is_floating_point() or a.is_complex():
        equal |= (a != a) & (b != b)
    return bool(equal.all())


def plainly_equal(got: Any, expected: Any, relative: float | None) -> bool:
    """Plain values: equal, numbers within ``relative`` (1e-6 unless stated), containers by item."""
    if isinstance(expected, bool) or not isinstance(expected, int | float):
        if isinstance(expected, Mapping):
            return (
                isinstance(got, Mapping)
                and got.keys() == expected.keys()
                and all(plainly_equal(got[key], expected[key], relative) for key in expected)
            )
        return type(got) is type(expected) and bool(got == expected)
    if isinstance(got, bool) or not isinstance(got, int | float):
        return False
    allowed = 1e-6 if relative is None else relative
    return abs(got - expected) <= allowed * max(abs(expected), 1e-30)


def describe(value: Any) -> str:
    """A value in a few words."""
    if value is None:
        return "None"
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)}, {value.dtype}"
    text = repr(value)
    return f"{text if len(text) < 80 else text[:77] + '...'} ({type(value).__name__})"
