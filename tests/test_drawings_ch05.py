"""The pictures of chapter 5: what stands in them."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from solutions import ch05_async_copies as ch05

CHAPTER = Path(__file__).parents[1] / "chapters" / "ch05_async_copies"


@pytest.fixture(scope="module")
def drawn() -> ModuleType:
    spec = importlib.util.spec_from_file_location("draw_pictures", CHAPTER / "draw_pictures.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def words(svg: str) -> list[str]:
    """Every text, in the order drawn."""
    drawn = ElementTree.fromstring(svg).iter()
    return [element.text or "" for element in drawn if element.tag.endswith("}text")]


def test_the_lessons_pictures_are_the_ones_that_are_drawn(drawn: ModuleType) -> None:
    pictures = drawn.pictures()
    assert {path.name for path in (CHAPTER / "pictures").iterdir()} == set(pictures)
    for name, svg in pictures.items():
        assert (CHAPTER / "pictures" / name).read_text(encoding="utf-8") == svg, name


def test_each_round_reads_its_tile_and_starts_the_one_two_ahead(drawn: ModuleType) -> None:
    said = words(drawn.stages(ring=3, rounds=8))
    assert [word for word in said if re.match(r"read \d", word)] == [f"read {r}" for r in range(8)]
    starts = [word for word in said if re.fullmatch(r"\d+ starts", word)]
    assert starts == [f"{r + 2} starts" for r in range(8)]


def test_a_barrier_in_phase_1_lets_pass_who_waits_for_parity_0(drawn: ModuleType) -> None:
    said = words(drawn.phases())
    assert [word for word in said if word.startswith("parity")] == [
        "parity 1",
        "parity 0",
        "parity 1",
        "parity 0",
    ]
    assert "wait(0): goes on at once" in said


def test_the_ring_has_a_box_a_stage(drawn: ModuleType) -> None:
    said = words(drawn.ring(count=3))
    assert [word for word in said if word.startswith("stage")] == ["stage 0", "stage 1", "stage 2"]


@pytest.mark.parametrize("count", [3, 5])
def test_one_stage_is_read_one_is_empty_and_the_others_are_written(
    drawn: ModuleType, count: int
) -> None:
    said = words(drawn.ring(count))
    assert [said.count(state) for state in ("full: being read", "TMA writes", "empty")] == [
        1,
        count - 2,
        1,
    ]


def test_the_pictures_have_as_many_stages_as_the_kernels(drawn: ModuleType) -> None:
    pictures = drawn.pictures()
    for name, count in (("stages.svg", ch05.STAGES), ("ring.svg", ch05.RING_STAGES)):
        labels = [word for word in words(pictures[name]) if re.fullmatch(r"stage \d", word)]
        assert len(labels) == count, name
