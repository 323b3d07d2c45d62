"""The ``ladder`` command: thin, it calls the modules that do the work.

Exit status: 0 everything that was graded passed; 1 something failed or was not attempted; 2 the
command could not run, and says what to do. Reports go to standard output, everything said on the
way to standard error.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from checkers.cli.measure import bench, calibrate
from checkers.cli.options import (
    Device,
    ExerciseName,
    JsonFile,
    Names,
    NoSimulator,
    WhereToRun,
    need_a_place,
)
from checkers.cli.simulate import CONTEXT, simulate
from checkers.terminal import (
    COULD_NOT_RUN,
    INTERRUPTED,
    NOT_PASSED,
    PASSED,
    UserError,
    console_err,
    explain,
    nobody_reads,
    relative,
    say,
    write_json,
)

if TYPE_CHECKING:  # importing these imports torch, which the doctor and --help do without
    from checkers.course import Course
    from checkers.exercise import Exercise

app = typer.Typer(
    name="ladder",
    help="Kernel Ladder: GPU kernels from torch.compile through Triton to CuTe DSL.",
    epilog="Exit status: 0 all that was graded passed, 1 something failed or was not attempted, "
    "2 could not run. Start with: ladder doctor, ladder list",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


app.command(context_settings=CONTEXT)(simulate)


@app.command("list")
def list_command(json_file: JsonFile = None) -> None:
    """Chapters and exercises, points, and how far you are."""
    from checkers.listing import as_json, as_table
    from checkers.progress import Progress

    course = find_course()
    progress = Progress(course.root)
    if json_file is None or str(json_file) != "-":
        Console().print(as_table(course, progress))
    write_json(json_file, as_json(course, progress))


@app.command()
def check(
    names: Names = None,
    solution: Annotated[
        bool, typer.Option("--solution", help="Grade the reference solution instead.")
    ] = False,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="F", help="Grade this file instead of the notebook's cell."),
    ] = None,
    device: WhereToRun = Device.AUTO,
    no_simulator: NoSimulator = False,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the random inputs, to replay a report.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Grade your answers, and explain what is wrong."""
    from checkers.grading.grader import Grader
    from checkers.report_text import render_open, render_summary
    from checkers.session import Session

    if file is not None and solution:
        raise UserError("--file and --solution exclude each other: leave one of them out.")
    if file is not None and not names:
        raise UserError(f"name the exercise that it answers: ladder check ch02.NAME --file {file}")
    need_a_place(device, no_simulator)
    course = find_course()
    exercises = course.select(names or [])
    out = console_err() if str(json_file) == "-" else Console()
    with Grader(course) as grader:
        grading = Session(
            course,
            grader,
            out,
            console_err(),
            file,
            solution,
            device.value,
            seed,
            simulate=not no_simulator,
        )
        interrupted = grading.check(exercises)
    write_json(json_file, grading.as_json())
    if interrupted:
        say("ladder: interrupted; what was graded before is kept.")
        raise typer.Exit(INTERRUPTED)
    if len(exercises) > 1:
        out.print("", render_summary(grading.reports), render_open(grading.reports), sep="\n")
    if grading.unreadable:
        raise typer.Exit(COULD_NOT_RUN)
    passed = all(report.verdict.value == "pass" for report in grading.reports)
    raise typer.Exit(PASSED if passed else NOT_PASSED)


@app.command()
def hint(exercise: ExerciseName) -> None:
    """The next hint: a question, then a direction, then the key line."""
    from checkers.progress import Progress

    course = find_course()
    hints = find_exercise(course, exercise).hints
    latest = Progress(course.root).show_next_hint(exercise, len(hints))
    console = Console()
    for number, text in enumerate(hints[: latest + 1], 1):
        console.print(f"[bold]Hint {number} of {len(hints)}[/bold]", highlight=False)
        console.print(f"{escape(text)}\n", highlight=False)
    if latest + 1 < len(hints):
        console.print(f"One more: ladder hint {exercise}", style="dim")
    else:
        console.print(
            f"That was the last. The reference: ladder solution {exercise} --give-up", style="dim"
        )


