"""ldmatrix, stmatrix, movmatrix and mma.sync, manual 9.7.14.5."""

from __future__ import annotations

import numpy as np

from .case import BLOCK, Buffer, Case, elementwise, kernel, pointers, zeros
from .copies import dump_words, shared_words
from .values import exact_floats, noise, numpy_of, stream, unit_floats, width_of

WARPS = 2


def rows(seed: str) -> np.ndarray:
    """(128,) a row number for each thread; those of a warp are 32 different ones of its own 32."""
    order = np.concatenate([np.argsort(stream(f"{seed}/{w}", 32)) + 32 * w for w in range(4)])
    return order.astype(np.uint32)


def moving(name: str, instruction: str, count: int, load: bool) -> Case:
    """ldmatrix from, or stmatrix to, 16-byte rows of ``area`` named by each thread."""
    lines = [
        ".shared .align 128 .b8 area[2048];",
        ".reg .b32 %t, %s, %v<4>;",
        ".reg .b64 %a, %r, %o, %x;",
    ]
    lines += [
        "mov.u32 %t, %tid.x;",
        "ld.param.u64 %a, [p0];",
        "ld.param.u64 %r, [p1];",
        "ld.param.u64 %o, [p2];",
    ]
    lines += shared_words(512, "%a" if load else "0xcdcdcdcd")
    lines += [
        "mad.wide.u32 %r, %t, 4, %r;",
        "ld.global.b32 %s, [%r];",
        "mov.u32 %w, area;",
        "mad.lo.u32 %s, %s, 16, %w;",
    ]
    lines += ["bar.sync 0;"]
    names = ", ".join(f"%v{k}" for k in range(count))
    if load:
        lines.append(f"{instruction} {{{names}}}, [%s];")
        lines.append(f"mad.wide.u32 %o, %t, {4 * count}, %o;")
        lines += [f"st.global.b32 [%o+{4 * k}], %v{k};" for k in range(count)]
    else:
        lines.append(f"mad.wide.u32 %x, %t, {4 * count}, %a;")
        lines += [f"ld.global.b32 %v{k}, [%x+{4 * k}];" for k in range(count)]
        lines += [f"{instruction} [%s], {{{names}}};", "bar.sync 0;", *dump_words(512, "%o")]

    def make() -> list[Buffer]:
        kept = zeros(BLOCK * count if load else 512, "b32")
        return [Buffer(noise("matrix", 512)), Buffer(rows(name)), Buffer(kept, True)]

    return Case(name, kernel(pointers(3), "\n".join(lines)), make, (0, 1, 2))


def movers() -> list[Case]:
    cases = []
    for trans in ("", ".trans"):
        for n in (1, 2, 4):
            name = f"ldmatrix.sync.aligned.m8n8.x{n}{trans}.shared.b16"
            cases.append(moving(f"ldmatrix.x{n}{trans}", name, n, True))
            name = f"stmatrix.sync.aligned.m8n8.x{n}{trans}.shared.b16"
            cases.append(moving(f"stmatrix.x{n}{trans}", name, n, False))
    body = "movmatrix.sync.aligned.m8n8.trans.b16 %d, %a;"
    operand = ("a", "b32", lambda count: noise("movmatrix", count))
    cases.append(elementwise("movmatrix", body, [operand], [("d", "b32")], count=128))
    return cases


def fragment(type_: str, seed: str, registers: int, exact: bool, threads: int) -> np.ndarray:
    """(threads * registers,) 32-bit words, or 64-bit for f64, of ``type_``'s values."""
    if type_ in ("s8", "u8") or (type_ == "s32" and not exact):
        return noise(seed, threads * registers)
    if type_ == "s32":
        return (noise(seed, threads * registers) % 2000).astype(np.uint32)
    word = np.uint64 if type_ == "f64" else np.uint32
    count = threads * registers * np.dtype(word).itemsize * 8 // width_of(type_)
    make = exact_floats if exact else unit_floats
    return make(type_, seed, count).view(word)


