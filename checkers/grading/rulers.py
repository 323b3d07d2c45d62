"""Rulers: what a kernel's speed is a ratio to, measured in the same run on the same GPU.

A ruler does a given amount of work the best known way. ``RULERS`` names them; a new one ("cublas",
"cudnn") is a function of the work that returns launches to rotate over, and a row in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from checkers.grading.cuda_device import Device

# Memory bandwidth by datasheet, GB/s, the first name that the GPU's contains. It bounds what can be
# believed; nothing is graded against it. An NVIDIA product page or datasheet is behind each.
DATASHEET_GBPS: tuple[tuple[str, float], ...] = (
    ("GB300", 8000.0),
    ("B300", 8000.0),
    ("GB200", 8000.0),
    ("B200", 8000.0),
    ("GH200", 4900.0),
    ("H200", 4800.0),
    ("H100 NVL", 3938.0),
    ("H100 PCIe", 2039.0),
    ("H100", 3352.0),
    ("A100-SXM4-80GB", 2039.0),
    ("A100 80GB PCIe", 1935.0),
    ("A100", 1555.0),
    ("L40S", 864.0),
    ("L4", 300.0),
    ("A10G", 600.0),
    ("A10", 600.0),
    ("T4", 320.0),
    ("RTX 5090", 1792.0),
    ("RTX 4090", 1008.0),
    ("RTX 3090", 936.0),
)

# A copy of this many bytes reaches the plateau on every GPU in the table.
CEILING_BYTES = 1 << 30
# A copy reads and writes; switching the DRAM between the two costs about a tenth, so a kernel that
# mostly reads can be that much faster than a copy.
COPY_SHARE_OF_PEAK = 0.9


@dataclass(frozen=True)
class Ruler:
    """A ruler.

    unit: of its rate.  scale: work per second in one unit.
    prepare(work, sets): launches without arguments that each do ``work``, on ``sets`` disjoint
        working sets filled with random normal data.
    """

    name: str
    unit: str
    scale: float
    prepare: Callable[[int, int], Sequence[Callable[[], None]]]


def prepare_copy(work: int, sets: int) -> Sequence[Callable[[], None]]:
    """Device-to-device copies that read work/2 bytes and write work/2 bytes each."""
    elements = max(1, work // 8)  # float32, read once and written once
    launches = []
    for seed in range(sets):
        generator = torch.Generator("cuda").manual_seed(seed)
        source = torch.randn(elements, device="cuda", generator=generator)
        target = torch.empty_like(source)
        launches.append(partial(_copy, target, source))
    return launches


def _copy(target: torch.Tensor, source: torch.Tensor) -> None:
    target.copy_(source)


RULERS: dict[str, Ruler] = {
    "copy": Ruler("copy", "GB/s", 1e9, prepare_copy),
}


def datasheet_gbps(gpu: str) -> float | None:
    """Memory bandwidth of a GPU by its name, None when it is not in the table."""
    return next((gbps for name, gbps in DATASHEET_GBPS if name in gpu), None)


def copy_ceiling_gbps(device: Device, copies: int = 8) -> float:
    """The best of a few large copies, in GB/s: what this GPU's memory does right now."""
    work = min(CEILING_BYTES, device.free_bytes() // 4)
    (copy,) = prepare_copy(work, 1)
    device.run(copy, 0.0)
    return max(work / device.run(copy, 1e-4).stream for _ in range(copies)) / 1e9


def memory_limit_gbps(gpu: str, device: Device) -> float:
    """The most that this GPU's memory can move: the larger of the datasheet's figure, where known,
    and a tenth above what a large copy reaches here."""
    measured = copy_ceiling_gbps(device) / COPY_SHARE_OF_PEAK
    return max(measured, datasheet_gbps(gpu) or 0.0)
