"""How layouts are graded: by the function that they are, whatever they are spelt like.

An exercise's ``call`` turns the answer into a ``Graded`` table, its oracle gives a ``Graded`` too,
and the two always count as equal: what the table must be is said by invariants, because only they
can accept every right layout and tell one misreading from another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from checkers.exercise import Diagnosis, Exercise, Invariant, Mistake, Rung

# From a table of offsets and the exercise's arguments: None, or a sentence that says what is wrong.
Judge = Callable[[torch.Tensor, tuple], str | None]


@dataclass(frozen=True)
class Graded:
    """An answer as a table of integers; ``kind`` says in reports what was wanted."""

    kind: str = field(compare=False)
    table: torch.Tensor | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return self.kind


A_LAYOUT = Graded("a layout")


@dataclass(frozen=True)
class Misreading:
    """A wrong idea, known by the table that it leads to.

    name: for the evidence; no other name of the exercise begins with it.
    says: the idea and the right one.  reread: heading of the lesson.
    table: the offsets that it gives, from the exercise's arguments.
    answer: source of an answer that has it.
    """

    name: str
    says: str
    reread: str
    table: Callable[..., torch.Tensor]
    answer: str


def invariants(
    judges: dict[str, Judge], misreadings: tuple[Misreading, ...]
) -> tuple[Invariant, ...]:
    """One for each misreading, then one for each judge; the first that is broken is reported.

    A misreading counts only where a judge objects: on some shapes it is right.
    """

    def objection(graded: Graded, arguments: tuple) -> str | None:
        found = (judge(graded.table, arguments) for judge in judges.values())
        return next((says for says in found if says), None)

    def recognise(misreading: Misreading) -> Callable[[Graded, tuple], str | None]:
        def holds(graded: Graded, arguments: tuple) -> str | None:
            wrong = misreading.table(*arguments)
            return objection(graded, arguments) if torch.equal(graded.table, wrong) else None

        return holds

    def judged(judge: Judge) -> Callable[[Graded, tuple], str | None]:
        return lambda graded, arguments: judge(graded.table, arguments)

    return (
        *(Invariant(misreading.name, recognise(misreading)) for misreading in misreadings),
        *(Invariant(name, judged(judge)) for name, judge in judges.items()),
    )


def judged(
    judges: dict[str, Judge],
    misreadings: tuple[Misreading, ...],
    *,
    kind: str = A_LAYOUT.kind,
    mistakes: tuple[Mistake, ...] = (),
    diagnoses: tuple[Diagnosis, ...] = (),
    **fields: Any,
) -> Exercise:
    """An exercise whose answer is judged as a table: the misreadings become its first known
    mistakes and diagnoses, ``mistakes`` and ``diagnoses`` follow; ``fields`` are Exercise's own."""
    return Exercise(
        rung=Rung.PYTHON,
        oracle=lambda *arguments: Graded(kind),
        invariants=invariants(judges, misreadings),
        mistakes=(
            *(Mistake(m.name, "run", m.says, answer=m.answer) for m in misreadings),
            *mistakes,
        ),
        diagnoses=(
            *(Diagnosis(m.says, m.reread, error=_error(m.name)) for m in misreadings),
            *diagnoses,
        ),
        **fields,
    )


def _error(name: str) -> str:
    return f"check:invariant:{name}"


def judge_shape(right: Callable[..., torch.Tensor]) -> Judge:
    """The answer has as many modes as the table ``right(*arguments)``, of the same sizes."""

    def judge(table: torch.Tensor, arguments: tuple) -> str | None:
        got, wanted = tuple(table.shape), tuple(right(*arguments).shape)
        if got == wanted:
            return None
        return f"The layout has {_modes(got)}; wanted {_modes(wanted)}."

    return judge


def judge_offsets(
    right: Callable[..., torch.Tensor],
    coordinate: Callable[[tuple[int, ...], tuple], str] | None = None,
) -> Judge:
    """The answer's table is ``right(*arguments)``.

    coordinate(index, arguments): how a place in the table is written; by default "(1, 2)".
    """

    def judge(table: torch.Tensor, arguments: tuple) -> str | None:
        wanted = right(*arguments)
        wrong = (table != wanted).nonzero()
        if not len(wrong):
            return None
        index = tuple(wrong[0].tolist())
        plain = str(index if len(index) > 1 else index[0])
        where = coordinate(index, arguments) if coordinate else plain
        return (
            f"Coordinate {where} leads to offset {int(table[index])}; wanted {int(wanted[index])}. "
            f"{len(wrong)} of {table.numel()} coordinates are wrong."
        )

    return judge


def judge_permutation(table: torch.Tensor, arguments: tuple) -> str | None:
    """Every number from 0 to size - 1 is reached, once."""
    count = table.numel()
    outside = ((table < 0) | (table >= count)).nonzero()
    if len(outside):
        index = tuple(outside[0].tolist())
        return (
            f"Coordinate {index} leads to {int(table[index])}: there are {count} elements, "
            f"0 to {count - 1}."
        )
    hits = torch.bincount(table.flatten(), minlength=count)
    if bool((hits == 1).all()):
        return None
    twice = int(hits.argmax())
    first, second = (tuple(at) for at in (table == twice).nonzero()[:2].tolist())
    never = int(hits.argmin())
    return (
        f"Coordinates {first} and {second} both lead to element {twice}, and none leads to {never}."
    )


def _modes(extents: tuple[int, ...]) -> str:
    if len(extents) == 1:
        return f"one mode, of size {extents[0]}"
    return f"{len(extents)} modes, of sizes {' and '.join(map(str, extents))}"
