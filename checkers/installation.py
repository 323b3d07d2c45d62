"""What is installed here: GPU, driver, versions, memory, and which packages can be imported.

Only the standard library is used, and nothing is imported to find its version. Packages are tried
in processes of their own, so that one that crashes costs a line of a report and nothing else.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

CUTE = "nvidia-cutlass-dsl"
GIB = 1 << 30
IMPORT_SECONDS = 180  # the first import after an installation compiles thousands of files


@dataclass(frozen=True)
class Gpu:
    """One GPU as nvidia-smi describes it; memory in bytes."""

    name: str
    driver: str
    capability: tuple[int, int]
    memory: int
    free: int


@dataclass
class Installation:
    """The facts that the checks are about; tests make up their own."""

    root: Path
    python: tuple[int, int] = field(default_factory=lambda: sys.version_info[:2])
    system: str = field(default_factory=platform.system)
    architecture: str = field(default_factory=platform.machine)
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    versions: Mapping[str, str] = field(default_factory=lambda: installed_versions())
    which: Callable[[str], str | None] = shutil.which
    gpus: Sequence[Gpu] = field(default_factory=lambda: read_gpus())
    # Result of importing a package in a process of its own: facts, or {"error": text}.
    imported: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: try_imports())
    free_memory: int | None = field(default_factory=lambda: free_memory())

    @property
    def gpu(self) -> Gpu | None:
        return self.gpus[0] if self.gpus else None


def installed_versions() -> dict[str, str]:
    """Version of every installed distribution, by its normalised name."""
    found = {}
    for distribution in metadata.distributions():
        name = distribution.metadata["Name"]
        if name:  # a half-removed package has none
            found.setdefault(name.lower().replace("_", "-").replace(".", "-"), distribution.version)
    return found


def read_gpus() -> list[Gpu]:
    """The GPUs that nvidia-smi lists; none where it is missing or fails."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = "name,driver_version,compute_cap,memory.total,memory.free"
    try:
        answer = subprocess.run(
            [program, f"--query-gpu={query}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [gpu for line in answer.stdout.splitlines() if (gpu := _gpu(line)) is not None]


def _gpu(line: str) -> Gpu | None:
    """One line of nvidia-smi's table; None for a line that is not one ("No devices found")."""
    cells = [cell.strip() for cell in line.rsplit(",", 4)]
    if len(cells) != 5:
        return None
    name, driver, capability, total, free = cells
    major, _, minor = capability.partition(".")
    try:
        sizes = int(total) * (1 << 20), int(free) * (1 << 20)
        return Gpu(name, driver, (int(major), int(minor or 0)), *sizes)
    except ValueError:
        return None


def free_memory() -> int | None:
    """Bytes of main memory that programs can still take; None where that can't be read."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


# Each prints one line of JSON. They run with this Python, in an empty folder, so that a file
# called torch.py beside the learner's work is not what gets imported.
_PROBES = {
    "torch": (
        "import torch; facts = {'cuda': torch.version.cuda, 'usable': torch.cuda.is_available()}"
    ),
    "triton": "import triton; facts = {'file': triton.__file__}",
    "cutlass": (
        "import cutlass; facts = {'file': getattr(cutlass, '__file__', '')}\nimport cutlass.cute"
    ),
    "kernel": (
        "from jupyter_client.kernelspec import KernelSpecManager\n"
        "facts = {'python': KernelSpecManager().get_kernel_spec('python3').argv[0]}"
    ),
}
_PROBE = """
import json, sys, warnings
warnings.simplefilter("ignore")
facts = {}
try:
    exec(sys.argv[1])
except BaseException as error:
    facts["error"] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
sys.stdout.write("\\nPROBE " + json.dumps(facts))
"""


def try_imports() -> dict[str, dict[str, Any]]:
    """What importing each package says: facts about it, or {"error": text}. All at once; about
    five seconds."""
    with tempfile.TemporaryDirectory() as folder:
        running = {
            name: subprocess.Popen(
                [sys.executable, "-c", _PROBE, source],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL,
                text=True,
                cwd=folder,
            )
            for name, source in _PROBES.items()
        }
        facts = {name: _answer(process) for name, process in running.items()}
    packages = _site_packages()
    facts["cutlass"]["pth"] = any(
        (folder / "nvidia_cutlass_dsl_packages.pth").exists() for folder in packages
    )
    facts["tools"] = {
        name: any(
            next(folder.glob(f"{place}/{name}"), None)
            for folder in packages
            for place in ("triton/backends/nvidia/bin", "nvidia/*/bin")
        )
        for name in ("nvdisasm", "cuobjdump")
    }
    return facts


def _answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    try:
        output, _ = process.communicate(timeout=IMPORT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return {"error": f"no answer in {IMPORT_SECONDS} s"}
    _, found, line = output.rpartition("PROBE ")
    if not found:
        return {"error": f"Python crashed (exit status {process.returncode})"}
    return json.loads(line)


def _site_packages() -> list[Path]:
    return [Path(entry) for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]
