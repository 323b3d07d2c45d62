"""Comparison and selection, manual 9.7.6 and 9.7.7."""

from __future__ import annotations

from .case import Case, elementwise

UNSIGNED = ("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs")
SIGNED = ("eq", "ne", "lt", "le", "gt", "ge")
FLOAT = (*SIGNED, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
OPERATORS = {f"b{w}": ("eq", "ne") for w in (16, 32, 64)}
OPERATORS |= {f"u{w}": UNSIGNED for w in (16, 32, 64)} | {f"s{w}": SIGNED for w in (16, 32, 64)}
OPERATORS |= {t: FLOAT for t in ("f16", "bf16", "f32", "f64", "f16x2", "bf16x2")}
COUNT = 2048


def word_of(predicates: list[tuple[str, str]]) -> list[str]:
    """Lines that run each (instruction, predicate register) and gather the predicates, the first
    in bit 0, in %d."""
    lines = ["mov.b32 %d, 0;"]
    for bit, (instruction, predicate) in enumerate(predicates):
        lines += [instruction, f"@{predicate} or.b32 %d, %d, {1 << bit:#x};"]
    return lines


def setp(type_: str, ftz: str = "") -> Case:
    packed = type_.endswith("x2")
    predicates = []
    for operator in OPERATORS[type_]:
        target = "%p|%q" if packed else "%p"
        text = f"setp.{operator}{ftz}.{type_} {target}, %a, %b;"
        predicates += [(text, "%p")] + ([("", "%q")] if packed else [])
    return elementwise(
        f"setp{ftz}.{type_}",
        "\n".join(line for line in word_of(predicates) if line),
        [("a", type_), ("b", type_)],
        [("d", "b32")],
        count=COUNT,
        registers=".reg .pred %p, %q;",
    )


def combined(type_: str) -> Case:
    """setp with a second destination and a boolean operator."""
    predicates = [("setp.lt.s32 %c, %index, 900;", "%c")]
    for operator in ("lt", "ne"):
        for boolean in ("and", "or", "xor"):
            for source in ("%c", "!%c"):
                text = f"setp.{operator}.{boolean}.{type_} %p|%q, %a, %b, {source};"
                predicates += [(text, "%p"), ("", "%q")]
    return elementwise(
        f"setp.bool.{type_}",
        "\n".join(line for line in word_of(predicates) if line),
        [("a", type_), ("b", type_)],
        [("d", "b32")],
        count=COUNT,
        registers=".reg .pred %p, %q, %c;",
    )


def set_(result: str, type_: str, operator: str, ftz: str = "") -> Case:
    name = f"set.{operator}{ftz}.{result}.{type_}"
    return elementwise(
        name, f"{name} %d, %a, %b;", [("a", type_), ("b", type_)], [("d", result)], count=COUNT
    )


def testp(type_: str) -> Case:
    kinds = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    predicates = [(f"testp.{kind}.{type_} %p, %a;", "%p") for kind in kinds]
    return elementwise(
        f"testp.{type_}",
        "\n".join(word_of(predicates)),
        [("a", type_)],
        [("d", "b32")],
        registers=".reg .pred %p;",
    )


def selections() -> list[Case]:
    cases = []
    for t in ("b16", "b32", "b64", "f32", "f64", "u16", "s64"):
        body = f"and.b32 %x, %index, 5;\nsetp.ne.b32 %p, %x, 0;\nselp.{t} %d, %a, %b, %p;"
        registers = ".reg .pred %p;\n.reg .b32 %x;"
        operands = [("a", t), ("b", t)]
        cases.append(
            elementwise(f"selp.{t}", body, operands, [("d", t)], count=256, registers=registers)
        )
    for t in ("b16", "b32", "u64", "s32", "f32", "f64"):
        for c in ("s32", "f32"):
            for ftz in ("", ".ftz") if c == "f32" else ("",):
                name = f"slct{ftz}.{t}.{c}"
                operands = [("a", t), ("b", t), ("c", c)]
                body = f"{name} %d, %a, %b, %c;"
                cases.append(elementwise(name, body, operands, [("d", t)], count=256))
    return cases


def compare() -> list[Case]:
    cases = [setp(t) for t in OPERATORS]
    cases += [setp("f32", ".ftz"), setp("f16", ".ftz"), setp("f16x2", ".ftz")]
    cases += [combined(t) for t in ("s32", "u64", "f32", "f64")]
    for operator in ("lt", "equ", "num"):
        cases += [set_(r, "f32", operator) for r in ("u32", "s32", "f32")]
        cases += [set_(r, "f16", operator) for r in ("u32", "f16", "u16")]
        cases += [set_(r, "bf16", operator) for r in ("u32", "bf16")]
        cases += [set_(t, t, operator) for t in ("f16x2", "bf16x2")]
        cases.append(set_("f32", "f32", operator, ".ftz"))
    cases += [set_("u32", t, "ge") for t in ("s32", "u64", "f64")]
    return cases + [testp("f32"), testp("f64")] + selections()
