"""What to do about the errors that learners meet, known by a piece of their text.

Hints are in the words of the lessons and say what to change. CuTe DSL's are in
``error_hints_cute.py``.
"""

from __future__ import annotations

from collections.abc import Mapping

from checkers.grading.error_hints_cute import CUTE_CODES, CUTE_FAMILIES, CUTE_MESSAGES

_NO_DRIVER = (
    "There is no NVIDIA GPU here, or its driver is older than this CUDA needs. Compiling and the "
    "interpreter work without one; `ladder doctor` says what this machine can grade."
)
_POWER_OF_TWO = (
    "A Triton block has a power of two of elements. Round up with triton.next_power_of_2(N) on the "
    "host, and mask the lanes that are too many."
)
_CONSTEXPR = (
    "The size of a block is part of the code: annotate the parameter, BLOCK: tl.constexpr, and "
    "give it at the launch."
)
_GRID = (
    "A kernel is launched with a grid, a tuple of up to three numbers: kernel[(programs,)](...)."
)
_RESOURCES = (
    "The block asks for more registers or shared memory than a multiprocessor has: smaller blocks, "
    "fewer stages (num_stages), or fewer warps."
)

# (pieces of text that must all be there, hint); the first that fits.
MESSAGES: tuple[tuple[tuple[str, ...], str], ...] = (
    *CUTE_MESSAGES,
    # --- Triton
    (("range must be a power of 2",), _POWER_OF_TWO),
    (("Shape element", "power of 2"), _POWER_OF_TWO),
    (("arguments must be of type tl.constexpr",), _CONSTEXPR),
    (
        ("exceeds triton maximum tensor numel",),
        (
            "A block can have at most 1048576 elements: load the row in pieces, in a loop over blocks."
        ),
    ),
    (
        ("Cannot make_shape_compatible",),
        "Two blocks of different shapes meet. Broadcasting works as in NumPy: a column is "
        "x[:, None], a row x[None, :]; pointers, mask and value need the same shape.",
    ),
    (
        ("Cannot access global variable",),
        "A kernel sees globals only as constants: pass the value as a tl.constexpr parameter, or "
        "define it as NAME = tl.constexpr(...).",
    ),
    (
        ("Unsupported ptr type",),
        "tl.load and tl.store take pointers: x_ptr + offsets, where x_ptr is the kernel's argument "
        "for a tensor. Offsets alone, or an integer argument, are no pointers.",
    ),
    (
        ("cannot add pointers together",),
        "A pointer plus integer offsets is a pointer; two pointers can't be added.",
    ),
    (
        ("Value argument cannot be block type",),
        "A whole block is stored to one address. Give a block of pointers: y_ptr + offsets.",
    ),
    (
        ("Mask argument cannot be block type",),
        "A block of masks with one address. Give a block of pointers: x_ptr + offsets.",
    ),
    (
        ("`other` cannot be provided without `mask`",),
        "`other` fills in where the mask is false: give mask= too.",
    ),
    (
        ("Loop-carried variable",),
        "A variable of a loop keeps its type and shape: start with "
        "tl.full((BLOCK,), 0.0, tl.float32), not with 0.",
    ),
    (
        ("Boolean value of Tensor with more than one value",),
        "An `if` takes one truth value, a block has many: use tl.where(condition, a, b) or a mask.",
    ),
    (
        ("__setitem__ is not supported",),
        "Blocks can't be changed in place: build the new one with tl.where, or store to memory.",
    ),
    (
        ("unsupported AST node type: Break",),
        "A Triton loop runs to its end: put the condition into a mask or a tl.where.",
    ),
    (
        ("unsupported AST node type: Continue",),
        "A Triton loop runs every pass whole: use tl.where.",
    ),
    (
        ("unsupported AST node type",),
        "Triton compiles a part of Python: assignments, `if`, `for ... in range`, `while` and calls.",
    ),
    (("Cannot call @triton.jit'd outside of the scope of a kernel",), _GRID),
    (
        ("Did you forget to add @triton.jit",),
        "Functions of tl work inside a @triton.jit function only.",
    ),
    (
        ("Unsupported function referenced",),
        "Only tl functions and other @triton.jit functions can be called in a kernel: tl.exp, not "
        "torch.exp.",
    ),
    (("has no attribute 'is_const'",), _GRID),
    (
        ("'int' object has no attribute 'to'",),
        "On a GPU this works; in the interpreter a loop's counter is a Python int. "
        "tl.cast(row, tl.int64) works in both.",
    ),
    (("object of type", "has no len()"), _GRID),
    (
        ("'NoneType' object has no attribute 'type'",),
        "An argument of the kernel, or a value in it, is None: was something not returned?",
    ),
    (
        ("got multiple values for keyword argument",),
        "A parameter is given twice. Those that triton.autotune chooses come from its Config, and "
        "are left out at the launch.",
    ),
    (
        ("missing", "required positional argument"),
        "The call leaves out a parameter that has no default: compare it with the `def` line.",
    ),
    (
        ("key contains names that are not kernel arguments",),
        "key= of triton.autotune names parameters of the kernel, exactly as its `def` line does.",
    ),
    (("out of resource",), _RESOURCES),
    (
        ("Input shapes should have",),
        "tl.dot needs blocks of at least 16 in each dimension (K at least 16): larger blocks.",
    ),
    (("0 active drivers",), _NO_DRIVER),
    (
        ("Pointer argument", "cannot be accessed from Triton"),
        "The tensor is on the CPU, and the kernel runs on the GPU: allocate with device=x.device.",
    ),
    # --- CUDA
    (("cudaErrorInsufficientDriver",), _NO_DRIVER),
    (("cudaErrorNoDevice",), _NO_DRIVER),
    (("Found no NVIDIA driver",), _NO_DRIVER),
    (("not compiled with CUDA enabled",), _NO_DRIVER),
    (("no CUDA-capable device",), _NO_DRIVER),
    (
        ("illegal memory access",),
        "A thread read or wrote outside of a tensor: look at masks and predicates, at row * stride "
        "past 2^31 (it needs 64 bits), and at the number of blocks.",
    ),
    (
        ("misaligned address",),
        "A wide load or store went to an address that its width does not divide: 16 bytes at a "
        "time need addresses that are multiples of 16.",
    ),
    (("too many resources requested",), _RESOURCES),
    (("invalid configuration argument",), CUTE_CODES["CUDA_LAUNCH_INVALID_CONFIG"]),
    (("CUDA_ERROR_INVALID_VALUE",), CUTE_CODES["CUDA_LAUNCH_INVALID_CONFIG"]),
    (
        ("unspecified launch failure",),
        ("The kernel crashed: an address far outside of every tensor, or a barrier used wrongly."),
    ),
    (("device-side assert",), "An assertion in the kernel failed; what it printed is below."),
    (("out of memory",), "The GPU's memory is full: end other processes that use it (nvidia-smi)."),
    # --- PyTorch
    (
        ("Expected all tensors to be on the same device",),
        "Allocate on the input's device: torch.empty(..., device=x.device) or torch.empty_like(x).",
    ),
    (
        ("size of tensor a", "must match the size of tensor b"),
        "Two tensors don't broadcast. keepdim=True keeps a reduced dimension as length 1.",
    ),
    (
        ("Attempting to broadcast a dimension",),
        "Two tensors don't broadcast. keepdim=True keeps a reduced dimension as length 1.",
    ),
    (("Data-dependent branching",), "`if` on a tensor's value can't be compiled: use torch.where."),
    (
        ("Recompiling function",),
        "Each new size or Python number compiles again: torch.compile(dynamic=True), or pass what "
        "changes as a tensor.",
    ),
    (
        ("failed to find name in frame builtins",),
        "A name is not known: a cell must import what it uses beyond the setup cell, a file all of it.",
    ),
    (("Unrecognized mode",), "The modes are default, reduce-overhead and max-autotune."),
)

