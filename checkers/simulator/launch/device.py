"""CPU tensors that say they are on a CUDA device, so that code written for one runs without it.

Inside ``PretendCuda()``, ``device="cuda"`` gives a CPU tensor whose ``device`` is ``cuda:0``, and
the parts of ``torch.cuda`` that launch code asks answer for a chosen GPU (torch_cuda.py). Nothing is
computed differently: this is for compiling, simulating and interpreting kernels.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch._library.custom_ops import OPDEFS, CustomOpDef
from torch.autograd.function import BackwardCFunction
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors

from checkers.simulator.launch.torch_cuda import CUDA, torch_cuda_answering
from checkers.simulator.reports.gpus import GPU, GPUS

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


def _made(value: Any) -> Any:
    """As ``pretended``, for what a function made: a leaf that wants a gradient stays one."""
    if isinstance(value, torch.Tensor) and value.requires_grad and value.is_leaf:
        if not isinstance(value, PretendTensor):
            return value.detach().as_subclass(PretendTensor).requires_grad_()
    return pretended(value)


def _copied(value: torch.Tensor, claim: bool) -> torch.Tensor:
    """A tensor on the other device, with memory of its own; itself if it is there already."""
    if isinstance(value, PretendTensor) is claim:
        return value
    return pretended(real(value).clone()) if claim else real(value).clone()


def _is_cuda(device: Any) -> bool:
    if isinstance(device, bool) or not isinstance(device, torch.device | str | int):
        return False
    return isinstance(device, int) or str(device).startswith("cuda")  # 0 is the first GPU


def _is_device(value: Any) -> bool:
    if isinstance(value, str):
        return value.startswith(("cuda", "cpu", "meta"))
    return isinstance(value, torch.device | int) and not isinstance(value, bool)


class PretendCuda:
    """While entered, PyTorch functions take and give pretended CUDA tensors.

    gpu: the one that ``torch.cuda`` answers for, an H200 if left out.
    """

    def __init__(self, gpu: GPU = GPUS["h200"]) -> None:
        self.gpu = gpu
        self._entered = contextlib.ExitStack()

    def __enter__(self) -> PretendCuda:
        enter = self._entered.enter_context
        enter(torch_cuda_answering(self.gpu))
        enter(_parameters_overwritten())
        enter(mock.patch.object(CustomOpDef, "register_kernel", _for_cpu_too))
        enter(mock.patch.object(BackwardCFunction, "apply", _backward))
        enter(mock.patch.object(BackwardCFunction, "saved_tensors", property(_saved)))
        for op in OPDEFS.values():
            if "cuda" in op._backend_fns and not {"cpu", None} & set(op._backend_fns):
                _register_kernel(op, "cpu", _kernel(op._backend_fns["cuda"]))
        enter(_Mode())
        return self

    def __exit__(self, *exception: Any) -> None:
        self._entered.close()


@contextlib.contextmanager
def _parameters_overwritten() -> Iterator[None]:
    """Else Module.to() keeps the parameter and replaces its data, and it stays a CPU tensor."""
    future = torch.__future__
    before = future.get_overwrite_module_params_on_conversion()
    future.set_overwrite_module_params_on_conversion(True)
    try:
        yield
    finally:
        future.set_overwrite_module_params_on_conversion(before)


# --- Python that PyTorch calls from within a function: the mode is off there ----------------------


@contextlib.contextmanager
def _pretending_again() -> Iterator[None]:
    with torch._C._EnableTorchFunction(), _Mode():
        yield


def _for_cpu_too(
    self: CustomOpDef, device_types: Any, fn: Callable | None = None, /
) -> Callable[..., Any]:
    """Stands for CustomOpDef.register_kernel: what is for CUDA takes pretended tensors."""

    def register(function: Callable) -> Callable:
        devices = [device_types] if isinstance(device_types, str | None) else [*device_types]
        if "cuda" not in devices:
            return _register_kernel(self, device_types, function)

        return _register_kernel(self, sorted({*devices, "cpu"}), _kernel(function))

    return register if fn is None else register(fn)


def _kernel(function: Callable) -> Callable:
    @functools.wraps(function)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with _pretending_again():
            return function(*pretended(args), **kwargs)

    return kernel


def _backward(self: Any, *gradients: Any) -> Any:
    """Stands for BackwardCFunction.apply: gradients of the engine's making are on the GPU too."""
    with _pretending_again():
        return _apply(self, *pretended(gradients))


def _saved(self: Any) -> Any:
    """Stands for ctx.saved_tensors: PyTorch makes new ones of the outputs that forward saved."""
    return pretended(_saved_tensors.__get__(self))


_register_kernel, _apply = CustomOpDef.register_kernel, BackwardCFunction.apply
_saved_tensors = BackwardCFunction.saved_tensors


class _Mode(TorchFunctionMode):
    """Translates between the devices that code asks for and the one that there is."""

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        with torch._C.DisableTorchFunctionSubclass():
            if name in ("cuda", "cpu"):
                return _copied(args[0], claim=name == "cuda")
            if name == "pin_memory":
                return args[0]
            kwargs.pop("pin_memory", None)
            asked = kwargs.get("device")
            if asked is None and func in _device_constructors():
                asked = _default_device()
            target = asked if asked is not None else _positional_device(name, args)
            if target is None:
                result = func(*args, **kwargs)
                return _made(result) if _any_pretended(args, kwargs) else result
            claim = _is_cuda(target)
            if name == "to":
                args = (_copied(args[0], claim), *args[1:])
            if asked is not None:
                kwargs["device"] = torch.device("cpu") if claim else asked
            elif claim:
                args = (args[0], torch.device("cpu"), *args[2:])
            result = func(*args, **kwargs)
            return _made(result) if claim else real(result)


def _default_device() -> torch.device | None:
    """What torch.set_default_device set. (torch.get_default_device makes a tensor to find out.)"""
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return context.device if context is not None else None


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
