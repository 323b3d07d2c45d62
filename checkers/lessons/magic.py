"""The notebook's magics, after ``%load_ext checkers.lessons``.

    %%exercise ID [--device auto|cuda|simulator] [--no-simulator] [--seed N]
                    run the cell, keep it, grade it
    %hint [ID]      the exercise's next hint
    %progress       points so far

With LADDER_SOLVE=1 in the environment the reference solution takes the place of what stands in a
``%%exercise`` cell, and nothing is kept: so the course runs its own notebooks, solved.
"""

from __future__ import annotations

import atexit
import io
import os
import traceback
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display
from rich.console import Console

from checkers.answers import Answer, AnswerError, from_cell, from_solution, skeleton_of
from checkers.course import Course, CourseError
from checkers.exercise import Exercise, Report, Stage, Verdict
from checkers.grading.grader import DEVICES, DeviceError, Grader
from checkers.lessons.report_html import (
    hint_html,
    progress_html,
    report_html,
    running_html,
    sentence_html,
)
from checkers.progress import Progress
from checkers.report_text import render

SOLVE = "LADDER_SOLVE"
TEXT_WIDTH = 88


class WarmGrader:
    """The kernel's one grader: started by the first exercise, closed with the kernel."""

    def __init__(self) -> None:
        self._grader: Grader | None = None

    def of(self, course: Course) -> Grader:
        """The grader of ``course``; a notebook hardly ever grades two courses in turn."""
        if self._grader is not None and self._grader.course.root != course.root:
            self.close()
        if self._grader is None:
            self._grader = Grader(course)
            atexit.register(self.close)
        return self._grader

    def close(self) -> None:
        """Ends the child processes; the next exercise starts new ones."""
        if self._grader is not None:
            grader, self._grader = self._grader, None
            atexit.unregister(self.close)
            grader.close()


WARM = WarmGrader()


@magics_class
class LadderMagics(Magics):
    """The magics of one notebook."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self.last: str | None = None  # the exercise graded last, which %hint is about

    @magic_arguments()
    @argument("id", help="the exercise, such as ch02.row_softmax")
    @argument("--device", default="auto", choices=list(DEVICES))
    @argument("--no-simulator", action="store_true", help="with a GPU: don't simulate first")
    @argument("--seed", type=int, default=None, help="a report's seed: the same inputs again")
    @cell_magic
    def exercise(self, line: str, cell: str) -> None:
        """Runs the cell in the notebook, keeps its source, and grades it in a child process."""
        options = parse_argstring(self.exercise, line)
        course, exercise = _find(options.id)
        self.last = exercise.id
        solve = os.environ.get(SOLVE, "") not in ("", "0")
        answer = _answer(course, exercise, cell, solve)
        untouched = answer.source.strip() == skeleton_of(course, exercise.id).strip()
        if not solve and not untouched:
            Progress(course.root).save_answer(exercise.id, answer.source)
        self._run(answer.source)
        panel = _Panel(exercise.id)
        try:
            report = WARM.of(course).grade(
                exercise,
                answer,
                device=options.device,
                seed=options.seed,
                on_stage=panel.on_stage,
                simulate=not options.no_simulator,
            )
        except KeyboardInterrupt:
            WARM.close()
            panel.sentence(
                "stopped", f"You stopped the grading of {exercise.id}; nothing was recorded."
            )
        except DeviceError as error:
            panel.sentence("no such device", str(error))
        except Exception as error:
            # The grader's own fault, or this machine's: a learner can't do anything about a
            # traceback through it, and the cell's source is safe.
            WARM.close()
            panel.sentence(
                "grader failed",
                f"{exercise.id} could not be graded ({_one_line(error)}). This is no fault of "
                "your code, which is kept. Run the cell again; if it stays so, "
                "`ladder doctor` in a terminal says what is missing.",
                traceback.format_exc(),
            )
        else:
            panel.report(report, answer.origin if solve else "")
            if not solve:
                Progress(course.root).record(report)

    def _run(self, source: str) -> None:
        """Defines the cell's names in the notebook. An exception is shown as IPython does, except
        that of a blank not yet filled: the report says it better."""
        shell = self.shell
        before = shell.custom_exceptions, shell.CustomTB
        shell.set_custom_exc((NotImplementedError,), lambda *_, **__: None)
        try:
            shell.run_cell(source)
        finally:
            shell.custom_exceptions, shell.CustomTB = before

    @line_magic
    def hint(self, line: str) -> None:
        """``%hint [ID]``: the next of the exercise's three hints, after those seen already."""
        name = line.strip() or self.last
        if name is None:
            raise UsageError("Which exercise? `%hint ch02.row_softmax`, say.")
        course, exercise = _find(name)
        index = Progress(course.root).show_next_hint(exercise.id, len(exercise.hints))
        shown = exercise.hints[: index + 1]
        text = "\n".join(f"Hint {n}: {hint}" for n, hint in enumerate(shown, 1))
        _show(text, hint_html(exercise.id, shown, len(exercise.hints)))

    @line_magic
    def progress(self, line: str) -> None:
        """``%progress``: every exercise's best outcome so far."""
        course = _course()
        entries = Progress(course.root).entries()
        rows = []
        for exercise in course.exercises:
            best = entries[exercise.id].best if exercise.id in entries else None
            verdict = Verdict(best.verdict) if best else Verdict.NOT_ATTEMPTED
            rows.append((exercise, verdict, best.points if best else 0))
        text = "\n".join(
            f"{exercise.id:32} {verdict.value:14} {points:3} of {exercise.points}"
            for exercise, verdict, points in rows
        )
        _show(text, progress_html(rows))


