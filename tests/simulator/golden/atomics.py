"""atom and red, manual 9.7.13.5 and 6."""

from __future__ import annotations

from .case import BLOCK, Buffer, Case, holder, kernel, pointers, zeros
from .values import exact_floats, numpy_of, small, values, width_of

INTEGER = {"add": ("u32", "s32", "u64"), "min": ("u32", "s32", "u64", "s64")}
INTEGER |= {
    "max": INTEGER["min"],
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
}
INTEGER |= {"inc": ("u32",), "dec": ("u32",), "exch": ("b32", "b64")}
FLOAT = ("f32", "f64", "f16", "f16x2", "bf16", "bf16x2")
COUNT = 2 * BLOCK


def name_of(operation: str, type_: str) -> str:
    noftz = ".noftz" if operation == "add" and "f16" in type_ else ""
    return f"{operation}{noftz}.{type_}"


def own_place(operation: str, type_: str, space: str) -> Case:
    """Each thread on its own location: returned value and memory are both definite."""
    width, size = width_of(type_), width_of(type_) // 8
    lines = [
        f".reg .{holder(type_)} %m, %v, %w, %r;",
        ".reg .b32 %t, %s;",
        ".reg .b64 %x, %a, %v0, %w0, %r0;",
    ]
    lines += [
        ".reg .b32 %c;",
        "mov.u32 %t, %tid.x;",
        "mov.u32 %c, %ctaid.x;",
        f"mad.lo.u32 %t, %c, {BLOCK}, %t;",
    ]
    for k, register in enumerate(("a", "v0", "w0", "r0")):
        lines += [
            f"ld.param.u64 %{register}, [p{k}];",
            f"mad.wide.u32 %{register}, %t, {size}, %{register};",
        ]
    lines += [f"ld.global.b{width} %v, [%v0];", f"ld.global.b{width} %w, [%w0];"]
    full = f"atom.{space}.{name_of(operation, type_)}"
    extra = ", %w" if operation == "cas" else ""
    if space == "shared":
        lines += [
            f".shared .align 16 .b8 area[{BLOCK * size}];",
            "mov.u32 %c, %tid.x;",
            "mov.u32 %s, area;",
        ]
        lines += [
            f"mad.lo.u32 %s, %c, {size}, %s;",
            f"ld.global.b{width} %m, [%a];",
            f"st.shared.b{width} [%s], %m;",
        ]
        lines += [
            f"{full} %r, [%s], %v{extra};",
            f"ld.shared.b{width} %m, [%s];",
            f"st.global.b{width} [%a], %m;",
        ]
    else:
        lines.append(f"{full} %r, [%a], %v{extra};")
    lines.append(f"st.global.b{width} [%r0], %r;")

    def make() -> list[Buffer]:
        memory = values(type_, f"0/{type_}", COUNT)
        operand = values(type_, f"1/{type_}", COUNT)
        if operation == "cas":
            operand[::2] = memory[::2]
        third = values(type_, f"2/{type_}", COUNT)
        kept = Buffer(zeros(COUNT, type_), True, type_)
        return [Buffer(memory, True, type_), Buffer(operand), Buffer(third), kept]

    text = kernel(pointers(4), "\n".join(lines))
    return Case(f"{full}.own", text, make, (0, 1, 2, 3), (COUNT // BLOCK, 1, 1))


def one_place(operation: str, type_: str, space: str) -> Case:
    """All lanes of a warp on one location in eight, by red: any order gives one result."""
    width, size = width_of(type_), width_of(type_) // 8
    full = f"red.{space}.{name_of(operation, type_)}"
    lines = [
        f".reg .{holder(type_)} %m, %v;",
        ".reg .b32 %t, %s, %k;",
        ".reg .b64 %a, %v0;",
        ".reg .pred %p;",
    ]
    lines += [
        "mov.u32 %t, %tid.x;",
        "and.b32 %k, %t, 7;",
        "ld.param.u64 %a, [p0];",
        "ld.param.u64 %v0, [p1];",
    ]
    lines += [
        f"mad.wide.u32 %v0, %t, {size}, %v0;",
        f"ld.global.b{width} %v, [%v0];",
        f"mad.wide.u32 %a, %k, {size}, %a;",
    ]
    if space == "shared":
        lines += [
            f".shared .align 16 .b8 area[{8 * size}];",
            "mov.u32 %s, area;",
            f"mad.lo.u32 %s, %k, {size}, %s;",
        ]
        lines += [
            "setp.lt.u32 %p, %t, 8;",
            f"@%p ld.global.b{width} %m, [%a];",
            f"@%p st.shared.b{width} [%s], %m;",
        ]
        lines += ["bar.sync 0;", f"{full} [%s], %v;", "bar.sync 0;"]
        lines += [f"@%p ld.shared.b{width} %m, [%s];", f"@%p st.global.b{width} [%a], %m;"]
    else:
        lines.append(f"{full} [%a], %v;")

    def make() -> list[Buffer]:
        if type_ in FLOAT:
            base, part = type_.removesuffix("x2"), 2 if type_.endswith("x2") else 1
            data = exact_floats(base, f"{type_}/one", part * (8 + BLOCK), 2).view(numpy_of(type_))
        elif operation in ("inc", "dec"):
            data = small("inc", 8 + BLOCK, 5, 5)
        else:
            data = values(type_, f"one/{type_}", 8 + BLOCK)
        return [Buffer(data[:8].copy(), True, type_), Buffer(data[8:].copy())]

    return Case(f"{full}.one", kernel(pointers(2), "\n".join(lines)), make, (0, 1))


def vector(operation: str, type_: str, count: int) -> Case:
    """red and atom of several elements at once, global only."""
    size, h = width_of(type_) // 8, holder(type_)
    name = f"global.{operation}.v{count}.{type_}"
    noftz = ".noftz" if "f16" in type_ else ""
    lines = [
        f".reg .{h} %v<{count}>, %r<{count}>;",
        ".reg .b32 %t;",
        ".reg .b64 %a, %v_, %r_;",
        "mov.u32 %t, %tid.x;",
    ]
    for k, register in enumerate(("a", "v_", "r_")):
        lines += [
            f"ld.param.u64 %{register}, [p{k}];",
            f"mad.wide.u32 %{register}, %t, {size * count}, %{register};",
        ]
    for k in range(count):
        lines.append(f"ld.global.b{8 * size} %v{k}, [%v_+{k * size}];")
    vs, rs = (", ".join(f"%{r}{k}" for k in range(count)) for r in "vr")
    full = f"global.{operation}{noftz}.v{count}.{type_}"
    lines += [f"atom.{full} {{{rs}}}, [%a], {{{vs}}};", f"red.{full} [%a], {{{vs}}};"]
    for k in range(count):
        lines.append(f"st.global.b{8 * size} [%r_+{k * size}], %r{k};")

    def make() -> list[Buffer]:
        total = 32 * count
        kept = Buffer(zeros(total, type_), True, type_)
        a, b = (values(type_, f"{k}/v/{type_}", total) for k in range(2))
        return [Buffer(a, True, type_), Buffer(b), kept]

    return Case(
        f"atom.{name}", kernel(pointers(3), "\n".join(lines)), make, (0, 1, 2), block=(32, 1, 1)
    )


def wide() -> list[Case]:
    """cas and exch of 128 bits."""
    cases = []
    for operation in ("cas", "exch"):
        lines = [
            ".reg .b128 %v, %w, %r;",
            ".reg .b32 %t;",
            ".reg .b64 %a, %v0, %w0, %r0;",
            "mov.u32 %t, %tid.x;",
        ]
        for k, register in enumerate(("a", "v0", "w0", "r0")):
            lines += [
                f"ld.param.u64 %{register}, [p{k}];",
                f"mad.wide.u32 %{register}, %t, 16, %{register};",
            ]
        lines += ["ld.global.b128 %v, [%v0];", "ld.global.b128 %w, [%w0];"]
        extra = ", %w" if operation == "cas" else ""
        lines += [f"atom.global.{operation}.b128 %r, [%a], %v{extra};", "st.global.b128 [%r0], %r;"]

        def make() -> list[Buffer]:
            a, b, c = (values("b64", f"{k}/wide", 64) for k in range(3))
            b[:32] = a[:32]
            b[32:48:2] = a[32:48:2]
            return [Buffer(a, True, "b64"), Buffer(b), Buffer(c), Buffer(zeros(64, "b64"), True)]

        text = kernel(pointers(4), "\n".join(lines))
        cases.append(
            Case(f"atom.global.{operation}.b128", text, make, (0, 1, 2, 3), block=(32, 1, 1))
        )
    return cases


def atomics() -> list[Case]:
    cases = []
    for space in ("global", "shared"):
        for operation, types in INTEGER.items():
            cases += [own_place(operation, t, space) for t in types]
            if operation != "exch":
                cases += [one_place(operation, t, space) for t in types]
        cases += [own_place("cas", t, space) for t in ("b16", "b32", "b64")]
        cases += [own_place("add", t, space) for t in FLOAT]
        cases += [one_place("add", t, space) for t in FLOAT]
    cases += [
        vector("add", *what) for what in (("f32", 2), ("f32", 4), ("f16x2", 2), ("bf16x2", 4))
    ]
    cases += [vector("add", "f16", 4), vector("add", "bf16", 2)]
    cases += [vector("min", "f16x2", 2), vector("max", "bf16", 4), vector("max", "f16", 2)]
    return cases + wide()
