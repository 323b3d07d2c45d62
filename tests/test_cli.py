"""The ``ladder`` command on a made-up course, its grader replaced by one that needs no processes.

What the real grader says is tested in test_grader.py, and through the command in
test_cli_real.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import nbformat
import pytest
from rich.console import Console

from checkers import answers
from checkers.answers import Answer
from checkers.course import Course
from checkers.exercise import Exercise, Finding, Report, Stage, Verdict
from checkers.grading.grader import DeviceError
from checkers.lessons.build import build
from checkers.progress import Progress
from checkers.session import Session
from tests.lessons_course import write_course

ONE, TWO = "ch90.plus_one", "ch90.plus_two"


class QuickGrader:
    """Grades the made-up course in this process, by calling the answer with 2."""

    interrupt_at = ""
    simulated = True  # what the last call was told

    def __init__(self, course: Course) -> None:
        self.course = course

    def __enter__(self) -> QuickGrader:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def grade(
        self,
        exercise: Exercise,
        answer: Answer,
        device="auto",
        seed=None,
        on_stage=None,
        simulate=True,
    ):
        QuickGrader.simulated = simulate
        if exercise.id == self.interrupt_at:
            raise KeyboardInterrupt
        if device == "cuda":
            raise DeviceError("there is no GPU: leave --device out.")
        seed = 7 if seed is None else seed
        if "raise NotImplementedError" in answer.source:
            stages = (Stage("source", Verdict.NOT_ATTEMPTED),)
            return Report(exercise.id, Verdict.NOT_ATTEMPTED, 0, 5, seed, stages)
        names: dict = {}
        exec(answer.setup + answer.source, names)
        got, expected = names[exercise.function](2), exercise.oracle(2)
        if got == expected:
            stage = Stage("run", Verdict.PASS, "right on 1 case", 0.2)
            stages = (Stage("source", Verdict.PASS), stage, Stage("speed", Verdict.SKIP, "no GPU"))
            return Report(exercise.id, Verdict.PASS, 4, 5, seed, stages, 1)
        finding = Finding("wrong on 1 of 1 cases", element=f"[0]: got {got}, expected {expected}")
        stage = Stage("run", Verdict.FAIL, "wrong", finding=finding)
        if on_stage:
            on_stage(stage)
        return Report(exercise.id, Verdict.FAIL, 0, 5, seed, (stage,))


@pytest.fixture
def course(tmp_path: Path, in_course: Callable, monkeypatch: pytest.MonkeyPatch) -> Course:
    """The made-up course with its notebook built, and a grader that takes no time."""
    made = write_course(tmp_path)
    build(made, say=lambda text: None)
    in_course(tmp_path)
    monkeypatch.setattr("checkers.grading.grader.Grader", QuickGrader)
    monkeypatch.setattr(QuickGrader, "interrupt_at", "")
    return made


def write_answer(course: Course, exercise_id: str, expression: str) -> None:
    """Fill the exercise's blank in the notebook, as a learner does."""
    path = course.chapter(exercise_id).notebook
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.source.startswith(f"%%exercise {exercise_id}\n"):
            head = "\n".join(cell.source.splitlines()[:2])  # the magic and the def
            cell.source = f"{head}\n    return {expression}"
    nbformat.write(notebook, path)


# ---- list


def test_list_as_json_has_exactly_the_documented_form(course, ladder):
    outcome = ladder("list", "--json", "-")
    assert outcome.status == 0
    assert json.loads(outcome.out) == {
        "schema": 1,
        "exercises": [
            {
                "id": f"ch90.{name}",
                "title": f"Make {name}",
                "points": 5,
                "minutes": 3,
                "needs": "nothing",
                "status": "not_attempted",
            }
            for name in ("plus_one", "plus_two")
        ],
    }


def test_list_shows_progress_and_what_comes_next(course, ladder):
    write_answer(course, ONE, "a + 1")
    ladder("check", ONE)
    outcome = ladder("list")
    assert "✓ ch90.plus_one" in outcome.out
    assert "4/5" in outcome.out
    assert "Next: ch90.plus_two" in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 80


# ---- check


def test_a_fresh_course_is_not_attempted_and_exits_1(course, ladder, tmp_path):
    outcome = ladder("check", "--json", str(tmp_path / "out.json"))
    assert outcome.status == 1
    written = json.loads((tmp_path / "out.json").read_text())
    assert [item["verdict"] for item in written["exercises"]] == ["not_attempted"] * 2
    assert Progress(course.root).entries() == {}


