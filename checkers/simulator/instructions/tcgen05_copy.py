"""tcgen05.cp: from shared to tensor memory, such as scale factors.

PTX ISA 9.7.16.9.2. Shapes 128x256b, 128x128b and 32x128b.warpx4; the others, decompression and
tcgen05.shift are Unsupported: the manual shows in figures only where their rows go.
"""

from __future__ import annotations

import numpy as np

from checkers.simulator.machine.building import Builder
from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.matrices.descriptors import Tile, locate, tcgen05_descriptor
from checkers.simulator.matrices.matrix_operands import Reading, begin_reads, check_tile, tile_bytes
from checkers.simulator.matrices.tensor_memory import ROWS, Region, TensorMemory
from checkers.simulator.matrices.tensor_pipe import TensorPipe
from checkers.simulator.ptx.modifiers import Modifiers, Unsupported
from checkers.simulator.ptx.program import Instruction

# shape -> (rows of shared memory, bytes of a row)
SHAPES = {"128x256b": (128, 32), "128x128b": (128, 16), "32x128b": (32, 16)}


def cp(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    """Rows of shared memory to lanes of tensor memory; 32x128b to all four windows of 32 lanes."""
    pair = modifiers.one_of("cta_group::1", "cta_group::2") == "cta_group::2"
    shape = modifiers.one_of(*SHAPES)
    if modifiers.flag("warpx4") != (shape == "32x128b"):
        raise Unsupported(instruction, "32x128b goes with .warpx4, and only it")
    modifiers.done()
    address = build.address(instruction.operands[0])
    descriptor = build.source(instruction.operands[1], "b64")
    rows, row_bytes = SHAPES[shape]

    def step(group: Group) -> None:
        words, targets = group.lanes(descriptor(group)), group.lanes(address(group))
        for i, thread in enumerate(group.threads().tolist()):
            tile = locate(tcgen05_descriptor(int(words[i])), rows, row_bytes, 1, False)
            check_tile(group.wave, tile, "the source", thread, group.site)
            _start(group, thread, tile, int(targets[i]), row_bytes // 4, pair)

    return step


def _start(group: Group, thread: int, tile: Tile, target: int, width: int, pair: bool) -> None:
    """One copy begins."""
    wave, site = group.wave, group.site
    memory, pipe = wave.state(TensorMemory), wave.state(TensorPipe)
    block = thread // (wave.warps_per_block * 32)
    first = block - block % wave.cluster_size % 2
    blocks = [first, first + 1] if pair else [block]
    column = target & 0xFFFF
    operation = memory.operation("tcgen05.cp", site, thread, pipe.key(thread))
    for one in blocks:
        memory.write(Region(one, slice(0, 8), slice(column, column + width)), operation)
    agent = pipe.agent(thread)
    readings = [Reading(one, [tile], agent, operation.time, thread) for one in blocks]
    ticket = begin_reads(wave, readings, site)

    def complete() -> None:
        for one in blocks:
            words = np.ascontiguousarray(tile_bytes(wave, one, tile)).view(np.uint32)
            copies = ROWS // len(words)
            memory.flat(one)[:, column : column + width] = np.tile(words, (copies, 1))
        wave.memory.end_async(ticket)

    pipe.issue(thread, group, complete, "tcgen05.cp")
    bytes_written = ROWS * width * 4 * len(blocks)
    wave.counters.add("tensor_memory_store_bytes", bytes_written, site)


def shift(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    raise Unsupported(instruction, "tcgen05.shift is not in it")
