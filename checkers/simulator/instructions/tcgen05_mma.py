"""tcgen05.mma: dense multiplications, with and without block scaling, of one block or a pair.

PTX ISA 9.7.16.10.9.1. Unsupported: .sp (sparse A), .ws (weights stationary), .ashift, and the
scale vectors of K = 96.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from checkers.simulator.machine.building import Builder
from checkers.simulator.machine.group import LANES, Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.matrices.descriptors import Tile, locate, tcgen05_descriptor
from checkers.simulator.matrices.matrix_arithmetic import FLOP_NAMES
from checkers.simulator.matrices.matrix_operands import Reading, begin_reads, check_tile
from checkers.simulator.matrices.tensor_core import BLOCK_SCALED, KINDS, instruction_descriptor
from checkers.simulator.matrices.tensor_multiply import Multiplication
from checkers.simulator.matrices.tensor_pipe import TensorPipe
from checkers.simulator.ptx.modifiers import Modifiers, Unsupported
from checkers.simulator.ptx.program import Address, Immediate, Instruction, Vector
from checkers.simulator.reports.faults import Kind

Reader = Callable[[Group], Any]

# Scale factors for each K of one instruction, by kind: the names that each count has.
VECTORS = {
    "mxf8f6f4": {"scale_vec::1X": 1, "block32": 1},
    "mxf4": {"scale_vec::2X": 2, "block32": 2},
    "mxf4nvf4": {"scale_vec::2X": 2, "block32": 2, "scale_vec::4X": 4, "block16": 4},
}


@dataclass(eq=False)
class _Form:
    """What one tcgen05.mma instruction says, and how its operands are read."""

    kind: str
    pair: bool
    vectors: int
    d: Reader
    a: Reader
    a_in_tensor_memory: bool
    b: Reader
    descriptor: Reader
    disabled: list[Reader]
    enable: Reader
    scale_input: int
    scales: tuple[Reader, ...]


def mma(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    """D (+)= A * B, started by one thread."""
    form = _form(instruction, build, modifiers)

    def step(group: Group) -> None:
        for warp in _issuers(group):
            _start(warp, form)

    return step


def _form(instruction: Instruction, build: Builder, modifiers: Modifiers) -> _Form:
    for missing in ("sp", "ws", "ashift"):
        if modifiers.flag(missing):
            raise Unsupported(instruction, f"tcgen05.mma.{missing} is not in it")
    pair = modifiers.one_of("cta_group::1", "cta_group::2") == "cta_group::2"
    kind = modifiers.one_of(*(f"kind::{k}" for k in KINDS)).removeprefix("kind::")
    scaled = modifiers.flag("block_scale")
    if scaled != (kind in BLOCK_SCALED):
        raise Unsupported(
            instruction, f"kind::{kind} {'with' if scaled else 'without'} block_scale"
        )
    vectors = 0
    if scaled:
        names = VECTORS[kind]
        default = None if kind == "mxf4nvf4" else next(iter(names))
        vectors = names[modifiers.one_of(*names, default=default)]
    modifiers.drop_prefixed("collector::a::")  # a hint: never a licence to change A early
    modifiers.done()
    d, a, b, descriptor, *rest = instruction.operands
    scales: tuple[Reader, ...] = ()
    if scaled:
        scales, rest = tuple(build.address(o) for o in rest[:2]), rest[2:]
    disabled: list[Reader] = []
    if rest and isinstance(rest[0], Vector):
        disabled = [build.source(o, "b32") for o in rest[0].elements]
        rest = rest[1:]
        if len(disabled) != (8 if pair else 4):
            raise Unsupported(instruction, "disable-output-lane has 4 words, 8 for a pair")
    scale_input = 0
    if len(rest) == 2:
        if not isinstance(rest[1], Immediate) or kind not in ("f16", "tf32"):
            raise Unsupported(instruction, "scale-input-d is a constant, for kinds f16 and tf32")
        scale_input = int(rest[1].value)
    elif len(rest) != 1:
        raise Unsupported(instruction, "its operands are not those of tcgen05.mma")
    in_tensor_memory = isinstance(a, Address)
    return _Form(
        kind=kind,
        pair=pair,
        vectors=vectors,
        d=build.address(d),
        a=build.address(a) if in_tensor_memory else build.source(a, "b64"),
        a_in_tensor_memory=in_tensor_memory,
        b=build.source(b, "b64"),
        descriptor=build.source(descriptor, "b32"),
        disabled=disabled,
        enable=build.source(rest[0], "pred"),
        scale_input=scale_input,
        scales=scales,
    )


def _issuers(group: Group) -> list[Group]:
    """Each warp's one thread; more than one is a fault."""
    counts = group.active().sum(axis=1)
    if (counts > 1).any():
        many = group.only_warps(counts > 1)
        group.wave.faults.report(
            Kind.COLLECTIVE,
            f"tcgen05.mma is executed by {int(counts.max())} threads of a warp, and each starts a "
            "multiplication of its own: one elected thread is to execute it.",
            group=many,
        )
    warps = []
    for i in range(group.n):
        one = group.only_warps(np.array([i]))
        lane = int(one.active()[0].argmax())
        narrowed = one.narrowed(np.arange(LANES)[None, :] == lane)
        assert narrowed is not None
        warps.append(narrowed)
    return warps


