"""Tensors moved apart: each gets an address of its own, far from all others.

Where PyTorch puts two small tensors side by side, an index too many in one is an element of the
other, and nobody would notice. So a kernel is given other addresses than the real ones, with
nothing for GUARD bytes behind each tensor. The bytes stay where they are.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Sequence, Set
from dataclasses import replace

from checkers.simulator.launch.records import Launch, Tensor
from checkers.simulator.ptx.program import TYPE_BITS, Address, Function, Symbol, Vector

FIRST = 1 << 44  # above what a process's own addresses of data look like in practice, below 2**47
GUARD = 1 << 32
KEPT = 1 << 16  # an address stays the same modulo this: alignments are as they were


def stretches(tensors: list[Tensor]) -> list[tuple[int, int, list[Tensor]]]:
    """(start, end, tensors) of tensors that share bytes."""
    out: list[tuple[int, int, list[Tensor]]] = []
    for tensor in sorted(tensors, key=lambda t: t.address):
        if out and tensor.address < out[-1][1]:
            start, end, there = out[-1]
            out[-1] = (start, max(end, tensor.end), [*there, tensor])
        else:
            out.append((tensor.address, tensor.end, [tensor]))
    return out


def number_words(function: Function) -> list[set[int]]:
    """Of each parameter, the offsets of the 64-bit words that the kernel loads in smaller pieces.

    These hold numbers, whatever they look like: a 32-bit length beside padding that nobody wrote may
    look like an address. A word that is loaded whole, or by nobody (the copy engine reads a tensor
    map), may be one."""
    whole: dict[str, set[int]] = {parameter.name: set() for parameter in function.parameters}
    pieces: dict[str, set[int]] = {parameter.name: set() for parameter in function.parameters}
    for instruction in function.instructions:
        if instruction.opcode != "ld" or "param" not in instruction.modifiers:
            continue
        loaded, address = instruction.operands
        if not isinstance(address, Address) or not isinstance(address.base, Symbol):
            continue
        if address.base.name not in whole:
            continue
        size = TYPE_BITS[instruction.modifiers[-1]] // 8
        elements = len(loaded.elements) if isinstance(loaded, Vector) else 1
        found = (pieces if size < 8 else whole)[address.base.name]
        found.update(at // 8 * 8 for at in range(address.offset, address.offset + elements * size))
    return [pieces[p.name] - whole[p.name] for p in function.parameters]


def moved_apart(launch: Launch, numbers: Sequence[set[int]] = ()) -> Launch:
    """The launch with its tensors at addresses far from each other, and its parameters' pointers
    changed alike. As it was where some tensor is in no parameter, but in a table in memory: a
    table is the user's, and is not changed.

    numbers: of each parameter, offsets of words that are no pointers.
    """
    there = stretches([t for t in launch.tensors if t.nbytes])
    starts = [start for start, _, _ in there]
    moves = []
    free = FIRST
    for start, end, _ in there:
        to = free + start % KEPT
        moves.append(to - start)
        free = -(-(to + end - start) // KEPT) * KEPT + GUARD
    used: set[int] = set()

    def pointer(value: int) -> int:
        at = bisect.bisect_right(starts, value) - 1
        if at < 0 or value > there[at][1]:
            return value
        used.add(at)
        return value + moves[at]

    parameters = [
        _changed(raw, pointer, kept)
        for raw, kept in itertools.zip_longest(launch.parameters, numbers, fillvalue=set())
    ]
    if len(used) < len(there):
        return launch
    tensors = [t for t in launch.tensors if not t.nbytes]
    for (_, _, group), by in zip(there, moves, strict=True):
        tensors += [replace(t, address=t.address + by, real=t.address) for t in group]
    return replace(launch, parameters=parameters, tensors=tensors)


def _changed(raw: bytes, pointer: Callable[[int], int], kept: Set[int]) -> bytes:
    """``raw`` with each aligned 64-bit word w replaced by pointer(w), but for those at ``kept``."""
    changed = bytearray(raw)
    for at in range(0, len(raw) // 8 * 8, 8):
        if at not in kept:
            word = int.from_bytes(raw[at : at + 8], "little")
            changed[at : at + 8] = pointer(word).to_bytes(8, "little")
    return bytes(changed)
