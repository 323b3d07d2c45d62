"""The course's kernels give on the simulator what they gave on an H200, bit for bit.

Triton is the exception: its 3.6, which was recorded, sums a thread's elements one after the other,
3.9 as a tree. Where another Triton is installed, the last places may differ (Call.ulps).
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
import triton

from checkers.simulator.launch import simulating
from tests.simulator.course_outputs import DATA, Call, calls, ordered

CALLS = calls()
RECORDED_ON = json.loads((DATA / "recording.json").read_text())
SAME_TRITON = triton.__version__ == RECORDED_ON["triton"]


@pytest.fixture(scope="module")
def recorded() -> dict[str, np.ndarray]:
    return dict(np.load(DATA / "outputs.npz"))


@pytest.mark.parametrize("call", CALLS, ids=[call.name for call in CALLS])
def test_a_kernel_gives_what_the_h200_gave(call: Call, recorded: dict[str, np.ndarray]) -> None:
    with simulating(gpu="h200") as results:
        output = call.run(*[tensor.cuda() for tensor in call.make_inputs()]).cpu()
    assert results and not any(result.faults for result in results)
    expected = torch.from_numpy(recorded[call.name].copy()).view(output.dtype).view(output.shape)
    distance = (ordered(output) - ordered(expected)).abs().max().item()
    assert distance <= (0 if SAME_TRITON else call.ulps)
