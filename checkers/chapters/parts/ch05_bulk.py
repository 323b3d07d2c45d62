"""The bulk copy in ch05: hints, the probable mistakes, and wrong answers to prove them."""

from __future__ import annotations

import ast

from checkers.chapters.parts.ch05_common import (
    ANY_KERNEL,
    assigned,
    counts_up,
    flipped_before,
    for_several_threads,
    init_counts,
    within,
)
from checkers.exercise import Diagnosis, Mistake
from checkers.grading import syntax
from checkers.grading.syntax_calls import stands_before

HINTS = (
    "Which threads arrive at the barrier in one phase, and how many bytes does the phase wait for? "
    "And when may the next copy overwrite what was read?",
    "One thread initialises the barrier with 1 arrival; a fence and a barrier of the block make that "
    "known. In each round one thread arrives, says how many bytes to expect, and starts the copy; all "
    "wait for the phase and read; all have read before the next round. The phase flips.",
    "cute.arch.mbarrier_arrive_and_expect_tx(mbar, BULK_BYTES); "
    "cute.copy(bulk, gX, sX, mbar_ptr=mbar); cute.arch.mbarrier_wait(mbar, phase); "
    "cute.autovec_copy(tXsX, tXrX); cute.arch.barrier(); phase ^= 1",
)

ARCH = "cute.arch"
INIT, WAIT = f"{ARCH}.mbarrier_init", f"{ARCH}.mbarrier_wait"
EXPECT = f"{ARCH}.mbarrier_arrive_and_expect_tx"
ONE_INSTRUCTION, WHO, PHASES = "One instruction a tile", "Who arrives", "Phases"
EARLY, TX, STUCK = "fault:read_before_wait", "fault:expect_tx", "fault:deadlock"

# Shared with the ring: what goes wrong between init and the first wait.
NOT_INITIALISED = Diagnosis(
    "A barrier is used that nobody has initialised: mbarrier_init, by one thread, with the number of "
    "arrivals of a phase.",
    WHO,
    source=syntax.no_call(INIT),
    error="fault:mbarrier",
)
ALL_INITIALISE = Diagnosis(
    "Every thread initialises the barrier, also when others use it already: one thread does, "
    "`if tidx == 0`.",
    WHO,
    source=syntax.all_of(syntax.has_call(INIT), syntax.negated(within(INIT, ast.If, ast.With))),
    error="fault:mbarrier",
)
NOT_MET = Diagnosis(
    "Some threads come to the barrier before it is initialised: after mbarrier_init_fence() the "
    "block has to meet, cute.arch.barrier().",
    WHO,
    source=syntax.all_of(
        syntax.has_call(WAIT), syntax.negated(stands_before("cute.arch.barrier", WAIT))
    ),
    error="fault:mbarrier",
)
NO_FENCE = Diagnosis(
    "The copy engine may not see the initialised barrier: mbarrier_init_fence() is missing between "
    "mbarrier_init and the barrier of the block. The simulator's order hides it; a GPU's may not.",
    WHO,
    error="rule:init_fence",
)

