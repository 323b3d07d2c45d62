"""docs/benchmarking.md names only what tests/gpu/timing_pitfalls.py measures."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "benchmarking.md").read_text(encoding="utf-8")


def measured() -> set[str]:
    tree = ast.parse((ROOT / "tests" / "gpu" / "timing_pitfalls.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "PITFALLS":
            assert isinstance(node.value, ast.Tuple)
            return {ast.unparse(name) for name in node.value.elts}
    raise AssertionError("timing_pitfalls.py has no PITFALLS")


def test_every_pitfall_is_measured_and_shown() -> None:
    assert set(re.findall(r"pitfall=(\w+)", PAGE)) == measured()


def test_no_number_begins_a_line() -> None:
    """A comment at the beginning of a line ends a Markdown paragraph."""
    assert not re.findall(r"^<!-- data: (?:value|ratio|provenance)", PAGE, re.MULTILINE)
