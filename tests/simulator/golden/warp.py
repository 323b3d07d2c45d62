"""Exchange between the lanes of a warp, manual 9.7.9.6 and 9.7.13.8 to 14."""

from __future__ import annotations

from .case import Case, elementwise
from .values import small

FULL = "0xffffffff"
PREDICATE = ".reg .pred %p, %q;\n.reg .b32 %x, %lane;"
LANE = "mov.u32 %lane, %laneid;\n"


def some(low: int, high: int, seed: str):
    return lambda count: small(seed, count, low, high)


def shuffles() -> list[Case]:
    cases = []
    for mode in ("up", "down", "bfly", "idx"):
        # Any lane offset and any clamp and segment mask, differing from lane to lane.
        operands = [
            ("a", "b32"),
            ("b", "b32", some(0, 40, mode)),
            ("c", "b32", some(0, 0x1F1F, "c")),
        ]
        body = f"shfl.sync.{mode}.b32 %d|%p, %a, %b, %c, {FULL};\nselp.b32 %e, 1, 0, %p;"
        outputs = [("d", "b32"), ("e", "b32")]
        cases.append(
            elementwise(f"shfl.{mode}.any", body, operands, outputs, count=512, registers=PREDICATE)
        )
        for offset in (1, 2, 5, 16, 31):
            for clamp in (0x1F, 0x181F, 0x1C1F, 0x1000, 0x1C00, 0x0000):
                body = f"shfl.sync.{mode}.b32 %d|%p, %a, {offset}, {clamp:#x}, {FULL};\n"
                body += "selp.b32 %e, 1, 0, %p;"
                name = f"shfl.{mode}.{offset}.{clamp:x}"
                cases.append(
                    elementwise(name, body, [("a", "b32")], outputs, count=128, registers=PREDICATE)
                )
    # Two halves of the warp, each by itself.
    body = LANE + (
        "mov.b32 %d, 0;\nsetp.lt.u32 %p, %lane, 16;\n"
        "@%p shfl.sync.idx.b32 %d, %a, %b, 0x1f, 0x0000ffff;\n"
        "add.u32 %b, %b, 16;\n@!%p shfl.sync.idx.b32 %d, %a, %b, 0x1f, 0xffff0000;"
    )
    operands = [("a", "b32"), ("b", "b32", some(0, 15, "half"))]
    cases.append(
        elementwise("shfl.halves", body, operands, [("d", "b32")], count=256, registers=PREDICATE)
    )
    return cases


def votes() -> list[Case]:
    """Over full warps and over the even lanes, of predicates that are true for none, some, all."""
    cases = []
    operands = [("a", "u32", some(0, 5, "vote"))]
    # %x is the same in a whole warp: 0 all false, 1 all true, else as the lane's value says.
    first = LANE + (
        "shr.u32 %x, %index, 5;\nand.b32 %x, %x, 3;\nsetp.ge.u32 %p, %a, 3;\n"
        "setp.eq.or.u32 %p, %x, 1, %p;\nsetp.ne.and.u32 %p, %x, 0, %p;\n"
        "and.b32 %lane, %lane, 1;\nsetp.eq.u32 %q, %lane, 0;\nmov.b32 %d, 7;\n"
    )
    for part, mask, guard in (("all", FULL, ""), ("even", "0x55555555", "@%q ")):
        for negate in ("", "!"):
            for mode in ("all", "any", "uni"):
                body = first + f"{guard}vote.sync.{mode}.pred %p, {negate}%p, {mask};\n"
                body += "selp.b32 %d, 1, 0, %p;"
                name = f"vote.{mode}.{part}{'.not' if negate else ''}"
                cases.append(
                    elementwise(
                        name, body, operands, [("d", "b32")], count=512, registers=PREDICATE
                    )
                )
            body = first + f"{guard}vote.sync.ballot.b32 %d, {negate}%p, {mask};"
            name = f"vote.ballot.{part}{'.not' if negate else ''}"
            cases.append(
                elementwise(name, body, operands, [("d", "b32")], count=512, registers=PREDICATE)
            )
    return cases


