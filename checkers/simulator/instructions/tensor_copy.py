"""Tensor copies (TMA): PTX ISA 9.7.9.27.1, tiled mode, gather4 and scatter4.

The mbarrier of a load is told of the whole box, also where a part of it lies outside the tensor. im2col
modes are missing: how their maps are encoded is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from checkers.simulator.copies.bulk_copies import BulkCopies
from checkers.simulator.copies.bulk_issue import (
    COMPLETES,
    MULTICAST,
    barriers_at,
    each_lane,
    ranks_of,
    row_of,
    start_load,
    start_store,
    target_blocks,
)
from checkers.simulator.copies.reductions import OPERATIONS, combine
from checkers.simulator.copies.shared_places import OFFSET_MASK, RANK_SHIFT
from checkers.simulator.copies.tensor_maps_in_memory import map_at
from checkers.simulator.copies.tensormap import TensorMap
from checkers.simulator.copies.tiles import Tile, gathered, tile
from checkers.simulator.machine.building import Builder
from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.matrices.descriptors import CELL
from checkers.simulator.ptx.modifiers import Modifiers, Unsupported
from checkers.simulator.ptx.program import Address, Instruction
from checkers.simulator.reports.faults import Kind

DIMENSIONS = ("1d", "2d", "3d", "4d", "5d")
MODES = ("tile", "tile::gather4", "tile::scatter4")
SHARED_ALIGNMENT = 128


def translate(
    instruction: Instruction, build: Builder, modifiers: Modifiers, reduces: bool
) -> Step:
    """What follows cp.async.bulk.tensor or cp.reduce.async.bulk.tensor."""
    prefetches = modifiers.flag("prefetch")
    rank = int(modifiers.one_of(*DIMENSIONS)[0])
    if prefetches:
        modifiers.one_of("L2")
        return _prefetch(instruction, build, modifiers, rank)
    to = modifiers.one_of("shared::cta", "shared::cluster", "global")
    modifiers.one_of("shared::cta", "global")
    if to == "global":
        return _store(instruction, build, modifiers, rank, reduces)
    return _load(instruction, build, modifiers, rank, to)


def _mode(instruction: Instruction, modifiers: Modifiers) -> str:
    """Takes .load_mode; Unsupported for im2col."""
    for modifier in modifiers.left:
        if modifier.startswith("im2col"):
            raise Unsupported(instruction, "the im2col modes of tensor copies are missing")
    return modifiers.one_of(*MODES, default="tile")


# --- the box that a lane asks for ----------------------------------------------------------------------


@dataclass(frozen=True)
class Box:
    """One lane's box of a tensor. part: a group of this lane alone.  thread: its flat index.
    shared: the address in shared memory, 0 for a prefetch."""

    part: Group
    thread: int
    tile: Tile
    shared: int

    @property
    def tensor_map(self) -> TensorMap:
        return self.tile.tensor_map


class Boxes:
    """Reads the operands [map, {coordinates}] and the shared address of a tensor copy."""

    def __init__(
        self, build: Builder, operand: Address, shared: Address | None, rank: int, mode: str
    ) -> None:
        self.map = build.address(operand)
        self.coordinates = [build.source(c, "s32") for c in operand.coordinates]
        self.shared = build.address(shared) if shared is not None else None
        self.rank = rank
        self.rows = mode.endswith("4")
        wanted = 5 if self.rows else rank
        if len(self.coordinates) != wanted:
            raise Unsupported(
                build.instruction,
                f"{wanted} coordinates were expected, not {len(self.coordinates)}",
            )

    def of(self, group: Group, stores: bool, once: bool = False) -> list[Box]:
        """Those of all lanes whose map and address are sound; the others are reported.

        once: as each_lane has it.
        """
        maps = group.lanes(self.map(group)).tolist()
        values = [group.lanes(np.asarray(c(group))).tolist() for c in self.coordinates]
        shared = [0] * len(maps)
        if self.shared is not None:
            shared = group.lanes(self.shared(group)).tolist()
        found = []
        for i, part, thread in each_lane(group, [maps, shared, *values], once):
            at = [int(v[i]) for v in values]
            box = self._box(part, thread, int(maps[i]), at, int(shared[i]), stores)
            if box is not None:
                found.append(box)
        return found

    def _box(
        self, part: Group, thread: int, address: int, at: list[int], shared: int, stores: bool
    ) -> Box | None:
        faults = part.wave.faults
        tensor_map = map_at(part, thread, address)
        if tensor_map is None:
            return None
        wrong = tensor_map.faults()
        if tensor_map.interleave != "none":
            raise Unsupported(part.site, "tensor maps with an interleaved layout are missing")
        if tensor_map.rank != (2 if self.rows else self.rank):
            wrong.append(f"it has {tensor_map.rank} dimensions, the copy {self.rank}")
        if self.rows and tensor_map.rank == 2 and tensor_map.box[1] != 1:
            wrong.append(f"its box has {tensor_map.box[1]} rows, gather and scatter need 1")
        if wrong:
            faults.report(Kind.TENSOR_MAP, f"The tensor map does not fit: {wrong[0]}.", group=part)
            return None
        if self.shared is not None and shared % SHARED_ALIGNMENT:
            faults.report(
                Kind.MISALIGNED,
                f"A tensor copy's place in shared memory is at byte {shared & OFFSET_MASK}, no multiple "
                f"of {SHARED_ALIGNMENT}",
                group=part,
            )
            return None
        if stores and min(at) < 0:
            faults.report(
                Kind.OUT_OF_BOUNDS,
                f"A tensor store begins at coordinates {tuple(at)} (innermost first): they may not be "
                "negative",
                group=part,
            )
            return None
        if at[0] * tensor_map.element.bytes % CELL:
            # The manual is silent; an H200 stops with "illegal instruction".
            faults.report(
                Kind.MISALIGNED,
                f"A tensor copy's innermost coordinate is {at[0]}, "
                f"{at[0] * tensor_map.element.bytes} bytes into a row: it must be a multiple of {CELL} "
                "bytes",
                group=part,
            )
            return None
        box = gathered(tensor_map, at[0], at[1:]) if self.rows else tile(tensor_map, at)
        return Box(part, thread, box, shared)


# --- loads -----------------------------------------------------------------------------------------------


def _load(
    instruction: Instruction, build: Builder, modifiers: Modifiers, rank: int, space: str
) -> Step:
    mode = _mode(instruction, modifiers)
    modifiers.one_of(COMPLETES)
    multicast = modifiers.flag(MULTICAST)
    pair = modifiers.one_of("cta_group::1", "cta_group::2", default="cta_group::1")[-1] == "2"
    modifiers.flag("L2::cache_hint")
    modifiers.done()
    operands = instruction.operands
    boxes = Boxes(build, operands[1], operands[0], rank, mode)
    barrier = build.address(operands[2])
    mask = build.source(operands[3], "u16") if multicast else None
    what = "TMA load into shared memory"

    def step(group: Group) -> None:
        wave = group.wave
        state = wave.state(BulkCopies)
        signals = barrier(group)
        masks = None if mask is None else np.broadcast_to(mask(group), (group.n, 32))
        for box in boxes.of(group, stores=False):
            part, covered = box.part, box.tile
            ranks = None if masks is None else ranks_of(row_of(part, group, masks), part)
            blocks = target_blocks(part, box.shared, ranks, space)
            signal = row_of(part, group, signals)
            told = _signalled(part, signal, ranks, pair)
            barriers = barriers_at(part, signal, told, "A tensor copy")
            if not barriers:
                continue
            if not pair and barriers[0].block != blocks[0]:
                _not_the_same_block(part)
            pieces, width = pieces_of(covered)
            start_load(
                state,
                part,
                box.thread,
                what,
                pieces,
                width,
                [(b, covered.cells(box.shared & OFFSET_MASK)) for b in blocks],
                barriers,
                lambda data, covered=covered: covered.loaded(data.ravel()).reshape(-1, 16),
                covered.box_bytes,
            )
            count = wave.counters.add
            count("tma_requests", 1, part.site)
            count("tma_load_bytes", covered.bytes_inside, part.site)
            if len(blocks) > 1:
                count("tma_multicast_bytes", (len(blocks) - 1) * covered.box_bytes, part.site)

    return step


def _signalled(
    part: Group, signal: np.ndarray, ranks: list[int] | None, pair: bool
) -> list[int] | None:
    """The ranks of the blocks whose mbarrier is signalled, for each destination.

    With .cta_group::2 it is the even or the odd block of the destination's pair, as the rank in the
    mbarrier's address says.
    """
    if ranks is None or not pair:
        return ranks
    odd = int(part.lanes(signal)[0]) >> RANK_SHIFT & 1
    return [rank & ~1 | odd for rank in ranks]


def _not_the_same_block(part: Group) -> None:
    part.wave.faults.report(
        Kind.CLUSTER,
        "A tensor copy writes to one block and signals an mbarrier of another: without "
        ".cta_group::2 both must be in the same block",
        group=part,
    )


def pieces_of(covered: Tile) -> tuple[np.ndarray, int]:
    """(addresses, width): the bytes inside, row by row, as pieces of 16 bytes or, where rows don't
    begin at multiples, less."""
    span = covered.end - covered.begin
    width = 16
    while width > 1 and (span % width or (covered.rows % width).any()):
        width //= 2
    return (covered.rows[:, None] + np.arange(0, span, width)).ravel(), width


# --- stores and reductions -------------------------------------------------------------------------------


def _store(
    instruction: Instruction, build: Builder, modifiers: Modifiers, rank: int, reduces: bool
) -> Step:
    mode = _mode(instruction, modifiers)
    operation = modifiers.one_of(*OPERATIONS) if reduces else ""
    modifiers.one_of("bulk_group")
    modifiers.flag("L2::cache_hint")
    modifiers.done()
    operands = instruction.operands
    boxes = Boxes(build, operands[0], operands[1], rank, mode)
    what = "TMA reduction into global memory" if reduces else "TMA store to global memory"
    counter = "tma_reduce_bytes" if reduces else "tma_store_bytes"

    def step(group: Group) -> None:
        wave = group.wave
        state = wave.state(BulkCopies)
        for box in boxes.of(group, stores=True, once=not reduces):
            part, covered = box.part, box.tile
            block = target_blocks(part, box.shared, None, "shared::cta")[0]
            needed = covered.store_cells()
            pieces, width = pieces_of(covered)
            start_store(
                state,
                part,
                box.thread,
                what,
                block,
                covered.cells(box.shared & OFFSET_MASK)[needed],
                pieces,
                width,
                _inside(covered, needed, width),
                covered.bytes_inside,
                combine(operation, box.tensor_map.element.dtype) if reduces else None,
            )
            wave.counters.add("tma_requests", 1, part.site)
            wave.counters.add(counter, covered.bytes_inside, part.site)

    return step


def _inside(covered: Tile, needed: np.ndarray, width: int) -> Callable[[np.ndarray], np.ndarray]:
    """From the cells that were read, (cells, 16), to the pieces that are written, (k, width)."""

    def change(data: np.ndarray) -> np.ndarray:
        if covered.is_whole:
            return data.reshape(-1, width)
        box = np.zeros((len(needed), 16), np.uint8)
        box[needed] = data
        return covered.part_inside(box.reshape(-1, covered.row_bytes)).reshape(-1, width)

    return change


def _prefetch(instruction: Instruction, build: Builder, modifiers: Modifiers, rank: int) -> Step:
    """A hint: counted, and nothing else."""
    modifiers.one_of("global")
    mode = _mode(instruction, modifiers)
    modifiers.flag("L2::cache_hint")
    modifiers.done()
    boxes = Boxes(build, instruction.operands[0], None, rank, mode)

    def step(group: Group) -> None:
        amount = sum(box.tile.bytes_inside for box in boxes.of(group, stores=False))
        group.wave.counters.add("tma_prefetch_bytes", amount, group.site)

    return step
