"""Chapter 1, torch.compile: cases, oracles, rules, speed target, hints and known mistakes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import torch

from checkers.chapters.parts import ch01_mistakes
from checkers.exercise import (
    Bench,
    Case,
    Exercise,
    GraphRule,
    Implementation,
    Rung,
    SpeedTarget,
)

SOFTMAX_OF_THE_LIBRARY = (
    "torch.softmax",
    "torch.log_softmax",
    "torch.logsumexp",
    "torch.special.softmax",
    "torch.special.log_softmax",
    "torch.nn.functional.softmax",
    "torch.nn.functional.log_softmax",
    "torch.nn.functional.softmin",
    "torch.nn.Softmax",
    "torch.nn.LogSoftmax",
    "torch.ops",
    ".softmax",
    ".log_softmax",
    ".logsumexp",
)

COMPILED = GraphRule(
    "compiled",
    "graphs",
    "torch.compile never saw the function: it ran op by op.",
    at_least=1,
)
NO_BREAKS = GraphRule(
    "no_graph_breaks",
    "graph_breaks",
    "Dynamo had to leave the graph and go on in Python, so what lies on the two sides of that "
    "place can't be fused.",
    at_most=0,
)

# --- fused_softmax -----------------------------------------------------------------------------


def matrix(case: Case, generator: torch.Generator) -> tuple[torch.Tensor]:
    """(M, N), normal, in the case's dtype and with its peculiarity."""
    x = torch.randn(case["M"], case["N"], generator=generator)
    peculiarity = case.parameters.get("values", "normal")
    if peculiarity == "large":
        x = 200 + 50 * x
    elif peculiarity == "rows_far_apart":
        x += torch.linspace(-300, 300, case["M"])[:, None]
    elif peculiarity == "partly_minus_inf":
        x[:, ::3] = -torch.inf
    return (x.to(case.dtype),)


def softmax_oracle(x: torch.Tensor) -> torch.Tensor:
    return x.double().softmax(dim=-1)


def bytes_of_softmax(arguments: tuple) -> int:
    (x,) = arguments
    return 2 * x.numel() * x.element_size()


FUSED_SOFTMAX = Exercise(
    id="ch01.fused_softmax",
    title="Softmax from primitive operations, in one kernel",
    points=10,
    minutes=15,
    rung=Rung.TORCH,
    function="fused_softmax",
    section="What one decorator buys",
    cases=(
        Case(
            "plain", {"M": 16, "N": 1024, "dtype": "bfloat16"}, "the shape that is compiled first"
        ),
        Case("one_row", {"M": 1, "N": 1001, "dtype": "float32"}, "one row, of odd length"),
        Case(
            "large_values",
            {"M": 16, "N": 1024, "dtype": "bfloat16", "values": "large"},
            "exp(200) is infinite in float32",
        ),
        Case(
            "rows_far_apart",
            {"M": 16, "N": 1024, "dtype": "bfloat16", "values": "rows_far_apart"},
            "each row needs its own maximum",
        ),
        Case(
            "partly_minus_inf",
            {"M": 16, "N": 1024, "dtype": "bfloat16", "values": "partly_minus_inf"},
            "masked elements become 0",
        ),
        Case(
            "long_rows",
            {"M": 64, "N": 65536, "dtype": "bfloat16"},
            "rows too long for the registers",
            needs_gpu=True,
        ),
    ),
    inputs=matrix,
    oracle=softmax_oracle,
    reduction_length=lambda case: case["N"],
    forbidden=SOFTMAX_OF_THE_LIBRARY,
    rules=(
        COMPILED,
        NO_BREAKS,
        GraphRule(
            "one_graph",
            "graphs",
            "The function was cut into several graphs, and nothing is fused across a cut.",
            at_most=1,
        ),
        GraphRule("kernels_from_inductor", "kernels", "Inductor generated no kernel.", at_least=1),
        GraphRule(
            "one_kernel",
            "kernels",
            "A row softmax fits in one kernel: read x, reduce, write.",
            at_most=1,
        ),
    ),
    speed=(
        SpeedTarget(
            Case("n_1024", {"M": 2**19, "N": 1024, "dtype": "bfloat16"}, "2 GiB to be moved"),
            bytes_of_softmax,
        ),
    ),
    hints=(
        "Written as a loop over one row: what are the four passes, and which of them need the "
        "result of the one before for the whole row?",
        "float(), amax over the last dimension with keepdim, exp, sum with keepdim, division, and "
        "back to x.dtype; then one call of torch.compile with dynamic=False.",
        "numerator = torch.exp(wide - wide.amax(dim=-1, keepdim=True)), and "
        "return torch.compile(softmax_steps, dynamic=False)",
    ),
    diagnoses=ch01_mistakes.FUSED_SOFTMAX_DIAGNOSES,
    mistakes=ch01_mistakes.FUSED_SOFTMAX_MISTAKES,
)

