"""The grain of a kernel's memory: the largest piece that each of its accesses covers whole.

What may be told apart need not be told finer: a kernel whose narrowest access to shared memory
is 16 bytes has a shadow with one entry for each 16.
"""

from __future__ import annotations

from typing import Any

from checkers.simulator.ptx.program import TYPE_BITS, Immediate, Instruction

_SPACES = ("global", "shared", "local", "param", "const")
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
MOST = 16


def access_bytes(instruction: Instruction) -> int:
    """Bytes that one lane of an ld, st, atom or red touches, by its type and vector."""
    bits = [TYPE_BITS[m] for m in instruction.modifiers if m in TYPE_BITS]
    count = max((_VECTORS.get(m, 1) for m in instruction.modifiers), default=1)
    return max(bits[-1] // 8, 1) * count if bits else 1


def grain_of(kernel: Any, space: str, itemsize: int = 1) -> int:
    """Bytes, a power of 2 up to 16, for ``space`` "shared" or "global".

    itemsize: of the narrowest tensor; tensor copies may begin at any element.
    """
    least = MOST
    for instruction in kernel.instructions:
        least = min(least, _width(instruction, space, itemsize))
    return least


def _width(instruction: Instruction, space: str, itemsize: int) -> int:
    opcode, modifiers = instruction.opcode, instruction.modifiers
    named = [m.split("::")[0] for m in modifiers if m.split("::")[0] in _SPACES]
    if opcode in ("ld", "ldu", "st", "atom", "red"):
        if named and space not in named:
            return MOST
        return 8 if "bulk" in modifiers else access_bytes(instruction)
    if opcode in ("cp",) and "bulk" not in modifiers and "async" in modifiers:
        sizes = [o.value for o in instruction.operands[2:3] if isinstance(o, Immediate)]
        return min(int(sizes[0]), MOST) if sizes else 4
    if opcode == "cp" and "tensor" in modifiers and space == "global":
        return itemsize
    if opcode in ("mbarrier",) and space == "shared":
        return 8
    if opcode in ("tcgen05",) and "alloc" in modifiers and space == "shared":
        return 4
    if opcode in ("wmma",):
        return 2
    if opcode in ("multimem", "tensormap"):
        return 4
    return MOST


def reads_across(kernel: Any) -> bool:
    """Whether the kernel may load from, or do atomics on, another block's shared memory, or store
    into it."""
    for instruction in kernel.instructions:
        if instruction.opcode in ("ld", "st", "atom", "red"):
            named = [m for m in instruction.modifiers if m.split("::")[0] in _SPACES]
            if not named or "shared::cluster" in named:
                return True
    return False
