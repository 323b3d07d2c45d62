"""What wrong exchanges have in common: the probable mistakes of chapter 7, most telling first."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from checkers.exercise import Diagnosis
from checkers.grading import syntax

COMBINE = "Two numbers for a part of a row"
CLUSTER = "A cluster, and its blocks' shared memory"
BYTES = "An mbarrier that counts bytes"
FIRST = "Before the first remote store"
LAST = "Why one barrier is enough"
SOFTMAX_ANY = "Softmax, any row"
SPECIAL = "Infinity and NaN"

ARRIVE, WAIT = "cute.arch.cluster_arrive_relaxed", "cute.arch.cluster_wait"
INIT, FENCE = "cute.arch.mbarrier_init", "cute.arch.mbarrier_init_fence"
EXPECT, ARRIVED = "cute.arch.mbarrier_arrive_and_expect_tx", "cute.arch.mbarrier_wait"


# --- what the source tells -----------------------------------------------------------------------


def unguarded(name: str, guard: type[ast.stmt]) -> Callable[[ast.Module], bool]:
    """Whether a call of ``name`` stands outside of every statement of the kind ``guard``, an `if`
    about threads (one that asks const_expr is about the tile)."""

    def found(tree: ast.Module) -> bool:
        inside = {
            id(call)
            for statement in ast.walk(tree)
            if isinstance(statement, guard) and "const_expr" not in ast.unparse(head(statement))
            for call in syntax.calls(statement, name)
        }
        return any(id(call) not in inside for call in syntax.calls(tree, name))

    return found


def head(statement: ast.stmt) -> ast.AST:
    """What an `if` or a `with` asks for, without its body."""
    return statement.test if isinstance(statement, ast.If) else statement.items[0]


def words_of(name: str, position: int) -> Callable[[ast.Module], list[str]]:
    """The text of an argument in each call of ``name``."""
    return lambda tree: [
        ast.unparse(call.args[position])
        for call in syntax.calls(tree, name)
        if len(call.args) > position
    ]


def argument_is(name: str, position: int, *texts: str) -> Callable[[ast.Module], bool]:
    """Whether some call of ``name`` has one of these texts there."""
    return lambda tree: any(words in texts for words in words_of(name, position)(tree))


def argument_is_not(name: str, position: int, *texts: str) -> Callable[[ast.Module], bool]:
    """Whether some call of ``name`` has another text there."""
    return lambda tree: any(words not in texts for words in words_of(name, position)(tree))


def comes_before(first: str, second: str) -> Callable[[ast.Module], bool]:
    """Whether some call of ``first`` stands above every call of ``second``."""

    def found(tree: ast.Module) -> bool:
        above, below = syntax.calls(tree, first), syntax.calls(tree, second)
        return bool(above and below) and min(c.lineno for c in above) < min(c.lineno for c in below)

    return found


def scales_by_the_row(tree: ast.Module) -> bool:
    """Whether some exponential is of a difference to the row's maximum."""
    exponentials = syntax.calls(tree, "cute.math.exp") + syntax.calls(tree, "cute.math.exp2")
    return any("row_m" in ast.unparse(call) for call in exponentials)


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
    source=syntax.no_call(FENCE),
)
EARLY_ARRIVE = Diagnosis(
    "The block says that it is ready before its mbarrier is initialised: first mbarrier_init, then "
    "the fence, then cluster_arrive_relaxed.",
    FIRST,
    stage="run",
    error="fault:mbarrier",
    source=comes_before(ARRIVE, INIT),
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
    source=syntax.any_of(unguarded(EXPECT, ast.If), unguarded(EXPECT, ast.With)),
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
    source=syntax.no_call("send_pair"),
)
NOT_WAITED = Diagnosis(
    "The slots are read before the pairs are known to be there: mbarrier_wait comes first.",
    BYTES,
    stage="run",
    error="fault:read_before_wait",
    source=syntax.no_call(ARRIVED),
)
WRONG_PHASE = Diagnosis(
    "mbarrier_wait(mbar, 1) asks whether the phase before the first has ended: a fresh mbarrier "
    "says yes at once, and the slots are read too early. The first phase has parity 0.",
    BYTES,
    stage="run",
    error="fault:",
    source=argument_is_not(ARRIVED, 1, "0"),
)
SENT_HOME = Diagnosis(
    "Every lane sends to its own block. The last argument of send_pair is the peer: lane p sends "
    "to peer p.",
    BYTES,
    stage="run",
    error="fault:",
    source=argument_is("send_pair", 4, "rank", "cute.arch.block_idx_in_cluster()"),
)
WRONG_PEER = Diagnosis(
    "A lane sends to a peer that the cluster has not: a warp has 32 lanes, the cluster "
    "tile.blocks blocks. Guard the send with `if lane < tile.blocks`.",
    BYTES,
    stage="run",
    error="out_of_bounds",
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
    LATE_WAIT,
    NO_INIT,
    NO_FENCE,
    EARLY_ARRIVE,
    ALL_INITIALISE,
    NO_SEND,
    NO_EXPECT,
    ALL_EXPECT,
    WRONG_COUNT,
    NOT_WAITED,
    WRONG_PHASE,
    SENT_HOME,
    WRONG_PEER,
)

