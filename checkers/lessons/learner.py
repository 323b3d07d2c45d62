"""What a learner wrote in a notebook, carried over into a rebuilt one. Nothing is ever lost.

A built cell's metadata holds the fingerprint of what the build wrote. A cell whose text has
another one was edited; a cell that has none was added.

* An edited exercise cell takes the place of the rebuilt one.
* Another edited cell takes its place too, while the lesson still says the same there.
* Everything else (added cells, edits of cells that the lesson changed or dropped) is put after
  the cell it followed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from checkers.answers import MAGIC, AnswerError


def read_notebook(path: Path) -> NotebookNode:
    """The notebook at ``path``. Raises AnswerError when it can't be read as one."""
    try:
        notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    except Exception as error:  # nbformat's readers raise whatever the damage leads to
        raise AnswerError(
            f"{path} is not a notebook ({type(error).__name__}: {error}): restore it from git, "
            "or move it away and build again."
        ) from error
    if "cells" not in notebook:
        raise AnswerError(f"{path} is not a notebook, it has no cells: restore it from git.")
    return notebook


def exercise_of(cell: NotebookNode) -> str | None:
    """The id that a cell's ``%%exercise`` line names, or None."""
    words = cell.source.partition("\n")[0].split()
    named = cell.cell_type == "code" and len(words) > 1 and words[0] == MAGIC
    return words[1] if named else None


def keep_learners_cells(
    path: Path, built: NotebookNode, fingerprint: Callable[[NotebookNode], str]
) -> list[str]:
    """Puts the learner's cells of the notebook at ``path`` into ``built``.

    Returns what was kept, in words; empty when the learner wrote nothing. Raises AnswerError when
    the file is not a notebook.
    """
    return _Merge(built, fingerprint).run(read_notebook(path).cells)


class _Merge:
    def __init__(self, built: NotebookNode, fingerprint: Callable[[NotebookNode], str]) -> None:
        self.built = built
        self.fingerprint = fingerprint
        self.by_fingerprint = {cell.metadata.ladder.built: cell for cell in built.cells}
        self.by_exercise = {
            cell.metadata.ladder.exercise: cell
            for cell in built.cells
            if "exercise" in cell.metadata.ladder
        }
        self.replaced: set[str] = set()  # ids of built cells that hold a learner's text
        self.extra: list[tuple[NotebookNode | None, NotebookNode]] = []  # (follows, cell)
        self.kept: list[str] = []

    def run(self, old_cells: list[NotebookNode]) -> list[str]:
        anchor: NotebookNode | None = None  # the built cell that stands where we are
        for old in old_cells:
            home = self.home(old)
            if home is not None:
                anchor = home
            if self.is_untouched(old):
                continue
            if home is not None and home.id not in self.replaced:
                self.put_back(old, home)
            else:
                self.extra.append((anchor, self.added(old)))
        for follows, cell in reversed(self.extra):
            place = 0 if follows is None else self.built.cells.index(follows) + 1
            self.built.cells.insert(place, cell)
        if self.extra:
            count = len(self.extra)
            self.kept.append(f"{count} cell{'s' if count > 1 else ''} of your own")
        return self.kept

    def home(self, old: NotebookNode) -> NotebookNode | None:
        """The built cell that ``old`` was, or still is."""
        exercise = exercise_of(old)
        if exercise is not None:
            return self.by_exercise.get(exercise)
        marked = old.metadata.get("ladder", {}).get("built", "")
        return self.by_fingerprint.get(marked) or self.by_fingerprint.get(self.fingerprint(old))

    def is_untouched(self, old: NotebookNode) -> bool:
        found = self.fingerprint(old)
        return (
            not old.source.strip()
            or found in self.by_fingerprint
            or found == old.metadata.get("ladder", {}).get("built")
        )

    def put_back(self, old: NotebookNode, home: NotebookNode) -> None:
        home.source = old.source
        if "attachments" in old:
            home.attachments = old.attachments
        self.replaced.add(home.id)
        self.kept.append(exercise_of(old) or f"an edited {old.cell_type} cell")

    def added(self, old: NotebookNode) -> NotebookNode:
        """A cell of the learner's own; its id gives way when the rebuilt notebook has it too."""
        taken = {cell.id for cell in self.built.cells} | {cell.id for _, cell in self.extra}
        number, wanted = 1, old.get("id") or "yours"
        while (identity := wanted if number == 1 else f"{wanted}-{number}") in taken:
            number += 1
        old.id = identity
        # It is no longer what the build wrote, so no later build may take it for that.
        old.metadata.pop("ladder", None)
        return old
