"""What protects a learner's progress: nothing that was recorded or written is ever lost."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

import pytest

from checkers.exercise import Report, Verdict
from checkers.progress import Progress, ProgressWarning


def report(
    verdict: str = "pass", points: int = 10, open_points: int = 0, name: str = "ch.x"
) -> Report:
    return Report(name, Verdict(verdict), points, 10, 123, (), open_points)


@pytest.fixture
def progress(tmp_path: Path) -> Progress:
    return Progress(tmp_path)


def test_an_exercise_nobody_tried_is_not_attempted(progress: Progress) -> None:
    assert progress.status("ch.x") == "not_attempted"
    assert progress.hints_shown("ch.x") == 0
    assert progress.answers("ch.x") == []
    assert not progress.folder.exists()


def test_a_recorded_report_is_seen_by_the_next_process(progress: Progress, tmp_path: Path) -> None:
    progress.record(report(points=6, open_points=4))
    entry = Progress(tmp_path).entry("ch.x")
    assert (entry.status, entry.best.points, entry.best.open_points) == ("pass", 6, 4)
    assert entry.best.date[:2] == "20"


def test_a_later_failure_does_not_take_a_pass_away(progress: Progress) -> None:
    progress.record(report("pass", 6, 4))
    entry = progress.record(report("fail", 8))
    assert entry.status == "pass"
    assert entry.best.points == 6
    assert entry.last.verdict == "fail"
    assert entry.attempts == 2


def test_a_pass_with_more_points_replaces_one_with_fewer(progress: Progress) -> None:
    progress.record(report("pass", 6, 4))
    assert progress.record(report("pass", 10)).best.points == 10


def test_an_untouched_skeleton_is_not_an_attempt(progress: Progress) -> None:
    assert progress.record(report("not_attempted", 0)).attempts == 0
    assert not progress.file.exists()


def test_hints_come_one_at_a_time_and_stop_at_the_last(progress: Progress) -> None:
    assert [progress.show_next_hint("ch.x") for _ in range(4)] == [0, 1, 2, 2]
    assert progress.hints_shown("ch.x") == 3
    assert progress.hints_shown("ch.y") == 0


def test_every_distinct_answer_is_kept_in_order(progress: Progress) -> None:
    for source in ("a = 1\n", "a = 2\n", "a = 1", "a = 'ü'\r\nb\n"):
        progress.save_answer("ch.x", source)
    assert [answer.source for answer in progress.answers("ch.x")] == [
        "a = 1\n",
        "a = 2\n",
        "a = 'ü'\r\nb\n",
    ]


def test_saving_the_same_answer_again_names_the_first_file(progress: Progress) -> None:
    first = progress.save_answer("ch.x", "a = 1\n")
    assert progress.save_answer("ch.x", "a = 1\n") == first


@pytest.mark.parametrize("content", [b"{", b"", b"[]", b"\xff\xfe", b'{"schema": 1}', b"null"])
def test_a_corrupt_file_is_kept_aside_and_said(progress: Progress, content: bytes) -> None:
    progress.folder.mkdir()
    progress.file.write_bytes(content)
    with pytest.warns(ProgressWarning, match="cannot be read") as caught:
        assert progress.status("ch.x") == "not_attempted"
    (kept,) = progress.folder.glob("progress.unreadable.*.json")
    assert kept.read_bytes() == content
    assert str(kept) in str(caught[0].message)
    progress.record(report())
    assert progress.status("ch.x") == "pass"


def test_a_file_from_a_newer_version_is_kept_aside(progress: Progress) -> None:
    progress.folder.mkdir()
    progress.file.write_text(json.dumps({"schema": 2, "exercises": {}}))
    with pytest.warns(ProgressWarning, match="newer version"):
        progress.record(report())
    (kept,) = progress.folder.glob("progress.newer.*.json")
    assert json.loads(kept.read_text())["schema"] == 2
    assert progress.status("ch.x") == "pass"


def test_an_interrupted_write_leaves_the_state_before(
    progress: Progress, monkeypatch: pytest.MonkeyPatch
) -> None:
    progress.record(report("fail", 2))

    def interrupted(source: str, target: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        progress.record(report("pass"))
    monkeypatch.undo()
    assert progress.status("ch.x") == "fail"
    assert [path.name for path in progress.folder.glob(".progress*")] == []


def _record_many(root: Path, name: str) -> None:
    for _ in range(20):
        Progress(root).record(report(name=name))


def test_two_processes_do_not_lose_each_others_results(progress: Progress, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_record_many, args=(tmp_path, f"ch.{name}")) for name in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [progress.entry(f"ch.{name}").attempts for name in "ab"] == [20, 20]


def test_a_shown_solution_is_remembered_beside_the_rest(progress: Progress) -> None:
    progress.show_next_hint("ch.x")
    progress.mark_solution_shown("ch.x")
    entry = progress.entry("ch.x")
    assert (entry.solution_shown, entry.hints) == (True, 1)


def test_a_failed_run_takes_back_a_pass_that_never_ran(tmp_path):
    from dataclasses import replace

    from checkers.exercise import Stage

    progress = Progress(tmp_path)
    compiled = replace(report("pass", 3, name="ch04.x"), stages=(Stage("run", Verdict.SKIP),))
    wrong = replace(report("fail", 0, name="ch04.x"), stages=(Stage("run", Verdict.FAIL),))
    right = replace(report("pass", 10, name="ch04.x"), stages=(Stage("run", Verdict.PASS),))
    progress.record(compiled)
    assert progress.status("ch04.x") == "pass"
    progress.record(wrong)
    assert progress.status("ch04.x") == "fail"
    progress.record(right)
    progress.record(wrong)
    assert progress.status("ch04.x") == "pass"
