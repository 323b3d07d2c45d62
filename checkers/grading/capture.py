"""Compiles the kernels that an answer launches, without a GPU and without launching them.

Triton asks its *driver* for the target and hands it the binary; CuTe DSL's launches all come from
``cute.compile``. Here the driver is one that compiles for the wanted target and launches nothing,
and ``cute.compile`` compiles for every target and returns a function that does nothing.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from checkers.grading.artifacts import CompiledKernel
from checkers.simulator.reports.gpus import gpu

TARGETS = ("sm_90a", "sm_100a")
GPUS = {"sm_90a": "h200", "sm_100a": "b200"}  # what an answer that asks is told


@contextlib.contextmanager
def triton_compiling(target: str, found: list[CompiledKernel]) -> Iterator[None]:
    """Within, ``kernel[grid](...)`` compiles for ``target``, appends to ``found`` and launches
    nothing. Autotuners take their first configuration."""
    import triton

    from checkers.simulator.launch.triton_driver import StandInDriver

    class Launcher:
        def __init__(self, src: Any, metadata: Any) -> None:
            self.metadata = metadata

        def __call__(self, *launch: Any, **options: Any) -> None:
            """Launches nothing: the kernel has been compiled by now, which is all that is wanted."""

    compile_source = triton.compiler.compile

    def record(*args: Any, **kwargs: Any) -> Any:
        compiled = compile_source(*args, **kwargs)
        found.append(from_triton(compiled, target))
        return compiled

    before = triton.runtime.driver._active
    triton.runtime.driver.set_active(StandInDriver(gpu(GPUS[target]), Launcher))
    try:
        # A JITFunction looks the compiler up when its first launch makes its caches.
        with mock.patch.object(triton.compiler, "compile", record):
            yield
    finally:
        triton.runtime.driver._active = before


def from_triton(compiled: Any, target: str) -> CompiledKernel:
    """A kernel as Triton compiled it."""
    metadata = compiled.metadata
    return CompiledKernel(
        name=metadata.name,
        target=target,
        ptx=compiled.asm["ptx"],
        cubin=bytes(compiled.asm["cubin"]),
        threads=32 * metadata.num_warps,
        shared_bytes=metadata.shared,
        cluster=(metadata.num_ctas, 1, 1),
        metadata={
            "num_warps": metadata.num_warps,
            "num_stages": metadata.num_stages,
        },
    )


@contextlib.contextmanager
def cute_compiling(scratch: Path, found: list[CompiledKernel]) -> Iterator[None]:
    """Within, ``cute.compile`` compiles for every target, appends the kernels to ``found`` and
    returns a function that launches nothing. ``scratch``: where the compiler leaves its dumps."""
    from cutlass.base_dsl.compiler import (
        CompileCallable,
        DumpDir,
        GenerateLineInfo,
        GPUArch,
        KeepCUBIN,
        KeepPTX,
        _parse_compile_options_from_str,
    )

    original = CompileCallable._compile
    launches: list[dict[str, Any]] = []

    def compile_for_all(self: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
        asked = kwargs.pop("options", None)
        for target in TARGETS:
            options = (
                _parse_compile_options_from_str(asked)
                if isinstance(asked, str) and asked
                else copy.deepcopy(self._compile_options)
            )
            for option in (
                GPUArch(target),
                KeepPTX(True),
                KeepCUBIN(True),
                GenerateLineInfo(True),
                DumpDir(str(scratch)),
            ):
                options.options[type(option)] = option
            compiler = CompileCallable()
            compiler._compile_options = options
            launches.clear()
            compiled = original(compiler, function, *args, **kwargs)
            found.extend(from_cute(compiled, target, launches))
        return launch_nothing

    def launch_nothing(*_: Any, **__: Any) -> None:
        """Stands for a compiled function where nothing can be launched."""

    CompileCallable._compile = compile_for_all
    undo = _record_launches(launches)
    try:
        yield
    finally:
        undo()
        CompileCallable._compile = original


def _record_launches(launches: list[dict[str, Any]]) -> Callable[[], None]:
    """Notes the launch configuration of every CuTe DSL kernel while it is traced."""
    from cutlass.cutlass_dsl.cutlass import KernelLauncher

    original = KernelLauncher.launch

    def launch(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        launches.append({"name": self._launch_name, **kwargs})
        return result

    KernelLauncher.launch = launch

    def undo() -> None:
        KernelLauncher.launch = original

    return undo


def from_cute(compiled: Any, target: str, launches: list[dict[str, Any]]) -> list[CompiledKernel]:
    """The kernels of a compiled CuTe DSL function, one for each launch it makes.

    Sizes that are only known at run time are reported as None (threads) or 0 (shared memory).
    """
    return [
        CompiledKernel(
            name=str(launch["name"]),
            target=target,
            ptx=compiled.artifacts.PTX,
            cubin=bytes(compiled.artifacts.CUBIN),
            threads=_static_product(launch.get("block")),
            shared_bytes=launch["smem"] if isinstance(launch.get("smem"), int) else 0,
            cluster=_static_shape(launch.get("cluster")),
            grid=_static_shape(launch["grid"]) if _is_static(launch.get("grid")) else None,
        )
        for launch in launches
    ]


def _is_static(shape: Any) -> bool:
    sizes = shape if isinstance(shape, tuple | list) else (shape,)
    return all(isinstance(size, int) for size in sizes)


def _static_shape(shape: Any) -> tuple[int, int, int]:
    sizes = shape if isinstance(shape, tuple | list) else (shape,)
    known = [size if isinstance(size, int) else 1 for size in sizes]
    return tuple([*known, 1, 1, 1][:3])  # type: ignore[return-value]


def _static_product(shape: Any) -> int | None:
    product = 1
    for size in shape if isinstance(shape, tuple | list) else (shape,):
        if not isinstance(size, int):
            return None
        product *= size
    return product
