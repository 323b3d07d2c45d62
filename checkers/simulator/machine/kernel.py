"""A kernel made ready to run: every instruction translated to a Python step, once.

Where variables live is decided here too: shared variables from SHARED_BASE on, the dynamic part
after them, local ones (and .param variables of the body) one after another.
"""

from __future__ import annotations

import bisect
import contextlib
import gc
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from checkers.simulator.machine.contraction import contracted
from checkers.simulator.machine.registers import storage_bits
from checkers.simulator.machine.specials import special_bits
from checkers.simulator.ptx.inlining import inlined
from checkers.simulator.ptx.program import (
    TYPE_BITS,
    Function,
    Instruction,
    Module,
    Register,
    Variable,
)

# The first bytes of a block's shared memory belong to the system, as on the hardware.
SHARED_BASE = 1024

# What tells a generic address of one space from another; a global one is a real pointer.
SHARED_WINDOW = 1 << 56
LOCAL_WINDOW = 1 << 57
PARAM_WINDOW = 1 << 58

Step = Callable[[Any], "list[Any] | None"]


def _align(offset: int, to: int) -> int:
    return -(-offset // to) * to


class Kernel:
    """A translated kernel.

    steps: one for each instruction.  slots: the index of each register.  slot_bits: the storage
    width of each.  specials: special registers used, name to slot.  shared_offsets, local_offsets,
    parameter_offsets: variable name to byte offset.  static_shared_end: where the static shared
    variables end.  merge_points: the pcs at which parted groups may meet.
    """

    def __init__(self, module: Module, function: Function) -> None:
        self.module = module
        self.function = function
        self.instructions = function.instructions
        self.target = module.target
        self.slots: dict[str, int] = {}
        self.slot_bits: list[int] = []
        self.specials: dict[str, int] = {}
        for name, type_ in function.registers.items():
            self._add(name, storage_bits(type_))
        self._lay_out()
        self.parameter_offsets = {p.name: p.offset for p in function.parameters}
        self.steps: list[Step] = []
        self.merge_points = frozenset(function.labels.values())
        self.setup: list[Callable[[Any], None]] = []  # called with each wave before it runs

    def _add(self, name: str, bits: int) -> int:
        self.slots[name] = len(self.slot_bits)
        self.slot_bits.append(bits)
        return self.slots[name]

    def _lay_out(self) -> None:
        self.shared_offsets: dict[str, int] = {}
        self.local_offsets: dict[str, int] = {}
        self.shared_variables: dict[str, Variable] = {}
        shared, local = SHARED_BASE, 0
        dynamic: list[Variable] = []
        for variable in (*self.module.variables, *self.function.variables):
            if variable.space == "shared":
                self.shared_variables[variable.name] = variable
                if variable.extern or not variable.bytes:
                    dynamic.append(variable)
                    continue
                shared = _align(shared, variable.align)
                self.shared_offsets[variable.name] = shared
                shared += variable.bytes
            elif variable.space in ("local", "param"):
                local = _align(local, variable.align)
                self.local_offsets[variable.name] = local
                local += variable.bytes
        align = max([16, *(variable.align for variable in dynamic)])
        self.static_shared_end = shared
        self.dynamic_shared_start = _align(shared, align) if dynamic else shared
        for variable in dynamic:
            self.shared_offsets[variable.name] = self.dynamic_shared_start
        self.local_bytes = _align(local, 16)

    def slot(self, name: str) -> int:
        """The slot of a declared register, or of a hidden one that is named here first."""
        return self.slots[name]

    def hidden(self, name: str, bits: int) -> int:
        """A register that no PTX names, such as the carry flag. Same name, same slot."""
        return self.slots[name] if name in self.slots else self._add(name, bits)

    def special(self, register: Register) -> int:
        """The slot of a special register."""
        if register.name not in self.specials:
            bits = special_bits(register.name)
            self.specials[register.name] = self._add(register.name, bits)
        return self.specials[register.name]

    def uses(self, prefix: str) -> bool:
        """Whether any instruction's name begins with ``prefix`` ("cp.async.bulk")."""
        return any(i.name.startswith(prefix) for i in self.instructions)

    def narrowest(self, *spaces: str) -> int:
        """Bytes of the narrowest access by ld, st, atom or red to one of ``spaces`` (modifier
        prefixes; generic ones count for all); 4 when none is narrower."""
        least = 4
        for i in self.instructions:
            if i.opcode not in ("ld", "st", "atom", "red"):
                continue
            named = [m for m in i.modifiers if m.split("::")[0] in _SPACES]
            if named and not any(m.startswith(spaces) for m in named):
                continue
            bits = [TYPE_BITS[m] for m in i.modifiers if m in TYPE_BITS]
            if bits:
                least = min(least, max(bits[-1] // 8, 1))
        return least

    def source_lines(self) -> dict[int, int]:
        """pc to source line, for instructions that have one."""
        return {at: i.places[0].line for at, i in enumerate(self.instructions) if i.places}

    def label_before(self, pc: int) -> str:
        """The last label at or before ``pc``, for reports of PTX without source lines."""
        marks = sorted((at, name) for name, at in self.function.labels.items())
        at = bisect.bisect_right(marks, (pc, chr(0x10FFFF))) - 1
        return marks[at][1] if at >= 0 else self.function.name


_SPACES = {"global", "shared", "local", "param", "const"}


@lru_cache(maxsize=64)
def load(text: str, name: str) -> Kernel:
    """The kernel ``name`` of a PTX text, translated.

    Raises PtxSyntaxError, KeyError (no such kernel) and Unsupported.
    """
    from checkers.simulator.machine.building import translate
    from checkers.simulator.ptx.parser import parse

    with _uncollected():
        module = parse(text)
        return translate(Kernel(module, contracted(inlined(module, module.entry(name)))))


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Without garbage collection: a translation makes many objects and drops few. Looking through
    them, and through all that torch and CuTe DSL hold, takes longer than the translation."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def instruction_of(kernel: Kernel, pc: int) -> Instruction:
    """The instruction at ``pc``, or the last one for the end of the kernel."""
    return kernel.instructions[min(pc, len(kernel.instructions) - 1)]
