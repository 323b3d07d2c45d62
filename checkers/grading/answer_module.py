"""Runs an answer's source as a module of its own, from a real file.

Triton and CuTe DSL read a function's source from its file, so the answer gets one.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from checkers.exercise import Exercise, Finding

MODULE_NAME = "answer"


def load(job: Mapping[str, Any], tag: str = "") -> ModuleType:
    """The module that the job's setup and source make.

    job: "setup" and "source" texts, "scratch" folder.  tag: tells apart several loads in a process.
    Raises whatever the answer raises at import.
    """
    path = file_of(job, tag)
    path.write_text(job["setup"] + job["source"], encoding="utf-8")
    spec = importlib.util.spec_from_file_location(MODULE_NAME + tag, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE_NAME + tag] = module
    spec.loader.exec_module(module)
    return module


def file_of(job: Mapping[str, Any], tag: str = "") -> Path:
    """Where ``load`` puts the source."""
    return Path(job["scratch"], f"{MODULE_NAME}{tag}.py")


def setup_lines(job: Mapping[str, Any]) -> int:
    """How many lines of the file stand above the answer's own first line."""
    return job["setup"].count("\n")


def missing_function(exercise: Exercise, module: ModuleType) -> Finding | None:
    """What is wrong with the name that the answer must define, if anything."""
    found = getattr(module, exercise.function, None)
    if callable(found):
        return None
    what = "does not define it" if found is None else f"makes it a {type(found).__name__}"
    return Finding(
        f"The answer must define a function `{exercise.function}`; it {what}.",
        probable=f"Keep the line `def {exercise.function}(...)` as the exercise gives it.",
    )
