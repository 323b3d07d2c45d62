"""wgmma.mma_async: shapes, types, layouts in shared memory, manual 9.7.15.5.

Shared memory is filled with small numbers and the descriptors say where the matrices lie, so that
sums are exact and any wrong address shows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .case import BLOCK, Buffer, Case, kernel, pointers, zeros
from .copies import shared_words
from .matrix import fragment
from .values import exact_floats, noise, unit_floats, width_of

AREA = 16384
SPANS = (0, 32, 64, 128)
CODES = {0: 0, 128: 1, 64: 2, 32: 3}


@dataclass(frozen=True)
class Descriptor:
    """Of a matrix in shared memory: bytes, and the swizzle's span. start: in the area."""

    start: int = 0
    leading: int = 16
    stride: int = 1024
    span: int = 128
    base: int = 0

    def bits(self) -> int:
        low = (self.start >> 4) | (self.leading >> 4) << 16
        return low | (self.stride >> 4) << 32 | self.base << 49 | CODES[self.span] << 62


@dataclass(frozen=True)
class Options:
    """of_registers: A comes from registers. scale: scale-d. initial: the accumulator is loaded
    first. trans: 1 for MN-major A and B. steps: K steps, each 32 bytes (or 2048 if MN-major)."""

    of_registers: bool = False
    scale: int = 1
    negate: tuple[int, int] = (1, 1)
    trans: tuple[int, int] = (0, 0)
    exact: bool = True
    allowed: tuple[str, ...] = ()
    satfinite: bool = False
    steps: int = 1
    area: int = AREA


def tail_of(a: str, options: Options) -> str:
    """The immediates after scale-d."""
    if a in ("s8", "u8"):
        return ""
    text = f", {options.negate[0]}, {options.negate[1]}"
    if a in ("f16", "bf16"):
        if not options.of_registers:
            text += f", {options.trans[0]}"
        text += f", {options.trans[1]}"
    return text


