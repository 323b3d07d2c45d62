"""Chapter 1, torch.compile: cases, oracles, rules, speed target, hints and known mistakes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from checkers.exercise import (
    Bench,
    Case,
    Diagnosis,
    Exercise,
    GraphRule,
    Implementation,
    Mistake,
    Rung,
    SpeedTarget,
)
from checkers.grading.syntax import has_call, no_call

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
            "plain", {"M": 64, "N": 1024, "dtype": "bfloat16"}, "the shape that is compiled first"
        ),
        Case("one_row", {"M": 1, "N": 1001, "dtype": "float32"}, "one row, of odd length"),
        Case(
            "large_values",
            {"M": 64, "N": 1024, "dtype": "bfloat16", "values": "large"},
            "exp(200) is infinite in float32",
        ),
        Case(
            "rows_far_apart",
            {"M": 64, "N": 1024, "dtype": "bfloat16", "values": "rows_far_apart"},
            "each row needs its own maximum",
        ),
        Case(
            "partly_minus_inf",
            {"M": 64, "N": 1024, "dtype": "bfloat16", "values": "partly_minus_inf"},
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
    diagnoses=(
        Diagnosis(
            "Somewhere the function prints. A print can't be in a kernel: Dynamo compiles what "
            "comes before, prints, and compiles the rest as a second graph.",
            reread="What cuts a graph",
            error="rule:no_graph_breaks",
            source=has_call("print"),
        ),
        Diagnosis(
            ".item() asks for the number now, so the GPU must finish and Python must go on: "
            "the graph ends there. Keep the value in a tensor.",
            reread="What cuts a graph",
            error="rule:no_graph_breaks",
            source=has_call(".item"),
        ),
        Diagnosis(
            "Something in the function needs Python: a print, .item(), a library that Dynamo does "
            "not know. `TORCH_LOGS=graph_breaks` names the line.",
            reread="What cuts a graph",
            error="rule:no_graph_breaks",
        ),
        Diagnosis(
            "Only calls through what torch.compile returned are compiled: return "
            "torch.compile(softmax_steps, ...), not softmax_steps.",
            reread="What one decorator buys",
            error="rule:compiled",
        ),
        Diagnosis(
            "Two compiled functions are two kernels, and what passes between them goes through "
            "memory: compile the whole once. A Python `if` on a tensor's values cuts as well.",
            reread="What cuts a graph",
            error="rule:one_graph",
        ),
        Diagnosis(
            'With backend="eager" or "aot_eager" the graph is captured and then run op by op: '
            "only Inductor, the default, writes kernels.",
            reread="What one decorator buys",
            error="rule:kernels_from_inductor",
        ),
        Diagnosis(
            "A step needs a result over all rows before any row can go on, so one kernel must end "
            "before the next begins: reduce over the last dimension only.",
            reread="What can be fused",
            error="rule:one_kernel",
        ),
        Diagnosis(
            "Convert back with .to(x.dtype): otherwise the output is twice as large as asked for, "
            "and so is the time to write it.",
            reread="Wide inside, narrow outside",
            error="check:dtype",
        ),
        Diagnosis(
            "exp overflows: subtract the row's maximum first, then the largest exponent is 0.",
            reread="Softmax in four steps",
            cases=frozenset({"large_values"}),
            passing=frozenset({"plain"}),
            source=no_call(".amax"),
        ),
        Diagnosis(
            "One maximum for the whole matrix: a row far below it becomes 0/0. Every row needs its "
            "own, amax(dim=-1, keepdim=True).",
            reread="Softmax in four steps",
            cases=frozenset({"rows_far_apart"}),
            passing=frozenset({"plain"}),
        ),
        Diagnosis(
            "The rows are divided by a sum that is not their own: sum over the last dimension, "
            "with keepdim=True so that it broadcasts back over the row.",
            reread="Softmax in four steps",
            cases=frozenset({"plain"}),
            passing=frozenset({"one_row"}),
        ),
        Diagnosis(
            "A row of the answer should sum to 1: look at the dimension of amax and of sum.",
            reread="Softmax in four steps",
            cases=frozenset({"plain"}),
        ),
    ),
    mistakes=(
        Mistake(
            "not_compiled",
            "codegen",
            "Only calls through what torch.compile returned are compiled",
            replace=(
                ("return torch.compile(softmax_steps, dynamic=False)", "return softmax_steps"),
            ),
        ),
        Mistake(
            "captured_but_not_generated",
            "codegen",
            "only Inductor, the default, writes kernels",
            replace=(("dynamic=False)", 'dynamic=False, backend="eager")'),),
        ),
        Mistake(
            "a_print_inside",
            "codegen",
            "A print can't be in a kernel",
            replace=(("    row_max = ", '    print("rows:", x.shape[0])\n    row_max = '),),
        ),
        Mistake(
            "the_number_asked_for",
            "codegen",
            "the graph ends there",
            replace=(
                (
                    "    row_max = wide.amax(dim=-1, keepdim=True)\n",
                    "    row_max = wide.amax(dim=-1, keepdim=True)\n"
                    "    if row_max.isnan().any().item():\n"
                    '        raise ValueError("x has NaNs")\n',
                ),
            ),
        ),
        Mistake(
            "two_compiled_halves",
            "codegen",
            "what passes between them goes through memory",
            answer="""\
