"""Products and sums that ptxas makes one instruction of: a * b + c, rounded once.

A mul, add or sub that names no rounding leaves it to the assembler (PTX ISA 9.7.3.3 to 9.7.3.5:
"mul/add sequences with no rounding modifiers may be optimized to use fused-multiply-add"), and
ptxas does so unless it is called with --fmad=false. The manual doesn't say when. These are the
rules that ptxas 12.9 and 13.4 were seen to follow:

* A product is fused if all its uses are an add or sub of the same type and .ftz in the same basic
  block, and none takes it as both operands. It is then fused into each, and vanishes.
* Of two such products in one sum the one with fewer uses is fused, else the first operand; the other
  stays a product, and isn't fused from there on.
* The product has no .sat and no guard; the sum may have both.
* div.approx and div.full are products with the divisor's reciprocal. Of a constant that is the
  correctly rounded one.

Here the sum becomes an fma, or of a difference ``fms`` (a * b - c) or ``fnma`` (c - a * b), which PTX
doesn't have (instructions/contracted.py). Of a quotient it becomes ``fda`` (a / b + c), or fms or fnma
with "approx" or "full" in the place of the rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from checkers.simulator.ptx.program import (
    Address,
    Function,
    Immediate,
    Instruction,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)

TYPES = frozenset({"f32", "f64", "f32x2", "f16", "f16x2", "bf16", "bf16x2"})
QUOTIENTS = ("approx", "full")
_SUMS = ("add", "sub")
_ENDS = frozenset({"bra", "brx", "call", "ret", "exit", "trap"})


@dataclass
class _Product:
    """A mul. at: its index.  uses: index of each sum to the place of the product in it, 1 or 2."""

    at: int
    uses: dict[int, int] = field(default_factory=dict)
    fused: set[int] = field(default_factory=set)
    possible: bool = True


def contracted(function: Function) -> Function:
    """``function`` with products fused into sums as ptxas fuses them."""
    function = _multiplied(function)
    instructions = function.instructions
    products = _products(function)
    if not products:
        return function
    _drop_costly(products, instructions)
    changed = list(instructions)
    for at in sorted({use for product in products.values() for use in product.uses}):
        ours = [_register(each) for each in instructions[at].operands[1:]]
        two = [products[name] for name in ours if name in products]
        able = [product for product in two if product.possible]
        if not able:
            continue
        able[0].fused.add(at)
        for other in two:
            if other is not able[0]:
                other.possible = False  # it is an fma's addend now
        place = able[0].uses[at]
        changed[at] = _fused(instructions[able[0].at], instructions[at], place)
    gone = {p.at for p in products.values() if p.fused and p.fused == set(p.uses)}
    return _without(replace(function, instructions=tuple(changed)), gone)


def _register(operand: Operand) -> str:
    return operand.name if isinstance(operand, Register) else ""


def _names(operand: Operand) -> Iterator[str]:
    """The registers in an operand."""
    if isinstance(operand, Register):
        yield operand.name
    elif isinstance(operand, Vector):
        for element in operand.elements:
            yield from _names(element)
    elif isinstance(operand, Pair):
        yield from _names(operand.first)
        yield from _names(operand.second)
    elif isinstance(operand, Address):
        yield from _names(operand.base)
        for coordinate in operand.coordinates:
            yield from _names(coordinate)


def _plain(instruction: Instruction, opcodes: tuple[str, ...], allowed: set[str]) -> str:
    """The .ftz and type of an instruction that leaves its rounding open, or ""."""
    if instruction.opcode not in opcodes or not isinstance(instruction.operands[0], Register):
        return ""
    *flags, kind = instruction.modifiers or ("",)
    if kind not in TYPES or not set(flags) <= allowed:
        return ""
    return kind + (".ftz" if "ftz" in flags else "")


def _product_kind(instruction: Instruction) -> str:
    """As ``_plain``, of a mul or an approximate div."""
    if instruction.opcode == "div" and instruction.modifiers[0] in QUOTIENTS:
        instruction = replace(instruction, modifiers=instruction.modifiers[1:])
    return _plain(instruction, ("mul", "div"), {"ftz"})


def _multiplied(function: Function) -> Function:
    """``function`` with approximate divisions by a constant as products."""
    known: dict[str, Immediate | None] = {}
    for instruction in function.instructions:
        if instruction.operands:
            for name in _names(instruction.operands[0]):
                constant = instruction.operands[1] if instruction.opcode == "mov" else None
                once = name not in known and not instruction.guard
                known[name] = constant if once and isinstance(constant, Immediate) else None

    def changed(each: Instruction) -> Instruction:
        if each.opcode != "div" or each.modifiers[0] not in QUOTIENTS:
            return each
        divisor = each.operands[2]
        if isinstance(divisor, Register):
            divisor = known.get(divisor.name) or divisor
        if not isinstance(divisor, Immediate):
            return each
        # Of 0f constants and of what mov.b32 writes the lower half are the float's bits.
        bits = np.float32(divisor.value).view(np.uint32) if divisor.kind == "f64" else divisor.bits
        value = np.uint32(int(bits) & 0xFFFFFFFF).view(np.float32)
        if not 2.0**-126 <= abs(value) <= 2.0**126:
            return each
        inverse = np.float32(1) / value
        factor = Immediate("f32", float(inverse), int(inverse.view(np.uint32)))
        operands = (*each.operands[:2], factor)
        return replace(each, opcode="mul", modifiers=each.modifiers[1:], operands=operands)

    instructions = tuple(changed(each) for each in function.instructions)
    return replace(function, instructions=instructions)


def _blocks(function: Function) -> list[int]:
    """The number of the basic block of each instruction."""
    targets = {name for table in function.branch_tables.values() for name in table}
    for instruction in function.instructions:
        if instruction.opcode in _ENDS:
            targets |= {o.name for o in instruction.operands if isinstance(o, Symbol)}
    starts = {function.labels[name] for name in targets if name in function.labels}
    blocks, block = [], 0
    for at, instruction in enumerate(function.instructions):
        block += at in starts
        blocks.append(block)
        block += instruction.opcode in _ENDS
    return blocks


def _products(function: Function) -> dict[str, _Product]:
    """Register to product, for those all of whose uses could be fused."""
    instructions = function.instructions
    kinds = {
        at: kind
        for at, each in enumerate(instructions)
        if not each.guard and (kind := _product_kind(each))
    }
    products = {_register(instructions[at].operands[0]): _Product(at) for at in kinds}
    sources = {name for at in kinds for each in instructions[at].operands for name in _names(each)}
    blocks = _blocks(function)
    writes: dict[str, list[int]] = {}
    for at, instruction in enumerate(instructions):
        sum_of = _plain(instruction, _SUMS, {"ftz", "sat"})
        if instruction.guard:
            products.pop(instruction.guard.name, None)
        for place, operand in enumerate(instruction.operands):
            for name in _names(operand):
                if place == 0 and name in sources:
                    writes.setdefault(name, []).append(at)
                product = products.get(name)
                if product is None or product.at == at and place == 0:
                    continue
                fits = sum_of == kinds[product.at] and place > 0 and at not in product.uses
                if fits and at > product.at and blocks[at] == blocks[product.at]:
                    product.uses[at] = place
                else:
                    del products[name]
    return {
        name: product
        for name, product in products.items()
        if product.uses and _steady(instructions[product.at], product, writes)
    }


def _steady(mul: Instruction, product: _Product, writes: dict[str, list[int]]) -> bool:
    """Whether the factors are the same at the last use."""
    last = max(product.uses)
    factors = (name for operand in mul.operands[1:] for name in _names(operand))
    return not any(product.at < at < last for name in factors for at in writes.get(name, ()))


def _drop_costly(products: dict[str, _Product], instructions: tuple[Instruction, ...]) -> None:
    """Marks the products that share a sum with one of fewer uses."""
    for product in products.values():
        for at, place in product.uses.items():
            other = products.get(_register(instructions[at].operands[3 - place]))
            if other is not None and len(other.uses) < len(product.uses):
                product.possible = False


def _fused(mul: Instruction, total: Instruction, place: int) -> Instruction:
    """The sum with the product that is its operand ``place``."""
    opcode = "fma"
    if total.opcode == "sub":
        opcode = "fms" if place == 1 else "fnma"
    operands = (total.operands[0], *mul.operands[1:], total.operands[3 - place])
    how = mul.modifiers[0] if mul.opcode == "div" else "rn"
    if how != "rn" and opcode == "fma":
        opcode = "fda"
    return replace(total, opcode=opcode, modifiers=(how, *total.modifiers), operands=operands)


def _without(function: Function, gone: set[int]) -> Function:
    """``function`` without some instructions."""
    if not gone:
        return function
    kept, place = [], []
    for at, instruction in enumerate(function.instructions):
        place.append(len(kept))
        if at not in gone:
            kept.append(instruction)
    place.append(len(kept))
    labels = {name: place[at] for name, at in function.labels.items()}
    return replace(function, instructions=tuple(kept), labels=labels)
