"""Matrices between registers and shared memory: ldmatrix, stmatrix; and movmatrix.

PTX ISA 9.7.14.5.15 to .17. The forms of 8-bit elements (m16n16, m16n8; sm_100a) follow CuTe's
layouts, as the manual shows them in figures only; no hardware at hand could confirm them. The 4-
and 6-bit forms of ldmatrix are Unsupported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from checkers.simulator.instructions.matrix import elements
from checkers.simulator.machine.building import Builder, translates
from checkers.simulator.machine.group import LANES, Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.ptx.modifiers import Modifiers, Unsupported
from checkers.simulator.ptx.program import Instruction
from checkers.simulator.reports.faults import Kind
from checkers.simulator.waiting.meetings import collective

COUNTS = {"x1": 1, "x2": 2, "x4": 4}

Move = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Form:
    """How some matrices lie in rows of 16 bytes, each at the address of one lane, and in registers.

    rows, registers: in all.  to_registers: (n, rows, 4) words to (n, registers, 32); to_rows back.
    """

    rows: int
    registers: int
    to_registers: Move
    to_rows: Move


# --- 8x8 of 16 bits ------------------------------------------------------------------------------


def _transposed(matrices: np.ndarray) -> np.ndarray:
    """(..., 8 rows, 4 words) of 16-bit elements, rows and columns exchanged."""
    halves = np.ascontiguousarray(matrices).view(np.uint16)
    return np.ascontiguousarray(np.swapaxes(halves, -1, -2)).view(np.uint32)


def _sixteen(count: int, transpose: bool) -> Form:
    """Lane l holds word l%4 of row l/4 of each matrix."""

    def to_registers(words: np.ndarray) -> np.ndarray:
        matrices = words.reshape(-1, count, 8, 4)
        matrices = _transposed(matrices) if transpose else matrices
        return matrices.reshape(-1, count, LANES)

    def to_rows(registers: np.ndarray) -> np.ndarray:
        matrices = registers.reshape(-1, count, 8, 4)
        matrices = _transposed(matrices) if transpose else matrices
        return matrices.reshape(-1, 8 * count, 4)

    return Form(8 * count, count, to_registers, to_rows)


# --- 16x16 and 16x8 of 8 bits, always transposed: a row of memory is a column of the matrix ----


def _load_eight(count: int) -> Form:
    """Lane 4g + t holds columns 4t to 4t+3 of rows g and g+8, two columns a register."""

    def to_registers(words: np.ndarray) -> np.ndarray:
        data = np.ascontiguousarray(words).view(np.uint8)
        data = data.reshape(-1, count, 4, 2, 2, 2, 8)  # matrix, t, register, column, half, g
        data = np.ascontiguousarray(data.transpose(0, 1, 3, 6, 2, 5, 4))
        return data.reshape(len(words), 2 * count, LANES * 4).view(np.uint32)

    return Form(16 * count, 2 * count, to_registers, _no_store)


def _store_eight(count: int) -> Form:
    """Lane 4g + t holds columns 2t and 2t+1 of rows g and g+8: an accumulator's fragment."""

    def to_rows(registers: np.ndarray) -> np.ndarray:
        data = np.ascontiguousarray(registers).view(np.uint8)
        data = data.reshape(-1, count, 8, 4, 2, 2)  # matrix, g, t, half, column
        data = np.ascontiguousarray(data.transpose(0, 1, 3, 5, 4, 2))
        return data.reshape(len(registers), 8 * count, 16).view(np.uint32)

    return Form(8 * count, count, _no_store, to_rows)


def _no_store(data: np.ndarray) -> np.ndarray:
    raise NotImplementedError("this form goes one way only")


# --- the instructions ----------------------------------------------------------------------------


def _form(instruction: Instruction, modifiers: Modifiers, load: bool) -> tuple[Form, str]:
    """The form of a load or store, and its state space."""
    for flag in ("sync", "aligned"):
        modifiers.flag(flag)
    eight = "m16n16" if load else "m16n8"
    shape = modifiers.one_of("m8n8", eight)
    count = COUNTS[modifiers.one_of(*COUNTS)]
    transpose = modifiers.flag("trans")
    space = modifiers.one_of("shared", "shared::cta", default="generic").split("::")[0]
    if shape == "m8n8":
        modifiers.one_of("b16")
        form = _sixteen(count, transpose)
    else:
        modifiers.one_of("b8")
        if not transpose or (load and count == 4):
            raise Unsupported(instruction, f"{shape} is .trans, and .x4 only of stmatrix")
        form = _load_eight(count) if load else _store_eight(count)
    modifiers.done()
    return form, space


