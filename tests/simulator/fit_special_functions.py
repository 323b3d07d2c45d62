"""Finds the coefficients of the special function unit anew, from a recording of its results.

    python -m tests.simulator.fit_special_functions RECORDING.npz

RECORDING.npz: what tests/gpu/golden/approximations.py writes, of the machine and day of the golden
vectors. For each segment of each function all triples of integers are looked for that give every
recorded result. How many segments have exactly one, whether it is that of
checkers/simulator/arithmetic/special_coefficients.py, and how exact the results are goes to docs/data,
for docs/notes/special_functions.md; digests of the results go to tests/data, for
test_special_exact.py.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from checkers.simulator.arithmetic import approximate, special_unit
from checkers.simulator.arithmetic.single import multiply
from tests.gpu.golden.approximations import COUNT, OCTAVES, inputs, load

FRACTION = (1 << 23) - 1
BIAS = 127
POINT = 17  # bits of the place in a segment
NEAR = 4  # how far from the best real numbers integers are tried
PIECE = 1 << 14
STEP = 1021  # of the results in the shorter digest
ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "data" / "golden_h200"
DIGESTS = ROOT / "tests" / "data" / "special_functions_h200.json"
NOTES = ROOT / "docs" / "data" / "special_functions_h200.json"
EXACT: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "ex2": np.exp2,
    "rcp": np.reciprocal,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt,
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
}
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


def settled(name: str, recording: Path) -> dict[str, int]:
    """How many segments a function has, how many of them have one triple, and how many of these
    special_coefficients.py has."""
    form, data = FORMS[name], of(name, recording)
    c0, c1, c2 = known(name)
    edges = np.searchsorted(data.place, np.arange(len(c0) + 1) << form.point)
    single, same = 0, 0
    for segment, (start, stop) in enumerate(pairwise(edges.tolist())):
        found = triples(
            Samples(data.place[start:stop], data.low[start:stop], data.high[start:stop]), form
        )
        if len(found) == 1:
            ((slope, curve, least, most),) = found
            single += 1
            in_range = least <= c0[segment] < most + 1
            same += bool(in_range and (slope, curve) == (c1[segment], c2[segment]))
    return {"segments": len(c0), "one_triple": single, "as_in_the_simulator": same}


def simulated(part: str, bits: np.ndarray) -> np.ndarray:
    """The simulator's results for a part of the recording, uint32, computed piece by piece."""
    opcode, *modifiers = OCTAVES[part][0].split(".")
    unit = approximate.single(opcode, "ftz" in modifiers)
    values = bits.view(np.float32)
    with np.errstate(all="ignore"):
        pieces = [unit(values[at : at + PIECE]) for at in range(0, len(values), PIECE)]
    return np.concatenate(pieces).view(np.uint32)


def compared(name: str, recording: Path) -> dict[str, Any]:
    """How the simulator and float64 compare with the results of one function.

    octaves: how many were recorded.  differing: results that the simulator does not give.
    correctly_rounded: the share, in percent.  relative_error, absolute_error: the largest, as power
    of two; of the two the one that the PTX manual bounds."""
    function = name.lower()
    parts = [part for part in OCTAVES if part.partition(".")[0] == function]
    kind = "absolute_error" if function in ("lg2", "sin", "cos") else "relative_error"
    differing, rounded, largest = 0, 0, 0.0
    for part in parts:
        bits, results = inputs(part), load(recording, part)
        differing += int(np.count_nonzero(simulated(part, bits) != results))
        exact = EXACT[function](bits.view(np.float32).astype(np.float64))
        gpu = results.view(np.float32)
        rounded += int(np.count_nonzero(exact.astype(np.float32) == gpu))
        error = np.abs(gpu - exact)
        if kind == "relative_error":
            error = (error / np.abs(exact))[np.abs(exact) >= 2.0**-126]  # the others are flushed
        largest = max(largest, float(error.max()))
    return {
        "octaves": len(parts),
        "differing": differing,
        "correctly_rounded": 100 * rounded / (len(parts) * COUNT),
        kind: math.log2(largest),
    }


def digests(recording: Path) -> dict[str, dict[str, str]]:
    """Of each octave's results: all, and every 1021st."""
    found = {}
    for name in OCTAVES:
        results = load(recording, name)
        found[name] = {
            "all": hashlib.sha256(results.tobytes()).hexdigest()[:16],
            "some": hashlib.sha256(results[::STEP].tobytes()).hexdigest()[:16],
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recording", type=Path)
    recording = parser.parse_args().recording
    machine = json.loads((GOLDEN / "recording.json").read_text())["machine"]
    rows = []
    for name in (*FORMS, "COS"):
        row = {"function": name.lower(), **(settled(name, recording) if name in FORMS else {})}
        rows.append(row | compared(name, recording))
        print(rows[-1], flush=True)
    lines = ",\n  ".join(json.dumps(row) for row in rows)
    head = f'"schema": 1, "machine": {json.dumps(machine)}'
    NOTES.write_text(f'{{{head}, "rows": [\n  {lines}\n]}}\n')
    DIGESTS.write_text(
        json.dumps({"machine": machine, "octaves": digests(recording)}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()
