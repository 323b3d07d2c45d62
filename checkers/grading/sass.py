"""The machine code of a cubin, as nvdisasm shows it, in the same form as PTX.

nvdisasm comes with Triton, and as the package nvidia-cuda-nvdisasm; neither needs a GPU.
"""

from __future__ import annotations

import importlib.util
import subprocess
import tempfile
from functools import cache, lru_cache
from pathlib import Path

from checkers.grading.assembly import Instruction
from checkers.simulator.ptx.program import Place

# Memory instructions that move registers, with the width as a part of the opcode.
_MOVERS = {"LD", "LDG", "LDS", "LDL", "LDC", "ST", "STG", "STS", "STL", "LDGSTS", "ATOM", "ATOMG"}
_MOVERS |= {"ATOMS", "RED", "REDG", "LDSM", "STSM", "STAS"}
_WIDTHS = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "128": 128, "256": 256}

_SECONDS = 30


class ToolError(Exception):
    """A tool that reads cubins is missing or refused one; the text says what to do."""


@cache
def find_tool(name: str) -> Path:
    """Where nvdisasm or cuobjdump is. Raises ToolError with what to install."""
    folders = []
    for package, inside in (
        ("triton", "backends/nvidia/bin"),
        ("nvidia", "cuda_nvdisasm/bin"),
        ("nvidia", "cu13/bin"),
    ):
        spec = importlib.util.find_spec(package)
        places = list(spec.submodule_search_locations or ()) if spec else []
        folders += [Path(place) / inside for place in places]
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    raise ToolError(
        f"{name} was not found: it comes with triton; install it with pip install triton"
    )


def run_tool(name: str, options: tuple[str, ...], cubin: bytes) -> str:
    """Runs a tool on a cubin and returns what it prints. Raises ToolError when it fails."""
    tool = find_tool(name)
    with tempfile.TemporaryDirectory(prefix="ladder_") as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        try:
            done = subprocess.run(
                [tool, *options, path],
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolError(f"{name} did not run: {error}") from error
    if done.returncode:
        raise ToolError(f"{name} can't read this cubin: {done.stderr.strip()[:300]}")
    return done.stdout


@lru_cache(maxsize=64)  # every rule reads the same few cubins again
def disassemble(cubin: bytes) -> dict[str, tuple[Instruction, ...]]:
    """Kernel name -> its instructions, for every kernel of a cubin. Raises ToolError."""
    return parse(run_tool("nvdisasm", ("-c", "-gi"), cubin))


def parse(text: str) -> dict[str, tuple[Instruction, ...]]:
    """What ``nvdisasm -c -gi`` prints, by kernel. NOPs that pad the code are left out."""
    kernels: dict[str, list[Instruction]] = {}
    current: list[Instruction] = []
    places: list[Place] = []
    after_code = True
    for line in text.splitlines():
        line = line.strip()
        if line.startswith(".text.") and line.endswith(":"):
            current = kernels.setdefault(line[len(".text.") : -1], [])
        elif line.startswith("//## File"):
            # The lines of one place: the innermost file first, then where it was inlined.
            if after_code:
                places = []
            places.append(_place(line))
            after_code = False
        elif line.startswith("/*") and line.partition("*/")[2].strip():
            after_code = True
            instruction = _instruction(line.partition("*/")[2], tuple(places))
            if instruction.opcode != "NOP":
                current.append(instruction)
    return {name: tuple(found) for name, found in kernels.items()}


def _place(line: str) -> Place:
    """``//## File "/a/b.py", line 15 inlined at "/c.py", line 3`` -> /a/b.py, 15."""
    parts = line.split('"')
    number = parts[2].replace(",", " ").split()[1] if len(parts) > 2 else "0"
    return Place(parts[1] if len(parts) > 1 else "", int(number) if number.isdigit() else 0)


def _instruction(text: str, places: tuple[Place, ...]) -> Instruction:
    words = text.partition(";")[0].split() or [""]
    opcode = words[1] if words[0].startswith("@") else words[0]
    return Instruction(opcode, " ".join(words), bits_moved(opcode), places)


def bits_moved(opcode: str) -> int:
    """Bits that a SASS instruction moves for one thread: LDG.E.128 128, LDG.E 32, FADD 0."""
    first, *parts = opcode.split(".")
    if first not in _MOVERS:
        return 0
    if first in ("LDSM", "STSM"):  # LDSM.16.M88.4: four 8x8 matrices, a register each
        return 32 * (int(parts[-1]) if parts[-1] in ("2", "4") else 1)
    return next((_WIDTHS[part] for part in parts if part in _WIDTHS), 32)
