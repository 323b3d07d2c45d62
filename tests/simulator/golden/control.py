"""Branches, calls and barriers, manual 9.7.12 and 9.7.13.1."""

from __future__ import annotations

from .case import BLOCK, Buffer, Case, elementwise, kernel, place, pointers, zeros
from .values import small

PREDICATES = ".reg .pred %p, %q;\n.reg .b32 %x, %y, %z;"


def body_case(name: str, body: str, outputs: int = 1, count: int = 2 * BLOCK) -> Case:
    """%a: 0 to 9, differing from lane to lane."""
    operand = ("a", "u32", lambda total: small("control", total, 0, 9))
    names = [(r, "b32") for r in "def"[:outputs]]
    return elementwise(name, body, [operand], names, count=count, registers=PREDICATES)


def branches() -> list[Case]:
    cases = [
        body_case(
            "loop",
            "mov.b32 %d, 1;\nmov.b32 %x, 0;\nTOP:\nsetp.ge.u32 %p, %x, %a;\n@%p bra END;\n"
            "mad.lo.u32 %d, %d, 3, %x;\nadd.u32 %x, %x, 1;\nbra TOP;\nEND:",
        ),
        body_case(
            "nested",
            "mov.b32 %d, 0;\nsetp.lt.u32 %p, %a, 5;\n@!%p bra HIGH;\nsetp.lt.u32 %q, %a, 2;\n"
            "@%q bra LOW;\nadd.u32 %d, %d, 10;\nbra JOIN;\nLOW:\nadd.u32 %d, %d, 20;\nJOIN:\n"
            "add.u32 %d, %d, %a;\nbra.uni END;\nHIGH:\nmul.lo.u32 %d, %a, 7;\nEND:\n"
            "bar.warp.sync 0xffffffff;\nshfl.sync.bfly.b32 %x, %d, 1, 0x1f, 0xffffffff;\n"
            "add.u32 %d, %d, %x;",
        ),
        body_case(
            "table",
            "mov.b32 %d, 5;\nrem.u32 %x, %a, 4;\n"
            "TABLE: .branchtargets ZERO, ONE, TWO, ONE;\nbrx.idx %x, TABLE;\nZERO:\nmov.b32 %d, 100;\n"
            "bra END;\nONE:\nadd.u32 %d, %d, %a;\nbra END;\nTWO:\nmov.b32 %d, 300;\nEND:",
        ),
        body_case(
            "continue",
            "mov.b32 %d, 0;\nmov.b32 %x, 0;\nTOP:\nadd.u32 %x, %x, 1;\nsetp.gt.u32 %p, %x, 10;\n"
            "@%p bra END;\nadd.u32 %y, %x, %a;\nand.b32 %y, %y, 1;\nsetp.eq.u32 %q, %y, 0;\n"
            "@%q bra TOP;\nmad.lo.u32 %d, %d, 2, %x;\nsetp.gt.u32 %p, %d, 200;\n@%p bra END;\nbra TOP;\nEND:",
        ),
    ]
    return cases


def calls() -> list[Case]:
    """A function with results in parameter space, called by some lanes, and one that calls it."""
    head = (
        ".func (.param .b32 r) twice(.param .b32 v)\n{\n  .reg .b32 %v, %r;\n  .reg .pred %p;\n"
        "  ld.param.b32 %v, [v];\n  add.u32 %r, %v, %v;\n  setp.gt.u32 %p, %v, 6;\n"
        "  st.param.b32 [r], %r;\n  @%p ret;\n  add.u32 %r, %r, 1;\n  st.param.b32 [r], %r;\n  ret;\n}\n"
    )
    lines = [
        ".reg .b32 %t, %v, %w;",
        ".reg .pred %p;",
        ".reg .b64 %address;",
        "mov.u32 %t, %tid.x;",
    ]
    lines += ["and.b32 %v, %t, 15;", "mov.b32 %w, 0;", "setp.lt.u32 %p, %v, 12;", "@!%p bra PAST;"]
    lines += [
        "{",
        ".param .b32 a;",
        ".param .b32 b;",
        "st.param.b32 [a], %v;",
        "call.uni (b), twice, (a);",
    ]
    lines += [
        "ld.param.b32 %w, [b];",
        "}",
        "PAST:",
        *place(0, 4, "%t"),
        "st.global.b32 [%address], %w;",
    ]

    def make() -> list[Buffer]:
        return [Buffer(zeros(64, "b32"), True)]

    lines[lines.index("call.uni (b), twice, (a);")] = "call (b), twice, (a);"
    text = kernel(pointers(1), "\n".join(lines), head=head)
    return [Case("call", text, make, (0,), block=(64, 1, 1))]


def barriers() -> list[Case]:
    """Named barriers: counts, reductions, arrive and sync by different warps."""
    shared = ".shared .align 4 .b8 area[1024];\n"
    cases = []
    body = shared + "setp.gt.u32 %p, %a, 4;\nbarrier.cta.red.popc.aligned.u32 %d, 1, %p;\n"
    body += "bar.red.and.pred %q, 2, %p;\nselp.b32 %e, 1, 0, %q;\nbar.red.or.pred %q, 3, 128, !%p;\nselp.b32 %f, 1, 0, %q;"
    cases.append(body_case("bar.red", body, 3))
    # Warps 0 and 1 produce and arrive; warps 2 and 3 wait and read.
    body = shared + (
        "mov.u32 %x, %tid.x;\nmov.b32 %d, 0;\nmov.u32 %y, area;\nsetp.lt.u32 %p, %x, 64;\n@!%p bra READ;\n"
        "mad.lo.u32 %z, %x, 4, %y;\nst.shared.b32 [%z], %a;\nbar.arrive 5, 128;\nbra END;\nREAD:\n"
        "bar.sync 5, 128;\nsub.u32 %z, 127, %x;\nmad.lo.u32 %z, %z, 4, %y;\nld.shared.b32 %d, [%z];\nEND:"
    )
    cases.append(body_case("bar.arrive", body))
    body = shared + (
        "mov.u32 %x, %tid.x;\nmov.u32 %y, area;\nmad.lo.u32 %z, %x, 4, %y;\nst.shared.b32 [%z], %a;\n"
        "shr.u32 %z, %x, 6;\nadd.u32 %z, %z, 1;\nbarrier.sync %z, 64;\nxor.b32 %x, %x, 33;\n"
        "mad.lo.u32 %z, %x, 4, %y;\nld.shared.b32 %d, [%z];\nbar.sync 0;\nmembar.cta;\nfence.acq_rel.gpu;"
    )
    cases.append(body_case("bar.named", body))
    body = (
        "shr.u32 %x, %index, 5;\nand.b32 %x, %x, 3;\nmov.b32 %d, %x;\nsetp.eq.u32 %p, %x, 1;\n"
        "@%p exit;\nbar.sync 0;\nadd.u32 %d, %d, 1;"
    )
    cases.append(body_case("bar.exited", body))
    return cases


def control() -> list[Case]:
    return branches() + calls() + barriers()
