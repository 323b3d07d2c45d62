"""cp.async, bulk copies and bulk reductions, manual 9.7.9.25."""

from __future__ import annotations

import numpy as np

from .case import BLOCK, Buffer, Case, kernel, pointers, zeros
from .values import noise, random_floats, small, values, width_of

WAIT = "WAIT{0}: mbarrier.try_wait.parity.shared::cta.b64 %p, [{1}], {2};\n@!%p bra WAIT{0};"


def shared_words(count: int, source: str = "0xcdcdcdcd") -> list[str]:
    """Lines that fill ``count`` words of ``area`` by all threads of a block of 128. ``source``:
    a value, or a register that holds the address of global words."""
    lines = [
        ".reg .pred %fill;",
        ".reg .b32 %i, %w, %spot;",
        ".reg .b64 %far;",
        "mov.u32 %i, %tid.x;",
    ]
    lines.append("FILL:")
    if source.startswith("%"):
        lines += [f"mad.wide.u32 %far, %i, 4, {source};", "ld.global.b32 %w, [%far];"]
    else:
        lines.append(f"mov.b32 %w, {source};")
    lines += [
        "mov.u32 %spot, area;",
        "mad.lo.u32 %spot, %i, 4, %spot;",
        "st.shared.b32 [%spot], %w;",
    ]
    lines += [f"add.u32 %i, %i, {BLOCK};", f"setp.lt.u32 %fill, %i, {count};", "@%fill bra FILL;"]
    return lines


def dump_words(count: int, target: str) -> list[str]:
    """Lines that copy ``count`` words of ``area`` to the global address in a register."""
    lines = [
        "mov.u32 %i, %tid.x;",
        "DUMP:",
        "mov.u32 %spot, area;",
        "mad.lo.u32 %spot, %i, 4, %spot;",
    ]
    lines += [
        "ld.shared.b32 %w, [%spot];",
        f"mad.wide.u32 %far, %i, 4, {target};",
        "st.global.b32 [%far], %w;",
    ]
    lines += [f"add.u32 %i, %i, {BLOCK};", f"setp.lt.u32 %fill, %i, {count};", "@%fill bra DUMP;"]
    return lines


def thread_copies() -> list[Case]:
    """Every size, with less source than destination, ignored sources, groups and mbarriers."""
    cases = []
    for size in (4, 8, 16):
        for form in ("ca", "cg") if size == 16 else ("ca",):
            for extra in ("", "size", "ignore"):
                tail = {"": "", "size": ", %k", "ignore": ", %ig"}[extra]
                copy = f"cp.async.{form}.shared.global [%s], [%a], {size}{tail};"
                cases.append(thread_copy(f"cp_async.{form}.{size}.{extra or 'plain'}", copy, size))
    copy = "cp.async.cg.shared.global.L2::128B [%s], [%a], 16;"
    cases.append(thread_copy("cp_async.l2", copy, 16))
    copy = "cp.async.ca.shared.global [%s], [%a], 8;"
    for noinc in ("", ".noinc"):
        cases.append(thread_copy(f"cp_async.mbarrier{noinc}", copy, 8, noinc))
    return cases


