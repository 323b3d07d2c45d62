"""The producer's ring in ch05: hints, the probable mistakes, and wrong answers to prove them."""

from __future__ import annotations

import ast

from checkers.chapters.parts.ch05_bulk import NO_FENCE, NOT_INITIALISED, NOT_MET
from checkers.chapters.parts.ch05_common import (
    ANY_KERNEL,
    argument_mentions,
    flips_every_tile,
    init_counts,
    keyword_mentions,
    loop_without_step,
    stands_before,
    within,
)
from checkers.exercise import Diagnosis, Mistake
from checkers.grading import syntax

HINTS = (
    "Each stage has two barriers. Who arrives at `full`, who at `empty`, and how often in a phase? "
    "Which of the two must let the producer pass before anybody has arrived?",
    "Producer: wait for empty (first parity 1), one lane arrives at full and says the bytes, the "
    "warp starts the TMA copy that signals full. Consumer: wait for full (first parity 0), read into "
    "registers, let the warp meet, one lane arrives at empty, then compute. Both call next_stage.",
    "cute.arch.mbarrier_init(full + stage, 1); "
    "cute.arch.mbarrier_init(empty + stage, CONSUMER_WARPS); "
    "cute.copy(load, gX_tile, tTsX[None, stage], tma_bar_ptr=full + stage); "
    "cute.arch.sync_warp(); with cute.arch.elect_one(): cute.arch.mbarrier_arrive(empty + stage)",
)

INIT, WAIT = "cute.arch.mbarrier_init", "cute.arch.mbarrier_wait"
EXPECT, ARRIVE = "cute.arch.mbarrier_arrive_and_expect_tx", "cute.arch.mbarrier_arrive"
ROLES, TWO_BARRIERS = "Producer and consumers", "Full and empty"
PARITY, GIVE_BACK = "Who may start", "Giving a stage back"
EARLY, TX, STUCK = "fault:read_before_wait", "fault:expect_tx", "fault:deadlock"
MISUSED, PHASE = "fault:mbarrier", "fault:phase"

