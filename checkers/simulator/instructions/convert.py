"""cvt: PTX ISA 9.7.9.21, 9.7.9.22.

==================  =======================================================================
strategy            forms
==================  =======================================================================
float to float      .rn .rz .rm .rp where precision is lost; .rni ... to an integral value;
                    .ftz .sat; .relu .satfinite from f32 to f16, bf16; tf32 also .rna
float to integer    .rni .rzi .rmi .rpi; clamps; NaN gives 0, or the top bit alone from f64
                    and to 64 bits
integer to float    .rn .rz .rm .rp .sat
integer to integer  .sat clamps, else the low bits
packed              two f32 to f16x2, bf16x2, e4m3x2, e5m2x2, e2m3x2, e3m2x2, e2m1x2, ue8m0x2:
                    the first goes to the upper half; f16x2 and bf16x2 to the narrower ones;
                    those to f16x2 (ue8m0x2 to bf16x2)
stochastic          .rs with random bits, to f16x2 and bf16x2
cvt.pack            two s32 clamped to 2 to 16 bits
==================  =======================================================================

A NaN becomes the canonical one of its format, except that bf16 to f32 only appends zeros, and that
one of f64 keeps its sign and what has room of its payload.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from checkers.simulator.arithmetic import convert, formats, half, single
from checkers.simulator.instructions.half import raw_source
from checkers.simulator.machine.building import Builder, Reader, translates
from checkers.simulator.machine.group import Group
from checkers.simulator.machine.kernel import Step
from checkers.simulator.machine.registers import NUMPY
from checkers.simulator.ptx.modifiers import Modifiers, Unsupported
from checkers.simulator.ptx.program import Instruction, Operand

ROUNDINGS = ("rn", "rz", "rm", "rp")
INTEGRAL = ("rni", "rzi", "rmi", "rpi")
HALVES = ("f16", "bf16")
FLOATS = (*HALVES, "f32", "f64")
INTEGERS = tuple(f"{sign}{bits}" for sign in "us" for bits in (8, 16, 32, 64))
PAIRS = ("f16x2", "bf16x2")
TINY = ("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "e2m1x2", "ue8m0x2")
_TYPES = {*FLOATS, *INTEGERS, *PAIRS, *TINY, "tf32"}

# Bits of precision, and of the exponent: a conversion rounds where either falls.
_PRECISION = {"f16": (11, 5), "bf16": (8, 8), "f32": (24, 8), "f64": (53, 11)}


@translates("cvt", section="9.7.9.21, 9.7.9.22")
def cvt(instruction: Instruction, build: Builder) -> Step:
    """``cvt{.rnd}{.ftz}{.sat}.dtype.atype d, a``, and the packed forms."""
    modifiers = build.modifiers(instruction)
    if modifiers.flag("pack"):
        return _pack_integers(instruction, build, modifiers)
    kinds = [m for m in modifiers.left if m in _TYPES]
    if len(kinds) != 2:
        raise Unsupported(instruction, "two types that can be converted were expected")
    modifiers.left = [m for m in modifiers.left if m not in _TYPES]
    target, source = kinds
    if target == "tf32" and source == "f32":
        return _to_tf32(instruction, build, modifiers)
    if target in PAIRS and source == "f32":
        return _to_pair(instruction, build, modifiers, target)
    if target in TINY and source in ("f32", *PAIRS):
        return _to_tiny(instruction, build, modifiers, target, source)
    if target in PAIRS and source in TINY:
        return _from_tiny(instruction, build, modifiers, target, source)
    scalar = (*FLOATS, *INTEGERS)
    if target not in scalar or source not in scalar:
        raise Unsupported(instruction, f"there is no conversion of .{source} to .{target}")
    if target in FLOATS:
        strategy = _float_to_float if source in FLOATS else _integer_to_float
    else:
        strategy = _float_to_integer if source in FLOATS else _integer_to_integer
    return strategy(instruction, build, modifiers, target, source)


def _raw(kind: str) -> str:
    """The type that a scalar is read and written as: raw bits for f16 and bf16."""
    return "b16" if kind in HALVES else kind


def _unary(
    instruction: Instruction, build: Builder, target: str, source: str, function: Callable[..., Any]
) -> Step:
    """A step that applies ``function``, of raw bits for f16 and bf16, to one operand."""
    if len(instruction.operands) != 2:
        raise Unsupported(instruction, "d and a were expected")
    write = build.destination(instruction.operands[0], _raw(target))
    read = _reader(build, instruction.operands[1], source)
    return lambda group: write(group, function(read(group)))


def _reader(build: Builder, operand: Operand, kind: str) -> Reader:
    return raw_source(build, operand, kind) if kind in HALVES else build.source(operand, kind)


# --- the four strategies -----------------------------------------------------------------------


def _float_to_float(
    instruction: Instruction, build: Builder, modifiers: Modifiers, target: str, source: str
) -> Step:
    integral = modifiers.one_of(*INTEGRAL, default="none")
    mode = modifiers.one_of(*ROUNDINGS, default="none")
    ftz, sat = modifiers.flag("ftz"), modifiers.flag("sat")
    relu, finite = modifiers.flag("relu"), modifiers.flag("satfinite")
    modifiers.done()
    loses = any(t < s for t, s in zip(_PRECISION[target], _PRECISION[source], strict=True))
    if (loses and mode == "none") or (integral != "none" and target != source):
        raise Unsupported(instruction, "a rounding such as .rn was expected")
    if mode != "none" and not loses:
        raise Unsupported(instruction, f".{mode} is of conversions that lose precision")
    if (relu or finite) and (source != "f32" or target not in ("f16", "bf16")):
        raise Unsupported(instruction, ".relu and .satfinite are of .f32 to .f16 or .bf16")
    if ftz and "f32" not in (target, source):
        raise Unsupported(instruction, ".ftz is of .f32")
    if sat and target == "bf16":
        raise Unsupported(instruction, "there is no .sat for .bf16")
    rounding = "rn" if mode == "none" else mode
    if source == target and integral == "none" and not (ftz or sat):
        return _unary(instruction, build, target, source, lambda a: a)
    if source == "bf16" and target == "f32" and not (ftz or sat):
        return _unary(instruction, build, target, source, lambda a: half.widen(a, "bf16"))

    # An H200 keeps subnormals on the way to f16, where .rm and .rp can see them.
    flushes = ftz and source == "f32" and target != "f16"

    def function(a: Any) -> Any:
        values = convert.widen(a, source)
        if flushes:
            values = single.canonical(single.flush(values))
        if integral != "none":
            values = convert.to_integral(values, integral)
        if sat:
            values = convert.saturate(values)
        result = convert.narrow(values, target, rounding, finite=finite, relu=relu)
        if target == "f32" and ftz:
            result = single.flush(result)
        return single.canonical(result) if target == "f32" and source != "f64" else result

    return _unary(instruction, build, target, source, function)


def _float_to_integer(
    instruction: Instruction, build: Builder, modifiers: Modifiers, target: str, source: str
) -> Step:
    mode = modifiers.one_of(*INTEGRAL)
    ftz = modifiers.flag("ftz")
    modifiers.flag("sat")  # it clamps anyway
    modifiers.done()
    if ftz and source != "f32":
        raise Unsupported(instruction, ".ftz is of .f32")
    dtype = NUMPY[target]
    nan = convert.nan_as_integer(source, dtype)

    def function(a: Any) -> Any:
        values = convert.widen(a, source)
        return convert.to_integer(single.flush(values) if ftz else values, dtype, mode, nan)

    return _unary(instruction, build, target, source, function)


def _integer_to_float(
    instruction: Instruction, build: Builder, modifiers: Modifiers, target: str, source: str
) -> Step:
    mode = modifiers.one_of(*ROUNDINGS)
    sat = modifiers.flag("sat")
    modifiers.flag("ftz")  # no integer is a subnormal
    modifiers.done()
    if sat and target == "bf16":
        raise Unsupported(instruction, "there is no .sat for .bf16")
    if sat:  # into [0, 1]: before the conversion, which keeps 0 and 1
        return _unary(
            instruction,
            build,
            target,
            source,
            lambda a: convert.from_integer(np.clip(a, 0, 1), target, mode),
        )
    return _unary(
        instruction, build, target, source, lambda a: convert.from_integer(a, target, mode)
    )


def _integer_to_integer(
    instruction: Instruction, build: Builder, modifiers: Modifiers, target: str, source: str
) -> Step:
    sat = modifiers.flag("sat")
    modifiers.done()
    dtype = NUMPY[target]
    if sat:
        return _unary(instruction, build, target, source, lambda a: convert.clamp(a, dtype))
    return _unary(instruction, build, target, source, lambda a: a.astype(dtype))


# --- tf32 and pairs ----------------------------------------------------------------------------


def _to_tf32(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    mode = modifiers.one_of("rna", "rn", "rz")
    finite, relu = modifiers.flag("satfinite"), modifiers.flag("relu")
    modifiers.done()
    if relu and mode == "rna":
        raise Unsupported(instruction, ".rna has no .relu")
    return build.elementwise(
        instruction,
        lambda a: convert.to_tf32(a, mode, finite=finite, relu=relu),
        "b32",
        ("f32",),
    )


def _to_pair(instruction: Instruction, build: Builder, modifiers: Modifiers, target: str) -> Step:
    """Two f32 to f16x2 or bf16x2; .rs takes random bits as a third operand."""
    mode = modifiers.one_of("rn", "rz", "rs")
    options = {"finite": modifiers.flag("satfinite"), "relu": modifiers.flag("relu")}
    modifiers.done()
    scalar = target.removesuffix("x2")
    if mode == "rs":
        return _stochastic_pair(instruction, build, scalar, options)
    return _two(instruction, build, "u16x2", lambda a: convert.narrow(a, scalar, mode, **options))


def _two(
    instruction: Instruction, build: Builder, result: str, function: Callable[..., Any]
) -> Step:
    """``function`` of each of two f32 operands: the first is the upper part of the result."""
    if len(instruction.operands) != 3:
        raise Unsupported(instruction, "d, a and b were expected")
    write = build.destination(instruction.operands[0], result)
    upper, lower = (build.source(operand, "f32") for operand in instruction.operands[1:])

    def step(group: Group) -> None:
        pair = np.empty((group.n, 32, 2), np.float32)
        pair[..., 0], pair[..., 1] = lower(group), upper(group)
        write(group, function(pair))

    return step


def _stochastic_pair(
    instruction: Instruction, build: Builder, scalar: str, options: dict[str, bool]
) -> Step:
    if len(instruction.operands) != 4:
        raise Unsupported(instruction, "d, a, b and the random bits were expected")
    write = build.destination(instruction.operands[0], "u16x2")
    upper, lower = (build.source(operand, "f32") for operand in instruction.operands[1:3])
    random = build.source(instruction.operands[3], "u16x2")
    count = 13 if scalar == "f16" else 16  # as many as the conversion discards
    form = formats.FORMATS[scalar]

    def step(group: Group) -> None:
        pair = np.empty((group.n, 32, 2), np.float32)
        pair[..., 0], pair[..., 1] = lower(group), upper(group)
        bits = random(group) & np.uint16((1 << count) - 1)
        write(group, formats.encode(pair, form, "rs", random=(bits, count), **options))

    return step


# --- formats of at most 8 bits -----------------------------------------------------------------


def _to_tiny(
    instruction: Instruction, build: Builder, modifiers: Modifiers, target: str, source: str
) -> Step:
    """Two f32, or an f16x2 or bf16x2, to two narrow floats."""
    encode = _tiny_encoder(modifiers, target.removesuffix("x2"))
    modifiers.done()
    if source == "f32":
        if target != "e2m1x2":
            return _two(instruction, build, "e4m3x2", lambda a: encode(a).view(NUMPY["e4m3"]))
        write = build.destination(instruction.operands[0], "b8")
        if len(instruction.operands) != 3:
            raise Unsupported(instruction, "d, a and b were expected")
        upper, lower = (build.source(operand, "f32") for operand in instruction.operands[1:])
        return lambda group: write(group, encode(upper(group)) << 4 | encode(lower(group)))
    if len(instruction.operands) != 2:
        raise Unsupported(instruction, "d and a were expected")
    scalar = source.removesuffix("x2")
    read = raw_source(build, instruction.operands[1], source)
    if target == "e2m1x2":
        write = build.destination(instruction.operands[0], "b8")

        def nibbles(group: Group) -> None:
            codes = encode(half.widen(read(group), scalar))
            write(group, codes[..., 1] << 4 | codes[..., 0])

        return nibbles
    write = build.destination(instruction.operands[0], "e4m3x2")
    return lambda group: write(group, encode(half.widen(read(group), scalar)).view(NUMPY["e4m3"]))


def _tiny_encoder(modifiers: Modifiers, name: str) -> Callable[[Any], Any]:
    """From float32 to codes, uint8, with the modifiers."""
    if name == "ue8m0":
        mode, finite = modifiers.one_of("rz", "rp"), modifiers.flag("satfinite")
        return lambda values: formats.encode_power(values, mode, finite=finite)
    modifiers.one_of("rn")
    modifiers.one_of("satfinite")
    relu, form = modifiers.flag("relu"), formats.FORMATS[name]
    return lambda values: formats.encode(values, form, "rn", finite=True, relu=relu)


def _from_tiny(
    instruction: Instruction, build: Builder, modifiers: Modifiers, target: str, source: str
) -> Step:
    """Two narrow floats to f16x2; ue8m0x2 to bf16x2. Exact, but for the range of f16."""
    modifiers.one_of("rn")
    relu = modifiers.flag("relu")
    modifiers.done()
    name, scalar = source.removesuffix("x2"), target.removesuffix("x2")
    if (name == "ue8m0") != (scalar == "bf16") or (relu and name == "ue8m0"):
        raise Unsupported(instruction, f"there is no conversion of .{source} to .{target}")
    write = build.destination(instruction.operands[0], "u16x2")
    read = build.source(instruction.operands[1], "b8" if name == "e2m1" else "b16")
    shift = 4 if name == "e2m1" else 8
    decode = formats.decode_power if name == "ue8m0" else lambda codes: formats.decode(codes, name)

    def step(group: Group) -> None:
        raw = read(group)
        values = np.stack(np.broadcast_arrays(decode(raw), decode(raw >> shift)), axis=-1)
        result = half.narrow(values, scalar)
        write(group, half.rectify(scalar, result) if relu else result)

    return step


# --- integers, packed --------------------------------------------------------------------------


def _pack_integers(instruction: Instruction, build: Builder, modifiers: Modifiers) -> Step:
    """``cvt.pack.sat.type.s32{.b32} d, a, b{, c}``: b below a, and c's low bits above them."""
    modifiers.one_of("sat")
    kind = modifiers.take() or ""
    modifiers.one_of("s32")
    small = kind in ("u2", "s2", "u4", "s4", "u8", "s8")
    if small:
        modifiers.one_of("b32")
    modifiers.done()
    if not small and kind not in ("u16", "s16"):
        raise Unsupported(instruction, f"cvt.pack has no .{kind}")
    bits, signed = int(kind[1:]), kind.startswith("s")

    def pack(a: Any, b: Any, c: Any = None) -> Any:
        upper, lower = (convert.clamp_to_bits(x, bits, signed) for x in (a, b))
        packed = (upper << np.uint32(bits)) | lower
        return packed if c is None else packed | (c << np.uint32(2 * bits))

    types = ("s32", "s32", "b32") if small else ("s32", "s32")
    return build.elementwise(instruction, pack, "b32", types)
