"""CuTe DSL's errors, each provoked for real, as a learner reads them. No GPU is needed."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from pathlib import Path

import pytest

from checkers.exercise import Finding
from checkers.grading.error_hints_cute import CUTE_CODES, CUTE_FAMILIES
from checkers.grading.errors import error_text, explain

pytest.importorskip("cutlass")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

SETUP = """\
import torch
import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import from_dlpack, make_fake_compact_tensor

def fake(dtype=cutlass.Float32, align=16):
    return make_fake_compact_tensor(dtype, (128,), assumed_align=align)

OPTIONS = "--gpu-arch sm_90a --generate-line-info"
"""

LAUNCH = """\
@cute.jit
def launch(g: cute.Tensor):
    kernel(g).launch(grid=(1, 1, 1), block=(32, 1, 1), smem=2048)

cute.compile(launch, fake(), options=OPTIONS)
"""


def in_kernel(body: str) -> str:
    """A cell whose kernel has this body, from its line 4 on; compiled at its end."""
    head = "@cute.kernel\ndef kernel(g: cute.Tensor):\n    i = cute.arch.thread_idx()[0]\n"
    return head + textwrap.indent(textwrap.dedent(body), "    ") + LAUNCH


def explained(cell: str, folder: Path) -> tuple[Finding, str]:
    path = folder / "answer.py"
    path.write_text(SETUP + cell)
    spec = importlib.util.spec_from_file_location(f"answer_{folder.name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        return explain(error, SETUP + cell, str(path), SETUP.count("\n") + 1), error_text(error)
    raise AssertionError("nothing was raised")


KERNELS = {
    "UNSUP_EARLY_EXIT": ("if i >= 5:\n    return\ng[i] = 1.0\n", 5, "predicate"),
    "TYPE_UNSTABLE_JOIN": (
        "acc = 0\nfor j in range(i):\n    acc += g[j]\ng[i] = acc\n",
        5,
        "cutlass.Float32(0.0)",
    ),
    "TYPE_UNSTABLE_JOIN list": (
        "xs = []\nfor j in range(i):\n    xs.append(g[j])\ng[i] = xs[0]\n",
        5,
        "list can't grow",
    ),
    "TYPE_CONDITIONAL_BRANCH_MISMATCH": ("g[i] = g[i] if i < 4 else 0\n", 4, "the same type"),
    "PHASE_REQUIRES_CONSTANT": ("if cutlass.const_expr(i > 3):\n    g[0] = 1.0\n", 4, "compiled"),
    "ARG_NON_CONSTANT": ("for j in cutlass.range_constexpr(i):\n    g[j] = 1.0\n", 4, "range(...)"),
    "PHASE_DYNAMIC_INDEX": ("xs = [1.0, 2.0]\ng[i] = xs[i]\n", 5, "register tensor"),
}


@pytest.mark.parametrize("name", KERNELS)
def test_what_a_kernel_can_get_wrong(name: str, tmp_path: Path) -> None:
    body, line, hint = KERNELS[name]
    finding, text = explained(in_kernel(body), tmp_path)
    code = name.split()[0]
    assert finding.summary.startswith(f"line {line}: {code}: ")
    assert f"DSLUserCodeError: {code}: " in text
    assert finding.picture.startswith(f"{line:4d} | ")
    assert hint in finding.probable
    assert "\x1b" not in finding.summary


CELLS = {
    "PHASE_DYNAMIC_TO_STATIC_BOOL": (
        "def helper(i):\n    return 1.0 if i > 3 else 2.0\n" + in_kernel("g[i] = helper(i)\n"),
        2,
        "Decorate the helper with @cute.jit",
    ),
    "UNSUP_NO_SOURCE": (
        "exec('@cute.jit\\ndef f(a: cutlass.Int32):\\n    cute.printf(a)\\n')\n"
        "cute.compile(f, cutlass.Int32(1), options=OPTIONS)\n",
        2,
        "has none",
    ),
    "CALL_OUTSIDE_JIT": ("layout = cute.make_layout((4, 8))\n", 1, "move the call into"),
    "CALL_KERNEL_TARGET": (
        "@cute.kernel\ndef kernel(g: cute.Tensor):\n    g[0] = 1.0\n"
        "cute.compile(kernel, fake(), options=OPTIONS)\n",
        4,
        "host function (@cute.jit)",
    ),
    "LAUNCH_NEVER_ISSUED": (
        in_kernel("g[i] = 1.0\n").partition("    kernel(g)")[0]
        + "    kernel(g)\ncute.compile(launch, fake(), options=OPTIONS)\n",
        7,
        ".launch(grid=",
    ),
    "LAUNCH_OUTSIDE_JIT": (
        "@cute.kernel\ndef kernel(g: cute.Tensor):\n    g[0] = 1.0\n"
        "kernel(fake()).launch(grid=(1, 1, 1), block=(32, 1, 1))\n",
        4,
        "@cute.jit",
    ),
    "LAUNCH_INVALID_DIMENSION": (
        in_kernel("g[i] = 1.0\n").replace("grid=(1,", "grid=(7 / 2,"),
        7,
        "cute.ceil_div",
    ),
    "ARG_BIND_FAILED": (
        in_kernel("g[i] = 1.0\n").replace("kernel(g).launch", "kernel(g, 3).launch"),
        7,
        "`def` line",
    ),
    "ARG_ANNOTATION_MISMATCH": (
        in_kernel("g[i] = 1.0\n").replace("launch, fake()", "launch, 'x'"),
        9,
        "cute.Tensor",
    ),
}


@pytest.mark.parametrize("code", CELLS)
def test_what_a_host_function_can_get_wrong(code: str, tmp_path: Path) -> None:
    cell, line, hint = CELLS[code]
    finding, text = explained(cell, tmp_path)
    assert finding.summary.startswith(f"line {line}: {code}: ")
    assert f": {code}: " in text
    assert "^" in finding.picture
    assert hint in finding.probable


COPY = """\
atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), g.element_type, num_bits_per_copy=128)
tiles = cute.zipped_divide(g, (4,))
r = cute.make_rmem_tensor(SIZE, g.element_type)
cute.copy(atom, tiles[(None, i)], r)
g[i] = r[0]
"""


def test_a_wide_copy_of_a_tensor_that_is_not_known_to_be_aligned(tmp_path: Path) -> None:
    cell = in_kernel(COPY.replace("SIZE", "4")).replace("fake()", "fake(align=4)")
    finding, text = explained(cell, tmp_path)
    assert finding.summary.startswith(
        "line 7: 'cute.copy' op source pointer alignment (32 bits) does not meet requirement "
        "(128 bits)"
    )
    assert "assumed_align=16" in finding.probable
    assert "alignment" in text and text.startswith("DSLRuntimeError: MLIRError: ")
    assert finding.picture.splitlines()[0].endswith("cute.copy(atom, tiles[(None, i)], r)")


def test_a_copy_between_tensors_of_different_shapes(tmp_path: Path) -> None:
    finding, _ = explained(in_kernel(COPY.replace("SIZE", "8")), tmp_path)
    assert "expects same size in rank 0" in finding.summary
    assert "Print both layouts" in finding.probable


def test_an_index_of_another_rank(tmp_path: Path) -> None:
    finding, _ = explained(in_kernel("g[i, 0, 0] = 1.0\n"), tmp_path)
    assert finding.summary.startswith("line 4: 'cute.memref.store' op expects coordinate")
    assert "one coordinate a mode" in finding.probable


def test_an_asynchronous_copy_from_a_cpu_tensor(tmp_path: Path) -> None:
    body = """\
    shared = cutlass.memory.SmemAllocator().allocate_tensor(g.element_type, cute.make_layout(128), 16)
    atom = cute.make_copy_atom(cute.nvgpu.cpasync.CopyG2SOp(), g.element_type, num_bits_per_copy=128)
    cute.copy(atom, cute.zipped_divide(g, (4,))[(None, i)], cute.zipped_divide(shared, (4,))[(None, i)])
    """
    on_cpu = "launch, from_dlpack(torch.zeros(128), assumed_align=16)"
    finding, _ = explained(in_kernel(body).replace("launch, fake()", on_cpu), tmp_path)
    assert "global based memref, but got generic" in finding.summary
    assert "make_fake_compact_tensor" in finding.probable


def test_a_view_that_is_not_aligned_as_compiled(tmp_path: Path) -> None:
    cell = """\
