"""The ring of cp.async stages in ch05: hints, the probable mistakes, and wrong answers to prove them."""

from __future__ import annotations

import ast
from dataclasses import replace

from checkers.chapters.parts.ch05_common import (
    ANY_KERNEL,
    called_less_than,
    constant_index,
    in_a_loop_over_tiles,
    loop_without_step,
    remainder_of_a_difference,
    within,
)
from checkers.exercise import Diagnosis, Mistake
from checkers.grading import syntax
from checkers.grading.syntax_calls import argument_is, stands_before

HINTS = (
    "STAGES - 1 groups are in flight when a round begins, and one tile must be complete. How many "
    "groups may still be pending then? And which stage has nobody left to read it?",
    "Start STAGES - 1 tiles before the loop. In each round: wait until at most STAGES - 2 groups are "
    "pending, read the stage into registers, start the tile that lies STAGES - 1 rounds ahead into "
    "the stage of the round before, compute, go to the next stage. After the loop wait for "
    "everything.",
    "cute.copy(tiled_copy, tXgX, tXsX, pred=tXpX); cute.arch.cp_async_commit_group(); "
    "cute.arch.cp_async_wait_group(STAGES - 2); free = (stage + STAGES - 1) % STAGES; "
    "start_copy(tiled_copy, mX, tXsX[None, None, None, free], tile + (STAGES - 1) * grid)",
)

GROUP, WAIT = "cute.arch.cp_async_commit_group", "cute.arch.cp_async_wait_group"
GROUPS, AHEAD, PAST_THE_END = "Groups", "How far ahead", "Past the end"

EARLY = "fault:read_before_wait"

NO_PROLOGUE = Diagnosis(
    "Nothing is started before the loop: when the first round waits, STAGES - 1 tiles have to be on "
    "their way already.",
    AHEAD,
    source=called_less_than(2, "start_copy"),
    error="rule:asynchronous",
)
NO_ATOM = syntax.no_call("cutlass.cute.nvgpu.cpasync.CopyG2SOp")
THROUGH_REGISTERS = Diagnosis(
    "The copy atom loads into registers and stores from there: the thread waits. The atom that goes "
    "on by itself is cpasync.CopyG2SOp().",
    "A copy that nobody waits for",
    error="rule:asynchronous",
)

