"""Clusters: distributed shared memory, remote mbarriers, multicast, manual 9.7.9.23 to 25."""

from __future__ import annotations

from .case import Buffer, Case, TensorMap, kernel, pointers, zeros
from .copies import WAIT
from .values import noise

THREADS = 64
MEET = ["barrier.cluster.arrive.release;", "barrier.cluster.wait.acquire;"]
HEAD = [
    ".shared .align 1024 .b8 area[2048];",
    ".shared .align 8 .b64 bar;",
    ".reg .pred %p, %q, %first;",
    ".reg .b32 %t, %b, %r, %g, %s, %peer, %far, %x, %y, %n, %mb;",
    ".reg .b64 %in, %out, %a, %c, %m;",
    "mov.u32 %t, %tid.x;",
    "mov.u32 %b, %ctaid.x;",
    "mov.u32 %r, %cluster_ctarank;",
    "mov.u32 %n, %cluster_nctarank;",
    f"mad.lo.u32 %g, %b, {THREADS}, %t;",
    "ld.param.u64 %in, [p0];",
    "ld.param.u64 %out, [p1];",
    "mad.wide.u32 %a, %g, 4, %in;",
    "mad.wide.u32 %c, %g, 16, %out;",
    "ld.global.b32 %x, [%a];",
    "mov.u32 %s, area;",
    "mad.lo.u32 %s, %t, 4, %s;",
    "st.shared.b32 [%s], %x;",
    "st.shared.b32 [%s+1024], 0;",
    "setp.eq.u32 %first, %t, 0;",
    "@%first mbarrier.init.shared::cta.b64 [bar], 1;",
    "fence.mbarrier_init.release.cluster;",
    "fence.proxy.async.shared::cta;",
    # The next block of the cluster.
    "add.u32 %peer, %r, 1;",
    "rem.u32 %peer, %peer, %n;",
    "mapa.shared::cluster.u32 %far, %s, %peer;",
    "mov.u32 %mb, bar;",
    *MEET,
]


def case(
    name: str, lines: list[str], size: int = 4, parameters: tuple = (0, 1), extra: str = ""
) -> Case:
    """Two clusters. ``lines`` may use what HEAD made; each thread has 16 bytes at %c. ``extra``:
    a parameter after the two pointers."""

    def make() -> list[Buffer]:
        count = 2 * size * THREADS
        return [Buffer(noise("cluster", count)), Buffer(zeros(4 * count, "b32"), True)]

    declared = pointers(2) + ([extra] if extra else [])
    text = kernel(declared, "\n".join([*HEAD, *lines, *MEET]))
    grid, block = (2 * size, 1, 1), (THREADS, 1, 1)
    return Case(f"cluster.{name}", text, make, parameters, grid, block, (size, 1, 1))


def stored(*registers: str) -> list[str]:
    return [f"st.global.b32 [%c+{4 * k}], {r};" for k, r in enumerate(registers)]


def identities() -> list[Case]:
    """Special registers, and what addresses of other blocks look like."""
    cases = []
    names = [
        "cluster_ctarank",
        "cluster_nctarank",
        "clusterid.x",
        "nclusterid.x",
        "cluster_ctaid.x",
    ]
    names += ["cluster_nctaid.x", "clusterid.y", "cluster_ctaid.y"]
    for name in names:
        lines = [f"mov.u32 %x, %{name};", *stored("%x")]
        cases += [case(f"{name}.of{size}", lines, size) for size in (2, 4)]
    lines = ["mov.pred %p, %is_explicit_cluster;", "selp.b32 %x, 1, 0, %p;", *stored("%x")]
    cases.append(case("is_explicit", lines))
    # The rank of an address of each kind, and the distance between two blocks' windows.
    lines = ["getctarank.shared::cluster.u32 %x, %far;", "getctarank.shared::cluster.u32 %y, %s;"]
    lines += ["cvt.u64.u32 %m, %s;", "cvta.shared.u64 %m, %m;", "mapa.u64 %m, %m, %peer;"]
    lines += ["getctarank.u64 %g, %m;", *stored("%x", "%y", "%g")]
    cases.append(case("getctarank", lines, 4))
    lines = ["mapa.shared::cluster.u32 %y, %s, %r;", "sub.u32 %y, %far, %y;", "shr.s32 %x, %y, 24;"]
    lines += ["shr.u32 %y, %s, 24;", *stored("%x", "%y")]
    cases.append(case("distance", lines, 4))
    return cases


def accesses() -> list[Case]:
    cases = []
    for size in (2, 4):
        lines = ["ld.shared::cluster.b32 %x, [%far];", "ld.shared::cluster.b32 %y, [%far+4];"]
        cases.append(case(f"ld.of{size}", ["mov.b32 %y, 0;", lines[0], *stored("%x")], size))
        lines = ["st.shared::cluster.b32 [%far+1024], %g;", *MEET, "ld.shared.b32 %x, [%s+1024];"]
        cases.append(case(f"st.of{size}", [*lines, *stored("%x")], size))
        lines = ["mapa.shared::cluster.u32 %far, area, 0;", "and.b32 %y, %t, 7;"]
        lines += ["mad.lo.u32 %far, %y, 4, %far;", "red.shared::cluster.add.u32 [%far+1024], %g;"]
        lines += [*MEET, "ld.shared.b32 %x, [%s+1024];", *stored("%x")]
        cases.append(case(f"red.of{size}", lines, size))
        lines = ["atom.shared::cluster.xor.b32 %y, [%far], %g;", *MEET, "ld.shared.b32 %x, [%s];"]
        cases.append(case(f"atom.of{size}", [*lines, *stored("%x", "%y")], size))
    lines = ["cvt.u64.u32 %m, %s;", "cvta.shared.u64 %m, %m;", "mapa.u64 %m, %m, %peer;"]
    lines += [
        "ld.b32 %x, [%m];",
        "isspacep.shared::cluster %p, %m;",
        "isspacep.shared::cta %q, %m;",
    ]
    lines += ["selp.b32 %y, 1, 0, %p;", "selp.b32 %g, 1, 0, %q;", *stored("%x", "%y", "%g")]
    cases.append(case("generic", lines, 4))
    return cases


