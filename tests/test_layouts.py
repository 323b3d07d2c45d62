"""Layouts as tables, and the layout chapter's grading by function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cutlass
import cutlass.cute as cute
import pytest
import torch

from checkers.course import Course
from checkers.exercise import Evidence, Exercise
from checkers.layouts import tables
from checkers.layouts.banks import bank_trips, bank_words
from checkers.layouts.calls import layout_answer
from checkers.layouts.evaluation import NotALayout, evaluate, traced
from checkers.layouts.judges import A_LAYOUT, Graded, judge_permutation

ROOT = Path(__file__).parents[1]
EXERCISES = {exercise.id: exercise for exercise in Course(ROOT).chapter("ch03").exercises}


def objection(
    exercise_id: str, answer: Callable, case: str | None = None
) -> tuple[str, str] | None:
    """Name and sentence of the first invariant that an answer breaks, or ("value", what it gave)."""
    exercise = EXERCISES[exercise_id]
    for each in exercise.cases:
        if case not in (None, each.name):
            continue
        arguments = exercise.inputs(each, torch.Generator())
        graded = exercise.call(answer, arguments)
        if not isinstance(graded, Graded):
            return "value", repr(graded)
        for invariant in exercise.invariants:
            says = invariant.holds(graded, arguments)
            if says:
                return invariant.name, says
    return None


# --- evaluating ----------------------------------------------------------------------------------


def test_every_coordinate_is_evaluated() -> None:
    table = evaluate(lambda: cute.make_layout((2, 3), stride=(10, 1)))
    assert table.text == "(2,3):(10,1)"
    assert table.offsets.tolist() == [[0, 1, 2], [10, 11, 12]]


def test_a_nested_mode_is_counted_first_part_fastest() -> None:
    table = evaluate(lambda: cute.make_layout(((2, 2), 2), stride=((1, 10), 100)))
    assert table.offsets[:, 0].tolist() == [0, 1, 10, 11]


def test_a_layout_of_one_mode_has_a_table_of_one_dimension() -> None:
    assert evaluate(lambda: cute.make_layout(3, stride=5)).offsets.tolist() == [0, 5, 10]


def test_a_swizzled_layout_agrees_with_the_formula() -> None:
    table = evaluate(
        lambda: cute.make_composed_layout(
            cute.make_swizzle(3, 2, 4), 0, cute.make_layout((16, 64), stride=(64, 1))
        )
    )
    assert torch.equal(table.offsets, tables.swizzled(16, 64, 3, 2, 4))


@pytest.mark.parametrize("value", [None, 5, (4, 6), torch.zeros(2)])
def test_what_is_no_layout_is_refused_and_kept(value: Any) -> None:
    with pytest.raises(NotALayout, match="wanted a layout") as caught:
        evaluate(lambda: value)
    assert caught.value.value is value


def test_sizes_known_at_run_time_only_are_refused() -> None:
    with pytest.raises(TypeError, match="run time only"):
        evaluate(lambda: cute.make_layout((cutlass.Int32(4), 6)))


def test_an_identity_layout_leads_to_no_offsets() -> None:
    with pytest.raises(TypeError, match="identity layout"):
        evaluate(lambda: cute.make_identity_layout((4, 6)))


def test_a_huge_layout_is_refused_before_it_is_evaluated() -> None:
    with pytest.raises(ValueError, match="1073741824 coordinates"):
        evaluate(lambda: cute.make_layout((1 << 15, 1 << 15)))


def test_an_answers_own_exception_passes_through() -> None:
    with pytest.raises(ZeroDivisionError):
        evaluate(lambda: cute.make_layout(1 // 0))


def test_traced_gives_back_what_the_function_returns() -> None:
    assert traced(lambda: cute.make_layout((4, 6), stride=(6, 1))(5)) == 7


# --- banks ---------------------------------------------------------------------------------------


def test_banks_repeat_after_128_bytes() -> None:
    assert bank_words([0, 4, 128]) == {0: [0, 32], 1: [1]}
    assert bank_trips([0, 4, 128]) == 2


def test_two_16_bit_elements_of_a_word_are_one_request() -> None:
    assert bank_trips([2 * lane for lane in range(32)], 2) == 1
    assert bank_words([0, 2], 2) == {0: [0]}


def test_padding_by_one_word_frees_a_column() -> None:
    assert bank_trips([128 * lane for lane in range(32)]) == 32
    assert bank_trips([132 * lane for lane in range(32)]) == 1


# --- grading by function -------------------------------------------------------------------------


def test_permutations_are_told_from_what_is_none() -> None:
    assert judge_permutation(torch.tensor([[2, 0], [1, 3]]), ()) is None
    twice = judge_permutation(torch.tensor([[0, 1], [1, 3]]), ())
    assert twice == ("Coordinates (0, 1) and (1, 0) both lead to element 1, and none leads to 2.")
    outside = judge_permutation(torch.tensor([[0, 4], [1, 3]]), ())
    assert outside == "Coordinate (0, 1) leads to 4: there are 4 elements, 0 to 3."


def test_two_graded_tables_count_as_equal_and_other_types_do_not() -> None:
    assert layout_answer(lambda: cute.make_layout(4)) == A_LAYOUT
    assert layout_answer(lambda: 4) == 4


def test_a_failure_says_which_coordinate_leads_where() -> None:
    def rows_too_far_apart(M: int, N: int, pitch: int, m: int, n: int) -> cute.Layout:
        return cute.zipped_divide(cute.make_layout((M, N), stride=(N + 1, 1)), (m, n))

    assert objection("ch03.tile", rows_too_far_apart, "square") == (
        "offsets",
        "Coordinate ((0, 0), (1, 0)) leads to offset 14; wanted 12. 30 of 36 coordinates are wrong.",
    )


def test_a_tile_may_be_spelt_as_a_divide() -> None:
    def tiled(M: int, N: int, pitch: int, m: int, n: int) -> cute.Layout:
        return cute.zipped_divide(cute.make_layout((M, N), stride=(pitch, 1)), (m, n))

    assert objection("ch03.tile", tiled) is None


def test_rows_may_be_left_alone_when_columns_are_picked() -> None:
    def every_nth_column(matrix: cute.Layout, n: int) -> cute.Layout:
        columns = cute.make_layout(cute.size(matrix, mode=[1]) // n, stride=n)
        return cute.composition(matrix, (None, columns))

    assert objection("ch03.compose", every_nth_column) is None


def test_a_thread_value_layout_may_come_from_make_layout_tv() -> None:
    def thread_value_layout(M: int, N: int) -> cute.Layout:
        threads = cute.make_ordered_layout((M, N // 8), order=(1, 0))
        return cute.make_layout_tv(threads, cute.make_layout((1, 8)))[1]

    assert objection("ch03.tv_layout", thread_value_layout) is None


def test_warps_may_take_rows_in_any_order() -> None:
    def bottom_half_first(M: int, N: int) -> cute.Layout:
        if M % 2:
            return cute.make_layout(((N // 8, M), 8), stride=((8 * M, 1), M))
        # Rows 0, 2, 4 ... and then 1, 3, 5 ...
        return cute.make_layout(((N // 8, M // 2, 2), 8), stride=((8 * M, 2, 1), M))

    assert objection("ch03.tv_layout", bottom_half_first) is None


def test_another_conflict_free_swizzle_is_accepted() -> None:
    """More bits than are needed, and a further shift where a row has few pieces."""
    numbers = {
        (64, 2): (3, 3, 3),
        (32, 4): (3, 2, 3),
        (128, 2): (4, 3, 4),
        (32, 2): (3, 3, 3),
        (16, 2): (3, 3, 3),
        (128, 1): (3, 4, 3),
    }

    def conflict_free(rows: int, columns: int, element_bytes: int) -> cute.ComposedLayout:
        swizzle = cute.make_swizzle(*numbers[columns, element_bytes])
        plain = cute.make_layout((rows, columns), stride=(columns, 1))
        return cute.make_composed_layout(swizzle, 0, plain)

    assert objection("ch03.swizzle", conflict_free) is None


def test_a_misreading_that_is_right_for_a_shape_is_no_objection_there() -> None:
    def numbered_by_rows(M: int, N: int) -> cute.Layout:
        return cute.make_layout((M * N // 8, 8), stride=(8, 1))

    assert objection("ch03.tv_layout", numbered_by_rows, "one_row") is None
    found = objection("ch03.tv_layout", numbered_by_rows)
    assert found is not None and found[0] == "numbered_by_rows"


def test_a_swizzle_that_cute_turns_into_none_is_recognised() -> None:
    def conflict_free(rows: int, columns: int, element_bytes: int) -> cute.ComposedLayout:
        plain = cute.make_layout((rows, columns), stride=(columns, 1))
        return cute.make_composed_layout(cute.make_swizzle(3, 3, 2), 0, plain)

    found = objection("ch03.swizzle", conflict_free)
    assert found is not None and found[0] == "plain_tile" and "8-way conflict" in found[1]


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=lambda exercise: exercise.id)
def test_every_misreading_has_a_diagnosis_of_its_own(exercise: Exercise) -> None:
    names = [invariant.name for invariant in exercise.invariants]
    assert len(set(names)) == len(names)
    for mistake in exercise.mistakes:
        if mistake.name in names:
            evidence = Evidence("run", error=f"check:invariant:{mistake.name}")
            first = next(d for d in exercise.diagnoses if d.matches(evidence))
            assert first.says == mistake.diagnosis


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=lambda exercise: exercise.id)
def test_every_heading_that_a_report_names_is_in_the_lesson(exercise: Exercise) -> None:
    lesson = (ROOT / "chapters" / "ch03_cute_layouts" / "lesson.md").read_text(encoding="utf-8")
    headings = {line[3:].strip() for line in lesson.splitlines() if line.startswith("## ")}
    assert {exercise.section, *(d.reread for d in exercise.diagnoses)} <= headings