@torch.compile(dynamic=False)
def numerators(x):
    wide = x.float()
    return torch.exp(wide - wide.amax(dim=-1, keepdim=True))


@torch.compile(dynamic=False)
def quotients(numerator):
    return numerator / numerator.sum(dim=-1, keepdim=True)


def fused_softmax(x):
    return quotients(numerators(x)).to(x.dtype)
""",
        ),
        Mistake(
            "softmax_of_the_library",
            "source",
            "torch.softmax",
            replace=(
                ("    row_max = wide.amax(dim=-1, keepdim=True)\n", ""),
                ("    numerator = torch.exp(wide - row_max)\n", ""),
                (
                    "(numerator / numerator.sum(dim=-1, keepdim=True))",
                    "torch.softmax(wide, dim=-1)",
                ),
            ),
        ),
        Mistake(
            "no_maximum",
            "run",
            "exp overflows",
            replace=(
                ("    row_max = wide.amax(dim=-1, keepdim=True)\n", ""),
                ("torch.exp(wide - row_max)", "torch.exp(wide)"),
            ),
        ),
        Mistake(
            "one_maximum_for_all_rows",
            "run",
            "Every row needs its own",
            replace=(("wide.amax(dim=-1, keepdim=True)", "wide.amax()"),),
        ),
        Mistake(
            "one_sum_for_all_rows",
            "run",
            "divided by a sum that is not their own",
            replace=(("numerator.sum(dim=-1, keepdim=True)", "numerator.sum()"),),
        ),
        Mistake(
            "down_the_columns",
            "run",
            "look at the dimension of amax and of sum",
            replace=(
                ("wide.amax(dim=-1, keepdim=True)", "wide.amax(dim=0, keepdim=True)"),
                ("numerator.sum(dim=-1, keepdim=True)", "numerator.sum(dim=0, keepdim=True)"),
            ),
        ),
        Mistake(
            "left_in_float32",
            "run",
            "Convert back with .to(x.dtype)",
            replace=((".to(x.dtype)", ""),),
        ),
    ),
)

# --- varying_rows ------------------------------------------------------------------------------

# (rows, valid columns) of each call. Few: on a CPU every compilation is a run of the C++ compiler.
REQUESTS = ((5, 100), (64, 1000), (1, 37), (33, 1024))
SHORT_REQUESTS = ((5, 100), (1, 37))


def requests(case: Case, generator: torch.Generator) -> tuple:
    """The largest batch, and how many rows and valid columns each call gets of it."""
    N = case["N"]
    x = torch.randn(max(rows for rows, _ in case["calls"]), N, generator=generator)
    values = case.parameters.get("values", "normal")
    if values == "negative":
        x -= 150  # exp(-150) is 0 in float32
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
    diagnoses=(
        Diagnosis(
            "With dynamic=False every number of rows and every `valid` is compiled anew; after "
            "eight, Dynamo gives up and runs op by op.",
            reread="Sizes that change",
            error="rule:hardly_recompiled",
            source=lambda tree: _argument_of_compile(tree, "dynamic") is False,
        ),
        Diagnosis(
            "By default the first call's sizes are constants, and only a second compilation makes "
            "them variables: ask for dynamic=True at once.",
            reread="Sizes that change",
            error="rule:hardly_recompiled",
            source=lambda tree: _argument_of_compile(tree, "dynamic") is None,
        ),
        Diagnosis(
            "mark_static without a dimension makes the number of rows a constant too: name the "
            "dimension that stays, mark_static(x, 1).",
            reread="Sizes that change",
            error="rule:hardly_recompiled",
            source=lambda tree: _marks_all_static(tree),
        ),
        Diagnosis(
            "A Python `if` on a size becomes a guard: the branch not taken is compiled anew when "
            "its turn comes. Write it as one formula for all sizes.",
            reread="Guards",
            error="rule:hardly_recompiled",
        ),
        Diagnosis(
            "Only calls through what torch.compile returned are compiled: return "
            "torch.compile(masked_steps, ...), not masked_steps.",
            reread="What one decorator buys",
            error="rule:compiled",
        ),
        Diagnosis(
            "Something in the function needs Python, such as a print or .item(): the graph ends "
            "there.",
            reread="What cuts a graph",
            error="rule:no_graph_breaks",
        ),
        Diagnosis(
            "Padding with 0 wins the maximum in a row of negative numbers, and next to it every real "
            "exponential becomes 0: columns that do not count must be -inf before the maximum.",
            reread="Columns that do not count",
            cases=frozenset({"all_below_zero"}),
            passing=frozenset({"huge_padding"}),
        ),
        Diagnosis(
            "One column too many counts: the valid ones are 0 to valid-1, columns < valid.",
            reread="Columns that do not count",
            cases=frozenset({"requests"}),
            source=lambda tree: _compares_with_less_or_equal(tree),
        ),
        Diagnosis(
            "The columns that do not count are in the maximum or in the sum: mask before the "
            "softmax, not after it.",
            reread="Columns that do not count",
            cases=frozenset({"requests", "huge_padding", "all_below_zero"}),
        ),
    ),
    mistakes=(
        Mistake(
            "left_to_itself",
            "codegen",
            "ask for dynamic=True at once",
            replace=(("torch.compile(masked_steps, dynamic=True)", "torch.compile(masked_steps)"),),
        ),
        Mistake(
            "a_kernel_for_every_size",
            "codegen",
            "after eight, Dynamo gives up",
            replace=(("dynamic=True", "dynamic=False"),),
        ),
        Mistake(
            "rows_marked_static_too",
            "codegen",
            "name the dimension that stays",
            replace=(("mark_static(x, 1)\n    return", "mark_static(x)\n    return"),),
        ),
        Mistake(
            "a_branch_on_a_size",
            "codegen",
            "becomes a guard",
            replace=(
                (
                    '    wide = torch.where(columns < valid, x.float(), float("-inf"))\n',
                    "    wide = x.float()\n"
                    "    if valid < x.shape[1]:\n"
                    '        wide = torch.where(columns < valid, wide, float("-inf"))\n',
                ),
            ),
        ),
        Mistake(
            "not_compiled",
            "codegen",
            "Only calls through what torch.compile returned are compiled",
            replace=(("torch.compile(masked_steps, dynamic=True)", "masked_steps"),),
        ),
        Mistake(
            "padded_with_zero",
            "run",
            "Padding with 0 wins the maximum",
            replace=(
                (
                    '    wide = torch.where(columns < valid, x.float(), float("-inf"))\n'
                    "    numerator = torch.exp(wide - wide.amax(dim=-1, keepdim=True))\n",
                    "    wide = torch.where(columns < valid, x.float(), 0.0)\n"
                    "    numerator = torch.exp(wide - wide.amax(dim=-1, keepdim=True))\n"
                    "    numerator = torch.where(columns < valid, numerator, 0.0)\n",
                ),
            ),
        ),
        Mistake(
            "one_column_too_many",
            "run",
            "One column too many counts",
            replace=(("columns < valid, x.float()", "columns <= valid, x.float()"),),
        ),
        Mistake(
            "masked_afterwards",
            "run",
            "mask before the softmax, not after it",
            replace=(
                ('torch.where(columns < valid, x.float(), float("-inf"))', "x.float()"),
                (
                    "    return (numerator / numerator.sum(dim=-1, keepdim=True)).to(x.dtype)\n",
                    "    quotient = numerator / numerator.sum(dim=-1, keepdim=True)\n"
                    "    return torch.where(columns < valid, quotient, 0.0).to(x.dtype)\n",
                ),
            ),
        ),
    ),
)


def _argument_of_compile(tree: ast.Module, name: str) -> Any:
    """The literal given for an argument of torch.compile; None if it is not given."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.compile":
            for keyword in node.keywords:
                if keyword.arg == name and isinstance(keyword.value, ast.Constant):
                    return keyword.value.value
    return None


