"""The notebook's magics, with a grader that is told what to answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from checkers.answers import Answer, skeleton_of
from checkers.course import Course
from checkers.exercise import Exercise, Report, Stage, Verdict
from checkers.grading.grader import DeviceError
from checkers.lessons import magic
from checkers.progress import Progress
from tests.lessons_course import write_course


@dataclass
class FakeGrader:
    """Stands in for the grader: remembers what it was asked, answers as it was told."""

    course: Course
    answers: list[tuple[str, Answer, str, int | None]] = field(default_factory=list)
    raises: BaseException | None = None
    closed: int = 0
    simulated: bool = True  # what the last call was told

    def grade(
        self,
        exercise: Exercise,
        answer: Answer,
        device: str = "auto",
        seed: int | None = None,
        on_stage: Callable[[Stage], None] | None = None,
        simulate: bool = True,
    ) -> Report:
        self.simulated = simulate
        self.answers.append((exercise.id, answer, device, seed))
        if self.raises is not None:
            raise self.raises
        stage = Stage("run", Verdict.PASS, "right", 0.2)
        assert on_stage is not None
        on_stage(stage)
        return Report(exercise.id, Verdict.PASS, 5, 5, seed or 11, (stage,))

    def close(self) -> None:
        self.closed += 1


@dataclass
class Notebook:
    """A shell in the made-up course's folder."""

    shell: InteractiveShell
    course: Course
    grader: FakeGrader

    def run(self, text: str) -> Any:
        return self.shell.run_cell(text)

    @property
    def shown(self) -> dict[str, Any]:
        """What stands under the cell in the end."""
        return self.shell.display_pub.outputs[-1]

    @property
    def html(self) -> str:
        return self.shown["data"]["text/html"]


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    course = write_course(tmp_path)
    monkeypatch.chdir(course.chapters[0].solution.parent)
    monkeypatch.delenv(magic.SOLVE, raising=False)
    grader = FakeGrader(course)
    monkeypatch.setattr(magic, "Grader", lambda course: grader)
    monkeypatch.setattr(magic, "WARM", magic.WarmGrader())
    InteractiveShell.clear_instance()
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    shell.display_pub = CapturingDisplayPublisher()
    shell.run_cell("%load_ext checkers.lessons")
    yield Notebook(shell, course, grader)
    magic.WARM.close()
    InteractiveShell.clear_instance()


def test_a_cell_is_defined_kept_graded_and_shown(notebook):
    notebook.run("%%exercise ch90.plus_one\ndef plus_one(a):\n    return a + 1\n")
    assert notebook.shell.user_ns["plus_one"](1) == 2
    ((name, answer, device, seed),) = notebook.grader.answers
    assert (name, device, seed) == ("ch90.plus_one", "auto", None)
    assert answer.source == "def plus_one(a):\n    return a + 1\n"
    assert answer.setup == "import math\n"
    progress = Progress(notebook.course.root)
    assert [kept.source for kept in progress.answers(name)] == [answer.source]
    assert progress.entry(name).best.points == 5
    assert "passed" in notebook.html and "5 of 5 points" in notebook.html
    assert notebook.shown["metadata"]["ladder"]["verdict"] == "pass"
    assert "ch90.plus_one" in notebook.shown["data"]["text/plain"]


def test_an_untouched_skeleton_is_not_kept(notebook):
    notebook.run(f"%%exercise ch90.plus_one\n{skeleton_of(notebook.course, 'ch90.plus_one')}")
    assert len(notebook.grader.answers) == 1
    assert Progress(notebook.course.root).answers("ch90.plus_one") == []


def test_stages_appear_while_grading_goes_on(notebook):
    notebook.run("%%exercise ch90.plus_one\npass")
    texts = [shown["data"]["text/html"] for shown in notebook.shell.display_pub.outputs]
    assert "starting the grader" in texts[0]
    assert "right" in texts[1] and "grading …" in texts[1]
    assert [shown["update"] for shown in notebook.shell.display_pub.outputs] == [False, True, True]


def test_options_reach_the_grader(notebook):
    notebook.run("%%exercise ch90.plus_one --device simulator --seed 42\npass")
    assert notebook.grader.answers[0][2:] == ("simulator", 42)
    assert notebook.grader.simulated
    notebook.run("%%exercise ch90.plus_one --no-simulator\npass")
    assert not notebook.grader.simulated


