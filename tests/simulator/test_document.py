"""docs/simulator.md shows what the simulator really says, and its code works."""

from __future__ import annotations

import re
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from checkers import simulator_page as documentation
from checkers.simulator.machine import building
from checkers.simulator.reports.fault_detection import FOUND
from checkers.simulator.reports.fault_kinds import Kind
from tests.simulator import document
from tests.simulator.harness import run_ptx

PAGE = document.PAGE.read_text(encoding="utf-8")


def test_outputs_are_those_of_today():
    assert len(document.OUTPUT.findall(PAGE)) >= 4
    assert document.rendered(PAGE) == PAGE, "python -m tests.simulator.document"


def test_the_picture_is_what_the_command_draws(tmp_path):
    drawn = tmp_path / "timeline.svg"
    document.output_of(f"ladder simulate docs/examples/pipeline.py --timeline {drawn}")
    assert drawn.read_text(encoding="utf-8") == document.PICTURE.read_text(encoding="utf-8"), (
        "python -m tests.simulator.document"
    )


def test_every_kind_of_fault_is_explained_and_reported_somewhere():
    assert list(FOUND) == list(Kind)
    rows = documentation.faults().splitlines()[2:]
    assert len(rows) == len(Kind)
    assert [row for row in rows if row.endswith("|  |")] == []


def test_every_kind_of_fault_is_found_by_some_test():
    tests = "\n".join(
        path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py")
    )
    assert [
        kind for kind in Kind if not re.search(rf"[\"']{kind}[\"']|Kind\.{kind.name}\b", tests)
    ] == []


def test_what_has_no_name_is_refused():
    with pytest.raises(ValueError, match="faults, golden"):
        documentation.render("fault")


def test_the_instruction_of_the_worked_example_works():
    building.load_families()
    code = re.search(r"<!-- example -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    test = re.search(r"<!-- example test -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    assert code and test
    names: dict = {"np": np, "run_ptx": run_ptx}
    with mock.patch.dict(building.TRANSLATORS), mock.patch.dict(building.SECTIONS):
        exec(compile(code[1], "docs/simulator.md", "exec"), names)
        exec(compile(test[1], "docs/simulator.md", "exec"), names)
        tests = [function for name, function in names.items() if name.startswith("test_")]
        assert tests
        for each in tests:
            each()
