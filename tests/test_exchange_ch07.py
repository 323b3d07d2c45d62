"""What chapter 7 says of exchanges that are wrong in other ways than its known mistakes are."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from checkers import answers
from checkers.chapters import ch07_cluster_reductions as chapter
from checkers.chapters.parts import ch07_diagnoses as known
from checkers.chapters.parts import ch07_mistakes as mistakes
from checkers.course import Course
from checkers.exercise import Evidence
from checkers.grading import assembly, codegen

ROOT = Path(__file__).parents[1]
GUARDED_SEND = "    if lane < tile.blocks:  # one lane, one peer\n" + mistakes.SEND
EXPECTS = "    if warp == 0:\n        with cute.arch.elect_one():\n" + mistakes.EXPECT
FENCED = "    if tidx == 0:\n" + mistakes.INIT + "    cute.arch.mbarrier_init_fence()\n"


@pytest.mark.parametrize(
    ("error", "says", "pairs"),
    (
        (
            "fault:read_before_wait",
            "Only some threads wait for the pairs",
            [(mistakes.ARRIVED, "    if warp == 0:\n    " + mistakes.ARRIVED)],
        ),
        (
            "fault:mbarrier fault:cluster",
            "Only some threads wait for the cluster",
            [(mistakes.WAIT, "    if warp == 0:\n    " + mistakes.WAIT)],
        ),
        (
            "fault:cluster",
            "Only some threads say that they are ready",
            [(mistakes.ARRIVE, ""), (mistakes.INIT, mistakes.INIT + "    " + mistakes.ARRIVE)],
        ),
        ("fault:cluster", "arrives once and waits once", [(mistakes.WAIT, 2 * mistakes.WAIT)]),
        ("fault:cluster", "arrives once and waits once", [(mistakes.ARRIVE, 2 * mistakes.ARRIVE)]),
        (
            "fault:mbarrier",
            "no fence follows",
            [(FENCED, "    cute.arch.mbarrier_init_fence()\n    if tidx == 0:\n" + mistakes.INIT)],
        ),
        (
            "fault:mbarrier",
            "before the initialisation is known to it",
            [
                ("mbarrier_init(mbar, 1)", "mbarrier_init(mbar, tile.warps)"),
                (EXPECTS, "    with cute.arch.elect_one():\n" + mistakes.EXPECT[4:]),
            ],
        ),
        (
            "fault:expect_tx",
            "comes after the wait that it is for",
            [(EXPECTS, ""), (mistakes.ARRIVED, mistakes.ARRIVED + EXPECTS)],
        ),
        (
            "fault:deadlock",
            "waits for a second phase",
            [(mistakes.ARRIVED, mistakes.ARRIVED + mistakes.ARRIVED.replace("0)", "1)"))],
        ),
        (
            "check:race fault:race fault:expect_tx",
            "All lanes send the same pair",
            [
                (
                    GUARDED_SEND,
                    "    for peer in range(tile.blocks):\n"
                    + mistakes.SEND.replace("lane)", "Int32(peer))"),
                )
            ],
        ),
        (
            "check:out_of_bounds fault:out_of_bounds",
            "beyond the last slot",
            [("rank * tile.warps + warp", "warp * tile.warps + rank")],
        ),
        (
            "fault:uninitialised",
            "nobody has sent",
            [
                ("if lane < tile.blocks:", "if lane < tile.blocks and lane != rank:"),
                ("tile.pairs * PAIR_BYTES)", "(tile.pairs - tile.warps) * PAIR_BYTES)"),
            ],
        ),
    ),
)
def test_an_exchange_that_is_wrong_in_its_own_way_is_told_so(error, says, pairs):
    """Errors as the simulator found them in these answers."""
    cell = answers.solution_cell(Course(ROOT), "ch07.cluster_reduction")
    for right, wrong in pairs:
        assert cell.count(right) == 1, right
        cell = cell.replace(right, wrong)
    evidence = Evidence("run", error=error, tree=ast.parse(cell))
    first = next((each for each in known.REDUCTION if each.matches(evidence)), None)
    assert first is not None and says in first.says, first


@pytest.mark.parametrize("opcode", ("mbarrier.arrive.expect_tx", "mbarrier.expect_tx.relaxed.cta"))
def test_expecting_and_arriving_may_be_two_instructions(opcode):
    (rule,) = (rule for rule in chapter.CLUSTER if rule.name == "expects")
    instruction = assembly.Instruction(f"{opcode}.shared::cta.b64", "", 0)
    assert codegen.matches(rule, instruction)


def test_a_barrier_that_only_one_lane_reaches_is_told_so():
    cell = answers.solution_cell(Course(ROOT), "ch07.softmax")
    assert cell.count("        cute.arch.barrier()\n") == 1
    cell = cell.replace("        cute.arch.barrier()\n", "            cute.arch.barrier()\n")
    evidence = Evidence("run", error="check:race fault:race", tree=ast.parse(cell))
    first = next(each for each in known.SOFTMAX if each.matches(evidence))
    assert first is known.NO_BLOCK_BARRIER


def test_special_rows_are_not_blamed_where_plain_ones_are_wrong_too():
    """An exchange that is left out for two warps fails many cases, the special ones among them."""
    failing = ("large_values", "masked", "falling", "special")
    evidence = Evidence(
        "run",
        cases=failing,
        passed=("block", "cluster"),
        error="check:values",
        tree=ast.parse(answers.solution_cell(Course(ROOT), "ch07.softmax")),
    )
    first = next(each for each in known.SOFTMAX if each.matches(evidence))
    assert "don't repair it" not in first.says