def _value(reader: Reader, warp: Group) -> int:
    """An operand of the one thread of ``warp``."""
    return int(warp.lanes(reader(warp))[0])


def _start(warp: Group, form: _Form) -> None:
    """One multiplication begins: its operands are checked and reads of shared memory announced."""
    wave, site = warp.wave, warp.site
    thread = int(warp.threads()[0])
    block = int(warp.blocks()[0])
    shape = instruction_descriptor(_value(form.descriptor, warp), form.kind, form.pair)
    if shape.problem:
        wave.faults.report(Kind.DESCRIPTOR, shape.problem, thread=thread, site=site)
        return
    blocks = [block]
    if form.pair:
        if wave.cluster_size % 2:
            wave.faults.report(
                Kind.CLUSTER,
                "tcgen05.mma with cta_group::2 needs a cluster with an even number of blocks.",
                thread=thread,
                site=site,
            )
            return
        first = block - block % wave.cluster_size % 2
        blocks = [first, first + 1]
    tiles: list[Tile] = []
    a_word, b_word = _value(form.a, warp), _value(form.b, warp)
    per_block = shape.rows // len(blocks)
    operands = [("B", b_word, shape.columns // len(blocks), shape.b_mn_major, shape.b_type)]
    if not form.a_in_tensor_memory:
        operands.insert(0, ("A", a_word, per_block, shape.a_mn_major, shape.a_type))
    for name, word, extent, mn_major, _ in operands:
        size = 4 if form.kind == "tf32" else 2 if form.kind == "f16" else 1
        depth = 32 // size  # 4-bit types are read as the bytes that hold two of them
        tile = locate(tcgen05_descriptor(word), extent, depth, size, mn_major)
        check_tile(wave, tile, name, thread, site)
        tiles.append(tile)
    one = Multiplication(
        wave=wave,
        site=site,
        thread=thread,
        blocks=blocks,
        shape=shape,
        d=_value(form.d, warp),
        a=a_word if form.a_in_tensor_memory else None,
        tiles=tiles,
        keep=bool(_value(form.enable, warp)),
        scale_input=form.scale_input,
        disabled=[_value(reader, warp) for reader in form.disabled],
        scales=[_value(reader, warp) for reader in form.scales],
        vectors=form.vectors,
    )
    time = one.check()
    pipe = wave.state(TensorPipe)
    agent = pipe.agent(thread)
    readings = [Reading(b, tiles, agent, time, thread) for b in blocks]
    ticket = begin_reads(wave, readings, site)

    def complete() -> None:
        one.run()
        wave.memory.end_async(ticket)

    pipe.issue(thread, warp, complete, "tcgen05.mma", shape.flops)
    counters = wave.counters
    counters.add("tcgen05_instructions", 1, site)
    counters.add(FLOP_NAMES[shape.a_type], shape.flops, site)
    read = sum(tile.cells.size * 16 for tile in tiles) * len(blocks)
    counters.add("matrix_shared_bytes", read, site)
