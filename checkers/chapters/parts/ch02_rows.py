"""What the softmax kernels of chapter 2 are given, and what their wrong answers have in common."""

from __future__ import annotations

import ast

import torch

from checkers.exercise import Case, Diagnosis, Floor, SpeedTarget
from checkers.grading import syntax

# Values are drawn this many at a time and repeated: a gigabyte of new random numbers takes seconds.
DRAWN = 1 << 23
LARGE = 1 << 28

PROGRAMS = "A program, its lanes and its row"
MASKS = "Masks and the tail"
MAXIMUM = "Why the maximum comes first"
FLOAT32 = "Sixteen bits in memory, thirty-two in registers"
STRIDES = "Strides, and rows beyond 2^31 elements"
REGISTERS = "How many warps"
SHORT = "Short rows: several to a program"
LONG = "Long rows: a running maximum"
BACK = "There and back: what the L2 cache still holds"
TUNING = "Autotuning without cheating"

# Names of the cases in which some row ends before a power of two.
RAGGED = frozenset({"tail_1", "not_a_multiple", "one_row", "very_negative", "spike_in_the_tail"})


# --- inputs ------------------------------------------------------------------------------------


def rows(case: Case, generator: torch.Generator) -> tuple[torch.Tensor]:
    """x of the case's M, N, dtype, on the generator's device.

    values: "normal" or one of the kinds below. row_stride: elements from row to row, more than N.
    """
    M, N = case["M"], case["N"]
    drawn = min(M, max(DRAWN // N, 1))
    x = torch.randn(drawn, N, generator=generator, device=generator.device)
    x = arranged(x, case.parameters.get("values", "normal")).to(case.dtype)
    if drawn < M:
        x = x.repeat(-(-M // drawn), 1)[:M]
    stride = case.parameters.get("row_stride")
    if stride is not None:
        apart = torch.empty(
            (M - 1) * stride + N, dtype=case.dtype, device=generator.device
        ).as_strided((M, N), (stride, 1))
        x = apart.copy_(x)
    return (x,)


def arranged(x: torch.Tensor, values: str) -> torch.Tensor:
    """Normal random numbers turned into what the case is about."""
    M, N = x.shape
    columns = torch.arange(N, device=x.device)
    if values == "large":
        return x + 1e4
    if values == "very_negative":
        return x - 1e4
    if values == "equal":
        return torch.full_like(x, 3.0)
    if values == "half_minus_inf":  # as a causal mask leaves them, and its mirror image
        cut = (torch.arange(M, device=x.device)[:, None] + 1) * N // (M + 1)
        even = (torch.arange(M, device=x.device) % 2 == 0)[:, None]
        return x.masked_fill(torch.where(even, columns >= cut, columns < cut), -float("inf"))
    if values == "spike_last":
        return torch.where(columns == N - 1, 50.0, x)
    if values == "rising":  # every block has a larger maximum than the one before
        return x + 40.0 * columns / N
    if values == "falling":  # every block has a smaller maximum, by more than exp can bridge
        return x - 1000.0 * columns / N
    if values == "scales":  # rows that share no scale
        return x + 200.0 * (torch.arange(M, device=x.device)[:, None] - M // 2)
    assert values == "normal", values
    return x


def softmax(x: torch.Tensor) -> torch.Tensor:
    """What is right, in float64; in float32, which takes half the memory, for a huge x of 16 bits."""
    halve = x.numel() > LARGE and x.dtype.itemsize == 2
    return x.softmax(-1, dtype=torch.float32 if halve else torch.float64)


def length(case: Case) -> int:
    """Terms in the longest sum."""
    return case["N"]


def timed(N: int, elements: int = 2**29) -> SpeedTarget:
    """Rows of N bfloat16 elements, 1 GiB read and 1 GiB written."""
    case = Case(f"N={N}", {"M": elements // N, "N": N, "dtype": "bfloat16"})
    return SpeedTarget(case, lambda arguments: 2 * arguments[0].nbytes)


def counted(M: int, N: int, reads: int = 1) -> Floor:
    """M rows of N bfloat16 elements, each read ``reads`` times (the second time from L2) and
    written once."""
    case = Case(f"N={N}", {"M": M, "N": N, "dtype": "bfloat16"})
    return Floor(case, lambda arguments: (reads + 1) * arguments[0].nbytes)


FORBIDDEN = (
    "torch.softmax",
    "torch.log_softmax",
    "torch.special.softmax",
    "torch.special.log_softmax",
    "torch.nn",
    "torch.compile",
    "torch.ops",
    ".softmax",
    ".log_softmax",
    "tl.softmax",
)


# --- what wrong answers have in common ----------------------------------------------------------


def first_load_other_is_zero(tree: ast.Module) -> bool:
    """The load whose value the maximum is taken of pads with 0."""
    loads = sorted(syntax.calls(tree, "tl.load"), key=lambda load: load.lineno)
    given = syntax.argument(loads[0], "tl.load", "other") if loads else None
    return given is not None and syntax.value_of(given) == 0


def rounds_to_16_bits(tree: ast.Module) -> bool:
    """A value is converted to a 16-bit type inside the kernel."""
    return bool(syntax.uses(tree, "tl.float16") or syntax.uses(tree, "tl.bfloat16"))


NO_KERNEL = Diagnosis(
    "The function launches no kernel, so nothing is computed: a launch is `kernel[grid](...)`, and "
    "the output is what the kernel stores.",
    PROGRAMS,
    error="check:no_kernel",
)
DTYPE = Diagnosis(
    "The answer must have x's dtype: allocate it with torch.empty_like(x); tl.store rounds to what "
    "the pointer points at.",
    FLOAT32,
    error="check:dtype",
)
INPUT_WRITTEN = Diagnosis(
    "The kernel stores into x: give the launch y where the kernel's second pointer is.",
    PROGRAMS,
    error="check:input_modified",
)
STORE_UNMASKED = Diagnosis(
    "tl.store has no mask: the lanes past the end of a row write into the row after it, and those "
    "of the last row behind the tensor.",
    MASKS,
    source=syntax.store_without_mask,
)
LOAD_UNMASKED = Diagnosis(
    "tl.load has no mask: the lanes past the end of a row read what lies behind it, the next row "
    "or other memory, and that takes part in the maximum and the sum.",
    MASKS,
    source=syntax.load_without_mask,
)
NO_OTHER = Diagnosis(
    "tl.load has a mask and no `other`: what the masked lanes hold is undefined (often 0, sometimes "
    "what the register held before), and it takes part in the maximum and the sum.",
    MASKS,
    source=syntax.load_without_other,
)
OTHER_IS_ZERO = Diagnosis(
    "The masked lanes are loaded as 0: in a row of negative numbers 0 wins the maximum, and "
    "exp(0 - m) of each masked lane goes into the sum. Only -inf takes no part in either.",
    MASKS,
    source=first_load_other_is_zero,
)
ALL_ZERO = Diagnosis(
    "Every element is zero. A kernel that stores zeros is no softmax: each row must sum to 1.",
    PROGRAMS,
    patterns=frozenset({"all_zero"}),
)
INPUT_RETURNED = Diagnosis(
    "The function gives back its input: return y, which the kernel has written.",
    PROGRAMS,
    patterns=frozenset({"input_returned"}),
)
NO_MAXIMUM = Diagnosis(
    "No maximum is subtracted before exp: exp(89) is already infinite in float32, and inf / inf is "
    "NaN.",
    MAXIMUM,
    source=syntax.no_call("tl.max"),
)
SIXTEEN_BITS = Diagnosis(
    "Something is rounded to 16 bits inside the kernel, before the sum is done: each addition then "
    "loses what a 16-bit number can't hold. Convert to float32 after the load, and let tl.store "
    "round, once, at the end.",
    FLOAT32,
    source=rounds_to_16_bits,
)
WRONG_STRIDE = Diagnosis(
    "Right where rows follow each other without a gap, wrong where they don't: the row's address "
    "must come from its stride, not from N.",
    STRIDES,
    cases=frozenset({"strided_rows"}),
    passing=frozenset({"not_a_multiple"}),
)
OVERFLOW = Diagnosis(
    "Wrong only where a row begins past 2^31 elements: row number times stride overflows 32 bits. "
    "Make the row number 64 bits wide: tl.program_id(0).to(tl.int64).",
    STRIDES,
    cases=frozenset({"huge_index", "huge_output"}),
    passing=frozenset({"tail_1", "strided_rows"}),
)
NOT_DIVIDED = Diagnosis(
    "The rows do not sum to 1: the division by the row's sum is missing, or another sum was taken.",
    MAXIMUM,
    patterns=frozenset({"rows_do_not_sum_to_one"}),
)
COMMON = (
    NO_KERNEL,
    DTYPE,
    INPUT_WRITTEN,
    STORE_UNMASKED,
    LOAD_UNMASKED,
    NO_OTHER,
    OTHER_IS_ZERO,
    ALL_ZERO,
    INPUT_RETURNED,
    NO_MAXIMUM,
    SIXTEEN_BITS,
    WRONG_STRIDE,
    OVERFLOW,
)