def thread_copy(name: str, copy: str, size: int, mbarrier: str | None = None) -> Case:
    """Each thread copies ``size`` bytes, in one of three groups, then waits for all."""
    lines = [
        ".shared .align 16 .b8 area[4096];",
        ".shared .align 8 .b64 bar;",
        ".reg .pred %p, %ig;",
    ]
    lines += [".reg .b32 %t, %s, %k, %x;", ".reg .b64 %a, %o;", "mov.u32 %t, %tid.x;"]
    lines += shared_words(4 * BLOCK)
    count = BLOCK if mbarrier == ".noinc" else 1
    lines += [
        "setp.eq.u32 %p, %t, 0;",
        f"@%p mbarrier.init.shared.b64 [bar], {count};",
        "bar.sync 0;",
    ]
    lines += ["ld.param.u64 %a, [p0];", f"mad.wide.u32 %a, %t, {size}, %a;", "mov.u32 %s, area;"]
    lines += ["mad.lo.u32 %s, %t, 16, %s;", f"rem.u32 %k, %t, {size + 1};", "and.b32 %x, %t, 3;"]
    lines += ["setp.eq.u32 %ig, %x, 1;", copy]
    if mbarrier is None:
        lines += ["cp.async.commit_group;", "cp.async.wait_group 0;", "bar.sync 0;"]
    else:
        lines += [f"cp.async.mbarrier.arrive{mbarrier}.shared.b64 [bar];"]
        if not mbarrier:  # every arrival was announced by an increment; one more is expected
            lines += ["bar.sync 0;", "@%p mbarrier.arrive.shared.b64 _, [bar];"]
        lines.append(WAIT.format(0, "bar", 0))
    lines += ["ld.param.u64 %o, [p1];", *dump_words(4 * BLOCK, "%o")]

    def make() -> list[Buffer]:
        data = noise("cp_async", BLOCK * size // 4)
        return [Buffer(data), Buffer(zeros(4 * BLOCK, "b32"), True)]

    return Case(name, kernel(pointers(2), "\n".join(lines)), make, (0, 1))


def bulk_in() -> list[Case]:
    """Global to shared: sizes, offsets, several copies for one mbarrier."""
    cases = []
    for k, pieces in enumerate([[(0, 0, 16)], [(16, 48, 992)], [(0, 512, 256), (512, 0, 512)]]):
        lines = [
            ".shared .align 128 .b8 area[1024];",
            ".shared .align 8 .b64 bar;",
            ".reg .pred %p, %q;",
        ]
        lines += [
            ".reg .b32 %t, %s;",
            ".reg .b64 %a, %o;",
            "mov.u32 %t, %tid.x;",
            *shared_words(256),
        ]
        lines += ["fence.proxy.async.shared::cta;", "setp.ne.u32 %q, %t, 0;", "@%q bra READY;"]
        lines += [
            "mbarrier.init.shared::cta.b64 [bar], 1;",
            "fence.mbarrier_init.release.cluster;",
            "READY:",
        ]
        lines += ["bar.sync 0;", "@%q bra ISSUED;", "ld.param.u64 %a, [p0];"]
        total = sum(size for _, _, size in pieces)
        lines.append(f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {total};")
        for to, source, size in pieces:
            lines.append(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                f"[area+{to}], [%a+{source}], {size}, [bar];"
            )
        lines += [
            "ISSUED:",
            WAIT.format(0, "bar", 0),
            "ld.param.u64 %o, [p1];",
            *dump_words(256, "%o"),
        ]

        def make() -> list[Buffer]:
            return [Buffer(noise("bulk", 288)), Buffer(zeros(256, "b32"), True)]

        cases.append(Case(f"bulk.load.{k}", kernel(pointers(2), "\n".join(lines)), make, (0, 1)))
    return cases


def bulk_out(
    name: str, instruction: str, source: np.ndarray, target: np.ndarray, type_: str
) -> Case:
    """Shared to global by ``instruction`` (with its qualifiers): 1008 bytes, 16 into both."""
    lines = [
        ".shared .align 128 .b8 area[1024];",
        ".reg .pred %q;",
        ".reg .b32 %t, %s;",
        ".reg .b64 %a, %o;",
    ]
    lines += [
        "mov.u32 %t, %tid.x;",
        "ld.param.u64 %a, [p0];",
        "ld.param.u64 %o, [p1];",
        *shared_words(256, "%a"),
    ]
    lines += [
        "fence.proxy.async.shared::cta;",
        "bar.sync 0;",
        "setp.ne.u32 %q, %t, 0;",
        "@%q bra END;",
    ]
    lines += [f"{instruction} [%o+16], [area+16], 1008;", "cp.async.bulk.commit_group;"]
    lines += ["cp.async.bulk.wait_group.read 0;", "cp.async.bulk.wait_group 0;", "END:"]

    def make() -> list[Buffer]:
        return [Buffer(source), Buffer(target, True, type_)]

    return Case(name, kernel(pointers(2), "\n".join(lines)), make, (0, 1))


def bulk_reductions() -> list[Case]:
    cases = [
        bulk_out(
            "bulk.store",
            "cp.async.bulk.global.shared::cta.bulk_group",
            noise("out", 256),
            small("target", 256, 0, 9),
            "b32",
        )
    ]
    types = {op: ("u32", "s32", "u64") for op in ("add", "min", "max")}
    types |= {op: ("b32", "b64") for op in ("and", "or", "xor")} | {
        "inc": ("u32",),
        "dec": ("u32",),
    }
    types["min"] = types["max"] = ("u32", "s32", "u64", "s64", "f16", "bf16")
    types["add"] = (*types["add"], "f16", "bf16", "f32", "f64")
    for operation, all_of in types.items():
        for t in all_of:
            count = 1024 * 8 // width_of(t)
            noftz = ".noftz" if t in ("f16", "bf16") and operation == "add" else ""
            name = f"bulk.reduce.{operation}.{t}"
            text = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{operation}{noftz}.{t}"
            floats = t in ("f16", "bf16", "f32", "f64")
            source, target = (
                random_floats(t, f"{k}/red", count) if floats else values(t, f"{k}/red", count)
                for k in range(2)
            )
            cases.append(bulk_out(name, text, source, target, t))
    return cases


def copies() -> list[Case]:
    return thread_copies() + bulk_in() + bulk_reductions()
