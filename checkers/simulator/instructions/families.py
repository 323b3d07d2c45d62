"""Opcodes that exist for several kinds of types: a family for each kind, and one translator that
looks at the type and asks the family."""

from __future__ import annotations

from collections.abc import Callable

from checkers.simulator.machine.building import Builder, Translator, translates
from checkers.simulator.machine.kernel import Step
from checkers.simulator.ptx.modifiers import Modifiers, Unsupported
from checkers.simulator.ptx.program import Instruction


class Family:
    """The translators of the opcodes of one kind of types.

    name: for messages, "integer".  types: those of the kind.
    """

    every: list[Family] = []

    def __init__(self, name: str, *types: str) -> None:
        self.name = name
        self.types = types
        self.translators: dict[str, Translator] = {}
        Family.every.append(self)

    def __call__(self, *opcodes: str, section: str) -> Callable[[Translator], Translator]:
        """Registers a translator for these opcodes with the family's types. section: of the manual."""

        def register(translator: Translator) -> Translator:
            for opcode in opcodes:
                first = not any(opcode in family.translators for family in Family.every)
                self.translators[opcode] = translator
                if first:
                    translates(opcode, section=section)(by_type)
                else:
                    add_section(opcode, section)
            return translator

        return register


def add_section(opcode: str, section: str) -> None:
    """Names another section of the manual for an opcode."""
    from checkers.simulator.machine.building import SECTIONS

    SECTIONS[opcode] += f", {section}"


def by_type(instruction: Instruction, build: Builder) -> Step:
    """Leaves an instruction to the family of the first type among its modifiers."""
    for modifier in instruction.modifiers:
        for family in Family.every:
            if modifier in family.types:
                translator = family.translators.get(instruction.opcode)
                if translator is None:
                    raise Unsupported(
                        instruction, f"there is no {instruction.opcode} for .{modifier}"
                    )
                return translator(instruction, build)
    raise Unsupported(instruction, "a type such as .u32 was expected")


def only_type(modifiers: Modifiers, *allowed: str) -> str:
    """The type that is left, one of ``allowed``, and nothing else."""
    kind = modifiers.type()
    modifiers.done()
    if kind not in allowed:
        raise Unsupported(
            modifiers.instruction, f"one of .{' .'.join(allowed)} was expected, not .{kind}"
        )
    return kind