# By the type of a Python exception, where its text says nothing known.
PYTHON_TYPES: Mapping[str, str] = {
    "AttributeError": (
        "Check the spelling, and on what the attribute is looked up: a module, a tensor, None?"
    ),
    "IndexError": "An index is outside of the sequence; it counts from 0.",
    "ModuleNotFoundError": (
        "The module is not installed here; an exercise needs only what the setup cell imports."
    ),
    "NotImplementedError": "A blank is still there: the line that raises this is to be replaced.",
    "TypeError": "Compare the call with the function's `def` line and the types of its arguments.",
    "ValueError": "A value is not one that this function takes; its text says which.",
    "ZeroDivisionError": "Something is divided by zero: an empty tensor, or a size that is 0?",
    "AssertionError": "An assertion in the code does not hold.",
    "CompileTimeAssertionFailure": "A tl.static_assert of the kernel does not hold.",
    "Unsupported": (
        "torch.compile can't put this into one graph: Python side effects, .item(), or branching on "
        "a tensor's value. Leave it out of the compiled function."
    ),
    "SystemExit": "A function returns; it never exits the program.",
}


def hint_for(code: str, text: str, type_name: str) -> str:
    """The hint for an error: by its code, else by its text, else by its type; "" if none fits.

    code: CuTe DSL's, or "".  text: everything the error says.  type_name: of the exception.
    """
    if code in CUTE_CODES:
        return CUTE_CODES[code]
    lowered = text.lower()
    for pieces, hint in MESSAGES:
        if all(piece.lower() in lowered for piece in pieces):
            return hint
    families = [prefix for prefix in CUTE_FAMILIES if code.startswith(prefix)]
    if code and families:
        return CUTE_FAMILIES[max(families, key=len)]
    return PYTHON_TYPES.get(type_name, "")
