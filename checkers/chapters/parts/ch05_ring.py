"""The producer's ring in ch05: hints and the probable mistakes."""

from __future__ import annotations

import ast

from checkers.chapters.parts.ch05_bulk import ALL_INITIALISE, NO_FENCE, NOT_INITIALISED, NOT_MET
from checkers.chapters.parts.ch05_common import (
    ANY_KERNEL,
    argument_mentions,
    constant_index,
    first_phases,
    flips_every_tile,
    init_counts,
    keyword_is,
    keyword_mentions,
    loop_without_step,
    within,
)
from checkers.exercise import Diagnosis
from checkers.grading import syntax
from checkers.grading.syntax_calls import stands_before

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
    ALL_INITIALISE,
    NOT_MET,
    Diagnosis(
        "Only the barriers of one stage are initialised: every stage has a full and an empty of its "
        "own, full + stage and empty + stage.",
        TWO_BARRIERS,
        source=syntax.negated(within(INIT, ast.For)),
        error=MISUSED,
    ),
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
        "The bytes are announced at `empty`: they arrive at full + stage, so they are expected there.",
        TWO_BARRIERS,
        source=argument_mentions(EXPECT, 0, "empty"),
        error=TX,
    ),
    Diagnosis(
        "Every copy signals the barrier of stage 0: tma_bar_ptr is full + stage.",
        TWO_BARRIERS,
        source=keyword_is("cute.copy", "tma_bar_ptr", "full"),
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
        "All tiles are copied into one stage: this one belongs into tTsX[None, stage].",
        TWO_BARRIERS,
        source=constant_index("cute.copy", 2),
        error=EARLY,
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
        "The wrong phase is waited for, by the side whose line this is: they never leave their stage, "
        "or never flip their phase. stage, phase = next_stage(stage, phase) after each tile does "
        "both, on both sides.",
        PARITY,
        error=PHASE,
    ),
    Diagnosis(
        "cute.arch.barrier() waits for all threads of the block, and the other role never comes "
        "there: among the lanes of one warp it is sync_warp().",
        GIVE_BACK,
        source=within("cute.arch.barrier", ast.If),
        error=STUCK,
    ),
    Diagnosis(
        "The bytes are expected, and nobody arrives at `full`: mbarrier_arrive_and_expect_tx does "
        "both.",
        TWO_BARRIERS,
        source=syntax.all_of(
            syntax.no_call(EXPECT), syntax.negated(argument_mentions(ARRIVE, 0, "full"))
        ),
        error=STUCK,
    ),
    Diagnosis(
        "The producer waits for a phase that only consumers can end, and they wait for the producer: "
        "at first all stages are empty, so its first parity is 1.",
        PARITY,
        source=first_phases("0", "0"),
        error=STUCK,
    ),
    Diagnosis(
        "Each side waits for the other, so an arrival is missing: for each tile one lane of the "
        "producer arrives at `full`, with the bytes, and one lane of each consumer warp at `empty`; "
        "and both walk over the same tiles.",
        TWO_BARRIERS,
        error=STUCK,
    ),
    Diagnosis(
        "The consumers go on before the first tile has come: their first parity is 0, the producer's "
        "is 1.",
        PARITY,
        source=first_phases("0", "1"),
        error="fault:uninitialised",
    ),
    Diagnosis(
        "A stage is filled that no consumer waits for: both sides walk over the same tiles.",
        ROLES,
        error="fault:exit_in_flight",
    ),
    Diagnosis(
        "The consumers read another stage than the one that they waited for: the tile is in "
        "tXsX[None, None, None, stage].",
        TWO_BARRIERS,
        source=constant_index("cute.autovec_copy", 0),
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
        source=syntax.any_of(
            syntax.no_call("cute.arch.sync_warp"), stands_before(ARRIVE, "cute.arch.sync_warp")
        ),
        error="check:race",
    ),
    Diagnosis(
        "Nothing is stored: store_silu computes silu of what was read, and stores it.",
        GIVE_BACK,
        source=syntax.no_call("store_silu"),
        error="check:values",
    ),
    Diagnosis(
        "Everything is NaN, so tXrX was stored without anything in it: the stage has to be read, "
        "cute.autovec_copy(tXsX[None, None, None, stage], tXrX).",
        GIVE_BACK,
        patterns=frozenset({"nan_everywhere"}),
        error="check:values",
    ),
    Diagnosis(
        "The values belong to other tiles: tile number `tile` lies in row tile // column_tiles and "
        "column tile % column_tiles of the tiles, for the producer and for the consumers.",
        ROLES,
        stage="run",
        error="check:values",
    ),
)
