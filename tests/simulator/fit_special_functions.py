"""Finds the coefficients of the special function unit anew, from a recording of its results.

    python -m tests.simulator.fit_special_functions RECORDING.npz

RECORDING.npz: what tests/gpu/golden/approximations.py writes. For each segment of each function it
looks for all triples of integers that give every recorded result, prints how many segments have
exactly one, and whether it is that of checkers/simulator/arithmetic/special_coefficients.py.
docs/notes/special_functions.md tells the idea.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from checkers.simulator.arithmetic import special_unit
from checkers.simulator.arithmetic.single import multiply
from tests.gpu.golden.approximations import inputs, load

FRACTION = (1 << 23) - 1
BIAS = 127
POINT = 17  # bits of the place in a segment
NEAR = 4  # how far from the best real numbers integers are tried
TURNS = np.float32(0.15915494)  # 1 / (2 pi)


@dataclass(frozen=True)
class Samples:
    """What results tell of the sums that they are cut off from: low <= sum <= high.

    place: (n,) segment and place in it, an integer.  low, high: (n,) int64."""

    place: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Form:
    """steps: of c1 and c2, in units of the sum: a number of bits narrower than the sum's.  parts: names in
    the recording.  samples: of a part's inputs and results, both uint32.  point: bits of the place."""

    steps: tuple[int, int]
    parts: tuple[str, ...]
    samples: Callable[[np.ndarray, np.ndarray], Samples]
    point: int = POINT


def square(x: np.ndarray) -> np.ndarray:
    """x * x / 2**19 of 17-bit integers as the unit has it: partial products below 2**18 are left
    out."""
    total = np.zeros_like(x)
    for bit in range(POINT):
        total += np.where((x >> bit) & 1, x >> (POINT + 1 - bit), 0)
    return total >> 1


def _mantissa(place: np.ndarray, results: np.ndarray, exponent: np.ndarray, drop: int) -> Samples:
    """The sum's upper bits are the result's mantissa, at a result with that unbiased exponent."""
    bits = results.astype(np.int64) & 0x7FFFFFFF
    mantissa = ((bits & FRACTION) | (1 << 23)) << ((bits >> 23) - BIAS - exponent)
    return Samples(place, mantissa << drop, ((mantissa + 1) << drop) - 1)


def _fixed(place: np.ndarray, results: np.ndarray, point: int, finest: int) -> Samples:
    """The sum is a fixed-point number, cut off to 24 bits and above bit ``finest``."""
    values = np.abs(results.view(np.float32))
    low = (values.astype(np.float64) * 2.0**point).astype(np.int64)
    step = np.spacing(values).astype(np.float64) * 2.0**point
    return Samples(place, low, low + np.maximum(step, 2.0**finest).astype(np.int64) - 1)


def _only(samples: Samples, keep: np.ndarray) -> Samples:
    return Samples(samples.place[keep], samples.low[keep], samples.high[keep])


