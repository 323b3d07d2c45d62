"""Fences, register pools, and instructions that only wait or hint."""

from __future__ import annotations

import numpy as np
import pytest

from checkers.simulator.ptx.modifiers import Unsupported
from tests.simulator.harness import kinds, run_ptx


def run(body: str, block: int = 128, module: str = "", **more):
    return run_ptx(body, out=np.zeros(block, np.uint32), block=block, module=module, **more)


def messages(result, kind: str) -> list[str]:
    return [fault.message for fault in result.faults if fault.kind == kind]


@pytest.mark.parametrize(
    "instruction",
    [
        "fence.acq_rel.cta;",
        "fence.cluster;",
        "fence.sc.gpu;",
        "fence.acquire.sys;",
        "fence.release.cluster;",
        "fence.acquire.sync_restrict::shared::cluster.cluster;",
        "fence.release.sync_restrict::shared::cta.cluster;",
        "fence.proxy.alias;",
        "fence.proxy.async;",
        "fence.proxy.async.global;",
        "fence.proxy.async.shared::cta;",
        "fence.proxy.async.shared::cluster;",
        "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;",
        "fence.proxy.tensormap::generic.release.gpu;",
        "fence.proxy.tensormap::generic.acquire.gpu [%out], 128;",
        "fence.mbarrier_init.release.cluster;",
        "membar.cta;",
        "membar.gl;",
        "membar.sys;",
        "membar.proxy.alias;",
        "griddepcontrol.wait;",
        "griddepcontrol.launch_dependents;",
        "nanosleep.u32 100;",
        "mov.u32 %r1, 7; nanosleep.u32 %r1;",
    ],
)
def test_each_form_runs(instruction):
    assert kinds(run(instruction)) == []


@pytest.mark.parametrize(
    "instruction",
    ["fence.weak.gpu;", "fence.proxy.texture;", "membar.cluster;", "griddepcontrol.go;"],
)
def test_other_forms_are_refused(instruction):
    with pytest.raises(Unsupported):
        run(instruction)


# Block 1 takes what block 0 left, once the flag is up.
MESSAGE = """
    mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 1; @%p1 bra TAKE;
    st.global.u32 [%out+64], 42;
    {release}
    st.relaxed.gpu.global.u32 [%out], 1;
    bra.uni END;
    TAKE:
    LOOP: ld.relaxed.gpu.global.u32 %r2, [%out]; setp.eq.u32 %p2, %r2, 0; @%p2 bra LOOP;
    {acquire}
    ld.global.u32 %r3, [%out+64]; st.global.u32 [%out+128], %r3;
    END:
"""


@pytest.mark.parametrize(
    ("release", "acquire", "fine"),
    [
        ("fence.acq_rel.gpu;", "fence.acq_rel.gpu;", True),
        ("fence.release.gpu;", "fence.acquire.gpu;", True),
        ("membar.gl;", "membar.gl;", True),
        ("", "fence.acq_rel.gpu;", False),
        ("fence.acq_rel.gpu;", "", False),
        ("fence.acquire.gpu;", "fence.acq_rel.gpu;", False),
    ],
)
def test_fences_turn_relaxed_accesses_into_release_and_acquire(release, acquire, fine):
    out = np.zeros(64, np.uint32)
    result = run_ptx(MESSAGE.format(release=release, acquire=acquire), out=out, block=1, grid=2)
    assert kinds(result) == ([] if fine else ["race"])
    assert out[32] == 42


# --- setmaxnreg --------------------------------------------------------------------------------------

ROLES = """
    mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 128; @%p1 bra CONSUMER;
    setmaxnreg.dec.sync.aligned.u32 {producer}; bra.uni END;
    CONSUMER: setmaxnreg.inc.sync.aligned.u32 {consumer};
    END:
"""


def test_registers_given_back_are_there_to_take():
    result = run(ROLES.format(producer=40, consumer=232), block=384)
    assert kinds(result) == []


def test_more_registers_than_there_are():
    result = run(ROLES.format(producer=40, consumer=240), block=384)
    assert kinds(result) == ["deadlock"]
    (fault,) = [f for f in result.faults if f.kind == "deadlock"]
    assert "no warpgroup has given back enough" in fault.details["waiting"][0]


def test_a_warpgroup_of_which_one_warp_does_not_take_part():
    body = """
        mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 96; @%p1 bra END;
        setmaxnreg.dec.sync.aligned.u32 40;
        END:
    """
    result = run(body, block=256)
    assert "did not all execute the same setmaxnreg" in messages(result, "registers")[0]


def test_dec_that_raises():
    body = "setmaxnreg.dec.sync.aligned.u32 40; setmaxnreg.dec.sync.aligned.u32 48;"
    assert "setmaxnreg.dec to 48" in messages(run(body), "registers")[0]


@pytest.mark.parametrize("count", [20, 44, 264])
def test_impossible_numbers_of_registers(count):
    with pytest.raises(Unsupported, match="multiple of 8"):
        run(f"setmaxnreg.dec.sync.aligned.u32 {count};")
