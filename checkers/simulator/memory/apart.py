"""Tensors moved apart: each gets an address of its own, far from all others.

Where PyTorch puts two small tensors side by side, an index too many in one is an element of the
other, and nobody would notice. So a kernel is given other addresses than the real ones, with
nothing for GUARD bytes behind each tensor. The bytes stay where they are.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import replace

from checkers.simulator.launch.records import Launch, Tensor

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


def moved_apart(launch: Launch) -> Launch:
    """The launch with its tensors at addresses far from each other, and its parameters' pointers
    changed alike. As it was where some tensor is in no parameter, but in a table in memory: a
    table is the user's, and is not changed."""
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

    parameters = [_changed(raw, pointer) for raw in launch.parameters]
    if len(used) < len(there):
        return launch
    tensors = [t for t in launch.tensors if not t.nbytes]
    for (_, _, group), by in zip(there, moves, strict=True):
        tensors += [replace(t, address=t.address + by, real=t.address) for t in group]
    return replace(launch, parameters=parameters, tensors=tensors)


def _changed(raw: bytes, pointer: Callable[[int], int]) -> bytes:
    """``raw`` with each aligned 64-bit word w replaced by pointer(w)."""
    whole = len(raw) // 8 * 8
    words = [
        pointer(int.from_bytes(raw[at : at + 8], "little")).to_bytes(8, "little")
        for at in range(0, whole, 8)
    ]
    return b"".join(words) + raw[whole:]
