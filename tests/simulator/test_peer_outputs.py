"""Others' kernels give on the simulator what they gave on an H200, bit for bit.

They hold what the golden vectors can't: that ptxas fuses products into sums where the simulator
does, in kernels with clusters, TMA and wgmma.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from checkers.simulator.launch import simulating
from tests.simulator.course_outputs import ordered
from tests.simulator.peer_outputs import DATA, calls
from tests.simulator.peers import forget

NAMES = sorted(np.load(DATA / "outputs.npz").files)


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_of_others_gives_what_the_h200_gave(name: str) -> None:
    pytest.importorskip("quack", reason="quack-kernels is not installed: pip install -e '.[peers]'")
    pytest.importorskip("flash_attn.cute", reason="flash-attn-4 is not installed")
    with simulating(gpu="h200") as results:
        forget()
        (call,) = (call for call in calls() if call.name == name)
        output = call.run(*[tensor.cuda() for tensor in call.make_inputs()]).cpu()
    forget()
    assert results and all(result.ok for result in results)
    recorded = torch.from_numpy(np.load(DATA / "outputs.npz")[name].copy()).view(output.dtype)
    distance = (ordered(output) - ordered(recorded.view(output.shape))).abs()
    assert distance.max().item() == 0, f"{int((distance > 0).sum())} of {distance.numel()} differ"
