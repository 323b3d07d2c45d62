"""Operands that wgmma and tcgen05 read from shared memory: checked at issue, read when done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from checkers.simulator.machine.kernel import SHARED_BASE
from checkers.simulator.matrices.descriptors import CELL, Tile
from checkers.simulator.matrices.matrix_arithmetic import values
from checkers.simulator.memory.knowledge import Agent
from checkers.simulator.reports.faults import Kind

if TYPE_CHECKING:
    from checkers.simulator.machine.wave import Wave
    from checkers.simulator.ptx.program import Instruction


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


@dataclass(frozen=True)
class Reading:
    """What one engine will read: ``tiles`` of a block, at the engine's ``time``, for ``thread``."""

    block: int
    tiles: Sequence[Tile]
    agent: Any
    time: int
    thread: int


def begin_reads(wave: Wave, readings: Sequence[Reading], site: Instruction) -> Any:
    """Tells the memory what engines of one kind will read; the ticket of all together."""
    size = wave.memory.shared.bytes
    cells = []
    for reading in readings:
        own = np.concatenate([tile.cells.ravel() for tile in reading.tiles])
        if own.max() + CELL > size:
            own = own[own + CELL <= size]
        cells.append(own)
    counts = [len(own) for own in cells]

    def each(values: list[int], dtype: Any) -> Any:
        return np.repeat(np.array(values, dtype), counts) if len(values) > 1 else values[0]

    agent = readings[0].agent
    if len(readings) > 1:
        # As one agent, with arrays for what differs.
        clusters = each([r.agent.cluster for r in readings], np.int64)
        columns = each([r.agent.column for r in readings], np.int64)
        who = each([int(r.agent.who) for r in readings], np.uint32)
        agent = Agent(agent.clocks, clusters, columns, who, agent.kind, agent.key, agent.generic)
    return wave.memory.begin_async(
        "shared",
        each([r.block for r in readings], np.int64),
        np.concatenate(cells),
        False,
        agent,
        site,
        each([r.thread for r in readings], np.int64),
        time=each([r.time for r in readings], np.uint32),
        width=CELL,
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
