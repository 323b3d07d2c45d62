"""The source stage: what can be said of an answer without running it."""

from __future__ import annotations

import pytest

from checkers.exercise import Case, Diagnosis, Exercise, Rung, Stage, Verdict
from checkers.grading.source import check_source

SKELETON = '''\
import torch

def double(x):
    """Twice x."""
    # YOUR CODE HERE: return twice x (1 line)
    raise NotImplementedError("return twice x (1 line)")
'''
SOLUTION = "import torch\n\ndef double(x):\n    return x + x\n"


def exercise(**fields: object) -> Exercise:
    standard: dict = {
        "id": "ch00.double",
        "title": "Double",
        "points": 1,
        "minutes": 1,
        "rung": Rung.PYTHON,
        "function": "double",
        "section": "Double",
        "cases": (Case("one"),),
        "inputs": lambda case, generator: (),
        "oracle": lambda: None,
        "hints": ("a", "b", "c"),
        "mistakes": (),
    }
    return Exercise(**(standard | fields))


def graded(source: str, first_line: int = 1, **fields: object) -> Stage:
    return check_source(exercise(**fields), source, SKELETON, first_line)


def test_a_filled_blank_passes() -> None:
    stage = graded(SOLUTION)
    assert (stage.name, stage.verdict, stage.finding) == ("source", Verdict.PASS, None)


@pytest.mark.parametrize(
    "untouched",
    [SKELETON, SKELETON + "\n# thinking ...\n", SKELETON.replace('    """Twice x."""\n', "")],
)
def test_an_untouched_skeleton_is_not_attempted(untouched: str) -> None:
    assert graded(untouched).verdict is Verdict.NOT_ATTEMPTED


def test_code_beside_the_blank_is_not_enough() -> None:
    stage = graded(SKELETON.replace("    # YOUR", "    y = 2 * x\n    # YOUR"))
    assert stage.verdict is Verdict.FAIL
    assert stage.reason == "a blank is not filled: line 7: return twice x (1 line)"
    assert stage.finding is not None
    assert stage.finding.picture.startswith("   7 |     raise NotImplementedError(")


def test_a_syntax_error_is_shown_with_a_caret() -> None:
    stage = graded("import torch\n\ndef double(x):\n    return x +* x\n")
    assert stage.reason == "a syntax error on line 4: invalid syntax"
    assert stage.finding is not None
    assert stage.finding.picture == "   4 |     return x +* x\n" + " " * 21 + "^"


def test_a_wrong_indentation_is_called_so() -> None:
    stage = graded("def double(x):\nreturn x\n")
    assert stage.reason.startswith("a wrong indentation on line 2: expected an indented block")


def test_a_null_byte_is_no_crash() -> None:
    assert graded("def double(x):\n    return 1\x00\n").verdict is Verdict.FAIL


def test_lines_are_counted_from_the_cell() -> None:
    stage = graded("import torch\n\ndef double(x):\n    return x +* x\n", first_line=3)
    assert stage.reason.startswith("a syntax error on line 2")
    assert stage.finding is not None and stage.finding.picture.startswith("   2 | ")


def test_a_missing_function_names_what_is_there() -> None:
    stage = graded("def triple(x):\n    return 3 * x\n")
    assert stage.reason == "there is no function double"
    assert stage.finding is not None and "Defined are: triple." in stage.finding.probable


@pytest.mark.parametrize("source", ["", "# def double(x): return 2 * x\n", "import torch\n"])
def test_an_empty_answer_fails(source: str) -> None:
    assert graded(source).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    "source",
    [
        "double = lambda x: x + x\n",
        "def twice(x):\n    return x + x\ndouble = twice\n",
        "from mine import *\n",
        "if True:\n    def double(x):\n        return x + x\n",
        "import functools\ndouble = functools.partial(max, 2)\n",
    ],
)
def test_a_function_may_come_about_in_any_way(source: str) -> None:
    assert graded(source).verdict is Verdict.PASS


def test_a_constant_is_no_function() -> None:
    assert graded("double = 3\n").reason == "double is not a function: it is set to 3"
    assert "async" in graded("async def double(x):\n    return x\n").reason


