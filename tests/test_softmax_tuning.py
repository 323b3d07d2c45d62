"""What chapter 2's checker says about an autotuner's launches."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from checkers.chapters.parts.ch02_tuning import Launch, TuningError, call_in_sequence, judge

TUNER = SimpleNamespace(configs=["one", "another"])
OTHER = SimpleNamespace(configs=["one", "another"])


def test_a_choice_for_each_length_is_right() -> None:
    judge(
        (
            Launch(TUNER, M=3, N=300, tuned=True),
            Launch(TUNER, M=6, N=300, tuned=False),
            Launch(TUNER, M=2, N=1000, tuned=True),
            Launch(OTHER, M=1, N=9000, tuned=True),
        )
    )


def test_lengths_with_the_same_power_of_two_may_share_a_choice() -> None:
    judge((Launch(TUNER, 3, 300, tuned=True), Launch(TUNER, 3, 500, tuned=False)))


def test_a_choice_kept_for_a_much_longer_row_is_an_error() -> None:
    launches = (Launch(TUNER, 3, 300, tuned=True), Launch(TUNER, 3, 1000, tuned=False))
    with pytest.raises(
        TuningError, match="chosen for rows of 300 elements was kept for rows of 1000"
    ):
        judge(launches)


def test_tuning_again_for_more_rows_is_an_error() -> None:
    launches = (Launch(TUNER, 3, 300, tuned=True), Launch(TUNER, 6, 300, tuned=True))
    with pytest.raises(TuningError, match="only the number of rows changed, from 3 to 6"):
        judge(launches)


def test_two_kernels_are_not_held_against_each_other() -> None:
    judge((Launch(TUNER, 3, 300, tuned=True), Launch(OTHER, 6, 300, tuned=True)))


def test_a_single_configuration_is_no_choice() -> None:
    alone = SimpleNamespace(configs=["one"])
    with pytest.raises(TuningError, match="a single configuration"):
        judge((Launch(alone, 3, 300, tuned=False),))


def test_without_an_autotuned_launch_nothing_was_tuned() -> None:
    with pytest.raises(TuningError, match="no autotuned kernel"):
        judge(())


def test_one_matrix_is_simply_passed_on() -> None:
    assert call_in_sequence(lambda x: x + 1, (41,)) == 42
