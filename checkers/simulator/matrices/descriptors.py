"""Where a matrix lies in shared memory: swizzles and the matrix descriptors of wgmma and tcgen05.

PTX ISA 5.5.7 (swizzling modes), 9.7.15.5.1.2 (wgmma), 9.7.16.3 and 9.7.16.4.1 (tcgen05). All is in
*cells* of 16 bytes, the unit that no swizzle breaks up. The XOR of a swizzle is taken on the final
absolute shared address, not on the offset from the descriptor's start: kernels step along K inside
a swizzle atom by adding to the start address alone, and only this reading gives them their data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

CELL = 16  # bytes

# mode -> (lowest bit changed, number of bits, distance to the bits that are XORed in)
SWIZZLES = {
    "none": (4, 0, 3),
    "32B": (4, 1, 3),
    "64B": (4, 2, 3),
    "128B": (4, 3, 3),
    "128B-32B-atom": (5, 2, 2),
    "128B-64B-atom": (6, 1, 1),
}
# The bytes after which the pattern of a mode repeats; a start address aligned to it has phase 0.
PATTERN_BYTES = {
    "none": 16,
    "32B": 256,
    "64B": 512,
    "128B": 1024,
    "128B-32B-atom": 512,
    "128B-64B-atom": 256,
}
# Cells along the contiguous dimension of a swizzle atom, and rows of the other one.
ATOM = {"none": (1, 8), "32B": (2, 8), "64B": (4, 8), "128B": (8, 8), "128B-32B-atom": (8, 4)}

# The unit of the matrix base offset. That the pattern is XORed in from (address - offset) is what an
# H200 does; the manual only says which value to give.
PHASE_BYTES = 128

_OFFSET = "its matrix base offset is {}: here a tile has to start where its pattern starts"

WGMMA_MODES = {0: "none", 1: "128B", 2: "64B", 3: "32B"}
TCGEN05_MODES = {0: "none", 1: "128B-32B-atom", 2: "128B", 4: "64B", 6: "32B"}


def swizzle(addresses: np.ndarray, mode: str, phase: int = 0) -> np.ndarray:
    """The byte addresses at which the bytes of ``addresses`` lie under a swizzling mode (5.5.7).

    addresses: any shape, an integer dtype, absolute shared addresses in bytes; the same shape and
    dtype comes back. mode: a key of SWIZZLES; KeyError otherwise. phase: bytes by which the pattern
    starts later than its own multiples. It is its own inverse.
    """
    base, bits, distance = SWIZZLES[mode]
    if bits == 0:
        return addresses
    addresses = np.asarray(addresses)
    mask = addresses.dtype.type(((1 << bits) - 1) << base)
    if phase:
        return addresses ^ ((addresses - addresses.dtype.type(phase)) >> distance & mask)
    return addresses ^ ((addresses >> addresses.dtype.type(distance)) & mask)


@dataclass(frozen=True)
class MatrixDescriptor:
    """A decoded shared-memory descriptor.

    start, leading, stride: bytes, modulo 2**18: the start address in the block's shared memory and
    the leading- and stride-dimension byte offsets.  mode: the swizzle, a key of ATOM.  malformed:
    what is wrong with the 64 bits themselves, a clause, or "".  phase: the matrix base offset in
    bytes, by which the pattern of the swizzle is shifted.
    """

    start: int
    leading: int
    stride: int
    mode: str
    malformed: str = ""
    phase: int = 0


def _field(bits: int, at: int) -> int:
    return (bits >> at & 0x3FFF) << 4


@lru_cache(maxsize=4096)
def wgmma_descriptor(bits: int) -> MatrixDescriptor:
    """Decodes a descriptor of wgmma (9.7.15.5.1.2.2)."""
    malformed = ""
    if bits >> 46 & 7:
        malformed = "bits 46 to 48 are set, as in a descriptor of tcgen05"
    start, leading, stride = (_field(bits, at) for at in (0, 16, 32))
    mode, phase = WGMMA_MODES[bits >> 62 & 3], (bits >> 49 & 7) * PHASE_BYTES
    return MatrixDescriptor(start, leading, stride, mode, malformed, phase)


@lru_cache(maxsize=4096)
def tcgen05_descriptor(bits: int) -> MatrixDescriptor:
    """Decodes a descriptor of tcgen05 (9.7.16.4.1)."""
    malformed, code = "", bits >> 61 & 7
    if code not in TCGEN05_MODES:
        malformed = f"{code} is no swizzling mode"
    elif bits >> 46 & 7 != 1:
        malformed = "bits 46 to 48 are not 0b001, as in a descriptor of wgmma"
    elif bits >> 49 & 7:
        malformed = _OFFSET.format(bits >> 49 & 7)
    elif bits >> 52 & 1:
        malformed = "its leading dimension is an absolute address, which only sm_103a knows"
    elif bits >> 53 & 0xFF:
        malformed = "bits 53 to 60 are not zero"
    mode = TCGEN05_MODES.get(code, "none")
    start, leading, stride = (_field(bits, at) for at in (0, 16, 32))
    return MatrixDescriptor(start, leading, stride, mode, malformed)


@dataclass(frozen=True, eq=False)
class Tile:
    """Where the cells of an operand are.

    cells: byte addresses in the block's shared memory, int64: (extent, depth bytes / 16) of a
    K-major operand, (depth, extent bytes / 16) of an MN-major one.  problem: a sentence about a
    descriptor that can't be right, or "".
    """

    cells: np.ndarray
    mn_major: bool
    problem: str

    def rows(self, data: np.ndarray) -> np.ndarray:
        """``data``, the 16 bytes of each cell in order, as (rows, row bytes): a row of a K-major
        operand is one m or n, of an MN-major one one k."""
        return data.reshape(len(self.cells), -1)


@lru_cache(maxsize=1024)
def locate(
    descriptor: MatrixDescriptor, extent: int, depth: int, element_bytes: int, mn_major: bool
) -> Tile:
    """The cells of an operand of ``extent`` (M or N) by ``depth`` (K) elements.

    The canonical layouts of 9.7.15.5.1.2.1.3 and 9.7.16.3.3, of which CuTe's comments on
    make_gmma_desc and make_umma_desc say the same.
    """
    width, height = ATOM[descriptor.mode]
    leading, stride = descriptor.leading, descriptor.stride
    if mn_major:
        row = np.arange(depth)[:, None]
        cell = np.arange(max(extent * element_bytes // CELL, 1))
        if descriptor.mode == "none":  # the two offsets change places
            leading, stride = stride, leading
        offset = (cell % width + row % height * width) * CELL
        offset = offset + cell // width * leading + row // height * stride
    else:
        row = np.arange(extent)[:, None]
        cell = np.arange(depth * element_bytes // CELL)
        offset = row % 8 * width * CELL + row // 8 * stride
        offset = offset + (cell * leading if descriptor.mode == "none" else cell * CELL)
    addresses = descriptor.start + offset.astype(np.int64)
    problem = _problem(descriptor, addresses, element_bytes, mn_major)
    return Tile(swizzle(addresses, descriptor.mode, descriptor.phase), mn_major, problem)


def _problem(
    descriptor: MatrixDescriptor, addresses: np.ndarray, element_bytes: int, mn_major: bool
) -> str:
    """What is wrong with an operand at ``addresses`` (before the XOR), a sentence, or ""."""
    mode = descriptor.mode
    pattern, span = PATTERN_BYTES[mode], ATOM[mode][0] * CELL
    if descriptor.malformed:
        return f"The descriptor is malformed: {descriptor.malformed}."
    if mode == "128B-32B-atom" and not (mn_major and element_bytes == 4):
        return (
            "A swizzle of 128 bytes with atoms of 32 is only for MN-major operands of 32-bit "
            "elements."
        )
    if mn_major and element_bytes == 4 and mode != "128B-32B-atom":
        return (
            "An MN-major operand of 32-bit elements needs the swizzle of 128 bytes with atoms of "
            f"32, not {mode}."
        )
    if mode != "none" and (descriptor.start - descriptor.phase) % pattern >= span:
        which = "which"
        if descriptor.phase:
            which = f"its matrix base offset is {descriptor.phase // PHASE_BYTES}: the difference"
        return (
            f"The tile starts at shared address {descriptor.start}, {which} is no multiple of "
            f"{pattern} bytes, where the pattern of the {mode} swizzle starts."
        )
    if len(np.unique(addresses)) < addresses.size:
        return (
            "The descriptor's strides put two parts of the tile at one address: its leading-dimension "
            f"offset is {descriptor.leading} bytes, its stride-dimension offset {descriptor.stride}."
        )
    return ""
