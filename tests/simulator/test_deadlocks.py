"""A deadlock's report: a line for each wait, with who waits there, and where in the source."""

from __future__ import annotations

import numpy as np

from checkers.simulator.ptx.program import Instruction, Place
from checkers.simulator.reports.faults import Faults, Kind
from tests.simulator.harness import run_ptx

# Each block's thread 0 makes two barriers; then {before}, and everybody waits for the one at %r3 in
# phase %r4.
WAITS = """
    .shared .align 8 .b64 bar[2];
    mov.u32 %r1, %tid.x; mov.u32 %r2, bar; mov.u32 %r5, %ctaid.x; shr.u32 %r6, %r1, 5;
    setp.eq.u32 %p1, %r1, 0; mov.u32 %r3, %r2; mov.u32 %r4, 0;
    @%p1 mbarrier.init.shared.b64 [%r2], 1; @%p1 mbarrier.init.shared.b64 [%r2+8], 1;
    bar.sync 0;
    {before}
    L: mbarrier.try_wait.parity.shared.b64 %p3, [%r3], %r4; @!%p3 bra L;
"""


def waiting(before: str = "", grid: int = 1, block: int = 64) -> list[str]:
    result = run_ptx(
        WAITS.format(before=before), grid=grid, block=block, out=np.zeros(1, np.uint32)
    )
    (fault,) = [fault for fault in result.faults if fault.kind == "deadlock"]
    assert len(fault.also) == len(fault.details["waiting"])
    return fault.details["waiting"]


def test_a_wait_is_one_line_however_many_blocks_wait_there():
    (line,) = waiting(grid=8)
    assert line.startswith("warps 0 and 1 of block 0 and of 7 more blocks at PTX line")
    assert "waits for phase 0 (parity 0) of the mbarrier bar[0]" in line
    assert "so the first" not in line


def test_blocks_of_which_other_warps_wait_are_counted():
    (line,) = waiting("setp.eq.u32 %p2, %r6, %r5; @%p2 exit;", grid=3)
    assert line.startswith("warp 1 of block 0 and 3 of 2 more blocks at")


def test_blocks_that_wait_for_another_phase_are_one_line_that_says_so():
    (line,) = waiting(
        "@%p1 mbarrier.arrive.shared.b64 _, [%r2];"
        "setp.eq.u32 %p2, %r5, 1; and.pred %p2, %p2, %p1;"
        "@%p2 mbarrier.arrive.shared.b64 _, [%r2];"
        "bar.sync 0; add.u32 %r4, %r5, 1; and.b32 %r4, %r4, 1;",
        grid=2,
    )
    assert line.startswith("warps 0 and 1 of block 0 and of 1 more block at")
    assert "phase 1 (parity 1)" in line
    assert line.endswith("(so the first; others for another stage or phase)")


def test_two_barriers_of_one_block_are_two_lines():
    lines = waiting("mad.lo.u32 %r3, %r6, 8, %r2;")
    assert [line.split(" at ")[0] for line in lines] == ["warp 0 of block 0", "warp 1 of block 0"]
    assert "bar[0]" in lines[0] and "bar[1]" in lines[1]


def test_no_more_than_16_waits_are_listed():
    each = "setp.ne.u32 %p1, %r2, {0}; @%p1 bra L{0}; bar.sync {1}, 96; L{0}:"
    places = "".join(each.format(n, 1 + n % 15) for n in range(20))
    result = run_ptx("mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5;" + places, block=640)
    (fault,) = [fault for fault in result.faults if fault.kind == "deadlock"]
    *some, last = fault.details["waiting"]
    assert (len(some), last) == (16, "and 4 more waits")


def test_the_source_line_of_every_wait_is_shown(tmp_path):
    source = tmp_path / "ring.py"
    source.write_text("wait(empty)\nwait(full)\n")
    sites = [
        Instruction("mbarrier", (), (), None, (Place(str(source), line),), line, "mbarrier...")
        for line in (1, 2)
    ]
    faults = Faults()
    details = {"waiting": ["warp 4 at line 1: waits", "warp 0 at line 2: waits", "9 more blocks"]}
    faults.report(Kind.DEADLOCK, "x.", site=sites[0], details=details, also=tuple(sites))
    (fault,) = faults
    lines = fault.text().splitlines()
    at = lines.index("         - warp 0 at line 2: waits")
    assert lines[at - 1 : at + 3] == [
        "           > wait(empty)",
        "         - warp 0 at line 2: waits",
        "           > wait(full)",
        "         - 9 more blocks",
    ]
    assert [place["source"] for place in fault.to_json()["also"]] == ["wait(empty)", "wait(full)"]
