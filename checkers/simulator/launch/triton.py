"""Catches the launches of Triton: ``kernel[grid](...)`` compiles for the simulated GPU, and its
launcher hands the arguments to the active catcher."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from checkers.simulator.launch import parameters
from checkers.simulator.launch.catcher import Catcher
from checkers.simulator.launch.records import Launch
from checkers.simulator.reports.gpus import GPU


@contextlib.contextmanager
def triton_catching(gpu: GPU) -> Iterator[None]:
    """Within, Triton launches go to the active catcher. Nothing where Triton is missing.

    An autotuner takes the first of its configurations that compiles and fits; a benchmark calls
    its function once and gives no time (NaN).
    """
    try:
        import triton
        import triton.testing
        from triton.compiler import CompiledKernel
        from triton.runtime.autotuner import Autotuner
    except ImportError:
        yield
        return
    from checkers.simulator.launch.triton_driver import StandInDriver

    before = triton.runtime.driver._active
    triton.runtime.driver.set_active(StandInDriver(gpu, Launcher))
    try:
        with (
            mock.patch.object(CompiledKernel, "_init_handles", _with_ptx(CompiledKernel)),
            mock.patch.object(Autotuner, "_bench", _first_that_fits(Autotuner._bench)),
            mock.patch.object(triton.testing, "do_bench", _call_once),
            mock.patch.object(triton.testing, "do_bench_cudagraph", _call_once),
        ):
            yield
    finally:
        triton.runtime.driver._active = before


class Launcher:
    """Triton makes one for each compiled kernel, and calls it with each launch."""

    dry = False  # an autotuner only wants to know whether the kernel compiles and fits

    def __init__(self, src: Any, metadata: Any) -> None:
        self.ptx = ""  # set by _with_ptx: Triton doesn't give it
        self.metadata = metadata
        self.signature = list(src.signature.values())
        names = getattr(getattr(src, "fn", None), "arg_names", None)
        self.names = names or [str(key) for key in src.signature]

    def __call__(
        self,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        stream: Any,
        function: Any,
        packed_metadata: Any,
        launch_metadata: Any,
        enter_hook: Any,
        exit_hook: Any,
        *arguments: Any,
    ) -> None:
        """As Triton calls its CUDA launcher; ``arguments`` are all of the kernel's."""
        if Launcher.dry or grid_x * grid_y * grid_z == 0:
            return
        from checkers.simulator.launch.triton_arguments import packed

        catcher, metadata = Catcher.active(), self.metadata
        header = parameters.header(self.ptx, metadata.name)
        descriptors = getattr(metadata, "tensordesc_meta", None)
        data = packed(self.signature, arguments, descriptors, header.sizes)
        blocks = grid_x * grid_y * grid_z * metadata.num_ctas
        scratch = _scratch(metadata, blocks, stream)
        data[-2:] = [(t.data_ptr() if t is not None else 0).to_bytes(8, "little") for t in scratch]
        known = [*zip(self.names, arguments, strict=False)]
        known += [("the global scratch memory", scratch[0]), ("the profile scratch", scratch[1])]
        with catcher.seen.call(lambda: known):
            tensors = catcher.seen.tensors(data)
        launch = Launch(
            ptx=self.ptx,
            kernel=metadata.name,
            grid=(grid_x * metadata.num_ctas, grid_y, grid_z),
            block=(32 * metadata.num_warps, 1, 1),
            cluster=(metadata.num_ctas, 1, 1),
            dynamic_shared=metadata.shared,
            parameters=data,
            tensors=tensors,
            arch=parameters.target(self.ptx),
            attributes={
                "compiler": "triton",
                "cooperative": int(metadata.launch_cooperative_grid),
                "programmatic_stream_serialization": int(metadata.launch_pdl),
            },
        )
        if enter_hook is not None:
            enter_hook(launch_metadata)
        catcher.deliver(launch)
        if exit_hook is not None:
            exit_hook(launch_metadata)


def _with_ptx(compiled_kernel: type) -> Callable[..., Any]:
    """Stands for CompiledKernel._init_handles, which makes the launcher."""
    original = compiled_kernel._init_handles  # type: ignore[attr-defined]

    def _init_handles(self: Any) -> None:
        original(self)
        if isinstance(self._run, Launcher):
            self._run.ptx = self.asm["ptx"]

    return _init_handles


def _scratch(metadata: Any, blocks: int, stream: Any) -> tuple[Any, Any]:
    """Global and profile scratch memory, None where the kernel wants none."""
    import triton
    from triton.runtime import _allocation

    shared, profile = None, None
    if metadata.global_scratch_size:
        allocate = _allocation._allocator.get()
        size = blocks * metadata.global_scratch_size
        shared = allocate(size, metadata.global_scratch_align, stream)
    if metadata.profile_scratch_size:
        size = blocks * metadata.profile_scratch_size
        driver = triton.runtime.driver.active
        profile = driver.allocate_default_profile_scratch(
            size, metadata.profile_scratch_align, stream
        )
    return shared, profile


def _call_once(function: Callable[[], Any], *_: Any, **options: Any) -> Any:
    """Stands for triton.testing.do_bench."""
    function()
    quantiles = options.get("quantiles")
    return [math.nan] * len(quantiles) if quantiles else math.nan


def _first_that_fits(original: Callable[..., Any]) -> Callable[..., Any]:
    """Stands for Autotuner._bench, which times one configuration."""

    def _bench(self: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        if self.__dict__.get("_simulated_for") is self.nargs:
            return [math.inf] * 3  # one has been found for this call

        def compile_only(call: Callable[[], Any], quantiles: Any = None) -> list[float]:
            call()
            return [1.0] * 3

        self.__dict__["do_bench"] = compile_only  # the property of this name is cached here
        Launcher.dry = True
        try:
            timings = original(self, *args, config=config, **meta)
        finally:
            Launcher.dry = False
            del self.__dict__["do_bench"]
        if not math.isinf(timings[0]):
            self._simulated_for = self.nargs
        return timings

    return _bench