DIAGNOSES: tuple[Diagnosis, ...] = (
    *ANY_KERNEL,
    Diagnosis(
        "cute.copy of a TMA atom chooses a lane by itself, and for that needs the whole warp: take it "
        "out of elect_one. A GPU hangs here, or does nothing.",
        ROLES,
        error="fault:collective",
    ),
    NOT_INITIALISED,
    NOT_MET,
    NO_FENCE,
    Diagnosis(
        "The tiles don't come by TMA: copy with the atom `load`, from tTgX to tTsX.",
        ROLES,
        error="rule:tma",
    ),
    Diagnosis(
        "A loop goes from tile to tile: producer and consumers have to walk over the same tiles, and "
        "a block's next one lies `grid` tiles further.",
        ROLES,
        stage="run",
        source=loop_without_step,
    ),
    Diagnosis(
        "All 32 lanes of the producer arrive at `full`, which takes one arrival: put "
        "mbarrier_arrive_and_expect_tx under elect_one.",
        TWO_BARRIERS,
        source=syntax.all_of(syntax.has_call(EXPECT), syntax.negated(within(EXPECT, ast.With))),
        error=MISUSED,
    ),
    Diagnosis(
        "All 32 lanes of a consumer give the stage back, and `empty` counts one a warp: put "
        "mbarrier_arrive under elect_one.",
        GIVE_BACK,
        source=syntax.all_of(syntax.has_call(ARRIVE), syntax.negated(within(ARRIVE, ast.With))),
        error=MISUSED,
    ),
    Diagnosis(
        "The producer doesn't wait until the stage is empty: it fills it again while consumers still "
        "read.",
        TWO_BARRIERS,
        source=syntax.negated(argument_mentions(WAIT, 0, "empty")),
        error="fault:",
    ),
    Diagnosis(
        "The copy signals `empty`: who reads waits for `full`, so tma_bar_ptr is full + stage.",
        TWO_BARRIERS,
        source=keyword_mentions("cute.copy", "tma_bar_ptr", "empty"),
        error=TX,
    ),
    Diagnosis(
        "Nobody told `full` how many bytes come: it is over as soon as the producer arrives. "
        "mbarrier_arrive_and_expect_tx says both.",
        TWO_BARRIERS,
        source=syntax.no_call(EXPECT),
        error=TX,
    ),
    Diagnosis(
        "The bytes promised are not those of the copy: it brings a whole tile, RING_ROWS * "
        "RING_ROW_BYTES, also where the tile hangs over the edge.",
        TWO_BARRIERS,
        error=TX,
    ),
    Diagnosis(
        "The consumers don't wait until the stage is full: they read while the copy is under way.",
        TWO_BARRIERS,
        source=syntax.negated(argument_mentions(WAIT, 0, "full")),
        error=EARLY,
    ),
    Diagnosis(
        "The consumers wait for `empty`, which is theirs to signal: they wait for `full`.",
        TWO_BARRIERS,
        source=syntax.negated(argument_mentions(WAIT, 0, "full")),
        error=STUCK,
    ),
    Diagnosis(
        "`full` waits for more arrivals than come: one lane of the producer arrives, so its count is "
        "1; the bytes are counted apart.",
        TWO_BARRIERS,
        source=init_counts("full", "1"),
        error=STUCK,
    ),
    Diagnosis(
        "`empty` takes another number of arrivals than come: one lane of each consumer warp arrives, "
        "so its count is CONSUMER_WARPS.",
        GIVE_BACK,
        source=init_counts("empty", "CONSUMER_WARPS"),
        error="fault:",
    ),
    Diagnosis(
        "No stage is ever given back: after reading, each consumer warp arrives at `empty`.",
        GIVE_BACK,
        source=syntax.negated(argument_mentions(ARRIVE, 0, "empty")),
        error=STUCK,
    ),
    Diagnosis(
        "The phase flips after every tile, and the other stages are still in the round before: all "
        "stages share one. stage, phase = next_stage(stage, phase) flips it once a round.",
        PARITY,
        source=flips_every_tile,
        error="fault:",
    ),
    Diagnosis(
        "The consumers wait for the wrong phase: they never leave their stage, or never flip their "
        "phase. stage, phase = next_stage(stage, phase) after each tile does both, on both sides.",
        PARITY,
        error=PHASE,
    ),
    Diagnosis(
        "The producer waits for a phase that only consumers can end, and they wait for the producer: "
        "at first all stages are empty, so its first parity is 1.",
        PARITY,
        error=STUCK,
    ),
    Diagnosis(
        "The consumers read another stage than the one that they waited for: the tile is in "
        "tXsX[None, None, None, stage].",
        TWO_BARRIERS,
        source=syntax.negated(argument_mentions("cute.autovec_copy", 0, "stage")),
        error=EARLY,
    ),
    Diagnosis(
        "The stage is given back before it is read: the producer may fill it again at once.",
        GIVE_BACK,
        source=stands_before(ARRIVE, "cute.autovec_copy"),
        error=EARLY,
    ),
    Diagnosis(
        "The consumers wait for a phase that counts as over before it began: their first parity is "
        "0, and it flips once a round, when the stage goes back to 0.",
        PARITY,
        error=EARLY,
    ),
    Diagnosis(
        "One lane gives the stage back while others of its warp still read: let the warp meet first, "
        "cute.arch.sync_warp().",
        GIVE_BACK,
        source=syntax.no_call("cute.arch.sync_warp"),
        error="check:race",
    ),
    Diagnosis(
        "The values belong to other tiles: tile number `tile` lies in row tile // column_tiles and "
        "column tile % column_tiles of the tiles, for the producer and for the consumers.",
        ROLES,
        stage="run",
        error="check:values",
    ),
)

FENCES = "    cute.arch.mbarrier_init_fence()\n"
MEETS = FENCES + "    cute.arch.barrier()\n"
EMPTY_WAITS = "            cute.arch.mbarrier_wait(empty + stage, phase)\n"
FULL_WAITS = "            cute.arch.mbarrier_wait(full + stage, phase)\n"
BYTES = "RING_ROWS * RING_ROW_BYTES"
EXPECTS = f"                cute.arch.mbarrier_arrive_and_expect_tx(full + stage, {BYTES})\n"
ELECTS = "            with cute.arch.elect_one():\n"
COPIES = "            cute.copy(load, gX_tile, tTsX[None, stage], tma_bar_ptr=full + stage)\n"
READS = "            cute.autovec_copy(tXsX[None, None, None, stage], tXrX)\n"
MEETS_WARP = "            cute.arch.sync_warp()  # all 32 lanes have read\n"
ARRIVES = "                cute.arch.mbarrier_arrive(empty + stage)\n"
STORES = "            store_silu(tXrX, tiled_copy, mO, tiler, where)\n"
NEXT = "            stage, phase = next_stage(stage, phase)\n"
CONSUMERS = "mbarrier_init(empty + stage, CONSUMER_WARPS)"
FILLS_FROM = "        for tile in range(bidx, row_tiles * column_tiles, grid):\n" + EMPTY_WAITS
START = "stage, phase = cutlass.Int32(0), "

MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        "empty_counts_threads",
        "run",
        "its count is CONSUMER_WARPS",
        replace=((CONSUMERS, CONSUMERS.replace("CONSUMER_WARPS", "THREADS")),),
    ),
    Mistake(
        "empty_counts_one",
        "run",
        "its count is CONSUMER_WARPS",
        replace=((CONSUMERS, CONSUMERS.replace("CONSUMER_WARPS", "1")),),
    ),
    Mistake(
        "full_counts_a_warp",
        "run",
        "one lane of the producer arrives, so its count is 1",
        replace=(("mbarrier_init(full + stage, 1)", "mbarrier_init(full + stage, 32)"),),
    ),
    Mistake("no_barrier_after_init", "run", "the block has to meet", replace=((MEETS, FENCES),)),
    Mistake(
        "no_init_fence", "codegen", "mbarrier_init_fence() is missing", replace=((FENCES, ""),)
    ),
    Mistake(
        "producer_starts_with_0",
        "run",
        "its first parity is 1",
        replace=((f"{START}cutlass.Int32(1)", f"{START}cutlass.Int32(0)"),),
    ),
    Mistake(
        "consumer_starts_with_1",
        "run",
        "their first parity is 0",
        replace=((f"{START}cutlass.Int32(0)", f"{START}cutlass.Int32(1)"),),
    ),
    Mistake(
        "no_wait_for_empty",
        "run",
        "doesn't wait until the stage is empty",
        replace=((EMPTY_WAITS, ""),),
    ),
    Mistake(
        "no_wait_for_full",
        "run",
        "don't wait until the stage is full",
        replace=((FULL_WAITS, ""),),
    ),
    Mistake(
        "waits_for_empty_to_read",
        "run",
        "which is theirs to signal",
        replace=((FULL_WAITS, FULL_WAITS.replace("full", "empty")),),
    ),
    Mistake(
        "never_gives_back",
        "run",
        "No stage is ever given back",
        replace=((MEETS_WARP + ELECTS + ARRIVES, ""),),
    ),
    Mistake(
        "gives_back_before_reading",
        "run",
        "given back before it is read",
        replace=((READS, ""), (ARRIVES, ARRIVES + READS)),
    ),
    Mistake(
        "every_lane_gives_back",
        "run",
        "`empty` counts one a warp",
        replace=((ELECTS + ARRIVES, ARRIVES[4:]),),
    ),
    Mistake("no_sync_warp", "run", "let the warp meet first", replace=((MEETS_WARP, ""),)),
    Mistake(
        "no_expect",
        "run",
        "Nobody told `full` how many bytes come",
        replace=((EXPECTS, "                cute.arch.mbarrier_arrive(full + stage)\n"),),
    ),
    Mistake(
        "expects_a_row",
        "run",
        "it brings a whole tile",
        replace=((EXPECTS, EXPECTS.replace("RING_ROWS * ", "")),),
    ),
    Mistake(
        "expects_elements",
        "run",
        "it brings a whole tile",
        replace=((EXPECTS, EXPECTS.replace(BYTES, "tiler[0] * tiler[1]")),),
    ),
    Mistake(
        "every_lane_expects",
        "run",
        "All 32 lanes of the producer arrive",
        replace=((ELECTS + EXPECTS, EXPECTS[4:]),),
    ),
    Mistake(
        "reads_stage_0",
        "run",
        "read another stage than the one",
        replace=((READS, READS.replace(", stage]", ", 0]")),),
    ),
    Mistake(
        "producer_takes_every_tile",
        "run",
        "have to walk over the same tiles",
        replace=((FILLS_FROM, FILLS_FROM.replace(", grid)", ")")),),
    ),
    Mistake(
        "rows_and_columns_swapped",
        "run",
        "The values belong to other tiles",
        replace=(
            (
                "tTgX[None, tile // column_tiles, tile % column_tiles]",
                "tTgX[None, tile // row_tiles, tile % row_tiles]",
            ),
        ),
    ),
    Mistake(
        "copy_inside_elect_one",
        "run",
        "take it out of elect_one",
        replace=((COPIES, f"{ELECTS}    {COPIES}"),),
    ),
    Mistake(
        "signals_empty",
        "run",
        "tma_bar_ptr is full + stage",
        replace=((COPIES, COPIES.replace("tma_bar_ptr=full", "tma_bar_ptr=empty")),),
    ),
    Mistake(
        "consumers_stay_in_their_stage",
        "run",
        "never leave their stage",
        replace=((STORES + NEXT, STORES),),
    ),
    Mistake(
        "phase_stands_still",
        "run",
        "never flip their phase",
        replace=((STORES + NEXT, STORES + NEXT.replace("stage, phase =", "stage, _ =")),),
    ),
    Mistake(
        "phase_flips_every_tile",
        "run",
        "The phase flips after every tile",
        replace=(
            (
                STORES + NEXT,
                STORES + NEXT.replace("stage, phase =", "stage, _ =") + "            phase ^= 1\n",
            ),
        ),
    ),
    Mistake(
        "pytorch",
        "source",
        "PyTorch computes silu here",
        answer="def ring_silu(x, blocks=None):\n    return torch.nn.functional.silu(x)\n",
    ),
)
