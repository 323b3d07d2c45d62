"""What torch.compile did is counted right; most tests only capture graphs, which needs no compiler."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from checkers.chapters.ch01_torch_compile import GENERATED, reading_oracle
from checkers.grading.torch_compile import inspect_compilation, launched_kernels, measure

captured = functools.partial(torch.compile, backend="eager")


def scaled(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * 2


def noisy(x: torch.Tensor) -> torch.Tensor:
    y = torch.relu(x)
    print("here")
    return y * 2


def checked(x: torch.Tensor) -> torch.Tensor:
    if x.isnan().any():
        raise ValueError("x has NaNs")
    return torch.relu(x) * 2


def with_rows(function: Callable, *rows: int) -> Callable[[], list[torch.Tensor]]:
    """A call for each number of rows."""
    return lambda: [function(torch.ones(count, 8)) for count in rows]


def test_one_clean_graph_has_no_break_and_no_recompile() -> None:
    assert measure(with_rows(captured(scaled), 4)) == {
        "graphs": 1,
        "graph_breaks": 0,
        "recompiles": 0,
        "kernels": 0,  # captured only: Inductor wrote nothing
    }


def test_a_function_that_is_not_compiled_has_no_graph() -> None:
    assert measure(with_rows(scaled, 4))["graphs"] == 0


def test_a_print_is_a_graph_break_with_its_reason() -> None:
    found = inspect_compilation(with_rows(captured(noisy), 4))
    assert (found.graphs, found.graph_breaks) == (2, 1)
    assert "print" in found.break_reasons[0]


def test_a_branch_on_values_cuts_the_graph() -> None:
    assert measure(with_rows(captured(checked), 4))["graphs"] == 2


def test_sizes_are_recompiled_as_the_options_say() -> None:
    rows = (5, 64, 33, 1)
    recompiles = {
        dynamic: measure(with_rows(captured(scaled, dynamic=dynamic), *rows))["recompiles"]
        for dynamic in (False, None, True)
    }
    assert recompiles == {False: 3, None: 2, True: 1}


def test_a_recompile_names_the_guard_that_failed() -> None:
    found = inspect_compilation(with_rows(captured(scaled, dynamic=False), 5, 64))
    assert "expected 5, actual 64" in found.recompile_reasons[0]


def test_an_earlier_compilation_does_not_hide_the_next_one() -> None:
    function = captured(scaled)
    function(torch.ones(4, 8))
    assert measure(with_rows(function, 4))["graphs"] == 1


def test_two_compiled_halves_are_two_kernels_and_one_function_is_one() -> None:
    @torch.compile
    def numerators(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x - x.amax(dim=-1, keepdim=True))

    @torch.compile
    def quotients(x: torch.Tensor) -> torch.Tensor:
        return x / x.sum(dim=-1, keepdim=True)

    halves = measure(lambda: quotients(numerators(torch.ones(16, 64))))
    assert (halves["graphs"], halves["kernels"]) == (2, 2)
    assert measure(lambda: numerators(torch.ones(16, 64)))["kernels"] == 1


def test_the_result_of_the_call_is_handed_on() -> None:
    found = inspect_compilation(lambda: captured(scaled)(torch.ones(2, 2)))
    assert torch.equal(found.result, torch.full((2, 2), 2.0))


def test_launches_of_a_gpu_module_are_counted_in_order() -> None:
    names = launched_kernels((GENERATED / "softmax_four_rows.txt").read_text())
    assert [name[:10] for name in names] == [
        "triton_red",
        "triton_per",
        "triton_red",
        "triton_per",
        "triton_poi",
    ]


def test_library_operators_count_as_kernels() -> None:
    code = "def call(args):\n    extern_kernels.mm(a, b, out=c)\n    d = torch.ops.aten.sort.stable(c)\n"
    assert launched_kernels(code) == ("extern_kernels.mm", "torch.ops.aten.sort.stable")


def test_the_kept_modules_read_as_the_lesson_says() -> None:
    readings = {
        file.stem: tuple(reading_oracle(file.read_text()).values())
        for file in GENERATED.glob("*.txt")
    }
    assert readings == {  # kernels, looped, loads of x
        "softmax_1024": (1, 0, 1),
        "rms_norm_1024": (1, 0, 1),
        "softmax_8192": (1, 1, 2),
        "softmax_8192_three_passes": (1, 1, 3),
        "gated_8192": (1, 1, 2),
        "global_max_1024": (3, 2, 2),
        "softmax_four_rows": (5, 2, 3),
    }