def matches() -> list[Case]:
    cases = []
    for w in (32, 64):
        operands = [("a", f"u{w}", lambda count, w=w: small("match", count, -1, 4, f"u{w}"))]
        # Every second warp has one value only.
        same = (
            "shr.u32 %x, %index, 5;\nand.b32 %x, %x, 1;\nsetp.eq.u32 %p, %x, 0;\n"
            f"@%p mov.b{w} %a, 5;\n"
        )
        body = same + f"match.any.sync.b{w} %d, %a, {FULL};\n"
        body += f"match.all.sync.b{w} %e|%q, %a, {FULL};\n@%q add.u32 %e, %e, 0x100;"
        outputs = [("d", "b32"), ("e", "b32")]
        cases.append(
            elementwise(f"match.b{w}", body, operands, outputs, count=256, registers=PREDICATE)
        )
        body = LANE + (
            "mov.b32 %d, 9;\nsetp.ge.u32 %p, %lane, 20;\n"
            f"@%p match.any.sync.b{w} %d, %a, 0xfff00000;"
        )
        cases.append(
            elementwise(
                f"match.part.b{w}", body, operands, outputs[:1], count=256, registers=PREDICATE
            )
        )
    return cases


def reductions() -> list[Case]:
    cases = []
    names = [f"redux.sync.{op}.{t}" for op in ("add", "min", "max") for t in ("u32", "s32")]
    for name in [*names, *(f"redux.sync.{op}.b32" for op in ("and", "or", "xor"))]:
        body = LANE + (
            f"{name} %d, %a, {FULL};\nmov.b32 %e, 0;\nand.b32 %x, %lane, 1;\n"
            f"setp.eq.u32 %p, %x, 1;\n@%p {name} %e, %a, 0xaaaaaaaa;"
        )
        outputs = [("d", "b32"), ("e", "b32")]
        cases.append(
            elementwise(name, body, [("a", "s32")], outputs, count=512, registers=PREDICATE)
        )
    return cases


def places() -> list[Case]:
    """Which lanes are active, and which one is elected."""
    registers = PREDICATE + "\n.reg .b32 %y;"
    body = LANE + (
        "setp.lt.u32 %p, %lane, 10;\n@%p bra LOW;\nactivemask.b32 %d;\nbra.uni END;\n"
        "LOW:\nactivemask.b32 %d;\nadd.u32 %d, %d, 1;\nEND:\nbar.warp.sync 0xffffffff;"
    )
    cases = [elementwise("activemask", body, [], [("d", "b32")], count=128, registers=registers)]
    for mask in (0xFFFFFFFF, 0xFFFFFFF0, 0x80000000, 0x00F0F000):
        body = LANE + (
            f"mov.b32 %d, 99;\nmov.b32 %e, 0;\nsetp.ne.u32 %q, %d, 99;\nshr.u32 %x, {mask:#x}, %lane;\nand.b32 %x, %x, 1;\n"
            f"setp.eq.u32 %p, %x, 1;\n@%p elect.sync %d|%q, {mask:#x};\n"
            "and.pred %q, %p, %q;\n@%q mov.b32 %e, 1;"
        )
        outputs = [("d", "b32"), ("e", "b32")]
        cases.append(
            elementwise(f"elect.{mask:08x}", body, [], outputs, count=128, registers=registers)
        )
    special = ("tid.x", "ntid.x", "ctaid.x", "nctaid.x", "laneid", "nwarpid", "lanemask_eq")
    special += ("lanemask_lt", "lanemask_le", "lanemask_gt", "lanemask_ge")
    for name in special:
        body = f"mov.u32 %d, %{name};"
        cases.append(elementwise(f"special.{name}", body, [], [("d", "b32")], count=256))
    return cases


def warp() -> list[Case]:
    return shuffles() + votes() + matches() + reductions() + places()
