"""What the simulator found becomes a learner's finding, and what it counted the speed stage."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from checkers.exercise import Case, Diagnosis, Evidence, Exercise, Floor, Rung, Verdict
from checkers.grading import counted, run
from checkers.grading.cases import AnswerRaised, Place, place_for
from checkers.grading.simulated import Faulty, check, is_simulators_own
from checkers.grading.verify import Wrong
from checkers.simulator.launch.catcher import NotStoodFor
from checkers.simulator.ptx.modifiers import Unsupported
from checkers.simulator.ptx.program import Instruction
from checkers.simulator.ptx.program import Place as SourcePlace
from checkers.simulator.reports.counters import Counters
from checkers.simulator.reports.faults import Access, Faults, Kind, Severity

SETUP = "import torch\nimport cutlass\n"
TEXT = SETUP + "def kernel(x, y):\n    y[i] = x[i + 1]\n    barrier()\n"
FIRST = SETUP.count("\n") + 1


def site(line: int, file: str = "/tmp/ladder-a/answer.py") -> Instruction:
    return Instruction("ld", (), (), None, (SourcePlace(file, line),), 1, "ld.global ...;")


def found(*reports: tuple[Kind, str, dict]) -> SimpleNamespace:
    """A result with these faults."""
    faults = Faults()
    for kind, message, options in reports:
        faults.report(kind, message, **options)
    return SimpleNamespace(faults=list(faults), stopped="")


def faulty(*reports: tuple[Kind, str, dict]) -> Faulty:
    with pytest.raises(Faulty) as raised:
        check([found(*reports)])
    return raised.value


def test_a_run_without_errors_is_fine():
    check([])
    check([found(), found((Kind.PROXY_FENCE, "x.", {"severity": Severity.NOTE}))])


def test_the_finding_names_and_shows_the_learners_line():
    wrong = faulty((Kind.OUT_OF_BOUNDS, "x[8] was read; x has shape (8,).", {"site": site(4)}))
    finding = wrong.explained(TEXT, "/tmp/ladder-a/answer.py", FIRST).finding
    assert finding.summary == "line 2: x[8] was read; x has shape (8,)."
    assert finding.picture == "   2 |     y[i] = x[i + 1]"
    assert finding.probable.startswith("An index beyond a tensor. The last tile hangs over")


def test_both_lines_of_a_race_are_shown():
    other = Access(None, site(4), "load of x[1]")
    wrong = faulty((Kind.RACE, "x[1] is written.", {"site": site(5), "other": other}))
    finding = wrong.explained(TEXT, "answer.py", FIRST).finding
    assert finding.picture == "   3 |     barrier()\n   2 |     y[i] = x[i + 1]"
    assert finding.element == "the other access: load of x[1]"


def test_the_waits_of_a_deadlock_are_told_with_the_learners_lines():
    waiting = [
        "warp 4 of block 0 at line 4: waits for phase 0 (initialised with count 4, line 3)",
        "warps 0 to 3 of block 0 at line 5: waits; warp 9 at PTX line 4, warp 8 at line 2",
    ]
    options = {"site": site(4), "details": {"waiting": waiting}, "also": (site(4), site(5))}
    wrong = faulty((Kind.DEADLOCK, "No thread can go on.", options))
    finding = wrong.explained(TEXT, "answer.py", FIRST).finding
    assert finding.summary == "line 2: No thread can go on."
    assert finding.element.splitlines()[1:] == [
        "warp 4 of block 0 at line 2: waits for phase 0 (initialised with count 4, line 1)",
        "warps 0 to 3 of block 0 at line 3: waits; warp 9 at PTX line 4, warp 8 at a line above "
        "this cell",
    ]
    assert finding.picture == "   2 |     y[i] = x[i + 1]\n   3 |     barrier()"


def test_a_line_above_the_cell_is_told_by_the_call_in_it_or_without_a_number():
    inlined = replace(site(2), places=(*site(2).places, *site(4).places))
    wrong = faulty((Kind.TRAP, "Stopped.", {"site": inlined}))
    finding = wrong.explained(TEXT, "answer.py", FIRST).finding
    assert (finding.summary, finding.picture) == ("line 2: Stopped.", "   2 |     y[i] = x[i + 1]")
    finding = faulty((Kind.TRAP, "Stopped.", {"site": site(2)})).explained(TEXT, "answer.py", FIRST)
    assert (finding.finding.summary, finding.finding.picture) == (
        "Stopped.",
        "     | import cutlass",
    )


def test_lines_of_a_library_are_not_shown_as_the_learners():
    wrong = faulty((Kind.TRAP, "Stopped.", {"site": site(4, "/lib/cute.py")}))
    finding = wrong.explained(TEXT, "answer.py", FIRST).finding
    assert (finding.summary, finding.picture) == ("Stopped.", "")


def test_what_is_out_of_bounds_is_told_before_the_races_that_it_causes():
    wrong = faulty(
        (Kind.RACE, "a race.", {"site": site(4)}),
        (Kind.OUT_OF_BOUNDS, "out of bounds.", {"site": site(5)}),
    )
    assert wrong.finding.summary == "out of bounds."
    assert wrong.error == "check:out_of_bounds fault:out_of_bounds check:race fault:race"


def test_what_follows_is_named_beside_its_cause_and_other_faults_after_it():
    faults = Faults()
    cause = faults.report(Kind.READ_BEFORE_WAIT, "too early.", site=site(5))
    faults.report(Kind.RACE, "a race.", site=site(4), follows=cause)
    faults.report(Kind.EXIT_IN_FLIGHT, "in flight.", site=site(4), follows=cause)
    faults.report(Kind.TRAP, "stopped.", site=site(3))
    with pytest.raises(Faulty) as raised:
        check([SimpleNamespace(faults=list(faults), stopped="")])
    finding = raised.value.explained(TEXT, "answer.py", FIRST).finding
    assert finding.summary == "line 3: too early."
    assert finding.element.splitlines()[-2:] == [
        "and 2 more that follow from it: Two threads touch the same memory with no order between, "
        "line 2; The block ended with work in flight, line 2",
        "and another fault: The kernel stopped itself, line 1",
    ]
    assert raised.value.error.split()[-1] == "fault:trap" and "check:race" in raised.value.error


def test_diagnoses_match_faults():
    says = Diagnosis("Guard it.", error="check:out_of_bounds")
    by_source = Diagnosis("No barrier.", source=lambda tree: True)
    wrong = faulty((Kind.OUT_OF_BOUNDS, "x.", {}))
    assert says.matches(Evidence("run", error=wrong.error))
    wrong = faulty((Kind.DEADLOCK, "x.", {}))
    evidence = Evidence("run", error=wrong.error, tree=SimpleNamespace())
    assert not says.matches(evidence) and by_source.matches(evidence)


def test_a_run_that_was_stopped_did_not_end():
    with pytest.raises(Wrong, match="did not end: stopped after 9 steps"):
        check([SimpleNamespace(faults=[], stopped="stopped after 9 steps")])


def test_the_simulators_own_errors_are_told_from_the_answers():
    def raised(function) -> BaseException:
        try:
            function()
        except Exception as error:
            return error
        raise AssertionError

    assert is_simulators_own(raised(lambda: Counters()["no such counter"]))
    assert not is_simulators_own(raised(lambda: {}["mine"]))


def test_where_an_answer_runs():
    rungs = {
        (Rung.PYTHON, "simulator"): "cpu",
        (Rung.TORCH, "simulator"): "cpu",
        (Rung.TRITON, "simulator"): "simulator",
        (Rung.CUTE, "simulator"): "simulator",
        (Rung.TRITON, "cpu"): "interpreter",
        (Rung.CUTE, "cuda"): "cuda",
    }
    for (rung, device), kind in rungs.items():
        assert place_for(SimpleNamespace(rung=rung), device).kind == kind


def test_which_cases_a_place_takes():
    plain, large = Case("plain"), Case("large", needs_gpu=True)
    far = Case("far", needs_gpu=True, sparse=True)
    ends = Case("ends", window=8)
    assert [Place(kind).takes(ends) for kind in ("cuda", "simulator", "interpreter")] == [
        False,
        True,
        False,
    ]
    assert [Place("cuda").takes(case) for case in (plain, large, far)] == [True] * 3
    assert [Place("simulator").takes(case) for case in (plain, large, far)] == [True, False, True]
    assert [Place("interpreter").takes(case) for case in (plain, large, far)] == [
        True,
        False,
        False,
    ]


def outcome_of(
    monkeypatch, *raised: BaseException | None, kind: str = "simulator", asked: bool = True
):
    """The run stage of an answer whose cases end so, None: right. Diagnoses ask about each case."""
    endings = iter(raised)

    class Runner:
        def __init__(self, exercise, place, case, seed):
            self.place, self.case = place, case

        def check(self, function):
            error = next(endings)
            if error is not None:
                raise error
            return 0.5

    monkeypatch.setattr(run, "CaseRunner", Runner)
    monkeypatch.setattr(run, "load_function", lambda *_: len)
    job = {"seed": 1, "setup": "", "source": "", "scratch": "/tmp"}
    cases = tuple(Case(f"case_{number}") for number in range(len(raised)))
    asking = tuple(Diagnosis(f"{case} is right", passing=frozenset({case.name})) for case in cases)
    graded = replace(exercise(), cases=cases, diagnoses=asking if asked else ())
    return run.run_stage(graded, Place(kind), job, lambda *_, **__: None)[0]


def answer_raised(error: BaseException) -> AnswerRaised:
    raised = AnswerRaised()
    raised.__cause__ = error
    return raised


UNKNOWN = answer_raised(Unsupported(site(4), "there is no instruction 'ld' in it"))
HANG = Faulty(list(found((Kind.DEADLOCK, "No thread can go on.", {})).faults))


@pytest.mark.parametrize("raised", [(HANG, UNKNOWN), (UNKNOWN, HANG), (None, UNKNOWN, HANG)])
def test_a_fault_on_one_case_counts_whatever_is_unknown_on_another(monkeypatch, raised):
    outcome = outcome_of(monkeypatch, *raised)
    assert (outcome.verdict, outcome.reason) == (Verdict.FAIL, "No thread can go on.")


def test_an_instruction_that_the_simulator_lacks_leaves_the_run_open(monkeypatch):
    outcome = outcome_of(monkeypatch, None, UNKNOWN, None)
    assert outcome.verdict is Verdict.SKIP
    assert outcome.measures == {"cases": 2, "where": "simulator"}
    assert outcome.reason.startswith("needs a GPU: the simulator can't run `ld.global ...;`")


def test_a_fault_counts_although_the_simulator_breaks_on_the_next_case(monkeypatch):
    with pytest.raises(KeyError):
        outcome_of(monkeypatch, None, KeyError("r12"))
    with pytest.raises(KeyError):
        outcome_of(monkeypatch, HANG, KeyError("r12"), kind="cuda")
    assert outcome_of(monkeypatch, HANG, KeyError("r12")).verdict is Verdict.FAIL


@pytest.mark.parametrize(("kind", "wrong"), [("simulator", 2), ("cuda", 1)])
def test_after_an_exception_only_a_gpu_runs_no_further_case(monkeypatch, kind, wrong):
    failing = answer_raised(ValueError("no")), answer_raised(ValueError("again"))
    assert outcome_of(monkeypatch, *failing, kind=kind).measures["wrong"] == wrong


def test_after_a_wrong_case_only_those_run_that_a_diagnosis_asks_about(monkeypatch):
    for asked, tried in ((True, 2), (False, 1)):  # "case_1 is right" is decided by case_1
        outcome = outcome_of(monkeypatch, HANG, None, None, asked=asked)
        assert (outcome.measures["cases"], outcome.measures["wrong"]) == (tried, 1)


def test_host_code_that_asks_what_is_not_known_leaves_the_run_open(monkeypatch):
    asked = NotStoodFor("host code asks for device attribute 77, which is not known here")
    outcome = outcome_of(monkeypatch, answer_raised(asked))
    assert (outcome.verdict, outcome.reason) == (Verdict.SKIP, f"needs a GPU: {asked}")


# --- counting ----------------------------------------------------------------------------------

CASE = Case("whole", {"n": 1024})


def exercise(*floors: Floor) -> Exercise:
    return Exercise(
        id="ch90.copy",
        title="",
        points=1,
        minutes=1,
        rung=Rung.CUTE,
        function="copy",
        section="Sectors",
        cases=(CASE,),
        inputs=lambda case, generator: (torch.zeros(case["n"]),),
        oracle=lambda x: x,
        hints=("?", "", ""),
        mistakes=(),
        floors=floors,
    )


class FakePlace(Place):
    """A place whose launches count what they are told to."""

    def entered(self, watch):
        return watch


def stage(counts: dict[str, int], at_most: float = 1.05, **result):
    place = FakePlace("simulator")
    counters = Counters()
    for name, amount in counts.items():
        counters.add(name, amount)

    def function(x):
        plain = {"faults": [], "stopped": "", "counters": counters}
        place.results[:] = [SimpleNamespace(**plain | result)]

    floor = Floor(CASE, lambda arguments: 2 * arguments[0].nbytes, at_most)
    return counted.stage_for(exercise(floor), function, {"seed": 1}, place)


def sectors(loads: int, stores: int, needed: int) -> dict[str, int]:
    return {
        "global_load_sectors": loads,
        "global_store_sectors": stores,
        "global_load_sectors_needed": needed,
        "global_store_sectors_needed": stores,
    }


def test_a_kernel_that_moves_the_least_passes():
    outcome = stage(sectors(128, 128, 128))  # 4096 bytes in, 4096 out
    assert outcome.verdict is Verdict.PASS
    assert outcome.reason == (
        "asks for 1.00 times the bytes that must move, 100% of each sector is wanted "
        "(counted on the simulator; a GPU would time it)"
    )
    (case,) = outcome.measures["cases"]
    assert (case["bytes_moved"], case["bytes_needed"], case["ratio"]) == (8192, 8192, 1.0)


def test_strided_access_moves_sectors_that_nobody_wants():
    outcome = stage(sectors(1024, 128, 128))
    assert outcome.verdict is Verdict.FAIL
    assert "asks for 4.50 times the bytes that must move" in outcome.reason
    assert "at most 1.05 times are asked" in outcome.reason
    assert "neighbouring threads don't access neighbouring addresses" in outcome.finding.probable
    assert outcome.finding.reread == "Sectors"


def test_reading_twice_with_full_sectors_is_told_apart():
    outcome = stage(sectors(256, 128, 256))
    assert "asks for 1.50 times" in outcome.reason
    assert "moved more than once" in outcome.finding.probable


def test_a_floor_may_allow_a_second_pass():
    assert stage(sectors(256, 128, 256), at_most=1.6).verdict is Verdict.PASS


def test_tensor_copies_are_moved_bytes_too():
    outcome = stage({"tma_load_bytes": 4096, "tma_store_bytes": 4096})
    assert outcome.verdict is Verdict.PASS and "sector" not in outcome.reason


def test_a_fault_while_counting_fails():
    outcome = stage({}, faults=found((Kind.RACE, "x is written twice.", {})).faults)
    assert (outcome.verdict, outcome.reason) == (Verdict.FAIL, "x is written twice.")
