"""Finds the chapters and exercises of a course. Nothing else knows the folders.

A chapter exists when ``checkers/chapters/chNN_name.py`` does; its lesson, notebook and solution
have the same stem in the other folders.
"""

from __future__ import annotations

import difflib
import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType

from checkers.exercise import Bench, Exercise


class CourseError(Exception):
    """The course, or a name in it, can't be found; the text says what to do."""


@dataclass(frozen=True)
class Chapter:
    """One rung of the ladder: ``name`` is the stem that its files share, "ch02_triton_softmax"."""

    root: Path
    name: str

    @property
    def short(self) -> str:
        """ "ch02": what its exercises' ids begin with."""
        return self.name.partition("_")[0]

    @property
    def folder(self) -> Path:
        return self.root / "chapters" / self.name

    @property
    def lesson(self) -> Path:
        return self.folder / "lesson.md"

    @property
    def notebook(self) -> Path:
        return self.folder / "lesson.ipynb"

    @property
    def solution(self) -> Path:
        return self.root / "solutions" / f"{self.name}.py"

    @property
    def checker(self) -> Path:
        return self.root / "checkers" / "chapters" / f"{self.name}.py"

    @cached_property
    def module(self) -> ModuleType:
        """The chapter's checker, imported from its file.

        Raises CourseError when it does not define EXERCISES.
        """
        module_name = f"checkers.chapters.{self.name}"
        loaded = sys.modules.get(module_name)
        if loaded is not None and Path(loaded.__file__ or "") == self.checker:
            return loaded
        spec = importlib.util.spec_from_file_location(module_name, self.checker)
        if spec is None or spec.loader is None:
            raise CourseError(f"{self.checker} can't be imported: is it a Python file?")
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[module_name]
            raise
        if not isinstance(getattr(module, "EXERCISES", None), tuple):
            raise CourseError(f"{self.checker} must define EXERCISES, a tuple of Exercise")
        return module

    @property
    def exercises(self) -> tuple[Exercise, ...]:
        return self.module.EXERCISES

    @property
    def bench(self) -> Bench | None:
        return getattr(self.module, "BENCH", None)

    @property
    def title(self) -> str:
        """The lesson's first heading, or the name made readable where there is no lesson."""
        if self.lesson.exists():
            for line in self.lesson.read_text(encoding="utf-8").splitlines():
                if line.startswith("# "):
                    return line[2:].strip()
        return self.name.partition("_")[2].replace("_", " ")


class Course:
    """A course: the folder that holds chapters/, solutions/ and checkers/chapters/."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root).resolve()
        if not (self.root / "checkers" / "chapters").is_dir():
            raise CourseError(
                f"{self.root} is not a course: it has no checkers/chapters/. Run the command in "
                "the folder you cloned, or name it with LADDER_COURSE=FOLDER."
            )

    @classmethod
    def find(cls, start: Path | None = None) -> Course:
        """The course that ``start`` (the working directory by default) lies in, else the one
        that this package is part of. LADDER_COURSE names one outright."""
        import os

        named = os.environ.get("LADDER_COURSE")
        if named:
            return cls(Path(named))
        here = (start or Path.cwd()).resolve()
        for folder in (here, *here.parents):
            if (folder / "checkers" / "chapters").is_dir() and (folder / "solutions").is_dir():
                return cls(folder)
        return cls(Path(__file__).resolve().parent.parent)

    @cached_property
    def chapters(self) -> tuple[Chapter, ...]:
        """All chapters, in the order of their numbers."""
        files = sorted((self.root / "checkers" / "chapters").glob("ch[0-9][0-9]*_*.py"))
        return tuple(Chapter(self.root, file.stem) for file in files)

    @property
    def exercises(self) -> tuple[Exercise, ...]:
        """All exercises, in the order of the ladder."""
        return tuple(exercise for chapter in self.chapters for exercise in chapter.exercises)

    def chapter(self, name: str) -> Chapter:
        """The chapter called ``name``: "ch02", "ch02_triton_softmax", or an exercise's id.

        Raises CourseError with the closest names when there is none.
        """
        wanted = name.partition(".")[0]
        for chapter in self.chapters:
            if wanted in (chapter.short, chapter.name):
                return chapter
        raise CourseError(self._unknown("chapter", wanted, [c.short for c in self.chapters]))

    def exercise(self, exercise_id: str) -> Exercise:
        """The exercise with that id. Raises CourseError with the closest ids."""
        chapter = self.chapter(exercise_id)
        for exercise in chapter.exercises:
            if exercise.id == exercise_id:
                return exercise
        ids = [exercise.id for exercise in chapter.exercises]
        raise CourseError(self._unknown("exercise", exercise_id, ids))

    def select(self, names: Iterable[str] = ()) -> tuple[Exercise, ...]:
        """The exercises that ``names`` (chapters and exercise ids) stand for; all without names."""
        chosen: dict[str, Exercise] = {}
        for name in names:
            short, dot, _ = name.partition(".")
            found = (self.exercise(name),) if dot else self.chapter(short).exercises
            chosen.update((exercise.id, exercise) for exercise in found)
        return tuple(chosen.values()) if names else self.exercises

    @staticmethod
    def _unknown(kind: str, name: str, known: list[str]) -> str:
        close = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(known)}"
        return f"there is no {kind} called {name!r}; {hint} `ladder list` shows all."
