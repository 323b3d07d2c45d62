"""Every instruction family against what an H200 gave for the same PTX and the same inputs.

The kernels are in tests/simulator/golden, the recording in tests/data/golden_h200, made by
tests/gpu/golden/record.py. Arithmetic is compared bit for bit; approximations and the tensor cores' sums
of arbitrary floats within bounds (Buffer.compare).
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

from tests.simulator.golden import running
from tests.simulator.golden.families import FAMILIES
from tests.simulator.golden.recording import Recording

DATA = Path(__file__).parent.parent / "data" / "golden_h200"


@lru_cache(maxsize=1)
def recording() -> Recording:
    return Recording.load(DATA)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_case_was_recorded_as_it_is_now(family: str) -> None:
    recorded = recording().cases[family]
    cases = {case.name: case.digest(case.make()) for case in FAMILIES[family]()}
    assert {name: entry["digest"] for name, entry in recorded.items()} == cases


@pytest.mark.parametrize("family", FAMILIES)
def test_the_simulator_gives_what_the_gpu_gave(family: str) -> None:
    wrong = []
    for case in FAMILIES[family]():
        buffers = case.make()
        result, after = running.run(case, buffers)
        recorded = recording().outputs[family, case.name]
        found = running.mismatches(case, buffers, recorded, result, after)
        wrong += [f"{case.name}: {what}" for what in found]
    assert not wrong, f"{len(wrong)} differences:\n" + "\n".join(wrong)
