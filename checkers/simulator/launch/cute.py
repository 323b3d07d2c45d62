"""Catches the launches of CuTe DSL: compiles for the simulated GPU, and runs the host code itself.

Each compiled function has an LLVM execution engine, and what its host code calls can be defined in
the engine by name before it is looked up: Python callbacks (cute_runtime.py) take the place of the
CUDA runtime. No C compiler, no driver.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import glob
import inspect
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from checkers.simulator.launch.catcher import call_with_names, unseen
from checkers.simulator.launch.cute_runtime import Runtime, unpacked
from checkers.simulator.launch.device import pretended
from checkers.simulator.launch.tensors import OWNER, named
from checkers.simulator.reports.gpus import GPU

# Caches of peers that keep compiled objects, in which there is no PTX any more.
NO_CACHES = {
    "QUACK_CACHE_ENABLED": "0",
    "FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED": "0",
    "CUTE_DSL_DISABLE_FILE_CACHING": "1",
}
# The same for those that have read their environment already: module and attribute.
CACHE_FLAGS = (
    ("quack.cache", "CACHE_ENABLED"),
    ("flash_attn.cute.cache_utils", "CUTE_DSL_CACHE_ENABLED"),
)


@contextlib.contextmanager
def cute_catching(gpu: GPU) -> Iterator[None]:
    """Within, the launches of CuTe DSL go to the active catcher. Nothing where it is missing."""
    try:
        import cutlass.cute  # noqa: F401
    except ImportError:
        yield
        return
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="ladder-ptx-"))
        environment = NO_CACHES | {"CUTE_DSL_ARCH": gpu.arch, "CUTE_DSL_LINEINFO": "1"}
        stack.enter_context(mock.patch.dict("os.environ", environment))
        stack.enter_context(_settings(gpu))
        for module, flag in CACHE_FLAGS:
            if module in sys.modules:
                stack.enter_context(mock.patch.object(sys.modules[module], flag, False))
        for owner, name, replacement in _patches(Path(scratch)):
            stack.enter_context(mock.patch.object(owner, name, replacement))
        yield


@contextlib.contextmanager
def _settings(gpu: GPU) -> Iterator[None]:
    """The DSLs compile for ``gpu``, with source lines, and forget what was compiled before."""
    from cutlass.base_dsl.dsl import DSLSingletonMeta
    from cutlass.cutlass_dsl import CuTeDSL

    CuTeDSL._get_dsl()
    with contextlib.ExitStack() as stack:
        for dsl in DSLSingletonMeta._instances.values():
            settings = {"_arch": gpu.arch, "lineinfo": True, "disable_file_caching": True}
            for name, value in settings.items():
                stack.callback(setattr, dsl.envar, name, getattr(dsl.envar, name, None))
                setattr(dsl.envar, name, value)
            dsl.jit_cache.clear()
            stack.callback(dsl.jit_cache.clear)
        yield


def _patches(scratch: Path) -> Iterator[tuple[Any, str, Any]]:
    from cutlass.base_dsl.compiler import Compiler
    from cutlass.base_dsl.dsl import BaseDSL
    from cutlass.base_dsl.jit_executor import JitExecutor
    from cutlass.cute.runtime import _Tensor
    from cutlass.cutlass_dsl.cuda_jit_executor import CudaDialectJitCompiledFunction as Compiled
    from cutlass.cutlass_dsl.cutlass import CutlassBaseDSL

    yield Compiler, "compile_and_jit", _with_runtime(Compiler.compile_and_jit, scratch)
    # What is compiled for another GPU gets an engine too; the launch says that it is another's.
    yield CutlassBaseDSL, "_runtime_can_run_compiled", lambda *_: True
    yield BaseDSL, "_func", _noting_jit_arguments(BaseDSL._func)
    yield Compiled, "__call__", _noting_arguments(Compiled.__call__)
    yield JitExecutor, "__call__", _noting_arguments(JitExecutor.__call__)
    yield JitExecutor, "run_compiled_program", _raising(JitExecutor.run_compiled_program)
    yield Compiled, "_load_cuda_library", _forgetting_handles(Compiled._load_cuda_library)
    yield _Tensor, "__init__", _from_torch(_Tensor.__init__)
    with contextlib.suppress(ImportError):
        yield from _tvm_ffi_patches()


# --- compiling -----------------------------------------------------------------------------------


def _with_runtime(original: Callable[..., Any], scratch: Path) -> Callable[..., Any]:
    """Keeps the PTX, and defines the runtime's functions in the new engine."""

    @functools.wraps(original)
    def compile_and_jit(self: Any, module: Any, pipeline: str, *args: Any, **kwargs: Any) -> Any:
        pipeline, path = _keeping_ptx(pipeline, scratch / "kernels")
        before = set(_dumps(path))
        result = original(self, module, pipeline, *args, **kwargs)
        engine = result[0] if isinstance(result, tuple) else result
        written = [file for file in _dumps(path) if file not in before]
        # A host function that launches nothing has no kernels, and no PTX.
        engine._simulated_runtime = Runtime([file.read_text() for file in written])
        engine._simulated_runtime.register(engine)
        if path.parent == scratch:
            for file in written:
                file.unlink()
        return result

    return compile_and_jit