@cute.jit
def show(g: cute.Tensor):
    cute.printf("{}", g.layout)
compiled = cute.compile(show, from_dlpack(torch.zeros(16), assumed_align=16))
compiled(from_dlpack(torch.zeros(17)[1:], assumed_align=16))
"""
    finding, _ = explained(cell, tmp_path)
    assert (
        "line 5: RuntimeError: Tensor data pointer is not aligned to 16 bytes." == finding.summary
    )
    assert "x.data_ptr() % 16" in finding.probable


def test_a_launch_without_a_driver(tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a driver: the launch works")
    cell = in_kernel("g[i] = 1.0\n").replace(
        "cute.compile(launch, fake(), options=OPTIONS)",
        "x = from_dlpack(torch.zeros(128))\ncute.compile(launch, x)(x)",
    )
    finding, text = explained(cell, tmp_path)
    assert "cudaErrorInsufficientDriver" in finding.summary
    assert "cudaErrorInsufficientDriver" in text
    assert "no NVIDIA GPU here" in finding.probable


def test_a_variable_that_only_one_branch_sets(tmp_path: Path) -> None:
    finding, text = explained(in_kernel("if i > 5:\n    x = 10.0\ng[i] = x\n"), tmp_path)
    assert finding.summary == "line 6: NameError: name 'x' is not defined"
    assert finding.probable.startswith("x gets its value on some paths only")
    assert text == "DSLUserCodeError: NameError: name 'x' is not defined"


def test_a_kernel_that_needs_an_import(tmp_path: Path) -> None:
    finding, _ = explained(in_kernel("g[i] = math.pi\n"), tmp_path)
    assert finding.summary == "line 4: NameError: name 'math' is not defined"
    assert finding.probable.startswith("Add import math: ")


def test_a_store_of_another_type(tmp_path: Path) -> None:
    body = "t = cute.zipped_divide(g, (4,))[(None, i)]\nt.store(t.load().to(cutlass.Float32))\n"
    cell = in_kernel(body).replace("fake()", "fake(cutlass.Float16)")
    finding, _ = explained(cell, tmp_path)
    assert finding.summary.startswith("line 5: ValueError: Type mismatch, store")
    assert "element_type" in finding.probable


def test_a_layout_whose_stride_has_another_nesting(tmp_path: Path) -> None:
    finding, _ = explained(in_kernel("cute.make_layout((4, 8), stride=(1,))\n"), tmp_path)
    assert finding.summary == "line 4: ValueError: shape and stride must be congruent"
    assert "(4, 8):(8, 1)" in finding.probable


def test_a_misspelt_launch_parameter(tmp_path: Path) -> None:
    cell = in_kernel("g[i] = 1.0\n").replace("block=", "blocks=")
    finding, _ = explained(cell, tmp_path)
    assert "unexpected keyword argument 'blocks'" in finding.summary
    assert "block=(128, 1, 1)" in finding.probable


def test_every_code_of_the_installed_version_has_a_hint() -> None:
    """Codes of the exporter, of type stubs and of the compiler's own bookkeeping aside."""
    from cutlass.base_dsl.diagnostics import DiagId

    aside = ("AOT_", "SPEC_", "INSTRUMENTATION_", "READ_DEPTH", "RECONSTRUCT_", "SNAPSHOT_")
    aside += ("UNOBSERVED_", "PROPERTY_")
    codes = [diagnostic.name for diagnostic in DiagId if not diagnostic.name.startswith(aside)]
    without = [
        code
        for code in codes
        if code not in CUTE_CODES and not code.startswith(tuple(CUTE_FAMILIES))
    ]
    assert without == []
    known = {diagnostic.name for diagnostic in DiagId} | {"CUDA_LAUNCH_INVALID_CONFIG"}
    assert set(CUTE_CODES) <= known
