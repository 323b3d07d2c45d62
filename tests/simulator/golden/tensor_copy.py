"""Tensor copies through a tensor map, tiled mode, manual 9.7.9.27, 5.5.3 and 5.5.7.

The innermost coordinate is a multiple of 16 bytes everywhere and none is negative in a store: an
H200 answers others with an illegal instruction.
"""

from __future__ import annotations

import numpy as np

from .case import Buffer, Case, TensorMap, kernel, zeros
from .copies import WAIT, dump_words, shared_words
from .values import LIKE_F32, exact_floats, noise, numpy_of, values, width_of

SPANS = (0, 32, 64, 128)
MAP = ".param .align 64 .b8 map[128]"


def tensor(
    type_: str, dims: tuple[int, ...], box: tuple[int, ...], *, pitch: int = 0, **more
) -> TensorMap:
    """A tensor whose rows are ``pitch`` bytes apart (default: packed, rounded up to 16)."""
    row = -(-dims[0] * width_of(type_) // 8 // 16) * 16
    strides, step = [], pitch or row
    for size in dims[1:]:
        strides.append(step)
        step *= size
    return TensorMap(0, type_, dims, tuple(strides), box, **more)


def extent(map_: TensorMap) -> int:
    """Bytes of the buffer under a map."""
    if not map_.strides:
        return -(-map_.dims[0] * width_of(map_.type_) // 8 // 16) * 16
    return map_.offset + map_.strides[-1] * map_.dims[-1]


def box_bytes(map_: TensorMap) -> int:
    steps = map_.element_strides or (1,) * len(map_.dims)
    sizes = [-(-b // s) for b, s in zip(map_.box, steps, strict=True)]
    return int(np.prod(sizes)) * width_of(map_.type_) // 8


def footprint(map_: TensorMap) -> int:
    """Bytes of shared memory that a box spans: with a swizzle its rows lie a whole span apart."""
    row = map_.box[0] * width_of(map_.type_) // 8
    return box_bytes(map_) // row * max(row, SPANS[map_.swizzle])


def load(
    name: str, map_: TensorMap, coordinates: tuple[int, ...], to: int = 0, hint: bool = False
) -> Case:
    """One box to shared memory at ``to`` in an area filled with 0xcd; all of the area is kept."""
    rank, size = len(map_.dims), box_bytes(map_)
    words = -(-(to + footprint(map_)) // 512) * 128
    at = ", ".join(str(c) for c in coordinates)
    lines = [
        f".shared .align 1024 .b8 area[{4 * words}];",
        ".shared .align 8 .b64 bar;",
        ".reg .pred %p, %q;",
    ]
    lines += [
        ".reg .b32 %t;",
        ".reg .b64 %m, %o, %policy;",
        "mov.u32 %t, %tid.x;",
        *shared_words(words),
    ]
    lines += ["fence.proxy.async.shared::cta;", "setp.ne.u32 %q, %t, 0;", "@%q bra READY;"]
    lines += [
        "mbarrier.init.shared::cta.b64 [bar], 1;",
        "fence.mbarrier_init.release.cluster;",
        "READY:",
    ]
    lines += ["bar.sync 0;", "@%q bra ISSUED;", "mov.b64 %m, map;", "cvta.param.u64 %m, %m;"]
    lines += [f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], {size};"]
    full = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    tail = ""
    if hint:
        lines.append("createpolicy.fractional.L2::evict_first.b64 %policy, 1.0;")
        full, tail = f"{full}.L2::cache_hint", ", %policy"
    lines += ["prefetch.tensormap [%m];"] if hint else []
    lines += [
        f"{full} [area+{to}], [%m, {{{at}}}], [bar]{tail};",
        "ISSUED:",
        WAIT.format(0, "bar", 0),
    ]
    lines += ["ld.param.u64 %o, [out];", *dump_words(words, "%o")]

    def make() -> list[Buffer]:
        count = extent(map_) * 8 // width_of(map_.type_)
        t = map_.type_
        data = values(t, f"0/tma/{t}", count) if t in LIKE_F32 else noise(f"tma/{t}", count, t)
        return [Buffer(data), Buffer(zeros(words, "b32"), True)]

    text = kernel([MAP, ".param .u64 out"], "\n".join(lines))
    return Case(f"tma.load.{name}", text, make, (map_, 1))


def store(
    name: str, map_: TensorMap, coordinates: tuple[int, ...], reduction: str = "", source: int = 0
) -> Case:
    """One box from shared memory to a tensor full of a pattern, or reduced into small numbers."""
    rank = len(map_.dims)
    words = -(-(source + footprint(map_)) // 512) * 128
    at = ", ".join(str(c) for c in coordinates)
    lines = [f".shared .align 1024 .b8 area[{4 * words}];", ".reg .pred %q;", ".reg .b32 %t;"]
    lines += [
        ".reg .b64 %m, %a;",
        "mov.u32 %t, %tid.x;",
        "ld.param.u64 %a, [in];",
        *shared_words(words, "%a"),
    ]
    lines += [
        "fence.proxy.async.shared::cta;",
        "bar.sync 0;",
        "setp.ne.u32 %q, %t, 0;",
        "@%q bra END;",
    ]
    lines += ["mov.b64 %m, map;", "cvta.param.u64 %m, %m;"]
    verb = "cp.reduce.async.bulk.tensor" if reduction else "cp.async.bulk.tensor"
    kind = f".{reduction}.tile" if reduction else ".tile"
    full = f"{verb}.{rank}d.global.shared::cta{kind}.bulk_group"
    lines += [f"{full} [%m, {{{at}}}], [area+{source}];", "cp.async.bulk.commit_group;"]
    lines += ["cp.async.bulk.wait_group 0;", "END:"]

    def make() -> list[Buffer]:
        t, count = map_.type_, extent(map_) * 8 // width_of(map_.type_)
        data = noise("tma/store", words)
        target = np.full(count, 0xEE, numpy_of(t))
        if reduction and t in ("f16", "bf16", "f32", "f64"):
            data = exact_floats(t, "0/tma/red", 32 * words // width_of(t)).view(np.uint32)
            target = exact_floats(t, "1/tma/red", count)
        elif reduction:
            target = values(t, "1/tma/red", count)
        return [Buffer(target, True, t), Buffer(data)]

    text = kernel([MAP, ".param .u64 in"], "\n".join(lines))
    return Case(f"tma.store.{name}", text, make, (map_, 1))


def loads() -> list[Case]:
    cases = [load("1d.f32", tensor("f32", (100,), (64,)), (20,))]
    cases.append(load("1d.past", tensor("f32", (100,), (64,)), (72,)))
    cases.append(load("1d.before", tensor("u8", (200,), (96,)), (-32,)))
    for swizzle, span in enumerate(SPANS):
        inner = (span or 128) // 2
        map_ = tensor("f16", (inner + 24, 40), (inner, 16), swizzle=swizzle)
        cases.append(load(f"2d.swizzle{span}", map_, (8, 3)))
        cases.append(load(f"2d.swizzle{span}.outside", map_, (40, 30)))
        cases.append(load(f"2d.swizzle{span}.before", map_, (-8, -5)))
        # A destination that is no multiple of the pattern: the pattern follows the address.
        cases.append(load(f"2d.swizzle{span}.at128", map_, (0, 0), to=128))
        cases.append(load(f"2d.swizzle{span}.at384", map_, (0, 0), to=384))
        if span > 32:
            narrow = tensor("f16", (inner + 24, 40), (inner // 2, 16), swizzle=swizzle)
            cases.append(load(f"2d.swizzle{span}.half", narrow, (8, 3)))
        if span:
            thin = tensor("f16", (inner + 24, 40), (8, 16), swizzle=swizzle)
            cases.append(load(f"2d.swizzle{span}.thin", thin, (8, 3)))
            deep = tensor("f16", (inner, 12, 5), (inner, 6, 3), swizzle=swizzle)
            cases.append(load(f"3d.swizzle{span}", deep, (0, 4, 1)))
            bytes_ = tensor("u8", (span + 32, 20), (span, 9), swizzle=swizzle)
            cases.append(load(f"2d.swizzle{span}.u8", bytes_, (16, 3)))
    for t in ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64"):
        box, unit = 512 // width_of(t), 128 // width_of(t)
        map_ = tensor(t, (box + 7, 9), (box, 8), pitch=(box + 16) * 8)
        cases.append(load(f"2d.{t}", map_, (unit, 4), hint=t == "u8"))
        if t in ("f16", "bf16", "f32", "f64"):
            filled = tensor(t, (box + 7, 9), (box, 8), nan_fill=True)
            cases.append(load(f"2d.{t}.nan", filled, (2 * unit, -2)))
    for t in ("tf32", "f32ftz", "tf32ftz"):
        cases.append(load(f"2d.{t}", tensor_of_kind(t), (4, 4)))
    strided = tensor("f32", (40, 30), (16, 16), element_strides=(1, 2))
    cases.append(load("2d.stride2", strided, (4, 5)))
    cases.append(load("2d.stride2.outside", strided, (28, -3)))
    cases.append(
        load("2d.stride3", tensor("f16", (40, 30), (16, 16), element_strides=(1, 3)), (8, 20))
    )
    three = tensor("bf16", (24, 6, 5), (16, 4, 3))
    for at in ((0, 0, 0), (8, 2, 1), (16, 4, 3), (-8, -1, -2), (104, 0, 0)):
        cases.append(load("3d." + "_".join(str(c) for c in at).replace("-", "m"), three, at))
    four = tensor("f32", (12, 4, 3, 3), (8, 2, 2, 2))
    cases += [load("4d", four, (4, 1, 0, 1)), load("4d.outside", four, (8, 3, 2, 2))]
    five = tensor("f16", (16, 3, 3, 3, 2), (8, 2, 2, 2, 2))
    cases += [load("5d", five, (8, 1, 0, 1, 0)), load("5d.outside", five, (8, 2, 2, -1, 1))]
    return cases


def tensor_of_kind(kind: str) -> TensorMap:
    """An f32 tensor that is loaded as tf32, with denormals flushed, or both."""
    return TensorMap(0, kind, (24, 9), (96,), (16, 8))


def stores() -> list[Case]:
    cases = [store("1d.f32", tensor("f32", (100,), (64,)), (20,))]
    cases.append(store("1d.past", tensor("f32", (100,), (64,)), (72,)))
    for swizzle, span in enumerate(SPANS):
        inner = (span or 128) // 2
        map_ = tensor("f16", (inner + 24, 24), (inner, 16), swizzle=swizzle)
        cases.append(store(f"2d.swizzle{span}", map_, (8, 3)))
        cases.append(store(f"2d.swizzle{span}.outside", map_, (40, 18)))
        cases.append(store(f"2d.swizzle{span}.below", map_, (0, 20)))
        cases.append(store(f"2d.swizzle{span}.at384", map_, (0, 0), source=384))
        if span > 32:
            narrow = tensor("f16", (inner + 24, 24), (inner // 2, 16), swizzle=swizzle)
            cases.append(store(f"2d.swizzle{span}.half", narrow, (8, 3)))
    three = tensor("bf16", (24, 6, 5), (16, 4, 3))
    cases += [store("3d", three, (8, 2, 1)), store("3d.outside", three, (16, 4, 3))]
    cases.append(
        store("2d.stride2", tensor("f32", (24, 20), (16, 16), element_strides=(1, 2)), (4, 5))
    )
    for operation, types in {
        "add": ("u32", "s32", "u64", "f16", "bf16", "f32"),
        "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
        "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
        "and": ("u32", "u64"),
        "or": ("u32", "u64"),
        "xor": ("u32", "u64"),
        "inc": ("u32",),
        "dec": ("u32",),
    }.items():
        for t in types:
            map_ = tensor(t, (24, 12), (16, 8))
            cases.append(store(f"2d.{operation}.{t}", map_, (256 // width_of(t), 2), operation))
    return cases


def tensor_copies() -> list[Case]:
    return loads() + stores()
