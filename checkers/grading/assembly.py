"""An instruction of PTX or SASS as the rules of the codegen stage see it: its opcode, how many
bits it moves for a thread, and which source lines it came from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from checkers.simulator.ptx import program
from checkers.simulator.ptx.parser import parse
from checkers.simulator.ptx.program import TYPE_BITS, Immediate, Place, Vector

# Instructions that move data between a thread's registers and memory, by their first part.
_MOVERS = {"ld", "ldu", "st", "atom", "red", "multimem"}


@dataclass(frozen=True)
class Instruction:
    """One instruction, of PTX or SASS.

    opcode: with all its parts, "ld.global.v4.b32" or "LDG.E.128".  text: as written, on one line.
    bits: moved for one thread by a load, store or copy, 0 for anything else or when the size is
    only known at run time.  places: where in the source, innermost first; more than one when
    functions were inlined.
    """

    opcode: str
    text: str
    bits: int = 0
    places: tuple[Place, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.opcode.split("."))

    def is_a(self, opcode: str) -> bool:
        """Whether it begins with the parts of ``opcode``; qualifiers may stand between them
        (``ld.volatile.global`` is a "ld.global"), and the first part must be the same."""
        mine = iter(part.removesuffix("::cta") for part in self.parts)
        wanted = opcode.split(".")
        return self.parts[0] == wanted[0] and all(part in mine for part in wanted)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Kernel:
    """One kernel of a PTX text. threads: as its directives bound them, cluster: likewise."""

    name: str
    instructions: tuple[Instruction, ...]
    threads: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] | None = None


@lru_cache(maxsize=64)  # every rule reads the same few texts again
def ptx_kernel(text: str, name: str) -> Kernel:
    """The kernel of a PTX text called ``name``, or the only one whose name contains it.

    Raises PtxSyntaxError, and KeyError naming the kernels there are.
    """
    entries = {each.name: each for each in parse(text).functions.values() if each.entry}
    found = [name] if name in entries else [each for each in entries if name in each]
    if len(found) != 1:
        raise KeyError(f"{len(found)} kernels are called {name!r}; there are: {', '.join(entries)}")
    kernel = entries[found[0]]
    instructions = tuple(
        Instruction(each.name, each.text, bits_moved(each), each.places)
        for each in kernel.instructions
    )
    return Kernel(kernel.name, instructions, kernel.threads, kernel.cluster)


def bits_moved(instruction: program.Instruction) -> int:
    """Bits that a PTX instruction moves for one thread; 0 if it moves none, or a run-time number.

    ld.global.v4.b32: 128.  cp.async.ca.shared.global [..], [..], 16: 128.  ldmatrix.x4: 128.
    cp.async.bulk is issued by one thread for many; its immediate size counts for that thread.
    """
    opcode, modifiers, operands = instruction.opcode, instruction.modifiers, instruction.operands
    if opcode == "cp" and modifiers[:1] == ("async",):
        size = operands[2] if len(operands) > 2 else None
        return 8 * int(size.value) if isinstance(size, Immediate) else 0
    if opcode in ("ldmatrix", "stmatrix"):
        return 32 * _after_letter(modifiers, "x")
    if opcode == "tcgen05" and modifiers[0] in ("ld", "st"):
        return 32 * max(len(each.elements) for each in operands if isinstance(each, Vector))
    if opcode not in _MOVERS:
        return 0
    types = [TYPE_BITS[part] for part in modifiers if part in TYPE_BITS]
    return types[-1] * _after_letter(modifiers, "v") if types else 0


def _after_letter(modifiers: tuple[str, ...], letter: str) -> int:
    """The number of the modifier "v4" or "x4"; 1 without one."""
    numbers = [each[1:] for each in modifiers if each.startswith(letter) and each[1:].isdigit()]
    return int(numbers[0]) if numbers else 1
