"""Exceptions of Python, PyTorch and CUDA, as a learner reads them."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest
import torch

from checkers.exercise import Finding
from checkers.grading.error_hints import MESSAGES, hint_for
from checkers.grading.error_hints_cute import CUTE_CODES, CUTE_FAMILIES
from checkers.grading.errors import LONGEST_TEXT, clean, error_text, explain, shorten

SETUP = "import torch\n\n"


def explained(cell: str, folder: Path) -> tuple[Finding, str]:
    """Runs SETUP and a cell from a file; the Finding and the error text of what it raises."""
    path = folder / "answer.py"
    path.write_text(SETUP + cell)
    linecache.checkcache()
    try:
        exec(compile(SETUP + cell, str(path), "exec"), {})
    except BaseException as error:
        return explain(error, SETUP + cell, str(path), SETUP.count("\n") + 1), error_text(error)
    raise AssertionError("nothing was raised")


def test_the_line_is_counted_from_the_cell_and_marked(tmp_path: Path) -> None:
    finding, text = explained("x = 1\ny = 10 + x / 0\n", tmp_path)
    assert finding.summary == "line 2: ZeroDivisionError: division by zero"
    assert finding.picture == "   2 | y = 10 + x / 0\n                ^^^^^"
    assert text == "ZeroDivisionError: division by zero"


def test_the_innermost_line_of_the_answer_is_shown_not_the_librarys(tmp_path: Path) -> None:
    cell = "def f(a):\n    return torch.zeros(2) + a\n\nf(torch.zeros(3))\n"
    finding, _ = explained(cell, tmp_path)
    assert finding.summary.startswith("line 2: RuntimeError: The size of tensor a (2) must match")
    assert "keepdim=True" in finding.probable


def test_a_missing_import_says_what_to_add(tmp_path: Path) -> None:
    finding, _ = explained("def f():\n    return math.pi\nf()\n", tmp_path)
    assert finding.summary == "line 2: NameError: name 'math' is not defined"
    assert finding.probable == (
        "Add import math: a cell gets the notebook's setup cell and nothing else, a file gets "
        "only itself."
    )


def test_a_misspelt_name_is_guessed(tmp_path: Path) -> None:
    finding, _ = explained("def row_softmax(x): ...\nrow_sofmax(1)\n", tmp_path)
    assert finding.probable == "Did you mean row_softmax?"


def test_another_cells_name_is_not_there(tmp_path: Path) -> None:
    finding, _ = explained("helper_of_another_exercise(1)\n", tmp_path)
    assert "what other cells define is not there" in finding.probable


def test_a_variable_set_on_some_paths_only(tmp_path: Path) -> None:
    cell = "def f(a):\n    if a:\n        y = 1\n    return y\nf(0)\n"
    finding, _ = explained(cell, tmp_path)
    assert finding.summary.startswith("line 4: UnboundLocalError")
    assert finding.probable.startswith("y gets its value on some paths only")


def test_an_error_in_the_setup_cell_is_named_so(tmp_path: Path) -> None:
    path = tmp_path / "answer.py"
    source = "x = 1 / 0\ny = 2\n"
    path.write_text(source)
    with pytest.raises(ZeroDivisionError) as caught:
        exec(compile(source, str(path), "exec"), {})
    finding = explain(caught.value, source, str(path), first_line=2)
    assert finding.summary == "setup cell, line 1: ZeroDivisionError: division by zero"
    assert finding.picture.startswith("   1 | x = 1 / 0")


def test_an_exit_is_no_way_to_return(tmp_path: Path) -> None:
    finding, text = explained("import sys\nsys.exit(3)\n", tmp_path)
    assert finding.summary == "line 2: SystemExit: 3"
    assert "never exits" in finding.probable
    assert text == "SystemExit: 3"


def test_an_error_from_elsewhere_has_no_line() -> None:
    finding = explain(ValueError("odd"), "x = 1\n", "answer.py")
    assert (finding.summary, finding.picture) == ("ValueError: odd", "")


def test_a_syntax_error_at_import(tmp_path: Path) -> None:
    path = tmp_path / "answer.py"
    source = SETUP + "def f(:\n    pass\n"
    with pytest.raises(SyntaxError) as caught:
        compile(source, str(path), "exec")
    finding = explain(caught.value, source, str(path), SETUP.count("\n") + 1)
    assert finding.summary == "a syntax error on line 1: invalid syntax"
    assert finding.picture == "   1 | def f(:\n             ^"


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("CUDA error: an illegal memory access was encountered", "outside of a tensor"),
        ("CUDA error: misaligned address", "multiples of 16"),
        ("CUDA error: invalid configuration argument", "at most 1024 threads"),
        ("CUDA error: too many resources requested for launch", "more registers or shared memory"),
        ("CUDA error: unspecified launch failure", "crashed"),
        ("Torch not compiled with CUDA enabled", "no NVIDIA GPU"),
        ("CUDA out of memory. Tried to allocate 2.00 GiB", "memory is full"),
        ("out of resource: shared memory, Required: 300000, Hardware limit: 232448", "num_stages"),
        ("Pointer argument cannot be accessed from Triton (cpu tensor?)", "device=x.device"),
    ],
)
def test_what_only_a_gpu_raises_has_a_hint(text: str, piece: str) -> None:
    assert piece in explain(RuntimeError(text), "", "answer.py").probable


def test_torch_raises_its_own_way_without_a_gpu(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU: nothing to raise")
    finding, _ = explained("torch.zeros(2, device='cuda')\n", tmp_path)
    assert "no NVIDIA GPU here" in finding.probable


COMPILED = {
    "    if x.sum() > 0:\n        return x\n    return -x\n": ("branching", 3, "torch.where"),
    "    print(x)\n    return -x\n": ("`print`", 3, "can't put this into one graph"),
    "    return x + torch.zeros(3)\n": ("broadcast", 3, "keepdim=True"),
    "    return x * math.pi\n": ("name `math`", 3, "must import what it uses"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("body", COMPILED)
def test_what_torch_compile_says(body: str, tmp_path: Path) -> None:
    what, line, hint = COMPILED[body]
    cell = f"@torch.compile(fullgraph=True)\ndef f(x):\n{body}\nf(torch.zeros(2))\n"
    finding, _ = explained(cell, tmp_path)
    assert finding.summary.startswith(f"line {line}: ") and what in finding.summary
    assert "Hint:" not in finding.summary
    assert hint in finding.probable


def test_an_error_raised_from_another_speaks_for_itself(tmp_path: Path) -> None:
    finding, _ = explained("torch.compile(lambda x: x, mode='fastest')(torch.zeros(2))\n", tmp_path)
    assert "Unrecognized mode=fastest" in finding.summary
    assert "max-autotune" in finding.probable


def test_colours_and_pictograms_are_taken_out() -> None:
    assert clean("\x1b[91m\x1b[1merror:\x1b[0m  💥 odd\n  thing 🧊🧊") == "error: odd thing"


def test_long_messages_end_with_a_sentence() -> None:
    text = "First sentence is here and is long enough to be kept alone. " * 3 + "word " * 100
    assert shorten(text).endswith("alone.")
    assert len(shorten("word " * 200)) <= LONGEST_TEXT


def test_every_hint_is_said_in_whole_sentences() -> None:
    hints = [*CUTE_CODES.values(), *CUTE_FAMILIES.values(), *(hint for _, hint in MESSAGES)]
    assert all(hint.endswith((".", "?")) and 20 < len(hint) < 340 for hint in hints)


def test_nothing_known_has_no_hint() -> None:
    assert hint_for("", "strange", "StrangeError") == ""