def _marks_all_static(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith("mark_static")
        and len(node.args) + len(node.keywords) == 1
        for node in ast.walk(tree)
    )


def _compares_with_less_or_equal(tree: ast.Module) -> bool:
    return any(
        isinstance(node, ast.Compare)
        and isinstance(node.ops[0], ast.LtE)
        and ast.unparse(node.comparators[0]) == "valid"
        and len(node.ops) == 1
        for node in ast.walk(tree)
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
    diagnoses=(
        Diagnosis(
            "triton_per_... keeps whole rows in registers (a persistent reduction): it has no loop. "
            "Only triton_red_... walks the row block by block.",
            reread="Read the kernel",
            cases=frozenset({"softmax_1024"}),
        ),
        Diagnosis(
            "A kernel that is given x may load it in several places, and each is another walk over "
            "all of it: count the loads, not the launches.",
            reread="Read the kernel",
            cases=frozenset({"softmax_8192"}),
        ),
        Diagnosis(
            "Not every load is of x: count those from the parameter that arg0_1 is passed for.",
            reread="Read the kernel",
            cases=frozenset({"gated_8192"}),
        ),
        Diagnosis(
            "Later launches read x again: go through all of them.",
            reread="Read the kernel",
            cases=frozenset({"global_max_1024", "softmax_four_rows"}),
        ),
    ),
    mistakes=(
        Mistake(
            "persistent_taken_for_looped",
            "run",
            "keeps whole rows in registers",
            replace=(('startswith("triton_red_")', 'startswith("triton_")'),),
        ),
        Mistake(
            "launches_counted",
            "run",
            "count the loads, not the launches",
            replace=(('launch.body.count(f"tl.load({parameter} ")', "1"),),
        ),
        Mistake(
            "all_loads_counted",
            "run",
            "Not every load is of x",
            replace=(('if argument == "arg0_1":', 'if parameter.startswith("in_ptr"):'),),
        ),
        Mistake(
            "the_first_launch_only",
            "run",
            "Later launches read x again",
            replace=(("    for launch in found:\n", "    for launch in found[:1]:\n"),),
        ),
    ),
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
