"""The lines of a report: sentences, and places with the source quoted."""

from __future__ import annotations

from pathlib import Path

from checkers.simulator.ptx.program import Instruction, Place
from checkers.simulator.reports.places import source_line


def sentence(message: str) -> str:
    """A message with its capital (but not a tensor's name's) and its full stop."""
    message = f"T{message[1:]}" if message.startswith("thread ") else message
    return message if message.endswith((".", "!", "?")) else f"{message}."


def where(lead: str, place: Place | None, site: Instruction | None, width: int) -> list[str]:
    """The place with its source line quoted; the PTX instruction where there is no source."""
    margin = " " * len(lead)
    lines = []
    if place is not None:
        lines.append(f"{lead}{_short(place.file)}:{place.line}")
        source = source_line(place)
        if source:
            lines.append(cut(f"{margin}> {source}", width))
    if site is not None and not any("> " in line for line in lines):
        lines.append(
            cut(f"{lead if not lines else margin}PTX line {site.line}: {site.text}", width)
        )
    return lines


def _short(file: str) -> str:
    """``file`` relative to the working folder, where it lies below it."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file


def cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 3] + "..."
