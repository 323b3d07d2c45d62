"""Which tiles, stages and grids the kernels of ch05 want, and what bytes in flight buy.

    python tests/gpu/tune_ch05.py            # writes $OUT/tune_ch05_h200.json (or docs/data/...)

Needs a CUDA GPU of capability 9.0 or higher and about 8 GiB of its memory. Every variant is checked
before it is timed, and timed launch by launch in turn with all the others and with PyTorch's own
copy, the ruler. Rates count bytes read plus bytes written.

A row: kernel, tile (bytes of one stage), stages, tiles_per_block, blocks_per_sm, in_flight (bytes
that an SM's blocks have asked for and not yet received, at most), dtype, purpose, gb_s,
ratio_to_ruler. Either tiles_per_block or blocks_per_sm says how many blocks there are; the other is
0. Purposes: "choose", tiles, stages and grids; "walk", the solution's own tiles and stages over more
grids, the last of them with as many blocks as an SM holds; "law", few blocks on purpose: there,
only stages hide the latency.
"""

from __future__ import annotations

import importlib
import json
import operator
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from cutlass.cute.runtime import from_dlpack

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
machine = importlib.import_module("checkers.machine")
interleaved = importlib.import_module("tests.gpu.interleaved")
solution = importlib.import_module("solutions.ch05_async_copies")

ROUNDS = 15
NUMEL = 2**28
SHARED_PER_SM, SHARED_OF_A_BLOCK = 228 * 1024, 1024  # the runtime keeps 1 KiB of each block
WARPS_PER_SM = 64
# (bytes of a tile, stages) as the solution has them; below its constants are set to what is tried.
OWN = {
    "pipelined": (16 * solution.THREADS * solution.VECTORS, solution.STAGES),
    "bulk": (solution.BULK_BYTES, 1),
    "ring": (solution.RING_ROWS * solution.RING_ROW_BYTES, solution.RING_STAGES),
}


