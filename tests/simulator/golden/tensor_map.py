"""tensormap.replace and tensormap.cp_fenceproxy: maps built and changed on the device, manual
9.7.9.28 and 9.7.13.16."""

from __future__ import annotations

from .case import Buffer, Case, TensorMap, kernel, zeros
from .copies import WAIT, dump_words, shared_words
from .tensor_copy import MAP
from .values import noise

WORDS = 512
BUILD = {
    "rank": ["1"],
    "box_dim": ["0, 16", "1, 8"],
    "global_dim": ["0, 40", "1, 20"],
    "element_stride": ["0, 1", "1, 1"],
    "elemtype": ["7"],
    "interleave_layout": ["0"],
    "swizzle_mode": ["0"],
    "fill_mode": ["0"],
}


def changed(name: str, fields: dict[str, list[str]], copied: bool) -> Case:
    """A map in shared memory, from the parameter if ``copied`` else from zeros, gets ``fields``
    and is used to load a box of 512 bytes at (28, 15). Kept: the box, then the map without its
    address."""
    lines = [f".shared .align 1024 .b8 area[{4 * WORDS}];", ".shared .align 128 .b8 desc[128];"]
    lines += [".shared .align 8 .b64 bar;", ".reg .pred %p, %q;", ".reg .b32 %t, %d, %v<4>;"]
    lines += [".reg .b64 %m, %o, %g, %in, %x;", "mov.u32 %t, %tid.x;", *shared_words(WORDS)]
    lines += ["mov.u32 %d, desc;", "setp.lt.u32 %p, %t, 8;", "mov.b32 %v0, 0;", "mov.b32 %v1, 0;"]
    lines += [
        "mov.b32 %v2, 0;",
        "mov.b32 %v3, 0;",
        "mad.lo.u32 %d, %t, 16, %d;",
        "mov.b64 %m, map;",
    ]
    lines += ["cvta.param.u64 %m, %m;", "mad.wide.u32 %x, %t, 16, %m;"]
    if copied:
        lines.append("@%p ld.v4.b32 {%v0, %v1, %v2, %v3}, [%x];")
    lines += ["@%p st.shared.v4.b32 [%d], {%v0, %v1, %v2, %v3};", "fence.proxy.async.shared::cta;"]
    lines += ["ld.param.u64 %in, [in];", "ld.param.u64 %o, [out];", "ld.param.u64 %g, [global];"]
    lines += ["setp.ne.u32 %q, %t, 0;", "bar.sync 0;", "@%q bra BUILT;"]
    lines += ["mbarrier.init.shared::cta.b64 [bar], 1;", "fence.mbarrier_init.release.cluster;"]
    change = "tensormap.replace.tile.{}.shared::cta.b1024.{} [desc], {};"
    lines.append(change.format("global_address", "b64", "%in"))
    lines += [change.format(f, "b32", value) for f, values in fields.items() for value in values]
    lines += [
        "mov.b64 %x, 192;",
        change.format("global_stride", "b64", "0, %x"),
        "BUILT:",
        "bar.sync 0;",
    ]
    lines += ["setp.ge.u32 %p, %t, 32;", "@%p bra COPIED;"]
    lines.append(
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
        "[%g], [desc], 128;"
    )
    lines += ["@%q bra COPIED;", "fence.proxy.tensormap::generic.acquire.gpu [%g], 128;"]
    lines.append("mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;")
    lines.append(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[area], [%g, {28, 15}], [bar];"
    )
    lines += ["COPIED:", "bar.sync 0;", WAIT.format(0, "bar", 0), *dump_words(WORDS, "%o")]
    lines += ["setp.lt.u32 %p, %t, 8;", "setp.eq.u32 %q, %t, 0;", "mov.u32 %d, desc;"]
    lines += ["mad.lo.u32 %d, %t, 16, %d;", "mad.wide.u32 %o, %t, 16, %o;"]
    lines += ["@%p ld.shared.v4.b32 {%v0, %v1, %v2, %v3}, [%d];", "@%q mov.b32 %v0, 0;"]
    lines += [
        "@%q mov.b32 %v1, 0;",
        f"@%p st.global.v4.b32 [%o+{4 * WORDS}], {{%v0, %v1, %v2, %v3}};",
    ]

    def make() -> list[Buffer]:
        kept = Buffer(zeros(WORDS + 32, "b32"), True)
        return [Buffer(noise("replace", 48 * 24)), kept, Buffer(zeros(32, "b32"))]

    declared = [MAP, ".param .u64 in", ".param .u64 out", ".param .u64 global"]
    text = kernel(declared, "\n".join(lines))
    map_ = TensorMap(0, "f32", (48, 24), (192,), (16, 8))
    return Case(f"replace.{name}", text, make, (map_, 0, 1, 2))


def tensor_maps() -> list[Case]:
    return [
        changed("dims", {"global_dim": ["0, 40", "1, 20"]}, True),
        changed("built", BUILD, False),
        changed("swizzle", BUILD | {"swizzle_mode": ["2"], "fill_mode": ["1"]}, False),
    ]
