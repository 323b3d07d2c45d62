"""Which threads, vectors and cache policy a copy wants: the measurements behind ch04's constants.

    python tests/gpu/tune_ch04.py            # writes $OUT/tune_ch04.json (or ./tune_ch04.json)

Needs a CUDA GPU of capability 9.0 or higher and about 30 GiB of its memory. Every variant is
checked before it is timed, and timed launch by launch in turn with all the others and with
PyTorch's own copy, the ruler. Rates count bytes read plus bytes written.
"""

from __future__ import annotations

import importlib
import itertools
import json
import operator
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack, make_fake_compact_tensor, make_fake_stream

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
machine = importlib.import_module("checkers.machine")
interleaved = importlib.import_module("tests.gpu.interleaved")
solution = importlib.import_module("solutions.ch04_vectorized_copies")

ROUNDS = 15
# These end up in kernel names, where NVVM takes letters, digits and underscores only.
CACHE = ("plain", "streaming", "no_allocate", "read_only", "no_allocate_streaming")


@dataclass(frozen=True)
class Variant:
    """One way to compile the flat kernel.

    op: "copy" | "silu_mul".  bits: of one load.  layout: "warp" (neighbouring threads on
    neighbouring vectors) | "thread" (each thread's vectors in one piece).
    """

    op: str
    threads: int
    vectors: int
    cache: str = "plain"
    bits: int = 128
    layout: str = "warp"

    def __str__(self) -> str:
        return (
            f"{self.op} {self.threads}x{self.vectors} of {self.bits} bits, {self.cache}, "
            f"{self.layout}"
        )


def load_options(cache: str) -> dict:
    """Arguments of a load's copy atom."""
    nvgpu = cute.nvgpu
    return {
        "plain": {},
        "streaming": {"load_cache_mode": nvgpu.LoadCacheMode.STREAMING},
        "no_allocate": {"l1c_evict_priority": nvgpu.CacheEvictionPriority.NO_ALLOCATE},
        "read_only": {"invariant": True},
        "no_allocate_streaming": {"l1c_evict_priority": nvgpu.CacheEvictionPriority.NO_ALLOCATE},
    }[cache]


def store_options(cache: str) -> dict:
    """Arguments of a store's copy atom."""
    if cache.endswith("streaming"):
        return {"store_cache_mode": cute.nvgpu.StoreCacheMode.STREAMING}
    return {}


@cute.kernel
def flat_kernel(
    mX: cute.Tensor,
    mY: cute.Tensor,
    mO: cute.Tensor,
    tv_layout: cute.Layout,
    op: cutlass.Constexpr,
    cache: cutlass.Constexpr,
    bits: cutlass.Constexpr,
):
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    tile = (cutlass.Int64(bidx), None)
    load = cute.make_copy_atom(
        cute.nvgpu.CopyG2ROp(), mX.element_type, num_bits_per_copy=bits, **load_options(cache)
    )
    store = cute.make_copy_atom(
        cute.nvgpu.CopyR2GOp(), mX.element_type, num_bits_per_copy=bits, **store_options(cache)
    )
    tXgX, tXgY, tXgO = (
        cute.composition(tensor[tile], tv_layout)[(tidx, (None, None))] for tensor in (mX, mY, mO)
    )
    tXrX = cute.make_rmem_tensor_like(tXgX)
    cute.copy(load, tXgX, tXrX)
    if cutlass.const_expr(op == "silu_mul"):
        tXrY = cute.make_rmem_tensor_like(tXgY)
        cute.copy(load, tXgY, tXrY)
        x, y = tXrX.load().to(cutlass.Float32), tXrY.load().to(cutlass.Float32)
        sigmoid = cute.math.rcp(1.0 + cute.math.exp(-x, fastmath=True), approx=True, ftz=True)
        tXrX.store((x * sigmoid * y).to(mO.element_type))
    cute.copy(store, tXrX, tXgO)


@cute.jit
def flat_launch(
    mX: cute.Tensor,
    mY: cute.Tensor,
    mO: cute.Tensor,
    stream: cuda.CUstream,
    variant: cutlass.Constexpr,
):
    vector = variant.bits // mX.element_type.width
    strides = (vector, (1, variant.threads * vector))
    if cutlass.const_expr(variant.layout == "thread"):
        strides = (vector * variant.vectors, (1, vector))
    tv_layout = cute.make_layout((variant.threads, (vector, variant.vectors)), stride=strides)
    flat_kernel(mX, mY, mO, tv_layout, variant.op, variant.cache, variant.bits).launch(
        grid=(mX.shape[0], 1, 1), block=(variant.threads, 1, 1), stream=stream
    )