@dataclass(frozen=True)
class Variant:
    """One way to run a kernel of the solution. kernel: direct | pipelined | bulk | ring."""

    kernel: str
    tile: int
    stages: int
    dtype: str
    purpose: str
    tiles_per_block: int = 0
    blocks_per_sm: int = 0

    @property
    def in_flight(self) -> int:
        """Bytes asked for at a time by the blocks of an SM, at most."""
        ahead = {"pipelined": self.stages - 1, "ring": self.stages}.get(self.kernel, 1)
        if self.tiles_per_block:
            ahead = min(ahead, self.tiles_per_block)
        blocks = self.blocks_per_sm or most_blocks(self.kernel, self.tile, self.stages)
        return blocks * ahead * self.tile

    def blocks(self, tiles: int, sms: int) -> int:
        """The grid, of at most one block a tile."""
        per_tiles = -(-tiles // self.tiles_per_block) if self.tiles_per_block else tiles
        return min(per_tiles, sms * self.blocks_per_sm or tiles)

    @property
    def key(self) -> tuple[str, int, int, str]:
        """What it is compiled for: blocks are known only at run time."""
        return self.kernel, self.tile, self.stages, self.dtype


def most_blocks(kernel: str, tile: int, stages: int) -> int:
    """Blocks that an SM holds at once.

    Registers by what ptxas gives these kernels, rounded up: 24 and one for each 512 bytes of tile."""
    warps = 5 if kernel == "ring" else 4
    registers = -(-(24 + tile // 512) // 8) * 8
    shared = SHARED_PER_SM // (stages * tile + SHARED_OF_A_BLOCK)
    return min(WARPS_PER_SM // warps, 65536 // (32 * registers) // warps, shared, 32)


def variants(dtype: str) -> Iterator[Variant]:
    """All that are tried."""
    shapes = [
        *(("pipelined", tile, stages) for tile in (2048, 4096, 8192) for stages in (2, 3, 4)),
        *(("bulk", tile, 1) for tile in (2048, 4096, 8192, 16384)),
        *(("ring", tile, stages) for tile in (4096, 8192, 16384) for stages in (2, 3, 4)),
    ]
    for shape in shapes:
        for tiles in (2, 3, 4, 6, 8):
            yield Variant(*shape, dtype, "choose", tiles_per_block=tiles)
    yield Variant("direct", 4096, 1, dtype, "choose", tiles_per_block=1)
    for kernel, (tile, stages) in OWN.items():
        for tiles in (1, 2, 4, 6, 8, 16, 32):
            yield Variant(kernel, tile, stages, dtype, "walk", tiles_per_block=tiles)
        most = most_blocks(kernel, tile, stages)
        yield Variant(kernel, tile, stages, dtype, "walk", blocks_per_sm=most)
    for blocks in (1, 2, 4, 8, 16):
        yield Variant("direct", 4096, 1, dtype, "law", blocks_per_sm=blocks)
    for stages in (2, 3, 4, 6, 8, 12):
        yield Variant("pipelined", 4096, stages, dtype, "law", blocks_per_sm=2)
    for stages in (1, 2, 3, 4, 6, 8):
        yield Variant("ring", 8192, stages, dtype, "law", blocks_per_sm=1)


def compiled(key: tuple[str, int, int, str]) -> Callable:
    """The launch of one kernel with these constants: they are read while it is traced."""
    kernel, tile, stages, dtype_name = key
    dtype = getattr(torch, dtype_name)
    vectors = tile // (solution.THREADS * 16)
    if kernel == "pipelined":
        solution.VECTORS, solution.STAGES = vectors, stages
    elif kernel == "bulk":
        solution.BULK_VECTORS, solution.BULK_BYTES = vectors, tile
    elif kernel == "ring":
        solution.RING_ROWS, solution.RING_STAGES = tile // solution.RING_ROW_BYTES, stages
    compile_kernel = getattr(solution, f"compile_{kernel}_silu")
    compile_kernel.cache_clear()
    return compile_kernel(dtype)


def bound(variant: Variant, launch: Callable, x: torch.Tensor, out: torch.Tensor) -> Callable:
    """A launch without arguments, its tensors viewed as the kernel wants them."""
    if variant.kernel == "ring":
        views = [t.view(-1, 4096) for t in (x, out)]
        tensors = [from_dlpack(t, assumed_align=16).mark_layout_dynamic(1) for t in views]
    else:
        row = 16 if variant.kernel == "pipelined" else variant.tile
        tensors = [
            from_dlpack(t.view(-1, row // t.itemsize), assumed_align=16).mark_compact_shape_dynamic(
                mode=0, stride_order=(0, 1)
            )
            for t in (x, out)
        ]
    sms = torch.cuda.get_device_properties(x.device).multi_processor_count
    blocks = variant.blocks(x.nbytes // variant.tile, sms)
    stream = solution.current_stream()
    return lambda: launch(*tensors, blocks, stream)


def check(name: str, x: torch.Tensor, out: torch.Tensor) -> None:
    """Stops the run at a wrong variant: a wrong kernel is not worth timing."""
    part = 2**22
    for begin in (0, out.numel() - part):
        wide = x.view(-1)[begin : begin + part].double()
        want = wide / (1 + (-wide).exp())
        error = (out.view(-1)[begin : begin + part].double() - want).abs().max() / want.abs().max()
        if not error < 4 * torch.finfo(x.dtype).eps:
            raise SystemExit(f"WRONG: {name} {x.dtype}")


def measure(dtype: str, say: Callable[[str], object], begin: float) -> list[dict]:
    """Rates of every variant at one dtype."""
    x = torch.randn(NUMEL, dtype=getattr(torch, dtype), device="cuda")
    out = torch.empty_like(x)
    launches: dict[str, Callable] = {"ruler": lambda: out.copy_(x)}
    chosen: dict[str, Variant] = {}
    built: dict[tuple, Callable] = {}
    for variant in variants(dtype):
        name = str(variant)
        launch = built.get(variant.key) or compiled(variant.key)
        built[variant.key] = launch
        launches[name], chosen[name] = bound(variant, launch, x, out), variant
        out.fill_(float("nan"))
        launches[name]()
        check(name, x, out)
    say(f"{dtype}: {len(built)} compiled, {len(chosen)} checked, {time.time() - begin:.0f} s\n")
    times = interleaved.timed(launches, ROUNDS)
    rows = []
    for name, milliseconds in times.items():
        rates = [2 * x.nbytes / t for t in milliseconds]
        ratios = map(operator.truediv, times["ruler"], milliseconds)
        row = {"gb_s": statistics.median(rates) / 1e6, "ratio_to_ruler": statistics.median(ratios)}
        if name == "ruler":
            rows.append({"kernel": "ruler", "dtype": dtype, **row})
        else:
            variant = chosen[name]
            rows.append({**asdict(variant), "in_flight": variant.in_flight, **row})
    return rows


def best(rows: list[dict], kernel: str) -> str:
    """The variants of a kernel by purpose, the fastest first."""
    own = [row for row in rows if row["kernel"] == kernel]
    lines = [kernel]
    for row in sorted(own, key=lambda row: (row["purpose"], -row["ratio_to_ruler"])):
        tiles, blocks = row["tiles_per_block"], row["blocks_per_sm"]
        lines.append(
            f"  {row['purpose']:6} {row['ratio_to_ruler']:.4f} {row['gb_s']:6.0f} GB/s  tile "
            f"{row['tile']:5}  stages {row['stages']:2}  "
            + (f"tiles/block {tiles:2}" if tiles else f"blocks/SM {blocks:4}")
            + f"  in flight {row['in_flight'] // 1024} KiB"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Compile, check, time, print, and write all rows."""
    begin = time.time()
    say = sys.stdout.write
    say(f"{torch.cuda.get_device_name()}, torch {torch.__version__}\n")
    rows = []
    for dtype in ("bfloat16", "float32"):
        found = measure(dtype, say, begin)
        say(f"ruler {found[0]['gb_s']:.0f} GB/s\n")
        for kernel in ("pipelined", "bulk", "ring", "direct"):
            say(best(found, kernel))
        rows += found
    folder = Path(os.environ.get("OUT", ROOT / "docs" / "data"))
    described = machine.describe_machine()
    text = json.dumps({"schema": 1, "machine": described, "rows": rows}, indent=1)
    (folder / "tune_ch05_h200.json").write_text(text + "\n")
    say(f"done in {time.time() - begin:.0f} s\n")


if __name__ == "__main__":
    main()
