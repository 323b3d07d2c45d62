"""The parameters of a Triton kernel, from the arguments of a launch, as its C launcher packs them.

Constexprs are dropped and tuples flattened. A host-side tensor descriptor becomes a TMA descriptor,
its shape and its strides; or, where the kernel does without TMA, its pointer and its fields. Two
scratch pointers come last.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

from checkers.simulator.copies.tensormap import ELEMENTS, SWIZZLES, TensorMap, encode
from checkers.simulator.launch.catcher import LaunchError, NotStoodFor

TF32 = 11  # device code of the element type that rounds float32
PROMOTION = 128  # of L2, bytes: what Triton asks for
FLOATS = {"fp16": "<e", "fp32": "<f", "f32": "<f", "fp64": "<d"}


def packed(
    signature: Iterable[Any], arguments: Iterable[Any], descriptors: Any, sizes: tuple[int, ...]
) -> list[bytes]:
    """The bytes of each parameter.

    signature: a type for each argument, nested as they are.  descriptors: what Triton noted about
    each tensor descriptor, in order, or None.  sizes: of the parameters that the PTX declares,
    scratch pointers included (they are left 0 here).  Raises LaunchError if the numbers differ.
    """
    notes = iter(descriptors or [])
    values = list(_flat(tuple(signature), tuple(arguments), notes))
    values += [("*i8", 0)] * 2
    if len(values) != len(sizes):
        raise LaunchError(
            f"the kernel has {len(sizes)} parameters and the launch gives {len(values)}"
        )
    return [_bytes(type_, value, size) for (type_, value), size in zip(values, sizes, strict=True)]


def _flat(types: tuple, values: tuple, notes: Iterator[Any]) -> Iterator[tuple[str, Any]]:
    for type_, value in zip(types, values, strict=True):
        if isinstance(type_, tuple):
            yield from _flat(type_, tuple(value), notes)
        elif type_ == "constexpr":
            continue
        elif type_.startswith("tensordesc"):
            yield from _descriptor(type_, value, next(notes, None))
        else:
            yield type_, value


def _descriptor(type_: str, value: Any, note: dict[str, Any] | None) -> Iterator[tuple[str, Any]]:
    if note is None:
        yield "*i8", value.base
        yield from (("i64", n) for n in (*value.shape, *value.strides))
        yield "i1", value.padding == "nan"
        if hasattr(value, "round_f32_to_tf32"):
            yield "i1", value.round_f32_to_tf32
    else:
        yield "nvTmaDesc", _tensor_map(value, note)
    yield from (("i32", n) for n in value.shape)
    yield from (("i64", n) for n in value.strides)


def _tensor_map(value: Any, note: dict[str, Any]) -> bytes:
    """The 128 bytes that the driver would have written for a TensorDescriptor."""
    if note["fp4_padded"] or note.get("is_im2col"):
        raise NotStoodFor("descriptors of padded fp4 and im2col tensors are not supported")
    code = TF32 if getattr(value, "round_f32_to_tf32", False) else note["elem_type"]
    shape, strides, box = (
        [int(n) for n in reversed(sizes)]
        for sizes in (value.shape, value.strides, note["block_size"])
    )
    tensor_map = TensorMap(
        address=value.base.data_ptr(),
        element=ELEMENTS[code],
        sizes=tuple(shape),
        strides=tuple(stride * note["elem_size"] for stride in strides[1:]),
        box=tuple(box),
        steps=(1,) * len(box),
        swizzle=SWIZZLES[note["swizzle"]],
        fill_nan=value.padding == "nan",
        promotion=PROMOTION,
    )
    wrong = tensor_map.faults()
    if wrong:
        raise LaunchError(f"the driver would refuse this tensor descriptor: {'; '.join(wrong)}")
    return encode(tensor_map)


def _bytes(type_: str, value: Any, size: int) -> bytes:
    if type_ == "nvTmaDesc":
        return value if isinstance(value, bytes) else bytes(value)
    if type_.startswith("*"):
        return _address(value).to_bytes(size, "little")
    if type_ in FLOATS:
        return struct.pack(FLOATS[type_], value)
    if type_ == "bf16":
        import ml_dtypes
        import numpy as np

        return np.asarray(value, ml_dtypes.bfloat16).tobytes()
    return (int(value) % (1 << 8 * size)).to_bytes(size, "little")


def _address(value: Any) -> int:
    if value is None:
        return 0
    return value if isinstance(value, int) else value.data_ptr()