DIAGNOSES: tuple[Diagnosis, ...] = (
    *ANY_KERNEL,
    Diagnosis(
        "A predicate stands for 16 bytes, and the copy atom moves less: "
        "num_bits_per_copy=VECTOR_BITS.",
        GROUPS,
        stage="compile",
        error="expects pred",
    ),
    Diagnosis(
        "How many groups may be pending is built into the instruction: wait_group takes a number "
        "known while tracing, STAGES - 2, and no value of the GPU.",
        GROUPS,
        stage="compile",
        error="bad_cast",
    ),
    NO_PROLOGUE,
    replace(NO_PROLOGUE, error="fault:uninitialised"),
    THROUGH_REGISTERS,
    replace(THROUGH_REGISTERS, stage="run", source=NO_ATOM, error=""),
    Diagnosis(
        "The loop goes from tile to tile, so blocks compute each other's tiles: a block's next "
        "tile lies `grid` tiles further.",
        AHEAD,
        source=loop_without_step,
        error="check:race",
    ),
    Diagnosis(
        "The copies are never committed: a wait counts groups, and what is in no group it does not "
        "see. Commit right after the copies.",
        GROUPS,
        source=syntax.no_call(GROUP),
        error=EARLY,
    ),
    Diagnosis(
        "The group is closed before its copies are started: they fall into the next one, and the "
        "wait is a tile behind. Copy first, then commit.",
        GROUPS,
        source=stands_before(GROUP, "cute.copy"),
        error=EARLY,
    ),
    Diagnosis(
        "No round waits for its tile: it is read while the copy is under way. It may come out right "
        "on an idle GPU.",
        GROUPS,
        source=syntax.negated(in_a_loop_over_tiles(WAIT)),
        error=EARLY,
    ),
    Diagnosis(
        "The wait leaves one group too many in flight: with STAGES - 1 groups committed, "
        "wait_group(STAGES - 1) waits for none of them.",
        AHEAD,
        source=argument_is(WAIT, 0, "STAGES - 1", "STAGES"),
        error=EARLY,
    ),
    Diagnosis(
        "Past the end nothing is committed, so the last waits count too few groups. Start the copy "
        "all the same: its predicate is off, and the group is empty.",
        PAST_THE_END,
        source=syntax.any_of(within("start_copy", ast.If), within(GROUP, ast.If)),
        error=EARLY,
    ),
    Diagnosis(
        "Always the same stage is read: the tile of this round is in tXsX[None, None, None, stage].",
        AHEAD,
        source=constant_index("cute.autovec_copy", 0),
        error=EARLY,
    ),
    Diagnosis(
        "The stage is read before the wait: the wait has to stand between the copy and whoever "
        "reads.",
        GROUPS,
        source=stands_before("cute.autovec_copy", WAIT),
        error=EARLY,
    ),
    Diagnosis(
        "Two copies go into one stage, or into one that is not read yet: the tile that is STAGES - 1 "
        "rounds ahead belongs into (stage + STAGES - 1) % STAGES.",
        AHEAD,
        error=f"check:race fault:race {EARLY}",
    ),
    Diagnosis(
        "Too few groups are committed when the first round waits: start STAGES - 1 tiles before the "
        "loop, or wait_group(STAGES - 2) has nothing to wait for.",
        AHEAD,
        source=syntax.negated(
            syntax.any_of(
                argument_is("cutlass.range_constexpr", 0, "STAGES - 1"),
                argument_is("range", 0, "STAGES - 1"),
            )
        ),
        error=EARLY,
    ),
    Diagnosis(
        "What is read is still under way: round r reads stage r % STAGES, and tile r + STAGES - 1 "
        "went into the stage of round r - 1. Count the groups that are newer than the tile.",
        AHEAD,
        error=EARLY,
    ),
    Diagnosis(
        "The kernel ends while copies are on their way: those past the end write zeros, after the "
        "block has given its shared memory back. Wait for group 0 after the loop.",
        PAST_THE_END,
        error="fault:exit_in_flight",
    ),
    Diagnosis(
        "The stage has a negative number: in the GPU's integers -1 % STAGES is -1. Add before the "
        "remainder, (stage + STAGES - 1) % STAGES.",
        AHEAD,
        source=remainder_of_a_difference,
        error="check:out_of_bounds",
    ),
    Diagnosis(
        "Vectors past the end were read: give the copy pred=tXpX.",
        PAST_THE_END,
        error="check:out_of_bounds",
    ),
    Diagnosis(
        "Two copies go into one stage, and some stage gets none: the stage has to move on by one in "
        "each round, and the free one with it.",
        AHEAD,
        error="check:race",
    ),
    Diagnosis(
        "A stage is read that no copy has filled: the next tile went to another stage than the one "
        "that is read STAGES - 1 rounds later. It belongs into (stage + STAGES - 1) % STAGES.",
        AHEAD,
        error="fault:uninitialised",
    ),
    Diagnosis(
        "finish_tile stores what stands in tXrX, and the stage is read into it later: read first.",
        AHEAD,
        source=stands_before("finish_tile", "cute.autovec_copy"),
        error="check:values",
    ),
    Diagnosis(
        "Everything is NaN, so tXrX was stored without anything in it: the stage has to be read, "
        "cute.autovec_copy(tXsX[None, None, None, stage], tXrX).",
        AHEAD,
        patterns=frozenset({"nan_everywhere"}),
        error="check:values",
    ),
    Diagnosis(
        "Right with one block, wrong with several: the tile that is STAGES - 1 rounds ahead lies "
        "(STAGES - 1) * grid tiles further.",
        AHEAD,
        stage="run",
        passing=frozenset({"many_rounds"}),
        error="check:values",
    ),
    Diagnosis(
        "Tiles were computed from other tiles' values: what is started now is read STAGES - 1 "
        "rounds later, so it is the tile (STAGES - 1) * grid ahead.",
        AHEAD,
        stage="run",
        error="check:values",
    ),
)


WAITS = "        cute.arch.cp_async_wait_group(STAGES - 2)"
COMMITS = "    cute.arch.cp_async_commit_group()\n"
COPIES = "    cute.copy(tiled_copy, tXgX, tXsX, pred=tXpX)\n"
READS = "        cute.autovec_copy(tXsX[None, None, None, stage], tXrX)\n"
FINISHES = "        finish_tile(tiled_copy, store, tXrX, mO, tile)\n"
PROLOGUE = (
    "    for stage in cutlass.range_constexpr(STAGES - 1):\n"
    "        start_copy(tiled_copy, mX, tXsX[None, None, None, stage], bidx + stage * grid)\n"
)
STARTS = (
    "        start_copy(tiled_copy, mX, tXsX[None, None, None, free], tile + (STAGES - 1) * grid)\n"
)

