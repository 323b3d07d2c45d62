"""The modifiers of an instruction, taken one by one, so that none is overlooked."""

from __future__ import annotations

from checkers.simulator.ptx.program import TYPE_BITS, Instruction


class Unsupported(Exception):
    """An instruction, or a form of one, that the simulator doesn't have.

    instruction: which one.  why: what exactly is missing, a sentence.
    """

    def __init__(self, instruction: Instruction, why: str) -> None:
        self.instruction = instruction
        self.why = why
        place = instruction.places[0] if instruction.places else None
        source = f", {place.file}:{place.line}" if place else ""
        super().__init__(
            f"the simulator can't run `{instruction.text}` (PTX line {instruction.line}{source}): {why}"
        )


class Modifiers:
    """What is left of ``instruction.modifiers``. Call done() when all should have been taken."""

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self.left = list(instruction.modifiers)

    def flag(self, name: str) -> bool:
        """Takes ``name``; whether it was there."""
        if name in self.left:
            self.left.remove(name)
            return True
        return False

    def one_of(self, *names: str, default: str | None = None) -> str:
        """Takes the first of the remaining modifiers that is among ``names``.

        Raises Unsupported when there is none and no default.
        """
        for modifier in self.left:
            if modifier in names:
                self.left.remove(modifier)
                return modifier
        if default is None:
            raise Unsupported(self.instruction, f"one of .{' .'.join(names)} was expected")
        return default

    def type(self) -> str:
        """Takes the last remaining modifier that is a type."""
        for at in range(len(self.left) - 1, -1, -1):
            if self.left[at] in TYPE_BITS:
                return self.left.pop(at)
        raise Unsupported(self.instruction, "a type such as .u32 was expected")

    def types(self, count: int) -> list[str]:
        """Takes the last ``count`` types, in the order in which they are written."""
        return [self.type() for _ in range(count)][::-1]

    def take(self) -> str | None:
        """Takes the first of those that remain, or gives None."""
        return self.left.pop(0) if self.left else None

    def drop_prefixed(self, prefix: str) -> list[str]:
        """Takes every modifier that begins with ``prefix``, such as "L2::"."""
        found = [m for m in self.left if m.startswith(prefix)]
        self.left = [m for m in self.left if not m.startswith(prefix)]
        return found

    def done(self) -> None:
        """Raises Unsupported naming what was not taken."""
        if self.left:
            raise Unsupported(self.instruction, f"the modifier .{self.left[0]} is not known here")
