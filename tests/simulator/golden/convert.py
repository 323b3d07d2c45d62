"""cvt and cvt.pack, manual 9.7.9.21 and 9.7.9.22."""

from __future__ import annotations

from .case import Case, elementwise
from .values import everything, width_of

INTEGERS = tuple(f"{s}{w}" for w in (8, 16, 32, 64) for s in "us")
FLOATS = ("f16", "bf16", "f32", "f64")
ROUNDINGS = ("rn", "rz", "rm", "rp")
TO_INTEGER = ("rni", "rzi", "rmi", "rpi")
EIGHT = ("e4m3x2", "e5m2x2")


def convert(name: str, source: str, result: str, count: int = 512, every: bool = False) -> Case:
    operand = ("a", source, lambda n: everything(source)) if every else ("a", source)
    return elementwise(
        name, f"{name} %d, %a;", [operand], [("d", result)], count=65536 if every else count
    )


def packing(name: str, source: str, result: str, count: int = 1024) -> Case:
    operands = [("a", source), ("b", source)]
    return elementwise(name, f"{name} %d, %a, %b;", operands, [("d", result)], count=count)


def holds(outer: str, inner: str) -> bool:
    """Whether every value of the integer type ``inner`` fits ``outer``: then .sat is refused."""
    if outer[0] == inner[0]:
        return width_of(outer) > width_of(inner)
    return inner[0] == "u" and width_of(outer) > width_of(inner)


def integers() -> list[Case]:
    cases = []
    for s in INTEGERS:
        for d in INTEGERS:
            if d != s:
                cases.append(convert(f"cvt.{d}.{s}", s, d, 256))
                if not holds(d, s):
                    cases.append(convert(f"cvt.sat.{d}.{s}", s, d, 256))
        floats = [f for f in FLOATS if f != "bf16" or width_of(s) > 8]
        for d in floats:
            cases += [convert(f"cvt.{r}.{d}.{s}", s, d, 384) for r in ROUNDINGS]
        cases += [convert(f"cvt.rn.sat.f32.{s}", s, "f32", 128)]
        for f in floats:
            # A single rounding for the wider formats, all four for f32: the code is one.
            for r in TO_INTEGER if f == "f32" else ("rni", "rzi", "rpi"):
                cases.append(convert(f"cvt.{r}.{s}.{f}", f, s, 384))
        cases.append(convert(f"cvt.rmi.ftz.{s}.f32", "f32", s, 256))
        cases.append(convert(f"cvt.rni.sat.{s}.f32", "f32", s, 256))
    # An 8-bit result in a 32-bit register: sign- or zero-extended.
    for d in ("s8", "u8", "s16", "u16"):
        body = f"cvt.{d}.s32 %d, %a;"
        operand = [("a", "s32")]
        cases.append(elementwise(f"cvt.{d}.s32.wide", body, operand, [("d", "b32")], count=256))
        body = f"cvt.rzi.{d}.f32 %d, %a;"
        operand = [("a", "f32")]
        cases.append(elementwise(f"cvt.rzi.{d}.f32.wide", body, operand, [("d", "b32")], count=256))
    return cases


def floats() -> list[Case]:
    cases = []
    for r in ROUNDINGS:
        for m in ("", ".ftz", ".sat", ".ftz.sat"):
            cases.append(convert(f"cvt.{r}{m}.f32.f64", "f64", "f32", 1024))
        for s in ("f32", "f64"):
            for d in ("f16", "bf16"):
                cases.append(convert(f"cvt.{r}.{d}.{s}", s, d, 1024))
        cases.append(convert(f"cvt.{r}.ftz.f16.f32", "f32", "f16"))
        cases.append(convert(f"cvt.{r}.sat.f16.f32", "f32", "f16"))
    for t in FLOATS:
        for r in TO_INTEGER:
            cases.append(convert(f"cvt.{r}.{t}.{t}", t, t, 512))
    cases += [convert(f"cvt.{r}.ftz.f32.f32", "f32", "f32") for r in TO_INTEGER]
    cases += [
        convert("cvt.rni.sat.f32.f32", "f32", "f32"),
        convert("cvt.sat.f32.f32", "f32", "f32"),
    ]
    cases += [convert("cvt.ftz.f32.f32", "f32", "f32")]
    for m in ("", ".ftz", ".sat"):
        cases.append(convert(f"cvt{m}.f64.f32", "f32", "f64"))
        cases.append(convert(f"cvt{m}.f32.f16", "f16", "f32"))
    cases += [convert("cvt.f32.bf16", "bf16", "f32"), convert("cvt.f64.f16", "f16", "f64")]
    cases += [convert("cvt.f64.bf16", "bf16", "f64"), convert("cvt.rn.bf16.f16", "f16", "bf16")]
    cases += [convert("cvt.rn.f16.bf16", "bf16", "f16"), convert("cvt.rz.f16.bf16", "bf16", "f16")]
    return cases


def narrow() -> list[Case]:
    """Packed and 8-bit floats, and tf32."""
    cases = []
    for d in ("f16", "bf16"):
        for r in ("rn", "rz"):
            for m in ("", ".relu", ".satfinite", ".relu.satfinite"):
                name = f"cvt.{r}{m}.{d}"
                cases.append(packing(f"{name}x2.f32", "f32", f"{d}x2"))
                if m:
                    cases.append(convert(f"{name}.f32", "f32", d, 1024))
    for r in ("rn", "rz"):
        cases += [convert(f"cvt.{r}{m}.tf32.f32", "f32", "b32", 1024) for m in ("", ".relu")]
    cases += [convert("cvt.rna.tf32.f32", "f32", "b32", 1024)]
    cases.append(convert("cvt.rna.satfinite.tf32.f32", "f32", "b32"))
    for t in EIGHT:
        for relu in ("", ".relu"):
            cases.append(packing(f"cvt.rn.satfinite{relu}.{t}.f32", "f32", t, 2048))
            cases.append(convert(f"cvt.rn.satfinite{relu}.{t}.f16x2", "f16x2", t, 1024))
            cases.append(convert(f"cvt.rn{relu}.f16x2.{t}", t, "f16x2", 512))
        body = f"shl.b16 %b, %a, 8;\nxor.b16 %a, %a, %b;\ncvt.rn.f16x2.{t} %d, %a;"
        every = [("a", "u8", lambda count: everything("u8"))]
        cases.append(
            elementwise(
                f"cvt.rn.f16x2.{t}.every",
                body,
                every,
                [("d", "f16x2")],
                count=256,
                registers=".reg .b16 %b;",
            )
        )
    every = [("a", "f16", lambda count: everything("f16"))]
    for t in EIGHT:
        body = f"mov.b32 %b, {{%a, %a}};\ncvt.rn.satfinite.{t}.f16x2 %d, %b;"
        cases.append(
            elementwise(
                f"cvt.rn.satfinite.{t}.f16.every",
                body,
                every,
                [("d", "b16")],
                count=65536,
                registers=".reg .b32 %b;",
            )
        )
    return cases


def packs() -> list[Case]:
    cases = [packing(f"cvt.pack.sat.{d}.s32", "s32", "b32", 256) for d in ("u16", "s16")]
    for d in ("u8", "s8"):
        operands = [("a", "s32"), ("b", "s32"), ("c", "b32")]
        name = f"cvt.pack.sat.{d}.s32.b32"
        cases.append(
            elementwise(name, f"{name} %d, %a, %b, %c;", operands, [("d", "b32")], count=256)
        )
    return cases


def conversions() -> list[Case]:
    return integers() + floats() + narrow() + packs()
