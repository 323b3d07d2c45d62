"""Triton's errors, each provoked for real, as a learner reads them: compiled and interpreted.

The interpreter is chosen when triton is imported, so its cases run in a process of their own.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from checkers.exercise import Finding
from checkers.grading.errors import error_text, explain

triton = pytest.importorskip("triton")

SETUP = "import torch\nimport triton\nimport triton.language as tl\n\n"

# name: (kernel source, what the summary says after its line, piece of the hint)
KERNELS = {
    "not_a_power_of_two": (
        "@triton.jit\ndef k(x_ptr, N: tl.constexpr):\n    c = tl.arange(0, 100)\n",
        "line 3: ValueError: arange's range must be a power of 2",
        "triton.next_power_of_2(N)",
    ),
    "not_a_constexpr": (
        "@triton.jit\ndef k(x_ptr, n):\n    c = tl.arange(0, n)\n",
        "line 3: ValueError: arange's arguments must be of type tl.constexpr",
        "BLOCK: tl.constexpr",
    ),
    "shapes": (
        "@triton.jit\ndef k(x_ptr, n):\n    a = tl.arange(0, 64)\n    b = a + tl.arange(0, 32)\n",
        "line 4: ValueError: Cannot make_shape_compatible: incompatible dimensions at index 0: 64",
        "x[:, None]",
    ),
    "unknown_name": (
        "@triton.jit\ndef k(x_ptr, n):\n    tl.store(x_ptr, math.pi)\n",
        "line 3: NameError: math is not defined",
        "Add import math",
    ),
    "set_in_a_branch": (
        "@triton.jit\ndef k(x_ptr, n):\n    if n > 3:\n        y = 1.0\n    tl.store(x_ptr, y)\n",
        "line 5: NameError: y is not defined",
        "y gets its value on some paths only",
    ),
    "global": (
        "SIZE = 64\n@triton.jit\ndef k(x_ptr, n):\n    a = tl.arange(0, SIZE)\n",
        "line 4: NameError: Cannot access global variable SIZE",
        "tl.constexpr parameter",
    ),
    "offsets_for_pointers": (
        "@triton.jit\ndef k(x_ptr, n):\n    x = tl.load(tl.arange(0, 64))\n",
        "line 3: ValueError: Unsupported ptr type",
        "x_ptr + offsets",
    ),
    "two_pointers": (
        "@triton.jit\ndef k(x_ptr, n):\n    x = tl.load(x_ptr + x_ptr)\n",
        "line 3: TypeError: cannot add pointers together",
        "can't be added",
    ),
    "block_too_large": (
        "@triton.jit\ndef k(x_ptr, n):\n    a = tl.arange(0, 2097152)\n",
        "line 3: ValueError: numel (2097152) exceeds triton maximum tensor numel (1048576)",
        "in a loop over blocks",
    ),
    "block_to_one_address": (
        "@triton.jit\ndef k(x_ptr, n):\n    tl.store(x_ptr, tl.arange(0, 64))\n",
        "line 3: ValueError: Value argument cannot be block type",
        "y_ptr + offsets",
    ),
    "other_without_mask": (
        "@triton.jit\ndef k(x_ptr, n):\n    x = tl.load(x_ptr + tl.arange(0, 8), other=0.0)\n",
        "line 3: ValueError: `other` cannot be provided without `mask`",
        "give mask= too",
    ),
    "accumulator_changes_type": (
        "@triton.jit\ndef k(x_ptr, n):\n    acc = 0\n    for i in range(n):\n"
        "        acc += tl.load(x_ptr + tl.arange(0, 8))\n",
        "line 4: AssertionError: Loop-carried variable acc has initial type int32",
        "tl.full((BLOCK,), 0.0, tl.float32)",
    ),
    "if_on_a_block": (
        "@triton.jit\ndef k(x_ptr, n):\n    if tl.arange(0, 8) < n:\n        tl.store(x_ptr, 1.0)\n",
        "line 3: Boolean value of Tensor with more than one value is ambiguous",
        "tl.where",
    ),
    "break": (
        "@triton.jit\ndef k(x_ptr, n):\n    for i in range(n):\n        if i > 3:\n            break\n",
        "line 5: unsupported AST node type: Break",
        "runs to its end",
    ),
    "item_assignment": (
        "@triton.jit\ndef k(x_ptr, n):\n    x = tl.arange(0, 8)\n    x[3] = 1\n",
        "line 4: NotImplementedError: __setitem__ is not supported in triton",
        "can't be changed in place",
    ),
    "torch_in_a_kernel": (
        "@triton.jit\ndef k(x_ptr, n):\n    tl.store(x_ptr, torch.exp(1.0))\n",
        "RuntimeError: Unsupported function referenced",
        "tl.exp, not torch.exp",
    ),
    "static_assert": (
        "@triton.jit\ndef k(x_ptr, n):\n    tl.static_assert(1 > 2, 'too large')\n",
        "line 3: too large",
        "tl.static_assert",
    ),
    "in_a_helper": (
        "@triton.jit\ndef helper(a):\n    return tl.arange(0, 100) + a\n\n"
        "@triton.jit\ndef k(x_ptr, n):\n    a = helper(3)\n",
        "line 3: ValueError: arange's range must be a power of 2",
        "triton.next_power_of_2(N)",
    ),
    "in_a_library_function": (
        "@triton.jit\ndef k(x_ptr, n):\n    s = tl.sum(tl.arange(0, 8), axis=1)\n",
        "line 3: ValueError: invalid axis 1",
        "its text says which",
    ),
}


def load(cell: str, folder: Path):  # noqa: ANN201
    path = folder / "answer.py"
    path.write_text(SETUP + cell)
    spec = importlib.util.spec_from_file_location(f"answer_{folder.name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def compile_kernel(kernel) -> None:  # noqa: ANN001
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kinds = {"x_ptr": "*fp32", "n": "i32", "N": "constexpr"}
    signature = {name: kinds[name] for name in kernel.arg_names}
    constants = {"N": 64} if "N" in signature else {}
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants)
    triton.compile(source, target=GPUTarget("cuda", 90, 32))


def explained(cell: str, folder: Path, call: str = "") -> tuple[Finding, str]:
    source = SETUP + cell
    try:
        module = load(cell, folder)
        if call:
            eval(call, vars(module))
        else:
            compile_kernel(module.k)
    except BaseException as error:
        finding = explain(error, source, str(folder / "answer.py"), SETUP.count("\n") + 1)
        return finding, error_text(error)
    raise AssertionError("nothing was raised")


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="these compile")
@pytest.mark.parametrize("name", KERNELS)
def test_what_a_kernel_can_get_wrong(name: str, tmp_path: Path) -> None:
    cell, summary, hint = KERNELS[name]
    finding, text = explained(cell, tmp_path)
    assert finding.summary.startswith(summary)
    assert hint in finding.probable
    if summary.startswith("line"):
        line = int(summary.split()[1].rstrip(":"))
        assert finding.picture.splitlines()[0] == f"{line:4d} | {cell.splitlines()[line - 1]}"
        assert "^" in finding.picture
        assert text.split(":")[0] in (
            "CompilationError",
            "UnsupportedLanguageConstruct",
            "CompileTimeAssertionFailure",
        )


CALLS = {
    "no_grid": (
        "@triton.jit\ndef k(x_ptr):\n    tl.store(x_ptr, 1.0)\n\ndef f():\n    k(torch.zeros(4))\n",
        "f()",
        "line 6: RuntimeError: Cannot call @triton.jit'd outside of the scope of a kernel",
        "kernel[(programs,)](...)",
    ),
    "tl_outside": (
        "def f():\n    tl.arange(0, 4)\n",
        "f()",
        "line 2: ValueError: Did you forget to add @triton.jit",
        "inside a @triton.jit function only",
    ),
    "no_gpu": (
        "@triton.jit\ndef k(x_ptr):\n    tl.store(x_ptr, 1.0)\n\ndef f():\n    k[(1,)](torch.zeros(4))\n",
        "f()",
        "line 6: RuntimeError: 0 active drivers",
        "no NVIDIA GPU here",
    ),
}


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="these compile")
@pytest.mark.parametrize("name", CALLS)
def test_what_a_call_can_get_wrong(name: str, tmp_path: Path) -> None:
    import torch

    if name == "no_gpu" and torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    cell, call, summary, hint = CALLS[name]
    finding, _ = explained(cell, tmp_path, call)
    assert finding.summary.startswith(summary)
    assert hint in finding.probable


INTERPRETED = {
    "in_a_kernel": (
        "@triton.jit\ndef k(x_ptr):\n    c = tl.arange(0, 100)\n\ndef f():\n    k[(1,)](torch.zeros(4))\n",
        "line 3: ValueError: arange's range must be a power of 2",
        "triton.next_power_of_2(N)",
    ),
    "in_a_helper": (
        "@triton.jit\ndef helper(a):\n    return tl.arange(0, 64) + tl.arange(0, 32)\n\n"
        "@triton.jit\ndef k(x_ptr):\n    c = helper(1)\n\ndef f():\n    k[(1,)](torch.zeros(4))\n",
        "line 3: ValueError: Cannot make_shape_compatible",
        "x[:, None]",
    ),
    "missing_argument": (
        "@triton.jit\ndef k(x_ptr, n):\n    tl.store(x_ptr, n)\n\ndef f():\n    k[(1,)](torch.zeros(4))\n",
        "line 6: TypeError: k() missing 1 required positional argument: 'n'",
        "compare it with the `def` line",
    ),
    "grid_is_a_number": (
        "@triton.jit\ndef k(x_ptr):\n    tl.store(x_ptr, 1.0)\n\ndef f():\n    k[1.5](torch.zeros(4))\n",
        "line 6: TypeError: object of type 'float' has no len()",
        "kernel[(programs,)](...)",
    ),
    "none_for_a_tensor": (
        "@triton.jit\ndef k(x_ptr):\n    tl.store(x_ptr, 1.0)\n\ndef f():\n    k[(1,)](None)\n",
        "line 3: AttributeError: 'NoneType' object has no attribute 'type'",
        "is None",
    ),
    "autotuned_parameter_given": (
        "@triton.autotune(configs=[triton.Config({'B': 4})], key=['n'])\n@triton.jit\n"
        "def k(x_ptr, n, B: tl.constexpr):\n    tl.store(x_ptr, 1.0)\n\n"
        "def f():\n    k[(1,)](torch.zeros(4), 4, B=4)\n",
        "line 7: TypeError: triton.runtime.interpreter.InterpretedFunction.run() got multiple",
        "come from its Config",
    ),
}


def test_what_the_interpreter_says(tmp_path: Path) -> None:
    """All in one process: the interpreter is slow to import, quick to fail."""
    for name in INTERPRETED:
        (tmp_path / name).mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, str(tmp_path)],
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for name, (_, summary, hint) in INTERPRETED.items():
        assert found[name][0].startswith(summary), name
        assert hint in found[name][1], name


if __name__ == "__main__":
    outcome = {}
    for case, (cell_source, *_) in INTERPRETED.items():
        told, _ = explained(cell_source, Path(sys.argv[1]) / case, "f()")
        outcome[case] = (told.summary, told.probable)
    sys.stdout.write(json.dumps(outcome) + "\n")
