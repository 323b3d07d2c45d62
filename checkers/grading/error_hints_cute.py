"""What to do about CuTe DSL's errors: data for ``error_hints.hint_for``.

Its errors carry a code; those of the verifier and of the run-time library are known by a piece of
their text. Hints are in the words of the lessons and say what to change.
"""

from __future__ import annotations

from collections.abc import Mapping

_CONSTANT = (
    "This must be known when the kernel is compiled: a Python number, a Constexpr parameter, or a "
    "static part of a layout. A value computed on the GPU (a thread index, a dynamic size) is not."
)
_ONE_TYPE = (
    "A variable that is set before and inside a dynamic `if` or loop keeps one type: start an "
    "accumulator with cutlass.Float32(0.0), not with 0. A Python list can't grow in there; use a "
    "register tensor (cute.make_rmem_tensor) or a loop with cutlass.range_constexpr."
)
_PYTHON_VALUE = (
    "Python numbers are fixed when the kernel is traced. What changes inside a dynamic `if` or "
    "loop must be a run-time value from the start: n = cutlass.Int32(0)."
)
_CONTAINER = (
    "Lists, dicts, tuples and sets exist only while the kernel is traced, so a dynamic `if` or "
    "loop can't change them. Unroll with cutlass.range_constexpr, or keep the values in a register "
    "tensor (cute.make_rmem_tensor)."
)
_DYNAMIC_INDEX = (
    "A Python list can't be indexed by a value that only the GPU knows, and a plain function can't "
    "loop over one. Use a register tensor (cute.make_rmem_tensor), or unroll the loop with "
    "cutlass.range_constexpr."
)
_ARGUMENTS = (
    "Compare the call with the function's `def` line: every parameter once, in that order. What "
    "cute.compile was given must match what the compiled function is called with."
)
_ARGUMENT_TYPE = (
    "Host and kernel functions take cute.Tensor (from from_dlpack or a fake tensor), numbers "
    "(cutlass.Int32, Float32) and cutlass.Constexpr. Make the annotation and the value agree."
)
_LAUNCH = (
    "grid, block and cluster are three integers each: .launch(grid=(x, 1, 1), block=(128, 1, 1))."
)
_BEFORE_BRANCH = (
    "Both sides of a dynamic `if` are compiled, and a loop may run zero times: give the variable a "
    "value before it."
)
_PLAIN_SYNTAX = (
    "This piece of Python can't be compiled for the GPU. Write it with plain assignments, `if`, "
    "`for ... in range(...)` and calls."
)
_INTEGER_LOOP = "Loop bounds and steps are integers: // in place of /."
_OPTIONS = 'Options are written as on a command line: options="--opt-level 3 --generate-line-info".'

# CuTe DSL's error codes that an exercise can provoke.
CUTE_CODES: Mapping[str, str] = {
    "UNSUP_EARLY_EXIT": (
        "A kernel can't return, break or continue inside a dynamic `if` or loop: all threads run "
        "the code to its end. Turn the guard into a predicate: put the work inside `if i < n:`."
    ),
    "TYPE_UNSTABLE_JOIN": _ONE_TYPE,
    "TYPE_CHANGED_INSIDE_REGION": _ONE_TYPE,
    "CONTAINER_STRUCTURE_CHANGED": _ONE_TYPE,
    "TYPE_CONDITIONAL_BRANCH_MISMATCH": (
        "Both sides of `a if condition else b` need the same type: cutlass.Float32(0.0) beside a "
        "float tensor's element, not 0."
    ),
    "PHASE_DYNAMIC_TO_STATIC_BOOL": (
        "A plain Python function can't branch on a value that only the GPU knows. Decorate the "
        "helper with @cute.jit; then its `if` becomes a branch in the kernel."
    ),
    "UNSUP_NO_SOURCE": (
        "CuTe DSL compiles a function from its source file. Code made by exec, or typed into the "
        "Python prompt, has none: put the function into the exercise's cell or file."
    ),
    "CALL_OUTSIDE_JIT": (
        "Layouts and tensors exist only while a @cute.jit or @cute.kernel function is traced: move "
        "the call into such a function, and call that."
    ),
    "CALL_KERNEL_TARGET": (
        "cute.compile takes the host function (@cute.jit) that launches the kernel, not the kernel."
    ),
    "CALL_MISSING_JIT_DECORATOR": "Put @cute.jit over the host function before it is compiled.",
    "CALL_NOT_CALLABLE": "Pass the function itself: cute.compile(launch, ...), not launch(...).",
    "CALL_FUNCTION_NOT_PROVIDED": "The first argument of cute.compile is the @cute.jit function.",
    "LAUNCH_NEVER_ISSUED": (
        "Calling a kernel only makes a launcher. Start it: "
        "kernel(...).launch(grid=(...), block=(...), stream=stream)."
    ),
    "LAUNCH_OUTSIDE_JIT": (
        "A launch belongs into a host function decorated with @cute.jit; compile and call that."
    ),
    "LAUNCH_INVALID_DIMENSION": f"{_LAUNCH} Round up with cute.ceil_div, not with /.",
    "LAUNCH_MISSING_ARG": _ARGUMENTS,
    "ARG_BIND_FAILED": _ARGUMENTS,
    "ARG_COUNT_MISMATCH": _ARGUMENTS,
    "ARG_TENSOR_NOT_ON_DEVICE": "Kernels read GPU memory: move the tensor there with .cuda().",
    "ARG_INVALID_ALIGNMENT": "An alignment is a power of two, in bytes: assumed_align=16.",
    "ARG_NON_CONSTANT": f"{_CONSTANT} For a run-time bound write range(...) instead.",
    "ARG_WRONG_TYPE": _INTEGER_LOOP,
    "ARG_FOR_LOOP_STEP_NOT_INT": _INTEGER_LOOP,
    "TYPE_LOOP_PARAM_NOT_INT": _INTEGER_LOOP,
    "PHASE_REQUIRES_CONSTANT": f"{_CONSTANT} Without const_expr the `if` becomes a branch.",
    "PHASE_DYNAMIC_INDEX": _DYNAMIC_INDEX,
    "CONTAINER_LIST_INDEX_STAGED": _DYNAMIC_INDEX,
    "UNSUP_DECORATOR_ORDER": "@cute.jit or @cute.kernel stands directly above `def`.",
    "UNSUP_ARCH": "This instruction is not on every GPU: see which one the exercise is for.",
    "STALE_SPECIALIZATION": (
        "The compiled function keeps the values of globals and constants that it saw. Compile "
        "again for other values: they belong into the key of the cache."
    ),
    "CUDA_LAUNCH_INVALID_CONFIG": (
        "The launch asks for more than the GPU has: at most 1024 threads a block and 227 KiB of "
        "shared memory, and a grid that the cluster divides."
    ),
}

