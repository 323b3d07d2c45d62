"""What holds the golden vectors together: the files of a recording, and the comparisons."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.simulator.golden.case import Buffer
from tests.simulator.golden.recording import Recording, differences, sums
from tests.simulator.golden.running import different
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


def compared(compare: str, recorded: list[float], got: list[float]) -> list[int]:
    buffer = Buffer(np.zeros(len(got), np.uint32), True, "f32", compare)
    here = np.array(got, np.float32).view(np.uint32)
    return different(buffer, np.array(recorded, np.float32).tobytes(), here).tolist()


def test_bits_tell_zeros_and_nans_apart() -> None:
    nan = np.array([0x7FC00000, 0x7FFFFFFF], np.uint32).view(np.float32)
    assert compared("bits", [0.0, 1.0, nan[0]], [-0.0, 1.0, nan[1]]) == [0, 2]


def test_ulps_are_counted_across_zero_and_up_to_infinity() -> None:
    largest, least = np.finfo(np.float32).max, np.finfo(np.float32).smallest_subnormal
    recorded = [1.0, largest, least, np.nan, np.nan, 1.0]
    got = [np.nextafter(np.float32(1), 2), np.inf, -least, np.nan, 1.0, 1.0 + 3e-7]
    assert compared("ulp:2", recorded, got) == [4, 5]


def test_close_is_relative_plus_absolute_and_never_infinite() -> None:
    assert compared("close:0.1:0", [10.0, 10.0, np.inf, 0.0], [10.9, 11.1, 1.0, 1e-9]) == [1, 2, 3]
    assert compared("close:0:0.5", [10.0, 10.0, np.nan], [10.4, 9.4, np.nan]) == [1]


def test_specials_come_first_and_the_same_every_time() -> None:
    special = float_specials("f32")
    data = values("f32", "0/f32", 512)
    assert (data[: len(special)] == special).all()
    assert {0, 0x80000000, 1, 0x7F800000, 0x7FC00000, 0x3F800000} <= set(special.tolist())
    assert data.tobytes() == values("f32", "0/f32", 512).tobytes()
    assert data[256:].tobytes() != values("f32", "1/f32", 512)[256:].tobytes()
    # NumPy promises PCG64's raw stream; were it ever to change, every digest would.
    assert values("u64", "2/seed", 512)[-1] == 16141791244311602623
