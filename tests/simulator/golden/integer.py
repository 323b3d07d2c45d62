"""Integer arithmetic, manual 9.7.1 and 9.7.2."""

from __future__ import annotations

from . import case
from .case import Case
from .values import numpy_of, stream, values, width_of

COUNT = 512
ALL = ("u16", "s16", "u32", "s32", "u64", "s64")
SIGNED = ("s16", "s32", "s64")


def elementwise(
    name: str, body: str, inputs: list, outputs: list, *, count: int = COUNT, **more: str
) -> Case:
    return case.elementwise(name, body, inputs, outputs, count=count, **more)


def twice(type_: str) -> str:
    return f"{type_[0]}{2 * width_of(type_)}"


def nonzero(type_: str, seed: str):
    """Divisors: by zero the result is unspecified."""

    def make(count: int):
        data = values(type_, seed, count)
        data[data == 0] = numpy_of(type_).type(3)
        return data

    return make


def binary(name: str, type_: str, result: str | None = None) -> Case:
    return elementwise(
        name, f"{name} %d, %a, %b;", [("a", type_), ("b", type_)], [("d", result or type_)]
    )


def ternary(name: str, type_: str, result: str | None = None) -> Case:
    wide = result or type_
    operands = [("a", type_), ("b", type_), ("c", wide)]
    return elementwise(name, f"{name} %d, %a, %b, %c;", operands, [("d", wide)])


def integer() -> list[Case]:
    cases = []
    for t in ALL:
        cases += [binary(f"{op}.{t}", t) for op in ("add", "sub", "mul.lo", "mul.hi", "min", "max")]
        cases += [ternary(f"mad.lo.{t}", t), ternary(f"mad.hi.{t}", t), ternary(f"sad.{t}", t)]
        for op in ("div", "rem"):
            operands = [("a", t), ("b", t, nonzero(t, f"1/{t}"))]
            name = f"{op}.{t}"
            cases.append(elementwise(name, f"{name} %d, %a, %b;", operands, [("d", t)]))
        if width_of(t) < 64:
            cases.append(binary(f"mul.wide.{t}", t, twice(t)))
            cases.append(ternary(f"mad.wide.{t}", t, twice(t)))
    for t in SIGNED:
        for op in ("abs", "neg"):
            cases.append(elementwise(f"{op}.{t}", f"{op}.{t} %d, %a;", [("a", t)], [("d", t)]))
    cases += [binary("add.sat.s32", "s32"), binary("sub.sat.s32", "s32")]
    cases.append(ternary("mad.hi.sat.s32", "s32"))
    for t in ("u32", "s32"):
        cases += [binary(f"mul24.{half}.{t}", t) for half in ("lo", "hi")]
        cases += [ternary(f"mad24.{half}.{t}", t) for half in ("lo", "hi")]
    cases.append(ternary("mad24.hi.sat.s32", "s32"))
    for t in ("u16x2", "s16x2"):
        cases += [binary(f"{op}.{t}", t) for op in ("add", "min", "max")]
    cases += [binary(f"{op}.relu.{t}", t) for op in ("min", "max") for t in ("s16x2", "s32")]
    return cases + dot_products() + carries()


def dot_products() -> list[Case]:
    cases = []
    for a in "us":
        for b in "us":
            operands = [("a", "b32"), ("b", "b32"), ("c", "b32")]
            names = [f"dp4a.{a}32.{b}32"] + [f"dp2a.{h}.{a}32.{b}32" for h in ("lo", "hi")]
            for name in names:
                body = f"{name} %d, %a, %b, %c;"
                cases.append(elementwise(name, body, operands, [("d", "b32")]))
    return cases


def carries() -> list[Case]:
    """Chains through the carry flag, and the flag itself as a last word."""
    cases = []
    for w in (32, 64):
        operands = [(r, f"b{w}") for r in "abc"]
        outputs = [(r, f"b{w}") for r in ("d", "e", "f")]
        bodies = {
            f"add.cc.u{w}": f"add.cc.u{w} %d, %a, %b; addc.cc.u{w} %e, %b, %c; addc.u{w} %f, %c, %a;",
            f"sub.cc.u{w}": f"sub.cc.u{w} %d, %a, %b; subc.cc.u{w} %e, %b, %c; subc.u{w} %f, %c, %a;",
            f"mad.lo.cc.u{w}": f"mad.lo.cc.u{w} %d, %a, %b, %c;"
            f"madc.hi.cc.u{w} %e, %a, %b, %c; madc.lo.u{w} %f, %b, %c, %a;",
            f"mad.hi.cc.s{w}": f"mad.hi.cc.s{w} %d, %a, %b, %c;"
            f"madc.lo.cc.s{w} %e, %a, %b, %c; madc.hi.s{w} %f, %b, %c, %a;",
            f"sub.cc.s{w}": f"sub.cc.s{w} %d, %a, %b; subc.cc.s{w} %e, %b, %c; subc.s{w} %f, %c, %a;",
        }
        for name, body in bodies.items():
            cases.append(elementwise(name, body.replace(";", ";\n"), operands, outputs))
    return cases


def positions(limit: int, seed: str):
    """0 to limit-1, most of them below 66."""

    def make(count: int):
        raw = stream(seed, count)
        return (
            raw % (66 if limit > 66 else limit) + (raw >> 40) % 4 // 3 * (raw >> 50) % limit
        ) % (limit)

    return lambda count: make(count).astype("uint32")


