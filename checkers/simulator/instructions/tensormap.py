"""Tensor maps changed on the device: PTX ISA 9.7.9.28 (tensormap.replace), 9.7.13.16
(tensormap.cp_fenceproxy)."""

from __future__ import annotations

import numpy as np

from checkers.simulator.copies.tensormap import FIELDS, MAP_BYTES, replaced
from checkers.simulator.machine.building import Builder, translates
from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.ptx.modifiers import Modifiers, Unsupported
from checkers.simulator.ptx.program import Immediate, Instruction
from checkers.simulator.reports.faults import Kind
from checkers.simulator.waiting.fences import TensorMapFences

WITH_ORDINAL = ("box_dim", "global_dim", "global_stride", "element_stride")
SCOPES = ("cta", "cluster", "gpu", "sys")


@translates("tensormap", section="9.7.9.28, 9.7.13.16")
def tensormap(instruction: Instruction, build: Builder) -> Step:
    modifiers = build.modifiers(instruction)
    if modifiers.one_of("replace", "cp_fenceproxy") == "replace":
        return _replace(instruction, build, modifiers)
    return _copy_and_fence(instruction, build, modifiers)


def _load(group: Group, space: str, address: np.ndarray) -> list[np.ndarray]:
    """The 16 words of 8 bytes at each lane's address."""
    memory = group.wave.memory
    words: list[np.ndarray] = []
    for at in range(0, MAP_BYTES, 16):
        words += memory.load(group, space, address + np.uint64(at), 8, 2)
    return words


def _store(group: Group, space: str, address: np.ndarray, words: list[np.ndarray]) -> None:
    memory = group.wave.memory
    for i in range(0, len(words), 2):
        memory.store(group, space, address + np.uint64(8 * i), words[i : i + 2], 8)


def _replace(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    modifiers.one_of("tile")
    if modifiers.flag("swizzle_atomicity"):
        raise Unsupported(
            instruction, "where a map holds the atomicity of its swizzle is not known"
        )
    field = modifiers.one_of(*sorted(FIELDS))
    space = modifiers.one_of("global", "shared::cta", "shared", default="generic")
    modifiers.one_of("b1024")
    kind = modifiers.one_of("b32", "b64")
    modifiers.done()
    operands = instruction.operands
    address = build.address(operands[0])
    ordinal = 0
    if field in WITH_ORDINAL:
        if not isinstance(operands[1], Immediate):
            raise Unsupported(instruction, "the ordinal of a field is a constant")
        ordinal = int(operands[1].value)
    value = build.source(operands[-1], kind)

    def step(group: Group) -> None:
        addresses = address(group)
        words = _load(group, space, addresses)
        values = np.broadcast_to(np.asarray(value(group)), (group.n, 32))
        changed = [word.copy() for word in words]
        for row, lane in np.argwhere(group.active()).tolist():
            old = b"".join(int(word[row, lane]).to_bytes(8, "little") for word in words)
            try:
                new = replaced(old, field, int(values[row, lane]), ordinal)
            except ValueError as error:
                group.wave.faults.report(
                    Kind.TENSOR_MAP, f"tensormap.replace: {error}", group=group
                )
                continue
            for i, word in enumerate(np.frombuffer(new, np.uint64).tolist()):
                changed[i][row, lane] = word
        # As the manual has it, one weak write of the whole object.
        _store(group, space, addresses, changed)
        if space != "shared::cta":
            state = group.wave.state(TensorMapFences)
            for at in np.unique(group.lanes(addresses)).tolist():
                state.changed(at)

    return step


def _copy_and_fence(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    modifiers.one_of("global")
    modifiers.one_of("shared::cta")
    modifiers.one_of("tensormap::generic")
    modifiers.one_of("release")
    modifiers.one_of(*SCOPES)
    modifiers.one_of("sync")
    modifiers.one_of("aligned")
    modifiers.done()
    to, source = build.address(instruction.operands[0]), build.address(instruction.operands[1])
    size = instruction.operands[2]
    if not isinstance(size, Immediate) or size.value != MAP_BYTES:
        raise Unsupported(instruction, f"the size is always {MAP_BYTES}")

    def step(group: Group) -> None:
        wave = group.wave
        # The warp copies one map together; lane by lane it would be 32 writes of the same bytes.
        first = group.narrowed(_first_lanes(group))
        assert first is not None
        targets = to(first)
        _store(first, "global", targets, _load(first, "shared::cta", source(first)))
        state = wave.state(TensorMapFences)
        for at in np.unique(first.lanes(targets)).tolist():
            state.changed(at)
        state.release()
        wave.clocks.fence_release(group.threads())

    return step


def _first_lanes(group: Group) -> np.ndarray:
    """(n, 32) bool: the first active lane of each warp."""
    active = group.active()
    first = np.zeros_like(active)
    first[np.arange(group.n), active.argmax(axis=1)] = True
    return first
