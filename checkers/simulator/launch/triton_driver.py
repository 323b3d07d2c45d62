"""A Triton driver for a GPU that is not there: what Triton asks before and when it launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from checkers.simulator.reports.gpus import GPU


class Utils:
    """The functions of Triton's C module that compiling needs."""

    def __init__(self, gpu: GPU) -> None:
        self.gpu = gpu

    def get_device_properties(self, device: Any) -> dict[str, int]:
        return {
            "max_shared_mem": self.gpu.shared_per_block,
            "multiprocessor_count": self.gpu.sms,
            "max_num_regs": self.gpu.registers_per_sm,
            "warpSize": 32,
        }

    def load_binary(self, *_: Any) -> tuple[None, None, int, int, int]:
        """Module, function, registers, spills, most threads. Nothing is loaded (a module would be
        unloaded, by whatever driver is active then), and Triton refuses num_warps beyond the last.
        """
        return (None, None, 0, 0, self.gpu.threads_per_block)

    def is_stream_capturing(self, stream: int) -> bool:
        return False


class StandInDriver(DriverBase):
    """launcher: made with (src, metadata) for each compiled kernel, called with each launch."""

    def __init__(self, gpu: GPU, launcher: Callable[[Any, Any], Callable[..., None]]) -> None:
        super().__init__()
        self.gpu = gpu
        self.utils = Utils(gpu)
        self.launcher_cls = launcher

    @classmethod
    def is_active(cls) -> bool:
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_current_target(self) -> GPUTarget:
        major, minor = self.gpu.capability
        return GPUTarget("cuda", major * 10 + minor, 32)

    def get_current_device(self) -> Any:
        # Triton keeps kernels by device, with their launchers: none of another GPU or of another
        # launcher may be found.
        return (self.gpu.name, self.launcher_cls)

    def set_current_device(self, device: Any) -> None:
        """There is one device."""

    def get_current_stream(self, device: Any) -> int:
        return 0

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        return self.gpu.capability

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        import torch

        return torch.cuda

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: Any) -> Any:
        import torch

        return torch.zeros(size, dtype=torch.int8)

    def get_benchmarker(self) -> Callable[..., list[float]]:
        def benchmark(call: Callable[[], Any], quantiles: Any = None, **_: Any) -> list[float]:
            call()
            return [1.0, 1.0, 1.0]

        return benchmark
