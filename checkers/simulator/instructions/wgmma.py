"""Matrix instructions of a warpgroup: wgmma.mma_async with its fence, commit_group and wait_group.

PTX ISA 9.7.15. Dense only: wgmma.mma_async.sp and the 1-bit forms are Unsupported.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from checkers.simulator.instructions.matrix import elements
from checkers.simulator.machine.building import Builder, registers_of, translates
from checkers.simulator.machine.group import LANES, Group, rows_of
from checkers.simulator.machine.kernel import Kernel, Step
from checkers.simulator.matrices import matrix_layouts as layouts
from checkers.simulator.matrices.accumulators import read_fragment
from checkers.simulator.matrices.descriptors import Tile, locate, wgmma_descriptor
from checkers.simulator.matrices.fused_sums import multiply_add
from checkers.simulator.matrices.matrix_arithmetic import (
    ELEMENT_BYTES,
    FLOP_NAMES,
    INTEGERS,
    values,
)
from checkers.simulator.matrices.matrix_operands import Reading, begin_reads, check_tile, read_tile
from checkers.simulator.matrices.warpgroup import WgmmaState
from checkers.simulator.ptx.modifiers import Modifiers, Unsupported
from checkers.simulator.ptx.program import Immediate, Instruction, Operand, Register, Vector
from checkers.simulator.reports.faults import Kind
from checkers.simulator.waiting.meetings import WARPGROUP, collective

ROWS = 64
DEPTH_BYTES = 32  # of K, whatever the type

# Operand types, with what each may be multiplied by and its accumulators.
PARTNERS = {kind: (kind,) for kind in ("f16", "bf16", "tf32")}
PARTNERS |= dict.fromkeys(("e4m3", "e5m2"), ("e4m3", "e5m2"))
PARTNERS |= dict.fromkeys(INTEGERS, INTEGERS)
ACCUMULATORS = dict.fromkeys(("f16", "e4m3", "e5m2"), ("f16", "f32"))
ACCUMULATORS |= dict.fromkeys(("bf16", "tf32"), ("f32",)) | dict.fromkeys(INTEGERS, ("s32",))
DTYPES = {"f16": np.float16, "f32": np.float32, "s32": np.int32}


def _touched(group: Group, touches: list[tuple[int, bool]]) -> None:
    constant = group.site.opcode == "mov" and _sets_constant(group.wave.kernel, group.site)
    group.wave.state(WgmmaState).touch(group, touches, constant)


@lru_cache(maxsize=4096)
def _sets_constant(kernel: Kernel, move: Instruction) -> bool:
    """Whether a mov gives a register a constant, perhaps by way of the register written last.

    For an accumulator cleared in the source the compiler does so where it is needed, which may be
    after the fence.
    """
    value = move.operands[1]
    before = kernel.instructions[: kernel.instructions.index(move)]
    for other in reversed(before if isinstance(value, Register) else ()):
        if other.operands and value in registers_of(other.operands[0]):
            return other.opcode == "mov" and isinstance(other.operands[1], Immediate)
    return isinstance(value, Immediate)


@translates("wgmma", section="9.7.15")
def wgmma(instruction: Instruction, build: Builder) -> Step:
    """One of fence, commit_group, wait_group and mma_async."""
    if not build.kernel.target.startswith("sm_90"):
        raise Unsupported(instruction, f"wgmma is for sm_90a, not {build.kernel.target}")
    modifiers = build.modifiers(instruction)
    action = modifiers.one_of("fence", "commit_group", "wait_group", "mma_async")
    for flag in ("sync", "aligned"):
        modifiers.flag(flag)
    if action == "mma_async":
        return _mma_async(instruction, build, modifiers)
    modifiers.done()
    if action == "wait_group":
        (count,) = instruction.operands
        if not isinstance(count, Immediate):
            raise Unsupported(instruction, "the number of groups has to be a constant")
        leave = int(count.value)
        return collective(
            "wgmma.wait_group", 1, lambda group: group.wave.state(WgmmaState).wait(group, leave)
        )
    if action == "fence":
        return collective("wgmma.fence", 1, lambda group: group.wave.state(WgmmaState).fence(group))
    return collective(
        "wgmma.commit_group", 1, lambda group: group.wave.state(WgmmaState).commit(group)
    )


@dataclass(eq=False)
class Shape:
    """What an mma_async instruction says once for all its executions.

    columns, depth: N and K in elements.  accumulator, operand: register slots of D and of A (empty
    for A from shared memory).  mn_major: of A and B.  sign: 1 or -1, of A times B.
    """

    name: str
    columns: int
    depth: int
    d_type: str
    a_type: str
    b_type: str
    saturate: bool
    accumulator: tuple[int, ...]
    operand: tuple[int, ...]
    a_mn_major: bool = False
    b_mn_major: bool = False
    sign: int = 1
    fragment: layouts.Fragment = field(init=False)

    def __post_init__(self) -> None:
        self.fragment = layouts.warpgroup_accumulator(self.columns, self.d_type == "f16")

    @property
    def key(self) -> int:
        """Equal for instructions of one shape and accumulator type."""
        return (self.columns << 8) + (self.depth << 2) + list(DTYPES).index(self.d_type)

    @property
    def flops(self) -> int:
        return 2 * ROWS * self.columns * self.depth

    def multiply(
        self,
        state: WgmmaState,
        groups: np.ndarray,
        keep: np.ndarray,
        left: np.ndarray,
        right: np.ndarray,
    ) -> None:
        """D = A * B for the warpgroups ``groups`` (k,), + D where ``keep`` (k,); left (k, 64, K) and
        right (k, K, N) float32."""
        if self.sign < 0:
            left = -left
        accumulator = state.accumulator(self.accumulator, self.fragment)
        dtype = DTYPES[self.d_type]
        accumulator.take(groups, read=bool(keep.any()))
        whole, rows = accumulator.data.view(dtype), rows_of(groups)
        if not keep.all():
            if keep.any():
                whole[groups[~keep]] = 0
            else:
                whole[rows] = 0
        whole[rows] = multiply_add(whole[rows], left, right, self.a_type, saturate=self.saturate)


def _shape(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Shape:
    names = [m for m in modifiers.left if m.startswith("m64n")]
    if len(names) != 1:
        raise Unsupported(instruction, "a shape such as .m64n128k16 was expected")
    name = modifiers.one_of(names[0])
    saturate = modifiers.flag("satfinite")
    d_type, a_type, b_type = (modifiers.take() or "" for _ in range(3))
    modifiers.done()
    if b_type not in PARTNERS.get(a_type, ()) or d_type not in ACCUMULATORS[a_type]:
        raise Unsupported(instruction, f"there is no {d_type} = {a_type} * {b_type} in it")
    columns, depth = (int(part) for part in name[4:].split("k"))
    if columns % 8 or not 8 <= columns <= 256 or depth * ELEMENT_BYTES[a_type] != DEPTH_BYTES:
        raise Unsupported(instruction, f"there is no {name} of {a_type}")
    d, a = instruction.operands[:2]
    fragment = layouts.warpgroup_accumulator(columns, d_type == "f16")
    accumulator = _slots(elements(d, instruction, fragment.registers), build)
    operand: tuple[int, ...] = ()
    if isinstance(a, Vector):
        operand = _slots(elements(a, instruction, layouts.warpgroup_a().registers), build)
    shape = Shape(name, columns, depth, d_type, a_type, b_type, saturate, accumulator, operand)
    _immediates(instruction, shape)
    return shape


def _slots(registers: tuple[Operand, ...], build: Builder) -> tuple[int, ...]:
    return tuple(build.slot(register) for register in registers)  # type: ignore[arg-type]


def _immediates(instruction: Instruction, shape: Shape) -> None:
    """Reads imm-scale-a, imm-scale-b, imm-trans-a and imm-trans-b, as far as there are any."""
    rest = []
    for operand in instruction.operands[4:]:
        if not isinstance(operand, Immediate):
            raise Unsupported(instruction, "its scales and transposes have to be constants")
        rest.append(int(operand.value))
    if shape.a_type in INTEGERS:
        if rest:
            raise Unsupported(instruction, "integer operands have no scales or transposes")
        return
    scales, transposes = rest[:2], rest[2:]
    transposable = shape.a_type in ("f16", "bf16")
    wanted = (1 if shape.operand else 2) if transposable else 0
    if len(scales) != 2 or any(s not in (1, -1) for s in scales) or len(transposes) != wanted:
        raise Unsupported(instruction, f"its constants {rest} are not scales and transposes")
    shape.sign = scales[0] * scales[1]
    if transposes:
        shape.b_mn_major = bool(transposes[-1])
        shape.a_mn_major = bool(transposes[0]) and not shape.operand


class _Issue:
    """The operands of one execution, for the warpgroups of a group.

    tiles: of each warpgroup, those that are read from shared memory: (B,) or (A, B).
    """

    def __init__(
        self,
        shape: Shape,
        state: WgmmaState,
        group: Group,
        keep: np.ndarray,
        tiles: list[tuple[Tile, ...]],
    ) -> None:
        self.shape, self.state, self.site = shape, state, group.site
        self.groups = state.groups.of_warp[group.warps[::WARPGROUP]]
        self.keep, self.tiles = keep, tiles
        self.left: np.ndarray | None = None
        if shape.operand:
            for slot in shape.operand:
                state.give_back(slot, group.warps)
            words = read_fragment(
                group.wave, state.groups, shape.operand, layouts.warpgroup_a(), self.groups
            )
            self.left = values(words, shape.a_type)

    def __call__(self, at: np.ndarray) -> None:
        """Does the arithmetic for the warpgroups at these positions."""
        shape, groups = self.shape, self.groups[at]
        right = self._read(at, -1, shape.b_type)
        right = right if shape.b_mn_major else right.swapaxes(1, 2)
        if self.left is not None:
            left = self.left[at]
        else:
            left = self._read(at, 0, shape.a_type)
            left = left.swapaxes(1, 2) if shape.a_mn_major else left
        shape.multiply(self.state, groups, self.keep[at], left, right)

    def _read(self, at: np.ndarray, which: int, kind: str) -> np.ndarray:
        """(k, rows, elements) float32 of an operand in shared memory."""
        wave, block = self.state.wave, self.state.groups.block
        return np.stack(
            [
                read_tile(wave, int(block[self.groups[i]]), self.tiles[i][which], kind)
                for i in at.tolist()
            ]
        )


def _mma_async(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    """D (+)= A * B, started here, done by the wait that covers it."""
    if modifiers.flag("sp"):
        raise Unsupported(instruction, "sparse wgmma is not in it")
    shape = _shape(instruction, build, modifiers)
    build.watch_registers(shape.accumulator + shape.operand, _touched, unless=("wgmma",))
    first = 2 if shape.operand else 1
    descriptors = [build.source(o, "b64") for o in instruction.operands[first:3]]
    keeps = build.source(instruction.operands[3], "pred")
    size = ELEMENT_BYTES[shape.a_type]
    geometry = [("B", shape.columns, shape.b_mn_major)]
    if not shape.operand:
        geometry.insert(0, ("A", ROWS, shape.a_mn_major))

    def tiles_of(group: Group) -> list[tuple[Tile, ...]]:
        """The tiles of each warpgroup; a bad descriptor is reported."""
        columns = []
        for read, (name, extent, mn_major) in zip(descriptors, geometry, strict=True):
            words = np.broadcast_to(read(group), (group.n, LANES)).reshape(-1, WARPGROUP * LANES)
            if (words != words[:, :1]).any():
                group.wave.faults.report(
                    Kind.COLLECTIVE,
                    "The threads of a warpgroup give wgmma different descriptors.",
                    group=group,
                )
            found = {
                word: locate(wgmma_descriptor(word), extent, shape.depth, size, mn_major)
                for word in set(words[:, 0].tolist())
            }
            for tile in found.values():
                check_tile(group.wave, tile, name, int(group.threads()[0]), group.site)
            columns.append([found[word] for word in words[:, 0].tolist()])
        return list(zip(*columns, strict=True))

    def step(group: Group) -> None:
        state = group.wave.state(WgmmaState)
        state.check_fence(group, shape.accumulator, shape.operand, shape.key)
        tiles = tiles_of(group)
        keep = np.broadcast_to(keeps(group), (group.n, LANES))[::WARPGROUP, 0]
        issue = _Issue(shape, state, group, keep.copy(), tiles)
        ticket, times = _begin_reads(group, state, issue)
        state.issue(group, shape.accumulator, shape.operand, shape.key, issue, ticket, times)
        counters = group.wave.counters
        warpgroups = len(issue.groups)
        counters.add("wgmma_instructions", warpgroups, group.site)
        counters.add(FLOP_NAMES[shape.a_type], shape.flops * warpgroups, group.site)
        read = sum(tile.cells.size * 16 for tile in tiles[0])
        counters.add("matrix_shared_bytes", read * warpgroups, group.site)

    return collective("wgmma.mma_async", WARPGROUP, step)


def _begin_reads(group: Group, state: WgmmaState, issue: _Issue) -> tuple[Any, list[int]]:
    """Tells the memory what the warpgroups will read; its ticket, None for nothing new, and the
    engines' times. All of a wgmma-group share a time, and what one of it has announced the next
    need not."""
    readings, times = [], []
    for position, one in enumerate(issue.groups.tolist()):
        time, announced = state.announced(one)
        times.append(time)
        tiles = [tile for tile in issue.tiles[position] if tile not in announced]
        announced.update(tiles)
        if tiles:
            block, thread = int(state.groups.block[one]), int(state.groups.warps[one, 0]) * LANES
            readings.append(Reading(block, tiles, state.agent(one), time, thread))
    return begin_reads(group.wave, readings, group.site) if readings else None, times
