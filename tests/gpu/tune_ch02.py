"""Times variants of the Triton softmax against a copy, to choose chapter 2's configurations.

Run from the repository's root on a GPU machine:

    python -m tests.gpu.tune_ch02 [--seconds 80] [--only rows,long] [--columns 256,131072]

Writes $OUT/tune_ch02.json (default: the current directory) after every row length and prints a table
of the best variants. Each variant is compared with PyTorch in float64 on a few rows first; a wrong
one is reported and not timed. Ratios are against a device copy timed just before and just after.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

from checkers.machine import describe_machine

ELEMENTS = 2**29
LENGTHS = (256, 131072, 1024, 16384, 32768, 65536, 262144, 512, 2048, 4096, 8192)
SPIN_LIMIT = 1 << 14  # polls before a waiting program gives up: a wrong answer, never a hang


@triton.jit
def row(x_ptr, y_ptr, M, N, x_stride, y_stride, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + r * x_stride + cols, mask=cols < N, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, 0))
    y = e * (1.0 / tl.sum(e, 0))
    tl.store(y_ptr + r * y_stride + cols, y.to(y_ptr.dtype.element_ty), mask=cols < N)


@triton.jit
def row_twice(x_ptr, y_ptr, M, N, x_stride, y_stride, BLOCK: tl.constexpr):
    """The row stays in 16 bits in registers; exp is computed twice."""
    r = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + r * x_stride + cols, mask=cols < N, other=-float("inf"))
    m = tl.max(x, 0).to(tl.float32) * 1.4426950408889634
    d = tl.sum(tl.exp2(x.to(tl.float32) * 1.4426950408889634 - m), 0)
    y = tl.exp2(x.to(tl.float32) * 1.4426950408889634 - (m + tl.log2(d)))
    tl.store(y_ptr + r * y_stride + cols, y.to(y_ptr.dtype.element_ty), mask=cols < N)


@triton.jit
def row_loop(x_ptr, y_ptr, M, N, x_stride, y_stride, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """Persistent: the next rows are on their way to shared memory while this one is computed."""
    cols = tl.arange(0, BLOCK)
    for i in tl.range(tl.program_id(0), M, tl.num_programs(0), num_stages=STAGES):
        r = i.to(tl.int64)
        x = tl.load(x_ptr + r * x_stride + cols, mask=cols < N, other=-float("inf"))
        x = x.to(tl.float32)
        e = tl.exp(x - tl.max(x, 0))
        y = e * (1.0 / tl.sum(e, 0))
        tl.store(y_ptr + r * y_stride + cols, y.to(y_ptr.dtype.element_ty), mask=cols < N)


@triton.jit
def rows(x_ptr, y_ptr, M, N, x_stride, y_stride, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    inside = (r < M)[:, None] & (cols < N)[None, :]
    x_at = x_ptr + r[:, None] * x_stride + cols[None, :]
    x = tl.load(x_at, mask=inside, other=-float("inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, 1)[:, None])
    y = e * (1.0 / tl.sum(e, 1))[:, None]
    y_at = y_ptr + r[:, None] * y_stride + cols[None, :]
    tl.store(y_at, y.to(y_ptr.dtype.element_ty), mask=inside)


@triton.jit
def long(
    x_ptr,
    y_ptr,
    M,
    N,
    x_stride,
    y_stride,
    BLOCK: tl.constexpr,
    READ_STAGES: tl.constexpr,
    WRITE_STAGES: tl.constexpr,
    BACK: tl.constexpr,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
):
    lanes = tl.arange(0, BLOCK)
    for i in tl.range(tl.program_id(0), M, tl.num_programs(0)):
        x_row = x_ptr + i.to(tl.int64) * x_stride
        y_row = y_ptr + i.to(tl.int64) * y_stride
        m = -float("inf")
        d = 0.0
        for start in tl.range(0, N, BLOCK, num_stages=READ_STAGES):
            cols = start + lanes
            x = tl.load(x_row + cols, mask=cols < N, other=-float("inf"), eviction_policy=FIRST).to(
                tl.float32
            )
            m_new = tl.maximum(m, tl.max(x, 0))
            origin = tl.where(m_new == -float("inf"), 0.0, m_new)
            d = d * tl.exp(m - origin) + tl.sum(tl.exp(x - origin), 0)
            m = m_new
        origin = tl.where(m == -float("inf"), 0.0, m)
        scale = 1.0 / d
        last = (tl.cdiv(N, BLOCK) - 1) * BLOCK
        for start in tl.range(0, N, BLOCK, num_stages=WRITE_STAGES):
            cols = (last - start if BACK else start) + lanes
            x = tl.load(
                x_row + cols, mask=cols < N, other=-float("inf"), eviction_policy=SECOND
            ).to(tl.float32)
            y = tl.exp(x - origin) * scale
            tl.store(
                y_row + cols,
                y.to(y_ptr.dtype.element_ty),
                mask=cols < N,
                eviction_policy=SECOND,
            )


@triton.jit
def lanes(
    x_ptr,
    y_ptr,
    M,
    N,
    x_stride,
    y_stride,
    K: tl.constexpr,
    LANES: tl.constexpr,
    READ_STAGES: tl.constexpr,
    WRITE_STAGES: tl.constexpr,
    BACK: tl.constexpr,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
):
    """As long, but every lane keeps its own maximum and sum: no barrier in the first pass."""
    BLOCK: tl.constexpr = K * LANES
    tile = tl.arange(0, K)[:, None] * LANES + tl.arange(0, LANES)[None, :]
    for i in tl.range(tl.program_id(0), M, tl.num_programs(0)):
        x_row = x_ptr + i.to(tl.int64) * x_stride
        y_row = y_ptr + i.to(tl.int64) * y_stride
        m = tl.full((LANES,), -float("inf"), tl.float32)
        d = tl.zeros((LANES,), tl.float32)
        for start in tl.range(0, N, BLOCK, num_stages=READ_STAGES):
            cols = start + tile
            x = tl.load(x_row + cols, mask=cols < N, other=-float("inf"), eviction_policy=FIRST).to(
                tl.float32
            )
            m_new = tl.maximum(m, tl.max(x, 0))
            origin = tl.where(m_new == -float("inf"), 0.0, m_new)
            d = d * tl.exp(m - origin) + tl.sum(tl.exp(x - origin[None, :]), 0)
            m = m_new
        top = tl.max(m, 0)
        origin = tl.where(top == -float("inf"), 0.0, top)
        scale = 1.0 / tl.sum(d * tl.exp(m - origin), 0)
        last = (tl.cdiv(N, BLOCK) - 1) * BLOCK
        for start in tl.range(0, N, BLOCK, num_stages=WRITE_STAGES):
            cols = (last - start if BACK else start) + tile
            x = tl.load(
                x_row + cols, mask=cols < N, other=-float("inf"), eviction_policy=SECOND
            ).to(tl.float32)
            y = tl.exp(x - origin) * scale
            tl.store(
                y_row + cols,
                y.to(y_ptr.dtype.element_ty),
                mask=cols < N,
                eviction_policy=SECOND,
            )


@triton.jit
def with_block(m, d, x):
    """(m, d) of a row after one more of its blocks."""
    x = x.to(tl.float32)
    m_new = tl.maximum(m, tl.max(x, 0))
    origin = tl.where(m_new == -float("inf"), 0.0, m_new)
    return m_new, d * tl.exp(m - origin) + tl.sum(tl.exp(x - origin), 0)


@triton.jit
def ahead(
    x_ptr,
    y_ptr,
    M,
    N,
    x_stride,
    y_stride,
    BLOCK: tl.constexpr,
    FIRST: tl.constexpr,
    SECOND: tl.constexpr,
):
    """As long, but the next block is on its way while one is worked on, and the last block of the
    first pass stays in registers for the second."""
    lane = tl.arange(0, BLOCK)
    blocks = tl.cdiv(N, BLOCK)
    for i in tl.range(tl.program_id(0), M, tl.num_programs(0)):
        x_row = x_ptr + i.to(tl.int64) * x_stride
        y_row = y_ptr + i.to(tl.int64) * y_stride
        m = -float("inf")
        d = 0.0
        x = tl.load(x_row + lane, mask=lane < N, other=-float("inf"), eviction_policy=FIRST)
        for block in tl.range(1, blocks):
            cols = block * BLOCK + lane
            x_next = tl.load(
                x_row + cols, mask=cols < N, other=-float("inf"), eviction_policy=FIRST
            )
            m, d = with_block(m, d, x)
            x = x_next
        m, d = with_block(m, d, x)
        scale = 1.0 / d
        for step in tl.range(1, blocks):
            cols = (blocks - 1 - step) * BLOCK + lane
            x_next = tl.load(x_row + cols, eviction_policy=SECOND)
            y = tl.exp(x.to(tl.float32) - m) * scale
            tl.store(
                y_row + cols + BLOCK,
                y.to(y_ptr.dtype.element_ty),
                mask=cols + BLOCK < N,
                eviction_policy=SECOND,
            )
            x = x_next
        y = tl.exp(x.to(tl.float32) - m) * scale
        tl.store(y_row + lane, y.to(y_ptr.dtype.element_ty), mask=lane < N, eviction_policy=SECOND)


@triton.jit
def team(
    x_ptr,
    y_ptr,
    slots_ptr,
    M,
    N,
    x_stride,
    y_stride,
    BLOCK: tl.constexpr,
    TEAM: tl.constexpr,
    LIMIT: tl.constexpr,
):
    """TEAM programs share a row, which stays in registers; they exchange (max, sum) by memory."""
    rank = tl.program_id(0) % TEAM
    teams = tl.num_programs(0) // TEAM
    cols = rank * BLOCK + tl.arange(0, BLOCK)
    first = tl.program_id(0) // TEAM
    x_next = tl.load(
        x_ptr + first.to(tl.int64) * x_stride + cols,
        mask=(cols < N) & (first < M),
        other=-float("inf"),
    )
    for i in tl.range(first, M, teams):
        x = x_next.to(tl.float32)
        m = tl.max(x, 0)
        origin = tl.where(m == -float("inf"), 0.0, m)
        e = tl.exp(x - origin)
        d = tl.sum(e, 0)
        high = m.to(tl.int32, bitcast=True).to(tl.int64) << 32
        low = d.to(tl.uint32, bitcast=True).to(tl.int64)
        slots = slots_ptr + i.to(tl.int64) * TEAM
        tl.atomic_xchg(slots + rank, high | low, sem="relaxed")
        after = i + teams
        x_next = tl.load(
            x_ptr + after.to(tl.int64) * x_stride + cols,
            mask=(cols < N) & (after < M),
            other=-float("inf"),
        )
        all_slots = slots + tl.arange(0, TEAM)
        packed = tl.load(all_slots, volatile=True)
        polls = 0
        while (tl.min((packed != 0).to(tl.int32), 0) == 0) & (polls < LIMIT):
            packed = tl.load(all_slots, volatile=True)
            polls += 1
        ms = (packed >> 32).to(tl.int32).to(tl.float32, bitcast=True)
        ds = packed.to(tl.int32).to(tl.float32, bitcast=True)
        top = tl.max(ms, 0)
        top = tl.where(top == -float("inf"), 0.0, top)
        total = tl.sum(ds * tl.exp(ms - top), 0)
        y = e * (tl.exp(origin - top) / total)
        tl.store(
            y_ptr + i.to(tl.int64) * y_stride + cols,
            y.to(y_ptr.dtype.element_ty),
            mask=cols < N,
        )


KERNELS = {
    "row": row,
    "row_twice": row_twice,
    "row_loop": row_loop,
    "rows": rows,
    "long": long,
    "lanes": lanes,
    "ahead": ahead,
    "team": team,
}


@dataclass(frozen=True)
class Variant:
    """One configuration of one kernel. programs: of a persistent grid, 0 for one a row."""

    kernel: str
    N: int
    num_warps: int
    constants: dict[str, Any] = field(default_factory=dict)
    programs: int = 0
    maxnreg: int = 0  # registers a thread may have; 0: as the compiler likes

    def grid(self, M: int) -> tuple[int]:
        if self.programs:
            return (min(self.programs, M * self.constants.get("TEAM", 1)),)
        return (triton.cdiv(M, self.constants.get("ROWS", 1)),)

    def __str__(self) -> str:
        shown = " ".join(f"{k}={v}" for k, v in self.constants.items() if k != "LIMIT")
        grid = f" programs={self.programs}" if self.programs else ""
        grid += f" maxnreg={self.maxnreg}" if self.maxnreg else ""
        return f"{self.kernel} warps={self.num_warps} {shown}{grid}"

    def options(self) -> dict[str, Any]:
        cooperative = {"launch_cooperative_grid": True} if self.kernel == "team" else {}
        limit = {"maxnreg": self.maxnreg} if self.maxnreg else {}
        return {**self.constants, "num_warps": self.num_warps, **cooperative, **limit}


def variants(N: int, sms: int) -> list[Variant]:
    """What is tried for rows of N elements."""
    found: list[Variant] = []
    block = triton.next_power_of_2(N)
    if N <= 4096:
        for each, warps in itertools.product((1, 2, 4, 8, 16, 32), (1, 2, 4, 8)):
            per_thread = each * block // (32 * warps)
            if 8 <= per_thread <= 64:
                found.append(Variant("rows", N, warps, {"ROWS": each, "BLOCK": block}))
    if 256 <= N <= 65536:
        for warps in (2, 4, 8, 16, 32):
            if 8 <= block // (32 * warps) <= 64:
                found.append(Variant("row", N, warps, {"BLOCK": block}))
    if N in (16384, 32768):
        for kernel, warps, maxnreg in (
            ("row", 16, 40),
            ("row", 16, 48),
            ("row_twice", 16, 40),
            ("row_twice", 16, 48),
            ("row_twice", 8, 80),
        ):
            found.append(Variant(kernel, N, warps, {"BLOCK": block}, 0, maxnreg))
    if N in (32768, 65536):
        found += [Variant("row_twice", N, warps, {"BLOCK": block}) for warps in (16, 32)]
    if 8192 <= N <= 32768:
        for warps, stages, each in itertools.product((8, 16, 32), (2, 3), (1, 2)):
            fits = stages * block * 2 * each <= 220_000
            if 16 <= block // (32 * warps) <= 64 and fits and warps * each <= 48:
                constants = {"BLOCK": block, "STAGES": stages}
                found.append(Variant("row_loop", N, warps, constants, each * sms))
    if N >= 16384:
        found += long_variants(N, sms)
    return found


def long_variants(N: int, sms: int) -> list[Variant]:
    found: list[Variant] = []
    hints = {"FIRST": "evict_last", "SECOND": "evict_first"}
    plain = {"FIRST": "", "SECOND": ""}
    one_pass = {"READ_STAGES": 1, "WRITE_STAGES": 1}
    for block, warps, programs in (
        (4096, 8, 0),
        (8192, 8, 0),
        (8192, 8, 2 * sms),
        (8192, 16, sms),
        (8192, 4, 0),
        (16384, 8, 0),
        (16384, 16, 0),
        (16384, 16, sms),
    ):
        constants = {"BLOCK": block, **one_pass, "BACK": True, **hints}
        found.append(Variant("long", N, warps, constants, programs))
    for block, warps, programs, maxnreg in (
        (4096, 4, 0, 0),
        (4096, 8, 0, 0),
        (4096, 8, 0, 64),
        (8192, 8, 0, 0),
        (8192, 8, 0, 80),
        (8192, 8, 0, 64),
        (8192, 8, 2 * sms, 0),
        (16384, 8, sms, 0),
        (16384, 16, 0, 0),
        (16384, 16, sms, 0),
        (32768, 16, sms, 0),
    ):
        constants = {"BLOCK": block, **hints}
        found.append(Variant("ahead", N, warps, constants, programs, maxnreg))
    for block, warps, maxnreg in (
        (8192, 8, 40),
        (8192, 8, 64),
        (16384, 16, 40),
        (16384, 16, 48),
        (8192, 4, 80),
        (4096, 4, 48),
        (4096, 4, 40),
    ):
        constants = {"BLOCK": block, **one_pass, "BACK": True, **hints}
        found.append(Variant("long", N, warps, constants, 0, maxnreg))
    base = {"BLOCK": 8192, **one_pass}
    found.append(Variant("long", N, 8, {**base, "BACK": False, **plain}, 0))
    found.append(Variant("long", N, 8, {**base, "BACK": True, **plain}, 0))
    found.append(Variant("long", N, 8, {**base, "BACK": False, **hints}, sms))
    for block, warps, stages, each in ((8192, 8, 4, 1), (8192, 16, 4, 1), (4096, 8, 4, 2)):
        constants = {
            "BLOCK": block,
            "READ_STAGES": stages,
            "WRITE_STAGES": stages,
            "BACK": True,
            **plain,
        }
        found.append(Variant("long", N, warps, constants, each * sms))
    for K, width, warps, read, write, programs in (
        (4, 2048, 8, 1, 1, sms),
        (4, 2048, 8, 1, 1, 2 * sms),
        (8, 2048, 8, 1, 1, sms),
        (4, 4096, 16, 1, 1, sms),
        (8, 4096, 16, 1, 1, sms),
        (4, 4096, 16, 1, 1, sms // 2),
        (4, 4096, 16, 4, 4, sms),
        (4, 4096, 16, 4, 4, 3 * sms // 4),
        (4, 4096, 16, 1, 3, sms),
        (4, 2048, 8, 1, 1, 0),
        (8, 4096, 16, 1, 1, 0),
        (16, 2048, 8, 1, 1, 0),
        (16, 2048, 8, 1, 1, sms),
    ):
        constants = {
            "K": K,
            "LANES": width,
            "READ_STAGES": read,
            "WRITE_STAGES": write,
            "BACK": True,
            **hints,
        }
        found.append(Variant("lanes", N, warps, constants, programs))
    for block, warps, each in ((8192, 8, 2), (8192, 8, 3), (16384, 16, 1), (16384, 8, 2)):
        members = triton.next_power_of_2(N) // block
        if 2 <= members <= 32:
            constants = {"BLOCK": block, "TEAM": members, "LIMIT": SPIN_LIMIT}
            programs = each * sms // members * members
            found.append(Variant("team", N, warps, constants, programs))
    return found


def arguments(variant: Variant, x: Any, y: Any, slots: Any, M: int) -> list[Any]:
    extra = [slots] if variant.kernel == "team" else []
    return [x, y, *extra, M, variant.N, variant.N, variant.N]


def compile_one(variant: Variant) -> str:
    """Fills Triton's disk cache, in a process of its own. Returns the error, or an empty text."""
    M = ELEMENTS // variant.N
    words = arguments(variant, torch.bfloat16, torch.bfloat16, torch.int64, M)
    try:
        KERNELS[variant.kernel].warmup(*words, grid=variant.grid(M), **variant.options())
    except Exception as error:  # reported in the table: a variant that does not compile is a result
        return f"{type(error).__name__}: {error}"[:200]
    return ""