DIAGNOSES: tuple[Diagnosis, ...] = (
    *ANY_KERNEL,
    NOT_INITIALISED,
    ALL_INITIALISE,
    NOT_MET,
    NO_FENCE,
    Diagnosis(
        "The threads load the tile themselves: the copy is the engine's, "
        "cute.copy(bulk, gX, sX, mbar_ptr=mbar), and one thread asks for it.",
        ONE_INSTRUCTION,
        error="rule:bulk",
    ),
    Diagnosis(
        "Every thread arrives, expects the bytes and starts a copy of its own: one thread does, "
        "`if tidx == 0`.",
        WHO,
        source=syntax.all_of(
            syntax.has_call(EXPECT), syntax.negated(within(EXPECT, ast.If, ast.With))
        ),
        error="fault:",
    ),
    Diagnosis(
        "Only the thread that starts the copy arrives, so the count of mbarrier_init is 1.",
        WHO,
        source=init_counts("mbar", "1"),
        error="fault:mbarrier",
    ),
    Diagnosis(
        "The phase flips before the wait: the first copy's phase has parity 0. Flip after reading.",
        PHASES,
        source=flipped_before(WAIT),
        error=EARLY,
    ),
    Diagnosis(
        "More threads arrive than the barrier counts: one thread arrives in each round, the one that "
        "starts the copy. Waiting is no arrival, and needs none after it.",
        WHO,
        source=syntax.any_of(
            for_several_threads(EXPECT),
            syntax.all_of(syntax.has_call(EXPECT), syntax.has_call(f"{ARCH}.mbarrier_arrive")),
        ),
        error="fault:mbarrier",
    ),
    Diagnosis(
        "A parity is one bit, 0 or 1: phase ^= 1 flips it, phase += 1 counts on.",
        PHASES,
        source=counts_up("phase"),
        error="fault:phase",
    ),
    Diagnosis(
        "The phase doesn't flip: the wait is for a phase that is over long ago, and returns at once.",
        PHASES,
        error="fault:phase",
    ),
    Diagnosis(
        "Nobody waits for the copy: every thread that reads the tile waits on the barrier first.",
        PHASES,
        source=syntax.no_call(WAIT),
        error=EARLY,
    ),
    Diagnosis(
        "Only some threads wait, and the others read at once: a wait makes the tile visible to "
        "whoever waited.",
        PHASES,
        source=within(WAIT, ast.If, ast.With),
        error=EARLY,
    ),
    Diagnosis(
        "The tile is read before the wait.",
        PHASES,
        source=stands_before("cute.autovec_copy", WAIT),
        error=EARLY,
    ),
    Diagnosis(
        "The first wait is for parity 1, the phase before the first: it counts as over. The first "
        "copy's phase has parity 0.",
        PHASES,
        source=assigned("phase", "cutlass.Int32(1)", "1"),
        error=EARLY,
    ),
    Diagnosis(
        "Nobody told the barrier how many bytes come: the phase is over as soon as the thread "
        "arrives. mbarrier_arrive_and_expect_tx says both.",
        ONE_INSTRUCTION,
        source=syntax.no_call(EXPECT),
        error=TX,
    ),
    Diagnosis(
        "The bytes promised are not those of the copy: it brings BULK_BYTES, counted in bytes, not "
        "in elements.",
        ONE_INSTRUCTION,
        error=TX,
    ),
    Diagnosis(
        "The barrier waits for more arrivals than come: only the thread that starts the copy "
        "arrives, so its count is 1. The others wait, and waiting is no arrival.",
        WHO,
        source=init_counts("mbar", "1"),
        error=STUCK,
    ),
    Diagnosis(
        "The bytes came, and nobody arrived: expect_tx alone is no arrival. "
        "mbarrier_arrive_and_expect_tx is both.",
        WHO,
        source=syntax.no_call(EXPECT),
        error=STUCK,
    ),
    Diagnosis(
        "The wait stands above the copy: it waits for what nobody has asked for yet.",
        PHASES,
        source=stands_before(WAIT, EXPECT),
        error=STUCK,
    ),
    Diagnosis(
        "Not all threads come to cute.arch.barrier(), and it lets none go on before all have come: "
        "no `if` around it.",
        WHO,
        source=within(f"{ARCH}.barrier", ast.If),
        error=STUCK,
    ),
    Diagnosis(
        "All wait for a phase that nobody ends: in every round one thread arrives, with the bytes, "
        "and each thread waits once.",
        PHASES,
        error=STUCK,
    ),
    Diagnosis(
        "Everything is NaN, so what was stored never came from the tile: copy gX to sX, then read "
        "tXsX into tXrX.",
        ONE_INSTRUCTION,
        patterns=frozenset({"nan_everywhere"}),
        error="check:values",
    ),
    Diagnosis(
        "The next copy overwrites the tile while slower threads still read it: the block has to "
        "meet, cute.arch.barrier(), after reading.",
        PHASES,
        error="check:race",
    ),
)

FENCES = "    cute.arch.mbarrier_init_fence()\n"
MEETS = FENCES + "    cute.arch.barrier()\n"
EXPECTS = "            cute.arch.mbarrier_arrive_and_expect_tx(mbar, BULK_BYTES)\n"
COPIES = "            cute.copy(bulk, gX, sX, mbar_ptr=mbar)\n"
WAITS = "        cute.arch.mbarrier_wait(mbar, phase)\n"
READS = "        cute.autovec_copy(tXsX, tXrX)\n"
ALL_READ = "        cute.arch.barrier()  # all have read: the next copy may overwrite the tile\n"

MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        "no_init",
        "run",
        "that nobody has initialised",
        replace=(("        cute.arch.mbarrier_init(mbar, 1)", "        pass"),),
    ),
    Mistake(
        "no_init_fence",
        "codegen",
        "mbarrier_init_fence() is missing",
        replace=((FENCES, ""),),
    ),
    Mistake(
        "no_barrier_after_init",
        "run",
        "the block has to meet",
        replace=((MEETS, FENCES),),
    ),
    Mistake(
        "counts_all_threads",
        "run",
        "waits for more arrivals than come",
        replace=(("mbarrier_init(mbar, 1)", "mbarrier_init(mbar, THREADS)"),),
    ),
    Mistake(
        "all_threads_initialise",
        "run",
        "Every thread initialises the barrier",
        replace=(
            ("    if tidx == 0:\n        cute.arch.mbarrier_init(", "    cute.arch.mbarrier_init("),
        ),
    ),
    Mistake(
        "all_arrive_after_waiting",
        "run",
        "More threads arrive than the barrier counts",
        replace=((WAITS, WAITS + "        cute.arch.mbarrier_arrive(mbar)\n"),),
    ),
    Mistake(
        "a_warp_copies",
        "run",
        "More threads arrive than the barrier counts",
        replace=(("        if tidx == 0:\n" + EXPECTS, "        if tidx < 32:\n" + EXPECTS),),
    ),
    Mistake(
        "waits_before_copying",
        "run",
        "The wait stands above the copy",
        replace=(
            (WAITS, ""),
            ("        if tidx == 0:\n" + EXPECTS, WAITS + "        if tidx == 0:\n" + EXPECTS),
        ),
    ),
    Mistake(
        "one_thread_meets",
        "run",
        "no `if` around it",
        replace=((ALL_READ, "        if tidx == 0:\n            cute.arch.barrier()\n"),),
    ),
    Mistake(
        "copies_once",
        "run",
        "a phase that nobody ends",
        replace=(
            (
                "        if tidx == 0:\n" + EXPECTS,
                "        if tidx == 0 and tile == bidx:\n" + EXPECTS,
            ),
        ),
    ),
    Mistake(
        "phase_counts_up",
        "run",
        "phase += 1 counts on",
        replace=(("phase ^= 1", "phase += 1"),),
    ),
    Mistake(
        "flips_before_waiting",
        "run",
        "The phase flips before the wait",
        replace=(("        phase ^= 1\n", ""), (WAITS, "        phase ^= 1\n" + WAITS)),
    ),
    Mistake("never_reads", "run", "never came from the tile", replace=((READS, ""),)),
    Mistake(
        "no_expect",
        "run",
        "Nobody told the barrier how many bytes come",
        replace=((EXPECTS, "            cute.arch.mbarrier_arrive(mbar)\n"),),
    ),
    Mistake(
        "no_arrival",
        "run",
        "expect_tx alone is no arrival",
        replace=((EXPECTS, EXPECTS.replace("arrive_and_", "")),),
    ),
    Mistake(
        "expects_elements",
        "run",
        "not in elements",
        replace=((EXPECTS, EXPECTS.replace("BULK_BYTES", "mX.shape[1]")),),
    ),
    Mistake(
        "expects_twice_the_bytes",
        "run",
        "The bytes promised are not those of the copy",
        replace=((EXPECTS, EXPECTS.replace("BULK_BYTES", "2 * BULK_BYTES")),),
    ),
    Mistake("no_wait", "run", "Nobody waits for the copy", replace=((WAITS, ""),)),
    Mistake(
        "reads_before_wait",
        "run",
        "The tile is read before the wait",
        replace=((READS, ""), (WAITS, READS + WAITS)),
    ),
    Mistake(
        "one_thread_waits",
        "run",
        "Only some threads wait",
        replace=((WAITS, "        if tidx == 0:\n    " + WAITS),),
    ),
    Mistake(
        "phase_stands_still",
        "run",
        "The phase doesn't flip",
        replace=(("        phase ^= 1\n", ""),),
    ),
    Mistake(
        "first_phase_is_1",
        "run",
        "The first copy's phase has parity 0",
        replace=(("phase = cutlass.Int32(0)", "phase = cutlass.Int32(1)"),),
    ),
    Mistake(
        "refills_at_once",
        "run",
        "while slower threads still read it",
        replace=((ALL_READ, ""),),
    ),
    Mistake(
        "all_threads_copy",
        "run",
        "one thread does, `if tidx == 0`",
        replace=(("        if tidx == 0:\n" + EXPECTS + COPIES, EXPECTS[4:] + COPIES[4:]),),
    ),
    Mistake(
        "plain_loads",
        "codegen",
        "The threads load the tile themselves",
        replace=(
            (COPIES, ""),
            (EXPECTS, "            cute.arch.mbarrier_arrive(mbar)\n"),
            (READS, READS.replace("tXsX", "cute.composition(gX, tv_layout)[(tidx, (None, None))]")),
        ),
    ),
    Mistake(
        "pytorch",
        "source",
        "PyTorch computes silu here",
        answer="def bulk_silu(x, blocks=None):\n    return torch.nn.functional.silu(x)\n",
    ),
)
