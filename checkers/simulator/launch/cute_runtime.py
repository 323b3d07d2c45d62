"""What compiled CuTe DSL host code calls, answered in Python: the simulated libcute_dsl_runtime.

The host code that CuTe DSL compiles runs as it is: it builds TMA descriptors, computes the grid and
fills a cudaLaunchConfig_t. For everything else it calls about ten C functions, by name, of
libcute_dsl_runtime, which pass the call on to CUDA. The names are those of the CUDA runtime with an
underscore in front, and so are the arguments.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from ctypes import POINTER, Structure, c_char, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import dataclass, field
from typing import Any, ClassVar

from checkers.simulator.launch import parameters
from checkers.simulator.launch.catcher import Catcher, NotStoodFor, keep
from checkers.simulator.launch.cuda_answers import attribute_of, blocks_per_sm
from checkers.simulator.launch.naming import source_name
from checkers.simulator.launch.records import Dim3, Launch

SUCCESS, LAUNCH_FAILURE = 0, 719  # cudaError_t
CLUSTER_DIMENSION = 4  # cudaLaunchAttributeID
ATTRIBUTES = {
    2: "cooperative",
    5: "cluster_scheduling_policy",
    6: "programmatic_stream_serialization",
    8: "priority",
    14: "preferred_shared_memory_carveout",
}


class LaunchAttribute(Structure):
    """cudaLaunchAttribute: an id, padding, and a union of 64 bytes."""

    _fields_ = (("id", c_uint), ("_pad", c_char * 4), ("value", c_uint * 16))


class LaunchConfig(Structure):
    """cudaLaunchConfig_t."""

    _fields_ = (
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("dynamic_shared", c_size_t),
        ("stream", c_void_p),
        ("attributes", POINTER(LaunchAttribute)),
        ("count", c_uint),
    )


def unpacked(packed: int) -> Any:
    """A C function with the signature of TVM FFI's (TVMFFISafeCallType), from an engine's wrapper
    of one, which takes an array of pointers to the arguments and to the result."""
    call_packed = ctypes.CFUNCTYPE(None, c_void_p)(packed)

    def call(handle: int | None, arguments: int, count: int, result: int) -> int:
        status = c_int(-1)
        values = (c_void_p(handle), c_void_p(arguments), c_int(count), c_void_p(result), status)
        pointers = (c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        call_packed(pointers)
        return status.value

    return ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_void_p)(call)


@dataclass(eq=False)
class Kernel:
    """What a cudaKernel_t stands for: ``ptx`` is the whole module."""

    ptx: str
    name: str
    handles: ClassVar[itertools.count[int]] = itertools.count(0x10000, 16)
    handle: int = field(default_factory=lambda: next(Kernel.handles))


class Runtime:
    """The runtime of one execution engine. modules: the PTX of its device code.

    Its callbacks must live as long as the engine.
    """

    def __init__(self, modules: list[str]) -> None:
        self.modules = modules
        self.kernels: dict[int, Kernel] = {}
        self.callbacks = {name: self._callback(name, *form) for name, form in FORMS.items()}
        for name in REFUSED:
            self.callbacks[name] = self._callback(name, _refuse(name))

    def register(self, engine: Any) -> None:
        """Defines the functions in an engine, before its code is first looked up."""
        for name, callback in self.callbacks.items():
            engine.raw_register_runtime(name, ctypes.cast(callback, c_void_p))

    def _callback(self, name: str, answer: Callable[..., Any], *types: Any) -> Any:
        def guarded(*args: Any) -> int:
            try:
                answer(self, *args)
            except BaseException as error:  # C code has no exceptions: raised once it returned
                keep(error)
                return LAUNCH_FAILURE
            return SUCCESS

        guarded.__name__ = name
        return ctypes.CFUNCTYPE(c_int, *types)(guarded)

    # --- libraries and kernels

    def load(self, library: Any, code: int, *_: Any) -> None:
        library[0] = next(Kernel.handles)

    def get_kernel(self, kernel: Any, library: int, name: bytes) -> None:
        found = Kernel(parameters.module_with(self.modules, name.decode()), name.decode())
        self.kernels[found.handle] = found
        kernel[0] = found.handle

    def kernel_attribute(self, value: Any, attribute: int, kernel: int, device: int) -> None:
        value[0] = 0  # asked: static shared memory, to learn how much dynamic there can be

    def load_once(self, state: Any, init: int, load: int, *_: Any) -> None:
        """As TVM FFI's functions load their code, at each call: ``state`` is the library."""
        if state[0]:
            return
        library = c_void_p()
        ctypes.CFUNCTYPE(c_int, c_void_p)(init)(ctypes.byref(library))
        ctypes.CFUNCTYPE(c_int, c_void_p, c_int)(load)(ctypes.byref(library), 0)
        state[0] = library.value

    def nothing(self, *_: Any) -> None:
        """What only matters on a GPU: limits that are raised, streams that are waited for."""

    # --- devices

    def device_attribute(self, value: Any, attribute: int, device: int) -> None:
        value[0] = attribute_of(Catcher.active().gpu, attribute)

    def zero(self, value: Any, *_: Any) -> None:
        value[0] = 0

    def one(self, value: Any, *_: Any) -> None:
        value[0] = 1

    def handle(self, value: Any, *_: Any) -> None:
        value[0] = next(Kernel.handles)

    def occupancy(self, blocks: Any, kernel: int, threads: int, dynamic_shared: int) -> None:
        blocks[0] = blocks_per_sm(Catcher.active().gpu, threads, dynamic_shared)

    # --- memory: "device" memory is the host's

    def memset(self, address: int, value: int, count: int, *_: Any) -> None:
        ctypes.memset(address, value, count)

    def memcpy(self, to: int, source: int, count: int, *_: Any) -> None:
        ctypes.memmove(to, source, count)

    # --- launches

    def launch_config(self, config: Any, kernel: int, pointers: int) -> None:
        c = config.contents
        values = {c.attributes[i].id: c.attributes[i].value for i in range(c.count)}
        cluster = values.pop(CLUSTER_DIMENSION, None)
        names = {ATTRIBUTES.get(key, f"attribute_{key}"): value[0] for key, value in values.items()}
        self.launch(
            kernel,
            tuple(c.grid),
            tuple(c.block),
            tuple(cluster[:3]) if cluster else None,
            c.dynamic_shared,
            pointers,
            names,
        )

    def launch_plain(self, kernel: int, *sizes: int) -> None:
        *dims, pointers, shared, _stream = sizes
        self.launch(kernel, tuple(dims[:3]), tuple(dims[3:]), None, shared, pointers, {})

    def launch(
        self,
        handle: int,
        grid: Dim3,
        block: Dim3,
        cluster: Dim3 | None,
        shared: int,
        pointers: int,
        attributes: dict[str, Any],
    ) -> None:
        """Builds the record of a launch and hands it to the active catcher."""
        catcher = Catcher.active()
        kernel = self.kernels[handle]
        ptx = kernel.ptx
        data = parameters.read(ptx, kernel.name, pointers)
        catcher.deliver(
            Launch(
                ptx=ptx,
                kernel=kernel.name,
                grid=grid,
                block=block,
                cluster=cluster or parameters.header(ptx, kernel.name).cluster or (1, 1, 1),
                dynamic_shared=shared,
                parameters=data,
                tensors=catcher.seen.tensors(data),
                arch=parameters.target(ptx),
                attributes=attributes
                | {"source_name": source_name(ptx, kernel.name), "compiler": "cute"},
            )
        )


