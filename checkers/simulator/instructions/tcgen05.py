"""tcgen05: tensor memory is allocated, loaded, stored and waited for.

PTX ISA 9.7.16.7 (alloc, dealloc, relinquish_alloc_permit), .8 (ld, st, wait), .11 (fence), .12
(commit). mma is in tcgen05_mma.py, cp and shift are in tcgen05_copy.py. No hardware at hand could
confirm this family: it follows the manual, and the layouts of CUTLASS.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from checkers.simulator.instructions import tcgen05_copy, tcgen05_mma
from checkers.simulator.instructions.matrix import elements
from checkers.simulator.machine.building import Builder, translates
from checkers.simulator.machine.group import LANES, Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.matrices.matrix_layouts import TENSOR_SHAPES, tensor_places
from checkers.simulator.matrices.tensor_allocation import (
    Allocations,
    RoomWait,
    lane_zero,
    warps_blocks,
)
from checkers.simulator.matrices.tensor_memory import (
    COLUMNS,
    PIECE,
    ROWS,
    Region,
    TensorMemory,
    TensorOperation,
)
from checkers.simulator.matrices.tensor_pipe import TensorPipe
from checkers.simulator.ptx.modifiers import Modifiers, Unsupported
from checkers.simulator.ptx.program import Address, Immediate, Instruction, Register
from checkers.simulator.reports.faults import Kind
from checkers.simulator.waiting.mbarrier_lookup import each_barrier, lanes_of
from checkers.simulator.waiting.meetings import collective

CTA_GROUPS = ("cta_group::1", "cta_group::2")


@translates("tcgen05", section="9.7.16")
def tcgen05(instruction: Instruction, build: Builder) -> Step:
    if not build.kernel.target.startswith("sm_10"):
        raise Unsupported(instruction, f"tcgen05 is not for {build.kernel.target}")
    modifiers = build.modifiers(instruction)
    operation = modifiers.take() or ""
    translator = _OPERATIONS.get(operation)
    if translator is None:
        raise Unsupported(instruction, f"tcgen05 has no operation .{operation} in it")
    for flag in ("sync", "aligned"):
        modifiers.flag(flag)
    return translator(instruction, build, modifiers)


# --- alloc, dealloc, relinquish_alloc_permit ---------------------------------------------------


def _alloc(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    pair = modifiers.one_of(*CTA_GROUPS) == CTA_GROUPS[1]
    space = modifiers.one_of("shared::cta", "shared", default="generic")
    modifiers.one_of("b32")
    modifiers.done()
    address = build.address(instruction.operands[0])
    count = build.source(instruction.operands[1], "u32")

    def store(group: Group, first: int) -> None:
        one = lane_zero(group)
        value = np.full((one.n, LANES), first, np.uint32)
        name = "generic" if space == "generic" else "shared"
        one.wave.memory.store(one, name, address(one), [value], 4)

    def single(group: Group, block: int, columns: int) -> list[Group] | None:
        state = group.wave.state(Allocations)
        first = state.room([block], columns)
        if first is None:
            group.wave.park(group, state.wait_for_room(block, columns), retry=True)
            return []
        state.take(block, first, columns, group)
        store(group, first)
        return None

    def both(group: Group, block: int, columns: int) -> list[Group] | None:
        state = group.wave.state(Allocations)
        met = state.meet(block, group, columns)
        if isinstance(met, RoomWait):
            group.wave.park(group, met, retry=False)
            return []
        other, wanted = met
        other = Group(other.wave, group.pc, other.warps, other.mask)
        if wanted != columns:
            state.report(
                group,
                f"The two blocks of a pair ask tcgen05.alloc for {columns} and {wanted} columns.",
            )
        first = state.room([block, block ^ 1], columns)
        if first is None:
            state.report(
                group,
                f"tcgen05.alloc with cta_group::2 would wait for ever for {columns} columns that "
                "are free in both blocks.",
            )
            first = 0
        for part, owner in ((group, block), (other, block ^ 1)):
            state.take(owner, first, columns, part)
            store(part, first)
        return None

    def step(group: Group) -> list[Group] | None:
        wanted = np.broadcast_to(count(group), (group.n, LANES))
        going_on = []
        for i, (part, block) in enumerate(warps_blocks(group)):
            columns = int(wanted[i][part.active()[0]][0])
            if group.wave.state(Allocations).check(part, block, columns):
                if (both if pair else single)(part, block, columns) == []:
                    continue
            going_on.append(part)
        return None if len(going_on) == group.n else going_on

    return collective("tcgen05.alloc", 1, step)


def _dealloc(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    modifiers.one_of(*CTA_GROUPS)
    modifiers.one_of("b32")
    modifiers.done()
    address = build.source(instruction.operands[0], "u32")
    count = build.source(instruction.operands[1], "u32")

    def step(group: Group) -> None:
        state = group.wave.state(Allocations)
        addresses = np.broadcast_to(address(group), (group.n, LANES))
        counts = np.broadcast_to(count(group), (group.n, LANES))
        for i, (part, block) in enumerate(warps_blocks(group)):
            lane = int(part.active()[0].argmax())
            state.free(block, int(addresses[i, lane]), int(counts[i, lane]), part)

    return collective("tcgen05.dealloc", 1, step)


def _relinquish(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    modifiers.one_of(*CTA_GROUPS)
    modifiers.done()

    def step(group: Group) -> None:
        for part, block in warps_blocks(group):
            group.wave.state(Allocations).relinquish(block, part)

    return collective("tcgen05.relinquish_alloc_permit", 1, step)


# --- ld, st --------------------------------------------------------------------------------------


class _Window:
    """The cells that an ld or st of some shape reaches from its address.

    rows, columns: (32, registers, 1 or 2), relative to the address; two where 16-bit values of
    adjacent columns make one register.
    """

    def __init__(self, instruction: Instruction, modifiers: Modifiers, packing: str) -> None:
        self.what = f"tcgen05.{instruction.modifiers[0]}"
        shape = modifiers.one_of(*TENSOR_SHAPES)
        repeat = modifiers.one_of(*(f"x{1 << i}" for i in range(8)))
        self.packed = modifiers.flag(packing)
        modifiers.one_of("b32")
        modifiers.done()
        split = 0
        if shape == "16x32bx2":
            immediate = instruction.operands[2 if self.what == "tcgen05.ld" else 1]
            if not isinstance(immediate, Immediate):
                raise Unsupported(instruction, "its half split offset has to be a constant")
            split = int(immediate.value)
        if int(repeat[1:]) > TENSOR_SHAPES[shape][3]:
            raise Unsupported(instruction, f"there is no {shape}.{repeat}")
        rows, columns = tensor_places(shape, int(repeat[1:]), split)
        if self.packed:
            columns = np.stack([2 * columns, 2 * columns + 1], axis=-1)
            rows = np.stack([rows, rows], axis=-1)
        else:
            rows, columns = rows[..., None], columns[..., None]
        self.rows, self.columns = rows, columns
        self.registers = rows.shape[1]
        self.height = TENSOR_SHAPES[shape][0]
        starts = {0, split} if shape == "16x32bx2" else {0}
        width = int(columns.max()) + 1 - max(starts)
        self.spans = [(start, start + width) for start in sorted(starts)]

    def addresses(self, group: Group, taddr: np.ndarray) -> np.ndarray:
        """(n,) the address of each warp, after checking that its lanes agree and are its own."""
        values = np.broadcast_to(taddr, (group.n, LANES)).astype(np.int64)
        lane = group.active().argmax(axis=1)
        first = values[np.arange(group.n), lane]
        differ = ((values != first[:, None]) & group.active()).any(axis=1)
        if differ.any():
            group.wave.faults.report(
                Kind.COLLECTIVE,
                f"The threads of a warp give {self.what} different addresses.",
                group=group.only_warps(differ),
            )
        window = group.warps % group.wave.warps_per_block % 4 * 32
        row = first >> 16
        outside = (row < window) | (row + self.height > window + 32)
        if outside.any():
            at = int(np.argmax(outside))
            group.wave.faults.report(
                Kind.TENSOR_MEMORY,
                f"{self.what} reaches lanes {row[at]} to {row[at] + self.height - 1} of tensor "
                f"memory, but this warp may touch only {window[at]} to {window[at] + 31}: those of "
                "its number in the warpgroup.",
                group=group.only_warps(outside),
            )
        return first

    def places(self, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(n, 32, registers, 1 or 2) lanes and columns of cells, kept inside the memory."""
        shape = (-1, 1, 1, 1)
        rows = (first >> 16).reshape(shape) + self.rows
        columns = (first & 0xFFFF).reshape(shape) + self.columns
        return np.minimum(rows, ROWS - 1), np.minimum(columns, COLUMNS - 1)

    def regions(self, block: int, first: int) -> list[Region]:
        """The cells of one warp's access, for the checks."""
        row, column = first >> 16, first & 0xFFFF
        pieces = slice(row // PIECE, (row + self.height) // PIECE)
        return [Region(block, pieces, slice(column + a, column + b)) for a, b in self.spans]


def _each_warp(
    group: Group, window: _Window, first: np.ndarray, write: bool
) -> list[TensorOperation]:
    """Checks and records the access of each warp; their operations."""
    operations = []
    memory = group.wave.state(TensorMemory)
    per_block = group.wave.warps_per_block
    for i, warp in enumerate(group.warps.tolist()):
        operation = memory.operation(window.what, group.site, warp * LANES, (window.what, warp))
        operations.append(operation)
        slot = min(warp % per_block // 4, 3)
        for region in window.regions(warp // per_block, int(first[i])):
            if write:
                memory.write(region, operation)
            else:
                memory.read(region, operation, slot)
    return operations


def _touched(group: Group, touches: list[tuple[int, bool]]) -> None:
    group.wave.state(TensorMemory).touch(group, touches)


def _ld(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    """Registers get what the cells hold now: a register that depends on the load is in order even
    without tcgen05.wait::ld (9.7.16.6.4.5); what needs the wait is the next write of the cells."""
    if modifiers.flag("red"):
        raise Unsupported(instruction, "tcgen05.ld.red needs sm_101a or sm_103a")
    window = _Window(instruction, modifiers, "pack::16b")
    registers = elements(instruction.operands[0], instruction, window.registers)
    writers = [build.destination(r, "b32") for r in registers]
    slots = tuple(build.slot(r) for r in registers if isinstance(r, Register))
    build.watch_registers(slots, _touched, unless=("tcgen05",))
    taddr = _taddr(instruction.operands[1], build)

    def step(group: Group) -> None:
        memory = group.wave.state(TensorMemory)
        first = window.addresses(group, taddr(group))
        operations = _each_warp(group, window, first, write=False)
        memory.loaded_into(slots, operations)
        rows, columns = window.places(first)
        blocks = group.blocks().reshape(-1, 1, 1, 1)
        values = memory.cells[blocks, rows, columns]
        if window.packed:
            values = values[..., 0] & 0xFFFF | values[..., 1] << np.uint32(16)
        else:
            values = values[..., 0]
        values = np.ascontiguousarray(np.moveaxis(values, 2, 0))
        for write, value in zip(writers, values, strict=True):
            write(group, value)
        count = 4 * rows[0].size * group.n
        group.wave.counters.add("tensor_memory_load_bytes", count, group.site)

    return collective("tcgen05.ld", 1, step)


def _st(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    window = _Window(instruction, modifiers, "unpack::16b")
    registers = elements(instruction.operands[-1], instruction, window.registers)
    readers = [build.source(r, "b32") for r in registers]
    taddr = _taddr(instruction.operands[0], build)

    def step(group: Group) -> None:
        memory = group.wave.state(TensorMemory)
        first = window.addresses(group, taddr(group))
        _each_warp(group, window, first, write=True)
        rows, columns = window.places(first)
        parts = [np.broadcast_to(read(group), (group.n, LANES)) for read in readers]
        values = np.stack(parts, axis=-1)[..., None]
        if window.packed:
            values = np.concatenate([values & 0xFFFF, values >> np.uint32(16)], axis=-1)
        memory.cells[group.blocks().reshape(-1, 1, 1, 1), rows, columns] = values
        count = 4 * rows[0].size * group.n
        group.wave.counters.add("tensor_memory_store_bytes", count, group.site)

    return collective("tcgen05.st", 1, step)


def _taddr(operand: object, build: Builder) -> Callable[[Group], np.ndarray]:
    if not isinstance(operand, Address):
        raise Unsupported(build.instruction, "an address of tensor memory was expected")
    return build.address(operand)


# --- wait, fence, commit -------------------------------------------------------------------------


def _wait(which: str) -> Callable[[Instruction, Builder, Modifiers], Step]:
    what = f"tcgen05.{which}"

    def translate(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
        modifiers.done()

        def step(group: Group) -> None:
            clocks = group.wave.clocks
            for warp in group.warps.tolist():
                threads = warp * LANES + np.arange(LANES)
                agent = clocks.agent(int(clocks.cluster[threads[0]]), (what, warp))
                if agent.last():
                    clocks.learn(threads, agent, agent.last())

        return collective(f"tcgen05.wait::{which}", 1, step)

    return translate


def _fence_before(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    """Orders what went before. Nothing to do: no operation here is later than its issue says."""
    modifiers.done()
    return lambda group: None


def _fence_after(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    modifiers.done()

    def step(group: Group) -> None:
        group.wave.state(TensorMemory).fence_after(group.threads())

    return step


def _commit(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    """The mbarrier gets one arrival when all mma, cp and shift that this thread issued before are
    complete; at once when there are none."""
    pair = modifiers.one_of(*CTA_GROUPS) == CTA_GROUPS[1]
    modifiers.one_of("mbarrier::arrive::one")
    space = modifiers.one_of("shared::cluster", "shared::cta", "shared", default="")
    multicast = modifiers.flag("multicast::cluster")
    modifiers.one_of("b64")
    modifiers.done()
    address = build.address(instruction.operands[0])
    mask = build.source(instruction.operands[1], "u16") if multicast else None

    def step(group: Group) -> None:
        pipe = group.wave.state(TensorPipe)
        addresses = np.broadcast_to(address(group), (group.n, LANES))
        for barrier, part in each_barrier(group, addresses, space, "tcgen05.commit"):
            masks = lanes_of(part, group, mask(group)) if mask else [0] * len(part.threads())
            for thread, chosen in zip(part.threads().tolist(), list(masks), strict=True):
                pipe.commit(thread, barrier, int(chosen) if multicast else None, pair, group)

    return step


_OPERATIONS: dict[str, Callable[[Instruction, Builder, Modifiers], Step]] = {
    "alloc": _alloc,
    "dealloc": _dealloc,
    "relinquish_alloc_permit": _relinquish,
    "ld": _ld,
    "st": _st,
    "wait::ld": _wait("ld"),
    "wait::st": _wait("st"),
    "fence::before_thread_sync": _fence_before,
    "fence::after_thread_sync": _fence_after,
    "commit": _commit,
    "mma": tcgen05_mma.mma,
    "cp": tcgen05_copy.cp,
    "shift": tcgen05_copy.shift,
}
