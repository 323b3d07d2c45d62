"""Places matrices in shared memory as wgmma and tcgen05 want them, and writes the PTX around them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from checkers.simulator.matrices.descriptors import swizzle

BASE = 1024  # where dynamic shared memory of alignment 1024 begins
WIDTHS = {"none": 1, "32B": 2, "64B": 4, "128B": 8, "128B-32B-atom": 8}  # cells of 16 bytes
WGMMA_CODES = {"none": 0, "128B": 1, "64B": 2, "32B": 3}
TCGEN05_CODES = {"none": 0, "128B-32B-atom": 1, "128B": 2, "64B": 4, "32B": 6}

SHARED = ".extern .shared .align 1024 .b8 smem[];"


@dataclass
class Placed:
    """A matrix (extent, K) as bytes of shared memory from ``start`` on, and how to describe it.

    codes: unsigned integers of one element each.  mode: the swizzle.  mn_major: K is the slow
    dimension.
    """

    codes: np.ndarray
    mode: str
    mn_major: bool
    start: int

    def __post_init__(self) -> None:
        rows = self.codes.T if self.mn_major else self.codes
        data = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1, 16)
        self.lines = len(rows)
        width = WIDTHS[self.mode]
        row = np.arange(self.lines)[:, None]
        cell = np.arange(data.shape[1])
        offset = cell // width * self.lines * width * 16 + row * width * 16 + cell % width * 16
        size = self.lines * -(-data.shape[1] // width) * width * 16
        self.bytes = -(-size // 1024) * 1024
        image = np.zeros((self.bytes // 16, 16), np.uint8)
        image[(swizzle(self.start + offset, self.mode) - self.start) // 16] = data
        self.image = image.ravel()

    def descriptor(self, k: int, blackwell: bool = False, swap: bool = False) -> int:
        """Of the part that begins at element ``k`` of K."""
        width, size = WIDTHS[self.mode], self.codes.itemsize
        column = self.lines * width * 16  # bytes from one column of atoms to the next
        height = 4 if self.mode == "128B-32B-atom" else 8
        group = height * width * 16
        if self.mn_major:
            start = self.start + k * width * 16
            leading, stride = (group, column) if self.mode == "none" else (column, group)
        else:
            cell = k * size // 16
            start = self.start + cell // width * column + cell % width * 16
            leading, stride = column, group
        fields = start >> 4 | leading >> 4 << 16 | stride >> 4 << 32
        if blackwell:
            return fields | 1 << 46 | TCGEN05_CODES[self.mode] << 61
        return fields | WGMMA_CODES[self.mode] << 62


def fill_shared(count: int, threads: int, source: str = "image") -> str:
    """PTX: the block's threads copy ``count`` bytes of %{source}, the block's own part, to shared
    memory. Clobbers %r90 to %r99, %rd60, %rd61."""
    assert count % (threads * 16) == 0
    lines = [
        "mov.u32 %r90, %tid.x; shl.b32 %r91, %r90, 4; mov.u32 %r92, smem; add.u32 %r92, %r92, %r91;",
        f"mov.u32 %r93, %ctaid.x; mad.lo.u32 %r93, %r93, {count}, %r91;",
        f"cvt.u64.u32 %rd60, %r93; add.u64 %rd60, %{source}, %rd60;",
    ]
    for i in range(count // (threads * 16)):
        at = i * threads * 16
        lines.append(f"ld.global.v4.b32 {{%r94, %r95, %r96, %r97}}, [%rd60+{at}];")
        lines.append(f"st.shared.v4.b32 [%r92+{at}], {{%r94, %r95, %r96, %r97}};")
    return "\n".join(lines)


def padded_image(tiles: list[Placed], threads: int) -> np.ndarray:
    """The images of tiles that lie one after another from BASE, padded for fill_shared()."""
    data = np.concatenate([tile.image for tile in tiles])
    size = -(-data.size // (threads * 16)) * threads * 16
    return np.concatenate([data, np.zeros(size - data.size, np.uint8)])


def registers(prefix: str, count: int) -> str:
    """ "{%d0, %d1, ...}" """
    return "{" + ", ".join(f"%{prefix}{i}" for i in range(count)) + "}"