def _split(bits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(exponent, fraction) of positive float32."""
    wide = bits.astype(np.int64) & 0x7FFFFFFF
    return (wide >> 23) - BIAS, wide & FRACTION


def exponential(bits: np.ndarray, results: np.ndarray) -> Samples:
    fixed = (np.abs(bits.view(np.float32)).astype(np.float64) * 2.0**23).astype(np.int64)
    whole = (fixed & FRACTION) == 0
    fixed = np.where(bits >> 31, ~fixed + whole, fixed)
    return _mantissa(fixed & FRACTION, results, fixed >> 23, 15)


def reciprocal(bits: np.ndarray, results: np.ndarray) -> Samples:
    exponent, fraction = _split(bits)
    return _mantissa(fraction, results, -1 - exponent, 15)


def reciprocal_root(bits: np.ndarray, results: np.ndarray) -> Samples:
    exponent, fraction = _split(bits)
    place = fraction | ((exponent & 1) << 23)
    # Powers of four are no sums: their results are exact.
    return _only(_mantissa(place, results, -1 - (exponent >> 1), 16), place != 0)


def square_root(bits: np.ndarray, results: np.ndarray) -> Samples:
    exponent, fraction = _split(bits)
    return _mantissa(fraction | ((exponent & 1) << 23), results, exponent >> 1, 17)


def logarithm(bits: np.ndarray, results: np.ndarray) -> Samples:
    fraction = _split(bits)[1]
    return _only(_fixed(fraction, results, 38, 2), fraction != 0)


def circular(quarter: int) -> Callable[[np.ndarray, np.ndarray], Samples]:
    def sine(bits: np.ndarray, results: np.ndarray) -> Samples:
        turns = np.fmod(multiply(bits.view(np.float32), TURNS, "rz"), np.float32(1))
        fixed = (turns * np.float32(2.0**25)).astype(np.int64)
        fraction = fixed & FRACTION
        mirrored = ((fixed >> 23) + quarter) & 1
        return _fixed(np.where(mirrored, fraction ^ FRACTION, fraction), results, 37, 0)

    return sine


def tangent(bits: np.ndarray, results: np.ndarray) -> Samples:
    exponent, fraction = _split(bits)
    octave = exponent - special_unit._TANH_FIRST
    keep = (octave >= 0) & (octave < len(special_unit._TANH_BITS))
    octave, fraction, results = octave[keep], fraction[keep], results[keep]
    below = 23 - special_unit._TANH_BITS[octave]
    x = (fraction & ((1 << below) - 1)) >> (below - POINT)
    segment = special_unit._TANH_START[octave] + (fraction >> below)
    return _fixed((segment << POINT) | x, results, 40, 0)


FORMS = {
    "EX2": Form((0, 0), ("ex2", "ex2.negative"), exponential),
    "RCP": Form((0, 0), ("rcp",), reciprocal, point=16),
    "RSQRT": Form((0, 2), ("rsqrt", "rsqrt.odd"), reciprocal_root),
    "SQRT": Form((0, 1), ("sqrt", "sqrt.odd"), square_root),
    "LG2": Form((0, 1), ("lg2",), logarithm),
    "SIN": Form((0, 0), ("sin", "sin.large"), circular(0)),
    "TANH": Form((1, 2), ("tanh",), tangent),
}


def known(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """special_unit's coefficients in units of the sums here: c0, c1 of x as an integer, c2 of
    ``square``."""
    drop = {"EX2": 15, "RCP": 15, "RSQRT": 16, "SQRT": 17, "LG2": 14, "SIN": 13, "TANH": 16}[name]
    hidden = 2.0**23 if name in ("EX2", "RCP", "RSQRT", "SQRT") else 0.0
    if name == "TANH":
        c0, c1, c2 = special_unit._TANH
        c1 = c1 * 2.0**-POINT
    else:
        table = getattr(special_unit, f"_{name}")
        c0, c1, c2 = table.c0, table.c1, table.c2
    return (c0 + hidden) * 2.0**drop, c1 * 2.0**drop, c2 * 2.0 ** (drop - 15)


def triples(data: Samples, form: Form) -> list[tuple[int, int, int, int]]:
    """All (c1, c2, least, greatest c0) that give one segment's results."""
    x = data.place & ((1 << form.point) - 1)
    squared = square(x << (POINT - form.point))
    middle, weight = (data.low + data.high) / 2, 1.0 / (data.high - data.low + 1)
    line = np.stack([np.ones(len(x)), x], 1) * weight[:, None]
    # The slope that is best for the results, and for the squares.
    both = np.stack([middle, squared], 1) * weight[:, None]
    slope, slope_of_squares = np.linalg.lstsq(line, both, rcond=None)[0][1]
    columns = np.concatenate([line, (squared * weight)[:, None]], 1)
    curve = np.linalg.lstsq(columns, middle * weight, rcond=None)[0][2]
    step1, step2 = 1 << form.steps[0], 1 << form.steps[1]
    few = np.linspace(0, len(x) - 1, 1000).astype(int)
    found = []
    for c2 in step2 * (round(curve / step2) + np.arange(-NEAR, NEAR + 1)):
        best = round((slope - c2 * slope_of_squares) / step1)
        for c1 in step1 * (best + np.arange(-NEAR, NEAR + 1)):
            for which in (few, slice(None)):
                rest = c1 * x[which] + c2 * squared[which]
                least, most = (data.low[which] - rest).max(), (data.high[which] - rest).min()
                if least > most:
                    break
            else:
                found.append((int(c1), int(c2), int(least), int(most)))
    return found


def of(name: str, recording: Path) -> Samples:
    """All samples of a function, each place once, in order."""
    form = FORMS[name]
    parts = [form.samples(inputs(part), load(recording, part)) for part in form.parts]
    place, first = np.unique(np.concatenate([part.place for part in parts]), return_index=True)
    low = np.concatenate([part.low for part in parts])[first]
    return Samples(place, low, np.concatenate([part.high for part in parts])[first])


def report(name: str, recording: Path) -> str:
    """One line: how many results, segments, segments with one triple, and as in special_unit."""
    form, data = FORMS[name], of(name, recording)
    c0, c1, c2 = known(name)
    edges = np.searchsorted(data.place, np.arange(len(c0) + 1) << form.point)
    single, same = 0, 0
    for segment, (start, stop) in enumerate(pairwise(edges.tolist())):
        found = triples(
            Samples(data.place[start:stop], data.low[start:stop], data.high[start:stop]), form
        )
        single += len(found) == 1
        same += any(
            one[:2] == (c1[segment], c2[segment]) and one[2] <= c0[segment] < one[3] + 1
            for one in found
        )
    return (
        f"{name}: {len(data.place)} results, {len(c0)} segments, {single} with one triple, "
        f"{same} as in special_coefficients.py"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recording", type=Path)
    recording = parser.parse_args().recording
    for name in FORMS:
        print(report(name, recording), flush=True)


if __name__ == "__main__":
    main()
