"""mma.sync: multiplications of a single warp, all in registers.

PTX ISA 9.7.14.5.14. All lanes of a warp take part; the manual calls anything else undefined, here
it is a fault.

Left out, each an Unsupported that says so: m8n8k4 of f16 (of Volta), 4-bit and 1-bit integers (slow
paths since Hopper), mma.sp, .kind::f8f6f4 and block scaling (sm_120a).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from checkers.simulator.machine.building import Builder, translates
from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.matrices import matrix_layouts as layouts
from checkers.simulator.matrices.fused_sums import warp_multiply_add
from checkers.simulator.matrices.matrix_arithmetic import ELEMENT_BYTES, FLOP_NAMES, values
from checkers.simulator.ptx.modifiers import Unsupported
from checkers.simulator.ptx.program import Instruction, Operand, Vector
from checkers.simulator.waiting.meetings import collective


def elements(operand: Operand, instruction: Instruction, count: int) -> tuple[Operand, ...]:
    """The registers of a vector operand, or of a single one; Unsupported unless ``count``."""
    found = operand.elements if isinstance(operand, Vector) else (operand,)
    if len(found) != count:
        raise Unsupported(instruction, f"{count} registers were expected, not {len(found)}")
    return found


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
        total = warp_multiply_add(start, left, right.swapaxes(1, 2), a_type, saturate)
        raw = np.ascontiguousarray(total).view(np.uint64 if wide else np.uint32)
        for write, value in zip(writers, d_fragment.spread(raw), strict=True):
            write(group, value)
        counters = group.wave.counters
        counters.add("mma_instructions", group.n, group.site)
        counters.add(FLOP_NAMES[a_type], flops * group.n, group.site)

    return collective("mma", 1, step)
