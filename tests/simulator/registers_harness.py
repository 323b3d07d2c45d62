"""Runs PTX that only computes, with no memory and no launch: registers in, a register out.

compute("add.f32 %f2, %f0, %f1;", "%f2", {"%f0": a, "%f1": b})
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import Kernel, load
from checkers.simulator.machine.registers import new_register

_REGISTERS = """
    .reg .pred %p<8>; .reg .b8 %c<8>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .f32 %f<8>;
    .reg .b64 %rd<8>; .reg .f64 %fd<8>; .reg .b128 %q<4>;
"""
_TYPES = {"%p": bool, "%c": "u1", "%h": "u2", "%r": "u4", "%f": "f4", "%rd": "u8", "%fd": "f8"}


@cache
def _kernel(body: str, target: str) -> Kernel:
    text = (
        f".version 8.8\n.target {target}\n.address_size 64\n"
        f".visible .entry k()\n{{{_REGISTERS}{body}\n    ret;\n}}\n"
    )
    return load(text, "k")


class _Wave:
    """The registers of a wave, and nothing else of it."""

    def __init__(self, kernel: Kernel, warps: int) -> None:
        self.kernel = self.program = kernel
        self.warps = self.warps_per_block = warps
        self.registers = [new_register(bits, warps) for bits in kernel.slot_bits]
        self.counters = SimpleNamespace(add=lambda *_: None)

    def ranks(self, group: Group) -> np.ndarray:
        return np.zeros(group.n, np.int64)


def compute(
    body: str,
    result: str | tuple[str, ...],
    inputs: dict[str, Any] | None = None,
    *,
    target: str = "sm_100a",
    mask: np.ndarray | None = None,
) -> Any:
    """The register ``result``, or a tuple of them, after ``body``, as flat arrays of its type.

    inputs: register to values, at most as many as the longest; repeated to fill all lanes, of
    which as many come back as the longest has (one when all are scalars).
    """
    kernel = _kernel(body, target)
    values = {name: np.atleast_1d(value) for name, value in (inputs or {}).items()}
    count = max([1, *(len(value) for value in values.values())])
    warps = -(-count // 32)
    wave: Any = _Wave(kernel, warps)
    for name, value in values.items():
        slot = kernel.slot(name)
        array = wave.registers[slot]
        if array.dtype == bool:
            raw = value.astype(bool)
        elif value.dtype.kind in "iu" and value.dtype.itemsize != array.dtype.itemsize:
            raw = value.astype(np.uint64 if value.dtype.kind == "u" else np.int64)
            raw = raw.astype(array.dtype)
        else:
            raw = value.view(array.dtype)
        if array.ndim == 2:
            array[...] = np.resize(raw, array.shape)
        else:
            array[...] = np.resize(value, array.shape)
    group = Group(wave, 0, np.arange(warps), mask)
    with np.errstate(all="ignore"):
        for at, step in enumerate(kernel.steps[:-1]):
            group.pc = at
            assert step(group) is None
    names = (result,) if isinstance(result, str) else result
    found = []
    for name in names:
        array = wave.registers[kernel.slot(name)]
        flat = array.reshape(-1, *array.shape[2:])[:count]
        dtype = np.dtype(_TYPES.get(name.rstrip("0123456789"), flat.dtype))
        found.append(flat.astype(dtype) if dtype.itemsize < flat.itemsize else flat.view(dtype))
    return found[0] if isinstance(result, str) else tuple(found)
