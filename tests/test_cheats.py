"""Every cheat that docs/how_grading_works.md names is rejected, and said to be what it is."""

from __future__ import annotations

import pytest

from checkers.exercise import Verdict
from tests.test_grader import finding_text, graded, grader, stage

__all__ = ["grader"]

SCALE = "ch90.triton_scale"
BODY = "    out = torch.empty_like(x)\n"


@pytest.mark.parametrize(
    ("name", "replace", "answer", "stage_name", "words"),
    [
        (
            "keeps results by object",
            (
                (
                    BODY,
                    BODY
                    + "    if KEPT.get('x') is x:\n        return KEPT['out']\n    KEPT.update(x=x, out=out)\n",
                ),
            ),
            "KEPT = {}",
            "run",
            "",
        ),
        (
            "keeps results by address",
            (
                (
                    BODY,
                    BODY
                    + "    key = x.data_ptr()\n    if key in KEPT:\n        return KEPT[key]\n    KEPT[key] = out\n",
                ),
            ),
            "KEPT = {}",
            "run",
            "",
        ),
        (
            "keeps results by content",
            (
                (
                    BODY,
                    BODY
                    + "    key = float(x.sum())\n    if key in KEPT:\n        return KEPT[key]\n    KEPT[key] = out\n",
                ),
            ),
            "KEPT = {}",
            "run",
            "computes with PyTorch (aten::sum)",
        ),
        (
            "returns the same memory every time",
            ((BODY, "    out = KEPT.setdefault(x.numel(), torch.empty_like(x))\n"),),
            "KEPT = {}",
            "run",
            "overwrote what the first one returned",
        ),
        (
            "writes to its input",
            ((BODY, "    out = x\n"),),
            "",
            "run",
            "Argument 1 was written to",
        ),
        (
            "calls the library",
            (("    return out", "    return torch.mul(x, factor)"),),
            "",
            "run",
            "computes with PyTorch (aten::mul)",
        ),
        (
            "calls the library by a name put together",
            (("    return out", "    return getattr(torch, 'm' + 'ul')(x, factor)"),),
            "",
            "run",
            "computes with PyTorch (aten::mul)",
        ),
        (
            "is right the first time only",
            ((BODY, BODY + "    KEPT.append(1)\n    if len(KEPT) > 1:\n        return out\n"),),
            "KEPT = []",
            "run",
            "",
        ),
        (
            "does only the first tile",
            (("scale_kernel[(triton.cdiv(x.numel(), 1024),)]", "scale_kernel[(1,)]"),),
            "",
            "run",
            "",
        ),
        ("reads the oracle", (), "import checkers.chapters", "source", "checkers"),
        (
            "reads the references",
            (),
            "from solutions import ch02_triton_softmax",
            "source",
            "solutions",
        ),
        ("finds the oracle by the garbage collector", (), "import gc", "source", "gc"),
        ("works on another stream", (), "SIDE = torch.cuda.Stream", "source", "Stream"),
        ("patches the clock", (), "import time\ntime.perf_counter = lambda: 0.0", "source", "time"),
        (
            "patches the timing events",
            (),
            "torch.cuda.Event.elapsed_time = lambda a, b: 1e-6",
            "source",
            "Event",
        ),
    ],
    ids=lambda value: value.replace(" ", "_") if isinstance(value, str) and " " in value else None,
)
def test_a_cheat_is_rejected(grader, name, replace, answer, stage_name, words):
    report = graded(grader, SCALE, *replace, answer=answer)
    assert report.verdict is Verdict.FAIL
    assert report.points == 0
    assert stage(report, stage_name).verdict is Verdict.FAIL
    assert words in finding_text(report)


def test_writing_to_the_result_pipe_changes_nothing(grader):
    forged = (
        "import os, json\n"
        "for fd in range(3, 40):\n"
        "    try:\n"
        '        os.write(fd, b\'{"event": "stage", "nonce": "guessed"}\\nnot json\\n\')\n'
        "    except OSError:\n"
        "        continue\n"
    )
    wrong = ("x * factor, mask=exists", "x, mask=exists")
    report = graded(grader, SCALE, wrong, answer=forged)
    assert stage(report, "run").verdict is Verdict.FAIL


def test_reseeding_does_not_bring_back_inputs(grader):
    report = graded(grader, SCALE, (BODY, "    torch.manual_seed(0)\n" + BODY))
    assert report.verdict is Verdict.PASS


def test_a_correct_but_reordered_kernel_passes(grader):
    backwards = (
        "tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "(tl.num_programs(0) - 1 - tl.program_id(0)) * BLOCK + (BLOCK - 1 - tl.arange(0, BLOCK))",
    )
    report = graded(grader, SCALE, backwards)
    assert stage(report, "run").verdict is Verdict.PASS
