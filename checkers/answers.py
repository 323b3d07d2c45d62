"""Where an exercise's source comes from: a learner's notebook, a file, or the reference solution."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from checkers.course import Chapter, Course, CourseError

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"
CELL = "# %% "
MAGIC = "%%exercise"


class AnswerError(Exception):
    """An answer can't be read; the text says where it was looked for and what to do."""


@dataclass(frozen=True)
class Answer:
    """What is graded.

    source: the exercise's cell, or a whole module.  setup: source that is run before it.
    origin: where it comes from, in words.  file: what its line numbers refer to.
    first_line: line of ``file`` at which ``source`` begins.
    """

    source: str
    origin: str
    setup: str = ""
    file: str = "<answer>"
    first_line: int = 1


def solution_cells(path: Path) -> dict[str, str]:
    """The cells of a solutions module by header: "setup" (all of them joined), exercise ids,
    and "reference ..."; the text before the first header belongs to none.

    Raises AnswerError for a header that is none of the three, or given twice.
    """
    cells: dict[str, list[str]] = {}
    current: list[str] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.startswith(CELL):
            current.append(line)
            continue
        kind, _, rest = line[len(CELL) :].strip().partition(" ")
        header = {"setup": "setup", "exercise": rest, "reference": f"reference {rest}"}.get(kind)
        if not header:
            raise AnswerError(
                f"{path}:{number}: a cell is `# %% setup`, `exercise ID` or `reference`"
            )
        if header in cells and header != "setup" and not header.startswith("reference"):
            raise AnswerError(f"{path}:{number}: {header} has two cells; an exercise has one")
        current = cells.setdefault(header, [])
    return {header: "\n".join(lines).strip("\n") + "\n" for header, lines in cells.items()}


def skeleton(cell: str) -> str:
    """The cell with its solution taken out: what a learner starts from.

    Raises AnswerError when a block is not closed, or says nothing to the learner.
    """
    lines: list[str] = []
    inside = False
    for line in cell.splitlines():
        text = line.strip()
        if text.startswith(BEGIN):
            task = text[len(BEGIN) :].strip()
            if inside or not task:
                raise AnswerError(f"`{BEGIN}` needs words for the learner, and an END: {line!r}")
            indent = line[: len(line) - len(line.lstrip())]
            lines.append(f"{indent}# YOUR CODE HERE: {task}")
            lines.append(
                f"{indent}raise NotImplementedError({json.dumps(task, ensure_ascii=False)})"
            )
            inside = True
        elif text == END:
            if not inside:
                raise AnswerError(f"`{END}` without a BEGIN")
            inside = False
        elif not inside:
            lines.append(line)
    if inside:
        raise AnswerError(f"a `{BEGIN}` is never closed by `{END}`")
    return "\n".join(lines).strip("\n") + "\n"


def without_markers(cell: str) -> str:
    """The cell as it runs and is shown: the solution, without the lines that mark it."""
    kept = [line for line in cell.splitlines() if not line.strip().startswith((BEGIN, END))]
    return "\n".join(kept).strip("\n") + "\n"


def setup_of(chapter: Chapter) -> str:
    """The setup that every exercise of the chapter shares."""
    return solution_cells(chapter.solution).get("setup", "")


def solution_cell(course: Course, exercise_id: str) -> str:
    """The exercise's cell in the solutions module, with its markers.

    Raises AnswerError when the module has none.
    """
    chapter = course.chapter(exercise_id)
    cells = solution_cells(chapter.solution)
    if exercise_id not in cells:
        raise AnswerError(f"{chapter.solution} has no cell `# %% exercise {exercise_id}`")
    return cells[exercise_id]


def skeleton_of(course: Course, exercise_id: str) -> str:
    """What the learner starts from."""
    return skeleton(solution_cell(course, exercise_id))


def from_solution(course: Course, exercise_id: str) -> Answer:
    """The reference solution, as an answer."""
    chapter = course.chapter(exercise_id)
    return Answer(
        source=without_markers(solution_cell(course, exercise_id)),
        origin="the reference solution",
        setup=setup_of(chapter),
        file=f"solutions/{chapter.name}.py",
    )


def from_cell(course: Course, exercise_id: str, source: str, origin: str = "the cell") -> Answer:
    """A notebook cell's source, without its ``%%exercise`` line."""
    chapter = course.chapter(exercise_id)
    return Answer(source, origin, setup_of(chapter), file=f"the cell of {exercise_id}")


def from_notebook(course: Course, exercise_id: str) -> Answer:
    """The learner's cell in the chapter's notebook.

    Raises AnswerError when the notebook is missing or damaged, or has no such cell.
    """
    chapter = course.chapter(exercise_id)
    path = chapter.notebook
    relative = path.relative_to(course.root)
    if not path.exists():
        raise AnswerError(f"{relative} is missing: `ladder build {chapter.short}` makes it anew.")
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    except (ValueError, KeyError, TypeError) as error:
        raise AnswerError(
            f"{relative} is not a notebook ({error}): restore it from git, or move it away and "
            f"run `ladder build {chapter.short}`."
        ) from error
    found = []
    for cell in cells:
        text = cell.get("source", "")
        text = text if isinstance(text, str) else "".join(text)
        first, _, rest = text.partition("\n")
        if cell.get("cell_type") == "code" and first.split()[:2] == [MAGIC, exercise_id]:
            found.append(rest)
    if not found:
        raise AnswerError(
            f"{relative} has no cell that starts with `{MAGIC} {exercise_id}`. If you deleted it, "
            f"`ladder reset {exercise_id}` puts it back."
        )
    if len(found) > 1:
        raise AnswerError(
            f"{relative} has {len(found)} cells that start with `{MAGIC} {exercise_id}`: keep one "
            "of them, and take the first line off the others."
        )
    return from_cell(course, exercise_id, found[0], f"{relative}")


def from_file(path: Path) -> Answer:
    """A whole module that defines the exercise's function.

    Raises AnswerError when the file can't be read as text.
    """
    try:
        source = path.read_text(encoding="utf-8")
    except OSError as error:
        raise AnswerError(f"{path} can't be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise AnswerError(f"{path} is not UTF-8 text: save it as a Python file.") from error
    return Answer(source, str(path), file=str(path))


def with_mistake(cell: str, replace: tuple[tuple[str, str], ...], answer: str) -> str:
    """The reference's cell turned into a known mistake (see exercise.Mistake).

    Raises AnswerError when a text to replace does not occur exactly once.
    """
    for old, new in replace:
        if cell.count(old) != 1:
            raise AnswerError(f"{old!r} occurs {cell.count(old)} times in the reference, not once")
        cell = cell.replace(old, new)
    return f"{cell}\n{answer}" if answer else cell


__all__ = [
    "Answer",
    "AnswerError",
    "CourseError",
    "from_cell",
    "from_file",
    "from_notebook",
    "from_solution",
    "setup_of",
    "skeleton",
    "skeleton_of",
    "solution_cell",
    "solution_cells",
    "with_mistake",
    "without_markers",
]
