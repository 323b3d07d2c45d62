"""The command with the real grader and its processes, on the tiny course."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from checkers.progress import Progress

TINY = Path(__file__).parent / "tiny"
STAGES = ["source", "compile", "run", "codegen", "speed"]


@pytest.fixture
def tiny(tmp_path: Path, in_course) -> Path:
    root = tmp_path / "course"
    shutil.copytree(TINY, root, ignore=shutil.ignore_patterns(".ladder", "__pycache__"))
    in_course(root)
    return root


def test_references_pass_through_the_command(tiny, ladder):
    outcome = ladder("check", "ch90.bytes_moved", "ch90.triton_scale", "--solution", "--json", "-")
    assert outcome.status == 0, outcome.err
    simple, triton = json.loads(outcome.out)["exercises"]
    assert simple["points"] == simple["max_points"] == 4
    stages = {stage["name"]: stage["verdict"] for stage in triton["stages"]}
    assert set(stages) <= set(STAGES)
    assert stages["run"] == "pass"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "def bytes_moved(elements, itemsize):\n    return elements * itemsize\n",
            "Wanted 4000, got 2000",
        ),
        ("def bytes_moved(elements, itemsize:\n", "ch90.bytes_moved"),
        ("import os\n\ndef bytes_moved(elements, itemsize):\n    os._exit(3)\n", "exit"),
        ("def another(elements, itemsize):\n    return 1\n", "bytes_moved"),
    ],
    ids=["wrong", "syntax_error", "exits", "missing_function"],
)
def test_a_wrong_file_exits_1_and_names_the_cause(tiny, ladder, tmp_path, source, said):
    mine = tmp_path / "mine.py"
    mine.write_text(source)
    outcome = ladder("check", "ch90.bytes_moved", "--file", str(mine))
    assert outcome.status == 1, outcome.err
    assert said in outcome.out
    assert "Replay" in outcome.out
    assert Progress(tiny).status("ch90.bytes_moved") == "fail"
