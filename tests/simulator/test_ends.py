"""A grid that is too large to run whole: only its first and last clusters run."""

from __future__ import annotations

import numpy as np
import pytest

from checkers.simulator import simulate
from tests.simulator.harness import launch_of

MARK = """
    mov.u32 %r0, %ctaid.x; mad.wide.u32 %rd0, %r0, 4, %out; mov.u32 %r1, 1; st.global.b32 [%rd0], %r1;
"""


@pytest.mark.parametrize(
    ("ends", "expected"),
    [(3, [0, 1, 2, 7, 8, 9]), (5, range(10)), (None, range(10))],
)
def test_only_the_ends_run(ends, expected):
    out = np.zeros(10, np.uint32)
    launch = launch_of(MARK, grid=10, block=1, out=out)
    if ends is not None:
        launch.attributes["ends"] = ends
    result = simulate(launch)
    assert np.flatnonzero(out).tolist() == list(expected)
    assert result.counters["blocks"] == len(list(expected))


def test_an_end_is_counted_in_clusters():
    out = np.zeros(12, np.uint32)
    launch = launch_of(MARK, grid=12, block=1, cluster=2, out=out)
    launch.attributes["ends"] = 1
    simulate(launch)
    assert np.flatnonzero(out).tolist() == [0, 1, 10, 11]
