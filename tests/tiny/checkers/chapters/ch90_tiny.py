"""The tiny course's exercises."""

from __future__ import annotations

import torch

from checkers.exercise import (
    Case,
    Diagnosis,
    Exercise,
    GraphRule,
    Mistake,
    Rule,
    Rung,
    Tolerance,
)


def vector(case: Case, generator: torch.Generator) -> tuple:
    return (torch.randn(case["n"], generator=generator),)


VECTORS = (
    Case("aligned", {"n": 2048}),
    Case("tail_1", {"n": 1025}, why="one element past a tile"),
    Case("single", {"n": 1}),
)
HINTS = ("What is asked?", "Write the formula.", "The key line.")

BYTES = Exercise(
    id="ch90.bytes_moved",
    title="Bytes of a copy",
    points=4,
    minutes=5,
    rung=Rung.PYTHON,
    function="bytes_moved",
    section="Bytes",
    cases=(
        Case("bf16", {"elements": 1000, "itemsize": 2}),
        Case("fp32", {"elements": 7, "itemsize": 4}),
    ),
    inputs=lambda case, generator: (case["elements"], case["itemsize"]),
    oracle=lambda elements, itemsize: 2 * elements * itemsize,
    hints=HINTS,
    mistakes=(
        Mistake(
            "reads_only",
            "run",
            "written as well",
            replace=(("return 2 * elements", "return elements"),),
        ),
    ),
    diagnoses=(Diagnosis("Each element is written as well as read.", "Bytes"),),
)

GELU = Exercise(
    id="ch90.compiled_gelu",
    title="A compiled GELU",
    points=10,
    minutes=5,
    rung=Rung.TORCH,
    function="compiled_gelu",
    section="Fusion",
    cases=VECTORS[:2],
    inputs=vector,
    oracle=lambda x: x.double() * torch.sigmoid(1.702 * x.double()),
    hints=HINTS,
    mistakes=(),
    forbidden=("torch.nn.functional.gelu",),
    rules=(GraphRule("one_kernel", "kernels", "Wanted one kernel.", at_most=1),),
)

SCALE = Exercise(
    id="ch90.triton_scale",
    title="Scale in Triton",
    points=10,
    minutes=5,
    rung=Rung.TRITON,
    function="triton_scale",
    section="Masks",
    cases=VECTORS,
    inputs=lambda case, generator: (*vector(case, generator), 3.0),
    oracle=lambda x, factor: x.double() * factor,
    hints=HINTS,
    mistakes=(
        Mistake(
            "missing_store_mask",
            "run",
            "past the end",
            replace=(("x * factor, mask=exists", "x * factor"),),
        ),
    ),
    rules=(Rule("wide_loads", "ld.global", "Wanted 128-bit loads.", min_bits=128, at_least=1),),
)

COPY = Exercise(
    id="ch90.cute_copy",
    title="Copy in CuTe DSL",
    points=10,
    minutes=5,
    rung=Rung.CUTE,
    function="cute_copy",
    section="Copies",
    cases=VECTORS,
    inputs=vector,
    oracle=lambda x: x,
    tolerance=Tolerance(exact=True),
    hints=HINTS,
    mistakes=(),
    rules=(Rule("no_shared", "st.shared", "Shared memory is not needed.", at_most=0),),
)

EXERCISES = (BYTES, GELU, SCALE, COPY)
BENCH = None
