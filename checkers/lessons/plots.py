"""The plots of the committed speed tables: docs/pictures/bench_*.svg from docs/data/bench_*.json.

A plot carries the digest of its data. It is stale when that is not the data's; the drawing itself
may differ in its bytes from one release of matplotlib to the next.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from checkers.bench_report import digest, plot
from checkers.course import Course


def build_plots(course: Course, check: bool) -> list[Path]:
    """Draws the plots that are stale; returns their paths. check: draw nothing."""
    changed = []
    for source in sorted((course.root / "docs" / "data").glob("bench_*.json")):
        data = json.loads(source.read_text(encoding="utf-8"))
        target = course.root / "docs" / "pictures" / f"{source.stem}.svg"
        if target.is_file() and digest(data) in target.read_text(encoding="utf-8"):
            continue
        changed.append(target)
        if not check:
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory() as folder:
                drawn, _ = plot(data, Path(folder, source.stem))
                shutil.move(drawn, target)
    return changed
