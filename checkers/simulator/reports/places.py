"""Where in the learner's source an instruction comes from."""

from __future__ import annotations

import linecache
import sys
import sysconfig
from functools import cache
from pathlib import Path
from typing import Any

from checkers.simulator.ptx.program import Instruction, Place


@cache
def _libraries() -> tuple[str, ...]:
    """Where installed code lies: the learner's line is not there."""
    paths = {sysconfig.get_paths()[name] for name in ("purelib", "platlib", "stdlib")}
    paths |= {path for path in sys.path if path.endswith(("site-packages", "dist-packages"))}
    return tuple(str(Path(path)) + "/" for path in sorted(paths))


def learners_place(site: Instruction | None) -> Place | None:
    """The innermost place of ``site`` that is in no installed library, else its outermost one.

    A call into cutlass or triton is shown as the learner's line that made it.
    """
    if site is None or not site.places:
        return None
    for place in site.places:
        if not place.file.startswith(_libraries()) and "/site-packages/" not in place.file:
            return place
    return site.places[-1]


def place_and_opcode(site: Instruction | None) -> tuple[Any, ...]:
    """What makes two instructions one for a reader: the place in the source and the opcode, since
    compilers unroll loops. Without a place each instruction is its own."""
    place = learners_place(site)
    return (id(site),) if site is None or place is None else (place, site.opcode)


def source_line(place: Place | None) -> str:
    """The text of the line at ``place``, without the margins; "" when the file is not there."""
    return linecache.getline(place.file, place.line).strip() if place else ""


def place_to_json(place: Place | None) -> dict[str, Any] | None:
    if place is None:
        return None
    return {
        "file": place.file,
        "line": place.line,
        "column": place.column,
        "source": source_line(place),
    }


def ptx_to_json(site: Instruction | None) -> dict[str, Any] | None:
    return {"line": site.line, "text": site.text} if site is not None else None
