"""Measures what goes wrong without each rule of the timing; docs/benchmarking.md shows the result.

    python tests/gpu/timing_pitfalls.py [--out docs/data/timing_pitfalls_h200.json]

Needs a GPU, takes under a minute. One row a rule: what the rule is, what is measured, the number got
without it ("wrong"), with it ("right"), their quotient ("times") and the unit.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
# A compile cache of an earlier run would hide what compiling costs.
os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="pitfalls-")
os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp(prefix="pitfalls-")

import torch  # noqa: E402

from checkers.bench import as_text  # noqa: E402
from checkers.grading.cuda_device import CudaDevice  # noqa: E402
from checkers.grading.timing import Options, measure  # noqa: E402
from checkers.machine import describe_machine  # noqa: E402

MIB = 1 << 20
TERA = 1e12


def randn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(shape, device="cuda", dtype=dtype, generator=generator)


def events(batch: Callable[[], Any]) -> float:
    """Seconds between two events around a batch, after waiting for what came before."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    batch()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e-3


def median_of(batch: Callable[[], Any], calls: int, repeats: int = 7) -> float:
    """Median over repeats of the seconds of one call; ``batch`` makes ``calls`` of them."""
    batch()
    return statistics.median(events(batch) / calls for _ in range(repeats))


def copied(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x).copy_(x)


