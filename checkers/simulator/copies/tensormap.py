"""The 128 bytes of a tensor map (TMA descriptor): their fields, and what a box of it touches.

NVIDIA keeps the format to itself; the fields here were read off cuTensorMapEncodeTiled on an H200
(driver 580.159, CUDA 13.0), one argument changed at a time, and CuTe DSL's host code writes the same.
Meaning and limits: PTX ISA 5.5.3 (tiled mode), 5.5.7 (swizzles), 5.5.8, and cuTensorMapEncodeTiled
in the CUDA driver API. Only tiled maps: the fields of im2col ones are not known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import ml_dtypes
import numpy as np

MAP_BYTES = 128
MAX_RANK = 5
SWIZZLES = ("none", "32B", "64B", "128B")
SPANS = {"none": 1 << 20, "32B": 32, "64B": 64, "128B": 128}  # widest inner box, in bytes
INTERLEAVES = ("none", "16B", "32B")


@dataclass(frozen=True)
class Element:
    """An element type of a map. code: in the descriptor, which is not the driver's enum."""

    name: str
    code: int
    dtype: np.dtype
    flush: bool = False
    is_float: bool = False

    @property
    def bytes(self) -> int:
        return self.dtype.itemsize


_FLOAT32 = np.dtype(np.float32)
ELEMENTS = (
    Element("u8", 0, np.dtype(np.uint8)),
    Element("u16", 1, np.dtype(np.uint16)),
    Element("u32", 2, np.dtype(np.uint32)),
    Element("s32", 3, np.dtype(np.int32)),
    Element("u64", 4, np.dtype(np.uint64)),
    Element("s64", 5, np.dtype(np.int64)),
    Element("f16", 6, np.dtype(np.float16), is_float=True),
    Element("f32", 7, _FLOAT32, is_float=True),
    Element("f32.ftz", 8, _FLOAT32, flush=True, is_float=True),
    Element("f64", 9, np.dtype(np.float64), is_float=True),
    Element("bf16", 10, np.dtype(ml_dtypes.bfloat16), is_float=True),
    Element("tf32", 11, _FLOAT32, is_float=True),
    Element("tf32.ftz", 12, _FLOAT32, flush=True, is_float=True),
)
_TF32_BIT = 1 << 16