def bits() -> list[Case]:
    """Bit manipulation, manual 9.7.1.14 to 22, 9.7.8 and 9.7.9.7."""
    cases = []
    for w in (32, 64):
        for name in (f"popc.b{w}", f"clz.b{w}"):
            cases.append(elementwise(name, f"{name} %d, %a;", [("a", f"b{w}")], [("d", "b32")]))
        name = f"brev.b{w}"
        cases.append(elementwise(name, f"{name} %d, %a;", [("a", f"b{w}")], [("d", f"b{w}")]))
        for s in "us":
            for shift in ("", ".shiftamt"):
                name = f"bfind{shift}.{s}{w}"
                cases.append(elementwise(name, f"{name} %d, %a;", [("a", f"b{w}")], [("d", "b32")]))
            name = f"bfe.{s}{w}"
            operands = [
                ("a", f"b{w}"),
                ("b", "b32", positions(256, "b")),
                ("c", "b32", positions(256, "c")),
            ]
            cases.append(elementwise(name, f"{name} %d, %a, %b, %c;", operands, [("d", f"b{w}")]))
        operands = [("a", f"b{w}"), ("b", f"b{w}"), ("c", "b32", positions(256, "b"))]
        operands.append(("e", "b32", positions(256, "c")))
        name = f"bfi.b{w}"
        cases.append(elementwise(name, f"{name} %d, %a, %b, %c, %e;", operands, [("d", f"b{w}")]))
    for mode in ("clamp", "wrap"):
        operands = [("a", "b32", positions(300, "b")), ("b", "b32", positions(300, "c"))]
        cases.append(
            elementwise(
                f"bmsk.{mode}.b32", f"bmsk.{mode}.b32 %d, %a, %b;", operands, [("d", "b32")]
            )
        )
        for s in "us":
            operands = [("a", "b32"), ("b", "b32", positions(300, "b"))]
            name = f"szext.{mode}.{s}32"
            cases.append(elementwise(name, f"{name} %d, %a, %b;", operands, [("d", "b32")]))
        for side in "lr":
            name = f"shf.{side}.{mode}.b32"
            operands = [("a", "b32"), ("b", "b32"), ("c", "b32", positions(300, "b"))]
            cases.append(elementwise(name, f"{name} %d, %a, %b, %c;", operands, [("d", "b32")]))
    return cases + permutes() + logic() + shifts()


def permutes() -> list[Case]:
    cases = []
    operands = [("a", "b32"), ("b", "b32"), ("c", "b32")]
    for mode in ("", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"):
        name = f"prmt.b32{mode}"
        cases.append(elementwise(name, f"{name} %d, %a, %b, %c;", operands, [("d", "b32")]))
    for table in (0x00, 0xC0, 0xFC, 0x3C, 0x96, 0xE8, 0x1A, 0x6D, 0xFF):
        name = f"lop3.b32.{table:02x}"
        body = f"lop3.b32 %d, %a, %b, %c, {table:#x};"
        cases.append(elementwise(name, body, operands, [("d", "b32")], count=256))
    base = [("a", "b32"), ("b", "b32", positions(32, "b")), ("c", "b32", positions(40, "c"))]
    for sign in ("", "neg"):
        body = f"{'sub.s32 %c, 0, %c;' if sign else ''}\nfns.b32 %d, %a, %b, %c;"
        cases.append(elementwise(f"fns.b32{sign}", body, base, [("d", "b32")]))
    return cases


def logic() -> list[Case]:
    cases = []
    for w in (16, 32, 64):
        for op in ("and", "or", "xor"):
            cases.append(binary(f"{op}.b{w}", f"b{w}"))
        for op in ("not", "cnot"):
            name = f"{op}.b{w}"
            cases.append(
                elementwise(name, f"{name} %d, %a;", [("a", f"b{w}")], [("d", f"b{w}")], count=256)
            )
    lines = ["setp.lt.s32 %p, %a, 0;", "setp.lt.s32 %q, %b, 0;"]
    for op in ("and", "or", "xor"):
        lines += [f"{op}.pred %r, %p, %q;", "selp.b32 %x, 1, 0, %r;", "shl.b32 %d, %d, 1;"]
        lines.append("or.b32 %d, %d, %x;")
    lines += [
        "not.pred %r, %p;",
        "mov.pred %q, %r;",
        "@%q add.u32 %d, %d, 64;",
        "@!%q add.u32 %d, %d, 128;",
    ]
    body = "mov.b32 %d, 0;\n" + "\n".join(lines)
    cases.append(
        elementwise(
            "logic.pred",
            body,
            [("a", "b32"), ("b", "b32")],
            [("d", "b32")],
            registers=".reg .pred %p, %q, %r;\n.reg .b32 %x;",
        )
    )
    return cases


def shifts() -> list[Case]:
    cases = []
    for w in (16, 32, 64):
        for name in (f"shl.b{w}", f"shr.b{w}", f"shr.u{w}", f"shr.s{w}"):
            operands = [("a", f"b{w}"), ("b", "b32", positions(300, "b"))]
            cases.append(elementwise(name, f"{name} %d, %a, %b;", operands, [("d", f"b{w}")]))
    return cases
