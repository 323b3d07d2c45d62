"""Control flow: PTX ISA 9.7.12 (bra, brx.idx, call, ret, exit) and 9.7.19 (trap, brkpt, pmevent).

A branch parts a group into the lanes that take it and those that don't. Calls are those of a
kernel's library functions: vprintf and __assertfail; a compiler inlines everything else.
"""

from __future__ import annotations

import numpy as np

from checkers.simulator.machine.building import Builder, translates
from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.machine.wave import Jump
from checkers.simulator.ptx.modifiers import Unsupported
from checkers.simulator.ptx.program import Instruction, Symbol, Vector
from checkers.simulator.reports.faults import Kind, Stop
from checkers.simulator.reports.printing import format_printf, text_at


@translates("bra", section="9.7.12.3")
def bra(instruction: Instruction, build: Builder) -> Step:
    """``bra{.uni} label``: .uni promises what is checked anyway."""
    modifiers = build.modifiers(instruction)
    modifiers.flag("uni")
    modifiers.done()
    (target,) = instruction.operands
    if not isinstance(target, Symbol) or target.name not in build.kernel.function.labels:
        raise Unsupported(instruction, "a label of this function was expected")
    there = build.kernel.function.labels[target.name]
    if instruction.guard is None:

        def always(group: Group) -> Jump:
            group.pc = there
            return Jump(group)

        return always
    taken_if = build.source(instruction.guard, "pred")

    def branch(group: Group) -> Jump:
        predicate = taken_if(group)
        taken = group.narrowed(predicate)
        stays = None if taken is group else group.narrowed(~predicate)
        here = group.pc + 1
        parts = []
        if stays is not None and taken is not None:
            both = len(np.intersect1d(stays.warps, taken.warps))
            if both:
                group.wave.counters.add("divergent_branches", both, instruction)
        if stays is not None:
            stays.pc = here
            parts.append(stays)
        if taken is not None:
            taken.pc = there
            parts.append(taken)
        return Jump(*parts)

    return branch


@translates("brx", section="9.7.12.4")
def brx(instruction: Instruction, build: Builder) -> Step:
    """``brx.idx{.uni} index, table``: each lane goes to the label with its index."""
    modifiers = build.modifiers(instruction)
    modifiers.one_of("idx")
    modifiers.flag("uni")
    modifiers.done()
    if instruction.guard is not None:
        raise Unsupported(instruction, "brx.idx under a predicate is not done")
    function = build.kernel.function
    index = build.source(instruction.operands[0], "u32")
    table = instruction.operands[1]
    if not isinstance(table, Symbol) or table.name not in function.branch_tables:
        raise Unsupported(instruction, "the name of a .branchtargets list was expected")
    targets = [function.labels[name] for name in function.branch_tables[table.name]]

    def branch(group: Group) -> Jump:
        chosen = np.broadcast_to(index(group), (group.n, 32))
        parts = []
        for at, pc in enumerate(targets):
            part = group.narrowed(chosen == at)
            if part is group:
                part = group.only_warps(np.arange(group.n))
            if part is not None:
                part.pc = pc
                parts.append(part)
        return Jump(*parts)

    return branch


@translates("ret", "exit", section="9.7.12.6")
def ret(instruction: Instruction, build: Builder) -> Step:
    """``ret`` and ``exit`` of a kernel: the threads are done."""
    modifiers = build.modifiers(instruction)
    modifiers.flag("uni")
    modifiers.done()

    def leave(group: Group) -> list[Group]:
        group.wave.exit(group)
        return []

    return leave


@translates("trap", "brkpt", section="9.7.19.1, 9.7.19.3")
def trap(instruction: Instruction, build: Builder) -> Step:
    """``trap``: the kernel gives up, and so does the run."""
    build.modifiers(instruction).done()

    def stop(group: Group) -> None:
        group.wave.faults.report(
            Kind.TRAP, f"The kernel executed `{instruction.opcode}`: it gave up.", group=group
        )
        raise Stop(f"the kernel executed {instruction.opcode}")

    return stop


@translates("pmevent", section="9.7.19.2")
def pmevent(instruction: Instruction, build: Builder) -> Step:
    """``pmevent``: a mark for profilers; nothing to do."""
    modifiers = build.modifiers(instruction)
    modifiers.flag("mask")
    modifiers.done()
    return lambda group: None


@translates("call", section="9.7.12.5")
def call(instruction: Instruction, build: Builder) -> Step:
    """``call{.uni} (result), vprintf, (format, arguments)`` and ``__assertfail``."""
    modifiers = build.modifiers(instruction)
    modifiers.flag("uni")
    modifiers.done()
    operands = list(instruction.operands)
    name = next((o.name for o in operands if isinstance(o, Symbol)), "")
    vectors = [o for o in operands if isinstance(o, Vector)]
    if name == "vprintf":
        results, arguments = vectors[0], vectors[-1]
        addresses = [build.source(o, "u64") for o in arguments.elements]
        answer = build.source(results.elements[0], "u64")

        def printf(group: Group) -> None:
            memory = group.wave.memory
            layout, values = (
                memory.load(group, "local", np.broadcast_to(read(group), (group.n, 32)), 8, 1)[0]
                for read in addresses
            )
            for lane in range(len(group.threads())):
                one = group.lanes(layout)[lane], group.lanes(values)[lane]
                part = group.narrowed(group.spread(np.arange(len(group.threads())) == lane, False))
                text = text_at(part, int(one[0]))
                group.wave.output.append(format_printf(part, text, int(one[1])))
            ones = np.ones((group.n, 32), np.uint32)
            where = np.broadcast_to(answer(group), (group.n, 32))
            memory.store(group, "local", where, [ones], 4)

        return printf
    if name == "__assertfail":
        arguments = vectors[-1]
        message = build.source(arguments.elements[0], "u64")

        def fail(group: Group) -> None:
            address = np.broadcast_to(message(group), (group.n, 32))
            where = group.wave.memory.load(group, "local", address, 8, 1)[0]
            first = group.narrowed(group.spread(np.arange(len(group.threads())) == 0, False))
            text = text_at(first, int(group.lanes(where)[0]))
            group.wave.faults.report(
                Kind.TRAP, f"An assertion in the kernel failed: {text}.", group=group
            )
            raise Stop("an assertion in the kernel failed")

        return fail
    raise Unsupported(instruction, f"the function {name!r} can't be called here")
