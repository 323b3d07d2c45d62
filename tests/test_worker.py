"""How a job can end, and that the next one is not harmed."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from checkers.grading.worker import Worker, WorkerError, describe_code

JOBS = "tests.worker_jobs"


@pytest.fixture
def worker():
    found = Worker({}, preload=())
    yield found
    found.close()


def test_events_arrive_in_order_and_printed_text_is_kept(worker):
    seen = []
    ending = worker.run(f"{JOBS}.counts", {"upto": 3}, 20, on_event=seen.append)
    assert (ending.kind, ending.printed) == ("done", "counting\n")
    assert [event["number"] for event in ending.events] == [0, 1, 2]
    assert seen == ending.events


def test_a_job_past_its_limit_is_killed_with_its_children(worker):
    begun = time.monotonic()
    ending = worker.run(f"{JOBS}.sleeps_with_a_child", {}, 1.0)
    assert ending.kind == "timeout"
    assert time.monotonic() - begun < 15
    (event,) = ending.events
    with pytest.raises(ProcessLookupError):
        for _ in range(100):
            os.kill(event["child"], 0)
            time.sleep(0.05)
    assert worker.run(f"{JOBS}.counts", {"upto": 1}, 20).kind == "done"


def test_an_event_may_shorten_the_time_until_the_next_one(worker):
    begun = time.monotonic()
    ending = worker.run(f"{JOBS}.waits_after_a_case", {"waits": [(60, 0.1), (1.0, 40)]}, 50)
    assert (ending.kind, ending.limit, len(ending.events)) == ("timeout", 1.0, 2)
    assert time.monotonic() - begun < 15
    assert "in waits_after_a_case" in ending.stack and ending.printed == ""


def test_the_event_after_a_short_one_has_the_whole_limit_again(worker):
    waits = {"waits": [(1.0, 0.1), (None, 1.5)]}
    assert worker.run(f"{JOBS}.waits_after_a_case", waits, 20).kind == "done"
    waits = {"waits": [(30.0, 0.1), (None, 40)]}
    ending = worker.run(f"{JOBS}.waits_after_a_case", waits, 1.5)
    assert (ending.kind, ending.limit) == ("timeout", 1.5)


@pytest.mark.parametrize(
    ("job", "words"), [("exits", "exit code 3"), ("segfaults", "segmentation fault")]
)
def test_a_crash_is_described(worker, job, words):
    ending = worker.run(f"{JOBS}.{job}", {}, 20)
    assert ending.kind == "exit"
    assert words in ending.detail


def test_a_fault_of_the_grader_is_not_the_answers(worker):
    with pytest.raises(WorkerError, match="the grader itself failed(.|\n)*KeyError"):
        worker.run(f"{JOBS}.counts", {}, 20)
    assert worker.run(f"{JOBS}.counts", {"upto": 1}, 20).kind == "done"


def test_a_killed_zygote_is_named_and_replaced(worker):
    worker.run(f"{JOBS}.counts", {"upto": 1}, 20)
    with pytest.raises(WorkerError, match="ladder doctor"):
        worker.run(f"{JOBS}.kills_its_parent", {}, 20)
    assert worker.run(f"{JOBS}.counts", {"upto": 1}, 20).kind == "done"


GRADER = """
from checkers.grading.worker import Worker
Worker({}, preload=()).run("tests.worker_jobs.sleeps_with_a_child", {}, 60, on_event=lambda event: print(event["child"], flush=True))
"""


def test_a_killed_grader_leaves_no_job_behind():
    """As a time limit or a closed terminal ends it, with an answer that hangs."""
    with subprocess.Popen(
        [sys.executable, "-c", GRADER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as grader:
        grandchild = int(grader.stdout.readline())
        grader.kill()
        with pytest.raises(ProcessLookupError):
            for _ in range(100):
                os.kill(grandchild, 0)
                time.sleep(0.05)
        assert grader.stderr.read() == ""  # ends when the zygote does


def test_signals_and_codes_read_as_words():
    assert describe_code(4) == "exit code 4"
    assert "ran out of memory" in describe_code(-9)
    assert describe_code(-15) == "signal SIGTERM"
