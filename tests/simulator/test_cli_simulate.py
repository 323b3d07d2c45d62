"""``ladder simulate`` on scripts as people write them."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from checkers.cli import run

HEAD = """
import sys
import torch
import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import from_dlpack

@cute.kernel
def add_kernel(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, n: cutlass.Int32):
    tid, _, _ = cute.arch.thread_idx()
    bid, _, _ = cute.arch.block_idx()
    i = bid * 128 + tid
    if i < n:
        c[i] = a[i] + b[i]

@cute.jit
def add(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor, more: cutlass.Constexpr):
    n = cute.size(a)
    add_kernel(a, b, c, n + more).launch(
        grid=((n + 127) // 128, 1, 1), block=(128, 1, 1))
"""
CALL = """
a, b, c = (torch.ones(200, device="cuda") for _ in range(3))
add(from_dlpack(a), from_dlpack(b), from_dlpack(c), {more})
"""
TRITON = """
import torch
import triton
import triton.language as tl

@triton.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, 2 * x)

x = torch.arange(100.0, device="cuda")
out = torch.empty_like(x)
double[(1,)](x, out, 100, BLOCK=128)
"""


@pytest.fixture
def ladder(tmp_path, monkeypatch, capsys):
    """ladder(text, *arguments): (status, standard output, standard error) of a script."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def simulate(text: str, *arguments: str) -> tuple[int, str, str]:
        Path("script.py").write_text(textwrap.dedent(text))
        status = run(["simulate", "script.py", *arguments])
        told = capsys.readouterr()
        return status, told.out, told.err

    return simulate


def test_a_right_kernel_exits_0_with_whole_sectors_and_the_right_values(ladder):
    status, out, _ = ladder(HEAD + CALL.format(more=0) + "print('is', c.unique().tolist())")
    assert status == 0
    assert "add_kernel" in out and "no fault" in out and "grid 2, block 128" in out
    assert "sectors needed of those loaded             100.0%" in out
    assert "sectors needed of those stored             100.0%" in out
    assert "is [2.0]" in out and "NVIDIA H100" in out and "Roofline" in out


def test_one_index_too_many_exits_1_and_names_tensor_index_thread_block_and_line(ladder):
    status, out, _ = ladder(HEAD + CALL.format(more=1))
    assert status == 1
    line = 1 + (HEAD.splitlines().index("        c[i] = a[i] + b[i]"))
    assert "a[200]" in out and "b[200]" in out and "c[200]" in out
    assert "thread 72 (warp 2, lane 8) of block 1" in out
    assert f"script.py:{line}" in out and "c[i] = a[i] + b[i]" in out


def test_the_report_as_json_leaves_standard_output_to_it(ladder):
    status, out, err = ladder(HEAD + CALL.format(more=1) + "print('mine')", "--json", "-")
    data = json.loads(out)
    assert status == 1 and not data["ok"]
    (launch,) = data["launches"]
    fault = launch["faults"][0]
    assert (launch["kernel"], launch["grid"]) == ("add_kernel", [2, 1, 1])
    assert fault["kind"] == "out_of_bounds" and fault["who"]["block"] == [1, 0, 0]
    assert "mine" in err


def test_a_triton_script_is_run_too(ladder):
    status, out, _ = ladder(TRITON)
    assert status == 1
    assert "out_ptr[100]" in out and "tl.store(out_ptr + offsets, 2 * x)" in out
    assert ladder(TRITON.replace("2 * x)", "2 * x, mask=offsets < n)"))[0] == 0


def test_arguments_are_the_scripts_and_options_may_stand_anywhere(ladder):
    text = "import sys; print(sys.argv, __name__, torch.cuda.get_device_name())"
    text = HEAD + CALL.format(more=0) + text
    status, out, _ = ladder(text, "--rows", "3", "--gpu", "h200", "--", "--gpu", "x")
    assert status == 0
    assert "['script.py', '--rows', '3', '--gpu', 'x'] __main__ NVIDIA H200 SXM" in out


def test_a_blackwell_gpu_compiles_for_it(ladder):
    status, out, _ = ladder(HEAD + CALL.format(more=0), "--gpu", "b200")
    assert status == 0 and "sm_100a" in out


@pytest.mark.parametrize("schedule", ["earliest", "random:7"])
def test_the_schedule_is_shown(ladder, schedule):
    status, out, _ = ladder(HEAD + CALL.format(more=0), "--schedule", schedule)
    assert status == 0 and f"completion {schedule}" in out


def test_each_launch_gets_a_report_and_a_picture(ladder):
    twice = HEAD + 2 * CALL.format(more=0)
    status, out, err = ladder(twice, "--timeline", "out.svg")
    assert status == 0 and out.count("grid 2, block 128") == 2 and "2 launches" in out
    assert Path("out.svg").read_text().startswith("<svg")
    assert "drawn: out-2.svg" in err and Path("out-2.svg").exists()


def test_a_launch_that_found_the_same_again_is_told_in_a_line(ladder):
    again = "\nfor _ in range(3):\n    add(from_dlpack(a), from_dlpack(b), from_dlpack(c), 0)\n"
    status, out, _ = ladder(HEAD + CALL.format(more=0) + again)
    assert status == 0 and "4 launches" in out and out.count("Counters") == 1
    assert out.count("grid 2, block 128: no fault, the counters as before") == 3


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ("x = 1", (), "no kernel was launched by script.py"),
        ("", ("--gpu", "a100"), "there are: h100, h200, b200"),
        ("", ("--schedule", "soon"), "latest, earliest or random:SEED"),
        ("import sys; sys.exit(3)", (), "ended itself with status 3"),
    ],
)
def test_what_can_not_run_exits_2_and_says_why(ladder, text, arguments, said):
    status, _, err = ladder(text, *arguments)
    assert status == 2 and said in err


def test_a_missing_file_exits_2(ladder, capsys):
    assert run(["simulate", "nowhere.py"]) == 2
    assert "there is no file nowhere.py" in capsys.readouterr().err


def test_an_error_of_the_script_is_shown_with_its_own_frames_only(ladder):
    text = HEAD + "def call():\n    add(1, 2, 3, 0)\n\ncall()\n"
    status, _, err = ladder(text)
    assert status == 2
    assert "in call" in err and "add(1, 2, 3, 0)" in err
    assert "site-packages" not in err and "checkers/simulator" not in err


def test_a_fault_counts_for_more_than_the_exception_after_it(ladder):
    status, _, err = ladder(HEAD + CALL.format(more=1) + "1 / 0")
    assert status == 1 and "ZeroDivisionError" in err


def test_the_script_leaves_nothing_behind(ladder):
    import sys

    import torch

    before = sys.argv, sys.path[:], torch.cuda.is_available
    ladder("import sys; sys.path.append('x'); sys.argv.append('y')")
    assert (sys.argv, sys.path, torch.cuda.is_available) == before
