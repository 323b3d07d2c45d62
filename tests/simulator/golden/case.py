"""One golden vector: a small PTX kernel, its inputs, and how its outputs are compared."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .values import numpy_of, values, width_of

HEADER = ".version 8.8\n.target sm_90a\n.address_size 64\n"
KERNEL = "golden"
BLOCK = 128


@dataclass(frozen=True)
class Buffer:
    """Global memory of a launch. ``data``: what it holds before; ``keep``: recorded afterwards,
    and compared bit for bit; ``type_``: of its elements, for reports."""

    data: np.ndarray
    keep: bool = False
    type_: str = "b32"


@dataclass(frozen=True)
class TensorMap:
    """Arguments of cuTensorMapEncodeTiled. Strides in bytes, of dimensions 1 and up."""

    buffer: int
    type_: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...] = ()
    swizzle: int = 0  # 0 none, 1 32B, 2 64B, 3 128B
    nan_fill: bool = False
    offset: int = 0  # of the tensor in the buffer, bytes


@dataclass(frozen=True, eq=False)
class Case:
    """parameters: of the kernel, in order: a buffer's number (its address), a TensorMap (128
    bytes), or the bytes of a scalar. compact: outputs are smooth, store second differences.
    allowed: kinds of fault that the simulator may report, because the case looks at something
    that a kernel should not do."""

    name: str
    ptx: str
    make: Callable[[], list[Buffer]]
    parameters: tuple[int | TensorMap | bytes, ...]
    grid: tuple[int, int, int] = (1, 1, 1)
    block: tuple[int, int, int] = (BLOCK, 1, 1)
    cluster: tuple[int, int, int] = (1, 1, 1)
    shared: int = 0
    compact: bool = False
    allowed: tuple[str, ...] = ()

    def digest(self, buffers: Sequence[Buffer]) -> str:
        """Of all that a recording depends on."""
        what = hashlib.sha256(self.ptx.encode())
        what.update(repr((self.parameters, self.grid, self.block, self.cluster)).encode())
        for buffer in buffers:
            what.update(buffer.data.tobytes())
        return what.hexdigest()[:12]


def zeros(count: int, type_: str) -> np.ndarray:
    return np.zeros(count, numpy_of(type_))


def holder(type_: str) -> str:
    """The register type for values of a type: bits, and no narrower than 16."""
    return f"b{max(width_of(type_), 16)}"


def kernel(
    parameters: Sequence[str], body: str, *, head: str = "", name: str = KERNEL, after: str = ""
) -> str:
    """PTX text of one kernel. ``head``: before the entry, such as module variables; ``after``:
    directives between the parameters and the body."""
    declared = ", ".join(parameters)
    lines = "\n".join("  " + line.strip() for line in body.strip().splitlines())
    return f"{HEADER}{head}.visible .entry {name}({declared})\n{after}{{\n{lines}\n  ret;\n}}\n"


def pointers(count: int) -> list[str]:
    return [f".param .u64 p{k}" for k in range(count)]


def elementwise(
    name: str,
    body: str,
    inputs: Sequence[tuple[str, str] | tuple[str, str, Callable[[int], np.ndarray]]],
    outputs: Sequence[tuple[str, str]],
    *,
    count: int = 1024,
    registers: str = "",
    compact: bool = False,
) -> Case:
    """A kernel with one element a thread: loads %a, %b, ... of ``inputs`` (register name, type,
    maker of values), runs ``body``, stores %d, ... of ``outputs``."""
    if count % BLOCK:
        raise ValueError(f"{name}: {count} elements are no whole blocks")
    lines = [".reg .b32 %index, %block;", ".reg .b64 %address;"]
    lines += [f".reg .{holder(one[1])} %{one[0]};" for one in (*inputs, *outputs)]
    lines += registers.strip().splitlines()
    lines += [
        "mov.u32 %index, %tid.x;",
        "mov.u32 %block, %ctaid.x;",
        f"mad.lo.u32 %index, %block, {BLOCK}, %index;",
    ]
    for k, one in enumerate(inputs):
        width = width_of(one[1])
        lines += place(k, width // 8)
        lines.append(f"ld.global.{'u' if width == 8 else 'b'}{width} %{one[0]}, [%address];")
    lines += body.strip().splitlines()
    for k, (register, type_) in enumerate(outputs):
        width = width_of(type_)
        lines += place(len(inputs) + k, width // 8)
        lines.append(f"st.global.{'u' if width == 8 else 'b'}{width} [%address], %{register};")

    def make() -> list[Buffer]:
        buffers = []
        for k, one in enumerate(inputs):
            data = one[2](count) if len(one) == 3 else values(one[1], f"{k}/{one[1]}", count)
            buffers.append(Buffer(data, type_=one[1]))
        return buffers + [Buffer(zeros(count, t), True, t) for _, t in outputs]

    total = len(inputs) + len(outputs)
    text = kernel(pointers(total), "\n".join(lines))
    return Case(name, text, make, tuple(range(total)), (-(-count // BLOCK), 1, 1), compact=compact)


def place(parameter: int, size: int, index: str = "%index") -> list[str]:
    """Lines that leave the address of element ``index`` of a parameter's buffer in %address."""
    return [
        f"{{ .reg .b64 %base; ld.param.u64 %base, [p{parameter}];",
        f"mad.wide.u32 %address, {index}, {size}, %base; }}",
    ]
