"""Loads, stores and moves, manual 9.7.9.3 to 9.7.9.11, 9.7.9.19, 9.7.9.20."""

from __future__ import annotations

import numpy as np

from .case import BLOCK, Buffer, Case, elementwise, holder, kernel, place, pointers, zeros
from .values import noise, values, width_of

SCALARS = tuple(f"{s}{w}" for w in (8, 16, 32, 64) for s in "bsu") + ("f32", "f64")


def global_pair(name: str, lines: list[str], size: int, count: int = BLOCK) -> Case:
    """%in and %out point at the thread's ``size`` bytes of an input and an output buffer."""
    head = [".reg .b32 %t;", ".reg .b64 %in, %out, %address;", "mov.u32 %t, %tid.x;"]
    head += [*place(0, size, "%t"), "mov.b64 %in, %address;"]
    head += [*place(1, size, "%t"), "mov.b64 %out, %address;"]

    def make() -> list[Buffer]:
        data = noise("memory", count * size // 4)
        return [Buffer(data), Buffer(zeros(count * size // 4, "b32"), True)]

    text = kernel(pointers(2), "\n".join(head + lines))
    return Case(name, text, make, (0, 1), block=(count, 1, 1))


def widths() -> list[Case]:
    """Every scalar type, every vector, and narrow loads into a wider register."""
    cases = []
    for t in SCALARS:
        width = width_of(t)
        lines = [
            f".reg .{holder(t)} %v;",
            f"ld.global.{t} %v, [%in];",
            f"st.global.{t} [%out], %v;",
        ]
        cases.append(global_pair(f"ld.width.{t}", lines, max(width // 8, 4)))
        for wide in (16, 32, 64):
            if wide > width and t[0] != "f":
                lines = [
                    f".reg .b{wide} %v;",
                    f"ld.global.{t} %v, [%in+1];" if width == 8 else f"ld.global.{t} %v, [%in];",
                ]
                lines.append(f"st.global.b{wide} [%out], %v;")
                cases.append(global_pair(f"ld.{t}.into.b{wide}", lines, 8))
        for n in (2, 4):
            if n * width <= 128:
                names = ", ".join(f"%v{k}" for k in range(n))
                back = ", ".join(f"%v{k}" for k in reversed(range(n)))
                lines = [f".reg .{holder(t)} %v<{n}>;", f"ld.global.v{n}.{t} {{{names}}}, [%in];"]
                lines.append(f"st.global.v{n}.{t} [%out], {{{back}}};")
                cases.append(global_pair(f"ld.v{n}.{t}", lines, max(n * width // 8, 4)))
    lines = [".reg .b128 %v;", ".reg .b64 %x, %y;", "ld.global.b128 %v, [%in];"]
    lines += ["mov.b128 {%x, %y}, %v;", "mov.b128 %v, {%y, %x};", "st.global.b128 [%out], %v;"]
    cases.append(global_pair("ld.b128", lines, 16))
    return cases


def flavours() -> list[Case]:
    """Cache hints and orders do not change what is loaded; generic addresses reach every space."""
    cases = []
    forms = [
        "ld.global.nc.b32",
        "ld.global.L1::no_allocate.b32",
        "ld.global.nc.L1::no_allocate.b32",
    ]
    forms += ["ld.volatile.global.b32", "ld.relaxed.gpu.global.b32", "ld.acquire.cta.global.b32"]
    forms += [
        "ld.b32",
        "ld.global.ca.b32",
        "ld.global.cg.b32",
        "ld.global.L2::128B.b32",
        "ldu.global.b32",
    ]
    forms += ["ld.acquire.sys.global.b32", "ld.global.L1::evict_last.b32", "ld.weak.global.b32"]
    for form in forms:
        lines = [".reg .b32 %v;", f"{form} %v, [%in];", "st.global.b32 [%out], %v;"]
        cases.append(global_pair(form, lines, 4))
    lines = [".reg .b32 %v;", ".reg .b64 %policy;"]
    lines.append("createpolicy.fractional.L2::evict_first.b64 %policy, 1.0;")
    lines.append("ld.global.L1::no_allocate.L2::cache_hint.b32 %v, [%in], %policy;")
    lines.append("st.global.L2::cache_hint.b32 [%out], %v, %policy;")
    cases.append(global_pair("ld.cache_hint", lines, 4))
    forms = [
        "st.volatile.global.b32",
        "st.relaxed.gpu.global.b32",
        "st.release.gpu.global.b32",
        "st.b32",
    ]
    for form in [*forms, "st.global.wt.b32", "st.global.cs.b32", "st.global.L1::no_allocate.b32"]:
        lines = [".reg .b32 %v;", "ld.global.b32 %v, [%in];", f"{form} [%out], %v;"]
        cases.append(global_pair(form, lines, 4))
    lines = [".reg .b32 %v;", "ld.global.b32 %v, [%in];", "prefetch.global.L2 [%in];"]
    cases.append(global_pair("prefetch", [*lines, "st.global.b32 [%out], %v;"], 4))
    return cases


def spaces() -> list[Case]:
    """Shared, local, constant and parameter space, and generic addresses of them."""
    cases = []
    for generic in (False, True):
        where = "" if generic else ".shared"
        lines = [".shared .align 16 .b8 area[2048];", ".reg .b32 %v<4>, %s, %o;", ".reg .b64 %g;"]
        lines += ["ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%in];", "mov.u32 %s, area;"]
        lines += ["mad.lo.u32 %o, %t, 16, %s;", "xor.b32 %v0, %v0, 1;"]
        if generic:
            lines += ["cvt.u64.u32 %g, %o;", "cvta.shared.u64 %g, %g;"]
        lines += [f"st{where}.v4.b32 [%{'g' if generic else 'o'}], {{%v0, %v1, %v2, %v3}};"]
        # Read the neighbour's, one byte further, as signed bytes.
        lines += ["bar.sync 0;", "xor.b32 %t, %t, 37;", "mad.lo.u32 %o, %t, 16, %s;"]
        if generic:
            lines += ["cvt.u64.u32 %g, %o;", "cvta.shared.u64 %g, %g;"]
        pointer = "%g" if generic else "%o"
        lines += [
            f"ld{where}.v2.b32 {{%v0, %v1}}, [{pointer}+8];",
            f"ld{where}.s8 %v2, [{pointer}+5];",
        ]
        lines += [
            f"ld{where}.u16 %v3, [{pointer}+2];",
            "st.global.v4.b32 [%out], {%v0, %v1, %v2, %v3};",
        ]
        cases.append(global_pair(f"shared.{'generic' if generic else 'own'}", lines, 16))
    lines = [".local .align 16 .b8 stack[64];", ".reg .b32 %v<4>;", ".reg .b64 %l, %g, %k;"]
    lines += [
        "ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%in];",
        "st.local.v4.b32 [stack+16], {%v3, %v2, %v1, %v0};",
    ]
    lines += [
        "mov.u64 %l, stack;",
        "cvta.local.u64 %g, %l;",
        "and.b32 %t, %t, 12;",
        "cvt.u64.u32 %k, %t;",
    ]
    lines += ["add.u64 %k, %g, %k;", "ld.b32 %v0, [%k+16];", "ld.local.u16 %v1, [%l+18];"]
    lines += ["ld.local.s8 %v2, [stack+23];", "st.global.v4.b32 [%out], {%v0, %v1, %v2, %v3};"]
    cases.append(global_pair("local", lines, 16))
    return [*cases, constants(), parameters(), isspacep()]


def constants() -> Case:
    """Module variables with initial values, in .const and .global."""
    head = ".const .align 4 .b32 table[4] = {7, -1, 0x80000000, 3};\n"
    head += ".const .align 4 .f32 number = 0f40490FDB;\n"
    head += ".global .align 8 .b8 bytes[8] = {1, 2, 250, 4, 5};\n.global .align 4 .u32 word = 99;\n"
    lines = [
        ".reg .b32 %i, %t, %v<4>;",
        ".reg .b64 %a, %o;",
        "mov.u32 %t, %tid.x;",
        "and.b32 %i, %t, 3;",
    ]
    lines += ["mov.u64 %a, table;", "mad.wide.u32 %a, %i, 4, %a;", "ld.const.b32 %v0, [%a];"]
    lines += ["ld.const.b32 %v1, [number];", "mov.u64 %a, bytes;", "mad.wide.u32 %a, %i, 1, %a;"]
    lines += ["ld.global.s8 %v2, [%a+1];", "ld.global.u32 %v3, [word];", "add.u32 %v3, %v3, %t;"]
    lines += [
        "ld.param.u64 %o, [p0];",
        "mad.wide.u32 %o, %t, 16, %o;",
        "st.global.v4.b32 [%o], {%v0, %v1, %v2, %v3};",
    ]

    def make() -> list[Buffer]:
        return [Buffer(zeros(4 * 32, "b32"), True)]

    text = kernel(pointers(1), "\n".join(lines), head=head)
    return Case("constants", text, make, (0,), block=(32, 1, 1))


def parameters() -> Case:
    """Scalars of every width and a structure, at their aligned offsets."""
    declared = [
        ".param .u64 out",
        ".param .u8 a",
        ".param .s16 b",
        ".param .f32 c",
        ".param .f64 d",
    ]
    declared.append(".param .align 8 .b8 e[24]")
    lines = [
        ".reg .b32 %v<8>;",
        ".reg .b64 %o, %x;",
        "ld.param.u64 %o, [out];",
        "ld.param.u8 %v0, [a];",
    ]
    lines += ["ld.param.s16 %v1, [b];", "ld.param.f32 %v2, [c];", "ld.param.b64 %x, [d];"]
    lines += [
        "mov.b64 {%v3, %v4}, %x;",
        "ld.param.v2.b32 {%v5, %v6}, [e+8];",
        "ld.param.s8 %v7, [e+3];",
    ]
    lines += [
        "st.global.v4.b32 [%o], {%v0, %v1, %v2, %v3};",
        "st.global.v4.b32 [%o+16], {%v4, %v5, %v6, %v7};",
    ]
    raw = values("b8", "9/parameters", 24).tobytes()
    numbers = (np.uint8(200), np.int16(-77), np.float32(1.5), np.float64(-0.1))

    def make() -> list[Buffer]:
        return [Buffer(zeros(8, "b32"), True)]

    text = kernel(declared, "\n".join(lines))
    scalars = tuple(number.tobytes() for number in numbers)
    return Case("parameters", text, make, (0, *scalars, raw), block=(1, 1, 1))


def isspacep() -> Case:
    """Which window each of four generic addresses lies in."""
    lines = [".shared .align 16 .b8 area[64];", ".local .align 16 .b8 stack[64];", ".reg .pred %p;"]
    lines += [
        ".reg .b32 %v;",
        ".reg .b64 %a<3>;",
        "mov.u64 %a0, area;",
        "cvta.shared.u64 %a0, %a0;",
    ]
    lines += [
        "mov.u64 %a1, stack;",
        "cvta.local.u64 %a1, %a1;",
        "mov.b64 %a2, %in;",
        "mov.b32 %v, 0;",
    ]
    bit = 1
    for a in range(3):
        for space in ("global", "shared", "local", "const", "shared::cluster", "shared::cta"):
            lines += [f"isspacep.{space} %p, %a{a};", f"@%p or.b32 %v, %v, {bit:#x};"]
            bit <<= 1
    return global_pair("isspacep", [*lines, "st.global.b32 [%out], %v;"], 4, 32)


def moves() -> list[Case]:
    """mov that packs and unpacks."""
    four = [(r, "b16") for r in "abce"]
    body = "mov.b64 %d, {%a, %b, %c, %e};\nmov.b32 %f, {%c, %a};"
    pack = elementwise("mov.pack", body, four, [("d", "b64"), ("f", "b32")], count=256)
    body = "mov.b64 {%d, %f}, %a;\nmov.b64 {%g, %h, %x, _}, %a;\nmov.b32 {_, %y}, %f;"
    outputs = [("d", "b32"), ("f", "b32"), ("g", "b16"), ("h", "b16"), ("x", "b16"), ("y", "b16")]
    unpack = elementwise("mov.unpack", body, [("a", "b64")], outputs, count=256)
    return [pack, unpack]


def memory() -> list[Case]:
    return widths() + flavours() + spaces() + moves()