def test_check_as_json_has_exactly_the_documented_form(course, ladder):
    write_answer(course, ONE, "a + 1")
    outcome = ladder("check", ONE, "--json", "-")
    written = json.loads(outcome.out)
    assert set(written) == {"schema", "machine", "exercises"}
    assert written["schema"] == 1
    assert {"gpu", "driver", "torch", "triton", "cutlass_dsl", "date"} <= set(written["machine"])
    assert written["exercises"] == [
        {
            "id": ONE,
            "verdict": "pass",
            "points": 4,
            "max_points": 5,
            "seed": 7,
            "stages": [
                {
                    "name": name,
                    "verdict": verdict,
                    "reason": reason,
                    "seconds": seconds,
                    "measures": {},
                }
                for name, verdict, reason, seconds in (
                    ("source", "pass", "", 0.0),
                    ("run", "pass", "right on 1 case", 0.2),
                    ("speed", "skip", "no GPU", 0.0),
                )
            ],
        }
    ]


def test_reports_go_to_standard_error_when_the_json_is_on_standard_output(course, ladder):
    write_answer(course, ONE, "a")
    outcome = ladder("check", ONE, "--json", "-")
    json.loads(outcome.out)
    assert "wrong on 1 of 1 cases" in outcome.err


def test_references_pass_and_are_not_the_learners_progress(course, ladder):
    outcome = ladder("check", "--solution")
    assert outcome.status == 0
    assert "2 passed, 8 of 10 points, 2 open" in outcome.out
    assert "open  speed: no GPU (2 exercises)" in outcome.out
    assert Progress(course.root).entries() == {}


def test_a_wrong_answer_exits_1_says_why_and_how_to_replay_it(course, ladder):
    write_answer(course, ONE, "a")
    outcome = ladder("check", ONE)
    assert outcome.status == 1
    assert "[0]: got 2, expected 3" in outcome.out
    assert "ladder check ch90.plus_one --seed 7" in outcome.out
    assert "How to add" in outcome.out


def test_a_graded_answer_is_kept_with_its_report(course, ladder):
    for expression in ("a", "a + 1"):
        write_answer(course, ONE, expression)
        ladder("check", ONE)
    progress = Progress(course.root)
    assert progress.entry(ONE).status == "pass"
    kept = [answer.source.rstrip()[-5:] for answer in progress.answers(ONE)]
    assert kept == ["urn a", "a + 1"]


def test_an_interrupted_run_keeps_what_was_graded_before(course, ladder, monkeypatch, tmp_path):
    write_answer(course, ONE, "a + 1")
    monkeypatch.setattr(QuickGrader, "interrupt_at", TWO)
    outcome = ladder("check", "--json", str(tmp_path / "out.json"))
    assert outcome.status == 130
    assert "interrupted" in outcome.err
    assert Progress(course.root).status(ONE) == "pass"
    written = json.loads((tmp_path / "out.json").read_text())
    assert [item["id"] for item in written["exercises"]] == [ONE]


def test_the_seed_reaches_the_grader(course, ladder):
    outcome = ladder("check", ONE, "--solution", "--seed", "99", "--json", "-")
    assert json.loads(outcome.out)["exercises"][0]["seed"] == 99


def test_the_simulator_is_left_out_on_request_and_the_replay_says_so(course, ladder):
    write_answer(course, ONE, "a")
    outcome = ladder("check", ONE, "--no-simulator")
    assert not QuickGrader.simulated
    assert f"ladder check {ONE} --no-simulator --seed 7" in " ".join(outcome.out.split())
    assert "--no-simulator" not in ladder("check", ONE).out
    assert QuickGrader.simulated


def test_a_file_is_graded_in_place_of_the_notebook(course, ladder, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("def plus_one(a):\n    return a + 1\n")
    assert ladder("check", ONE, "--file", str(mine)).status == 0
    assert Progress(course.root).status(ONE) == "pass"


def test_a_missing_cell_is_named_and_the_others_are_graded(course, ladder):
    write_answer(course, TWO, "a + 2")
    path = course.chapter("ch90").notebook
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if ONE not in cell.source]
    nbformat.write(notebook, path)
    outcome = ladder("check")
    assert outcome.status == 2
    assert f"ladder reset {ONE}" in " ".join(outcome.err.split())
    assert Progress(course.root).status(TWO) == "pass"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["check", "ch9"], "did you mean ch90?"),
        (["check", "ch90.plus_on"], "did you mean ch90.plus_one"),
        (["check", ONE, "--file", "nowhere.py"], "nowhere.py can't be read"),
        (["check", "--file", "mine.py"], "name the exercise"),
        (["check", ONE, "--file", "mine.py", "--solution"], "leave one of them out"),
        (["check", ONE, "--solution", "--device", "cuda"], "there is no GPU"),
        (["check", ONE, "--device", "simulator", "--no-simulator"], "nothing to run on"),
        (["watch", ONE, "--device", "simulator", "--no-simulator"], "nothing to run on"),
        (["check", ONE, "--device", "tpu"], "'auto', 'cuda', 'simulator'"),
        (["check", ONE, "--solution", "--json", "/dev/null/x.json"], "can't be written"),
        (["hint", "ch90"], "name one exercise of ch90: ch90.plus_one"),
        (["hint", "ch90.nothing"], "there is no exercise"),
        (["solution", ONE], "--give-up"),
        (["nonsense"], "No such command"),
        (["bench", "ch90"], "ch90 has no speed table"),
        (["bench", "ch90", "--from", "nowhere.json"], "not what `ladder bench --json` writes"),
    ],
)
def test_what_could_not_run_exits_2_and_says_what_to_do(course, ladder, arguments, said):
    outcome = ladder(*arguments)
    assert outcome.status == 2
    assert said in " ".join(outcome.err.replace("│", " ").split())
    assert "Traceback" not in outcome.err