def _keeping_ptx(pipeline: str, path: Path) -> tuple[str, Path]:
    """The pipeline, made to write PTX with source lines; where it writes, without the ending."""
    asked = re.search(r"dump-ptx-path='([^']*)'", pipeline)
    if asked:
        path = Path(asked[1])
        for stale in _dumps(path):
            stale.unlink()
    else:
        pipeline = pipeline.rstrip("})") + f" dump-ptx-path='{path}'}})"
    return pipeline.replace("preserve-line-info=false", "preserve-line-info=true"), path


def _dumps(path: Path) -> list[Path]:
    """The files that the compiler writes for a dump path: one for each architecture."""
    return sorted(path.parent.glob(f"{glob.escape(path.name)}.*.ptx"))


# --- calling -------------------------------------------------------------------------------------


def _noting_jit_arguments(original: Callable[..., Any]) -> Callable[..., Any]:
    """For a direct call of a @cute.jit function, which compiles and runs."""

    @functools.wraps(original)
    @unseen
    def _func(self: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("compile_only"):
            return original(self, function, *args, **kwargs)
        names = named(inspect.signature(function), args, kwargs)
        return call_with_names(functools.partial(original, self, function), names, *args, **kwargs)

    return _func


def _noting_arguments(original: Callable[..., Any]) -> Callable[..., Any]:
    """For a call of what cute.compile returned."""

    @functools.wraps(original)
    @unseen
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        names = named(_signature(self), args, kwargs)
        return call_with_names(functools.partial(original, self), names, *args, **kwargs)

    return __call__


def _raising(original: Callable[..., Any]) -> Callable[..., Any]:
    """For a call that gets by the others: what a callback raised comes out as itself."""

    @functools.wraps(original)
    @unseen
    def run(*args: Any) -> Any:
        return call_with_names(original, lambda: (), *args)

    return run


def _signature(compiled: Any) -> inspect.Signature | None:
    """The run-time parameters: constexpr ones are not passed any more."""
    arguments = getattr(compiled, "execution_args", None)
    if arguments is None:
        arguments = getattr(getattr(compiled, "jit_module", None), "execution_args", None)
    return getattr(arguments, "signature", None)


def _forgetting_handles(original: Callable[..., Any]) -> Callable[..., Any]:
    """The handles stand for nothing, and must not reach a real CUDA when they are let go."""

    @functools.wraps(original)
    def _load_cuda_library(self: Any) -> list[Any]:
        original(self)
        return []

    return _load_cuda_library


def _from_torch(original: Callable[..., Any]) -> Callable[..., Any]:
    """CPU tensors become global memory; the cute tensor keeps the torch one, to name it."""

    @functools.wraps(original)
    @unseen
    def __init__(self: Any, tensor: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(tensor, np.ndarray):
            tensor = torch.from_numpy(tensor)
        if isinstance(tensor, torch.Tensor):
            setattr(self, OWNER, tensor)
            if kwargs.get("enable_tvm_ffi"):
                tensor = _Capsule(tensor)
            tensor = pretended(tensor) if isinstance(tensor, torch.Tensor) else tensor
        original(self, tensor, *args, **kwargs)

    return __init__


# --- TVM FFI -------------------------------------------------------------------------------------


class _Capsule:
    """A tensor of which nothing is known but its DLPack capsule, which claims CUDA."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = pretended(tensor)

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.tensor.__dlpack_device__()


def _tvm_ffi_patches() -> Iterator[tuple[Any, str, Any]]:
    """Functions compiled with --enable-tvm-ffi take torch tensors as they are."""
    import tvm_ffi
    from cutlass.cutlass_dsl import tvm_ffi_provider as provider

    def keep_engine(self: Any) -> Any:
        # Theirs makes an object file and links it anew, with a runtime that is a file.
        if self.engine is None:
            return None
        function = unpacked(self.engine.raw_lookup("__tvm_ffi_" + self.function_name))
        address = ctypes.cast(function, ctypes.c_void_p).value
        return tvm_ffi.Function.__from_extern_c__(
            address, keep_alive_object=(self.engine, function)
        )

    def converting(original: Callable[..., Any]) -> Callable[..., Any]:
        noting = _noting_arguments(
            lambda self, *args, **kwargs: original(
                self,
                *(_for_tvm(a) for a in args),
                **{k: _for_tvm(a) for k, a in kwargs.items()},
            )
        )
        return functools.wraps(original)(noting)

    yield provider.TVMFFIJitCompiledFunctionBase, "_create_tvm_ffi_function", keep_engine
    for name in ("TVMFFIJitCompiledFunction", "TVMFFIJitCompiledFunctionWithKwargs"):
        compiled = getattr(provider, name)
        yield compiled, "__call__", converting(compiled.__call__)


def _for_tvm(value: Any) -> Any:
    import tvm_ffi

    if isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunction():
            return tvm_ffi.from_dlpack(_Capsule(value.detach()))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_for_tvm(item) for item in value))
    if type(value) in (tuple, list):
        return type(value)(_for_tvm(item) for item in value)
    return value
