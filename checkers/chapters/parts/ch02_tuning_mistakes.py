"""Wrong uses of the autotuner in ch02.autotune, and what is said about them."""

from __future__ import annotations

from dataclasses import replace

from checkers.chapters.parts import ch02_rows as given
from checkers.chapters.parts.ch02_mistakes import (
    BLOCK_MAXIMUM_OF_ROWS,
    OTHER,
    ROUNDED_DOWN,
    ROWS_UNMASKED,
    library,
    mistake,
)
from checkers.exercise import Diagnosis, Mistake
from checkers.grading import syntax

NO_KEY = Diagnosis(
    "The key is missing what the choice depends on: the first length was timed, and every other "
    "length gets its configuration. Name the rounded-up length in key.",
    given.TUNING,
    error="was kept for rows of",
)
KEY_HAS_ROWS = Diagnosis(
    "The key holds the number of rows: every new batch size times all configurations again. Leave "
    "M out: it decides how many programs there are, not how one of them works.",
    given.TUNING,
    error="only the number of rows changed",
)
ONE_CONFIGURATION = Diagnosis(
    "With one configuration there is nothing to choose, and Triton times nothing: give at least two.",
    given.TUNING,
    error="a single configuration",
)
NO_TUNER = Diagnosis(
    "The kernels that were launched are not decorated with @triton.autotune.",
    given.TUNING,
    error="no autotuned kernel",
)
IN_PLACE = Diagnosis(
    "The kernel reads and writes the same tensor. The tuner launches it many times: each launch "
    "takes the softmax of the last one's answer. Write to a tensor of its own (restore_value would "
    "also do, at the price of a copy before each launch).",
    given.TUNING,
    source=syntax.any_of(syntax.has_call(".clone"), syntax.has_call("torch.clone")),
)
TOO_LONG_FOR_WHOLE_ROWS = Diagnosis(
    "Rows of more than 8192 elements went to the kernel that holds whole rows, and no configuration "
    "of it is that large: from N = 8193 on, launch the kernel that walks over blocks.",
    given.TUNING,
    error="No valid autotuner configs",
)
# What older versions of Triton say when no configuration is left.
NONE_LEFT = replace(TOO_LONG_FOR_WHOLE_ROWS, error="min() ")
TUNING_DIAGNOSES = (
    NO_KEY,
    KEY_HAS_ROWS,
    ONE_CONFIGURATION,
    NO_TUNER,
    ROUNDED_DOWN,
    *given.COMMON,
    IN_PLACE,
    TOO_LONG_FOR_WHOLE_ROWS,
    NONE_LEFT,
    ROWS_UNMASKED,
    BLOCK_MAXIMUM_OF_ROWS,
    given.NOT_DIVIDED,
)

_TUNED_LAUNCH = "tuned_short_kernel[grid](x, y, M, N,"

AUTOTUNE = (
    mistake("no_key", NO_KEY, ('SHORT_KEY = ["BLOCK", "MANY"]', 'SHORT_KEY = ["MANY"]')),
    mistake(
        "no_key_for_long_rows", NO_KEY, ('LONG_KEY = ["LENGTH", "MANY"]', 'LONG_KEY = ["MANY"]')
    ),
    mistake(
        "key_has_rows",
        KEY_HAS_ROWS,
        ('SHORT_KEY = ["BLOCK", "MANY"]', 'SHORT_KEY = ["BLOCK", "M"]'),
    ),
    mistake(
        "one_configuration",
        ONE_CONFIGURATION,
        ('    triton.Config({"BLOCK": 4096}, num_warps=8),\n', ""),
        (
            '    triton.Config({"BLOCK": 16384}, num_warps=16, maxnreg=64),  # 2 programs an SM\n',
            "",
        ),
    ),
    mistake(
        "in_place",
        IN_PLACE,
        ("y = torch.empty_like(x)", "y = x.clone()"),
        (_TUNED_LAUNCH, "tuned_short_kernel[grid](y, y, M, N,"),
    ),
    mistake(
        "writes_the_input",
        given.INPUT_WRITTEN,
        (_TUNED_LAUNCH, "tuned_short_kernel[grid](x, x, M, N,"),
    ),
    mistake(
        "always_whole_rows",
        TOO_LONG_FOR_WHOLE_ROWS,
        ("if N <= 8192:", "if True:"),
        stage="compile",
    ),
    mistake(
        "rounded_down",
        ROUNDED_DOWN,
        (
            'triton.cdiv(M, meta["ELEMENTS"] // LENGTH)',
            'max(M // (meta["ELEMENTS"] // LENGTH), 1)',
        ),
    ),
    mistake(
        "missing_other",
        given.NO_OTHER,
        (f"x_stride + cols, mask=inside, {OTHER})", "x_stride + cols, mask=inside)"),
    ),
    mistake(
        "rows_unmasked",
        ROWS_UNMASKED,
        ("inside = (rows < M) & (cols < N)", "inside = (rows >= 0) & (cols < N)"),
    ),
    Mistake(
        "not_tuned",
        "run",
        NO_TUNER.says,
        answer="""
def tuned_softmax(x):
    M, N = matrix_shape(x)
    y = torch.empty_like(x)
    if x.numel():
        BLOCK = min(triton.next_power_of_2(N), 8192)
        strides = x.stride(0), y.stride(0)
        tuned_long_kernel.fn[(M,)](x, y, N, *strides, LENGTH=BLOCK, MANY=False, BLOCK=BLOCK, num_warps=8)
    return y
""",
    ),
    library("tuned_softmax"),
)
