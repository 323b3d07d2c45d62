"""From what the stages found out to the one sentence that helps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from checkers.exercise import Evidence, Exercise, Finding

# What wrong values look like, and what that usually comes from; the first one seen is said.
# The order goes from the telling to the vague.
BY_PATTERN: Mapping[str, str] = {
    "race": (
        "The answer changes from run to run: two threads touch the same place with nothing that "
        "orders them, or something is read before it is written."
    ),
    "previous_call": (
        "This is the answer to the call before: the result is kept between calls, or the kernel "
        "was compiled with the first input built in."
    ),
    "input_returned": "The input came back as it went in: was the result stored to the output?",
    "unwritten": (
        "Some elements were never written: too few programs or blocks, a store whose mask or "
        "predicate is too strict, or a loop that ends too early."
    ),
    "all_zero": (
        "Every element is zero: nothing was stored into a zeroed output, or every load was masked "
        "off."
    ),
    "first_row_only": (
        "Only the first row is right: every program works on row 0. Its own number (the program or "
        "block index) has to enter the address."
    ),
    "row_of_another": (
        "Rows hold the answers of other rows: the row that is loaded is not the one that is stored, "
        "or a stride is that of another tensor."
    ),
    "transposed": "The answer is transposed: rows and columns, or their strides, are swapped.",
    "shifted": "The values are right but moved along the row: an offset is too large or too small.",
    "nan_everywhere": (
        "Everything is NaN: 0/0, inf - inf, or a load from where nothing was written. Softmax "
        "subtracts the row's maximum before exp."
    ),
    "nan_rows": (
        "Whole rows are NaN: inf - inf or 0/0 in these rows, or a load without a mask that brought "
        "in what lies behind the row."
    ),
    "inf": "Infinity where a number belongs: exp of a large number, or a division by zero.",
    "last_tile": (
        "Only the end of the rows is wrong: the last, partly filled block. Look at its mask or "
        "predicate, and at the division that should round up."
    ),
    "last_rows": (
        "Only the last rows are wrong: the grid is too small, or the last, partly filled block of "
        "rows is not guarded."
    ),
    "constant_factor": (
        "Every element is off by the same factor: a missing or doubled scale, or a sum over too "
        "many or too few terms."
    ),
    "row_factor": (
        "Each row is off by a factor of its own: its sum or maximum took in too much (lanes past "
        "the end) or too little."
    ),
    "rows_do_not_sum_to_one": "The rows don't add up to 1: the sum that divides is not the row's.",
    "every_kth_row": (
        "Every k-th row is wrong: of several rows that a program or warp handles, one is treated "
        "differently."
    ),
    "every_kth_column": (
        "Every k-th column is wrong: of the elements that a thread holds, one is treated "
        "differently."
    ),
    "one_row": "A single row is wrong: look at what is special about it in this case.",
    "everything": "Nearly every element is wrong: the formula itself, not an edge case.",
    "scattered": (
        "Errors lie scattered: rounding (a sum in 16 bits?), a race, or special values such as "
        "large numbers and ties."
    ),
}

# By how Evidence.error begins, where the finding says nothing about the cause itself.
BY_ERROR: Mapping[str, str] = {
    "check:blank": "Put your code in the place of the line that raises NotImplementedError.",
    "check:forbidden": "Leave it out: what it does is yours to write, or the grader's business.",
    "check:no_kernel": "A kernel that is defined but never launched computes nothing.",
    "check:shape": "Allocate the output in the shape that the exercise asks for.",
    "check:dtype": "Allocate the output with the dtype that the exercise asks for.",
    "check:type": "Return the output itself: a tensor, not None or a list.",
    "check:device": "Allocate the output on the input's device: device=x.device.",
    "check:input_modified": "Inputs stay as they are: store to the output's pointer.",
    "check:stale": "Keep nothing between calls: allocate the output inside the function.",
    "check:stream": "Launch on PyTorch's current stream, and leave no work running elsewhere.",
    "check:torch_ops": "Around the kernel only allocating and viewing are allowed.",
    "check:timeout": "Look for a loop that never ends, or a barrier that not everyone reaches.",
    "check:exit": "A function returns; it never exits. A crash comes from an address outside.",
    "check:registers": "Fewer values per thread, or more threads for the same tile.",
    "check:spills": "Registers that spill are read and written in memory: smaller tiles a thread.",
    "check:shared_memory": "Smaller tiles, or fewer stages.",
    "check:threads": "A block has at most 1024 threads.",
    "check:cluster": "The grid must be a multiple of the cluster, in every dimension.",
    "rule:": "The compiled code does not show the technique that this chapter teaches.",
}


def diagnose(exercise: Exercise, evidence: Evidence, finding: Finding) -> Finding:
    """The finding with ``probable`` and ``reread`` filled in.

    The exercise's own diagnoses come first, in their order. Without one that matches, what the
    finding itself says stays; without that, the usual cause of the first pattern seen, or of this
    kind of error. ``reread`` is the exercise's section unless a diagnosis names another.
    """
    for diagnosis in exercise.diagnoses:
        if diagnosis.matches(evidence):
            reread = diagnosis.reread or exercise.section
            return replace(finding, probable=diagnosis.says, reread=reread)
    probable = finding.probable or usual_cause(evidence)
    return replace(finding, probable=probable, reread=finding.reread or exercise.section)


def telling_cases(
    exercise: Exercise, evidence: Evidence, untried: frozenset[str]
) -> frozenset[str]:
    """Those of the cases that were not tried which the first diagnosis that may hold asks about;
    none when it is decided which one that is. Other cases would change nothing that is said."""
    for diagnosis in exercise.diagnoses:
        asked = diagnosis.asks_for(evidence, untried)
        if asked is not None:
            return asked
    return frozenset()


def usual_cause(evidence: Evidence) -> str:
    """What such evidence comes from most often; "" when nothing is known."""
    for pattern, says in BY_PATTERN.items():
        if pattern in evidence.patterns:
            return says
    for beginning, says in BY_ERROR.items():
        if evidence.error.startswith(beginning):
            return says
    return ""
