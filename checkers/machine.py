"""What machine a measurement was made on: the "machine" entry of every JSON file here."""

from __future__ import annotations

import importlib.metadata
import platform
import subprocess
from datetime import UTC, datetime
from typing import Any

import torch


def describe_machine(index: int = 0) -> dict[str, Any]:
    """GPU, driver, versions and date; "gpu" is None on a machine without one.

    index: the CUDA device, as PyTorch counts.
    """
    has_gpu = torch.cuda.is_available()
    described: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name(index) if has_gpu else None,
        "arch": arch_of(torch.cuda.get_device_capability(index)) if has_gpu else None,
        "driver": _query_nvidia_smi("driver_version", index) if has_gpu else None,
        "cuda": torch.version.cuda,
        "torch": torch.__version__,
        "triton": version_of("triton"),
        "cutlass_dsl": version_of("nvidia-cutlass-dsl"),
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
    }
    if has_gpu:
        described["sm_clock_mhz"] = sm_clock(index)
        described["l2_bytes"] = torch.cuda.get_device_properties(index).L2_cache_size
    return described


def arch_of(capability: tuple[int, int]) -> str:
    """(9, 0) as "sm_90": how thresholds.toml names architectures."""
    return f"sm_{capability[0]}{capability[1]}"


def version_of(distribution: str) -> str | None:
    """The installed version, None when it isn't installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def sm_clock(index: int = 0) -> int | None:
    """The SM clock now, in MHz; None where neither NVML nor nvidia-smi can say. Sets nothing."""
    try:
        return int(torch.cuda.clock_rate(index))
    except Exception:  # NVML raises a class of its own, or the module is missing
        answer = _query_nvidia_smi("clocks.sm", index)
        return int(answer) if answer and answer.isdigit() else None


def _query_nvidia_smi(what: str, index: int) -> str | None:
    uuid = getattr(torch.cuda.get_device_properties(index), "uuid", None)
    which = f"GPU-{uuid}" if uuid is not None else str(index)
    command = ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader,nounits", "-i", which]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip().splitlines()[0].strip() if done.stdout.strip() else None
