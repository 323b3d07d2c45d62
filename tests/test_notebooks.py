"""Every lesson's notebook: as committed it is what the build makes, and it runs from top to bottom,
with the blanks and with the references in them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from checkers.course import Chapter, Course
from checkers.lessons.build import build, canonical, notebook_of

ROOT = Path(__file__).resolve().parent.parent
COURSE = Course(ROOT)
CELL_LIMIT_S = 180  # the first exercise also waits for the grader to import its libraries

each_chapter = pytest.mark.parametrize("chapter", COURSE.chapters, ids=lambda c: c.short)


def environment(folder: Path, solve: bool, gpu: bool = False) -> dict[str, str]:
    """A kernel's environment: nothing of this machine's IPython, no GPU unless one is wanted."""
    found = {**os.environ, "IPYTHONDIR": str(folder), "LADDER_SOLVE": "1" if solve else "0"}
    return found if gpu else {**found, "CUDA_VISIBLE_DEVICES": ""}


def executed(chapter: Chapter, env: dict[str, str]) -> nbformat.NotebookNode:
    """The chapter's notebook as shipped, after every cell has run. A cell that raises fails."""
    notebook = notebook_of(COURSE, chapter)
    client = NotebookClient(
        notebook, timeout=CELL_LIMIT_S, resources={"metadata": {"path": str(chapter.folder)}}
    )
    client.execute(env=env)
    return notebook


def verdicts(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """The verdict that is shown under each exercise's cell; "none" where no report is."""
    found = {}
    for cell in notebook.cells:
        exercise = cell.metadata.ladder.get("exercise")
        if exercise is None:
            continue
        reports = [
            output.metadata["ladder"]
            for output in cell.outputs
            if output.output_type == "display_data" and "ladder" in output.metadata
        ]
        shown = [report["verdict"] for report in reports if report["id"] == exercise]
        found[exercise] = shown[0] if len(shown) == 1 else "none"
    return found


def errors(notebook: nbformat.NotebookNode) -> list[str]:
    """What was raised, and shown, in any cell: a magic shows errors without failing its cell."""
    return [
        f"{cell.source.splitlines()[0]}: {output.ename}: {output.evalue}"
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "error"
    ]


def test_the_course_has_chapters():
    assert [chapter.short for chapter in COURSE.chapters[:5]] == [f"ch0{n}" for n in range(5)]


@each_chapter
def test_the_committed_notebook_is_what_the_build_makes(chapter):
    stale = chapter.notebook.read_text(encoding="utf-8") != canonical(notebook_of(COURSE, chapter))
    assert not stale, f"`ladder build {chapter.short}`, then commit the notebook"


def test_nothing_is_stale_and_every_number_is_measured():
    said: list[str] = []
    assert build(COURSE, check=True, say=said.append) == []
    assert said == []


@pytest.mark.slow
@each_chapter
def test_as_shipped_it_runs_and_nothing_is_attempted(chapter, tmp_path):
    notebook = executed(chapter, environment(tmp_path, solve=False))
    wanted = {exercise.id: "not_attempted" for exercise in chapter.exercises}
    assert verdicts(notebook) == wanted
    assert errors(notebook) == []


@pytest.mark.slow
@each_chapter
def test_with_the_references_it_runs_and_everything_passes(chapter, tmp_path):
    notebook = executed(chapter, environment(tmp_path, solve=True))
    assert verdicts(notebook) == {exercise.id: "pass" for exercise in chapter.exercises}
    assert errors(notebook) == []


@pytest.mark.gpu
@pytest.mark.slow
@each_chapter
def test_on_a_gpu_it_runs_with_the_references(chapter, tmp_path):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU: the cells that only run on one")
    notebook = executed(chapter, environment(tmp_path, solve=True, gpu=True))
    # Whether a time is good enough is tests/gpu's question; a noisy one stays undecided.
    found = verdicts(notebook)
    assert set(found.values()) <= {"pass", "undecided"}, found
    assert errors(notebook) == []


@pytest.mark.slow
@each_chapter
def test_nbval_accepts_it(chapter, tmp_path):
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "--nbval-lax", "--nbval-current-env",
            f"--nbval-cell-timeout={CELL_LIMIT_S}", "-q", "-p", "no:cacheprovider",
            str(chapter.notebook),
        ],
        cwd=ROOT,
        env=environment(tmp_path, solve=False),
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
