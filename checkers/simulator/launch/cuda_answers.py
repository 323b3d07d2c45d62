"""What cuda.bindings says inside: the driver's and the runtime's answers about the simulated GPU.

Host code asks for attributes, for occupancy, for a context that it never uses. Whatever else it
asks of CUDA fails as it does on a machine with no driver.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from checkers.simulator.launch.catcher import NotStoodFor
from checkers.simulator.reports.gpus import GPU

DRIVER_VERSION = 13000  # CUDA 13.0

# CUdevice_attribute and cudaDeviceAttr have the same numbers.
ATTRIBUTES: dict[int, Callable[[GPU], int]] = {
    1: lambda gpu: gpu.threads_per_block,
    2: lambda gpu: 1024,  # block x, y, z
    3: lambda gpu: 1024,
    4: lambda gpu: 64,
    5: lambda gpu: 2**31 - 1,  # grid x, y, z
    6: lambda gpu: 65535,
    7: lambda gpu: 65535,
    8: lambda gpu: 48 * 1024,  # shared memory without opt-in
    10: lambda gpu: 32,
    12: lambda gpu: gpu.registers_per_sm,
    13: lambda gpu: int(gpu.clock_ghz * 1e6),
    16: lambda gpu: gpu.sms,
    38: lambda gpu: gpu.l2_bytes,
    39: lambda gpu: gpu.threads_per_sm,
    41: lambda gpu: 1,  # unified addressing
    75: lambda gpu: gpu.capability[0],
    76: lambda gpu: gpu.capability[1],
    81: lambda gpu: gpu.shared_per_sm,
    82: lambda gpu: gpu.registers_per_sm,
    95: lambda gpu: 1,  # cooperative launch
    97: lambda gpu: gpu.shared_per_block,
    106: lambda gpu: gpu.blocks_per_sm,
    111: lambda gpu: gpu.shared_reserved,
    115: lambda gpu: 1,  # memory pools
    120: lambda gpu: 1,  # clusters
    127: lambda gpu: 1,  # tensor maps
    132: lambda gpu: 1,  # multicast
}


def attribute_of(gpu: GPU, number: int) -> int:
    """A device attribute. Raises NotStoodFor naming one that is not known here."""
    if int(number) not in ATTRIBUTES:
        raise NotStoodFor(f"host code asks for device attribute {number}, which is not known here")
    return ATTRIBUTES[int(number)](gpu)


def active_clusters(gpu: GPU, cluster: int) -> int:
    """Clusters that run at a time with one block on an SM, if clusters could lie anywhere.

    A cluster lies in one GPC, so a real GPU has room for fewer large ones: how many depends on
    which SMs of the chip are switched off.
    """
    return max(1, gpu.sms // max(cluster, 1))


class Driver:
    """The functions of cuda.bindings.driver, each a method that gives (status, values...)."""

    def __init__(self, gpu: GPU) -> None:
        from cuda.bindings import driver

        self.gpu = gpu
        self.driver = driver
        self.ok = driver.CUresult.CUDA_SUCCESS
        self.handles = itertools.count(0x1000, 16)

    def cuInit(self, flags: int) -> tuple[Any, ...]:
        return (self.ok,)

    def cuDriverGetVersion(self) -> tuple[Any, ...]:
        return (self.ok, DRIVER_VERSION)

    def cuDeviceGetCount(self) -> tuple[Any, ...]:
        return (self.ok, 1)

    def cuDeviceGet(self, ordinal: int) -> tuple[Any, ...]:
        return (self.ok, self.driver.CUdevice(ordinal))

    def cuDeviceGetName(self, length: int, device: Any) -> tuple[Any, ...]:
        return (self.ok, self.gpu.title.encode().ljust(length, b"\0"))

    def cuDeviceTotalMem(self, device: Any) -> tuple[Any, ...]:
        return (self.ok, self.gpu.hbm_bytes)

    def cuDeviceGetAttribute(self, attribute: Any, device: Any) -> tuple[Any, ...]:
        return (self.ok, attribute_of(self.gpu, attribute))

    def cuCtxGetCurrent(self) -> tuple[Any, ...]:
        return (self.ok, self.driver.CUcontext(0))

    def cuCtxGetDevice(self, *_: Any) -> tuple[Any, ...]:
        return (self.ok, self.driver.CUdevice(0))

    def cuCtxSynchronize(self, *_: Any) -> tuple[Any, ...]:
        return (self.ok,)

    def cuStreamSynchronize(self, stream: Any) -> tuple[Any, ...]:
        return (self.ok,)

    def cuLibraryLoadData(self, *_: Any) -> tuple[Any, ...]:
        return (self.ok, self.driver.CUlibrary(next(self.handles)))

    def cuLibraryEnumerateKernels(self, count: int, library: Any) -> tuple[Any, ...]:
        return (self.ok, [self.driver.CUkernel(next(self.handles)) for _ in range(count)])

    def cuKernelGetFunction(self, kernel: Any) -> tuple[Any, ...]:
        return (self.ok, self.driver.CUfunction(int(kernel)))

    def cuLibraryUnload(self, library: Any) -> tuple[Any, ...]:
        return (self.ok,)

    def cuFuncSetAttribute(self, *_: Any) -> tuple[Any, ...]:
        return (self.ok,)

    def cuOccupancyAvailableDynamicSMemPerBlock(
        self, function: Any, blocks: int, threads: int
    ) -> tuple[Any, ...]:
        each = self.gpu.shared_per_sm // blocks - self.gpu.shared_reserved
        return (self.ok, min(each, self.gpu.shared_per_block))

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(
        self, function: Any, threads: int, dynamic_shared: int
    ) -> tuple[Any, ...]:
        return (self.ok, blocks_per_sm(self.gpu, threads, dynamic_shared))

    def cuOccupancyMaxActiveClusters(self, function: Any, config: Any) -> tuple[Any, ...]:
        sizes = [
            a.value.clusterDim
            for a in config.attrs
            if a.id == self.driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        ]
        size = sizes[0].x * sizes[0].y * sizes[0].z if sizes else 1
        return (self.ok, active_clusters(self.gpu, size))


class Runtime:
    """The functions of cuda.bindings.runtime."""

    def __init__(self, gpu: GPU) -> None:
        from cuda.bindings import runtime

        self.gpu = gpu
        self.ok = runtime.cudaError_t.cudaSuccess

    def cudaGetDeviceCount(self) -> tuple[Any, ...]:
        return (self.ok, 1)

    def cudaGetDevice(self) -> tuple[Any, ...]:
        return (self.ok, 0)

    def cudaSetDevice(self, device: int) -> tuple[Any, ...]:
        return (self.ok,)

    def cudaDeviceGetAttribute(self, attribute: Any, device: int) -> tuple[Any, ...]:
        return (self.ok, attribute_of(self.gpu, attribute))

    def cudaDeviceSynchronize(self) -> tuple[Any, ...]:
        return (self.ok,)

    def cudaStreamSynchronize(self, stream: Any) -> tuple[Any, ...]:
        return (self.ok,)

    def cudaDriverGetVersion(self) -> tuple[Any, ...]:
        return (self.ok, DRIVER_VERSION)

    def cudaRuntimeGetVersion(self) -> tuple[Any, ...]:
        return (self.ok, DRIVER_VERSION)

    def cudaLibraryUnload(self, library: Any) -> tuple[Any, ...]:
        return (self.ok,)


def blocks_per_sm(gpu: GPU, threads: int, dynamic_shared: int) -> int:
    """Blocks that fit on an SM by threads and shared memory; registers are not known here."""
    by_shared = gpu.shared_per_sm // (dynamic_shared + gpu.shared_reserved)
    return min(gpu.blocks_per_sm, gpu.threads_per_sm // max(threads, 1), by_shared)


@contextlib.contextmanager
def cuda_bindings_answering(gpu: GPU) -> Iterator[None]:
    """Within, cuda.bindings answers for ``gpu``; nothing happens where it is not installed."""
    try:
        from cuda.bindings import driver, runtime
    except ImportError:
        yield
        return
    with contextlib.ExitStack() as stack:
        for module, answers in ((driver, Driver(gpu)), (runtime, Runtime(gpu))):
            for name in dir(type(answers)):
                if name.startswith("cu"):
                    stack.enter_context(mock.patch.object(module, name, getattr(answers, name)))
        yield
