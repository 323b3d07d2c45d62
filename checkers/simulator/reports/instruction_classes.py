"""Which unit of an SM an instruction keeps busy: the class that it is counted under.

The classes follow the rows of the table of arithmetic throughput in NVIDIA's CUDA C++ Programming
Guide ("Maximize Instruction Throughput"), and the chapters of the PTX manual for the rest. PTX is not
yet machine code: ptxas fuses, drops and splits instructions. Classes of PTX show the mix, not the
exact number that the GPU issues.
"""

from __future__ import annotations

from checkers.simulator.ptx.program import Instruction

CLASSES: dict[str, str] = {
    "fp32": "float arithmetic: add, mul, fma, compare, min and max",
    "fp16": "packed or single f16 and bf16 arithmetic",
    "fp64": "double arithmetic",
    "integer": "integer, logic, shift, select and move",
    "special": "of the special function unit: ex2, lg2, rcp, rsqrt, sqrt, sin, cos, tanh, div",
    "convert": "conversions between types",
    "exchange": "between lanes: shuffle, vote, match, redux",
    "load": "loads of any memory",
    "store": "stores of any memory",
    "atomic": "atomics and reductions on memory",
    "copy": "starting, committing and waiting for asynchronous copies",
    "barrier": "barriers, mbarriers and fences",
    "matrix": "tensor cores, with their fences, commits and waits",
    "control": "branches, calls, exit and the rest",
}

_BY_OPCODE = {
    "special": "ex2 lg2 rcp rsqrt sqrt sin cos tanh",
    "convert": "cvt cvta",
    "exchange": "shfl vote match redux activemask elect movmatrix",
    "load": "ld ldu ldmatrix",
    "store": "st stmatrix",
    "atomic": "atom red multimem",
    "barrier": "bar barrier mbarrier fence membar griddepcontrol",
    "matrix": "mma wmma wgmma tcgen05",
    "control": "bra brx call ret exit trap brkpt nanosleep pmevent setmaxnreg discard",
}
_CLASS_OF = {opcode: name for name, words in _BY_OPCODE.items() for opcode in words.split()}
_FLOATS = {"f32": "fp32", "f32x2": "fp32", "f64": "fp64"}
_HALVES = {"f16", "f16x2", "bf16", "bf16x2"}
_ARITHMETIC = {
    "add", "sub", "mul", "mad", "fma", "fms", "fnma", "fda", "neg", "abs", "min", "max", "setp", "set", "testp",
    "copysign", "slct",
}  # fmt: skip


def instruction_class(instruction: Instruction) -> str:
    """One of ``CLASSES``."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode == "cp" or (opcode == "st" and "async" in modifiers):
        return "copy"
    if opcode in ("st", "red") and any(part.startswith("async") for part in modifiers):
        return "copy"
    if opcode in _CLASS_OF:
        return _CLASS_OF[opcode]
    if opcode == "div":
        return "special" if "f32" in modifiers else "fp64" if "f64" in modifiers else "integer"
    if opcode in _ARITHMETIC:
        for part in modifiers:
            if part in _FLOATS:
                return _FLOATS[part]
            if part in _HALVES:
                return "fp16"
    return "integer"