@dataclass(frozen=True)
class TensorMap:
    """A decoded tiled map. Dimension 0 is the innermost.

    address: of element (0, ..., 0), bytes.  sizes: elements in each dimension.  strides: bytes from
    one element to the next in dimensions 1 to rank-1 (dimension 0 is contiguous).  box: extent of
    a box in elements, before ``steps`` (the traversal strides) thin it out.  fill_nan: what lies
    outside reads as NaN, not 0.  promotion: of L2, bytes.
    """

    address: int
    element: Element
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    swizzle: str = "none"
    interleave: str = "none"
    fill_nan: bool = False
    promotion: int = 0

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def counts(self) -> tuple[int, ...]:
        """Elements that a box holds in each dimension: ceil(box / step)."""
        return tuple(-(-b // s) for b, s in zip(self.box, self.steps, strict=True))

    @property
    def row_bytes(self) -> int:
        """Bytes of one innermost row of a box."""
        return self.counts[0] * self.element.bytes

    @property
    def box_bytes(self) -> int:
        """Bytes of a full box: what a load writes and tells its mbarrier, at an edge too."""
        return int(np.prod(self.counts)) * self.element.bytes

    @property
    def last_byte(self) -> int:
        """The address of the last byte of the tensor."""
        steps = zip(self.sizes[1:], self.strides, strict=True)
        last = sum((size - 1) * stride for size, stride in steps)
        return self.address + last + self.sizes[0] * self.element.bytes - 1

    def faults(self) -> list[str]:
        """What the driver would refuse about this map, each a sentence; empty when it is sound."""
        wrong = []
        if self.address % 16:
            wrong.append(f"its address {self.address:#x} is no multiple of 16 bytes")
        for d, stride in enumerate(self.strides, 1):
            if stride % 16 or not 0 <= stride < 1 << 40:
                wrong.append(f"the stride of dimension {d}, {stride} bytes, is no multiple of 16")
        if self.row_bytes % 16:
            wrong.append(f"a row of its box has {self.row_bytes} bytes, no multiple of 16")
        if self.row_bytes > SPANS[self.swizzle]:
            wrong.append(
                f"a row of its box has {self.row_bytes} bytes, wider than the "
                f"{SPANS[self.swizzle]} of its {self.swizzle} swizzle"
            )
        wrong += [
            f"its box has {extent} elements in dimension {d}, more than 256"
            for d, extent in enumerate(self.box)
            if extent > 256
        ]
        return wrong


# --- decoding ------------------------------------------------------------------------------------


def _word(data: bytes | bytearray, at: int, size: int = 4) -> int:
    return int.from_bytes(data[at : at + size], "little")


@lru_cache(maxsize=1024)
def decode(data: bytes) -> TensorMap:
    """The map in 128 bytes. Raises ValueError saying which field makes no sense."""
    if len(data) != MAP_BYTES:
        raise ValueError(f"a tensor map has {MAP_BYTES} bytes, not {len(data)}")
    flags = _word(data, 8)
    rank = (flags >> 4 & 7) + 1
    if rank > MAX_RANK:
        raise ValueError(f"rank {rank} is beyond {MAX_RANK}: these bytes are no tensor map")
    interleave = flags >> 11 & 3
    if interleave == 3:
        raise ValueError("interleave code 3 does not exist: these bytes are no tensor map")
    high = _word(data, 28)
    strides = tuple(
        (_word(data, 12 + 4 * d) << 4) | ((high >> 4 * d & 0xF) << 36) for d in range(rank - 1)
    )
    steps = _word(data, 52, 2)
    return TensorMap(
        address=_word(data, 0, 8),
        element=_element(flags),
        sizes=tuple(_word(data, 32 + 4 * d) + 1 for d in range(rank)),
        strides=strides,
        box=tuple(data[55 + d] + 1 for d in range(rank)),
        steps=tuple((steps >> 3 * d & 7) + 1 for d in range(rank)),
        swizzle=SWIZZLES[flags >> 13 & 3],
        interleave=INTERLEAVES[interleave],
        fill_nan=bool(flags >> 15 & 1),
        promotion=(0, 64, 128, 256)[flags >> 17 & 3],
    )


def _element(flags: int) -> Element:
    code = flags >> 7 & 0xF
    if flags & _TF32_BIT:
        code = {7: 11, 8: 12}.get(code, -1)
    if not 0 <= code < len(ELEMENTS):
        raise ValueError(f"element type code {flags >> 7 & 0xF} is not known")
    return ELEMENTS[code]


def encode(tensor_map: TensorMap) -> bytes:
    """The 128 bytes of a map, as the driver writes them."""
    m = tensor_map
    data = bytearray(MAP_BYTES)

    def put(at: int, size: int, value: int) -> None:
        data[at : at + size] = value.to_bytes(size, "little")

    code = {11: 7 | 1 << 9, 12: 8 | 1 << 9}.get(m.element.code, m.element.code)
    flags = (m.rank - 1) << 4 | code << 7 | INTERLEAVES.index(m.interleave) << 11
    flags |= SWIZZLES.index(m.swizzle) << 13 | m.fill_nan << 15
    flags |= {0: 0, 64: 1, 128: 2, 256: 3}[m.promotion] << 17
    put(0, 8, m.address)
    put(8, 4, flags)
    for d, stride in enumerate(m.strides):
        put(12 + 4 * d, 4, stride >> 4 & 0xFFFFFFFF)
    put(28, 4, sum((stride >> 36 & 0xF) << 4 * d for d, stride in enumerate(m.strides)))
    for d, size in enumerate(m.sizes):
        put(32 + 4 * d, 4, size - 1)
    put(52, 2, sum((step - 1) << 3 * d for d, step in enumerate(m.steps)))
    for d, extent in enumerate(m.box):
        put(55 + d, 1, extent - 1)
    # Rounded down where the steps don't divide the box, though the elements copied are rounded up.
    whole = [extent // step for extent, step in zip(m.box, m.steps, strict=True)]
    put(64, 4, int(np.prod(whole)) * m.element.bytes)
    put(72, 4, {"none": 0x10, "32B": 0x100, "64B": 0x200, "128B": 0x400}[m.swizzle])
    return bytes(data)


# --- replacing fields (tensormap.replace) ----------------------------------------------------------

FIELDS = {
    "global_address",
    "rank",
    "box_dim",
    "global_dim",
    "global_stride",
    "element_stride",
    "elemtype",
    "interleave_layout",
    "swizzle_mode",
    "fill_mode",
}


def replaced(data: bytes, field: str, value: int, ordinal: int = 0) -> bytes:
    """The 128 bytes with one field changed as tensormap.replace does (PTX ISA 9.7.9.28). Bytes 72 and
    73, which the driver makes from the swizzle, stay as they are: so it is on an H200.

    field: one of FIELDS.  value: for "rank" the rank less 1; for "global_stride" bytes, where ordinal 0 is
    the stride of dimension 1.  Raises ValueError for a value that the field can't have.
    """
    changed = bytearray(data)

    def check(least: int, most: int) -> None:
        if not least <= value <= most:
            raise ValueError(f"{value} is no value of {field}")

    def bits(at: int, size: int, low: int, count: int, new: int) -> None:
        mask = ((1 << count) - 1) << low
        word = _word(changed, at, size) & ~mask | new << low & mask
        changed[at : at + size] = word.to_bytes(size, "little")

    last = MAX_RANK - 1 if field == "global_stride" else MAX_RANK
    if not 0 <= ordinal < last:
        raise ValueError(f"{field} has no ordinal {ordinal}")
    match field:
        case "global_address":
            bits(0, 8, 0, 64, value)
        case "rank":
            check(0, MAX_RANK - 1)
            bits(8, 4, 4, 3, value)
        case "box_dim":
            check(1, 256)
            bits(55 + ordinal, 1, 0, 8, value - 1)
        case "global_dim":
            bits(32 + 4 * ordinal, 4, 0, 32, (value - 1) & 0xFFFFFFFF)
        case "global_stride":
            bits(12 + 4 * ordinal, 4, 0, 32, value >> 4)
            bits(28, 4, 4 * ordinal, 4, value >> 36)
        case "element_stride":
            check(1, 8)
            bits(52, 2, 3 * ordinal, 3, value - 1)
        case "elemtype":
            check(0, len(ELEMENTS) - 1)
            bits(8, 4, 7, 4, value if value < 11 else value - 4)
            bits(8, 4, 16, 1, value >= 11)
        case "interleave_layout":
            check(0, 2)
            bits(8, 4, 11, 2, value)
        case "swizzle_mode":
            check(0, 3)
            bits(8, 4, 13, 2, value)
        case "fill_mode":
            check(0, 1)
            bits(8, 4, 15, 1, value)
        case _:
            raise ValueError(f"a tensor map has no field {field!r}")
    return bytes(changed)
