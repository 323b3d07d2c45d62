"""What this machine can grade, and what to install. ``ladder doctor``, or
``python -m checkers.doctor`` where nothing else starts.

Only the standard library is used: the doctor must work in the environment that does not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from checkers.installation import CUTE, GIB, Installation
from checkers.wrapping import wrap

OK, WARN, FAIL = "ok", "warn", "fail"
MARKS = {OK: "✓", WARN: "!", FAIL: "✗"}

INSTALL = "pip install -c .ci/constraints.txt -e ."
CUTE_VERSION = "4.8.1"
# [lowest, first not allowed): what pyproject.toml asks for. tested: what the course was run with.
RANGES = {
    "torch": ((2, 11), (2, 15), "2.11 and 2.13"),
    "triton": ((3, 6), (3, 10), "3.6 and 3.9"),
}


@dataclass(frozen=True)
class Check:
    """One line of the report. state: "ok", "warn" (something is limited) or "fail" (something
    does not work). advice: what to do, empty when there is nothing to do."""

    name: str
    state: str
    found: str
    advice: str = ""


def examine(machine: Installation) -> list[Check]:
    """All checks, in the order in which a problem in one explains the next."""
    checks = [_python(machine), _platform(machine)]
    checks += [_torch(machine), _triton(machine), *_cute(machine)]
    checks += [*_gpu(machine), _compiler(machine), _disassemblers(machine), _jupyter(machine)]
    checks += [_course_folder(machine), _memory(machine), *_environment(machine)]
    return checks


SIMULATED = "all stages, on the simulator; speed is counted, not timed"


def abilities(machine: Installation, checks: Sequence[Check]) -> list[tuple[str, str]]:
    """For each kind of exercise, the stages that can be graded here, in words."""
    works = {check.name: check.state != FAIL for check in checks}
    gpu = machine.gpu is not None and works.get("GPU", False)
    speed = ", speed" if gpu else "; not speed (needs an NVIDIA GPU)"
    rows = [("Python puzzles", "all stages" if works["PyTorch"] else "nothing until PyTorch works")]
    if works["PyTorch"]:
        compiler = works["C++ compiler"] or gpu
        stages = f"source, compile, run, codegen{speed}"
        rows.append(("torch.compile", stages if compiler else "source; needs g++ for the rest"))
    if works["PyTorch"] and works["Triton"]:
        rows.append(("Triton", "all stages" if gpu else SIMULATED))
    if works["PyTorch"] and works["CuTe DSL"]:
        rows.append(("CuTe DSL", "all stages" if gpu else SIMULATED))
    return rows


# ---- the checks


def _python(machine: Installation) -> Check:
    found = ".".join(map(str, machine.python))
    if machine.python in ((3, 11), (3, 12)):
        return Check("Python", OK, found)
    advice = "Make the environment with Python 3.11 or 3.12: python3.12 -m venv .venv"
    return Check("Python", FAIL, f"{found}, the course needs 3.11 or 3.12", advice)


def _platform(machine: Installation) -> Check:
    found = f"{machine.system} {machine.architecture}"
    if machine.system == "Linux" and machine.architecture in ("x86_64", "AMD64"):
        return Check("Platform", OK, found)
    if machine.system == "Linux":
        advice = (
            "Untested. CuTe DSL may ask for NVIDIA's driver (libcuda.so.1) even to be imported."
        )
        return Check("Platform", WARN, found, advice)
    if machine.system == "Windows":
        advice = "Grade in WSL 2 (Ubuntu): Triton has no wheels for Windows."
        return Check("Platform", FAIL, found, advice)
    advice = (
        "Triton and CuTe DSL have no wheels for it. The lessons can be read; to grade, use Linux on "
        "x86-64: a virtual machine, a container, or any cloud notebook."
    )
    return Check("Platform", FAIL, found, advice)


def _package(machine: Installation, label: str, name: str) -> Check:
    """Version within the range, and importable."""
    low, high, tested = RANGES[name]
    version = machine.versions.get(name)
    if version is None:
        return Check(label, FAIL, "not installed", INSTALL)
    imported = machine.imported.get(name, {})
    if "error" in imported:
        advice = f"Reinstall it: pip install --force-reinstall --no-deps {name}=={version}"
        return Check(label, FAIL, f"{version}, import fails: {imported['error']}", advice)
    if not low <= _numbers(version) < high:
        wanted = f">={_dotted(low)},<{_dotted(high)}"
        advice = f"Tested with {tested}: pip install '{name}{wanted}'"
        return Check(label, WARN, f"{version}, outside of {wanted}", advice)
    return Check(label, OK, version)


def _torch(machine: Installation) -> Check:
    check = _package(machine, "PyTorch", "torch")
    facts = machine.imported.get("torch", {})
    if check.state == FAIL:
        return check
    cuda, usable = facts.get("cuda"), facts.get("usable")
    if machine.gpu is None:
        build = f"CUDA {cuda} build" if cuda else "CPU build"
        return Check("PyTorch", check.state, f"{check.found} ({build})", check.advice)
    if not cuda:
        advice = "pip install --force-reinstall torch, without a CPU index, to use the GPU."
        return Check("PyTorch", WARN, f"{check.found}: a CPU build beside a GPU", advice)
    if not usable:
        advice = f"The driver {machine.gpu.driver} must support CUDA {cuda}: {_driver_advice(cuda)}"
        return Check("PyTorch", WARN, f"{check.found} (CUDA {cuda}) can't use the GPU", advice)
    return Check("PyTorch", check.state, f"{check.found} (CUDA {cuda})", check.advice)


def _triton(machine: Installation) -> Check:
    return _package(machine, "Triton", "triton")


def _cute(machine: Installation) -> list[Check]:
    version = machine.versions.get(CUTE)
    reinstall = (
        f"pip uninstall -y {CUTE} {CUTE}-libs-base {CUTE}-libs-core {CUTE}-libs-cu12 "
        f"{CUTE}-libs-cu13; {INSTALL}"
    )
    imported = machine.imported.get("cutlass", {})
    if version is None:
        other = [name for name in ("cutlass", "nvidia-cutlass") if name in machine.versions]
        found = f"not installed ({other[0]} is another package)" if other else "not installed"
        remove = f"pip uninstall -y {' '.join(other)}; " if other else ""
        return [Check("CuTe DSL", FAIL, found, remove + INSTALL)]
    libraries = {
        name: found
        for name, found in machine.versions.items()
        if name.startswith(f"{CUTE}-libs-") and found != version
    }
    if libraries:
        parts = ", ".join(f"{name} {found}" for name, found in sorted(libraries.items()))
        return [Check("CuTe DSL", FAIL, f"{version} beside {parts}: they must match", reinstall)]
    if "error" in imported:
        if imported.get("pth") is False:
            found = f"{version}, but nvidia_cutlass_dsl_packages.pth is gone (lost in an upgrade)"
            return [Check("CuTe DSL", FAIL, found, reinstall)]
        return [Check("CuTe DSL", FAIL, f"{version}, import fails: {imported['error']}", reinstall)]
    file = str(imported.get("file", ""))
    if "nvidia_cutlass_dsl" not in file:
        advice = f"pip uninstall -y cutlass cutlass-py; then look for a cutlass.py beside {file}"
        return [Check("CuTe DSL", FAIL, f"`import cutlass` finds another package: {file}", advice)]
    if version != CUTE_VERSION:
        advice = f"In a new environment (an upgrade in place mixes files): {INSTALL}"
        return [Check("CuTe DSL", WARN, f"{version}, the course needs {CUTE_VERSION}", advice)]
    wheels = [name.rpartition("-")[2] for name in machine.versions if "dsl-libs-cu" in name]
    return [Check("CuTe DSL", OK, f"{version} ({', '.join(sorted(wheels))})")]


def _gpu(machine: Installation) -> list[Check]:
    gpu = machine.gpu
    if gpu is None:
        advice = "Fine for learning: kernels run on the simulator. Only timing needs one."
        return [Check("GPU", OK, "none found (nvidia-smi)", advice)]
    major, minor = gpu.capability
    name = f"{gpu.name}, sm_{major}{minor}, {gpu.free // GIB} of {gpu.memory // GIB} GiB free"
    if major < 8:
        check = Check("GPU", FAIL, name, "Triton needs compute capability 8.0 (Ampere) or higher.")
    elif major == 9 or major == 10:
        check = Check("GPU", OK, name)
    else:
        advice = "Chapters that need Hopper's or Blackwell's (sm_90, sm_100) own units will say so."
        check = Check("GPU", OK, name, advice)
    checks = [check]
    if gpu.free < 8 * GIB:
        advice = "Close what else uses the GPU; otherwise the largest cases may not fit."
        checks.append(Check("GPU memory", WARN, f"{gpu.free / GIB:.1f} GiB free", advice))
    bindings = machine.versions.get("cuda-bindings", "0")
    if _numbers(bindings) >= (13,) and _numbers(gpu.driver) < (580,):
        found = f"{gpu.driver} with cuda-bindings {bindings}, made for 580 or newer"
        advice = (
            "Update the driver; or, if CuTe DSL reports error 35: pip install 'cuda-bindings<13'"
        )
        checks.append(Check("Driver", WARN, found, advice))
    else:
        checks.append(Check("Driver", OK, gpu.driver))
    return checks


def _compiler(machine: Installation) -> Check:
    wanted = "gcc" if machine.gpu else "g++"
    path = machine.which(wanted) or machine.which("clang++")
    if path:
        return Check("C++ compiler", OK, path)
    user = "Triton builds its launcher" if machine.gpu else "torch.compile builds CPU kernels"
    advice = f"sudo apt install g++ python3-dev, or your system's: {user} with it."
    return Check("C++ compiler", FAIL, f"no {wanted}", advice)


def _disassemblers(machine: Installation) -> Check:
    found = [name for name in ("nvdisasm", "cuobjdump") if _tool(machine, name)]
    if "nvdisasm" in found:
        return Check("Disassembler", OK, ", ".join(found))
    advice = "pip install 'nvidia-cuda-nvdisasm>=13.4,<14'; without it SASS can't be read."
    return Check("Disassembler", WARN, "no nvdisasm", advice)


def _tool(machine: Installation, name: str) -> bool:
    packages = machine.imported.get("tools", {})
    return bool(machine.which(name) or packages.get(name))


def _jupyter(machine: Installation) -> Check:
    missing = [name for name in ("jupyterlab", "ipykernel") if name not in machine.versions]
    if missing:
        return Check("Jupyter", FAIL, f"{' and '.join(missing)} not installed", INSTALL)
    kernel = machine.imported.get("kernel", {})
    program = str(kernel.get("python", ""))
    if "error" in kernel:
        return Check("Jupyter", WARN, f"no python3 kernel: {kernel['error']}", INSTALL)
    if program and Path(program).parent != Path(sys.executable).parent and "/" in program:
        advice = "python -m ipykernel install --sys-prefix, and restart Jupyter."
        found = f"the kernel python3 runs {program}, not this environment"
        return Check("Jupyter", WARN, found, advice)
    return Check("Jupyter", OK, f"jupyterlab {machine.versions['jupyterlab']}, kernel python3")


def _course_folder(machine: Installation) -> Check:
    root = machine.root
    if not (root / "checkers" / "chapters").is_dir():
        advice = "Run it in the folder you cloned, or set LADDER_COURSE to that folder."
        return Check("Course folder", FAIL, f"no course in {root}", advice)
    for folder in (root, root / ".ladder", root / "chapters"):
        if folder.exists() and not os.access(folder, os.W_OK):
            advice = f"Progress and answers are kept there: chown or chmod {folder}, or clone anew."
            return Check("Course folder", FAIL, f"{folder} can't be written", advice)
    return Check("Course folder", OK, str(root))


def _memory(machine: Installation) -> Check:
    if machine.free_memory is None:
        return Check("Memory", OK, "unknown on this system")
    found = f"{machine.free_memory / GIB:.1f} GiB free"
    if machine.free_memory < 3 * GIB:
        advice = "A check takes up to 3 GiB: close other programs, or expect it to be killed."
        return Check("Memory", WARN, found, advice)
    return Check("Memory", OK, found)


_HARMFUL = {
    "TRITON_INTERPRET": "it turns Triton's compiler off; checks set it where they need it",
    "CUTE_DSL_DRYRUN": "CuTe DSL then runs nothing",
    "CUTE_DSL_ARCH": "CuTe DSL then compiles for that GPU, whichever is here",
    "CUTE_DSL_LIBS": "CuTe DSL then loads another runtime",
    "TORCH_COMPILE_DISABLE": "torch.compile then does nothing",
    "TORCHDYNAMO_DISABLE": "torch.compile then does nothing",
}


def _environment(machine: Installation) -> list[Check]:
    checks = []
    for name, effect in _HARMFUL.items():
        value = machine.environment.get(name, "")
        if value not in ("", "0"):
            checks.append(Check("Environment", WARN, f"{name}={value}: {effect}", f"unset {name}"))
    return checks


# ---- words


def _numbers(version: str) -> tuple[int, ...]:
    """ "2.13.0+cpu" -> (2, 13, 0)."""
    numbers = []
    for part in version.partition("+")[0].split("."):
        digits = "".join(character for character in part if character.isdigit())
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _driver_advice(cuda: object) -> str:
    if str(cuda).startswith("13"):
        return "update it to 580 or newer, or install a CUDA 12 build of PyTorch (pytorch.org)."
    return "update it (525 or newer), and see that `nvidia-smi` works for this user."


def as_text(machine: Installation, checks: Sequence[Check], width: int = 80) -> str:
    """The report: one line a check, what to do under it, then what can be graded here."""
    lines = []
    for check in checks:
        lines += _wrapped(f" {MARKS[check.state]} {check.name:<14}", check.found, width)
        if check.advice:
            lines += _wrapped(f" {'':16} → ", check.advice, width)
    lines += ["", "What this machine grades:"]
    for kind, stages in abilities(machine, checks):
        lines += _wrapped(f"   {kind:<15}", stages, width)
    problems = [check for check in checks if check.state == FAIL]
    if problems:
        names = ", ".join(check.name for check in problems)
        lines += ["", *_wrapped("", f"To be fixed first: {names}.", width)]
    return "\n".join(lines) + "\n"


def _wrapped(head: str, text: str, width: int) -> list[str]:
    return wrap(head, text, width) or [head]


def main() -> int:
    """Prints the report. Returns 1 when something does not work, else 0."""
    machine = Installation(root=Path(os.environ.get("LADDER_COURSE") or Path.cwd()))
    checks = examine(machine)
    sys.stdout.write(as_text(machine, checks))
    return int(any(check.state == FAIL for check in checks))


if __name__ == "__main__":
    sys.exit(main())
