"""What a lesson's directives and roles become, and what is said when one is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from checkers import rendering
from checkers.exercise import Case, Exercise, Floor, Rung, SpeedTarget
from checkers.lessons.directives import LessonError, expand, headline, needs
from tests.lessons_course import LESSON, write_course


def expanded(root: Path, lesson: str) -> str:
    course = write_course(root, lesson)
    return expand(course, course.chapters[0])


def problems(root: Path, old: str, new: str) -> list[str]:
    """The problems of the made-up lesson with ``old`` replaced."""
    assert LESSON.count(old) == 1
    with pytest.raises(LessonError) as caught:
        expanded(root, LESSON.replace(old, new))
    return caught.value.problems


def line_of(text: str, lesson: str = LESSON) -> int:
    return lesson[: lesson.index(text)].count("\n") + 1


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of measurements in place of docs/data, with one bench file."""
    folder = tmp_path / "data"
    folder.mkdir()
    rows = [
        {"implementation": name, "case": {"N": 256}, "unit": "GB/s", "median": median}
        for name, median in (("eager", 1000.0), ("solution", 2345.6))
    ]
    machine = {"gpu": "Some GPU", "driver": "1.2", "date": "2026-01-02"}
    bench = {"schema": 1, "machine": machine, "rows": rows}
    (folder / "bench_x.json").write_text(json.dumps(bench))
    monkeypatch.setattr(rendering, "REPOSITORY", rendering.DataFolder(folder))
    return folder


def test_an_exercise_becomes_its_headline_and_its_skeleton(tmp_path):
    text = expanded(tmp_path, LESSON)
    assert (
        "+++\n\n**Exercise ch90.plus_one** · Make plus_one · 5 points · 3 minutes · needs: nothing"
        in text
    )
    assert (
        "```{code-cell}\n%%exercise ch90.plus_one\ndef plus_one(a: int) -> int:\n"
        "    # YOUR CODE HERE: add one (1 line)\n"
        '    raise NotImplementedError("add one (1 line)")\n```' in text
    )
    assert "return a + 1" not in text


def test_setup_loads_the_magics_and_holds_the_solutions_setup(tmp_path):
    assert "```{code-cell}\n%load_ext checkers.lessons\n\nimport math\n```" in expanded(
        tmp_path, LESSON
    )


def test_code_that_looks_like_a_role_or_directive_is_left_alone(tmp_path):
    text = expanded(tmp_path, LESSON)
    assert "{unknown}`x` stays, it is code" in text
    assert "`` {measured}`x` ``" in text


def test_roles_are_rendered_from_the_data(tmp_path, data):
    sentence = (
        "Done at {measured}`bench_x implementation=solution N=256 : median` GB/s,\n"
        "{measured-ratio}`bench_x implementation=solution : median /\n"
        "implementation=eager : median` times eager ({provenance}`bench_x`)."
    )
    text = expanded(tmp_path, LESSON.replace("Done.", sentence))
    assert "Done at 2350 GB/s,\n2.35 times eager (Some GPU, driver 1.2, 2026-01-02)." in text


def test_a_bench_table_takes_its_options(tmp_path, data):
    table = "```{bench-table} bench_x\n:implementations: solution\n:cases: N=256\n```"
    text = expanded(tmp_path, LESSON.replace("Done.", table))
    assert "| N | solution |\n|---|---|\n| 256 | 2350 |" in text


