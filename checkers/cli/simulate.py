"""``ladder simulate``: anyone's CuTe DSL or Triton script, run without a GPU."""

from __future__ import annotations

import contextlib
import runpy
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from checkers.terminal import (
    COULD_NOT_RUN,
    INTERRUPTED,
    NOT_PASSED,
    PASSED,
    UserError,
    console_err,
    say,
    write_json,
    writing_to,
)

if TYPE_CHECKING:
    from checkers.simulator.launch import Launch

# Options after the script are the script's, but for those of this command.
CONTEXT = {"ignore_unknown_options": True, "help_option_names": ["-h", "--help"]}

OWN_FOLDER = str(Path(__file__).resolve().parents[1])
LIBRARIES = (*{sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}, OWN_FOLDER)


def simulate(
    script: Annotated[Path, typer.Argument(metavar="SCRIPT.py", help="What to run.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ARGS]...", help="Its arguments; all that follows -- is its own."),
    ] = None,
    gpu: Annotated[str, typer.Option(help="The GPU to stand for: h100, h200 or b200.")] = "h100",
    schedule: Annotated[
        str,
        typer.Option(
            metavar="WHEN", help="When asynchronous work is done: latest, earliest or random:SEED."
        ),
    ] = "latest",
    timeline: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT.svg", help="Draw one cluster of each launch: who waits for whom."
        ),
    ] = None,
    every_fault: Annotated[
        bool,
        typer.Option("--every-fault", help="Tell faults whole that only follow from others."),
    ] = False,
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="F", help="Write the reports as JSON; - is standard output."
        ),
    ] = None,
) -> None:
    """Run a CuTe DSL or Triton script without a GPU, and say what its kernels do wrong.

    Its tensors live on the CPU and claim to be on the GPU; docs/simulator.md tells the rest.

    Exit status: 0 no fault, 1 a fault, 2 the script could not run.
    """
    _check_asked(script, gpu, schedule)
    script_alone = str(json_file) != "-"  # else standard output is for the JSON
    out = Console() if script_alone else console_err()
    session = _Session(gpu, schedule, timeline, out, every_fault)
    with contextlib.nullcontext() if script_alone else contextlib.redirect_stdout(sys.stderr):
        status = session.run(script, arguments or [])
    if session.results:
        from checkers.simulator.reports import report

        session.out.print(report.verdict(session.results), highlight=False)
        write_json(json_file, report.as_json(session.results))
    elif status == PASSED:
        raise UserError(
            f"no kernel was launched by {script}. Launches of CuTe DSL and of Triton are seen, in "
            "this process; is there a call at the end of the script?"
        )
    if status == PASSED and not all(result.ok for result in session.results):
        status = NOT_PASSED
    raise typer.Exit(status)


def _check_asked(script: Path, gpu: str, schedule: str) -> None:
    from checkers.simulator.copies.engine import Schedule
    from checkers.simulator.reports.gpus import gpu as find

    if not script.is_file():
        raise UserError(f"there is no file {script}: name the script to run.")
    try:
        find(gpu)
        Schedule.parse(schedule)
    except ValueError as error:
        raise UserError(f"{error}.") from error


class _Session:
    """One run of a script: prints each launch's report when it is done."""

    def __init__(
        self, gpu: str, schedule: str, timeline: Path | None, out: Console, every_fault: bool
    ) -> None:
        self.gpu = gpu
        self.schedule = schedule
        self.timeline = timeline
        self.out = out
        self.every_fault = every_fault
        self.results: list[Any] = []
        self.shown: set[tuple[Any, ...]] = set()  # reports that need not be printed again
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("simulating {task.description}", markup=False),
            TimeElapsedColumn(),
            console=console_err(),
            transient=True,
        )

    def run(self, script: Path, arguments: list[str]) -> int:
        """Runs it as ``python SCRIPT ARGS`` would; the exit status, faults apart."""
        from checkers.simulator.launch import simulating

        try:
            with (
                _as_main(script, arguments),
                simulating(
                    self.gpu,
                    self.schedule,
                    self.show,
                    log=self.timeline is not None,
                    before=self.announce,
                ),
            ):
                runpy.run_path(str(script), run_name="__main__")
        except SystemExit as ended:
            if ended.code not in (None, 0):
                say(f"ladder: {script} ended itself with status {ended.code}.")
                return self._could_not_run()
        except KeyboardInterrupt:
            say("ladder: interrupted; the reports above are whole.")
            return INTERRUPTED
        except Exception as error:
            say(shortened(error).rstrip())
            return self._could_not_run()
        finally:
            self.progress.stop()
        return PASSED

    def _could_not_run(self) -> int:
        """A fault that was found counts for more than what the script made of it."""
        return PASSED if any(not result.ok for result in self.results) else COULD_NOT_RUN

    def announce(self, launch: Launch) -> None:
        """Says on a terminal what is being simulated."""
        sys.stdout.flush()
        self.progress.start()
        self.progress.add_task(f"{launch.title}, grid {launch.grid}", total=None)

    def show(self, result: Any) -> None:
        """Prints a launch's report, and draws its timeline."""
        from checkers.simulator.reports import report

        self.progress.stop()
        for task in self.progress.task_ids:
            self.progress.remove_task(task)
        self.results.append(result)
        said = report.text(result, self.every_fault)
        alike = (report.headline(result), str(result.counters.to_json()), len(result.faults))
        if not result.faults and alike in self.shown:
            said = f"{alike[0]}: no fault, the counters as before"
        self.shown.add(alike)
        self.out.print(said, markup=False, highlight=False, soft_wrap=True)
        if result.output:
            self.out.print(result.output, markup=False, highlight=False, soft_wrap=True, end="")
        if self.timeline is not None:
            self._draw(result, self.timeline)

    def _draw(self, result: Any, path: Path) -> None:
        from checkers.simulator.reports.timeline import draw, lay_out

        number = len(self.results)
        if number > 1:
            path = path.with_name(f"{path.stem}-{number}{path.suffix}")
        with writing_to(path):
            path.write_text(
                draw(lay_out(result.log, result.gpu), result.launch.title), encoding="utf-8"
            )
        say(f"drawn: {path}")


@contextlib.contextmanager
def _as_main(script: Path, arguments: list[str]) -> Iterator[None]:
    """Within, sys.argv and sys.path are those of a script that Python was started with."""
    before = sys.argv, sys.path[:]
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before


def shortened(error: BaseException) -> str:
    """The traceback without the frames of libraries and of the simulator."""
    lines = traceback.TracebackException.from_exception(error)
    lines.__context__ = None if error.__suppress_context__ else lines.__context__
    own = [frame for frame in lines.stack if _is_the_scripts(frame.filename)]
    if own:
        lines.stack[:] = own
    return "".join(lines.format())


def _is_the_scripts(filename: str) -> bool:
    return not filename.startswith(("<", *LIBRARIES)) and "site-packages" not in filename