@app.command()
def solution(
    exercise: ExerciseName,
    give_up: Annotated[
        bool, typer.Option("--give-up", help="Show it although the exercise has not passed.")
    ] = False,
) -> None:
    """The reference solution, once your own has passed."""
    from rich.syntax import Syntax

    from checkers.answers import from_solution
    from checkers.progress import Progress

    course = find_course()
    find_exercise(course, exercise)
    progress = Progress(course.root)
    if progress.status(exercise) != "pass" and not give_up:
        raise UserError(
            f"{exercise} has not passed yet. `ladder hint {exercise}` helps without telling; "
            f"`ladder solution {exercise} --give-up` shows it all the same."
        )
    answer = from_solution(course, exercise)
    progress.mark_solution_shown(exercise)
    console = Console()
    if console.is_terminal:
        console.print(Syntax(answer.source, "python", word_wrap=True))
    else:
        typer.echo(answer.source, nl=False)
    console_err().print(f"From {answer.file}, which has all of the chapter's kernels.")


@app.command()
def reset(
    names: Annotated[
        list[str], typer.Argument(metavar="CHAPTER[.EXERCISE]...", help="ch02.row_softmax")
    ],
) -> None:
    """Put an exercise's blank back; what you wrote is kept, and it says where."""
    from checkers.reset import reset as reset_exercise

    course = find_course()
    for exercise in course.select(names):
        done = reset_exercise(course, exercise.id)
        kept = "".join(f"; yours is kept as {relative(course.root, path)}" for path in done.kept)
        notebook = relative(course.root, course.chapter(exercise.id).notebook)
        typer.echo(f"{exercise.id}: {done.state} in {notebook}{kept}")
    console_err().print("If the notebook is open in Jupyter, reload it from disk (File menu).")


@app.command()
def watch(
    names: Names = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="F", help="Watch this file instead.")
    ] = None,
    device: WhereToRun = Device.AUTO,
    no_simulator: NoSimulator = False,
) -> None:
    """Grade an answer each time you save it. Ctrl-C ends."""
    import watchfiles

    from checkers.grading.grader import Grader
    from checkers.session import Session

    need_a_place(device, no_simulator)
    course = find_course()
    exercises = course.select(names or [])
    if file is not None and len(exercises) != 1:
        raise UserError("--file is the answer to one exercise: ladder watch ch02.NAME --file F")
    # The folders: Jupyter and most editors replace a file when they save it.
    folders = {course.chapter(exercise.id).folder for exercise in exercises}
    folders = {file.resolve().parent} if file is not None else folders
    with Grader(course) as grader:
        grading = Session(
            course,
            grader,
            Console(),
            console_err(),
            file,
            device=device.value,
            simulate=not no_simulator,
        )
        where = ", ".join(sorted(str(relative(course.root, folder)) for folder in folders))
        grading.status.print(f"Watching {where}. Save your answer to have it graded; Ctrl-C ends.")
        grading.watch(exercises, watchfiles.watch(*folders, raise_interrupt=False))


@app.command()
def doctor() -> None:
    """What this machine can grade, and what to install."""
    from checkers import doctor as examination

    raise typer.Exit(examination.main())


app.command()(bench)
app.command()(calibrate)


@app.command()
def build(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[CHAPTER]...", help="ch02; all if left out.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 if something is stale.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Drop what was written in the notebooks.")
    ] = False,
) -> None:
    """Make the notebooks from the lessons and solutions (for authors)."""
    from checkers import readme
    from checkers.lessons.build import build as build_lessons
    from checkers.lessons.directives import LessonError

    course = find_course()
    err = console_err()
    try:
        changed = build_lessons(
            course, check, names or [], fresh, lambda text: err.print(text, markup=False)
        )
    except LessonError as error:
        raise UserError(str(error)) from error
    changed += [] if names else readme.update(course, check)
    for path in changed:
        typer.echo(f"{'stale' if check else 'built'}: {relative(course.root, path)}")
    if check and changed:
        err.print("`ladder build` makes them anew.")
    raise typer.Exit(NOT_PASSED if check and changed else PASSED)


# ---- shared by the commands


def find_course() -> Course:
    from checkers.course import Course

    return Course.find()


def find_exercise(course: Course, name: str) -> Exercise:
    if "." not in name:
        ids = ", ".join(exercise.id for exercise in course.chapter(name).exercises)
        raise UserError(f"name one exercise of {name}: {ids}")
    return course.exercise(name)


def _show_warning(message: Warning | str, category: type[Warning], *rest: Any) -> None:
    from checkers.progress import ProgressWarning

    if issubclass(category, ProgressWarning):
        say(f"ladder: {message}")


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status. Errors end as one sentence on standard error."""
    warnings.showwarning = _show_warning
    try:
        app(arguments)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BrokenPipeError:  # `ladder list | head`
        return nobody_reads()
    except Exception as error:
        return explain(error)
    return PASSED


def main() -> None:
    """The console script."""
    sys.exit(run())