class _Panel:
    """The one place under a cell where the report grows while grading goes on."""

    def __init__(self, exercise_id: str) -> None:
        self.exercise_id = exercise_id
        self.stages: list[Stage] = []
        text, html = self._running()
        self.handle = display(_bundle(text, html), raw=True, display_id=True)

    def _running(self) -> tuple[str, str]:
        now = "grading" if self.stages else "starting the grader"
        return f"{self.exercise_id}: {now} …", running_html(self.exercise_id, self.stages, now)

    def on_stage(self, stage: Stage) -> None:
        self.stages.append(stage)
        self.update(*self._running())

    def report(self, report: Report, origin: str) -> None:
        # The metadata is for programs: tests, and whoever collects notebooks.
        self.update(report_text(report), report_html(report, origin), {"ladder": report.to_json()})

    def sentence(self, title: str, text: str, details: str = "") -> None:
        self.update(f"{title}: {text}", sentence_html(title, text, Verdict.UNDECIDED, details))

    def update(self, text: str, html: str, metadata: dict[str, Any] | None = None) -> None:
        if self.handle is None:  # no front end is attached
            return
        self.handle.update(_bundle(text, html), raw=True, metadata=metadata or {})


def report_text(report: Report) -> str:
    """The report for a front end without HTML."""
    # In a notebook rich would otherwise display the text instead of writing it to the file.
    console = Console(file=io.StringIO(), width=TEXT_WIDTH, color_system=None, force_jupyter=False)
    console.print(render(report, replay=f"%%exercise {report.id} --seed {report.seed}"))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.splitlines())


def _bundle(text: str, html: str) -> dict[str, str]:
    return {"text/plain": text, "text/html": html}


def _show(text: str, html: str) -> None:
    display(_bundle(text, html), raw=True)


def _course() -> Course:
    """The course that the notebook lies in. Raises UsageError, one line for the learner."""
    try:
        return Course.find(Path.cwd())
    except CourseError as error:
        raise UsageError(str(error)) from None


def _find(name: str) -> tuple[Course, Exercise]:
    course = _course()
    try:
        return course, course.exercise(name)
    except CourseError as error:
        raise UsageError(str(error)) from None


def _answer(course: Course, exercise: Exercise, cell: str, solve: bool) -> Answer:
    try:
        if solve:
            return from_solution(course, exercise.id)
        return from_cell(course, exercise.id, cell)
    except AnswerError as error:
        raise UsageError(str(error)) from None


def _one_line(error: Exception) -> str:
    """The type and the last line, where a traceback within the text says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[-1] if lines else ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