def _givers(group: Group, rows: int) -> Group | None:
    """The lanes whose addresses count: the first ``rows``."""
    if rows == LANES:
        return group
    return group.narrowed(np.broadcast_to(np.arange(LANES) < rows, (group.n, LANES)))


def _aligned(group: Group, address: np.ndarray, what: str) -> np.ndarray:
    """``address`` with what is no multiple of 16 reported and rounded down."""
    wrong = (address & np.uint64(15)) != 0
    part = group.narrowed(np.broadcast_to(wrong, (group.n, LANES))) if wrong.any() else None
    if part is not None:
        message = f"A row address of {what} is no multiple of 16 bytes."
        group.wave.faults.report(Kind.MISALIGNED, message, group=part)
        address = address & ~np.uint64(15)
    return address


@translates("ldmatrix", section="9.7.14.5.15")
def ldmatrix(instruction: Instruction, build: Builder) -> Step:
    """Counted as the shared load of 16 bytes a lane that it is."""
    form, space = _form(instruction, build.modifiers(instruction), load=True)
    registers = elements(instruction.operands[0], instruction, form.registers)
    writers = [build.destination(register, "b32") for register in registers]
    address = build.address(instruction.operands[1])

    def step(group: Group) -> None:
        part = _givers(group, form.rows)
        if part is None:
            return
        where = _aligned(part, address(part), "ldmatrix")
        words = np.stack(part.wave.memory.load(part, space, where, 4, 4), axis=-1)
        part.wave.counters.add("ldmatrix_bytes", 16 * form.rows * part.n, group.site)
        target = group if part.n == group.n else part
        values = form.to_registers(words[:, : form.rows])
        for i, write in enumerate(writers):
            write(target, values[:, i])

    return collective("ldmatrix", 1, step)


@translates("stmatrix", section="9.7.14.5.16")
def stmatrix(instruction: Instruction, build: Builder) -> Step:
    """Counted as the shared store of 16 bytes a lane that it is."""
    form, space = _form(instruction, build.modifiers(instruction), load=False)
    address = build.address(instruction.operands[0])
    registers = elements(instruction.operands[1], instruction, form.registers)
    readers = [build.source(register, "b32") for register in registers]

    def step(group: Group) -> None:
        part = _givers(group, form.rows)
        if part is None:
            return
        where = _aligned(part, address(part), "stmatrix")
        parts = [np.broadcast_to(read(group), (group.n, LANES)) for read in readers]
        words = np.zeros((group.n, LANES, 4), np.uint32)
        words[:, : form.rows] = form.to_rows(np.stack(parts, axis=1))
        if part.n != group.n:
            words = words[np.isin(group.warps, part.warps)]
        data = [np.ascontiguousarray(words[..., i]) for i in range(4)]
        part.wave.memory.store(part, space, where, data, 4)
        part.wave.counters.add("stmatrix_bytes", 16 * form.rows * part.n, group.site)

    return collective("stmatrix", 1, step)


@translates("movmatrix", section="9.7.14.5.17")
def movmatrix(instruction: Instruction, build: Builder) -> Step:
    """The transpose of an 8x8 matrix of 16-bit elements that a warp holds."""
    modifiers = build.modifiers(instruction)
    for flag in ("sync", "aligned"):
        modifiers.flag(flag)
    for modifier in ("m8n8", "trans", "b16"):
        modifiers.one_of(modifier)
    modifiers.done()
    write = build.destination(instruction.operands[0], "b32")
    read = build.source(instruction.operands[1], "b32")

    def step(group: Group) -> None:
        matrix = np.broadcast_to(read(group), (group.n, LANES)).reshape(group.n, 8, 4)
        write(group, _transposed(matrix).reshape(group.n, LANES))

    return collective("movmatrix", 1, step)
