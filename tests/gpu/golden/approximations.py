"""Records the GPU's approximate functions over whole octaves: every mantissa, 2**23 values each.

    python3 tests/gpu/golden/approximations.py --out FILE.npz

For modelling them bit for bit: tests/simulator/fit_special_functions.py. The npz holds, by name, the results' second differences (see
tests/simulator/golden/recording.py), LZMA-compressed; OCTAVES says what the inputs were.
"""

from __future__ import annotations

import argparse
import lzma
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))

from tests.gpu.golden.driver import Driver  # noqa: E402
from tests.simulator.golden.case import elementwise  # noqa: E402
from tests.simulator.golden.recording import differences, sums  # noqa: E402

COUNT = 1 << 23
ONE = 0x3F800000
SIGN = 0x80000000


def octave(exponent: int, sign: int = 0) -> tuple[int, int]:
    """(first bits, step) of the numbers from 2**exponent to twice that."""
    return sign | (ONE + (exponent << 23)), 1


# Name to (instruction, first input bits, step in bits).
OCTAVES: dict[str, tuple[str, int, int]] = {
    "ex2": ("ex2.approx.ftz.f32", *octave(0)),
    "ex2.negative": ("ex2.approx.ftz.f32", *octave(0, SIGN)),
    "ex2.small": ("ex2.approx.ftz.f32", *octave(-5)),
    "ex2.large": ("ex2.approx.ftz.f32", *octave(5)),
    "ex2.large.negative": ("ex2.approx.ftz.f32", *octave(6, SIGN)),
    "rcp": ("rcp.approx.ftz.f32", *octave(0)),
    "rsqrt": ("rsqrt.approx.ftz.f32", *octave(0)),
    "rsqrt.odd": ("rsqrt.approx.ftz.f32", *octave(1)),
    "sqrt": ("sqrt.approx.ftz.f32", *octave(0)),
    "sqrt.odd": ("sqrt.approx.ftz.f32", *octave(1)),
    "lg2": ("lg2.approx.ftz.f32", *octave(0)),
    "lg2.below": ("lg2.approx.ftz.f32", *octave(-1)),
    "lg2.large": ("lg2.approx.ftz.f32", *octave(9)),
    "tanh": ("tanh.approx.f32", ONE - (12 << 23), 16),  # 2**-12 to 2**4
    "sin": ("sin.approx.ftz.f32", *octave(0)),
    "sin.large": ("sin.approx.ftz.f32", *octave(3)),
    "cos": ("cos.approx.ftz.f32", *octave(0)),
    "div": ("rcp.approx.f32", *octave(3)),
}


def inputs(name: str) -> np.ndarray:
    """(2**23,) uint32: the bits of the inputs."""
    _, start, step = OCTAVES[name]
    return (start + step * np.arange(COUNT, dtype=np.int64)).astype(np.uint32)


def load(recording: Path, name: str) -> np.ndarray:
    """(2**23,) uint32: the bits of the results, from the npz."""
    with np.load(recording) as packed:
        return np.frombuffer(sums(lzma.decompress(packed[name].tobytes())), np.uint32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    driver = Driver()
    results = {}
    for name, (instruction, _, _) in OCTAVES.items():
        operands, results_of = [("a", "f32")], [("d", "f32")]
        case = elementwise(name, f"{instruction} %d, %a;", operands, results_of, count=COUNT)
        results[name] = driver.run(case, [inputs(name), np.zeros(COUNT, np.uint32)])[1]
    with ThreadPoolExecutor() as pool:
        packed = dict(
            zip(
                results,
                pool.map(
                    lambda r: lzma.compress(differences(r.tobytes()), preset=2), results.values()
                ),
                strict=True,
            )
        )
    np.savez(out, **{name: np.frombuffer(data, np.uint8) for name, data in packed.items()})
    print(f"{len(packed)} octaves, {out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
