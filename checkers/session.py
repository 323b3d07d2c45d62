"""Grades a list of exercises for someone who is waiting: reads answers, shows and keeps reports."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from checkers import answers
from checkers.answers import Answer, AnswerError
from checkers.course import Course
from checkers.progress import Progress
from checkers.report_text import WORDS, Place, render, render_line

if TYPE_CHECKING:  # these import torch
    from checkers.exercise import Exercise, Report, Stage
    from checkers.grading.grader import Grader


@dataclass
class Session:
    """One run of ``ladder check`` or ``ladder watch``.

    out: where reports go.  status: where it says what is being done, standard error.
    file: grade this file instead of the notebooks' cells.  solution: grade the reference solutions;
    then nothing is remembered, they are not the learner's.  simulate: on a GPU, CuTe DSL answers are
    simulated first.
    """

    course: Course
    grader: Grader
    out: Console
    status: Console
    file: Path | None = None
    solution: bool = False
    device: str = "auto"
    seed: int | None = None
    simulate: bool = True
    reports: list[Report] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.progress = Progress(self.course.root)

    def check(self, exercises: Sequence[Exercise]) -> bool:
        """Grade each exercise, show its report and remember it before the next one is begun.

        An answer that can't be read is named and the others are graded. Returns whether Ctrl-C
        ended it early.
        """
        brief = len(exercises) > 1
        for number, exercise in enumerate(exercises, 1):
            try:
                answer = self.answer(exercise.id)
            except AnswerError as error:
                self.unreadable.append(exercise.id)
                self.status.print(f"{exercise.id}: {error}", style="red", markup=False)
                continue
            try:
                self.grade(exercise, answer, f"{number}/{len(exercises)} " if brief else "", brief)
            except KeyboardInterrupt:
                return True
        return False

    def grade(
        self, exercise: Exercise, answer: Answer, counter: str = "", brief: bool = False
    ) -> None:
        """Grade one answer, show the report, remember it."""
        with self._telling(f"{counter}{exercise.id}") as on_stage:
            report = self.grader.grade(
                exercise,
                answer,
                device=self.device,
                seed=self.seed,
                on_stage=on_stage,
                simulate=self.simulate,
            )
        self.reports.append(report)
        if not self.solution:
            self.progress.record(report)
            if report.verdict.value != "not_attempted":
                self.progress.save_answer(exercise.id, answer.source)
        place = place_of(self.course, exercise)
        if brief and report.verdict.value in ("pass", "not_attempted"):
            self.out.print(render_line(report, place))
        else:
            self.out.print(render(report, place, replay=self._replay(report)))
            self.out.print()

    def answer(self, exercise_id: str) -> Answer:
        """The answer that this session grades. Raises AnswerError."""
        if self.solution:
            return answers.from_solution(self.course, exercise_id)
        if self.file is not None:
            return answers.from_file(self.file)
        return answers.from_notebook(self.course, exercise_id)

    def as_json(self) -> dict[str, Any]:
        """What ``ladder check --json`` writes: all that was graded so far."""
        from checkers.machine import describe_machine

        return {
            "schema": 1,
            "machine": describe_machine(),
            "exercises": [report.to_json() for report in self.reports],
        }

    def watch(self, exercises: Sequence[Exercise], changes: Iterable[Any]) -> None:
        """After each of ``changes`` (of files; only their coming counts), grade the exercises
        whose answer is another one than before. Ctrl-C ends it."""
        seen = {exercise.id: self._source(exercise) for exercise in exercises}
        with contextlib.suppress(KeyboardInterrupt):
            for _ in changes:
                for exercise in exercises:
                    source = self._source(exercise)
                    if source is None or source == seen[exercise.id]:
                        continue
                    seen[exercise.id] = source
                    self.grade(exercise, self.answer(exercise.id))

    def _source(self, exercise: Exercise) -> str | None:
        """The answer's text; None, after saying why, when it can't be read at the moment."""
        try:
            return self.answer(exercise.id).source
        except AnswerError as error:
            self.status.print(f"{exercise.id}: {error}", style="red", markup=False)
            return None

    def _replay(self, report: Report) -> str:
        words = ["ladder check", report.id]
        if self.solution:
            words.append("--solution")
        if self.file is not None:
            words.append(f"--file {self.file}")
        if self.device != "auto":
            words.append(f"--device {self.device}")
        if not self.simulate:
            words.append("--no-simulator")
        return " ".join([*words, f"--seed {report.seed}"])

    @contextlib.contextmanager
    def _telling(self, what: str) -> Iterator[Any]:
        """Says on standard error which stage has ended, while it is a terminal."""
        with self.status.status(f"{what} …", spinner="dots") as status:

            def on_stage(stage: Stage) -> None:
                status.update(f"{what}: {stage.name} {WORDS[stage.verdict.value]} …")

            yield on_stage


def place_of(course: Course, exercise: Exercise) -> Place:
    """The words about an exercise that its report needs."""
    notebook = course.chapter(exercise.id).notebook
    return Place(exercise.title, str(notebook.relative_to(course.root)), exercise.section)
