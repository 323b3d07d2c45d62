"""The GPUs whose limits the roofline card uses, and that a simulated device says it is.

Sources: "NVIDIA H100 Tensor Core GPU Architecture" (white paper) and the data sheets of H100, H200
and HGX B200 for memory and tensor-core rates (dense, without sparsity); the CUDA C++ Programming
Guide's tables of technical specifications and of arithmetic throughput, columns 9.0 and 10.0, for
what one SM has and does in a clock; ``cudaGetDeviceProperties`` for the clocks and the L2 sizes.
NVIDIA publishes no bandwidth of L2 for these; 5120 bytes a clock is the figure of the A100's white
paper. Nothing about the B200 was confirmed on hardware by this course.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class GPU:
    """One GPU.

    clock_ghz: the highest SM clock.  hbm_bytes_per_s, hbm_bytes: of its memory.  l2_bytes,
    l2_bytes_per_clock: read by all SMs together.  shared_per_sm, shared_per_block: bytes, the second with opt-in;
    shared_reserved: what the system takes from each block.  tensor_flops: by operand type, dense,
    per second.  *_per_clock: lanes that an SM serves in a clock; issue_per_clock: warp instructions;
    shared_wavefronts_per_clock: of 128 bytes.  confirmed: this course has measured on one.
    """

    name: str
    title: str
    capability: tuple[int, int]
    arch: str
    sms: int
    clock_ghz: float
    hbm_bytes: int
    hbm_bytes_per_s: float
    l2_bytes: int
    tensor_flops: dict[str, float] = field(hash=False)
    confirmed: bool
    l2_bytes_per_clock: int = 5120
    shared_per_sm: int = 228 * 1024
    shared_per_block: int = 227 * 1024
    shared_reserved: int = 1024
    registers_per_sm: int = 64 * 1024
    registers_per_thread: int = 255
    threads_per_sm: int = 2048
    threads_per_block: int = 1024
    blocks_per_sm: int = 32
    cluster_blocks: int = 8
    issue_per_clock: int = 4
    fp32_per_clock: int = 128
    fp16_per_clock: int = 256
    fp64_per_clock: int = 64
    integer_per_clock: int = 64
    convert_per_clock: int = 64
    special_per_clock: int = 16
    exchange_per_clock: int = 32
    shared_wavefronts_per_clock: int = 1

    @property
    def clock_hz(self) -> float:
        return self.clock_ghz * 1e9


_HOPPER_TENSOR = {
    "f64": 67e12, "tf32": 494.7e12, "f16": 989.4e12, "bf16": 989.4e12, "f8": 1978.9e12,
    "i8": 1978.9e12,
}  # fmt: skip
_BLACKWELL_TENSOR = {
    "f64": 37e12, "tf32": 1125e12, "f16": 2250e12, "bf16": 2250e12, "f8": 4500e12,
    "f6": 4500e12, "f4": 9000e12, "i8": 4500e12,
}  # fmt: skip

GPUS: dict[str, GPU] = {
    gpu.name: gpu
    for gpu in (
        GPU(
            name="h100",
            title="NVIDIA H100 SXM",
            capability=(9, 0),
            arch="sm_90a",
            sms=132,
            clock_ghz=1.98,
            hbm_bytes=80 * 10**9,
            hbm_bytes_per_s=3.35e12,
            l2_bytes=50 * 2**20,
            tensor_flops=_HOPPER_TENSOR,
            confirmed=False,
        ),
        GPU(
            name="h200",
            title="NVIDIA H200 SXM",
            capability=(9, 0),
            arch="sm_90a",
            sms=132,
            clock_ghz=1.98,
            hbm_bytes=141 * 10**9,
            hbm_bytes_per_s=4.8e12,
            l2_bytes=60 * 2**20,
            tensor_flops=_HOPPER_TENSOR,
            confirmed=True,
        ),
        GPU(
            name="b200",
            title="NVIDIA B200",
            capability=(10, 0),
            arch="sm_100a",
            sms=148,
            clock_ghz=1.965,
            hbm_bytes=180 * 10**9,
            hbm_bytes_per_s=8.0e12,
            l2_bytes=126 * 2**20,
            tensor_flops=_BLACKWELL_TENSOR,
            confirmed=False,
        ),
    )
}


def gpu(name: str) -> GPU:
    """The GPU called "h100", "h200" or "b200"; ValueError naming them for another."""
    if name.lower() not in GPUS:
        raise ValueError(f"there is no GPU {name!r} here; there are: {', '.join(GPUS)}")
    return GPUS[name.lower()]


def confirmed(arch: str) -> bool:
    """Whether what the simulator does for ``arch`` was held against a GPU of it."""
    return any(gpu.confirmed for gpu in GPUS.values() if gpu.arch == arch)
