"""What torch.compile did with an answer: graphs, graph breaks, recompiles, kernels.

``inspect_compilation`` resets Dynamo, makes one call (which may call the compiled function many
times, with many shapes) and reads what was compiled from Dynamo's own records and from the code
that Inductor wrote. Nothing here depends on the device: the same numbers are collected from C++
on a CPU and from Triton on a GPU.

Kernels are counted as launches in the generated wrapper. ``torch._inductor.metrics`` has a counter
of the same name, but on a CPU it counts loop nests (4 for a softmax that is one C++ function).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock


@dataclass(frozen=True)
class Compilation:
    """What one call made torch.compile do.

    graphs: graphs captured, over all compilations.
    graph_breaks: places where Dynamo gave up and ran Python.
    recompiles: compilations of a code object after its first.
    kernels: kernel launches in the code generated for all graphs: C++ or Triton functions and
        library operators. 0 when Inductor generated nothing (another backend, or no compile).
    break_reasons, recompile_reasons: Dynamo's own words, for the report.
    code: the generated modules, in the order in which they were compiled.
    result: what the call returned.
    """

    graphs: int
    graph_breaks: int
    recompiles: int
    kernels: int
    break_reasons: tuple[str, ...]
    recompile_reasons: tuple[str, ...]
    code: tuple[str, ...]
    result: Any

    @property
    def measures(self) -> dict[str, int]:
        """The numbers that a GraphRule can bound."""
        return {
            "graphs": self.graphs,
            "graph_breaks": self.graph_breaks,
            "recompiles": self.recompiles,
            "kernels": self.kernels,
        }


def measure(call: Callable[[], object]) -> dict[str, int]:
    """``inspect_compilation(call).measures``."""
    return inspect_compilation(call).measures


def inspect_compilation(call: Callable[[], object]) -> Compilation:
    """Call once from a clean Dynamo and report what was compiled.

    What the call raises is not caught: a ``fullgraph=True`` that cannot be kept is the caller's
    to explain. Dynamo is left reset, so that the next call compiles anew.
    """
    # Inductor takes two seconds to import, and most exercises never need it.
    import torch
    from torch._dynamo import utils as dynamo
    from torch._inductor.graph import GraphLowering

    code: list[str] = []
    torch._dynamo.reset()
    dynamo.counters.clear()
    dynamo.clear_compilation_metrics()
    try:
        with mock.patch.object(GraphLowering, "save_output_code", code.append):
            result = call()
        again = [entry for entry in dynamo.get_compilation_metrics() if _is_recompile(entry)]
        breaks = dynamo.counters["graph_break"]
        return Compilation(
            graphs=dynamo.counters["stats"]["unique_graphs"],
            graph_breaks=sum(breaks.values()),
            recompiles=len(again),
            kernels=sum(len(launched_kernels(module)) for module in code),
            break_reasons=tuple(breaks),
            recompile_reasons=tuple(str(entry.recompile_reason or "") for entry in again),
            code=tuple(code),
            result=result,
        )
    finally:
        torch._dynamo.reset()


def _is_recompile(entry: Any) -> bool:
    """Whether a compilation record is of a code object that had been compiled before.

    Its id reads "[graph/]frame/attempt", for instance "0/1": frame 0 for the second time. A
    restart of the same compilation, after a graph break, is marked "0/0_1".
    """
    attempt = str(entry.compile_id).rpartition("/")[2].partition("_")[0]
    return attempt.isdecimal() and int(attempt) > 0


def launched_kernels(code: str) -> tuple[str, ...]:
    """Names of the kernels that a generated module launches, in order.

    code: what Inductor wrote: functions bound by ``async_compile.cpp_pybinding`` or
        ``async_compile.triton``, and a ``call`` that runs them beside ``extern_kernels.mm(...)``
        or ``torch.ops.aten.sort.stable(...)``.
    """
    module = ast.parse(code)
    generated = {
        target.id
        for node in ast.walk(module)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and _dotted(node.value.func).startswith("async_compile.")
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return tuple(
        name
        for call_function in ast.walk(module)
        if isinstance(call_function, ast.FunctionDef) and call_function.name == "call"
        for name in _launches(call_function, generated)
    )


def _launches(call_function: ast.FunctionDef, generated: set[str]) -> Iterator[str]:
    calls = [node for node in ast.walk(call_function) if isinstance(node, ast.Call)]
    for node in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        name = _dotted(node.func)
        if name.removesuffix(".run") in generated:
            yield name.removesuffix(".run")
        elif name.startswith(("extern_kernels.", "torch.ops.aten.")):
            yield name


def _dotted(node: ast.expr) -> str:
    """ "a.b.c" for such an expression, "" for any other."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        prefix = _dotted(node.value)
        return f"{prefix}.{node.attr}" if prefix else ""
    return ""