def compile_variant(variant: Variant, dtype: torch.dtype) -> Callable[[], Callable]:
    """A function of (x, y, out) that returns a launch without arguments."""
    tile = variant.threads * variant.vectors * variant.bits // 8 // dtype.itemsize
    fake = make_fake_compact_tensor(
        solution.CUTE_DTYPE[dtype], (cute.sym_int(), tile), stride_order=(1, 0), assumed_align=16
    )
    compiled = cute.compile(flat_launch, fake, fake, fake, make_fake_stream(), variant)

    def bind(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> Callable[[], None]:
        tensors = [
            from_dlpack(t.view(-1, tile), assumed_align=16).mark_compact_shape_dynamic(
                mode=0, stride_order=(0, 1)
            )
            for t in (x, y, out)
        ]
        stream = solution.current_stream()
        return lambda: compiled(*tensors, stream)

    return bind


def variants(dtype: torch.dtype) -> Iterator[Variant]:
    """All that are tried; the cache policies only where enough bytes are in flight."""
    for threads, vectors in itertools.product((128, 256, 512, 1024), (1, 2, 4, 8)):
        yield Variant("copy", threads, vectors)
    for threads, vectors, cache in itertools.product((128, 256), (1, 2, 4), CACHE[1:]):
        yield Variant("copy", threads, vectors, cache)
    for bits in (16, 32, 64):
        if bits >= 8 * dtype.itemsize:
            yield Variant("copy", 128, 1, bits=bits)
            yield Variant("copy", 128, 128 // bits, bits=bits)
    for vectors in (2, 4, 8):
        yield Variant("copy", 128, vectors, layout="thread")
    for threads, vectors in itertools.product((128, 256, 512), (1, 2, 4)):
        yield Variant("silu_mul", threads, vectors)
        yield Variant("silu_mul", threads, vectors, "no_allocate_streaming")


def check(op: str, name: str, x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> None:
    """Stops the run at a wrong variant: a wrong kernel is not worth timing."""
    if op == "copy":
        good = torch.equal(out, x)
    else:
        part = 2**22
        good = True
        for begin in (0, out.numel() - part):
            rows = slice(begin, begin + part)
            wide = x.view(-1)[rows].double()
            want = wide / (1 + (-wide).exp()) * y.view(-1)[rows].double()
            error = (out.view(-1)[rows].double() - want).abs().max() / want.abs().max()
            good &= bool(error < 4 * torch.finfo(x.dtype).eps)
    if not good:
        raise SystemExit(f"WRONG: {name} on {tuple(x.shape)} {x.dtype}")


def measure_flat(compiled: dict, numel: int, dtype: torch.dtype) -> list[dict]:
    """Rates of every variant, of the solution's functions and of the ruler at one size."""
    x, y = (torch.randn(numel, dtype=dtype, device="cuda") for _ in range(2))
    out = torch.empty_like(x)
    launches: dict[str, Callable] = {"ruler": lambda: out.copy_(x)}
    moved = {"ruler": 2 * x.nbytes}
    keys: dict[str, Variant | str] = {}
    for variant, bind in compiled[dtype].items():
        name = str(variant)
        launch = bind(x, y, out)
        out.fill_(float("nan"))
        launch()
        check(variant.op, name, x, y, out)
        launches[name], keys[name] = launch, variant
        moved[name] = (2 if variant.op == "copy" else 3) * x.nbytes
    for name, op, function in (
        ("scalar_copy", "copy", lambda: solution.scalar_copy(x)),
        ("vector_copy", "copy", lambda: solution.vector_copy(x)),
        ("silu_mul", "silu_mul", lambda: solution.silu_mul(x, y)),
    ):
        check(op, name, x, y, function())
        launches[name], keys[name] = function, op
        moved[name] = (2 if op == "copy" else 3) * x.nbytes
    rows = to_rows(interleaved.timed(launches, ROUNDS), moved)
    for row in rows:
        row |= {"numel": numel, "dtype": str(dtype).removeprefix("torch.")}
        key = keys.get(row["name"], "ruler")
        row |= {"op": key} if isinstance(key, str) else vars(key)
    return rows


def measure_ragged(n: int, dtype: torch.dtype) -> list[dict]:
    """Rates of ragged_copy with several tile heights, at a row length of n."""
    m = 2**28 // n
    x = torch.randn(m, n, dtype=dtype, device="cuda")
    out = torch.empty_like(x)
    launches: dict[str, Callable] = {"ruler": lambda: out.copy_(x)}
    moved = {"ruler": 2 * x.nbytes}
    for rows_a_thread in (1, 2, 4, 8):
        # The kernels are traced when they are compiled, with what the constants are then.
        solution.TILE_ROWS = solution.THREAD_ROWS * rows_a_thread
        solution.compile_ragged_copy.cache_clear()
        name = f"ragged_copy/{rows_a_thread}"
        check("copy", name, x, x, solution.ragged_copy(x))
        vector = solution.widest_vector(x)
        function = solution.compile_ragged_copy(dtype, vector)
        tensors = [
            from_dlpack(t, assumed_align=vector * dtype.itemsize).mark_layout_dynamic(1)
            for t in (x, out)
        ]
        stream = solution.current_stream()
        launches[name] = lambda f=function, t=tensors, s=stream: f(*t, s)
        moved[name] = 2 * x.nbytes
    rows = to_rows(interleaved.timed(launches, ROUNDS), moved)
    for row in rows:
        row |= {
            "op": "ragged" if row["name"] != "ruler" else "ruler",
            "N": n,
            "dtype": str(dtype).removeprefix("torch."),
        }
    return rows


def check_edges() -> None:
    """The solution where mistakes hide: ragged edges, views off a boundary, past 2**31 elements."""
    for dtype in solution.CUTE_DTYPE:
        for m, n in ((1, 1), (17, 1), (1, 300), (33, 257), (300, 129), (70, 4100)):
            x = torch.randn(m, n, dtype=dtype, device="cuda")
            check("copy", "ragged", x, x, solution.ragged_copy(x))
            check("copy", "scalar", x, x, solution.scalar_copy(x))
            wide = torch.randn(m, n + 24, dtype=dtype, device="cuda")
            for shift in (1, 2, 8):
                view = wide[:, shift : shift + n]
                check("copy", "ragged view", view, view, solution.ragged_copy(view))
    huge = torch.randn(2**31 + solution.tile_elements(torch.bfloat16), device="cuda").bfloat16()
    check("copy", "vector past 2**31", huge, huge, solution.vector_copy(huge))
    check("silu_mul", "silu_mul past 2**31", huge, huge, solution.silu_mul(huge, huge))
    tall = huge[: 2**31].view(-1, 32768)
    narrow = tall[:, :32766]
    check("copy", "ragged past 2**31", narrow, narrow, solution.ragged_copy(narrow))


def to_rows(times: dict[str, list[float]], moved: dict[str, int]) -> list[dict]:
    """GB/s and the median ratio to the ruler's launch of the same round."""
    ruler = [moved["ruler"] / t for t in times["ruler"]]
    rows = []
    for name, milliseconds in times.items():
        rates = [moved[name] / t for t in milliseconds]
        ratio = statistics.median(map(operator.truediv, rates, ruler))
        rows.append({"name": name, "gb_s": statistics.median(rates) / 1e6, "ratio_to_ruler": ratio})
    return rows


def table(title: str, rows: list[dict], top: int) -> str:
    """The ruler and the best rows, best first."""
    ruler = next(row for row in rows if row["name"] == "ruler")
    lines = [f"{title}: ruler {ruler['gb_s']:.0f} GB/s"]
    for row in sorted(rows, key=lambda row: -row["ratio_to_ruler"])[:top]:
        lines.append(f"  {row['ratio_to_ruler']:.4f}  {row['gb_s']:6.0f}  {row['name']}")
    return "\n".join(lines)


def main() -> None:
    """Compile, check, time, print the best of each op, and write all rows."""
    begin = time.time()
    say = sys.stdout.write
    say(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    dtypes = (torch.bfloat16, torch.float32)
    compiled = {d: {v: compile_variant(v, d) for v in variants(d)} for d in dtypes}
    say(f"{sum(map(len, compiled.values()))} variants compiled, {time.time() - begin:.0f} s\n")
    check_edges()
    torch.cuda.empty_cache()
    say(f"edges are right, {time.time() - begin:.0f} s\n")
    rows: list[dict] = []
    for numel, dtype in ((2**28, dtypes[0]), (2**29, dtypes[0]), (2**28, dtypes[1])):
        found = measure_flat(compiled, numel, dtype)
        rows += found
        ruler = [row for row in found if row["name"] == "ruler"]
        for op, top in (("copy", 14), ("silu_mul", 10)):
            chosen = [row for row in found if row.get("op") == op]
            say(table(f"{op} {numel} {dtype}", ruler + chosen, top) + "\n")
            mine = [row for row in chosen if "threads" not in row]
            say(table("  the solution", ruler + mine, 9) + f" [{time.time() - begin:.0f} s]\n")
        torch.cuda.empty_cache()
    for n in (4096, 4100, 4098, 4097, 257, 129):
        found = measure_ragged(n, torch.bfloat16)
        rows += found
        say(table(f"ragged N={n} bfloat16", found, 9) + f" [{time.time() - begin:.0f} s]\n")
    out = Path(os.environ.get("OUT", ".")) / "tune_ch04.json"
    described = machine.describe_machine()
    out.write_text(json.dumps({"schema": 1, "machine": described, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