@pytest.mark.parametrize(
    ("old", "new", "at", "said"),
    [
        ("ch90.plus_two\n", "ch90.plus_too\n", "{exercise} ch90.plus_two", "did you mean ch90.plus_two"),
        ("{setup}", "{steup}", "{setup}", "unknown directive {steup}; there are: setup, exercise"),
        ("Done.", "{measure}`x`", "Done.", "unknown role {measure}; there are: measured"),
        ("Done.", "{measured}`x`", "Done.", "want 'FILE key=value ... : field'"),
        ("Done.", "![a](pictures/a.svg)", "Done.", "pictures/a.svg does not exist"),
        ("Done.", "[x](#nowhere)", "Done.", "#nowhere: no heading of this lesson"),
        ("Done.", "```{exercise} ch90.plus_one\n```", "Done.", "ch90.plus_one stands in line"),
        ("Done.", "* x\n\n  ```{setup}\n  ```", "Done.", "stands in a list"),
        ("Done.", "```{setup}", "Done.", "{setup} is never closed; end it with ```"),
        ("Done.", "```{setup}\n```", "Done.", "{setup} was given in line"),
        ("Done.", "```{bench-table}\n:case: N=1\n```", "Done.", "{bench-table} wants a file's stem"),
        ('print("ordinary")', "%%exercise ch90.plus_one", "{code-cell}", "use {exercise} ID"),
    ],
)  # fmt: skip
def test_a_problem_is_named_with_its_line(tmp_path, old, new, at, said):
    found = problems(tmp_path, old, new)
    wanted = [text for text in found if said in text]
    assert len(wanted) == 1, found
    # The one problem inside a list begins two lines below the item.
    line = line_of(at) + (2 if new.startswith("*") else 0)
    assert wanted[0].startswith(f"chapters/ch90_adding/lesson.md:{line}: ")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("```{exercise} ch90.plus_two\n```\n", "", "the lesson never names ch90.plus_two"),
        ("```{setup}\n```\n", "", "{exercise} ch90.plus_one stands before {setup}"),
        ("## How to add", "## How to sum", "no heading 'How to add', which ch90.plus_one sends"),
        ("# Adding\n", "", "a lesson begins with its title"),
    ],
)
def test_what_is_missing_is_said(tmp_path, old, new, said):
    assert any(said in text for text in problems(tmp_path, old, new))


def test_a_link_to_a_heading_is_written_as_jupyter_names_it(tmp_path):
    lesson = LESSON.replace("Done.", "[a](#how-to-add) [b](#How-to-add) [c](#add-fx-and-go)")
    lesson = lesson.replace("## The end", "## Add `f(x)` and go")
    text = expanded(tmp_path, lesson)
    assert "[a](#How-to-add) [b](#How-to-add) [c](#Add-f%28x%29-and-go)" in text


def test_all_problems_are_told_at_once(tmp_path):
    with pytest.raises(LessonError) as caught:
        expanded(tmp_path, LESSON.replace("{setup}", "{a}").replace("Done.", "{b}`x`"))
    assert sum("unknown" in text for text in caught.value.problems) == 2
    assert str(caught.value).count("\n") == len(caught.value.problems) - 1


def exercise(rung: Rung, cases: tuple[Case, ...], timed: bool) -> Exercise:
    speed = (SpeedTarget(cases[0], lambda arguments: 1),) if timed else ()
    return Exercise(
        id="ch90.x", title="T", points=1, minutes=2, rung=rung, function="f", section="s",
        cases=cases, inputs=lambda case, generator: (), oracle=lambda: 0,
        hints=("a", "b", "c"), mistakes=(), speed=speed,
    )  # fmt: skip


def test_what_an_exercise_needs_is_said_in_words():
    small, big = Case("small"), Case("big", needs_gpu=True)
    assert needs(exercise(Rung.PYTHON, (small,), False)) == "nothing"
    assert needs(exercise(Rung.TRITON, (small, big), True)) == "a GPU for the speed points"
    timed = exercise(Rung.CUTE, (small,), True)
    assert needs(timed) == "a GPU for the speed points"
    counted = replace(timed, floors=(Floor(small, lambda arguments: 1),))
    assert needs(counted) == "nothing (a GPU times it)"
    assert needs(exercise(Rung.TRITON, (big,), True)) == "a GPU"
    assert "· 1 point ·" in headline(exercise(Rung.PYTHON, (small,), False))
