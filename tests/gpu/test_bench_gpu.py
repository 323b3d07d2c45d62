"""The speed table on a real GPU."""

from __future__ import annotations

import torch

from checkers.bench import run_bench, skipped
from checkers.exercise import Bench, Case, Implementation
from checkers.grading.timing import Options


def not_installed():
    raise ImportError("No module named 'peer'")


DOUBLE = Bench(
    title="Twice",
    cases=tuple(Case(f"n_{N}", {"M": 2**24 // N, "N": N}) for N in (1024, 4096)),
    inputs=lambda case, generator: (
        torch.randn(case["M"], case["N"], generator=generator, device=generator.device),
    ),
    work=lambda case: 2 * 4 * case["M"] * case["N"],
    implementations=(
        Implementation("eager", lambda: lambda x: x * 2),
        Implementation("torch.compile", lambda: torch.compile(lambda x: x + x, dynamic=False)),
        Implementation("wrong", lambda: lambda x: x * 1.01),
        Implementation("peer", not_installed),
    ),
)


def test_what_is_right_is_timed_and_what_is_not_is_named() -> None:
    data = run_bench(DOUBLE, "ch99_twice", options=Options(rounds=20))
    timed = {(row["implementation"], row["case"]["N"]): row for row in data["rows"]}
    assert {name for name, _ in timed} == {"eager", "torch.compile", "copy"}
    assert len(timed) == 6
    for row in timed.values():
        assert 0.5 < row["ratio_to_ruler"] < 1.1
        assert row["p10"] <= row["median"] <= row["p90"]
    assert data["machine"]["gpu"] == torch.cuda.get_device_name()
    assert data["machine"]["driver"] and data["machine"]["sm_clock_mhz"]["lowest"] > 200
    said = skipped(data)
    assert "peer was not timed: ImportError: No module named 'peer'" in said
    assert sum(sentence.startswith("wrong was not timed on") for sentence in said) == 2