MISTAKES: tuple[Mistake, ...] = (
    Mistake("no_wait", "run", "No round waits for its tile", replace=((WAITS, "        #"),)),
    Mistake(
        "waits_for_one_too_few",
        "run",
        "leaves one group too many in flight",
        replace=((WAITS, WAITS.replace("- 2", "- 1")),),
    ),
    Mistake("no_commit", "run", "The copies are never committed", replace=((COMMITS, ""),)),
    Mistake(
        "commit_before_copy",
        "run",
        "The group is closed before its copies are started",
        replace=((COPIES, ""), (COMMITS, COMMITS + COPIES)),
    ),
    Mistake(
        "reads_before_wait",
        "run",
        "The stage is read before the wait",
        replace=((READS, ""), (WAITS, READS + WAITS)),
    ),
    Mistake(
        "short_prologue",
        "run",
        "start STAGES - 1 tiles before the loop",
        replace=(("range_constexpr(STAGES - 1):", "range_constexpr(STAGES - 2):"),),
    ),
    Mistake(
        "no_prologue",
        "run",
        "Nothing is started before the loop",
        replace=((PROLOGUE, ""),),
    ),
    Mistake(
        "stage_before_by_subtraction",
        "run",
        "The stage has a negative number",
        replace=(("(stage + STAGES - 1) % STAGES", "(stage - 1) % STAGES"),),
    ),
    Mistake(
        "stages_modulo_another_number",
        "run",
        "What is read is still under way",
        replace=(("stage = (stage + 1) % STAGES", "stage = (stage + 1) % (STAGES - 1)"),),
    ),
    Mistake(
        "starts_in_the_next_stage",
        "run",
        "Two copies go into one stage",
        replace=(("free = (stage + STAGES - 1) % STAGES", "free = (stage + 1) % STAGES"),),
    ),
    Mistake("never_reads", "run", "stored without anything in it", replace=((READS, ""),)),
    Mistake(
        "finishes_before_reading",
        "run",
        "the stage is read into it later",
        replace=((READS, ""), (FINISHES, FINISHES + READS)),
    ),
    Mistake(
        "waits_for_a_dynamic_number",
        "compile",
        "a number known while tracing",
        replace=((WAITS, WAITS.replace("STAGES - 2", "STAGES - 2 - stage")),),
    ),
    Mistake(
        "no_empty_groups",
        "run",
        "the last waits count too few groups",
        replace=((STARTS, f"        if tile + (STAGES - 1) * grid < tiles:\n    {STARTS}"),),
    ),
    Mistake(
        "reads_stage_0",
        "run",
        "Always the same stage is read",
        replace=((READS, READS.replace(", stage]", ", 0]")),),
    ),
    Mistake(
        "no_last_wait",
        "run",
        "The kernel ends while copies are on their way",
        replace=(("    cute.arch.cp_async_wait_group(0)", "    #"),),
    ),
    Mistake(
        "no_predicate",
        "run",
        "Vectors past the end were read",
        replace=((COPIES, COPIES.replace(", pred=tXpX", "")),),
    ),
    Mistake(
        "stage_stands_still",
        "run",
        "Two copies go into one stage",
        replace=(("        stage = (stage + 1) % STAGES\n", ""),),
    ),
    Mistake(
        "refills_the_stage_it_read",
        "run",
        "A stage is read that no copy has filled",
        replace=(("free = (stage + STAGES - 1) % STAGES", "free = stage"),),
    ),
    Mistake(
        "next_tile_is_the_neighbour",
        "run",
        "Right with one block, wrong with several",
        replace=(("tile + (STAGES - 1) * grid", "tile + STAGES - 1"),),
    ),
    Mistake(
        "next_tile_is_a_round_late",
        "run",
        "it is the tile (STAGES - 1) * grid ahead",
        replace=(("tile + (STAGES - 1) * grid", "tile + STAGES * grid"),),
    ),
    Mistake(
        "every_block_all_tiles",
        "run",
        "a block's next tile lies `grid` tiles further",
        replace=(("range(bidx, tiles, grid)", "range(bidx, tiles)"),),
    ),
    Mistake(
        "copies_through_registers",
        "codegen",
        "the thread waits",
        replace=(("cpasync.CopyG2SOp()", "cute.nvgpu.CopyUniversalOp()"),),
    ),
    Mistake(
        "four_bytes_a_copy",
        "compile",
        "A predicate stands for 16 bytes",
        replace=(
            (
                "cpasync.CopyG2SOp(), mX.element_type, num_bits_per_copy=VECTOR_BITS",
                "cpasync.CopyG2SOp(), mX.element_type, num_bits_per_copy=32",
            ),
        ),
    ),
    Mistake(
        "pytorch",
        "source",
        "PyTorch computes silu here",
        answer="def pipelined_silu(x, blocks=None):\n    return torch.nn.functional.silu(x)\n",
    ),
)