def test_outside_of_a_course_the_command_says_where_to_go(ladder, in_course, tmp_path):
    in_course(tmp_path)
    outcome = ladder("list")
    assert outcome.status == 2
    assert "is not a course" in outcome.err


# ---- hint, solution, reset, watch, build


def test_hints_come_one_at_a_time(course, ladder):
    first, second = ladder("hint", ONE), ladder("hint", ONE)
    assert "Hint 1 of 3" in first.out
    assert "Hint 2 of 3" not in first.out
    assert "Hint 2 of 3\nadd" in second.out
    assert "--give-up" in ladder("hint", ONE).out


def test_the_solution_is_shown_after_a_pass_or_to_whoever_gives_up(course, ladder):
    assert "return a + 1" in ladder("solution", ONE, "--give-up").out
    write_answer(course, TWO, "2 + a")
    ladder("check", TWO)
    shown = ladder("solution", TWO)
    assert shown.status == 0
    assert "return a + 2" in shown.out
    assert "SOLUTION" not in shown.out


def test_reset_keeps_what_was_written_and_says_where(course, ladder):
    before = course.chapter("ch90").notebook.read_text()
    write_answer(course, ONE, "a + 17")
    outcome = ladder("reset", ONE)
    (kept,) = Progress(course.root).answers(ONE)
    assert "return a + 17" in kept.source
    assert str(kept.path.relative_to(course.root)) in outcome.out
    assert course.chapter("ch90").notebook.read_text() == before


def test_reset_puts_a_deleted_cell_back_and_leaves_the_rest(course, ladder):
    write_answer(course, TWO, "a + 2")
    path = course.chapter("ch90").notebook
    notebook = nbformat.read(path, as_version=4)
    notebook.cells = [cell for cell in notebook.cells if ONE not in cell.source]
    nbformat.write(notebook, path)
    assert "put back" in ladder("reset", ONE).out
    assert "NotImplementedError" in answers.from_notebook(course, ONE).source
    assert "return a + 2" in answers.from_notebook(course, TWO).source


def test_watch_grades_an_answer_each_time_it_changes(course):
    def saves() -> Iterable[None]:
        write_answer(course, ONE, "a")
        yield
        yield  # a save that changed nothing
        write_answer(course, ONE, "a + 1")
        yield
        raise KeyboardInterrupt

    console = Console(file=open("/dev/null", "w"))
    session = Session(course, QuickGrader(course), console, console)
    session.watch(course.exercises, saves())
    assert [(report.id, report.verdict.value) for report in session.reports] == [
        (ONE, "fail"),
        (ONE, "pass"),
    ]


def test_build_check_names_what_is_stale(course, ladder):
    assert ladder("build", "--check").status == 0
    lesson = course.chapter("ch90").lesson
    lesson.write_text(lesson.read_text().replace("Then again.", "And again."))
    stale = ladder("build", "--check")
    assert (stale.status, stale.out) == (1, "stale: chapters/ch90_adding/lesson.ipynb\n")
    assert ladder("build").status == 0
    assert ladder("build", "--check").status == 0


# ---- a broken installation


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # what a failed installation looks like
from checkers.cli import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--help"], 0, "doctor"),
        (["check", "--help"], 0, "--solution"),
        (["list"], 2, "`ladder doctor` says what to install"),
    ],
)
def test_without_pytorch_the_command_still_starts(arguments, status, said):
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *arguments], capture_output=True, text=True
    )
    assert process.returncode == status
    assert said in process.stdout + process.stderr
    assert "Traceback" not in process.stderr
