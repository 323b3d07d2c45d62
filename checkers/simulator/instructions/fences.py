"""Fences: PTX ISA 9.7.13.4 (membar, fence), and 9.7.13.13 (griddepcontrol), 9.7.19.2 (nanosleep).

The machine runs one instruction at a time on one memory, so a fence moves no data. What it does
is knowledge: which accesses of one thread another may rely on (memory/clocks.py).
"""

from __future__ import annotations

from checkers.simulator.machine.building import Builder, translates
from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.ptx.modifiers import Modifiers, Unsupported
from checkers.simulator.ptx.program import Immediate, Instruction
from checkers.simulator.waiting.fences import Fences, TensorMapFences
from checkers.simulator.waiting.mbarrier_lookup import Mbarriers

SCOPES = ("cta", "cluster", "gpu", "sys")
LEVELS = ("cta", "gl", "sys")


@translates("fence", "membar", section="9.7.13.4")
def fence(instruction: Instruction, build: Builder) -> Step:
    modifiers = build.modifiers(instruction)
    if modifiers.flag("proxy"):
        return _proxy(instruction, build, modifiers)
    if instruction.opcode == "membar":
        level = modifiers.one_of(*LEVELS)
        modifiers.done()
        return _ordering("sc", "gpu" if level == "gl" else level)
    if modifiers.flag("mbarrier_init"):
        modifiers.one_of("release")
        modifiers.one_of("cluster")
        modifiers.done()
        return _mbarrier_init
    sem = modifiers.one_of("sc", "acq_rel", "acquire", "release", default="acq_rel")
    modifiers.one_of("sync_restrict::shared::cta", "sync_restrict::shared::cluster", default="")
    scope = modifiers.one_of(*SCOPES)
    modifiers.done()
    return _ordering(sem, scope)


def _ordering(sem: str, scope: str) -> Step:
    """fence.acquire makes the thread's earlier strong reads acquire, fence.release its later
    strong writes release, as far as the scope reaches; acq_rel and sc do both."""
    acquires, releases = sem != "release", sem != "acquire"

    def step(group: Group) -> None:
        clocks, threads = group.wave.clocks, group.threads()
        if acquires:
            clocks.fence_acquire(threads, scope)
        if releases:
            clocks.fence_release(threads, scope)

    return step


def _mbarrier_init(group: Group) -> None:
    """The inits that these threads did may now be passed on by a relaxed arrive."""
    wave = group.wave
    done = wave.state(Mbarriers).last_init
    fenced = wave.state(Fences).init_fenced
    for thread in group.threads().tolist():
        if thread in done:
            fenced[thread] = done[thread]


def _proxy(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    if modifiers.flag("alias"):
        modifiers.done()
        return _nothing  # one address, one place: there are no aliases here
    if modifiers.flag("tensormap::generic"):
        return _tensormap(instruction, build, modifiers)
    if modifiers.flag("async::generic"):
        modifiers.one_of("acquire", "release")
        modifiers.one_of("sync_restrict::shared::cta", "sync_restrict::shared::cluster")
        modifiers.one_of("cluster")
        modifiers.done()
        return _proxy_async
    modifiers.one_of("async")
    # For one space only: the clocks keep one list for all, so the space is not told apart.
    modifiers.one_of("global", "shared::cta", "shared::cluster", default="")
    modifiers.done()
    return _proxy_async


def _proxy_async(group: Group) -> None:
    group.wave.clocks.proxy_fence(group.threads())


def _tensormap(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    way = modifiers.one_of("acquire", "release")
    modifiers.one_of(*SCOPES)
    modifiers.done()
    if way == "release":

        def release(group: Group) -> None:
            group.wave.clocks.fence_release(group.threads())
            group.wave.state(TensorMapFences).release()

        return release
    size = instruction.operands[1]
    if not isinstance(size, Immediate) or size.value != 128:
        raise Unsupported(instruction, "the size of this fence is always 128")
    address = build.address(instruction.operands[0])

    def acquire(group: Group) -> None:
        group.wave.clocks.fence_acquire(group.threads())
        state = group.wave.state(TensorMapFences)
        warps = group.threads() // 32
        for warp, at in zip(warps.tolist(), group.lanes(address(group)).tolist(), strict=True):
            state.acquire(warp, at)

    return acquire


def _nothing(group: Group) -> None:
    """Changes nothing that the simulator models."""


@translates("griddepcontrol", section="9.7.13.13")
def griddepcontrol(instruction: Instruction, build: Builder) -> Step:
    """Kernels run one after another here: what comes before is complete, and nothing waits."""
    modifiers = build.modifiers(instruction)
    modifiers.one_of("wait", "launch_dependents")
    modifiers.done()
    return _nothing


@translates("nanosleep", section="9.7.19.2")
def nanosleep(instruction: Instruction, build: Builder) -> Step:
    """Lets the others run; time itself is not modelled."""
    modifiers = build.modifiers(instruction)
    modifiers.one_of("u32")
    modifiers.done()
    build.source(instruction.operands[0], "u32")

    def step(group: Group) -> None:
        group.wave.polled(group)

    return step
