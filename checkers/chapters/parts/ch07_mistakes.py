"""Wrong reductions and softmaxes that learners write: each is rejected and explained."""

from __future__ import annotations

from checkers.chapters.parts import ch07_diagnoses as diagnoses
from checkers.chapters.parts import ch07_exchange as known
from checkers.exercise import Diagnosis, Mistake


def swap(name: str, diagnosis: Diagnosis | str, *pairs: tuple[str, str]) -> Mistake:
    """The reference with a few words changed, found by running it."""
    says = diagnosis if isinstance(diagnosis, str) else diagnosis.says
    return Mistake(name, "run", says, replace=pairs)


ARRIVE = (
    "    cute.arch.cluster_arrive_relaxed()  # early: the loads below take longer than the news\n"
)
INIT = "        cute.arch.mbarrier_init(mbar, 1)  # one arrival: that of the thread that expects\n"
WAIT = "    cute.arch.cluster_wait()  # now every block's mbarrier is initialised\n"
EXPECT = "            cute.arch.mbarrier_arrive_and_expect_tx(mbar, tile.pairs * PAIR_BYTES)\n"
SEND = "        send_pair(m, d, slots[0, rank * tile.warps + warp, None], mbar, lane)\n"
ARRIVED = "    cute.arch.mbarrier_wait(mbar, 0)  # now all pairs of the row are here\n"
SCALED = "d * cute.math.exp(m - row_m, fastmath=True)"

REDUCTION: tuple[Mistake, ...] = (
    swap("no_cluster_barrier", known.NO_BARRIER, (ARRIVE, ""), (WAIT, "")),
    swap("no_cluster_wait", known.NO_WAIT, (WAIT, "")),
    swap("waits_without_arriving", known.NO_ARRIVE, (ARRIVE, "")),
    swap("waits_after_sending", known.LATE_WAIT, (WAIT, ""), (ARRIVED, WAIT + ARRIVED)),
    swap(
        "arrives_before_initialising",
        known.EARLY_ARRIVE,
        (
            "    if tidx == 0:\n" + INIT,
            "    cute.arch.cluster_arrive_relaxed()\n    if tidx == 0:\n" + INIT,
        ),
        (ARRIVE, ""),
    ),
    swap("not_initialised", known.NO_INIT, ("    if tidx == 0:\n" + INIT, "")),
    swap(
        "every_thread_initialises", known.ALL_INITIALISE, ("    if tidx == 0:\n" + INIT, INIT[4:])
    ),
    swap("no_fence", known.NO_FENCE, ("    cute.arch.mbarrier_init_fence()\n", "")),
    swap(
        "counts_all_threads",
        known.WRONG_COUNT,
        ("mbarrier_init(mbar, 1)", "mbarrier_init(mbar, tile.block_threads)"),
    ),
    swap(
        "every_warp_expects",
        known.ALL_EXPECT,
        (
            "    if warp == 0:\n        with cute.arch.elect_one():\n" + EXPECT,
            "    with cute.arch.elect_one():\n" + EXPECT[4:],
        ),
    ),
    swap(
        "every_lane_expects",
        known.ALL_EXPECT,
        ("        with cute.arch.elect_one():\n" + EXPECT, EXPECT[4:]),
    ),
    swap("expects_one_pair", known.UNFINISHED, ("tile.pairs * PAIR_BYTES)", "PAIR_BYTES)")),
    swap(
        "expects_its_own_pairs",
        known.UNFINISHED,
        ("tile.pairs * PAIR_BYTES)", "tile.warps * PAIR_BYTES)"),
    ),
    swap(
        "expects_too_much",
        known.UNFINISHED,
        ("tile.pairs * PAIR_BYTES)", "tile.pairs * 2 * PAIR_BYTES)"),
    ),
    swap(
        "expects_nothing",
        known.NO_EXPECT,
        ("mbarrier_arrive_and_expect_tx(mbar, tile.pairs * PAIR_BYTES)", "mbarrier_arrive(mbar)"),
    ),
    swap(
        "no_expect",
        known.NO_EXPECT,
        ("    if warp == 0:\n        with cute.arch.elect_one():\n" + EXPECT, ""),
    ),
    swap("reads_before_the_wait", known.NOT_WAITED, (ARRIVED, "")),
    swap("wrong_phase", known.WRONG_PHASE, ("mbarrier_wait(mbar, 0)", "mbarrier_wait(mbar, 1)")),
    swap("one_slot_for_all_blocks", known.SAME_SLOT, ("rank * tile.warps + warp", "warp")),
    swap(
        "one_slot_for_all_warps", known.SAME_SLOT, ("rank * tile.warps + warp", "rank * tile.warps")
    ),
    swap("ranks_overlap", known.SAME_SLOT, ("rank * tile.warps + warp", "rank + warp")),
    swap(
        "slot_of_the_peer",
        known.SAME_SLOT,
        ("rank * tile.warps + warp", "lane * tile.warps + warp"),
    ),
    swap("sends_to_itself", known.SENT_HOME, ("None], mbar, lane)", "None], mbar, rank)")),
    swap("one_peer_only", known.NOT_TO_ALL, ("if lane < tile.blocks:", "if lane == 0:")),
    swap(
        "too_many_peers",
        known.WRONG_PEER,
        ("    if lane < tile.blocks:  # one lane, one peer\n" + SEND, SEND[4:]),
    ),
    swap(
        "writes_its_own_slots",
        known.NO_SEND,
        (
            SEND,
            "        slots[0, rank * tile.warps + warp, 0], slots[0, rank * tile.warps + warp, 1] = m, d\n",
        ),
    ),
    swap("unscaled_sums", "The sums are added as they are", (SCALED, "d")),
    swap("scaled_the_wrong_way", "which is 1 at most", ("exp(m - row_m,", "exp(row_m - m,")),
    Mistake(
        "second_cluster_barrier",
        "codegen",
        known.SECOND_BARRIER.says,
        replace=((ARRIVED, ARRIVED + "    cute.arch.cluster_arrive()\n" + WAIT),),
    ),
    Mistake(
        "zeros_without_a_kernel",
        "compile",
        known.NO_KERNEL.says,
        answer="""
def row_pairs(x, blocks):
    return tuple(torch.zeros(x.shape[0], blocks, device=x.device) for _ in range(2))
""",
    ),
    Mistake(
        "library",
        "source",
        known.LIBRARY.says,
        answer="""
def row_pairs(x, blocks):
    m = x.float().amax(1, keepdim=True)
    d = torch.exp(x.float() - m).sum(1, keepdim=True)
    return m.expand(-1, blocks), d.expand(-1, blocks)
""",
    ),
)

