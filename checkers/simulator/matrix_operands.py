"""Operands that wgmma and tcgen05 read from shared memory: checked at issue, read when done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.simulator.descriptors import CELL, Tile
from checkers.simulator.faults import Kind
from checkers.simulator.kernel import SHARED_BASE
from checkers.simulator.matrix_arithmetic import values

if TYPE_CHECKING:
    from checkers.simulator.machine import Wave
    from checkers.simulator.program import Instruction


def check_tile(wave: Wave, tile: Tile, name: str, thread: int, site: Instruction) -> bool:
    """Reports a descriptor that can't be right, or leads out of the block's shared memory. Whether
    the tile can be read."""
    if tile.problem:
        wave.faults.report(
            Kind.DESCRIPTOR, tile.problem, thread=thread, site=site, details={"operand": name}
        )
    size = wave.memory.shared.bytes
    low, high = int(tile.cells.min()), int(tile.cells.max()) + CELL
    if low >= SHARED_BASE and high <= size:
        return True
    wave.faults.report(
        Kind.OUT_OF_BOUNDS,
        f"The descriptor of operand {name} leads out of the block's shared memory: to bytes {low} "
        f"to {high - 1}, of which {SHARED_BASE} to {size - 1} are the block's.",
        thread=thread,
        site=site,
    )
    return False


def begin_reads(
    wave: Wave,
    block: int,
    tiles: Sequence[Tile],
    agent: Any,
    time: int,
    thread: int,
    site: Instruction,
) -> Any:
    """Tells the memory that ``agent`` will read these tiles of a block; its ticket."""
    cells = np.concatenate([tile.cells.ravel() for tile in tiles])
    size = wave.memory.shared.bytes
    inside = cells[(cells >= 0) & (cells + CELL <= size)]
    return wave.memory.begin_async(
        "shared", block, inside, False, agent, site, thread, time=time, width=CELL
    )


def read_tile(wave: Wave, block: int, tile: Tile, kind: str) -> np.ndarray:
    """(rows, elements) float32 of an operand: rows as Tile.rows() has them."""
    return values(tile_bytes(wave, block, tile), kind)


def tile_bytes(wave: Wave, block: int, tile: Tile) -> np.ndarray:
    """(rows, row bytes) uint8 of an operand."""
    shared = wave.memory.shared
    limit = shared.stride // CELL - 1
    index = np.clip(tile.cells.ravel() // CELL, 0, limit) + block * shared.stride // CELL
    return tile.rows(shared.bank.data.reshape(-1, CELL).take(index, axis=0))
