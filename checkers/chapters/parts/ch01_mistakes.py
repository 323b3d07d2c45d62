"""Chapter 1: what goes wrong in its exercises, how it is recognised, and what is said about it."""

from __future__ import annotations

import ast
from typing import Any

from checkers.exercise import Diagnosis, Mistake
from checkers.grading.syntax import has_call, no_call


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


FUSED_SOFTMAX_DIAGNOSES: tuple[Diagnosis, ...] = (
    Diagnosis(
        "A reduced row has shape (M,), and is lined up with the columns: keepdim=True keeps it "
        "(M, 1), one number a row.",
        reread="Softmax in four steps",
        error="Attempting to broadcast a dimension",
    ),
    Diagnosis(
        "Without dynamic=False the second shape makes N a variable, and a kernel for any N can't keep "
        "the row in registers: it loops, and reads x more than once.",
        reread="Sizes that change",
        stage="speed",
        source=lambda tree: _argument_of_compile(tree, "dynamic") is not False,
    ),
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
)

FUSED_SOFTMAX_MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        "not_compiled",
        "codegen",
        "Only calls through what torch.compile returned are compiled",
        replace=(("return torch.compile(softmax_steps, dynamic=False)", "return softmax_steps"),),
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
)

VARYING_ROWS_DIAGNOSES: tuple[Diagnosis, ...] = (
    Diagnosis(
        "The padding wins where a whole row lies below it: a large negative number is not -inf.",
        reread="Sizes that change",
        cases=frozenset({"far_below_zero"}),
        passing=frozenset({"all_below_zero"}),
    ),
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
        "Something in the function needs Python, such as a print or .item(): the graph ends there.",
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
)

VARYING_ROWS_MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        "padding_of_minus_10000",
        "run",
        "a large negative number is not -inf",
        replace=(('x.float(), float("-inf")', "x.float(), -1e4"),),
    ),
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
)

READ_THE_KERNEL_DIAGNOSES: tuple[Diagnosis, ...] = (
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
)

READ_THE_KERNEL_MISTAKES: tuple[Mistake, ...] = (
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
)
