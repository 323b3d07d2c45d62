"""Chapter 6's kernels under every order of events, its tables of thread counts, and its pictures."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
import torch

from checkers.chapters.parts.ch06_rows import max_and_sum
from checkers.simulator.launch import simulating

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "chapters" / "ch06_warp_reductions"
SCHEDULES = ("latest", "earliest", "random:1", "random:2", "random:3")
HOPPER_THREADS = 1024


def solution():
    """The reference, imported late: it brings CuTe DSL with it."""
    return importlib.import_module("solutions.ch06_warp_reductions")


def matrix(M: int, N: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Rows whose maxima differ from warp to warp; the first holds nothing but -inf."""
    x = torch.randn(M, N, generator=torch.Generator().manual_seed(N)) + torch.arange(N) * 40.0 / N
    x[0] = -float("inf")
    return x.to(dtype)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("function", "N"), [("warp_max_and_sum", 1000), ("block_max_and_sum", 2056)]
)
def test_a_reduction_is_right_and_without_fault_in_every_order(schedule, function, N):
    with simulating("h200", schedule) as results:
        x = matrix(5, N).to("cuda")
        m, d = getattr(solution(), function)(x)
        m, d = m.cpu(), d.cpu()
    wanted_m, wanted_d = max_and_sum(matrix(5, N))
    assert results and all(not result.faults for result in results)
    torch.testing.assert_close(m.double(), wanted_m)
    torch.testing.assert_close(d.double(), wanted_d, rtol=1e-5, atol=0)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("N", [50, 1024, 8192])
def test_softmax_is_right_and_without_fault_in_every_order(schedule, N):
    with simulating("h200", schedule) as results:
        out = solution().softmax(matrix(5, N).to("cuda")).cpu()
    assert results and all(not result.faults for result in results)
    wanted = matrix(5, N).double().softmax(-1)
    torch.testing.assert_close(out.double(), wanted, rtol=1e-2, atol=0, equal_nan=True)


ENTRIES = {torch.bfloat16: 7, torch.float32: 8}  # of each table


def test_the_tables_cover_every_row_with_whole_warps_and_rows() -> None:
    tables = (solution().TABLE_16_BIT, solution().TABLE_32_BIT)
    for table, entries in zip(tables, ENTRIES.values(), strict=True):
        assert len(table) == entries
        assert list(table) == sorted(table) and max(table) == 8192
        for block_threads, row_threads in table.values():
            assert block_threads % 32 == 0 and block_threads <= HOPPER_THREADS
            assert row_threads & (row_threads - 1) == 0 and block_threads % row_threads == 0


MEASURED = json.loads((ROOT / "docs" / "data" / "tune_ch06_h200.json").read_text())["rows"]


def measured(grid: str, dtype: str, N: int) -> dict[tuple[int, int], float]:
    """GB/s of each configuration: (threads a block, threads a row)."""
    wanted = {"grid": grid, "dtype": dtype, "N": N}
    rows = [row for row in MEASURED if "row_threads" in row and wanted.items() <= row.items()]
    return {(row["block_threads"], row["row_threads"]): row["gb_s"] for row in rows}


@pytest.mark.parametrize("N", [256, 512, 1024, 2048, 4096, 8192])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_an_entry_is_what_the_measurements_choose(dtype, N):
    table = solution().TABLE_16_BIT if dtype == "bfloat16" else solution().TABLE_32_BIT
    chosen = table[min(longest for longest in table if N <= longest)]
    large, small = measured("large", dtype, N), measured("small", dtype, N)
    best = max(large.values())
    assert large[chosen] >= 0.995 * best
    if small:
        assert chosen == max((c for c in small if large[c] >= 0.99 * best), key=small.__getitem__)


@pytest.mark.parametrize(
    ("dtype", "entry"), [(dtype, i) for dtype, count in ENTRIES.items() for i in range(count)]
)
def test_each_entry_of_a_table_gives_the_softmax_at_its_longest_and_just_below(dtype, entry):
    table = solution().TABLE_16_BIT if dtype == torch.bfloat16 else solution().TABLE_32_BIT
    longest = list(table)[entry]
    for N in (longest, longest - 1):
        with simulating("h200") as results:
            out = solution().softmax(matrix(3, N, dtype).to("cuda")).cpu()
        assert results and all(not result.faults for result in results)
        wanted = matrix(3, N, dtype).double().softmax(-1)
        tolerance = 1e-2 if dtype == torch.bfloat16 else 2e-5
        torch.testing.assert_close(out.double(), wanted, rtol=tolerance, atol=1e-30, equal_nan=True)


def test_a_column_may_have_any_stride() -> None:
    """PyTorch calls randn(1, 4).T contiguous, so .contiguous() would not help its owner."""
    with simulating("h200") as results:
        out = solution().softmax(torch.randn(1, 4).to("cuda").T)
        assert out.cpu().tolist() == [[1.0]] * 4
    assert all(not result.faults for result in results)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: torch.empty(4, 8193, device="cuda"), "1 to 8192 columns"),
        (lambda: torch.empty(4, 0, device="cuda"), "1 to 8192 columns"),
        (lambda: torch.empty(4, 8, device="cuda").T, "rows are contiguous"),
        (lambda: torch.empty(8, device="cuda"), "x must be a matrix"),
        (lambda: torch.empty(1, 8, device="cuda").expand(4, 8), "rows must lie apart"),
        (lambda: torch.empty(4, 8, device="cuda", dtype=torch.float64), "float32, float16 or"),
        (lambda: torch.empty(4, 8), "CUDA device"),
    ],
)
def test_what_the_kernel_cannot_take_is_refused(made, says):
    with simulating("h200"), pytest.raises(ValueError, match=says):
        solution().softmax(made())


def test_the_lessons_pictures_are_the_ones_that_are_drawn() -> None:
    spec = importlib.util.spec_from_file_location("draw_ch06", FOLDER / "draw_pictures.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    drawn = module.pictures()
    assert {path.name for path in (FOLDER / "pictures").iterdir()} == set(drawn)
    for name, svg in drawn.items():
        assert (FOLDER / "pictures" / name).read_text(encoding="utf-8") == svg, name