# --- varying_rows ------------------------------------------------------------------------------

# (rows, valid columns) of each call. Few: on a CPU every compilation is a run of the C++ compiler.
REQUESTS = ((5, 100), (24, 1000), (1, 37), (17, 1024))
SHORT_REQUESTS = ((5, 100), (1, 37))


def requests(case: Case, generator: torch.Generator) -> tuple:
    """The largest batch, and how many rows and valid columns each call gets of it."""
    N = case["N"]
    x = torch.randn(max(rows for rows, _ in case["calls"]), N, generator=generator)
    values = case.parameters.get("values", "normal")
    if values == "negative":
        x -= 150  # exp(-150) is 0 in float32
    elif values == "very_negative":
        x -= 1e5
    elif values == "huge_padding":
        x[:, N // 2 :] = 1000
    return x.to(case.dtype), case["calls"]


def masked_oracle(x: torch.Tensor, calls: tuple) -> torch.Tensor:
    answers = []
    for rows, valid in calls:
        wide = x[:rows].double()
        wide[:, valid:] = -torch.inf
        answers.append(wide.softmax(dim=-1))
    return torch.cat(answers)


def call_in_turn(function: Callable, arguments: tuple) -> torch.Tensor:
    x, calls = arguments
    return torch.cat([function(x[:rows], valid) for rows, valid in calls])


VARYING_ROWS = Exercise(
    id="ch01.varying_rows",
    title="Batches of every size, compiled once",
    points=8,
    minutes=15,
    rung=Rung.TORCH,
    function="varying_softmax",
    section="Sizes that change",
    cases=(
        Case(
            "requests",
            {"N": 1024, "dtype": "bfloat16", "calls": REQUESTS},
            "four calls, no two of the same size",
        ),
        Case(
            "all_below_zero",
            {"N": 1024, "dtype": "bfloat16", "calls": SHORT_REQUESTS, "values": "negative"},
            "a padding of 0 would be the largest value of its row",
        ),
        Case(
            "far_below_zero",
            {"N": 1024, "dtype": "float32", "calls": SHORT_REQUESTS, "values": "very_negative"},
            "only -inf is below every number",
        ),
        Case(
            "huge_padding",
            {"N": 1024, "dtype": "bfloat16", "calls": SHORT_REQUESTS, "values": "huge_padding"},
            "what stands in the columns that do not count",
        ),
        Case(
            "odd_width",
            {"N": 1001, "dtype": "float32", "calls": ((3, 1001), (17, 999))},
            "another N and dtype may be compiled anew",
        ),
    ),
    inputs=requests,
    oracle=masked_oracle,
    call=call_in_turn,
    reduction_length=lambda case: case["N"],
    forbidden=SOFTMAX_OF_THE_LIBRARY,
    rules=(
        COMPILED,
        NO_BREAKS,
        GraphRule("kernels_from_inductor", "kernels", "Inductor generated no kernel.", at_least=1),
        GraphRule(
            "hardly_recompiled",
            "recompiles",
            "Calls of different sizes need two compilations: one for sizes that vary, and "
            "one for a single row, which Dynamo always treats as special.",
            at_most=1,
        ),
    ),
    hints=(
        "What does the compiled code assume about a size that it has seen only once? And about a "
        "Python int?",
        "torch.compile has an argument that makes sizes and ints variables from the first call on; "
        "torch._dynamo.mark_static takes single dimensions back out.",
        "return torch.compile(masked_steps, dynamic=True), after torch._dynamo.mark_static(x, 1)",
    ),
    diagnoses=ch01_mistakes.VARYING_ROWS_DIAGNOSES,
    mistakes=ch01_mistakes.VARYING_ROWS_MISTAKES,
)


# --- read_the_kernel ---------------------------------------------------------------------------

GENERATED = Path(__file__).parents[2] / "chapters" / "ch01_torch_compile" / "generated"


def generated_code(case: Case, generator: torch.Generator) -> tuple[str]:
    """A module that Inductor wrote, as the chapter keeps it."""
    return ((GENERATED / f"{case['module']}.txt").read_text(encoding="utf-8"),)


def reading_oracle(code: str) -> dict[str, int]:
    """From the syntax trees of the module and of its kernels."""
    module = ast.parse(code)
    kernels: dict[str, ast.FunctionDef] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and "async_compile" in ast.unparse(node.value):
            text = ast.parse(node.value.args[1].value)
            kernels[node.targets[0].id] = next(
                n for n in text.body if isinstance(n, ast.FunctionDef)
            )
    count = {"kernels": 0, "looped": 0, "x_loads": 0}
    for node in ast.walk(module):
        if not isinstance(node, ast.Call):
            continue
        kernel = kernels.get(ast.unparse(node.func).removesuffix(".run"))
        if kernel is None:
            continue
        count["kernels"] += 1
        count["looped"] += kernel.name.startswith("triton_red_")
        x_names = {
            parameter.arg
            for parameter, argument in zip(kernel.args.args, node.args, strict=False)
            if ast.unparse(argument) == "arg0_1"
        }
        count["x_loads"] += sum(
            isinstance(load, ast.Call)
            and ast.unparse(load.func) == "tl.load"
            and any(isinstance(n, ast.Name) and n.id in x_names for n in ast.walk(load.args[0]))
            for load in ast.walk(kernel)
        )
    return count


READ_THE_KERNEL = Exercise(
    id="ch01.read_the_kernel",
    title="Read what Inductor wrote",
    points=6,
    minutes=12,
    rung=Rung.PYTHON,
    function="read_kernel",
    section="Read the kernel",
    cases=(
        Case("softmax_1024", {"module": "softmax_1024"}, "whole rows in registers"),
        Case("rms_norm_1024", {"module": "rms_norm_1024"}, "another row reduction"),
        Case("softmax_8192", {"module": "softmax_8192"}, "rows that are walked block by block"),
        Case(
            "softmax_8192_three_passes",
            {"module": "softmax_8192_three_passes"},
            "maximum and sum in loops of their own",
        ),
        Case("gated_8192", {"module": "gated_8192"}, "a second input, which is not x"),
        Case("global_max_1024", {"module": "global_max_1024"}, "x goes to two of three kernels"),
        Case(
            "softmax_four_rows", {"module": "softmax_four_rows"}, "rows cut up among many programs"
        ),
    ),
    inputs=generated_code,
    oracle=reading_oracle,
    hints=(
        "In `call`, which of the kernels get arg0_1, and in which place of their parameters?",
        "The kernel's own name for x is the parameter at the place where arg0_1 is passed: count "
        "the loads that name it.",
        'x_loads += launch.body.count(f"tl.load({parameter} "), if argument == "arg0_1"',
    ),
    diagnoses=ch01_mistakes.READ_THE_KERNEL_DIAGNOSES,
    mistakes=ch01_mistakes.READ_THE_KERNEL_MISTAKES,
)

EXERCISES: tuple[Exercise, ...] = (FUSED_SOFTMAX, VARYING_ROWS, READ_THE_KERNEL)

# --- bench -------------------------------------------------------------------------------------

ELEMENTS = 2**29


def load_solution() -> Callable:
    from solutions.ch01_torch_compile import fused_softmax

    return fused_softmax


def load_eager_steps() -> Callable:
    from solutions.ch01_torch_compile import eager_softmax

    return eager_softmax


def load_eager() -> Callable:
    return lambda x: torch.softmax(x, dim=-1)


def load_compiled_library() -> Callable:
    # Without dynamic=False the second N would be compiled for any N, a slower kernel.
    return torch.compile(lambda x: torch.softmax(x, dim=-1), dynamic=False)


def load_multi_kernel() -> Callable:
    from solutions.ch01_torch_compile import multi_kernel_softmax

    return multi_kernel_softmax


BENCH: Bench | None = Bench(
    title="Row softmax, bfloat16, M*N = 2^29",
    cases=tuple(
        Case(f"n_{N}", {"M": ELEMENTS // N, "N": N, "dtype": "bfloat16"})
        for N in (256, 1024, 4096, 16384, 65536)
    ),
    inputs=matrix,
    work=lambda case: 2 * case["M"] * case["N"] * case.dtype.itemsize,
    implementations=(
        Implementation("solution", load_solution),
        Implementation("eager_steps", load_eager_steps),
        Implementation("eager", load_eager),
        Implementation("torch.compile", load_compiled_library),
        Implementation("multi_kernel", load_multi_kernel),
    ),
)
