"""Calls of the module's own functions, replaced by the functions' bodies.

PTX ISA 7.1, 9.7.12.5. Compilers inline nearly everything themselves; what is left (a function that
must not be inlined) needs no stack here either, as long as it doesn't call itself. Such a call, one
through a pointer, and one of a function without a body stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from checkers.simulator.ptx.program import (
    TYPE_BITS,
    Address,
    Function,
    Instruction,
    Module,
    Operand,
    Pair,
    Register,
    Symbol,
    Variable,
    Vector,
)


def inlined(module: Module, function: Function) -> Function:
    """``function`` with every call that can be replaced replaced."""
    return _Inliner(module).function(function, ())


@dataclass
class _Growing:
    """A function under construction."""

    registers: dict[str, str]
    variables: dict[str, Variable]
    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)


class _Inliner:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.calls = 0

    def function(self, function: Function, within: tuple[str, ...]) -> Function:
        """``within``: the functions whose bodies this one is being put into."""
        within = (*within, function.name)
        callees = [self._callee(each, within) for each in function.instructions]
        if not any(callees):
            return function
        growing = _Growing(
            dict(function.registers),
            {each.name: each for each in function.variables},
            tables=dict(function.branch_tables),
        )
        starts = []
        for instruction, callee in zip(function.instructions, callees, strict=True):
            starts.append(len(growing.instructions))
            if callee is None:
                growing.instructions.append(instruction)
            else:
                self._call(growing, instruction, self.function(callee, within))
        starts.append(len(growing.instructions))
        growing.labels |= {label: starts[at] for label, at in function.labels.items()}
        return replace(
            function,
            registers=growing.registers,
            variables=tuple(growing.variables.values()),
            instructions=tuple(growing.instructions),
            labels=growing.labels,
            branch_tables=growing.tables,
        )

    def _callee(self, instruction: Instruction, within: tuple[str, ...]) -> Function | None:
        """The function that a call can be replaced by."""
        if instruction.opcode != "call":
            return None
        called = instruction.operands[1]
        function = self.module.functions.get(called.name) if isinstance(called, Symbol) else None
        if function is None or not function.instructions or function.name in within:
            return None
        results, arguments = instruction.operands[0], instruction.operands[2]
        assert isinstance(results, Vector) and isinstance(arguments, Vector)
        fits = len(results.elements) == len(function.results)
        return function if fits and len(arguments.elements) == len(function.parameters) else None

    def _call(self, growing: _Growing, call: Instruction, callee: Function) -> None:
        self.calls += 1
        suffix = f"@{callee.name}{self.calls}"
        results, arguments = call.operands[0], call.operands[2]
        assert isinstance(results, Vector) and isinstance(arguments, Vector)
        body = _Body(growing, call, callee, suffix)
        end = f"end{suffix}"
        if call.guard is not None:
            around = replace(call.guard, negated=not call.guard.negated)
            body.add("bra", (), (Symbol(end),), guard=around)
        for parameter, argument in zip(callee.parameters, arguments.elements, strict=True):
            body.give(parameter, argument)
        after = [
            body.take(result, wanted)
            for result, wanted in zip(callee.results, results.elements, strict=True)
        ]
        body.copy(f"returned{suffix}")
        growing.labels[f"returned{suffix}"] = len(growing.instructions)
        for moves in after:
            for opcode, modifiers, operands in moves:
                body.add(opcode, modifiers, operands)
        growing.labels[end] = len(growing.instructions)


_Move = tuple[str, tuple[str, ...], tuple[Operand, ...]]


class _Body:
    """The body of ``callee`` in the place of one call, its names ending in ``suffix``."""

    def __init__(self, growing: _Growing, call: Instruction, callee: Function, suffix: str) -> None:
        self.growing, self.call, self.callee, self.suffix = growing, call, callee, suffix
        self.names: dict[str, str] = {}  # of the callee's variables and labels
        for name, kind in callee.registers.items():
            growing.registers[name + suffix] = kind
        for variable in callee.variables:
            name = variable.name + suffix
            if variable.space == "shared":
                # It is the function's, however often that is called; the rest is the call's. One
                # with a ":" came from a call in the callee.
                name = variable.name if ":" in variable.name else f"{callee.name}:{variable.name}"
            self._declare(variable, name)
        for label, at in callee.labels.items():
            self.names[label] = label + suffix
            growing.labels[label + suffix] = at  # from the body's start, see copy()
        for label, targets in callee.branch_tables.items():
            self.names[label] = label + suffix
            growing.tables[label + suffix] = tuple(each + suffix for each in targets)

    def _declare(self, variable: Variable, name: str) -> Symbol:
        self.growing.variables[name] = replace(variable, name=name)
        self.names[variable.name] = name
        return Symbol(name)

    def add(
        self,
        opcode: str,
        modifiers: tuple[str, ...],
        operands: tuple[Operand, ...],
        guard: Register | None = None,
    ) -> None:
        """An instruction that the call itself is said to be."""
        added = replace(
            self.call, opcode=opcode, modifiers=modifiers, operands=operands, guard=guard
        )
        self.growing.instructions.append(added)

    def give(self, parameter: Variable, argument: Operand) -> None:
        """Hands an argument to a parameter, before the body."""
        bits = f"b{TYPE_BITS[parameter.type]}"
        if parameter.space == "reg":
            register = Register(parameter.name + self.suffix, parameter.type)
            move = "pred" if parameter.type == "pred" else bits
            if isinstance(argument, Symbol):
                self.add("ld", ("param", bits), (register, Address(argument)))
            else:
                self.add("mov", (move,), (register, argument))
        elif isinstance(argument, Symbol):
            self.names[parameter.name] = argument.name  # which the callee only reads
        else:
            place = self._declare(replace(parameter, offset=0), parameter.name + self.suffix)
            self.add("st", ("param", bits), (Address(place), argument))

    def take(self, result: Variable, wanted: Operand) -> list[_Move]:
        """Connects a result with what the caller wants it in; what is to be done after the body."""
        bits = f"b{TYPE_BITS[result.type]}"
        if result.space == "reg":
            register = Register(result.name + self.suffix, result.type)
            if isinstance(wanted, Symbol):
                return [("st", ("param", bits), (Address(wanted), register))]
            move = "pred" if result.type == "pred" else bits
            return [("mov", (move,), (wanted, register))]
        if isinstance(wanted, Symbol):
            self.names[result.name] = wanted.name
            return []
        place = self._declare(replace(result, offset=0), result.name + self.suffix)
        return [("ld", ("param", bits), (wanted, Address(place)))]

    def copy(self, returned: str) -> None:
        """Puts the instructions here; ``ret`` becomes a branch to the label ``returned``."""
        start = len(self.growing.instructions)
        for label in self.callee.labels:
            self.growing.labels[label + self.suffix] += start
        for each in self.callee.instructions:
            copied = replace(
                each,
                operands=tuple(self._renamed(operand) for operand in each.operands),
                guard=None if each.guard is None else self._register(each.guard),
                places=each.places + self.call.places,
            )
            if each.opcode == "ret":
                copied = replace(copied, opcode="bra", modifiers=(), operands=(Symbol(returned),))
            self.growing.instructions.append(copied)

    def _register(self, register: Register) -> Register:
        if register.type == "special":
            return register
        return replace(register, name=register.name + self.suffix)

    def _renamed(self, operand: Operand) -> Operand:
        if isinstance(operand, Register):
            return self._register(operand)
        if isinstance(operand, Symbol):
            return Symbol(self.names.get(operand.name, operand.name))
        if isinstance(operand, Vector):
            return Vector(tuple(self._renamed(each) for each in operand.elements))
        if isinstance(operand, Pair):
            return Pair(self._renamed(operand.first), self._renamed(operand.second))
        if isinstance(operand, Address):
            base = self._renamed(operand.base)
            coordinates = tuple(self._renamed(each) for each in operand.coordinates)
            return replace(operand, base=base, coordinates=coordinates)
        return operand
