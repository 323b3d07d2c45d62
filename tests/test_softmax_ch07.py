"""Chapter 7's softmax on the simulator: values, special rows, every schedule, autograd."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from pathlib import Path

import cutlass.cute as cute
import pytest
import torch
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from checkers import answers
from checkers.chapters.parts import ch07_rows as given
from checkers.course import Course
from checkers.exercise import Tolerance
from checkers.grading import resources, sass
from checkers.grading.compare import compare
from checkers.lessons import drawings_ch07
from checkers.simulator.launch import simulating
from solutions import ch07_cluster_reductions as ch07

ROOT = Path(__file__).parents[1]
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
SCHEDULES = ("latest", "earliest", "random:1", "random:2", "random:3")


@pytest.fixture
def on_simulator() -> Iterator[list]:
    """Launches run there; a test fails when one of them has a fault."""
    with simulating("h200") as launches:
        yield launches
    faults = [fault.message for launch in launches for fault in launch.faults]
    assert not faults, faults


def assert_softmax(x: torch.Tensor) -> None:
    """Right within the tolerance of the exercise, NaN exactly where PyTorch has it."""
    got = ch07.softmax_forward(x.cuda()).cpu()
    assert got.dtype == x.dtype and got.is_contiguous() and got.shape == x.shape
    compared = compare(got, x.double().softmax(-1), Tolerance(), x.dtype, x.shape[1])
    assert compared.ok, str(compared)


def normal(M: int, N: int, dtype: torch.dtype = torch.float32, seed: int = 7) -> torch.Tensor:
    return torch.randn(M, N, generator=torch.Generator().manual_seed(seed)).to(dtype)


# --- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("N", (1, 250, 4096, 20000))
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_softmax_is_float64s(on_simulator, dtype, N):
    assert_softmax(normal(3 if N < 9000 else 1, N, dtype))


@pytest.mark.parametrize("N", (2, 31, 33, 129, 257, 1023, 2049, 8193, 16385))
def test_ragged_rows_are_predicated_with_narrower_loads(on_simulator, N):
    assert_softmax(normal(2, N, torch.bfloat16))


def test_the_longest_row_is_sixteen_blocks(on_simulator):
    assert_softmax(normal(1, ch07.LONGEST_ROW, torch.bfloat16))
    assert on_simulator[-1].counters["blocks"] == 16


@pytest.mark.parametrize("N", (40, 300, 3000, 20000), ids=("lanes", "warp", "block", "cluster"))
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_special_rows_are_what_pytorch_makes_of_them(on_simulator, dtype, N):
    assert_softmax(given.special_rows(normal(len(given.SPECIAL), N), dtype).to(dtype))


@pytest.mark.parametrize("value", (0.0, 1e4, -1e4))
def test_equal_elements_are_one_nth_each(on_simulator, value):
    y = ch07.softmax_forward(torch.full((2, 1024), value, device="cuda"))
    assert torch.equal(y.cpu(), torch.full((2, 1024), 1 / 1024))


def test_no_rows_launch_nothing_and_one_row_one_block(on_simulator):
    assert ch07.softmax_forward(torch.empty(0, 64, device="cuda")).shape == (0, 64)
    assert not on_simulator
    assert_softmax(normal(1, 64))


@pytest.mark.parametrize(
    "view", ("apart", "off_boundary", "column", "row_as_column", "corner", "one_expanded")
)
def test_rows_may_lie_anywhere(on_simulator, view):
    x = normal(6, 1000).cuda()
    rows = {
        "apart": x[:, 8:808],
        "off_boundary": x[:, 3:500],
        "column": x[:, 5:6],
        "row_as_column": x[:1].T,  # strides (1, 1000)
        "corner": x[5:, 7:8],
        "one_expanded": x[0].expand(1, 1000),
    }[view]
    expected = rows.cpu().double().softmax(-1)
    assert (ch07.softmax_forward(rows).cpu() - expected).abs().max() < 1e-6


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("blocks", (2, 4, 8, 16))
def test_the_exchange_is_right_however_late_a_pair_comes(schedule, blocks):
    x = normal(2, 3000) - 500.0 * torch.arange(3000) / 3000
    with simulating("h200", schedule=schedule) as launches:
        m, d = (pair.cpu() for pair in ch07.row_pairs(x.cuda(), blocks))
    assert not launches[0].faults
    want_m, want_d = given.row_pairs(x, blocks)
    assert torch.equal(m.double(), want_m)
    assert ((d - want_d) / want_d).abs().max() < 1e-5


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "tiling", ((64, 64, 2), (64, 32, 4), (256, 128, 8), (128, 128, 16)), ids=str
)
def test_any_tile_gives_the_same_answer(schedule, tiling):
    """Also several rows a block in a cluster, which the table has not."""
    x = normal(3, 4096)
    with simulating("h200", schedule=schedule) as launches:
        out = torch.empty(3, 4096, device="cuda")
        ch07.run(ch07.softmax_kernel, ch07.Tile(4096, 4, *tiling), x.cuda(), out)
    assert not launches[0].faults
    assert (out.cpu() - x.double().softmax(-1)).abs().max() < 1e-8


def test_each_element_crosses_the_bus_once_each_way(on_simulator):
    for N in (256, 4096, 65536):
        ch07.softmax_forward(normal(8 if N < 65536 else 1, N, torch.bfloat16).cuda())
        counters, rows = on_simulator[-1].counters, 8 if N < 65536 else 1
        assert counters["global_load_bytes"] == counters["global_store_bytes"] == rows * N * 2


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    (
        (lambda: torch.empty(4, 8), "CUDA device"),
        (lambda: torch.empty(4, 8, dtype=torch.float64, device="cuda"), "float32"),
        (lambda: torch.empty(8, device="cuda"), r"\(M, N\)"),
        (lambda: torch.empty(4, 0, device="cuda"), "1 <= N"),
        (lambda: torch.empty(1, ch07.LONGEST_ROW + 1, device="cuda"), "262144"),
        (lambda: torch.empty(8, 4, device="cuda").T, "contiguous rows"),
        (lambda: torch.empty(1, 4, device="cuda").expand(3, 4), "apart"),
    ),
)
def test_what_the_kernel_cannot_do_is_refused_in_words(on_simulator, make, words):
    with pytest.raises(ValueError, match=words):
        ch07.softmax_forward(make())


def test_a_tensor_that_is_not_on_a_gpu_is_refused():
    with pytest.raises(ValueError, match="CUDA device"):
        ch07.softmax(torch.empty(4, 8))


# --- training ------------------------------------------------------------------------------------


@pytest.mark.parametrize("N", (40, 257, 2000, 20000))
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_gradient_is_float64s(on_simulator, dtype, N):
    x, dy = normal(2, N, dtype), normal(2, N, dtype, seed=8)
    leaf = x.cuda().requires_grad_()
    ch07.softmax(leaf).backward(dy.cuda())
    y = x.double().softmax(-1)
    expected = y * (dy.double() - (y * dy.double()).sum(-1, keepdim=True))
    # y was rounded to dtype between the two passes: one more rounding of each term.
    error = (leaf.grad.cpu().double() - expected).abs().amax(-1)
    scale = (y * dy.double().abs().amax(-1, keepdim=True)).amax(-1)
    assert (error <= 4 * torch.finfo(dtype).eps * scale + 1e-6 * scale).all()


def test_the_gradient_is_that_of_finite_differences(on_simulator):
    """gradcheck in float32, on a few elements: central differences of a weighted sum."""
    x, weights = normal(2, 5), normal(2, 5, seed=9)
    leaf = x.cuda().requires_grad_()
    (ch07.softmax(leaf) * weights.cuda()).sum().backward()
    step = 1e-2
    for row in range(2):
        for column in range(5):
            moved = [x.clone(), x.clone()]
            for sign, other in zip((1, -1), moved, strict=True):
                other[row, column] += sign * step
            high, low = ((ch07.softmax(m.cuda()).cpu() * weights).sum().item() for m in moved)
            assert leaf.grad[row, column].item() == pytest.approx(
                (high - low) / (2 * step), abs=2e-4
            )


def test_the_gradient_of_a_plain_sum_is_zero(on_simulator):
    """Its dY is one number with strides of 0."""
    leaf = normal(3, 300).cuda().requires_grad_()
    ch07.softmax(leaf).sum().backward()
    assert leaf.grad.cpu().abs().max() < 1e-7


def test_the_gradient_may_come_as_one_row_for_all(on_simulator):
    leaf, dy = normal(3, 300).cuda().requires_grad_(), normal(1, 300)
    ch07.softmax(leaf).backward(dy.cuda().expand(3, 300))
    y = normal(3, 300).softmax(-1)
    expected = y * (dy - (y * dy).sum(-1, keepdim=True))
    assert (leaf.grad.cpu() - expected).abs().max() < 1e-7


def test_torch_compile_is_told_the_form_of_both_results():
    """Of a view with gaps between its rows: a fake tensor goes in, nothing is launched."""
    with FakeTensorMode():
        x = torch.empty(6, 40, dtype=torch.bfloat16)[:, :20]
        y = ch07.softmax_operator(x)
        dx = ch07.softmax_backward(y, x)
    for made in (y, dx):
        assert (made.shape, made.dtype, made.stride()) == (x.shape, x.dtype, (20, 1))


def test_a_traced_graph_keeps_forward_and_backward_whole():
    def trained(x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(ch07.softmax_operator(x).square().sum(), x)

    graph = make_fx(trained, tracing_mode="fake")(torch.empty(4, 8)).graph
    names = {str(node.target) for node in graph.nodes if "kernel_ladder" in str(node.target)}
    assert names == {"kernel_ladder.softmax.default", "kernel_ladder.softmax_backward.default"}


# --- the module and its pictures -----------------------------------------------------------------


def test_the_table_covers_every_length_with_tiles_that_fit():
    lengths = list(ch07.TILES)
    assert lengths == sorted(lengths) and lengths[-1] == ch07.LONGEST_ROW
    for N, entry in ch07.TILES.items():
        for column, tiling in enumerate(entry):
            tile = ch07.Tile(N, 4 if column % 2 else 8, *tiling)
            assert tile.block_threads <= 1024 and tile.block_threads % tile.row_threads == 0
            assert tile.blocks in (1, 2, 4, 8, 16)
            assert tile.row_threads in (8, 16) or tile.row_threads % 32 == 0
            assert tile.blocks == 1 or tile.row_threads % 32 == 0
            assert tile.columns // tile.row_threads <= 64, "more than 64 elements a thread spill"
            assert tile.columns * tile.blocks >= N


MEASURED = ROOT / "docs" / "data" / "tune_ch07_h200.json"


@pytest.mark.skipif(not MEASURED.exists(), reason="tests/gpu/tune_ch07.py has not been run yet")
def test_the_tables_tiles_are_the_fastest_that_were_measured():
    """Within a percent: two runs of one tile differ by as much."""
    rows = [row for row in json.loads(MEASURED.read_text())["rows"] if row["name"] == "tile"]
    for N, entry in ch07.TILES.items():
        for column, tiling in enumerate(entry):
            op = ("forward", "backward")[column // 2]
            dtype = ("bfloat16", "float32")[column % 2]
            ratios = {
                (row["block_threads"], row["row_threads"], row["blocks"]): row["ratio_to_copy"]
                for row in rows
                if (row["op"], row["dtype"], row["N"]) == (op, dtype, N)
            }
            assert ratios[tiling] >= 0.99 * max(ratios.values()), (N, op, dtype)


@pytest.mark.slow
@pytest.mark.parametrize("vector_bytes", (16, 2), ids=("aligned", "odd"))
@pytest.mark.parametrize("N", ch07.TILES)
def test_each_tile_compiles_in_two_seconds_and_its_registers_fit(N, vector_bytes, tmp_path):
    for column, tiling in enumerate(ch07.TILES[N]):
        dtype = (torch.bfloat16, torch.float32)[column % 2]
        vector = max(1, vector_bytes // dtype.itemsize)
        tile = ch07.Tile(N if vector > 1 else N - 1, vector, *tiling)
        kernel, tensors = (ch07.softmax_kernel, 2) if column < 2 else (ch07.backward_kernel, 3)
        seconds, registers = compiled_for_hopper(kernel, tile, dtype, tensors, tmp_path)
        assert seconds < 2.0
        assert registers * tile.block_threads <= 65536


def compiled_for_hopper(kernel, tile, dtype, tensors, folder) -> tuple[float, int]:
    """Seconds of this process's CPU time, and registers a thread."""
    align = tile.vector * dtype.itemsize
    stride = cute.sym_int64(divisibility=tile.vector)
    shape = (cute.sym_int(), cute.sym_int())
    fake = make_fake_tensor(ch07.CUTE_DTYPE[dtype], shape, (stride, 1), assumed_align=align)
    begin = time.process_time()
    options = f"--gpu-arch sm_90a --keep-cubin --dump-dir {folder}"
    compiled = cute.compile(
        ch07.launch, kernel, (fake,) * tensors, make_fake_stream(), tile, options=options
    )
    seconds = time.process_time() - begin
    usage = sass.run_tool("cuobjdump", ("--dump-resource-usage",), compiled.artifacts.CUBIN)
    (kernel_usage,) = resources.parse_resource_usage(usage).values()
    return seconds, kernel_usage["REG"]


def test_the_module_is_under_350_lines_of_code():
    """Blank lines and comments don't count; nor do, with them, the cell of the first exercise."""
    lines = (ROOT / "solutions" / "ch07_cluster_reductions.py").read_text().splitlines()
    code = [line for line in lines if line.strip() and not line.strip().startswith("#")]
    assert len(code) < 350
    first = answers.solution_cell(Course(ROOT), "ch07.cluster_reduction").splitlines()
    assert len(lines) - len(first) < 350


def test_the_lessons_pictures_are_the_ones_that_are_drawn():
    drawn = drawings_ch07.pictures()
    assert {path.name for path in drawings_ch07.FOLDER.iterdir()} == set(drawn)
    for name, svg in drawn.items():
        assert (drawings_ch07.FOLDER / name).read_text(encoding="utf-8") == svg, name


def test_special_rows_have_a_plain_one_and_each_kind_of_nan():
    x = given.special_rows(torch.zeros(len(given.SPECIAL), 10), torch.float32)
    y = x.softmax(-1)
    assert y.isnan().all(-1).tolist() == [True, True, True, True, False, False, False, False]
    assert y[4].tolist() == pytest.approx([0.1] * 10)
    assert y[6, 9] == 1.0 and math.isinf(x[0, 0])
