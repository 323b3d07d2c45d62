"""Faults: who did it and where, each lesson once, in a form that a terminal and JSON can show."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from checkers.simulator.ptx.program import Instruction, Place
from checkers.simulator.reports.fault_kinds import LORE
from checkers.simulator.reports.faults import (
    Access,
    Faults,
    Kind,
    Severity,
    Stop,
    by_cause,
    learners_place,
)


def instruction(text: str, line: int, *places: Place) -> Instruction:
    return Instruction(text.split(".")[0], (), (), None, places, line, text)


def wave(block=(64, 2, 1), block_ids=((0, 0, 0), (3, 1, 0))) -> SimpleNamespace:
    threads = int(np.prod(block))
    return SimpleNamespace(
        launch=SimpleNamespace(block=block, title="softmax"),
        warps_per_block=-(-threads // 32),
        block_ids=np.array(block_ids),
    )


def only(faults: Faults):
    (fault,) = faults
    return fault


def test_a_thread_is_named_by_its_place_in_block_and_grid():
    faults = Faults(wave())
    # 4 warps a block: flat thread 4*32 + 70 is thread 70 of the second block, (6, 1, 0) of 64 x 2.
    faults.report(Kind.RACE, "x.", thread=4 * 32 + 70)
    who = only(faults).who
    assert (who.thread, who.warp, who.lane, who.block) == ((6, 1, 0), 2, 6, (3, 1, 0))
    assert str(who) == "thread (6, 1, 0) (warp 2, lane 6) of block (3, 1, 0)"


def test_what_lies_along_x_is_named_by_one_number():
    faults = Faults(wave(block=(128, 1, 1), block_ids=((7, 0, 0),)))
    faults.report(Kind.RACE, "x.", thread=33)
    assert str(only(faults).who) == "thread 33 (warp 1, lane 1) of block 7"


def test_equal_faults_are_one_with_a_count_and_the_first_thread():
    faults = Faults(wave())
    load, store = instruction("ld.global", 3), instruction("st.global", 9)
    for thread in (5, 6, 7):
        faults.report(Kind.OUT_OF_BOUNDS, f"thread {thread}", thread=thread, site=load)
    faults.report(Kind.OUT_OF_BOUNDS, "another place", thread=5, site=store)
    first, second = faults
    assert (first.count, first.message, first.who.lane) == (3, "thread 5", 5)
    assert second.count == 1


def test_the_other_access_tells_two_faults_apart():
    faults = Faults(wave())
    load, a, b = (instruction(f"ld.{i}", i) for i in range(3))
    faults.report(Kind.RACE, "x.", thread=0, site=load, other=Access(1, a, "store"))
    faults.report(Kind.RACE, "x.", thread=0, site=load, other=Access(1, b, "store"))
    faults.report(Kind.RACE, "x.", thread=0, site=load, other=Access(9, a, "store"))
    assert [fault.count for fault in faults] == [2, 1]


def test_the_copies_of_an_unrolled_loop_are_one_fault():
    place = Place("/home/me/softmax.py", 42, 8)
    faults = Faults(wave())
    for line in range(30):
        faults.report(Kind.RACE, "x.", thread=0, site=instruction("ld", line, place))
    assert only(faults).count == 30


def test_tensors_and_opcodes_of_one_line_are_told_apart():
    place = Place("/home/me/add.py", 7, 8)
    faults = Faults(wave())
    for opcode, tensor in (("ld", "a"), ("ld", "b"), ("st", "c"), ("ld", "a")):
        site = instruction(f"{opcode}.global", 3, place)
        faults.report(Kind.OUT_OF_BOUNDS, f"{tensor}[8]", site=site, details={"tensor": tensor})
    assert [(fault.message, fault.count) for fault in faults] == [
        ("a[8]", 2),
        ("b[8]", 1),
        ("c[8]", 1),
    ]


def test_chapters_to_reread_exist():
    folder = Path(__file__).parents[2] / "chapters"
    for kind, lore in LORE.items():
        for chapter in lore.reread:
            assert list(folder.glob(f"{chapter}_*")), (kind, chapter)


def test_a_group_gives_site_first_thread_and_count():
    site = instruction("ld.global", 3)
    group = SimpleNamespace(site=site, threads=lambda: np.array([40, 41, 42]))
    faults = Faults(wave())
    faults.report(Kind.MISALIGNED, "x.", group=group)
    fault = only(faults)
    assert (fault.site, fault.count, fault.who.lane, fault.kernel) == (site, 3, 8, "softmax")


def test_too_many_different_errors_stop_the_run_and_are_kept():
    faults = Faults(wave(), limit=3)
    for line in range(2):
        faults.report(Kind.RACE, "x.", site=instruction("ld", line))
    with pytest.raises(Stop, match="3 different faults"):
        faults.report(Kind.RACE, "x.", site=instruction("ld", 2))
    assert len(faults) == 3


def test_notes_never_stop_a_run():
    faults = Faults(wave(), limit=2)
    for line in range(5):
        site = instruction("ld", line)
        faults.report(Kind.PROXY_FENCE, "x.", site=site, severity=Severity.NOTE)
    assert (len(faults.notes), faults.notes_dropped, faults.errors) == (2, 3, [])


def test_the_learners_line_is_shown_and_not_the_librarys():
    library = Place("/venv/lib/python3.11/site-packages/cutlass/cute/algorithm.py", 10)
    learner, caller = Place("/home/me/softmax.py", 42), Place("/home/me/main.py", 7)
    assert learners_place(instruction("ld", 1, library, learner, caller)) == learner
    assert learners_place(instruction("ld", 1, library)) == library
    assert learners_place(instruction("ld", 1)) is None


def test_the_text_quotes_the_source_lines_of_both_sides(tmp_path):
    source = tmp_path / "pipeline.py"
    source.write_text("copy(tile, stage)\nx = stage[0]\n")
    read = instruction("ld.shared.b32 %r1, [%r2];", 20, Place(str(source), 2))
    copy = instruction("cp.async.cg", 11, Place(str(source), 1))
    faults = Faults(wave())
    faults.report(
        Kind.READ_BEFORE_WAIT,
        "stage[0] was read while its copy was in flight.",
        thread=1,
        site=read,
        other=Access(2, copy, "cp.async into shared memory"),
    )
    text = only(faults).text()
    assert text.startswith("FAULT  The copy had not landed yet\n  stage[0] was read")
    assert "pipeline.py:2\n         > x = stage[0]\n" in text
    assert "other  cp.async into shared memory, by thread 2 (warp 0, lane 2)" in text
    assert "> copy(tile, stage)" in text
    assert "The wait is missing" in text
    assert max(len(line) for line in text.splitlines() if "pipeline.py" not in line) <= 80


def test_without_a_source_line_the_instruction_is_shown():
    faults = Faults(wave())
    faults.report(Kind.TRAP, "x.", site=instruction("trap;", 99))
    assert "  where  PTX line 99: trap;" in only(faults).text()


def test_a_deadlock_lists_who_waits_for_what():
    faults = Faults(wave())
    waiting = ["warp 0 waits for full[0], phase 1: 0 of 4 arrived"]
    faults.report(Kind.DEADLOCK, "Nobody can go on.", details={"waiting": waiting})
    text = only(faults).text()
    assert "         - warp 0 waits for full[0], phase 1: 0 of 4 arrived" in text
    assert "A GPU hangs here." in " ".join(text.split())


def test_a_fault_is_plain_json():
    faults = Faults(wave())
    site = instruction("ld.global.b32", 3, Place("k.py", 8, 4))
    details = {"tensor": "x", "index": (np.int64(3), 4), "bytes": np.uint32(16)}
    faults.report(Kind.OUT_OF_BOUNDS, "x[3, 4] is not there.", thread=1, site=site, details=details)
    data = json.loads(json.dumps(only(faults).to_json()))
    assert data["kind"] == "out_of_bounds" and data["severity"] == "error"
    assert data["details"] == {"tensor": "x", "index": [3, 4], "bytes": 16}
    assert data["place"] == {"file": "k.py", "line": 8, "column": 4, "source": ""}
    assert data["who"] == {"thread": [1, 0, 0], "warp": 0, "lane": 1, "block": [0, 0, 0]}
    assert data["other"] is None


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_has_its_lesson(kind):
    lore = LORE[kind]
    assert len(lore.title) < 60 and lore.meaning.endswith(".") and lore.causes
    assert all(cause.endswith(".") for cause in lore.causes)


def test_a_fault_that_does_not_follow_each_time_follows_from_none():
    faults = Faults()
    a, b = instruction("ld", 1), instruction("st", 2)
    cause = faults.report(Kind.READ_BEFORE_WAIT, "x.", site=a)
    follower = faults.report(Kind.RACE, "y.", site=b, follows=cause)
    assert by_cause(faults) == [(cause, [follower])]
    faults.report(Kind.RACE, "y.", site=b)
    assert by_cause(faults) == [(cause, []), (follower, [])]


def test_what_follows_from_a_consequence_follows_from_its_cause():
    faults = Faults()
    first = faults.report(Kind.PHASE, "x.", site=instruction("ld", 1))
    second = faults.report(Kind.RACE, "x.", site=instruction("ld", 2), follows=first)
    third = faults.report(Kind.MBARRIER, "x.", site=instruction("ld", 3), follows=second)
    assert by_cause(faults) == [(first, [second, third])]