def test_an_exception_in_the_cell_is_shown_and_the_cell_is_graded(notebook, capsys):
    result = notebook.run("%%exercise ch90.plus_one\n1 / 0")
    assert result.success
    assert "ZeroDivisionError" in capsys.readouterr().out
    assert len(notebook.grader.answers) == 1


def test_a_blank_outside_of_a_function_shows_no_traceback(notebook, capsys):
    notebook.run("%%exercise ch90.plus_one\nraise NotImplementedError('add')")
    assert "NotImplementedError" not in capsys.readouterr().out
    assert len(notebook.grader.answers) == 1
    notebook.run("raise NotImplementedError('elsewhere')")
    assert "NotImplementedError" in capsys.readouterr().out


def test_with_ladder_solve_the_reference_is_run_and_nothing_is_kept(notebook, monkeypatch):
    monkeypatch.setenv(magic.SOLVE, "1")
    notebook.run("%%exercise ch90.plus_one\nraise NotImplementedError('add')")
    assert notebook.shell.user_ns["plus_one"](1) == 2
    assert notebook.grader.answers[0][1].origin == "the reference solution"
    assert "Graded: the reference solution." in notebook.html
    progress = Progress(notebook.course.root)
    assert progress.answers("ch90.plus_one") == []
    assert progress.entry("ch90.plus_one").best is None


def test_a_grader_that_breaks_costs_one_sentence(notebook):
    notebook.grader.raises = RuntimeError("Traceback\n  pipe broke <b>\n")
    result = notebook.run("%%exercise ch90.plus_one\nx = 1")
    assert result.success
    text = notebook.shown["data"]["text/plain"]
    assert text.startswith(
        "grader failed: ch90.plus_one could not be graded (RuntimeError: pipe broke <b>)."
    )
    assert "&lt;b&gt;" in notebook.html and "<b>)" not in notebook.html
    assert "ladder" not in notebook.shown["metadata"]
    assert notebook.grader.closed == 1
    notebook.grader.raises = None
    notebook.run("%%exercise ch90.plus_one\nx = 1")
    assert notebook.shown["metadata"]["ladder"]["verdict"] == "pass"


def test_a_device_that_is_not_there_is_said_as_it_is(notebook):
    notebook.grader.raises = DeviceError("PyTorch sees no CUDA GPU here.")
    notebook.run("%%exercise ch90.plus_one --device cuda\nx = 1")
    assert notebook.shown["data"]["text/plain"] == (
        "no such device: PyTorch sees no CUDA GPU here."
    )


def test_stopping_a_check_records_nothing(notebook):
    notebook.grader.raises = KeyboardInterrupt()
    notebook.run("%%exercise ch90.plus_one\nx = 1")
    assert "You stopped the grading" in notebook.html
    assert notebook.grader.closed == 1
    assert Progress(notebook.course.root).entry("ch90.plus_one").best is None


def test_an_unknown_exercise_is_one_line(notebook, capsys):
    notebook.run("%%exercise ch90.plus_onne\nx = 1")
    said = capsys.readouterr()
    assert "no exercise called 'ch90.plus_onne'; did you mean ch90.plus_one" in said.err
    assert "Traceback" not in said.out + said.err
    assert notebook.grader.answers == []


def test_hints_come_one_at_a_time(notebook):
    notebook.run("%%exercise ch90.plus_one\nx = 1")
    notebook.run("%hint")
    assert notebook.shown["data"]["text/plain"] == "Hint 1: ?"
    notebook.run("%hint ch90.plus_one")
    assert notebook.shown["data"]["text/plain"] == "Hint 1: ?\nHint 2: add"
    assert "hint 2 of 3" in notebook.html


def test_hint_without_an_exercise_asks_which(notebook, capsys):
    notebook.run("%hint")
    said = capsys.readouterr()
    assert "Which exercise?" in said.out + said.err


def test_progress_sums_the_points(notebook):
    notebook.run("%%exercise ch90.plus_one\nx = 1")
    notebook.run("%progress")
    assert "5 of 10 points" in notebook.html
    assert notebook.html.count("not attempted") == 1


def test_one_grader_is_kept_warm(notebook, monkeypatch):
    made = []
    monkeypatch.setattr(magic, "Grader", lambda course: made.append(1) or notebook.grader)
    notebook.run("%%exercise ch90.plus_one\nx = 1")
    notebook.run("%%exercise ch90.plus_two\nx = 1")
    assert len(made) == 1 and notebook.grader.closed == 0