def arrivals() -> list[Case]:
    """Another block's mbarrier: arrive, expect_tx, st.async, red.async, a bulk copy."""
    remote = "mapa.shared::cluster.u32 %y, %mb, %peer;"
    wait = [WAIT.format(0, "bar", 0)]
    lines = [remote, "@%first mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%y];"]
    lines += [WAIT.format(0, "bar", 0).replace("parity", "parity.acquire.cluster"), *stored("%g")]
    cases = [case("arrive", lines)]
    lines = [remote, f"@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {4 * THREADS};"]
    form = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%far+1024], %g, [%y];"
    cases.append(
        case("st_async", [*lines, form, *wait, "ld.shared.b32 %x, [%s+1024];", *stored("%x")], 4)
    )
    lines[1] = f"@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {16 * 32};"
    vector = ["setp.lt.u32 %q, %t, 32;", "mul.lo.u32 %far, %t, 16;", "add.u32 %far, %far, area;"]
    vector[2] = "mapa.shared::cluster.u32 %s, area, %peer;\nadd.u32 %far, %far, %s;"
    vector.append(
        "@%q st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%far+1024], {%g, %x, %t, %r}, [%y];"
    )
    read = [
        "mov.u32 %s, area;",
        "mad.lo.u32 %s, %t, 8, %s;",
        "ld.shared.v2.b32 {%x, %y}, [%s+1024];",
    ]
    cases.append(case("st_async.v4", [*lines, *vector, *wait, *read, *stored("%x", "%y")]))
    for operation, type_ in (
        ("add", "u32"),
        ("min", "s32"),
        ("max", "u32"),
        ("xor", "b32"),
        ("inc", "u32"),
        ("add", "u64"),
    ):
        size = 8 if type_ == "u64" else 4
        lines[1] = f"@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {size * THREADS};"
        form = f"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{operation}.{type_}"
        place = [
            "mapa.shared::cluster.u32 %far, area, %peer;",
            "and.b32 %x, %t, 3;",
            f"mad.lo.u32 %far, %x, {size}, %far;",
        ]
        value = "%g"
        if size == 8:
            place.append("mov.b64 %m, {%g, %t};")
            value = "%m"
        elif operation == "inc":
            place.append("mov.b32 %g, 9;")
        ended = ["ld.shared.b32 %x, [%s+1024];", *stored("%x")]
        cases.append(
            case(
                f"red_async.{operation}.{type_}",
                [*lines, *place, f"{form} [%far+1024], {value}, [%y];", *wait, *ended],
            )
        )
    lines[1] = "@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;"
    lines += ["mapa.shared::cluster.u32 %far, area, %peer;"]
    form = "@%first cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%far+1024], [area], 256, [%y];"
    cases.append(
        case("bulk", [*lines, form, *wait, "ld.shared.b32 %x, [%s+1024];", *stored("%x")], 4)
    )
    return cases


def multicast() -> list[Case]:
    """One block's copy reaches the blocks of a mask, and their mbarriers."""
    cases = []
    for size, mask in ((2, 3), (4, 15), (4, 5)):
        # Blocks in the mask wait for 256 bytes; rank 0 issues.
        lines = [f"shr.u32 %y, {mask}, %r;", "and.b32 %y, %y, 1;", "setp.ne.b32 %q, %y, 0;"]
        lines += [
            "and.pred %p, %q, %first;",
            "@%p mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;",
        ]
        lines += [
            "setp.eq.and.u32 %p, %r, 0, %first;",
            ".reg .b16 %mask;",
            f"mov.b16 %mask, {mask};",
        ]
        bulk = "@%p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        bulk += "[area+1024], [%in], 256, [bar], %mask;"
        ended = [
            "@!%q bra PAST;",
            WAIT.format(0, "bar", 0),
            "PAST:",
            "ld.shared.b32 %x, [%s+1024];",
            *stored("%x"),
        ]
        cases.append(case(f"multicast.bulk.{mask}.of{size}", [*lines, bulk, *ended], size))
        tile = (
            "@%p cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        )
        tile += ".multicast::cluster [area+1024], [%m, {4, 1}], [bar], %mask;"
        map_ = TensorMap(0, "f32", (16, 2 * size * THREADS // 16), (64,), (8, 8))
        use = ["mov.b64 %m, map;", "cvta.param.u64 %m, %m;", tile, *ended]
        declared = ".param .align 64 .b8 map[128]"
        cases.append(
            case(f"multicast.tma.{mask}.of{size}", [*lines, *use], size, (0, 1, map_), declared)
        )
    return cases


def clusters() -> list[Case]:
    return identities() + accesses() + arrivals() + multicast()
