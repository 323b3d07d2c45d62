"""From instructions to steps: what the instruction families are given to translate with.

A family registers a translator for each opcode with ``translates``; the translator reads the
modifiers, asks the Builder for readers and writers of the operands, and returns the step. All that
can be decided is decided here, once; a step only reads, computes and writes.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import PARAM_WINDOW, Kernel, Step
from checkers.simulator.machine.registers import HALVES, NUMPY, WORD, storage_bits
from checkers.simulator.machine.specials import special_bits
from checkers.simulator.ptx.modifiers import Modifiers, Unsupported
from checkers.simulator.ptx.program import (
    TYPE_BITS,
    Address,
    Immediate,
    Instruction,
    Operand,
    Pair,
    Register,
    Sink,
    Symbol,
    Vector,
)

Translator = Callable[[Instruction, "Builder"], Step]
Reader = Callable[[Group], Any]
Writer = Callable[[Group, Any], None]

TRANSLATORS: dict[str, Translator] = {}
SECTIONS: dict[str, str] = {}  # opcode to the PTX ISA manual's sections, for docs/simulator.md

# Special registers that count steps in place of time.
_CLOCKS = {"%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"}

# Opcodes whose first operand is not a destination register.
_NO_DESTINATION = set(
    "st red bra brx bar barrier cp ret exit trap fence membar prefetch prefetchu stmatrix setmaxnreg "
    "multimem nanosleep griddepcontrol discard applypriority pmevent call".split()
)


def translates(*opcodes: str, section: str) -> Callable[[Translator], Translator]:
    """Registers a translator. ``section``: of the PTX ISA manual, "9.7.1.1"."""

    def register(translator: Translator) -> Translator:
        for opcode in opcodes:
            if opcode in TRANSLATORS:
                raise ValueError(f"{opcode} has two translators")
            TRANSLATORS[opcode] = translator
            SECTIONS[opcode] = section
        return translator

    return register


def load_families() -> None:
    """Imports every module of checkers.simulator.instructions, which registers its translators."""
    from checkers.simulator.instructions import MODULES

    for name in MODULES:
        importlib.import_module(f"checkers.simulator.instructions.{name}")


def translate(kernel: Kernel) -> Kernel:
    """Fills ``kernel.steps``. Raises Unsupported naming the first instruction that is missing."""
    load_families()
    build = Builder(kernel)
    for at, instruction in enumerate(kernel.instructions):
        translator = TRANSLATORS.get(instruction.opcode)
        if translator is None:
            raise Unsupported(instruction, f"there is no instruction {instruction.opcode!r} in it")
        build.pc = at
        step = translator(instruction, build)
        kernel.steps.append(step)
    for at, instruction in enumerate(kernel.instructions):
        step = build.watched(instruction, kernel.steps[at])
        if instruction.guard is not None and instruction.opcode not in ("bra", "brx"):
            step = guarded(step, kernel.slot(instruction.guard.name), instruction.guard.negated)
        kernel.steps[at] = step
    return kernel


def guarded(step: Step, slot: int, negated: bool) -> Step:
    """``step`` for the lanes whose predicate holds."""

    def run(group: Group) -> list[Group] | None:
        predicate = group.get(slot)
        if negated:
            predicate = ~predicate
        part = group.narrowed(predicate)
        if part is None:
            return None
        going_on = step(part)
        if going_on is None or part is group:
            return going_on
        rest = group.narrowed(~predicate)
        return going_on if rest is None else [*going_on, rest]

    return run


class Builder:
    """What a translator works with. ``kernel``: the kernel; ``pc``: of the instruction."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.program = kernel
        self.pc = 0
        self._watch: dict[int, Callable[[Group, list[tuple[int, bool]]], None]] = {}
        self._unwatched: set[str] = set()

    def modifiers(self, instruction: Instruction) -> Modifiers:
        """Its modifiers, to be taken one by one."""
        return Modifiers(instruction)

    def uses(self, prefix: str) -> bool:
        """Whether the kernel has an instruction whose name begins with ``prefix``."""
        return self.kernel.uses(prefix)

    @property
    def instruction(self) -> Instruction:
        return self.kernel.instructions[self.pc]

    # --- sources -------------------------------------------------------------------------------

    def slot(self, register: Register) -> int:
        """The index of a register's array."""
        if register.type == "special":
            if not special_bits(register.name):
                raise Unsupported(self.instruction, f"{register.name} is not simulated")
            return self.kernel.special(register)
        return self.kernel.slot(register.name)

    def source(self, operand: Operand, type_: str) -> Reader:
        """Reads ``operand`` as ``type_``: (n, 32) of NUMPY[type_], (n, 32, 2) for packed types and
        b128, or a scalar for an immediate."""
        if isinstance(operand, Register):
            if operand.name in _CLOCKS:
                shift = 32 if operand.name.endswith("_hi") else 0
                dtype = NUMPY[type_]
                return lambda group: np.array(group.wave.clock_value() >> shift).astype(dtype)
            return self._register(operand, type_)
        if isinstance(operand, Immediate):
            constant = self.constant(operand, type_)
            return lambda group: constant
        if isinstance(operand, Symbol):
            return self._symbol(operand.name, type_)
        if isinstance(operand, Address):
            reader, dtype = self.address(operand), NUMPY[type_]
            return lambda group: reader(group).astype(dtype)
        raise Unsupported(self.instruction, f"a register or constant was expected, not {operand}")

    def _register(self, register: Register, type_: str) -> Reader:
        slot = self.slot(register)
        stored, bits = self.kernel.slot_bits[slot], TYPE_BITS[type_]
        if stored == 1 or type_ == "pred":
            if stored != 1 or type_ != "pred":
                raise Unsupported(self.instruction, f"{register.name} can't be read as .{type_}")
            if register.negated:
                return lambda group: ~group.get(slot)
            return lambda group: group.get(slot)
        if bits > stored:
            raise Unsupported(
                self.instruction, f"{register.name} has {stored} bits, .{type_} has {bits}"
            )
        if type_ == "b128":
            return lambda group: group.get(slot)
        if type_ in HALVES:
            half = NUMPY[HALVES[type_]]
            cut = np.dtype(f"u{bits // 8}")

            def packed(group: Group) -> np.ndarray:
                raw = np.ascontiguousarray(group.get(slot).astype(cut, copy=False))
                return raw.view(half).reshape(*raw.shape, 2)

            return packed
        dtype = NUMPY[type_]
        if bits == stored:
            return lambda group: group.get(slot).view(dtype)
        cut = np.dtype(f"u{bits // 8}")
        if stored == 128:
            return lambda group: group.get(slot)[..., 0].astype(cut).view(dtype)
        return lambda group: group.get(slot).astype(cut).view(dtype)

    def constant(self, immediate: Immediate, type_: str) -> Any:
        """An immediate as a numpy scalar of ``type_`` ((2,) for packed types)."""
        if type_ == "pred":
            return np.bool_(immediate.value != 0)
        bits = TYPE_BITS[type_]
        base = HALVES.get(type_, type_)
        if immediate.kind == "f64" and base in ("f16", "bf16", "f32", "tf32", "f64"):
            value = np.array(immediate.value).astype(NUMPY[base])
            return value[()] if base == type_ else np.array([value, value])
        raw = immediate.bits
        if immediate.kind == "f32" and bits == 64:
            raw = struct.unpack("<Q", struct.pack("<d", immediate.value))[0]
        if type_ == "b128":
            sign = 0xFFFFFFFFFFFFFFFF if immediate.value < 0 else 0
            return np.array([raw, sign], np.uint64)
        raw &= (1 << bits) - 1
        value = np.frombuffer(raw.to_bytes(bits // 8, "little"), NUMPY[base])
        return value[0] if base == type_ else value

    def _symbol(self, name: str, type_: str) -> Reader:
        dtype = NUMPY[type_]
        if name in self.kernel.shared_offsets:
            offset = self.kernel.shared_offsets[name]
            return lambda group: (
                (
                    group.wave.ranks(group).astype(np.uint32)[:, None] << np.uint32(24)
                    | np.uint32(offset)
                ).astype(dtype)
                + np.zeros((1, 32), dtype)
            )
        if name in self.kernel.local_offsets:
            return lambda group: np.array(self.kernel.local_offsets[name]).astype(dtype)
        if name in self.kernel.parameter_offsets:
            at = PARAM_WINDOW | self.kernel.parameter_offsets[name]
            return lambda group: np.array(at, np.uint64).astype(dtype)
        if any(v.name == name for v in self.kernel.module.variables):
            return lambda group: np.array(group.wave.memory.symbol(name), np.uint64).astype(dtype)
        raise Unsupported(self.instruction, f"{name!r} is not a variable that is known here")

    def address(self, operand: Operand) -> Reader:
        """Reads the address of a memory operand: (n, 32) uint64, the offset added."""
        if not isinstance(operand, Address):
            raise Unsupported(self.instruction, "a memory operand such as [%rd1+8] was expected")
        offset = operand.offset
        if isinstance(operand.base, Immediate):
            whole = np.uint64((operand.base.bits + offset) & 0xFFFFFFFFFFFFFFFF)
            return lambda group: np.full((group.n, 32), whole)
        if isinstance(operand.base, Symbol):
            base = self._symbol(operand.base.name, "u64")
            word = np.uint64(offset & 0xFFFFFFFFFFFFFFFF)
            return lambda group: np.broadcast_to(base(group) + word, (group.n, 32))
        is_special = operand.base.type == "special"
        name = operand.base.name
        bits = special_bits(name) if is_special else storage_bits(operand.base.type)
        base = self.source(operand.base, f"u{bits}")
        word = WORD[bits].type(offset & ((1 << bits) - 1))
        if bits == 64:
            if not offset:
                return base
            return lambda group: base(group) + word
        return lambda group: (base(group) + word).astype(np.uint64)

    # --- destinations --------------------------------------------------------------------------

    def destination(self, operand: Operand, type_: str) -> Writer:
        """Writes ``type_`` values, (n, 32) or broadcastable, (n, 32, 2) for packed types and b128,
        into ``operand``. A wider register is filled by sign or zero as ``type_`` says."""
        if isinstance(operand, Sink):
            return lambda group, value: None
        if not isinstance(operand, Register):
            raise Unsupported(self.instruction, f"a register was expected, not {operand}")
        slot = self.slot(operand)
        stored, bits = self.kernel.slot_bits[slot], TYPE_BITS[type_]
        if stored == 1 or type_ == "pred":
            if stored != 1 or type_ != "pred":
                raise Unsupported(self.instruction, f"{operand.name} can't hold .{type_}")
            return lambda group, value: group.put(slot, value)
        if bits > stored:
            raise Unsupported(
                self.instruction, f"{operand.name} has {stored} bits, .{type_} has {bits}"
            )
        if type_ == "b128":
            return lambda group, value: group.put(slot, value)
        raw = np.dtype(f"u{bits // 8}")
        word = WORD[stored] if stored != 128 else WORD[64]
        if type_ in HALVES:
            half = NUMPY[HALVES[type_]]

            def pack(group: Group, value: Any) -> None:
                pair = np.ascontiguousarray(np.asarray(value, half))
                group.put(slot, pair.view(raw)[..., 0].astype(word, copy=False))

            return pack
        dtype = NUMPY[type_]
        if bits == stored:

            def write(group: Group, value: Any) -> None:
                group.put(slot, np.asarray(value, dtype).view(word))

            return write
        wide = np.dtype(f"i{word.itemsize}") if type_.startswith("s") else word

        def extend(group: Group, value: Any) -> None:
            value = np.asarray(value, dtype)
            if type_.startswith("s"):
                group.put(slot, value.astype(wide).view(word))
            else:
                group.put(slot, value.view(raw).astype(word))

        return extend

    def elementwise(
        self,
        instruction: Instruction,
        function: Callable[..., Any],
        result_type: str,
        operand_types: Sequence[str],
        operands: Sequence[Operand] | None = None,
    ) -> Step:
        """A step that applies ``function`` to the operands after the first and writes the first.

        operands: (destination, *sources) where they are not the instruction's own.
        """
        operands = instruction.operands if operands is None else operands
        if len(operands) != 1 + len(operand_types):
            raise Unsupported(
                instruction, f"{len(operand_types)} sources were expected, not {len(operands) - 1}"
            )
        write = self.destination(operands[0], result_type)
        readers = [self.source(o, t) for o, t in zip(operands[1:], operand_types, strict=True)]
        if len(readers) == 1:
            (one,) = readers

            def unary(group: Group) -> None:
                write(group, function(one(group)))

            return unary
        if len(readers) == 2:
            left, right = readers

            def binary(group: Group) -> None:
                write(group, function(left(group), right(group)))

            return binary

        def many(group: Group) -> None:
            write(group, function(*[read(group) for read in readers]))

        return many

    # --- watched registers ---------------------------------------------------------------------

    def watch_registers(
        self,
        slots: Sequence[int],
        touched: Callable[[Group, list[tuple[int, bool]]], None],
        unless: Sequence[str] = (),
    ) -> None:
        """Has ``touched(group, [(slot, is written), ...])`` called before every instruction that
        touches one of ``slots``, but for instructions whose opcode is in ``unless``."""
        for slot in slots:
            self._watch[slot] = touched
        self._unwatched.update(unless)

    def watched(self, instruction: Instruction, step: Step) -> Step:
        """``step`` behind the calls that watch_registers asked for."""
        if not self._watch or instruction.opcode in self._unwatched:
            return step
        calls: dict[Any, list[tuple[int, bool]]] = {}
        for at, operand in enumerate(instruction.operands):
            writes = at == 0 and instruction.opcode not in _NO_DESTINATION
            for register in registers_of(operand):
                if register.type == "special":
                    continue
                slot = self.kernel.slot(register.name)
                if slot in self._watch:
                    calls.setdefault(self._watch[slot], []).append(
                        (slot, writes and not isinstance(operand, Address))
                    )
        if not calls:
            return step

        def run(group: Group) -> list[Group] | None:
            for touched, slots in calls.items():
                touched(group, slots)
            return step(group)

        return run


def registers_of(operand: Operand) -> list[Register]:
    """Every register that an operand names."""
    match operand:
        case Register():
            return [operand]
        case Address(base=base, coordinates=coordinates):
            return [r for part in (base, *coordinates) for r in registers_of(part)]
        case Vector(elements=elements):
            return [r for part in elements for r in registers_of(part)]
        case Pair(first=first, second=second):
            return registers_of(first) + registers_of(second)
    return []
