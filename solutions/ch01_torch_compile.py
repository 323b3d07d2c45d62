"""torch.compile: softmax from primitive operations, fused into one kernel by one decorator.

``softmax_steps`` is ordinary PyTorch. ``fused_softmax`` is the same function compiled for one shape,
``varying_softmax`` a masked one compiled once for any number of rows. ``read_kernel`` reads what
Inductor wrote. Read them in this order.
"""

# %% setup
import ast
import functools
from collections.abc import Callable
from typing import NamedTuple

import torch


class Launch(NamedTuple):
    """One kernel launch in a generated module."""

    kernel: str  # its name: triton_per_... has whole rows in registers, triton_red_... loops
    parameters: tuple[str, ...]  # what the kernel calls its arguments: "in_ptr0", "out_ptr1", ...
    arguments: tuple[str, ...]  # what is passed for them: "arg0_1" is x, "buf2" an array
    body: str  # the kernel's source


def launches(code: str) -> list[Launch]:
    """The kernel launches of a module that Inductor generated for a GPU, in order.

    code: the module's text, with ``name = async_compile.triton('name', '''source''')`` for every
        kernel, and ``name.run(arguments, stream=...)`` for every launch.
    """
    tree = ast.parse(code)
    sources = {
        node.targets[0].id: node.value.args[1].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "async_compile.triton"
    }
    found = []
    for node in ast.walk(tree):
        name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if name.removesuffix(".run") in sources:
            body = sources[name.removesuffix(".run")]
            kernel = next(n for n in ast.walk(ast.parse(body)) if isinstance(n, ast.FunctionDef))
            parameters = tuple(parameter.arg for parameter in kernel.args.args)
            arguments = tuple(ast.unparse(argument) for argument in node.args)
            found.append((node.lineno, Launch(kernel.name, parameters, arguments, body)))
    return [launch for _, launch in sorted(found)]


# %% exercise ch01.fused_softmax
def softmax_steps(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last dimension, from primitive operations, in float32 in between.

    x: (M, N) floating point.  Returns (M, N) in x's dtype; every row sums to 1.
    """
    ### BEGIN SOLUTION widen to float32; subtract the row's maximum; exp; divide by the row's sum (4 lines)
    wide = x.float()
    row_max = wide.amax(dim=-1, keepdim=True)
    numerator = torch.exp(wide - row_max)
    return (numerator / numerator.sum(dim=-1, keepdim=True)).to(x.dtype)
    ### END SOLUTION


@functools.cache
def compiled_softmax() -> Callable[[torch.Tensor], torch.Tensor]:
    """softmax_steps, compiled, one kernel for each shape that it meets: after eight shapes Dynamo
    stops compiling and runs the steps one by one (torch._dynamo.config.recompile_limit)."""
    ### BEGIN SOLUTION torch.compile it; dynamic=False keeps N a constant in the kernel (1 line)
    return torch.compile(softmax_steps, dynamic=False)
    ### END SOLUTION


def fused_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last dimension in one kernel.

    x: (M, N) floating point, contiguous.  Returns (M, N) in x's dtype.
    To be moved: 2*M*N*itemsize bytes. Raises ValueError for anything but a floating-point matrix.
    """
    if x.ndim != 2 or not x.is_floating_point():
        raise ValueError(f"x must be a floating-point matrix, not {x.dtype} of {x.ndim} dimensions")
    return compiled_softmax()(x)


# %% exercise ch01.varying_rows
def masked_steps(x: torch.Tensor, valid: int) -> torch.Tensor:
    """Softmax over the first ``valid`` columns of every row; the other columns become 0."""
    columns = torch.arange(x.shape[1], device=x.device)
    ### BEGIN SOLUTION columns from `valid` on become -inf, in float32; then softmax (3 lines)
    wide = torch.where(columns < valid, x.float(), float("-inf"))
    numerator = torch.exp(wide - wide.amax(dim=-1, keepdim=True))
    return (numerator / numerator.sum(dim=-1, keepdim=True)).to(x.dtype)
    ### END SOLUTION


@functools.cache
def compiled_masked() -> Callable[[torch.Tensor, int], torch.Tensor]:
    """masked_steps, compiled once for all row counts and all values of ``valid``."""
    ### BEGIN SOLUTION torch.compile it so that sizes are variables from the first call on (1 line)
    return torch.compile(masked_steps, dynamic=True)
    ### END SOLUTION


def varying_softmax(x: torch.Tensor, valid: int) -> torch.Tensor:
    """Softmax over the first ``valid`` columns, for batches of every size, without compiling anew.

    x: (M, N) floating point, contiguous; M differs from call to call, N stays.
    valid: 2 <= valid <= N, differs from call to call.  Returns (M, N) in x's dtype, 0 from column
    ``valid`` on.  Raises ValueError for other arguments.
    """
    if x.ndim != 2 or not x.is_floating_point():
        raise ValueError(f"x must be a floating-point matrix, not {x.dtype} of {x.ndim} dimensions")
    if not 2 <= valid <= x.shape[1]:
        raise ValueError(f"valid must be from 2 to N={x.shape[1]}, not {valid}")
    ### BEGIN SOLUTION keep N a constant, torch._dynamo.mark_static(x, 1), and call (2 lines)
    torch._dynamo.mark_static(x, 1)
    return compiled_masked()(x, valid)
    ### END SOLUTION


# %% exercise ch01.read_the_kernel
def read_kernel(code: str) -> dict[str, int]:
    """What a generated module does with its input and its output.

    code: a module that Inductor generated for ``y = f(x)`` on a GPU. ``arg0_1`` is x.
    Returns {"kernels": launches, "looped": launches of kernels that walk a row block by block
    ("triton_red_..."), "x_loads": how often x is read from end to end: loads from x's pointer,
    over all launches that get x}.
    """
    found = launches(code)
    ### BEGIN SOLUTION the launches whose kernel's name begins with "triton_red_" (1 line)
    looped = [launch for launch in found if launch.kernel.startswith("triton_red_")]
    ### END SOLUTION
    x_loads = 0
    for launch in found:
        for parameter, argument in zip(launch.parameters, launch.arguments, strict=False):
            ### BEGIN SOLUTION if x is passed: count the places that load from this parameter (2 lines)
            if argument == "arg0_1":
                x_loads += launch.body.count(f"tl.load({parameter} ")
            ### END SOLUTION
    return {"kernels": len(found), "looped": len(looped), "x_loads": x_loads}


# %% reference the steps of a row softmax, uncompiled, for the speed table
def eager_softmax(x: torch.Tensor) -> torch.Tensor:
    """softmax_steps as it is: one kernel a step."""
    return softmax_steps(x)


# %% reference long rows kept in registers: Inductor builds both kinds of kernel and times them
@functools.cache
def compiled_multi_kernel() -> Callable[[torch.Tensor], torch.Tensor]:
    """softmax_steps with Inductor's choice between looped and whole rows left to a measurement."""
    return torch.compile(softmax_steps, dynamic=False, options={"triton.multi_kernel": 1})


def multi_kernel_softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last dimension; rows up to N=16384 may stay in registers.

    x: (M, N) floating point, contiguous, on CUDA.  Returns (M, N) in x's dtype.
    """
    return compiled_multi_kernel()(x)
