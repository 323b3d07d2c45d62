"""What holds the golden vectors together: the files of a recording, and the comparisons."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from tests.simulator.golden.case import elementwise
from tests.simulator.golden.recording import Recording, differences, sums
from tests.simulator.golden.running import mismatches, run
from tests.simulator.golden.values import float_specials, values


def test_a_recording_comes_back_as_it_was(tmp_path: Path) -> None:
    smooth = np.cumsum(np.arange(1000, dtype=np.uint32), dtype=np.uint32).tobytes()
    recording = Recording(machine={"gpu": "a GPU"})
    recording.add("one", "a.b", "123", [b"abc", b""], compact=False)
    recording.add("one", "smooth", "456", [smooth], compact=True)
    recording.add("two", "a.b", "789", [b"\xff" * 7], compact=False)
    recording.save(tmp_path)
    back = Recording.load(tmp_path)
    assert back.machine == {"gpu": "a GPU"}
    assert back.outputs == recording.outputs and back.cases == recording.cases


def test_a_recording_whose_files_do_not_belong_together_is_refused(tmp_path: Path) -> None:
    recording = Recording(machine={})
    recording.add("one", "a", "123", [b"abc"], compact=False)
    recording.save(tmp_path)
    index = tmp_path / "recording.json"
    index.write_text(index.read_text().replace('"bytes": [3]', '"bytes": [2]'))
    with pytest.raises(ValueError, match=r"has 3 bytes, recording.json names 2"):
        Recording.load(tmp_path)


def test_second_differences_can_be_undone_and_are_small() -> None:
    words = np.array([5, 4, 0xFFFFFFFF, 0, 17], np.uint32)
    assert sums(differences(words.tobytes())) == words.tobytes()
    line = np.arange(0, 30000, 3, dtype=np.uint32)
    assert not np.frombuffer(differences(line.tobytes()), np.uint8).reshape(4, -1)[:, 2:].any()


def test_a_bit_that_differs_is_reported_with_its_inputs() -> None:
    case = elementwise("add", "add.f32 %d, %a, %b;", [("a", "f32"), ("b", "f32")], [("d", "f32")])
    buffers = case.make()
    result, after = run(case, buffers)
    recorded = after[2].copy()
    assert not mismatches(case, buffers, [recorded.tobytes()], result, after)
    recorded[7] ^= 1 << 31
    (found,) = mismatches(case, buffers, [recorded.tobytes()], result, after)
    a, b, d = (int(x[7]) for x in (buffers[0].data, buffers[1].data, after[2]))
    assert found == (
        f"p2: 1 of 1024 differ; [7] is {d:#010x}, on the GPU {d ^ 1 << 31:#010x}, from {a:#x}, {b:#x}"
    )


def test_a_fault_is_a_difference_unless_the_case_asks_for_it() -> None:
    body = "mov.b64 %address, 64;\nld.global.b32 %d, [%address];"
    case = elementwise("bad", body, [], [("d", "b32")], count=128)
    buffers = case.make()
    result, after = run(case, buffers)
    kept = [after[0].tobytes()]
    (found,) = mismatches(case, buffers, kept, result, after)
    assert found.startswith("out_of_bounds: ")
    allowed = dataclasses.replace(case, allowed=("out_of_bounds",))
    assert not mismatches(allowed, buffers, kept, result, after)


def test_specials_come_first_and_the_same_every_time() -> None:
    special = float_specials("f32")
    data = values("f32", "0/f32", 512)
    assert (data[: len(special)] == special).all()
    assert {0, 0x80000000, 1, 0x7F800000, 0x7FC00000, 0x3F800000} <= set(special.tolist())
    assert data.tobytes() == values("f32", "0/f32", 512).tobytes()
    assert data[256:].tobytes() != values("f32", "1/f32", 512)[256:].tobytes()
    # NumPy promises PCG64's raw stream; were it ever to change, every digest would.
    assert values("u64", "2/seed", 512)[-1] == 16141791244311602623