@dataclass
class Row:
    """A variant's result; ratio is against the copy around it."""

    variant: Variant
    gbs: float = 0.0
    ratio: float = 0.0
    registers: int = 0
    spills: int = 0
    shared: int = 0
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """The row as docs/data holds it."""
        variant = self.variant
        constants = {k: v for k, v in variant.constants.items() if k != "LIMIT"}
        case = {
            "N": variant.N,
            "num_warps": variant.num_warps,
            "programs": variant.programs,
            "maxnreg": variant.maxnreg,
        }
        row: dict[str, Any] = {"implementation": variant.kernel, "case": {**case, **constants}}
        if self.error:
            return {**row, "error": self.error}
        return {
            **row,
            "unit": "GB/s",
            "median": self.gbs,
            "ratio_to_ruler": self.ratio,
            "registers": self.registers,
            "spills": self.spills,
            "shared_bytes": self.shared,
        }


def median_ms(function: Any, rounds: int, calls: int = 4) -> float:
    """Of one call, calls following each other without a gap; x is much larger than the L2 cache."""
    times = []
    for _ in range(rounds + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            function()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / calls)
    return statistics.median(times[1:])


def worst_error(x: torch.Tensor, y: torch.Tensor) -> float:
    """Largest error of a few rows, relative to each row's largest element."""
    M = x.shape[0]
    picked = sorted({0, 1, M // 2, M // 3, M - 2, M - 1})
    expected = x[picked].double().softmax(-1)
    error = (y[picked].double() - expected).abs() / expected.amax(-1, keepdim=True)
    return float(error.max())


def measure(variant: Variant, x: torch.Tensor, y: torch.Tensor, failed: str) -> Row:
    result = Row(variant)
    if failed:
        result.error = failed
        return result
    M, N = x.shape
    slots = torch.zeros(M * variant.constants.get("TEAM", 1), dtype=torch.int64, device="cuda")
    kernel, grid, options = KERNELS[variant.kernel], variant.grid(M), variant.options()
    words = arguments(variant, x, y, slots, M)

    def launch() -> Any:
        if variant.kernel == "team":
            slots.zero_()
        return kernel[grid](*words, **options)

    y.fill_(float("nan"))
    try:
        compiled = launch()
        torch.cuda.synchronize()
    except Exception as error:  # for example a cooperative grid that does not fit
        result.error = f"{type(error).__name__}: {error}"[:200]
        return result
    result.registers, result.spills = compiled.n_regs, compiled.n_spills
    result.shared = compiled.metadata.shared
    error = worst_error(x, y)
    if not error < 0.02:
        result.error = f"wrong: {error:.3g}"
        return result

    def copy() -> None:
        y.copy_(x)

    before = median_ms(copy, 4)
    ms = median_ms(launch, 12)
    after = median_ms(copy, 4)
    result.gbs = 2 * x.nbytes / ms / 1e6
    result.ratio = statistics.mean((before, after)) / ms
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=80.0)
    parser.add_argument("--only", default="", help="kernels, separated by commas")
    parser.add_argument("--columns", default="", help="row lengths, separated by commas")
    parser.add_argument("--processes", type=int, default=12)
    options = parser.parse_args()
    started = time.monotonic()
    lengths = [int(n) for n in options.columns.split(",") if n] or list(LENGTHS)
    only = {name for name in options.only.split(",") if name}
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    todo = [v for n in lengths for v in variants(n, sms) if not only or v.kernel in only]
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        failures = list(pool.map(compile_one, todo, chunksize=2))
    print(f"{len(todo)} variants compiled in {time.monotonic() - started:.1f} s", flush=True)
    machine = describe_machine()
    target = Path(os.environ.get("OUT", ".")) / "tune_ch02.json"
    results: list[Row] = []
    flat = torch.randn(ELEMENTS, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(flat)
    for n in lengths:
        M = ELEMENTS // n
        x, y = flat.view(M, n), out.view(M, n)
        for variant, failed in zip(todo, failures, strict=True):
            if variant.N != n:
                continue
            if time.monotonic() - started > options.seconds:
                failed = failed or "not timed: out of time"
            results.append(measure(variant, x, y, failed))
        report = {"schema": 1, "machine": machine, "rows": [r.to_json() for r in results]}
        target.write_text(json.dumps(report, indent=1))
        ranked = sorted((r for r in results if r.variant.N == n), key=lambda r: -r.ratio)
        for r in ranked:
            shown = r.error or (
                f"{r.ratio:.3f} {r.gbs:6.0f} GB/s regs {r.registers} spills {r.spills}"
                f" smem {r.shared}"
            )
            print(f"N={n:<7} {str(r.variant):<110} {shown}", flush=True)
    print(f"{time.monotonic() - started:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
