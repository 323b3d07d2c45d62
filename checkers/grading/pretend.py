"""CPU tensors that say they are on a CUDA device, so that code written for one runs without it.

Inside ``PretendCuda()``, ``device="cuda"`` gives a CPU tensor whose ``device`` is ``cuda:0``, and
the parts of ``torch.cuda`` that launch code asks (streams, capability, properties) answer for a
chosen GPU. Nothing is computed differently: this is for compiling and interpreting kernels.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

CUDA = torch.device("cuda", 0)
KDL_CUDA = 2  # DLDeviceType in dlpack.h


class PretendTensor(torch.Tensor):
    """A CPU tensor that claims to be on ``cuda:0``."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return CUDA

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return True

    @property
    def is_cpu(self) -> bool:  # type: ignore[override]
        return False

    def get_device(self) -> int:  # type: ignore[override]
        return 0

    def __dlpack_device__(self) -> tuple[int, int]:  # type: ignore[override]
        return (KDL_CUDA, 0)

    def __dlpack__(self, **options: Any) -> Any:
        """A capsule whose device type reads CUDA: the int32 at byte 8 of its DLTensor."""
        options.pop("stream", None)
        options.pop("dl_device", None)
        capsule = torch.Tensor.__dlpack__(real(self), **options)
        claim_cuda(capsule)
        return capsule


def claim_cuda(capsule: Any) -> None:
    """Sets the device type of a DLPack capsule to CUDA, in place."""
    import ctypes

    versioned = b"dltensor_versioned"
    api = ctypes.pythonapi
    api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    # A versioned capsule puts version, manager context, deleter and flags (32 bytes) first.
    name, skip = (versioned, 32) if api.PyCapsule_IsValid(capsule, versioned) else (b"dltensor", 0)
    address = api.PyCapsule_GetPointer(capsule, name)
    ctypes.c_int32.from_address(address + skip + 8).value = KDL_CUDA


def real(value: Any) -> Any:
    """The plain CPU tensor behind a pretended one; anything else as it is. Shares memory."""
    if isinstance(value, PretendTensor):
        with torch._C.DisableTorchFunctionSubclass():
            return value.as_subclass(torch.Tensor)
    if type(value) in (tuple, list):
        return type(value)(real(item) for item in value)
    return value


def pretended(value: Any) -> Any:
    """``value`` with every tensor in it claiming to be on CUDA. Shares memory."""
    if isinstance(value, torch.Tensor) and not isinstance(value, PretendTensor):
        return value.as_subclass(PretendTensor)
    if type(value) in (tuple, list):
        return type(value)(pretended(item) for item in value)
    return value


def _is_cuda(device: Any) -> bool:
    return device is not None and str(device).startswith("cuda")


def _on_cpu(value: Any) -> Any:
    return torch.device("cpu") if isinstance(value, torch.device) and _is_cuda(value) else value


class PretendCuda(TorchFunctionMode):
    """While entered, PyTorch functions take and give pretended CUDA tensors.

    capability: (major, minor) that ``torch.cuda.get_device_capability`` reports.
    """

    def __init__(self, capability: tuple[int, int] = (9, 0)) -> None:
        super().__init__()
        self.capability = capability
        self._patches = contextlib.ExitStack()

    def __enter__(self) -> PretendCuda:
        for name, value in _cuda_functions(self.capability).items():
            self._patches.enter_context(mock.patch.object(torch.cuda, name, value))
        return super().__enter__()

    def __exit__(self, *exception: Any) -> None:
        self._patches.close()
        super().__exit__(*exception)

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        with torch._C.DisableTorchFunctionSubclass():
            if name == "cuda":
                return pretended(args[0])
            if name == "cpu":
                return real(args[0])
            asked = kwargs.get("device")
            target = (
                [a for a in args[1:] if isinstance(a, torch.device | str)] if name == "to" else []
            )
            leaves = any(str(a).startswith("cpu") for a in target)
            touches = _is_cuda(asked) or any(_is_cuda(a) for a in target)
            touches = touches or (asked is None and not leaves and _any_pretended(args, kwargs))
            if asked is not None:
                kwargs["device"] = torch.device("cpu")
            if target:
                args = tuple(
                    "cpu" if isinstance(a, str) and _is_cuda(a) else _on_cpu(a) for a in args
                )
            result = func(*args, **kwargs)
        return pretended(result) if touches else real(result) if leaves else result


def _any_pretended(args: Any, kwargs: dict | None = None) -> bool:
    values = [*args, *(kwargs or {}).values()]
    return any(
        isinstance(value, PretendTensor)
        or (isinstance(value, tuple | list) and _any_pretended(value))
        for value in values
    )


def _cuda_functions(capability: tuple[int, int]) -> dict[str, Any]:
    """What launch code asks of ``torch.cuda``, answered for an H200 or a B200."""
    properties = SimpleNamespace(
        name="pretended GPU",
        major=capability[0],
        minor=capability[1],
        multi_processor_count=132 if capability[0] == 9 else 148,
        L2_cache_size=60 * 2**20 if capability[0] == 9 else 126 * 2**20,
        total_memory=141 * 10**9,
        shared_memory_per_block_optin=227 * 1024,
        warp_size=32,
    )
    stream = SimpleNamespace(cuda_stream=0, device=CUDA, synchronize=lambda: None)

    @contextlib.contextmanager
    def device(_: Any = None) -> Iterator[None]:
        yield

    return {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda _: None,
        "current_stream": lambda device=None: stream,
        "default_stream": lambda device=None: stream,
        "synchronize": lambda device=None: None,
        "get_device_capability": lambda device=None: capability,
        "get_device_properties": lambda device=None: properties,
        "get_device_name": lambda device=None: properties.name,
        "device": device,
        "device_of": device,
    }
