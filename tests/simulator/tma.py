"""Tensor maps for tests: as the host would encode them over a numpy array."""

from __future__ import annotations

import numpy as np

from checkers.simulator.copies.tensormap import ELEMENTS, TensorMap, encode

BY_NAME = {element.name: element for element in ELEMENTS}
NAMES = {
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "int32": "s32",
    "uint64": "u64",
    "int64": "s64",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "bfloat16": "bf16",
}


def map_of(
    array: np.ndarray,
    box: tuple[int, ...],
    *,
    swizzle: str = "none",
    steps: tuple[int, ...] | None = None,
    fill_nan: bool = False,
    element: str = "",
    sizes: tuple[int, ...] | None = None,
) -> TensorMap:
    """The map of a whole array. box, steps, sizes: innermost first, as the driver takes them."""
    return TensorMap(
        address=array.ctypes.data,
        element=BY_NAME[element or NAMES[str(array.dtype)]],
        sizes=sizes or tuple(reversed(array.shape)),
        strides=tuple(reversed(array.strides[:-1])),
        box=box,
        steps=steps or (1,) * array.ndim,
        swizzle=swizzle,
        fill_nan=fill_nan,
    )


def map_bytes_of(array: np.ndarray, box: tuple[int, ...], **options) -> bytes:
    """The 128 bytes of map_of()."""
    return encode(map_of(array, box, **options))


def aligned(shape: tuple[int, ...], dtype: object, fill: str = "count") -> np.ndarray:
    """An array at a multiple of 128 bytes, holding 0, 1, 2, ... (or zeros)."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape))
    room = np.zeros(count * dtype.itemsize + 128, np.uint8)
    skip = -room.ctypes.data % 128
    array = room[skip : skip + count * dtype.itemsize].view(dtype).reshape(shape)
    if fill == "count":
        array[...] = (np.arange(count) % 60000).reshape(shape)
    return array