# For the codes that are not in the table, by how they begin.
CUTE_FAMILIES: Mapping[str, str] = {
    "PHASE_": _PYTHON_VALUE,
    "CONTAINER_": _CONTAINER,
    "UNSUP_META_CONTAINER": _CONTAINER,
    "UNSUP_BUILTIN": "Not every Python function works in a kernel: look for it in cute or cute.math.",
    "BOUNDARY_": (
        "A plain Python function runs while the kernel is traced, once. What it changes inside a "
        "dynamic `if` or loop belongs into a @cute.jit function, or into its return value."
    ),
    "MEMREF_": "Make tensors before the dynamic `if` or loop, and fill them inside.",
    "SCOPE_": _BEFORE_BRANCH,
    "BODY_": _BEFORE_BRANCH,
    "LAUNCH_": _LAUNCH,
    "TYPE_CLUSTER": _LAUNCH,
    "CONFIG_CLUSTER": f"{_LAUNCH} {_CONSTANT}",
    "CONFIG_MAX_THREADS": _CONSTANT,
    "CONFIG_": _OPTIONS,
    "ATTR_": _CONSTANT,
    "ARG_": _ARGUMENT_TYPE,
    "CALL_": _ARGUMENTS,
    "TYPE_": _ONE_TYPE,
    "TENSOR_": _ARGUMENT_TYPE,
    "UNSUP_": _PLAIN_SYNTAX,
    "OWNER_": "Keep the kernel's state in plain variables and tensors, not in Python objects.",
    "WRAPPER_": _ONE_TYPE,
}

_MISALIGNED = (
    "The tensor starts at an address that the compiled kernel does not allow (a view such as "
    "x[1:]). Check x.data_ptr() % 16 in the PyTorch-facing function, and copy or refuse it."
)

# (pieces of text that must all be there, hint), for errors without a code.
CUTE_MESSAGES: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("ptr alignment", "does not meet requirement"),
        "The copy moves more bits at a time than the pointer is known to be aligned to (128 bits "
        "need 16 bytes). If the tensor really is, declare it: assumed_align=16 where it is made; "
        "and slices keep an alignment only when their offset is a multiple of it.",
    ),
    (("is not aligned to",), _MISALIGNED),
    (("Misaligned Tensor data",), _MISALIGNED),
    (
        ("expects global based memref", "generic"),
        "An asynchronous copy needs a source known to lie in global memory; a tensor on the CPU "
        "gives a pointer of unknown kind. Compile with make_fake_compact_tensor, or with CUDA "
        "tensors.",
    ),
    (
        ("expects same size in rank",),
        "cute.copy needs source and destination of the same shape, mode by mode. Print both "
        "layouts; partition both with the same tiled copy.",
    ),
    (
        ("weakly congruent",),
        "The index has another structure than the tensor's shape: one coordinate a mode, nested "
        "like the layout. Print the tensor's layout.",
    ),
    (
        ("shape and stride must be congruent",),
        "Shape and stride need the same nesting: (4, 8):(8, 1).",
    ),
    (
        ("op using value defined outside the region",),
        "A value made in one function is used in another: pass it as an argument.",
    ),
    (
        ("does not dominate this use",),
        "A value made inside a branch or loop, or in another function, is used where it does not "
        "exist. Make it before the branch, or pass it as an argument.",
    ),
    (
        ("Type mismatch, store",),
        "Convert before storing: values.to(destination.element_type).",
    ),
    (("valid execution engine",), "It was compiled for another GPU than the one at hand."),
    (("LaunchConfig", "unexpected keyword"), _LAUNCH),
    (("Failed to bind arguments to function",), _ARGUMENTS),
    (
        ("tensors that require gradient",),
        "A tensor that autograd tracks can't be exported: from_dlpack(x.detach(), ...).",
    ),
    (
        ("code object with 0 free vars",),
        "The file was changed after it was imported: restart the notebook's kernel.",
    ),
    (
        ("No module named 'cutlass'",),
        "CuTe DSL is missing: pip install nvidia-cutlass-dsl (not cutlass, not nvidia-cutlass).",
    ),
    (
        ("incompatible function arguments",),
        "A library function got an argument of a type that it doesn't take; see the line. If every "
        "kernel fails like this, two versions of nvidia-cutlass-dsl are mixed: `ladder doctor`.",
    ),
)