def image(a: str, options: Options) -> np.ndarray:
    """What shared memory holds."""
    if a in ("s8", "u8"):
        return noise("wgmma", options.area // 4)
    make = exact_floats if options.exact else unit_floats
    return make(a, f"wgmma/{a}", options.area * 8 // width_of(a)).view(np.uint32)


def product(
    name: str, n: int, d: str, a: str, b: str, at: Descriptor, bt: Descriptor, options: Options
) -> Case:
    count = n // 4 if d == "f16" else n // 2
    k = 256 // width_of(a)
    words = options.area // 4
    lines = [
        f".reg .b32 %d<{count}>, %a<4>, %t, %s;",
        ".reg .b64 %da, %db, %ea, %eb, %o, %c, %f, %g;",
    ]
    lines += [
        ".reg .pred %scale;",
        "mov.u32 %t, %tid.x;",
        "ld.param.u64 %g, [p0];",
        "ld.param.u64 %c, [p1];",
    ]
    lines += ["ld.param.u64 %f, [p2];", "ld.param.u64 %o, [p3];", *shared_words(words, "%g")]
    lines += [
        "fence.proxy.async.shared::cta;",
        "bar.sync 0;",
        f"mad.wide.u32 %c, %t, {4 * count}, %c;",
    ]
    lines += [f"ld.global.b32 %d{j}, [%c+{4 * j}];" for j in range(count)]
    lines += ["mad.wide.u32 %f, %t, 16, %f;", "ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%f];"]
    lines += [
        "mov.u32 %s, area;",
        "shr.u32 %s, %s, 4;",
        "cvt.u64.u32 %da, %s;",
        f"add.u64 %db, %da, {bt.bits():#x};",
    ]
    lines += [f"add.u64 %da, %da, {at.bits():#x};", f"setp.ne.b32 %scale, {options.scale}, 0;"]
    lines.append("wgmma.fence.sync.aligned;")
    registers = ", ".join(f"%d{j}" for j in range(count))
    full = f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{d}.{a}.{b}"
    full = (
        full.replace(f".{d}.", f".{d}.", 1)
        if not options.satfinite
        else full.replace(f"k{k}.", f"k{k}.satfinite.")
    )
    for step in range(options.steps):
        left = "{%a0, %a1, %a2, %a3}" if options.of_registers else "%ea"
        jump = [2048 if t else 32 for t in options.trans]
        lines += [
            f"add.u64 %ea, %da, {step * jump[0] // 16};",
            f"add.u64 %eb, %db, {step * jump[1] // 16};",
        ]
        lines.append(f"{full} {{{registers}}}, {left}, %eb, %scale{tail_of(a, options)};")
    lines += [
        "wgmma.commit_group.sync.aligned;",
        "wgmma.wait_group.sync.aligned 0;",
        f"mad.wide.u32 %o, %t, {4 * count}, %o;",
    ]
    lines += [f"st.global.b32 [%o+{4 * j}], %d{j};" for j in range(count)]

    def make() -> list[Buffer]:
        initial = fragment(d, "wgmma/d", count, not options.satfinite, BLOCK)
        of_a = fragment(a, "wgmma/a", 4, options.exact, BLOCK)
        kept = Buffer(zeros(BLOCK * count, "b32"), True, d)
        return [Buffer(image(a, options)), Buffer(initial), Buffer(of_a), kept]

    head = ".extern .shared .align 1024 .b8 area[];\n"
    text = kernel(pointers(4), "\n".join(lines), head=head)
    return Case(
        f"wgmma.{name}", text, make, (0, 1, 2, 3), shared=options.area, allowed=options.allowed
    )


def k_major(span: int, start: int = 0, stride: int = 0) -> Descriptor:
    if not span:
        return Descriptor(start, 128, stride or 256, 0)
    return Descriptor(start, 16, stride or 8 * span, span)


def layouts() -> list[Case]:
    """f16, every swizzle and both orders, where the matrices start and how far apart rows are."""
    f16 = ("f32", "f16", "f16")
    cases = []
    for span in SPANS:
        a, b = k_major(span), k_major(span, 8192)
        cases.append(product(f"k.{span}", 16, *f16, a, b, Options()))
        wide = k_major(span, 8192, 2 * (8 * span or 256))
        cases.append(product(f"k.{span}.apart", 16, *f16, a, wide, Options()))
        for start in range(32, span, 32):
            cases.append(
                product(
                    f"k.{span}.start{start}",
                    16,
                    *f16,
                    k_major(span, start),
                    k_major(span, 8192 + start),
                    Options(),
                )
            )
        other = k_major(span, 8192 + 4096)
        cases.append(product(f"k.{span}.far", 8, *f16, k_major(span, 4096), other, Options()))
    for leading, stride in ((128, 256), (1024, 128), (2048, 128), (144, 512)):
        d = Descriptor(0, leading, stride, 0)
        e = Descriptor(8192, leading, stride, 0)
        cases.append(product(f"k.0.{leading}.{stride}", 16, *f16, d, e, Options()))
    cases.append(product("k.mixed", 16, *f16, k_major(128), k_major(32, 8192), Options()))
    cases.append(
        product("k.128.steps", 16, *f16, k_major(128), k_major(128, 8192), Options(steps=4))
    )
    for start, base in ((512, 0), (512, 4), (256, 2), (256, 0), (128, 1), (128, 0)):
        d = Descriptor(start, 16, 1024, 128, base)
        name = f"k.128.unaligned{start}.base{base}"
        # The simulator warns of a start inside a pattern that the base offset does not tell of.
        options = Options(allowed=() if base else ("descriptor",))
        cases.append(product(name, 8, *f16, d, k_major(128, 9216), options))
    return cases + transposed()


def transposed() -> list[Case]:
    """MN-major operands, 16-bit types."""
    cases = []
    for t in ("f16", "bf16"):
        for span in SPANS:
            atom = 8 * span if span else 128
            # Atoms along mn ``leading`` apart and along k ``stride`` (without swizzle the other
            # way round).
            apart = ((atom, 4096), (2048, atom)) if span else ((4096, 128), (128, 256))
            for leading, stride in apart if t == "f16" else apart[:1]:
                d = Descriptor(0, leading, stride, span)
                name = f"mn.{t}.{span}.{leading}.{stride}"
                options = Options(trans=(1, 0))
                b = k_major(128, 8192)
                cases.append(product(f"{name}.a", 16, "f32", t, t, d, b, options))
                options = Options(trans=(0, 1))
                cases.append(product(f"{name}.b", 40, "f32", t, t, k_major(32, 12288), d, options))
                options = Options(trans=(1, 1))
                cases.append(product(f"{name}.ab", 16, "f32", t, t, d, d, options))
    d, e = Descriptor(0, 8192, 1024, 128), Descriptor(16384, 4096, 1024, 128)
    options = Options(trans=(1, 1), area=32768, steps=2)
    cases.append(product("mn.128.steps", 128, "f32", "bf16", "bf16", d, e, options))
    return cases


def types() -> list[Case]:
    cases = []
    triples = [
        ("f32", "bf16", "bf16"),
        ("f32", "f16", "f16"),
        ("f16", "f16", "f16"),
        ("f32", "tf32", "tf32"),
    ]
    triples += [
        (d, a, b) for d in ("f16", "f32") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")
    ]
    triples += [("s32", a, b) for a in ("s8", "u8") for b in ("s8", "u8")]
    for d, a, b in triples:
        name = f"{d}.{a}.{b}"
        here = (d, a, b, k_major(128), k_major(128, 8192))
        cases.append(product(f"{name}.n8", 8, *here, Options()))
        cases.append(product(f"{name}.n32", 32, *here, Options(scale=0)))
        cases.append(product(f"{name}.registers", 16, *here, Options(of_registers=True)))
        if d == "s32":
            cases.append(product(f"{name}.satfinite", 8, *here, Options(satfinite=True)))
            continue
        cases.append(product(f"{name}.any", 16, *here, Options(exact=False)))
        for negate in ((-1, 1), (1, -1), (-1, -1)) if a == b else ((-1, 1),):
            options = Options(negate=negate)
            cases.append(product(f"{name}.negate{negate[0]}{negate[1]}", 8, *here, options))
    cases.append(
        product(
            "registers.trans",
            24,
            "f32",
            "f16",
            "f16",
            k_major(128),
            Descriptor(0, 4096, 1024, 128),
            Options(of_registers=True, trans=(0, 1)),
        )
    )
    return cases


def sizes() -> list[Case]:
    cases = []
    for n in (24, 48, 64, 96, 128, 176, 256):
        here = (k_major(128), k_major(128, 8192))
        options = Options(area=8192 + 128 * n)
        cases.append(product(f"n{n}", n, "f32", "f16", "f16", *here, options))
    big = Options(area=8192 + 32768)
    cases.append(product("n256.s8", 256, "s32", "s8", "s8", k_major(128), k_major(128, 8192), big))
    cases.append(
        product("n256.e4m3", 256, "f32", "e4m3", "e4m3", k_major(64), k_major(64, 8192), big)
    )
    cases.append(product("n256.f16", 256, "f16", "f16", "f16", k_major(32), k_major(32, 8192), big))
    return cases


def wgmma() -> list[Case]:
    return layouts() + types() + sizes()