def _refuse(name: str) -> Callable[..., None]:
    def refuse(runtime: Runtime, *_: Any) -> None:
        raise NotStoodFor(f"host code asks for {name[1:]}, which the simulator does not stand for")

    return refuse


_INT, _HANDLE = POINTER(c_int), POINTER(c_void_p)
R = Runtime
# Each function: what answers, then the types of its arguments.
FORMS: dict[str, tuple[Any, ...]] = {
    "_cudaLibraryLoadData": (
        R.load, POINTER(c_uint64), c_void_p, c_void_p, c_void_p, c_int, c_void_p, c_void_p, c_int,
    ),
    "_cudaLibraryGetKernel": (R.get_kernel, POINTER(c_uint64), c_void_p, c_char_p),
    "_cudaLibraryUnload": (R.nothing, c_void_p),
    "cuda_dialect_init_library_once": (
        R.load_once, POINTER(c_uint64), c_void_p, c_void_p, c_void_p,
    ),
    "cuda_dialect_unload_library_once": (R.nothing, c_void_p),
    "_cudaKernelSetAttributeForDevice": (R.nothing, c_void_p, c_int, c_int, c_int),
    "_cudaFuncSetAttribute": (R.nothing, c_void_p, c_int, c_int),
    "_cuKernelGetAttribute": (R.kernel_attribute, _INT, c_int, c_void_p, c_int),
    "_cudaOccupancyMaxActiveBlocksPerMultiprocessor": (R.occupancy, _INT, c_void_p, c_int, c_size_t),
    "_cudaDeviceGetAttribute": (R.device_attribute, _INT, c_int, c_int),
    "_cudaGetDevice": (R.zero, _INT),
    "_cuDeviceGet": (R.zero, _INT, c_int),
    "_cudaGetDeviceCount": (R.one, _INT),
    "_cudaSetDevice": (R.nothing, c_int),
    "_cudaDeviceSynchronize": (R.nothing,),
    "_cudaStreamCreate": (R.handle, POINTER(c_uint64)),
    "_cudaStreamDestroy": (R.nothing, c_void_p),
    "_cudaStreamSynchronize": (R.nothing, c_void_p),
    "_cudaStreamWaitEvent": (R.nothing, c_void_p, c_void_p, c_uint),
    "_cudaEventCreate": (R.handle, POINTER(c_uint64)),
    "_cudaEventDestroy": (R.nothing, c_void_p),
    "_cudaEventRecord": (R.nothing, c_void_p, c_void_p),
    "_cudaProfilerStart": (R.nothing,),
    "_cudaProfilerStop": (R.nothing,),
    "_cudaMemset": (R.memset, c_void_p, c_int, c_size_t),
    "_cudaMemsetAsync": (R.memset, c_void_p, c_int, c_size_t, c_void_p),
    "_cudaMemcpy": (R.memcpy, c_void_p, c_void_p, c_size_t, c_int),
    "_cudaMemcpyAsync": (R.memcpy, c_void_p, c_void_p, c_size_t, c_int, c_void_p),
    "_cudaLaunchKernelEx": (R.launch_config, POINTER(LaunchConfig), c_uint64, c_uint64),
    "_cudaLaunchKernel": (
        R.launch_plain, c_uint64, *([c_uint] * 6), c_uint64, c_size_t, c_void_p,
    ),
}  # fmt: skip
# Exported by the library as well; no launch of a kernel needs them.
REFUSED = (
    *("_cuLibraryGetGlobal", "_cuLibraryGetKernel", "_cuLibraryGetKernelCount"),
    *("_cuLibraryGetManaged", "_cuLibraryGetModule", "_cuLibraryGetUnifiedFunction"),
    *("_cuLibraryLoadData", "_cuLibraryLoadFromFile", "_cuLibraryUnload"),
    *("_cuTensorMapEncodeTiled", "_cudaEventElapsedTime", "_cudaFree", "_cudaFreeAsync"),
    *("_cudaFreeHost", "_cudaGetDeviceProperties", "_cudaGraphDestroy", "_cudaGraphExecDestroy"),
    *("_cudaGraphInstantiate", "_cudaGraphLaunch", "_cudaLibraryGetGlobal"),
    *("_cudaLibraryGetKernelCount", "_cudaLibraryGetManaged", "_cudaLibraryGetUnifiedFunction"),
    *("_cudaLibraryLoadFromFile", "_cudaMalloc", "_cudaMallocAsync", "_cudaMallocHost"),
    *("_cudaMallocManaged", "_cudaStreamAddCallback", "_cudaStreamBeginCapture"),
    "_cudaStreamEndCapture",
)
