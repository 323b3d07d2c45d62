"""Every instruction family against what an H200 gave for the same PTX and the same inputs.

The kernels are in tests/simulator/golden, the recording in tests/data/golden_h200, made by
tests/gpu/golden/record.py. All is compared bit for bit: approximate functions and the tensor cores' sums too.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import pytest

from checkers.simulator.machine import building
from tests.simulator.golden import running
from tests.simulator.golden.families import FAMILIES
from tests.simulator.golden.recording import Recording

DATA = Path(__file__).parent.parent / "data" / "golden_h200"


@lru_cache(maxsize=1)
def recording() -> Recording:
    return Recording.load(DATA)


# What leaves no result to compare, and what an H200 does not have.
WITHOUT_RESULT = {"applypriority", "brkpt", "discard", "griddepcontrol", "nanosleep", "pmevent"}
WITHOUT_RESULT |= {"prefetchu", "setmaxnreg", "trap"}
OTHER_ARCHITECTURES = {"clusterlaunchcontrol", "tcgen05"}
# What a mul and an add become; test_contraction.py and the peers' recorded outputs hold these.
NOT_OF_PTX = {"fda", "fms", "fnma"}


def test_every_instruction_of_the_simulator_has_a_case() -> None:
    building.load_families()
    texts = [case.ptx for family in FAMILIES.values() for case in family()]
    used = set(re.findall(r"(?<![\w.%])[a-z]\w*", "\n".join(texts)))
    missing = set(building.SECTIONS) - used
    assert missing == WITHOUT_RESULT | OTHER_ARCHITECTURES | NOT_OF_PTX


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