REDUCTION: tuple[Diagnosis, ...] = (
    *EXCHANGE,
    NOT_TO_ALL,
    UNFINISHED,
    SAME_SLOT,
    SAME_SLOT_TOO,
    STUCK,
    SECOND_BARRIER,
    Diagnosis(
        "The sums are added as they are. Each counts exp(x - m) for the maximum of its own part; "
        "multiply it by exp(m - row_m) first.",
        COMBINE,
        stage="run",
        error="check:values",
        source=syntax.negated(scales_by_the_row),
    ),
    Diagnosis(
        "The maximum is right and the sum is not: a part's sum is multiplied by exp(m - row_m), "
        "which is 1 at most, and 0 for a part of only -inf.",
        COMBINE,
        stage="run",
        error="check:values",
    ),
)

# Of the softmax only.
ROW_FORGOTTEN = Diagnosis(
    "Rows of one block share slots: the first index of slots is the warp's row in the block.",
    SOFTMAX_ANY,
    stage="run",
    error="check:race",
    source=syntax.negated(lambda tree: "slots[row, place" in ast.unparse(tree)),
)
NO_BLOCK_BARRIER = Diagnosis(
    "Within one block the pairs are read before they are known to be written: lane 0 of each warp "
    "writes, then cute.arch.barrier(), then all read.",
    SOFTMAX_ANY,
    stage="run",
    error="check:race",
    source=syntax.no_call("cute.arch.barrier"),
)
SOFTMAX: tuple[Diagnosis, ...] = (
    *EXCHANGE,
    NOT_TO_ALL,
    UNFINISHED,
    NO_BLOCK_BARRIER,
    ROW_FORGOTTEN,
    SAME_SLOT,
    SAME_SLOT_TOO,
    STUCK,
    Diagnosis(
        "The kernel stores into x: run(softmax_kernel, tile, x, out) takes the input first.",
        SOFTMAX_ANY,
        error="check:input_modified",
    ),
    Diagnosis(
        "Right up to 32 pairs a row, wrong with more: a warp has 32 lanes, so a lane combines every "
        "32nd pair.",
        SOFTMAX_ANY,
        cases=frozenset({"eight_blocks", "longest"}),
        passing=frozenset({"cluster", "sixteen_warps"}),
    ),
    Diagnosis(
        "Where a row has no element the load must bring -inf: 0 wins the maximum of negative "
        "numbers, and its exp goes into the sum.",
        SOFTMAX_ANY,
        stage="run",
        error="check:values",
        source=lambda tree: "-math.inf" not in ast.unparse(tree),
    ),
    Diagnosis(
        "The division is missing: each row must sum to 1.",
        SOFTMAX_ANY,
        stage="run",
        error="check:values",
        source=syntax.all_of(
            syntax.no_call("cute.arch.rcp_approx"),
            lambda tree: not any(isinstance(n, ast.Div) for n in ast.walk(tree)),
        ),
    ),
    Diagnosis(
        "The warp's own sum is divided by, not the row's: row_d counts all parts.",
        SOFTMAX_ANY,
        stage="run",
        error="check:values",
        source=argument_is("cute.arch.rcp_approx", 0, "d"),
    ),
    Diagnosis(
        "Each warp's e belongs to the warp's own maximum. Before the division it needs the factor "
        "exp(m - row_m).",
        COMBINE,
        stage="run",
        error="check:values",
        source=lambda tree: "exp(m - row_m" not in ast.unparse(tree),
    ),
    Diagnosis(
        "The sums are added as they are. Each counts exp(x - m) for the maximum of its own part; "
        "multiply it by exp(m - row_m) first.",
        COMBINE,
        stage="run",
        error="check:values",
        source=lambda tree: "ms.load() - row_m" not in ast.unparse(tree),
    ),
    Diagnosis(
        "A row of only -inf, or one with inf or NaN, is NaN in PyTorch, all of it: don't repair it.",
        SPECIAL,
        stage="run",
        cases=frozenset({"special", "special_blocks"}),
        passing=frozenset({"block", "cluster"}),
    ),
    Diagnosis(
        "The values are off: e * exp(m - row_m) / row_d, with m of the warp and both others of the "
        "row.",
        SOFTMAX_ANY,
        stage="run",
        error="check:values",
    ),
)
