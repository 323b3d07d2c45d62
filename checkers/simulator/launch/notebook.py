"""The notebook's magic, after ``%load_ext checkers.simulator.launch.notebook``.

    %simulate h100 [--schedule latest|earliest|random:SEED] [--quiet]    cells that ask for a GPU
                                                                          run without one
    %simulate off                                                         as before

Each launch prints its report, with --quiet only if it has a fault. ``%simulate`` gives the results
of all launches since it was switched on.
"""

from __future__ import annotations

import contextlib
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from checkers.simulator.reports.gpus import GPUS


@magics_class
class SimulateMagic(Magics):
    """One notebook's simulated GPU."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self.entered = contextlib.ExitStack()
        self.results: list[Any] = []

    @magic_arguments()
    @argument("gpu", nargs="?", help=f"{', '.join(GPUS)}, or off")
    @argument("--schedule", default="latest", help="latest, earliest or random:SEED")
    @argument("--quiet", action="store_true", help="say nothing of a launch without a fault")
    @line_magic
    def simulate(self, line: str) -> list[Any] | None:
        """Switches the simulated GPU on or off; without a name, gives the results so far."""
        from checkers.simulator.copies.engine import Schedule
        from checkers.simulator.launch import simulating

        asked = parse_argstring(self.simulate, line)
        if asked.gpu is None:
            return self.results
        if asked.gpu != "off":
            if asked.gpu not in GPUS:
                raise UsageError(f"there is no GPU {asked.gpu!r}; there are: {', '.join(GPUS)}")
            try:
                Schedule.parse(asked.schedule)
            except ValueError as error:
                raise UsageError(str(error)) from error
        self.entered.close()
        if asked.gpu != "off":
            show = print_faults if asked.quiet else print_report
            self.results = self.entered.enter_context(simulating(asked.gpu, asked.schedule, show))
        return None


def print_report(result: Any) -> None:
    """The whole report of a launch, in the cell that launched."""
    from checkers.simulator.reports import report

    print(report.text(result))
    print(result.output, end="")


def print_faults(result: Any) -> None:
    """The report of a launch that has a fault; of another what printf wrote."""
    if not result.ok:
        print_report(result)
    else:
        print(result.output, end="")


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Called by %load_ext."""
    shell.register_magics(SimulateMagic)
