"""CPU tensors that say they are on a CUDA device, so that code written for one runs without it.

Inside ``PretendCuda()``, ``device="cuda"`` gives a CPU tensor whose ``device`` is ``cuda:0``, and
the parts of ``torch.cuda`` that launch code asks answer for a chosen GPU (torch_cuda.py). Nothing is
computed differently: this is for compiling, simulating and interpreting kernels.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

from checkers.simulator.gpus import GPU, GPUS
from checkers.simulator.launch.torch_cuda import CUDA, torch_cuda_answering

KDL_CUDA = 2  # DLDeviceType in dlpack.h
_END_OF_REPR = re.compile(r"((?:, (?:dtype|size|requires_grad|grad_fn)=[^\[\]]*)?)\)$")


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

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        """As a CUDA tensor's: with its device, before its dtype."""
        return _END_OF_REPR.sub(f", device='{CUDA}'\\1)", repr(real(self)), count=1)

    def __dlpack_device__(self) -> tuple[int, int]:  # type: ignore[override]
        return (KDL_CUDA, 0)

    def __dlpack__(self, **options: Any) -> Any:
        """A capsule whose device type reads CUDA: the int32 at byte 8 of its DLTensor."""
        options.pop("stream", None)
        options.pop("dl_device", None)
        capsule = torch.Tensor.__dlpack__(real(self).detach(), **options)
        claim_cuda(capsule)
        return capsule


def claim_cuda(capsule: Any) -> None:
    """Sets the device type of a DLPack capsule to CUDA, in place."""
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
    if isinstance(device, bool) or not isinstance(device, torch.device | str | int):
        return False
    return isinstance(device, int) or str(device).startswith("cuda")  # 0 is the first GPU


def _is_device(value: Any) -> bool:
    return isinstance(value, torch.device) or (
        isinstance(value, str) and value.startswith(("cuda", "cpu", "meta"))
    )


class PretendCuda(TorchFunctionMode):
    """While entered, PyTorch functions take and give pretended CUDA tensors.

    gpu: the one that ``torch.cuda`` answers for, an H200 if left out.
    """

    def __init__(self, gpu: GPU = GPUS["h200"]) -> None:
        super().__init__()
        self.gpu = gpu
        self._patches = contextlib.ExitStack()

    def __enter__(self) -> PretendCuda:
        self._patches.enter_context(torch_cuda_answering(self.gpu))
        overwrite = torch.__future__.get_overwrite_module_params_on_conversion()
        # Else Module.to() keeps the parameter and replaces its data, and it stays a CPU tensor.
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        self._patches.callback(
            torch.__future__.set_overwrite_module_params_on_conversion, overwrite
        )
        return super().__enter__()

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        self._patches.close()

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
            if name == "pin_memory":
                return args[0]
            kwargs.pop("pin_memory", None)
            asked = kwargs.get("device")
            if asked is None and func in _device_constructors():
                asked = torch.get_default_device()
                asked = asked if _is_cuda(asked) else None
            target = asked if asked is not None else _positional_device(name, args)
            if target is None:
                result = func(*args, **kwargs)
                return pretended(result) if _any_pretended(args, kwargs) else result
            if not _is_cuda(target):
                return real(func(*args, **kwargs))
            if asked is not None:
                kwargs["device"] = torch.device("cpu")
            else:
                args = (args[0], torch.device("cpu"), *args[2:])
            return pretended(func(*args, **kwargs))


def _positional_device(name: str, args: tuple) -> Any:
    """Of ``x.to(device, ...)``."""
    return args[1] if name == "to" and len(args) > 1 and _is_device(args[1]) else None


def _any_pretended(args: Any, kwargs: dict | None = None) -> bool:
    values = [*args, *(kwargs or {}).values()]
    return any(
        isinstance(value, PretendTensor)
        or (isinstance(value, tuple | list) and _any_pretended(value))
        for value in values
    )
