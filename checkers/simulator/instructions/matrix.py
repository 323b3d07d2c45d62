"""Matrix instructions of a single warp: ldmatrix, stmatrix, movmatrix and mma.sync.

PTX ISA 9.7.14.5. All lanes of a warp take part; the manual calls anything else undefined, here it
is a fault.

Left out, each an Unsupported that says so: mma.m8n8k4 of f16 (of Volta), 4-bit and 1-bit integers
(slow paths since Hopper), .kind::… and block scaling (sm_120a), the 4- and 6-bit forms of ldmatrix.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from checkers.simulator import matrix_layouts as layouts
from checkers.simulator.building import Builder, translates
from checkers.simulator.faults import Kind
from checkers.simulator.group import Group
from checkers.simulator.kernel import Step
from checkers.simulator.matrix_arithmetic import ELEMENT_BYTES, FLOP_NAMES, add_product, values
from checkers.simulator.meetings import collective
from checkers.simulator.modifiers import Modifiers, Unsupported
from checkers.simulator.program import Instruction, Operand, Vector

COUNTS = {"x1": 1, "x2": 2, "x4": 4}


def elements(operand: Operand, instruction: Instruction, count: int) -> tuple[Operand, ...]:
    """The registers of a vector operand, or of a single one; Unsupported unless ``count``."""
    found = operand.elements if isinstance(operand, Vector) else (operand,)
    if len(found) != count:
        raise Unsupported(instruction, f"{count} registers were expected, not {len(found)}")
    return found


# --- ldmatrix, stmatrix, movmatrix -------------------------------------------------------------


def _space(modifiers: Modifiers) -> str:
    return (
        "shared"
        if modifiers.one_of("shared", "shared::cta", default="generic") != ("generic")
        else "generic"
    )


def _rows(group: Group, lanes: int) -> Group | None:
    """The lanes whose addresses count: those of the first ``lanes``."""
    if lanes == 32:
        return group
    return group.narrowed(np.broadcast_to(np.arange(32) < lanes, (group.n, 32)))


def _aligned(group: Group, address: np.ndarray, what: str) -> np.ndarray:
    """``address`` with what is no multiple of 16 reported and rounded down."""
    wrong = (address & np.uint64(15)) != 0
    if wrong.any():
        part = group.narrowed(np.broadcast_to(wrong, (group.n, 32)))
        if part is not None:
            group.wave.faults.report(
                Kind.MISALIGNED,
                f"A row address of {what} is no multiple of 16 bytes.",
                group=part,
            )
        address = address & ~np.uint64(15)
    return address


def _transposed(matrices: np.ndarray) -> np.ndarray:
    """(..., 8 rows, 4 words) of 16-bit elements, rows and columns exchanged."""
    halves = np.ascontiguousarray(matrices).view(np.uint16)
    return np.ascontiguousarray(np.swapaxes(halves, -1, -2)).view(np.uint32)


@translates("ldmatrix", section="9.7.14.5.15")
def ldmatrix(instruction: Instruction, build: Builder) -> Step:
    """8x8 matrices of 16-bit elements: lane i gives the address of row i%8 of matrix i/8, and gets
    word i%4 of row i/4 of each. Counted as the shared load of 16 bytes a lane that it is."""
    modifiers = build.modifiers(instruction)
    for flag in ("sync", "aligned"):
        modifiers.flag(flag)
    modifiers.one_of("m8n8")
    count = COUNTS[modifiers.one_of(*COUNTS)]
    transpose = modifiers.flag("trans")
    space = _space(modifiers)
    modifiers.one_of("b16")
    modifiers.done()
    registers = elements(instruction.operands[0], instruction, count)
    writers = [build.destination(register, "b32") for register in registers]
    address = build.address(instruction.operands[1])

    def step(group: Group) -> None:
        part = _rows(group, 8 * count)
        if part is None:
            return
        where = _aligned(part, address(part), "ldmatrix")
        words = np.stack(part.wave.memory.load(part, space, where, 4, 4), axis=-1)
        part.wave.counters.add("ldmatrix_bytes", 128 * count * part.n, group.site)
        matrices = words[:, : 8 * count].reshape(part.n, count, 8, 4)
        if transpose:
            matrices = _transposed(matrices)
        for m, write in enumerate(writers):
            write(group if part.n == group.n else part, matrices[:, m].reshape(part.n, 32))

    return collective("ldmatrix", 1, step)


@translates("stmatrix", section="9.7.14.5.16")
def stmatrix(instruction: Instruction, build: Builder) -> Step:
    """The inverse of ldmatrix."""
    modifiers = build.modifiers(instruction)
    for flag in ("sync", "aligned"):
        modifiers.flag(flag)
    modifiers.one_of("m8n8")
    count = COUNTS[modifiers.one_of(*COUNTS)]
    transpose = modifiers.flag("trans")
    space = _space(modifiers)
    modifiers.one_of("b16")
    modifiers.done()
    address = build.address(instruction.operands[0])
    registers = elements(instruction.operands[1], instruction, count)
    readers = [build.source(register, "b32") for register in registers]

    def step(group: Group) -> None:
        part = _rows(group, 8 * count)
        if part is None:
            return
        where = _aligned(part, address(part), "stmatrix")
        parts = [np.broadcast_to(read(group), (group.n, 32)) for read in readers]
        matrices = np.stack(parts, axis=1).reshape(group.n, count, 8, 4)
        if transpose:
            matrices = _transposed(matrices)
        words = np.zeros((group.n, 32, 4), np.uint32)
        words[:, : 8 * count] = matrices.reshape(group.n, 8 * count, 4)
        if part.n != group.n:
            words = words[np.isin(group.warps, part.warps)]
        data = [np.ascontiguousarray(words[..., i]) for i in range(4)]
        part.wave.memory.store(part, space, where, data, 4)
        part.wave.counters.add("stmatrix_bytes", 128 * count * part.n, group.site)

    return collective("stmatrix", 1, step)


@translates("movmatrix", section="9.7.14.5.17")
def movmatrix(instruction: Instruction, build: Builder) -> Step:
    """The transpose of an 8x8 matrix of 16-bit elements that a warp holds."""
    modifiers = build.modifiers(instruction)
    for flag in ("sync", "aligned"):
        modifiers.flag(flag)
    modifiers.one_of("m8n8")
    modifiers.one_of("trans")
    modifiers.one_of("b16")
    modifiers.done()
    write = build.destination(instruction.operands[0], "b32")
    read = build.source(instruction.operands[1], "b32")

    def step(group: Group) -> None:
        matrix = np.broadcast_to(read(group), (group.n, 32)).reshape(group.n, 8, 4)
        write(group, _transposed(matrix).reshape(group.n, 32))

    return collective("movmatrix", 1, step)


# --- mma.sync ----------------------------------------------------------------------------------

# operand types -> the (rows, K) that there are; columns are always 8.
SHAPES = {
    "f16": {"m16n8k8", "m16n8k16"},
    "bf16": {"m16n8k8", "m16n8k16"},
    "tf32": {"m16n8k4", "m16n8k8"},
    "f64": {"m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"},
    "s8": {"m8n8k16", "m16n8k16", "m16n8k32"},
    "u8": {"m8n8k16", "m16n8k16", "m16n8k32"},
    "e4m3": {"m16n8k16", "m16n8k32"},
    "e5m2": {"m16n8k16", "m16n8k32"},
}
# What may be multiplied with what, and the accumulators that it may have.
PARTNERS = {"s8": ("s8", "u8"), "u8": ("s8", "u8"), "e4m3": ("e4m3", "e5m2")}
PARTNERS["e5m2"] = PARTNERS["e4m3"]
ACCUMULATORS = dict.fromkeys(("f16", "e4m3", "e5m2"), ("f16", "f32"))
ACCUMULATORS |= {
    "bf16": ("f32",),
    "tf32": ("f32",),
    "f64": ("f64",),
    "s8": ("s32",),
    "u8": ("s32",),
}


def _stacked(readers: list[Callable[[Group], np.ndarray]], group: Group) -> np.ndarray:
    """(registers, n, 32) of some registers."""
    return np.stack([np.broadcast_to(read(group), (group.n, 32)) for read in readers])


@translates("mma", section="9.7.14.5.14")
def mma(instruction: Instruction, build: Builder) -> Step:
    """D = A * B + C of one warp: A row-major, B column-major."""
    modifiers = build.modifiers(instruction)
    for flag in ("sync", "aligned"):
        modifiers.flag(flag)
    shape = modifiers.one_of(*sorted(set().union(*SHAPES.values())))
    modifiers.one_of("row")
    modifiers.one_of("col")
    saturate = modifiers.flag("satfinite")
    modifiers.flag("rn")  # of f64, and the default
    taken = [modifiers.take() or "" for _ in range(4)]
    modifiers.done()
    d_type, a_type, b_type, c_type = taken
    if shape not in SHAPES.get(a_type, ()) or b_type not in PARTNERS.get(a_type, (a_type,)):
        raise Unsupported(instruction, f"there is no {shape} of {a_type} and {b_type} in it")
    if c_type not in ACCUMULATORS[a_type] or d_type not in ACCUMULATORS[a_type]:
        raise Unsupported(instruction, f"{a_type} has no accumulators of {c_type} and {d_type}")
    rows, depth = int(shape[1 : shape.index("n")]), int(shape[shape.index("k") + 1 :])
    wide = a_type == "f64"
    words = depth if wide else depth * ELEMENT_BYTES[a_type] // 4
    fragments = (layouts.operand_a(rows, words), layouts.operand_b(words))
    register = "b64" if wide else "b32"

    def accumulator(kind: str) -> tuple[layouts.Fragment, np.dtype]:
        if kind == "f16":
            return layouts.packed_accumulator(rows, 4), np.dtype(np.float16)
        dtype = {"f32": np.float32, "s32": np.int32, "f64": np.float64}[kind]
        return layouts.accumulator(rows, 8), np.dtype(dtype)

    d, a, b, c = instruction.operands
    d_fragment, d_dtype = accumulator(d_type)
    c_fragment, c_dtype = accumulator(c_type)

    def readers(
        operand: Operand, fragment: layouts.Fragment
    ) -> list[Callable[[Group], np.ndarray]]:
        registers = elements(operand, instruction, fragment.registers)
        return [build.source(r, register) for r in registers]

    read_a, read_b = (readers(o, f) for o, f in zip((a, b), fragments, strict=True))
    read_c = readers(c, c_fragment)
    writers = [
        build.destination(r, register) for r in elements(d, instruction, d_fragment.registers)
    ]
    flops = 2 * rows * 8 * depth

    def step(group: Group) -> None:
        left = values(fragments[0].matrix(_stacked(read_a, group)), a_type)
        right = values(fragments[1].matrix(_stacked(read_b, group)), b_type)
        start = c_fragment.matrix(_stacked(read_c, group)).view(c_dtype)
        if c_dtype != d_dtype:
            start = start.astype(d_dtype)
        total = add_product(start, left, right.swapaxes(1, 2), saturate=saturate)
        raw = np.ascontiguousarray(total).view(np.uint64 if wide else np.uint32)
        for write, value in zip(writers, d_fragment.spread(raw), strict=True):
            write(group, value)
        counters = group.wave.counters
        counters.add("mma_instructions", group.n, group.site)
        counters.add(FLOP_NAMES[a_type], flops * group.n, group.site)

    return collective("mma", 1, step)