def rate_by_the_book(function: Callable, set_bytes: int) -> float:
    """GB/s of a copy-like function, as the grader measures it."""
    timings = measure(
        {"it": function},
        lambda index: (randn(set_bytes // 2, seed=index),),
        "copy",
        2 * set_bytes,
        Options(rounds=40),
    )
    return timings["it"].rate() / 1e9


def row(rule: str, what: str, wrong: float, right: float, unit: str, **more: Any) -> dict:
    quotient = wrong / right
    return {
        "rule": rule,
        "measured": what,
        "wrong": float(f"{wrong:.4g}"),
        "right": float(f"{right:.4g}"),
        "times": float(f"{quotient:.4g}"),
        "unit": unit,
        **more,
    }


def no_synchronisation() -> dict:
    x = randn(512 * MIB)  # 1 GiB
    copied(x)
    torch.cuda.synchronize()
    began = time.perf_counter()
    copied(x)
    wrong = time.perf_counter() - began
    right = median_of(lambda: [copied(x) for _ in range(4)], 4)
    work = 2 * x.nbytes / 1e9
    return row("wait for the GPU", "copy of 1 GiB", work / wrong, work / right, "GB/s")


def first_call() -> dict:
    x = randn(2**19, 1024)
    compiled = torch.compile(lambda x: torch.softmax(x, dim=-1), dynamic=False)
    wrong = events(lambda: compiled(x))
    right = median_of(lambda: [compiled(x) for _ in range(4)], 4)
    return row(
        "compile outside the clock",
        "torch.compile of a softmax, first call and later ones",
        wrong * 1e3,
        right * 1e3,
        "ms",
    )


def hot_cache() -> dict:
    size = 16 * MIB
    x, out = randn(size // 2), torch.empty(size // 2, device="cuda", dtype=torch.bfloat16)
    calls = 100
    hot = CudaDevice().capture(lambda: [out.copy_(x) for _ in range(calls)])
    wrong = 2 * size / median_of(hot, calls) / 1e9
    right = rate_by_the_book(copied, size)
    return row(
        "rotate over more than the L2", "copy of 16 MiB, again and again", wrong, right, "GB/s"
    )


def zeros_instead_of_random() -> dict:
    N, calls = 8192, 12
    out = torch.empty(N, N, device="cuda", dtype=torch.bfloat16)
    flops = 2 * N**3
    rates = {}
    random = [(randn(N, N, seed=0), randn(N, N, seed=1))]
    zeros = [(torch.zeros_like(out), torch.zeros_like(out))]

    def multiply(pairs: list) -> Callable[[], None]:
        return lambda: [torch.mm(*pairs[0], out=out) for _ in range(calls)]

    for name, pairs in (("random", random), ("zeros", zeros)):
        heat(2.0, multiply(pairs))  # until the power limit has set the clock
        rates[name] = flops / median_of(multiply(pairs), calls, 15) / TERA
    return row(
        "random data for both sides",
        f"matmul {N}^3 bfloat16, of zeros",
        rates["zeros"],
        rates["random"],
        "TFLOP/s",
    )


def heat(seconds: float, batch: Callable[[], Any]) -> None:
    """Keeps the GPU busy for that long."""
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        batch()
        torch.cuda.synchronize()


def host_gap() -> dict:
    size = 256 * 1024
    x = randn(size // 2)
    add = torch.compile(lambda x: x + 1, dynamic=False)
    add(x)
    wrong = median_of(lambda: [add(x) for _ in range(200)], 200) * 1e6
    timings = measure(
        {"it": add},
        lambda index: (randn(size // 2, seed=index),),
        "copy",
        2 * size,
        Options(rounds=40),
    )
    return row(
        "small kernels in a CUDA graph",
        "x + 1 on 256 KiB, one call",
        wrong,
        timings["it"].median * 1e6,
        "us",
        mode=timings["it"].mode,
    )


def side_stream() -> dict:
    x = randn(512 * MIB)
    out = torch.empty_like(x)
    side = torch.cuda.Stream()

    def aside() -> None:
        with torch.cuda.stream(side):
            out.copy_(x)

    work = 2 * x.nbytes / 1e9
    copied(x)
    wrong = statistics.median(events(aside) for _ in range(7))
    right = median_of(lambda: [copied(x) for _ in range(4)], 4)
    refused = measure(
        {"it": lambda x: _on(side, x)}, lambda index: (x,), "copy", 2 * x.nbytes, Options(rounds=10)
    )["it"].refused
    return row(
        "wait for every stream",
        "copy of 1 GiB on a stream nobody waits for",
        work / wrong,
        work / right,
        "GB/s",
        refused=refused,
    )


def _on(stream: torch.cuda.Stream, x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    with torch.cuda.stream(stream):
        out.copy_(x)
    return out


def after_a_pause() -> dict:
    N = 8192
    a, b = randn(N, N, seed=0), randn(N, N, seed=1)
    out = torch.empty_like(a)
    flops = 2 * N**3

    def multiply() -> None:
        for _ in range(4):
            torch.mm(a, b, out=out)

    multiply()
    torch.cuda.synchronize()
    time.sleep(3)
    wrong = flops / (events(multiply) / 4) / TERA
    heat(3.0, multiply)
    right = flops / median_of(multiply, 4, 15) / TERA
    return row(
        "warm up until it settles",
        f"matmul {N}^3 bfloat16, right after 3 s of rest",
        wrong,
        right,
        "TFLOP/s",
    )


def one_after_the_other() -> dict:
    """The same matmul twice, as "theirs" and "ours": the ratio should be 1."""
    N = 4096
    a, b = randn(N, N, seed=0), randn(N, N, seed=1)
    out = torch.empty_like(a)

    def multiply() -> None:
        for _ in range(20):
            torch.mm(a, b, out=out)

    multiply()
    torch.cuda.synchronize()
    time.sleep(2)
    ours = statistics.median(events(multiply) for _ in range(20))
    heat(2.0, multiply)  # what a benchmark does between two candidates: it keeps running others
    theirs = statistics.median(events(multiply) for _ in range(20))
    pairs = [(events(multiply), events(multiply)) for _ in range(20)]
    fair = statistics.median(p[1] for p in pairs) / statistics.median(p[0] for p in pairs)
    return row(
        "interleave",
        f"a matmul {N}^3 compared with itself: which is faster?",
        theirs / ours,
        fair,
        "ratio",
    )


PITFALLS: tuple[Callable[[], dict], ...] = (
    first_call,
    no_synchronisation,
    side_stream,
    hot_cache,
    host_gap,
    zeros_instead_of_random,
    after_a_pause,
    one_after_the_other,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    default = ROOT / "docs" / "data" / "timing_pitfalls_h200.json"
    parser.add_argument("--out", type=Path, default=default)
    out = parser.parse_args().out
    if not torch.cuda.is_available():
        print("needs a GPU: PyTorch sees none here", file=sys.stderr)
        return 2
    rows = []
    for pitfall in PITFALLS:
        began = time.perf_counter()
        rows.append({"pitfall": pitfall.__name__, **pitfall()})
        torch.cuda.empty_cache()
        print(f"{rows[-1]}  ({time.perf_counter() - began:.1f} s)")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(
        as_text({"schema": 1, "machine": describe_machine(), "rows": rows}), encoding="utf-8"
    )
    print(f"written: {out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
