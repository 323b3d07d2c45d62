"""Outputs that docs/simulator.md shows: run, compared by the tests, and written anew on request.

    python -m tests.simulator.document

    <!-- output: ladder simulate docs/examples/scale.py | until Counters -->
    ```text
    what the command writes, from the line that begins with `from` up to the one with `until`
    ```

Seconds differ from run to run: a block whose other words are right is left alone. The pictures
are those that the commands draw.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "simulator.md"
PICTURE = ROOT / "docs" / "pictures" / "simulator_timeline.svg"

OUTPUT = re.compile(
    r"<!-- output: (?P<command>ladder [^|\n]+?)(?: \| from (?P<start>[^|\n]+?))?"
    r"(?: \| until (?P<end>[^|\n]+?))? -->\n```text\n(?P<shown>.*?)```",
    re.DOTALL,
)


def output_of(command: str) -> str:
    """What a command writes to standard output, run in the repository's folder."""
    from checkers.cli import run

    out = io.StringIO()
    with (
        contextlib.chdir(ROOT),
        mock.patch.dict(os.environ, COLUMNS="80"),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        run(command.split()[1:])
    return out.getvalue()


def cut(text: str, start: str | None, end: str | None) -> str:
    """The lines from the first that begins with ``start`` up to the next that begins with ``end``,
    without empty ones at either side."""
    lines = text.splitlines()
    if start:
        lines = lines[next(i for i, line in enumerate(lines) if line.startswith(start)) :]
    if end:
        stop = (i for i, line in enumerate(lines) if i and line.startswith(end))
        lines = lines[: next(stop)]
    return "\n".join(lines).strip("\n") + "\n"


def without_seconds(text: str) -> str:
    return re.sub(r"\d+\.\d+ s\b", "- s", text)


def rendered(text: str) -> str:
    """The page with every output as it is today."""
    known: dict[str, str] = {}

    def fresh(match: re.Match[str]) -> str:
        command = match["command"]
        if command not in known:
            known[command] = output_of(command)
        found = cut(known[command], match["start"], match["end"])
        if without_seconds(found) == without_seconds(match["shown"]):
            return match[0]
        return match[0].replace(f"```text\n{match['shown']}```", f"```text\n{found}```")

    return OUTPUT.sub(fresh, text)


def main() -> None:
    """Writes the page's outputs, tables and picture."""
    from checkers.rendering import render_markers

    text = rendered(PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(render_markers(text, PAGE), encoding="utf-8")
    output_of(f"ladder simulate docs/examples/pipeline.py --timeline {PICTURE}")


if __name__ == "__main__":
    main()