S_SEND = "            send_pair(m, d, slots[row, place, None], mbar, lane)\n"
S_ARRIVED = "        cute.arch.mbarrier_wait(mbar, 0)\n"
S_BYTES = "tile.rows * tile.pairs * PAIR_BYTES"
S_PLACE = "        place += cute.arch.block_idx_in_cluster() * tile.warps\n"
S_SCALE = "cute.math.exp(m - row_m, fastmath=True) * cute.arch.rcp_approx(row_d)"
S_SUMS = "ds.load() * cute.math.exp(ms.load() - row_m, fastmath=True)"

SOFTMAX: tuple[Mistake, ...] = (
    swap("elements_unscaled", "Each warp's e belongs to", (S_SCALE, "cute.arch.rcp_approx(row_d)")),
    swap("sums_unscaled", "The sums are added as they are", (S_SUMS, "ds.load()")),
    swap("not_divided", "The division is missing", (S_SCALE, S_SCALE.partition(" * ")[0])),
    swap("divided_by_its_own_sum", "The warp's own sum", ("rcp_approx(row_d)", "rcp_approx(d)")),
    swap("padded_with_zero", "must bring -inf", ("tXpX, -math.inf)", "tXpX, 0.0)")),
    swap("no_block_barrier", diagnoses.NO_BLOCK_BARRIER, ("        cute.arch.barrier()\n", "")),
    swap(
        "one_row_of_slots",
        diagnoses.ROW_FORGOTTEN,
        (
            "            slots[row, place, 0], slots[row, place, 1] = m, d",
            "            slots[0, place, 0], slots[0, place, 1] = m, d",
        ),
        (S_SEND, S_SEND.replace("row, place", "0, place")),
    ),
    swap(
        "first_32_pairs",
        "Right up to 32 pairs",
        ("for i in cutlass.range_constexpr(each)", "for i in cutlass.range_constexpr(1)"),
    ),
    swap("no_cluster_wait", known.NO_WAIT, ("        cute.arch.cluster_wait()\n", "")),
    swap("no_rank", known.SAME_SLOT, (S_PLACE, "")),
    swap("rank_without_warps", known.SAME_SLOT, (S_PLACE, S_PLACE.replace(" * tile.warps", ""))),
    swap("expects_one_block", known.UNFINISHED, (S_BYTES, "tile.rows * tile.warps * PAIR_BYTES")),
    swap("reads_before_the_wait", known.NOT_WAITED, (S_ARRIVED, "")),
    swap("wrong_phase", known.WRONG_PHASE, ("mbarrier_wait(mbar, 0)", "mbarrier_wait(mbar, 1)")),
    swap("no_fence", known.NO_FENCE, ("        cute.arch.mbarrier_init_fence()\n", "")),
    swap(
        "sends_to_one",
        known.NOT_TO_ALL,
        ("        if lane < tile.blocks:\n", "        if lane == 0:\n"),
    ),
    swap(
        "stores_into_x",
        "The kernel stores into x",
        (
            "run(softmax_kernel, tile_for(x, out), x, out)",
            "run(softmax_kernel, tile_for(x, out), x, x)",
        ),
    ),
    Mistake(
        "zeros_without_a_kernel",
        "compile",
        known.NO_KERNEL.says,
        answer="""
def softmax_forward(x):
    return torch.zeros_like(x)
""",
    ),
    Mistake(
        "library",
        "source",
        known.LIBRARY.says,
        answer="""
def softmax_forward(x):
    return torch.softmax(x, -1)
""",
    ),
)
