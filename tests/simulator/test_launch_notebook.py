"""Notebook cells that ask for a GPU, run without one."""

from __future__ import annotations

import pytest
import torch
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from checkers.simulator.launch import notebook
from tests.simulator.harness import run_ptx

KERNEL = """
import torch, triton
import triton.language as tl

@triton.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, 2 * tl.load(x_ptr + offsets))

x = torch.ones(128, device="cuda")
double[(1,)](x, 128, BLOCK={block})
total = x.sum().item()
"""


@pytest.fixture
def shell():
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "checkers.simulator.launch.notebook")
    yield shell
    shell.run_line_magic("simulate", "off")
    InteractiveShell.clear_instance()


def test_cells_run_on_the_simulated_gpu_until_it_is_switched_off(shell, capsys):
    available = torch.cuda.is_available
    shell.run_line_magic("simulate", "h100")
    shell.run_cell(KERNEL.format(block=128)).raise_error()
    assert shell.user_ns["total"] == 256.0
    assert "double" in (told := capsys.readouterr().out) and "no fault" in told
    assert len(shell.run_line_magic("simulate", "")) == 1
    shell.run_line_magic("simulate", "off")
    assert torch.cuda.is_available is available


def test_a_fault_names_the_line_of_the_cell_and_quiet_leaves_the_rest_out(shell, capsys):
    shell.run_line_magic("simulate", "h100 --quiet --schedule earliest")
    shell.run_cell(KERNEL.format(block=128)).raise_error()
    assert capsys.readouterr().out == ""
    shell.run_cell(KERNEL.format(block=256)).raise_error()
    told = capsys.readouterr().out
    assert "x_ptr[128]" in told and "tl.load(x_ptr + offsets)" in told


@pytest.mark.parametrize("show", ["print_report", "print_faults"])
def test_what_printf_wrote_is_shown(show, capsys):
    result = run_ptx("mov.u32 %r1, 0;")
    result.output = "hello\n"
    getattr(notebook, show)(result)
    assert capsys.readouterr().out.endswith("hello\n")


@pytest.mark.parametrize("line", ["a100", "h100 --schedule soon"])
def test_a_wrong_word_is_named_and_changes_nothing(shell, line):
    shell.run_line_magic("simulate", "h100")
    with pytest.raises(UsageError, match="there are: h100|latest, earliest or random:SEED"):
        shell.run_line_magic("simulate", line)
    assert torch.cuda.is_available()
