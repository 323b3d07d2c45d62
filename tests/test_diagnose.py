"""The one sentence that helps: the exercise's own, else what such evidence usually comes from."""

from __future__ import annotations

import ast
import itertools

import pytest

from checkers.exercise import Case, Diagnosis, Evidence, Exercise, Finding, Rung
from checkers.grading.diagnose import BY_PATTERN, diagnose, telling_cases, usual_cause
from checkers.grading.syntax import load_without_other

NO_OTHER = Diagnosis("Lanes past N hold anything.", "Masks", source=load_without_other)
TAIL = Diagnosis("The tail is not masked.", cases=frozenset({"tail_1"}))


def exercise(*diagnoses: Diagnosis) -> Exercise:
    return Exercise(
        id="ch02.row_softmax",
        title="Softmax",
        points=10,
        minutes=10,
        rung=Rung.TRITON,
        function="row_softmax",
        section="One row a program",
        cases=(Case("tail_1"),),
        inputs=lambda case, generator: (),
        oracle=lambda: None,
        hints=("a", "b", "c"),
        mistakes=(),
        diagnoses=diagnoses,
    )


def test_the_first_diagnosis_that_matches_is_said() -> None:
    tree = ast.parse("tl.load(p, mask=m)")
    evidence = Evidence("run", cases=("tail_1",), error="check:values", tree=tree)
    found = diagnose(exercise(NO_OTHER, TAIL), evidence, Finding("wrong"))
    assert (found.probable, found.reread) == ("Lanes past N hold anything.", "Masks")
    repaired = Evidence("run", cases=("tail_1",), tree=ast.parse("tl.load(p, mask=m, other=0)"))
    found = diagnose(exercise(NO_OTHER, TAIL), repaired, Finding("wrong"))
    assert (found.probable, found.reread) == ("The tail is not masked.", "One row a program")


def test_what_only_the_source_tells_explains_no_exception_and_no_hang() -> None:
    tree = ast.parse("tl.load(p, mask=m)")
    for error in ("NameError: name 'q' is not defined", "check:timeout", "check:registers"):
        evidence = Evidence("run", error=error, tree=tree)
        found = diagnose(exercise(NO_OTHER), evidence, Finding("wrong", probable="A guess."))
        assert found.probable == "A guess."


def test_a_diagnosis_of_the_exercise_replaces_what_the_stage_guessed() -> None:
    evidence = Evidence("run", cases=("tail_1",))
    found = diagnose(exercise(TAIL), evidence, Finding("wrong", probable="A guess."))
    assert found.probable == "The tail is not masked."


def test_without_one_the_stages_own_guess_stays() -> None:
    evidence = Evidence("run", patterns=frozenset({"all_zero"}))
    found = diagnose(exercise(), evidence, Finding("wrong", probable="A guess."))
    assert (found.probable, found.reread) == ("A guess.", "One row a program")


@pytest.mark.parametrize(
    ("patterns", "beginning"),
    [
        ({"all_zero", "everything", "rows_do_not_sum_to_one"}, "Every element is zero"),
        ({"unwritten", "last_tile"}, "Some elements were never written"),
        ({"last_tile"}, "Only the end of the rows is wrong"),
        ({"everything", "row_factor", "rows_do_not_sum_to_one"}, "Each row is off by a factor"),
        ({"everything"}, "Nearly every element is wrong"),
    ],
)
def test_the_most_telling_pattern_is_explained(patterns: set[str], beginning: str) -> None:
    evidence = Evidence("run", patterns=frozenset(patterns))
    assert diagnose(exercise(), evidence, Finding("wrong")).probable.startswith(beginning)


def test_errors_are_explained_by_their_kind() -> None:
    assert "empty_like" not in usual_cause(Evidence("run", error="ValueError: x"))
    assert "timeout" not in usual_cause(Evidence("run", error="check:timeout"))
    assert usual_cause(Evidence("run", error="check:timeout")).startswith("Look for a loop")
    assert usual_cause(Evidence("codegen", error="rule:wide_loads")).startswith("The compiled code")


def test_every_pattern_that_is_found_is_explained() -> None:
    from checkers.grading import patterns

    named = set(patterns.__doc__.replace(",", " ").replace("(", " ").split())
    assert set(BY_PATTERN) - {"race"} <= named
    assert all(says.endswith(".") or says.endswith("?") for says in BY_PATTERN.values())


def test_nothing_known_is_nothing_said() -> None:
    assert usual_cause(Evidence("run")) == ""


ONE_OF = Diagnosis("one of b and c is wrong too", cases=frozenset("bc"))
D_IS_RIGHT = Diagnosis("a is wrong, d is right", cases=frozenset("a"), passing=frozenset("d"))
OF_RACES = Diagnosis("a race", patterns=frozenset({"race"}), cases=frozenset("e"))
ANY = Diagnosis("anything", stage="run")


@pytest.mark.parametrize(
    ("failing", "passed", "untried", "asked"),
    [
        ("a", "", "bcde", "bc"),
        ("a", "b", "cde", "c"),
        ("ab", "", "cde", ""),  # ONE_OF holds, whatever c brings
        ("a", "bc", "de", "d"),  # ONE_OF can't hold any more
        ("ad", "bc", "e", ""),  # D_IS_RIGHT neither: ANY holds
        ("a", "bcd", "e", ""),
        ("x", "bc", "e", ""),  # none of D_IS_RIGHT's cases is wrong
        ("a", "", "e", ""),  # b, c and d can't be tried here
    ],
)
def test_only_cases_are_asked_for_that_tell_causes_apart(failing, passed, untried, asked):
    asking = exercise(OF_RACES, ONE_OF, D_IS_RIGHT, ANY)
    evidence = Evidence("run", cases=tuple(failing), passed=tuple(passed), error="check:values")
    assert telling_cases(asking, evidence, frozenset(untried)) == frozenset(asked)


def test_the_cases_asked_for_decide_as_all_cases_would():
    """Every outcome of four more cases, tried one by one as asked, and all together."""
    asking = exercise(ONE_OF, D_IS_RIGHT, ANY)
    for outcome in itertools.product((True, False), repeat=4):
        right = dict(zip("bcde", outcome, strict=True))
        tried = dict[str, bool]()

        def evidence(known):
            wrong = ["a", *(name for name, ok in known.items() if not ok)]
            passed = tuple(name for name, ok in known.items() if ok)
            return Evidence("run", cases=tuple(wrong), passed=passed, error="check:values")

        while asked := telling_cases(asking, evidence(tried), frozenset(right) - set(tried)):
            name = min(asked)
            tried[name] = right[name]
        said = [diagnose(asking, evidence(known), Finding("x")) for known in (tried, right)]
        assert said[0].probable == said[1].probable