FORBIDDEN = {
    "import checkers.course\n": "checkers",
    "from solutions import ch02_triton_softmax\n": "solutions",
    "import gc\n": "gc",
    "import ctypes as c\n": "ctypes",
    "import importlib\n": "importlib",
    "m = __import__('os')\n": "__import__",
    "exec('x = 1')\n": "exec",
    "y = eval('1')\n": "eval",
    "t = open('solutions/ch02.py').read()\n": "open",
    "from pathlib import Path\n": "pathlib",
    "import sys\nm = sys.modules['torch']\n": "sys.modules",
    "import sys\nf = sys._getframe(1)\n": "sys._getframe",
    "import inspect\nf = inspect.currentframe().f_back\n": "inspect.currentframe",
    "import threading\n": "threading",
    "s = torch.cuda.Stream()\n": "torch.cuda.Stream",
    "with torch.cuda.stream(s): pass\n": "torch.cuda.stream",
    "from torch.cuda import Stream as S\n": "torch.cuda.Stream",
    "import os\nos.environ['TRITON_INTERPRET'] = '0'\n": "writing to os.environ",
    "import os\nos.environ.update(A='1')\n": "writing to os.environ",
    "import os\ndel os.environ['A']\n": "writing to os.environ",
    "from os import environ as e\ne.setdefault('A', '1')\n": "writing to os.environ",
    "import time\ntime.perf_counter = lambda: 0\n": "setting time.perf_counter",
    "torch.cuda.Event.elapsed_time = lambda a, b: 1e-3\n": "setting torch.cuda.Event.elapsed_time",
    "setattr(torch.cuda, 'Event', int)\n": "setting torch.cuda",
    "g = double.__globals__\n": ".__globals__",
}


@pytest.mark.parametrize("line", FORBIDDEN)
def test_the_grader_is_out_of_bounds(line: str) -> None:
    stage = graded(SOLUTION + line)
    assert stage.verdict is Verdict.FAIL
    assert stage.reason.startswith(f"{FORBIDDEN[line]} may not be used here (line ")


@pytest.mark.parametrize(
    "line",
    [
        "stream = torch.cuda.current_stream().cuda_stream\n",
        "import os\ncores = os.environ.get('CORES')\n",
        "torch.backends.cuda.matmul.allow_tf32 = True\n",
        "model.eval()\n",
        "self.gc = 1\n",
        "t = 'import gc'  # exec('x')\n",
        "import cuda.bindings.driver as cuda\ns = cuda.CUstream(0)\n",
        "compiled = cute.compile(double)\n",
        "x.grad = None\n",
    ],
)
def test_what_an_honest_answer_writes_is_allowed(line: str) -> None:
    assert graded(SOLUTION + line).verdict is Verdict.PASS


@pytest.mark.parametrize(
    "line",
    [
        "y = torch.softmax(x, 0)\n",
        "y = torch.nn.functional.softmax(x)\n",
        "from torch.nn.functional import softmax\n",
        "from torch.nn.functional import *\n",
        "y = x.softmax(0)\n",
        "f = getattr(torch, 'softmax')\n",
    ],
)
def test_what_the_exercise_forbids_is_found_in_every_spelling(line: str) -> None:
    forbidden = ("torch.softmax", "F.softmax", ".softmax")
    stage = graded(SOLUTION + line, forbidden=forbidden)
    assert stage.verdict is Verdict.FAIL
    assert "softmax may not be used here" in stage.reason
    assert graded(SOLUTION + line.replace("softmax", "sum"), forbidden=forbidden)


def test_the_first_trespass_is_shown_with_its_line() -> None:
    stage = graded(SOLUTION + "import gc\nimport ctypes\n")
    assert stage.reason.startswith("gc may not be used here (line 5)")
    assert stage.finding is not None
    assert stage.finding.picture.splitlines()[0] == "   5 | import gc"


def test_a_diagnosis_of_the_exercise_explains_a_trespass() -> None:
    diagnosis = Diagnosis("Write the loop yourself.", "Loops", error="check:forbidden:torch.sum")
    stage = graded(SOLUTION + "torch.sum(x)\n", forbidden=("torch.sum",), diagnoses=(diagnosis,))
    assert stage.finding is not None
    assert (stage.finding.probable, stage.finding.reread) == ("Write the loop yourself.", "Loops")
