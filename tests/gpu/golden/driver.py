"""The part of the CUDA driver API that loads a PTX text and runs a kernel, by ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.simulator.golden.case import KERNEL, Case, TensorMap

TYPES = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16")
TYPES += ("f32ftz", "tf32", "tf32ftz")  # in the order of CUtensorMapDataType

ATTRIBUTE_CLUSTER_DIMENSION = 4
FUNCTION_MAX_DYNAMIC_SHARED = 8
JIT_INFO_BUFFER, JIT_INFO_SIZE, JIT_ERROR_BUFFER, JIT_ERROR_SIZE = 3, 4, 5, 6


class CudaError(RuntimeError):
    """A call of the driver failed."""


class Attribute(ctypes.Structure):
    """CUlaunchAttribute: the id, padding, 64 bytes of value."""

    _fields_ = (("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16))


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint),
    )


class Driver:
    """One context on device 0."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.device = device

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.library.cuGetErrorString(code, ctypes.byref(text))
            raise CudaError(f"{name}: error {code}, {(text.value or b'').decode()}")

    def describe(self) -> dict[str, Any]:
        """GPU name, capability, and the CUDA version that the driver supports."""
        name = ctypes.create_string_buffer(128)
        self.call("cuDeviceGetName", name, 128, self.device)
        version = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        cuda = f"{version.value // 1000}.{version.value % 1000 // 10}"
        return {"gpu": name.value.decode(), "cuda": cuda}

    def load(self, ptx: str) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
        """(module, kernel). Raises CudaError with the compiler's log."""
        size = 16384
        log = ctypes.create_string_buffer(size)
        options = (ctypes.c_int * 2)(JIT_ERROR_BUFFER, JIT_ERROR_SIZE)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), size)
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        try:
            text = ctypes.c_char_p(ptx.encode())
            self.call("cuModuleLoadDataEx", ctypes.byref(module), text, 2, options, values)
        except CudaError as error:
            raise CudaError(f"{error}\n{log.value.decode(errors='replace')}") from None
        self.call("cuModuleGetFunction", ctypes.byref(function), module, KERNEL.encode())
        return module, function

    def allocate(self, data: np.ndarray) -> ctypes.c_uint64:
        """A copy of ``data`` on the device; at least 256-byte aligned."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(data.nbytes, 16)))
        raw = np.ascontiguousarray(data)
        pointer = ctypes.c_void_p(raw.ctypes.data)
        self.call("cuMemcpyHtoD_v2", address, pointer, ctypes.c_size_t(raw.nbytes))
        return address

    def encode(self, map_: TensorMap, base: int) -> bytes:
        """The 128 bytes of a tensor map."""
        rank = len(map_.dims)
        room = ctypes.create_string_buffer(192)
        start = -ctypes.addressof(room) % 64
        self.call(
            "cuTensorMapEncodeTiled",
            ctypes.c_void_p(ctypes.addressof(room) + start),
            TYPES.index(map_.type_),
            rank,
            ctypes.c_void_p(base + map_.offset),
            (ctypes.c_uint64 * 5)(*map_.dims),
            (ctypes.c_uint64 * 5)(*map_.strides),
            (ctypes.c_uint32 * 5)(*map_.box),
            (ctypes.c_uint32 * 5)(*(map_.element_strides or (1,) * rank)),
            0,
            map_.swizzle,
            0,
            int(map_.nan_fill),
        )
        return room.raw[start : start + 128]

    def run(self, case: Case, data: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Runs the kernel once over copies of ``data`` and returns all buffers afterwards."""
        module, function = self.load(case.ptx)
        addresses = [self.allocate(one) for one in data]
        held, pointers = [], []
        for parameter in case.parameters:
            if isinstance(parameter, int):
                raw = bytes(addresses[parameter])
            elif isinstance(parameter, TensorMap):
                raw = self.encode(parameter, addresses[parameter.buffer].value)
            else:
                raw = parameter
            room = ctypes.create_string_buffer(len(raw) + 64)
            start = ctypes.addressof(room) + -ctypes.addressof(room) % 64
            ctypes.memmove(start, raw, len(raw))
            held.append(room)
            pointers.append(start)
        if case.shared > 48 * 1024:
            self.call("cuFuncSetAttribute", function, FUNCTION_MAX_DYNAMIC_SHARED, case.shared)
        attribute = Attribute(id=ATTRIBUTE_CLUSTER_DIMENSION)
        attribute.value[:3] = case.cluster
        clustered = case.cluster != (1, 1, 1)
        config = LaunchConfig(
            (ctypes.c_uint * 3)(*case.grid),
            (ctypes.c_uint * 3)(*case.block),
            case.shared,
            None,
            ctypes.pointer(attribute),
            int(clustered),
        )
        arguments = (ctypes.c_void_p * len(pointers))(*pointers)
        self.call("cuLaunchKernelEx", ctypes.byref(config), function, arguments, None)
        self.call("cuCtxSynchronize")
        outputs = []
        for address, before in zip(addresses, data, strict=True):
            after = np.empty_like(np.ascontiguousarray(before))
            pointer = ctypes.c_void_p(after.ctypes.data)
            self.call("cuMemcpyDtoH_v2", pointer, address, ctypes.c_size_t(after.nbytes))
            self.call("cuMemFree_v2", address)
            outputs.append(after)
        self.call("cuModuleUnload", module)
        return outputs
