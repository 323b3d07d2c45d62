"""The special function unit against every result of it that was recorded on an H200, bit for bit.

test_golden.py holds the same recordings against the manual's bounds; here nothing may differ.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from checkers.simulator.arithmetic import special_unit
from tests.simulator.golden import running
from tests.simulator.golden.families import FAMILIES
from tests.simulator.golden.recording import Recording

DATA = Path(__file__).parent.parent / "data" / "golden_h200"
EXACT = ("div.", "rcp.approx.f32", "rcp.approx.ftz.f32", "rsqrt.approx.f32", "rsqrt.approx.ftz.f32")
EXACT += ("sqrt.approx", "ex2.approx", "lg2.approx", "tanh.approx", "sin.", "cos.")


def is_exact(name: str) -> bool:
    return name.removeprefix("dense.").startswith(EXACT)


@pytest.mark.parametrize("family", ["approximate", "half"])
def test_every_recorded_result_comes_out_to_the_bit(family: str) -> None:
    recorded = Recording.load(DATA).outputs
    tested = 0
    for case in FAMILIES[family]():
        if (family, case.name) not in recorded or not is_exact(case.name):
            continue
        buffers = case.make()
        _, after = running.run(case, buffers)
        want = np.frombuffer(recorded[family, case.name][-1], after[-1].dtype)
        wrong = np.nonzero(after[-1] != want)[0]
        assert not len(wrong), f"{case.name}: {len(wrong)} of {len(want)}, first {wrong[0]}"
        tested += len(want)
    assert tested > 100_000


def test_small_known_values() -> None:
    with np.errstate(all="ignore"):
        assert special_unit.exponential(np.float32([0, 1, -1, 10, -0.5])).view(np.uint32).tolist() == [
            0x3F800000, 0x40000000, 0x3F000000, 0x44800000, 0x3F3504F2,
        ]  # fmt: skip
        assert special_unit.reciprocal(np.float32([1, -2, 0, -np.inf])).tolist() == [
            1,
            -0.5,
            np.inf,
            0,
        ]
        assert special_unit.reciprocal_root(np.float32([1, 4, 16, 2.0**-126])).tolist() == [
            1, 0.5, 0.25, 2.0**63,
        ]  # fmt: skip
        assert special_unit.square_root(np.float32([0, 1, 4, 2.0**-126])).tolist() == [
            0,
            1,
            2,
            2.0**-63,
        ]
        assert special_unit.logarithm(np.float32([1, 2, 1024, 0])).tolist() == [0, 1, 10, -np.inf]


def test_a_result_may_be_below_the_correctly_rounded_one() -> None:
    # The unit cuts off: 1 / (1 + 2**-22) by it is one place below.
    x = np.linspace(1, 2, 4096, dtype=np.float32)
    unit = special_unit.reciprocal(x).view(np.int32)
    places = unit - (np.float32(1) / x).view(np.int32)
    assert set(places.tolist()) == {-1, 0, 1} or set(places.tolist()) == {-1, 0}