# Shape, registers of A, B and C with 32-bit elements; C of f16 takes half.
SHAPES = {
    "f16": [("m16n8k8", 2, 1, 4), ("m16n8k16", 4, 2, 4)],
    "tf32": [("m16n8k4", 2, 1, 4), ("m16n8k8", 4, 2, 4)],
    "f64": [("m8n8k4", 1, 1, 2), ("m16n8k4", 2, 1, 4), ("m16n8k8", 4, 2, 4), ("m16n8k16", 8, 4, 4)],
    "s8": [("m8n8k16", 1, 1, 2), ("m16n8k16", 2, 1, 4), ("m16n8k32", 4, 2, 4)],
    "e4m3": [("m16n8k16", 2, 1, 4), ("m16n8k32", 4, 2, 4)],
}
SHAPES["bf16"] = SHAPES["f16"]


def mma(
    shape: tuple[str, int, int, int],
    d: str,
    a: str,
    b: str,
    *,
    exact: bool = True,
    more: str = "",
) -> Case:
    name, na, nb, nc = shape
    if d == "f16":
        nc //= 2
    word = "b64" if a == "f64" else "b32"
    size = width_of(word) // 8
    threads = 32 * WARPS
    lines = [
        f".reg .{word} %a<{na}>, %b<{nb}>, %c<{nc}>, %d<{nc}>;",
        ".reg .b32 %t;",
        ".reg .b64 %x;",
        "mov.u32 %t, %tid.x;",
    ]
    groups = []
    for k, (register, n) in enumerate((("a", na), ("b", nb), ("c", nc), ("d", nc))):
        lines += [f"ld.param.u64 %x, [p{k}];", f"mad.wide.u32 %x, %t, {n * size}, %x;"]
        groups.append("{" + ", ".join(f"%{register}{j}" for j in range(n)) + "}")
        if register != "d":
            lines += [f"ld.global.{word} %{register}{j}, [%x+{j * size}];" for j in range(n)]
    full = f"mma.sync.aligned.{name}.row.col{more}.{d}.{a}.{b}.{d}"
    lines.append(f"{full} {groups[3]}, {groups[0]}, {groups[1]}, {groups[2]};")
    lines += [f"st.global.{word} [%x+{j * size}], %d{j};" for j in range(nc)]

    def make() -> list[Buffer]:
        inputs = [
            fragment(t, f"mma/{r}", n, exact, threads)
            for r, t, n in (("a", a, na), ("b", b, nb), ("c", d, nc))
        ]
        kept = np.zeros(threads * nc, numpy_of(word))
        return [*(Buffer(data) for data in inputs), Buffer(kept, True, d)]

    text = kernel(pointers(4), "\n".join(lines))
    label = f"{full.removeprefix('mma.sync.aligned.')}{'' if exact else '.any'}"
    return Case(f"mma.{label}", text, make, (0, 1, 2, 3), block=(threads, 1, 1))


def multiplications() -> list[Case]:
    cases = []
    for exact in (True, False):
        for shape in SHAPES["f16"]:
            cases += [mma(shape, d, "f16", "f16", exact=exact) for d in ("f16", "f32")]
            cases.append(mma(shape, "f32", "bf16", "bf16", exact=exact))
        cases += [mma(shape, "f32", "tf32", "tf32", exact=exact) for shape in SHAPES["tf32"]]
        cases += [mma(shape, "f64", "f64", "f64", exact=exact) for shape in SHAPES["f64"]]
        for shape in SHAPES["e4m3"]:
            for a in ("e4m3", "e5m2"):
                for b in ("e4m3", "e5m2"):
                    cases += [mma(shape, d, a, b, exact=exact) for d in ("f16", "f32")]
        for shape in SHAPES["s8"]:
            for a in ("u8", "s8"):
                for b in ("u8", "s8") if exact else (a,):
                    more = "" if exact else ".satfinite"
                    cases.append(mma(shape, "s32", a, b, exact=exact, more=more))
    return cases


def matrix() -> list[Case]:
    return movers() + multiplications()
