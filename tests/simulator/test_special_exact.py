"""The approximate functions over whole octaves are those that an H200 gave, bit for bit.

The digests are of 2**23 results each: tests/simulator/fit_special_functions.py wrote them. The quick
test looks at every 1021st.
"""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from tests.gpu.golden.approximations import OCTAVES, inputs
from tests.simulator.fit_special_functions import DIGESTS, STEP, simulated

RECORDED = json.loads(DIGESTS.read_text())["octaves"]


def digest(results: np.ndarray) -> str:
    return hashlib.sha256(results.tobytes()).hexdigest()[:16]


def test_every_octave_was_recorded() -> None:
    assert list(RECORDED) == list(OCTAVES)


@pytest.mark.parametrize("octave", OCTAVES)
def test_some_results_of_an_octave_are_the_gpus(octave: str) -> None:
    assert digest(simulated(octave, inputs(octave)[::STEP])) == RECORDED[octave]["some"]


@pytest.mark.slow
@pytest.mark.parametrize("octave", OCTAVES)
def test_all_results_of_an_octave_are_the_gpus(octave: str) -> None:
    assert digest(simulated(octave, inputs(octave))) == RECORDED[octave]["all"]
