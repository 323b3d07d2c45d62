"""Runs a golden case on the simulator, and holds what it gives against a recording."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from checkers.simulator import Result, simulate
from checkers.simulator.copies import tensormap
from checkers.simulator.launch.records import Launch, Tensor

from .case import KERNEL, Buffer, Case, TensorMap
from .values import numpy_of

ALIGNMENT = 256  # of cuMemAlloc, which the recording used
ELEMENTS = {element.name: element for element in tensormap.ELEMENTS}
DTYPES = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}


def aligned(data: np.ndarray) -> np.ndarray:
    """A copy of ``data`` that is aligned as on the GPU."""
    room = np.zeros(data.nbytes + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    copy = room[start : start + data.nbytes].view(data.dtype)
    copy[:] = data
    return copy


def encoded(map_: TensorMap, address: int) -> bytes:
    """The 128 bytes of a tensor map over a buffer at ``address``."""
    name = map_.type_.removesuffix("ftz") + (".ftz" if map_.type_.endswith("ftz") else "")
    return tensormap.encode(
        tensormap.TensorMap(
            address=address + map_.offset,
            element=ELEMENTS[name],
            sizes=map_.dims,
            strides=map_.strides,
            box=map_.box,
            steps=map_.element_strides or (1,) * len(map_.dims),
            swizzle=tensormap.SWIZZLES[map_.swizzle],
            fill_nan=map_.nan_fill,
        )
    )


def run(
    case: Case, buffers: Sequence[Buffer], schedule: str = "latest"
) -> tuple[Result, list[np.ndarray]]:
    """(result, all buffers afterwards)."""
    arrays = [aligned(buffer.data) for buffer in buffers]
    parameters, tensors = [], []
    for parameter in case.parameters:
        if isinstance(parameter, int):
            parameters.append(arrays[parameter].ctypes.data.to_bytes(8, "little"))
        elif isinstance(parameter, TensorMap):
            parameters.append(encoded(parameter, arrays[parameter.buffer].ctypes.data))
        else:
            parameters.append(parameter)
    for k, array in enumerate(arrays):
        size = array.itemsize
        tensors.append(
            Tensor(
                name=f"p{k}",
                address=array.ctypes.data,
                shape=array.shape,
                strides=(1,),
                dtype=DTYPES[size],
                itemsize=size,
                nbytes=array.nbytes,
                owner=array,
            )
        )
    launch = Launch(
        ptx=case.ptx,
        kernel=KERNEL,
        grid=case.grid,
        block=case.block,
        cluster=case.cluster,
        dynamic_shared=case.shared,
        parameters=parameters,
        tensors=tensors,
        arch="sm_90a",
    )
    return simulate(launch, schedule=schedule), arrays


def mismatches(
    case: Case,
    buffers: Sequence[Buffer],
    recorded: Sequence[bytes],
    result: Result,
    after: Sequence[np.ndarray],
) -> list[str]:
    """What is not as on the GPU, a sentence each; faults count."""
    wrong = []
    for fault in result.faults:
        if fault.is_error and str(fault.kind) not in case.allowed:
            wrong.append(f"{fault.kind}: {fault.message}")
    kept = [k for k, buffer in enumerate(buffers) if buffer.keep]
    for k, expected in zip(kept, recorded, strict=True):
        buffer, got = buffers[k], after[k]
        base = numpy_of(buffer.type_.removesuffix("x2"))
        exact, here = np.frombuffer(expected, base), got.view(np.uint8).view(base)
        bad = np.flatnonzero(exact != here)
        if not len(bad):
            continue
        first, digits = int(bad[0]), base.itemsize * 2
        wrong.append(
            f"p{k}: {len(bad)} of {len(exact)} differ; [{first}] is {int(here[first]):#0{digits + 2}x}, "
            f"on the GPU {int(exact[first]):#0{digits + 2}x}{inputs(buffers, got, first, base)}"
        )
    return wrong


def inputs(buffers: Sequence[Buffer], got: np.ndarray, at: int, base: np.dtype) -> str:
    """The inputs at the same index, where they are as many as the outputs."""
    given = []
    for buffer in buffers:
        per = buffer.data.nbytes / max(got.nbytes // base.itemsize, 1)
        if not buffer.keep and per >= 1 and per == int(per) and buffer.data.itemsize <= 8:
            word = (
                buffer.data.view(np.uint8).view(np.dtype(f"u{int(per)}"))
                if per in (1, 2, 4, 8)
                else None
            )
            if word is not None:
                given.append(f"{int(word[at]):#x}")
    return f", from {', '.join(given)}" if given else ""
