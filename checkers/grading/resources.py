"""What a kernel needs of the machine, and whether a machine has it.

The compiler checks none of these: a kernel with 512 KiB of shared memory or 2048 threads
compiles, and fails (or worse) at its launch.
"""

from __future__ import annotations

from dataclasses import dataclass

from checkers.grading import sass
from checkers.grading.artifacts import CompiledKernel
from checkers.grading.assembly import ptx_kernel


@dataclass(frozen=True)
class Limits:
    """Of one architecture; NVIDIA's CUDA C++ Programming Guide, "Compute Capabilities"."""

    gpu: str
    registers_per_thread: int = 255
    registers_per_block: int = 65536
    threads_per_block: int = 1024
    shared_bytes: int = 227 * 1024
    portable_cluster: int = 8
    largest_cluster: int = 16
    grid: tuple[int, int, int] = (2**31 - 1, 65535, 65535)


LIMITS = {"sm_90a": Limits("Hopper (H100, H200)"), "sm_100a": Limits("Blackwell (B200)")}

# On both the system keeps 1 KiB of shared memory of every block, which cuobjdump counts too.
RESERVED_SHARED = 1024

# ptxas gives registers to a warp in units of 256, 8 a thread.
_REGISTER_UNIT = 8


@dataclass(frozen=True)
class Usage:
    """Of one kernel for one target. registers: a thread's. stack, spill_loads, spill_stores:
    local memory in bytes a thread, and instructions that move to and from it. shared_bytes:
    static and dynamic, a block's. threads: a block's, None when nothing says. cluster: CTAs."""

    registers: int
    stack: int
    spill_loads: int
    spill_stores: int
    shared_bytes: int
    threads: int | None
    cluster: int


def parse_resource_usage(text: str) -> dict[str, dict[str, int]]:
    """What cuobjdump --dump-resource-usage prints: kernel -> {"REG": 18, "STACK": 0, ...}."""
    found: dict[str, dict[str, int]] = {}
    name = ""
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("Function ") and line.endswith(":"):
            name = line[len("Function ") : -1]
        elif line.startswith("REG:"):
            pairs = (word.split(":") for word in line.split())
            found[name] = {key: int(value) for key, value in pairs}
    return found


def measure(kernel: CompiledKernel) -> Usage:
    """Reads the cubin, and the PTX for what the launch didn't say.

    Raises sass.ToolError when the cubin can't be read, PtxSyntaxError when the PTX can't, KeyError
    when the kernel isn't in it.
    """
    parsed = ptx_kernel(kernel.ptx, kernel.name)
    table = parse_resource_usage(
        sass.run_tool("cuobjdump", ("--dump-resource-usage",), kernel.cubin)
    )
    row = table[parsed.name]
    spills = {"LDL": 0, "STL": 0}
    if row["STACK"] or row["LOCAL"]:
        for instruction in sass.disassemble(kernel.cubin)[parsed.name]:
            if instruction.parts[0] in spills:
                spills[instruction.parts[0]] += 1
    threads = kernel.threads
    if threads is None and parsed.threads is not None:
        threads = parsed.threads[0] * parsed.threads[1] * parsed.threads[2]
    cluster = kernel.cluster if kernel.cluster != (1, 1, 1) else parsed.cluster or (1, 1, 1)
    return Usage(
        registers=row["REG"],
        stack=row["STACK"] + row["LOCAL"],
        spill_loads=spills["LDL"],
        spill_stores=spills["STL"],
        shared_bytes=max(0, row["SHARED"] - RESERVED_SHARED) + kernel.shared_bytes,
        threads=threads,
        cluster=cluster[0] * cluster[1] * cluster[2],
    )


@dataclass(frozen=True)
class Problem:
    """A limit that is exceeded. kind: registers, spills, shared_memory, threads, cluster, grid."""

    kind: str
    says: str


def check_resources(
    kernel: CompiledKernel, usage: Usage, max_registers: int = 255
) -> list[Problem]:
    """Every limit of the target that the kernel exceeds, a sentence each; [] if it can run."""
    limits = LIMITS[kernel.target]
    where = f"{kernel.target}, {limits.gpu}"
    problems = []
    allowed = min(max_registers, limits.registers_per_thread)
    if usage.registers > allowed:
        says = (
            f"{usage.registers} registers a thread; at most {allowed} are allowed here ({where}): "
            "keep fewer values per thread at a time"
        )
        problems.append(Problem("registers", says))
    if usage.spill_loads or usage.spill_stores:
        says = (
            f"values spill from registers to local memory: {usage.spill_stores} stores and "
            f"{usage.spill_loads} loads, {usage.stack} bytes a thread ({where}). Give each thread "
            "fewer values, and index register tensors with compile-time numbers only"
        )
        problems.append(Problem("spills", says))
    if usage.shared_bytes > limits.shared_bytes:
        says = (
            f"{usage.shared_bytes / 1024:.1f} KiB of shared memory a block; a block can have "
            f"{limits.shared_bytes // 1024} KiB ({where}). It compiles, and the launch fails: use "
            "smaller tiles or fewer stages"
        )
        problems.append(Problem("shared_memory", says))
    problems += _thread_problems(usage, limits, where)
    problems += _cluster_problems(usage, limits, where)
    return problems + _grid_problems(kernel, limits)


def _thread_problems(usage: Usage, limits: Limits, where: str) -> list[Problem]:
    threads = usage.threads or 0
    if threads > limits.threads_per_block:
        says = (
            f"{threads} threads a block; a block can have {limits.threads_per_block} ({where}). "
            "It compiles, and the launch fails"
        )
        return [Problem("threads", says)]
    rounded = -(-usage.registers // _REGISTER_UNIT) * _REGISTER_UNIT
    if rounded * threads > limits.registers_per_block:
        says = (
            f"{usage.registers} registers a thread times {threads} threads is more than the "
            f"{limits.registers_per_block} registers of a multiprocessor ({where}): no block fits"
        )
        return [Problem("registers", says)]
    return []


def _cluster_problems(usage: Usage, limits: Limits, where: str) -> list[Problem]:
    if usage.cluster <= limits.largest_cluster:
        return []
    says = (
        f"clusters of {usage.cluster} blocks; {limits.portable_cluster} always work, "
        f"{limits.largest_cluster} if the kernel asks for a non-portable size ({where})"
    )
    return [Problem("cluster", says)]


def _grid_problems(kernel: CompiledKernel, limits: Limits) -> list[Problem]:
    if kernel.grid is None:
        return []
    problems = []
    for axis, blocks, cluster, most in zip(
        "xyz", kernel.grid, kernel.cluster, limits.grid, strict=True
    ):
        if blocks % cluster:
            says = (
                f"the grid has {blocks} blocks in {axis}, which clusters of {cluster} don't "
                "divide: the launch fails. Round the grid up to a multiple of the cluster, and "
                "let the extra blocks do nothing"
            )
            problems.append(Problem("cluster", says))
        if not 0 < blocks <= most:
            says = f"the grid has {blocks} blocks in {axis}; 1 to {most} are possible"
            problems.append(Problem("grid", says))
    return problems
