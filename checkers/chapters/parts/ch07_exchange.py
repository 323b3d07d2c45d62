"""Probable mistakes in an exchange between the blocks of a cluster, most telling first."""

from __future__ import annotations

import ast
from dataclasses import replace

from checkers.chapters.parts.ch07_syntax import (
    argument_is_not,
    guarded,
    several,
    unguarded,
)
from checkers.exercise import Diagnosis
from checkers.grading import syntax
from checkers.grading.syntax_calls import argument_is, stands_before

COMBINE = "Two numbers for a part of a row"
CLUSTER = "A cluster, and its blocks' shared memory"
BYTES = "An mbarrier that counts bytes"
FIRST = "Before the first remote store"
LAST = "Why one barrier is enough"

ARRIVE, WAIT = "cute.arch.cluster_arrive_relaxed", "cute.arch.cluster_wait"
INIT, FENCE = "cute.arch.mbarrier_init", "cute.arch.mbarrier_init_fence"
EXPECT, ARRIVED = "cute.arch.mbarrier_arrive_and_expect_tx", "cute.arch.mbarrier_wait"
SEND = "send_pair"


# --- of both exercises ---------------------------------------------------------------------------

LIBRARY = Diagnosis(
    "PyTorch computes here what the kernel should: allocate with torch.empty, run the kernel, "
    "return the output.",
    BYTES,
    stage="source",
    error="check:forbidden",
)
NO_KERNEL = Diagnosis(
    "No kernel was launched, so nothing was computed: run(kernel, tile, ...) fills the output.",
    BYTES,
    error="check:no_kernel",
)
NO_BARRIER = Diagnosis(
    "The first pair may reach a peer that has not initialised its mbarrier, or has not even "
    "started: cluster_arrive_relaxed after the initialisation, cluster_wait before the first "
    "send.",
    FIRST,
    error="fault:cluster",
    source=syntax.all_of(syntax.no_call(ARRIVE), syntax.no_call(WAIT)),
)
NO_WAIT = Diagnosis(
    "The blocks say that they are ready, and nobody listens: cluster_wait is missing before the "
    "first send, so a pair may reach a peer whose mbarrier is not initialised.",
    FIRST,
    error="fault:cluster",
    source=syntax.no_call(WAIT),
)
NO_ARRIVE = Diagnosis(
    "The blocks wait for each other, and none says that it is ready: cluster_arrive_relaxed is "
    "missing after the initialisation.",
    FIRST,
    error="fault:cluster",
    source=syntax.no_call(ARRIVE),
)
LATE_WAIT = Diagnosis(
    "cluster_wait comes after the send: it must stand before it, for only then are the peers' "
    "mbarriers known to be initialised.",
    FIRST,
    error="fault:cluster",
    source=stands_before(SEND, WAIT),
)
SOME_WAIT = Diagnosis(
    "Only some threads wait for the cluster, and others send: cluster_wait stands in no `if`, for "
    "every thread of every block executes it.",
    FIRST,
    stage="run",
    error="fault:",
    source=guarded(WAIT),
)
SOME_ARRIVE = Diagnosis(
    "Only some threads say that they are ready: cluster_arrive_relaxed stands in no `if`, for the "
    "cluster's barrier counts every thread of every block.",
    FIRST,
    stage="run",
    error="fault:",
    source=guarded(ARRIVE),
)
TWICE = Diagnosis(
    "Each thread arrives once and waits once at the cluster's barrier, in this order: here one of "
    "the two stands there again.",
    FIRST,
    error="fault:cluster",
    source=syntax.any_of(several(ARRIVE), several(WAIT)),
)
NO_INIT = Diagnosis(
    "Nobody initialises the mbarrier: one thread of each block must, before any other touches it.",
    FIRST,
    stage="run",
    error="fault:",
    source=syntax.no_call(INIT),
)
NO_FENCE = Diagnosis(
    "The mbarrier is initialised and no fence follows: without mbarrier_init_fence the peers need "
    "not see the initialisation, cluster barrier or not.",
    FIRST,
    stage="run",
    error="fault:mbarrier",
    source=syntax.any_of(syntax.no_call(FENCE), stands_before(FENCE, INIT)),
)
EARLY_ARRIVE = Diagnosis(
    "The block says that it is ready before its mbarrier is initialised: first mbarrier_init, then "
    "the fence, then cluster_arrive_relaxed.",
    FIRST,
    stage="run",
    error="fault:mbarrier",
    source=stands_before(ARRIVE, INIT),
)
ALL_INITIALISE = Diagnosis(
    "Every thread initialises the mbarrier, some of them when it is already in use: let one thread "
    "do it.",
    FIRST,
    stage="run",
    error="fault:mbarrier",
    source=unguarded(INIT, ast.If),
)
ALL_EXPECT = Diagnosis(
    "Several threads arrive and expect: the mbarrier was initialised for one arrival, and each "
    "arrival promises all the bytes anew. One thread of the block does it: warp 0, elect_one.",
    BYTES,
    stage="run",
    error="fault:",
    source=syntax.all_of(
        syntax.any_of(unguarded(EXPECT, ast.If), unguarded(EXPECT, ast.With)),
        argument_is(INIT, 1, "1"),
    ),
)
EARLY_EXPECT = Diagnosis(
    "A warp arrives at the mbarrier before the initialisation is known to it: let the warp arrive "
    "that initialised, or arrive after cluster_wait.",
    FIRST,
    stage="run",
    error="fault:mbarrier",
    source=syntax.all_of(stands_before(EXPECT, WAIT), argument_is_not(INIT, 1, "1")),
)
LATE_EXPECT = Diagnosis(
    "mbarrier_arrive_and_expect_tx comes after the wait that it is for: the phase can't end before "
    "this arrival, so no thread gets there.",
    BYTES,
    stage="run",
    error="fault:",
    source=stands_before(ARRIVED, EXPECT),
)
WRONG_COUNT = Diagnosis(
    "The mbarrier waits for arrivals that nobody makes: it is initialised for as many as there are "
    "arrive instructions, and here one thread arrives. Bytes are no arrivals.",
    BYTES,
    stage="run",
    error="fault:deadlock",
    source=argument_is_not(INIT, 1, "1"),
)
NO_EXPECT = Diagnosis(
    "The mbarrier is never told how many bytes to expect, so its phase can end before the pairs "
    "are there: mbarrier_arrive_and_expect_tx, by one thread.",
    BYTES,
    stage="run",
    error="fault:",
    source=syntax.no_call(EXPECT),
)
NO_SEND = Diagnosis(
    "Nothing is sent: a block writes its pairs into its own slots, and its peers wait for theirs. "
    "send_pair stores into the peer's, and counts the bytes there.",
    BYTES,
    stage="run",
    error="fault:",
    source=syntax.no_call(SEND),
)
NOT_WAITED = Diagnosis(
    "The slots are read before the pairs are known to be there: mbarrier_wait comes first.",
    BYTES,
    stage="run",
    error="fault:read_before_wait",
    source=syntax.no_call(ARRIVED),
)
SOME_READ = Diagnosis(
    "Only some threads wait for the pairs, and all read the slots: mbarrier_wait stands in no `if`, "
    "for a wait tells nothing to the threads that don't execute it.",
    BYTES,
    stage="run",
    error="fault:read_before_wait",
    source=guarded(ARRIVED),
)
WRONG_PHASE = Diagnosis(
    "mbarrier_wait(mbar, 1) asks whether the phase before the first has ended: a fresh mbarrier "
    "says yes at once, and the slots are read too early. The first phase has parity 0.",
    BYTES,
    stage="run",
    error="fault:",
    source=syntax.negated(argument_is(ARRIVED, 1, "0")),
)
SECOND_PHASE = Diagnosis(
    "A thread waits for a second phase of the mbarrier, and nobody sends again: one exchange is one "
    "phase, and one mbarrier_wait.",
    BYTES,
    stage="run",
    error="fault:deadlock",
    source=argument_is(ARRIVED, 1, "1"),
)
SENT_HOME = Diagnosis(
    "Every lane sends to its own block. The last argument of send_pair is the peer: lane p sends "
    "to peer p.",
    BYTES,
    stage="run",
    error="fault:",
    source=argument_is(SEND, 4, "rank", "cute.arch.block_idx_in_cluster()"),
)
WRONG_PEER = Diagnosis(
    "A lane sends to a peer that the cluster has not: a warp has 32 lanes, the cluster "
    "tile.blocks blocks. Guard the send with `if lane < tile.blocks`.",
    BYTES,
    stage="run",
    error="out_of_bounds",
    source=unguarded(SEND, ast.If),
)
BEYOND_SLOTS = Diagnosis(
    "A pair is sent beyond the last slot. There are tile.pairs of them, and a warp's is rank * "
    "tile.warps + warp, with the sender's rank.",
    BYTES,
    stage="run",
    error="out_of_bounds",
    source=syntax.has_call(SEND),
)
ALL_SEND = Diagnosis(
    "All lanes send the same pair into the same slot, and each time its bytes are counted. A warp "
    "sends once to each peer: lane p to peer p, or one lane to all.",
    BYTES,
    stage="run",
    error="check:race",
    source=syntax.all_of(unguarded(SEND, ast.If), unguarded(SEND, ast.With)),
)
EMPTY_SLOT = Diagnosis(
    "A slot is read into which nobody has sent: each warp's pair goes to every block of the "
    "cluster, its own included.",
    BYTES,
    stage="run",
    error="fault:uninitialised",
    source=syntax.has_call(SEND),
)
SAME_SLOT = Diagnosis(
    "Two pairs land in the same slot. A slot belongs to one warp of one block: rank * tile.warps + "
    "warp, and the rank is the sender's.",
    BYTES,
    stage="run",
    error="check:race",
)
SAME_SLOT_TOO = replace(SAME_SLOT, error="fault:overwritten_in_flight")
UNFINISHED = Diagnosis(
    "The bytes that arrive are not the bytes that were expected. Each block gets a pair from every "
    "warp of every block of the cluster, itself included: tile.pairs * PAIR_BYTES of them.",
    BYTES,
    stage="run",
    error="fault:expect_tx",
)
NOT_TO_ALL = Diagnosis(
    "Enough is expected and too little sent: each warp's pair goes to every block of the cluster, "
    "its own included. Lane p, for all p < tile.blocks, sends to peer p.",
    BYTES,
    stage="run",
    error="fault:expect_tx",
    source=argument_is(EXPECT, 1, "tile.pairs * PAIR_BYTES", "tile.rows * tile.pairs * PAIR_BYTES"),
)
STUCK = Diagnosis(
    "The block waits for ever: arrivals or bytes are missing on its mbarrier. One thread arrives "
    "and expects; every warp of every block sends.",
    BYTES,
    error="fault:deadlock",
)
SECOND_BARRIER = Diagnosis(
    "There is a second cluster barrier. It is not needed: no block writes into a peer after that "
    "peer's mbarrier has completed, and until then the peer waits.",
    LAST,
    error="rule:one_cluster_barrier",
)
EXCHANGE = (
    LIBRARY,
    NO_KERNEL,
    NO_BARRIER,
    NO_WAIT,
    NO_ARRIVE,
    SOME_WAIT,
    SOME_ARRIVE,
    LATE_WAIT,
    TWICE,
    NO_INIT,
    NO_FENCE,
    EARLY_ARRIVE,
    ALL_INITIALISE,
    NO_SEND,
    NO_EXPECT,
    LATE_EXPECT,
    ALL_EXPECT,
    EARLY_EXPECT,
    WRONG_COUNT,
    NOT_WAITED,
    SOME_READ,
    WRONG_PHASE,
    SECOND_PHASE,
    SENT_HOME,
    WRONG_PEER,
    BEYOND_SLOTS,
    ALL_SEND,
)
