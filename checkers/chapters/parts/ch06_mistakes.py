"""Wrong reductions that learners write, kept to prove that each is rejected and explained."""

from __future__ import annotations

from checkers.chapters.parts import ch06_diagnoses as why
from checkers.chapters.parts import ch06_softmax_diagnoses as rows
from checkers.exercise import Diagnosis, Mistake

FILL = "    tXrX.fill(-tXrX.element_type.inf)"
LOAD = "cute.copy(tiled_copy, tXgX, tXrX, pred=tXpX)"


def mistake(
    name: str, diagnosis: Diagnosis, *swaps: tuple[str, str], stage: str = "run"
) -> Mistake:
    """The reference with a few words changed."""
    return Mistake(name, stage, diagnosis.says, replace=swaps)


def instead(name: str, diagnosis: Diagnosis, answer: str, stage: str = "run") -> Mistake:
    """A function that takes the place of one of the reference's."""
    return Mistake(name, stage, diagnosis.says, answer=answer)


# --- warp_reduction ------------------------------------------------------------------------------

_EXCHANGE = "cute.arch.shuffle_sync_bfly(value, offset=distance)"
_M = "m = butterfly(x.reduce(cute.ReductionOp.MAX, -Float32.inf, 0), cute.arch.fmax)"
_D = "d = butterfly(e.reduce(cute.ReductionOp.ADD, Float32(0.0), 0), operator.add)"
_ORIGIN = "origin = Float32(0.0) if m == -Float32.inf else m"

WARP = (
    mistake("upper_half_left_out", why.UPPER_HALF, ("(16, 8, 4, 2, 1)", "(8, 4, 2, 1)")),
    mistake("neighbours_left_out", why.NOT_ALL_LANES, ("(16, 8, 4, 2, 1)", "(16, 8, 4, 2)")),
    mistake("wrong_distances", why.COUNTED_TWICE, ("(16, 8, 4, 2, 1)", "(1, 2, 3, 4, 5)")),
    mistake(
        "only_lane_0_has_it",
        why.ONLY_LANE_0,
        (_EXCHANGE, "cute.arch.shuffle_sync_down(value, offset=distance)"),
    ),
    mistake(
        "mask_of_half_a_warp",
        why.WRONG_MASK,
        (_EXCHANGE, "cute.arch.shuffle_sync_bfly(value, offset=distance, mask=0xFFFF)"),
    ),
    mistake(
        "lanes_past_the_row_stay_away",
        why.NEVER_CAME,
        (
            f"    {_M}",
            "    m = x.reduce(cute.ReductionOp.MAX, -Float32.inf, 0)\n"
            "    if tXpX[0, 0, 0]:\n"
            "        m = butterfly(m, cute.arch.fmax)",
        ),
    ),
    mistake("padded_with_zero", why.PADDED_WITH_ZERO, (FILL, "    tXrX.fill(0.0)")),
    mistake("padded_with_a_number", why.PADDED_WITH_A_NUMBER, (FILL, "    tXrX.fill(-1e30)")),
    mistake("not_filled", why.NOT_FILLED, (FILL, "    pass")),
    mistake("filled_too_late", why.FILLED_TOO_LATE, (LOAD, f"{LOAD}\n{FILL}")),
    mistake("no_predicate", why.OUT_OF_BOUNDS, (LOAD, "cute.copy(tiled_copy, tXgX, tXrX)")),
    mistake("no_maximum", why.NO_MAXIMUM, ("exp(x - origin,", "exp(x,")),
    mistake("minus_inf_minus_itself", why.MINUS_INF, (_ORIGIN, "origin = m")),
    mistake("maximum_from_zero", why.FROM_A_NUMBER, ("MAX, -Float32.inf", "MAX, Float32(0.0)")),
    mistake(
        "needless_barrier_in_a_branch",
        why.NEEDLESS_BARRIER_IN_BRANCH,
        (
            f"    {_ORIGIN}",
            f"    if cute.arch.lane_idx() == 0:\n        cute.arch.barrier()\n    {_ORIGIN}",
        ),
    ),
    mistake(
        "own_maximum_of_each_lane",
        why.OWN_MAXIMUM,
        (f"    {_M}\n", "    m = x.reduce(cute.ReductionOp.MAX, -Float32.inf, 0)\n"),
        (f"    {_D}\n", f"    {_D}\n    m = butterfly(m, cute.arch.fmax)\n"),
    ),
    mistake(
        "sum_of_one_lane",
        why.SUM_NOT_EXCHANGED,
        (_D, "d = e.reduce(cute.ReductionOp.ADD, Float32(0.0), 0)"),
    ),
    mistake("sum_in_16_bits", why.SIXTEEN_BITS, ("e.reduce(", "e.to(tXrX.element_type).reduce(")),
    mistake(
        "exp_in_16_bits",
        why.ROUNDED_TO_16_BITS,
        ("fastmath=True)", "fastmath=True).to(cutlass.Float16)"),
        ("e.reduce(", "e.to(Float32).reduce("),
    ),
    instead(
        "ready_made",
        why.TOOK_PYTORCH,
        "def butterfly(value, combine):\n    return cute.arch.warp_reduction(value, combine)\n",
        stage="source",
    ),
    instead(
        "in_pytorch",
        why.TOOK_PYTORCH,
        "def warp_max_and_sum(x):\n"
        "    m = torch.amax(x.float(), -1, keepdim=True)\n"
        "    return m, (x - m).exp().sum(-1, keepdim=True)\n",
        stage="source",
    ),
    instead(
        "no_kernel",
        why.NO_KERNEL,
        "def warp_max_and_sum(x):\n"
        "    out = torch.empty(x.shape[0], 1, dtype=torch.float32, device=x.device)\n"
        "    return out, out\n",
        stage="compile",
    ),
)

# --- block_reduction -----------------------------------------------------------------------------

_BARRIER = "    cute.arch.barrier()\n"
_WRITE = "    if lane == 0:\n        slots[warp, 0], slots[warp, 1] = m, d\n"
_READ = "    if lane < WARPS:\n        m, d = slots[lane, 0], slots[lane, 1]\n"
_SCALED = "d * cute.math.exp(m - origin, fastmath=True)"
_ROW_ORIGIN = "origin = Float32(0.0) if row_m == -Float32.inf else row_m"

_TWO_EXCHANGES = """
@cute.jit
def block_reduce(m, d, slots):
    warp, lane = cute.arch.warp_idx(), cute.arch.lane_idx()
    if lane == 0:
        slots[warp, 0] = m
    cute.arch.barrier()
    largest, total = -Float32.inf, Float32(0.0)
    if lane < WARPS:
        largest = slots[lane, 0]
    row_m = cute.arch.warp_reduction_max(largest)
    origin = Float32(0.0) if row_m == -Float32.inf else row_m
    d = d * cute.math.exp(m - origin, fastmath=True)
{between}    if lane == 0:
        slots[warp, 0] = d
    cute.arch.barrier()
    if lane < WARPS:
        total = slots[lane, 0]
    return row_m, cute.arch.warp_reduction_sum(total)
"""

BLOCK = (
    mistake("no_barrier", why.NO_BARRIER, (_BARRIER, "")),
    mistake("barrier_of_a_warp", why.NO_BARRIER, (_BARRIER, "    cute.arch.sync_warp()\n")),
    mistake(
        "barrier_in_a_branch",
        why.BARRIER_IN_BRANCH,
        (_WRITE + _BARRIER, _WRITE + "    " + _BARRIER),
    ),
    instead("slots_reused", why.REUSED_SLOTS, _TWO_EXCHANGES.format(between="")),
    instead(
        "two_exchanges",
        why.TOO_MANY_BARRIERS,
        _TWO_EXCHANGES.format(between=_BARRIER),
        stage="codegen",
    ),
    mistake(
        "one_slot_for_all",
        why.WRONG_WRITE,
        ("slots[warp, 0], slots[warp, 1] = m, d", "slots[lane, 0], slots[lane, 1] = m, d"),
    ),
    mistake(
        "slots_past_the_end",
        why.SLOTS_OUT_OF_BOUNDS,
        (_READ, "    m, d = slots[lane, 0], slots[lane, 1]\n"),
    ),
    mistake(
        "lanes_without_a_pair_hold_zero",
        why.MISSING_LANES_ZERO,
        ("m, d = -Float32.inf, Float32(0.0)", "m, d = Float32(0.0), Float32(0.0)"),
    ),
    mistake(
        "pairs_counted_four_times",
        why.PAIRS_COUNTED_TWICE,
        (_READ, "    m, d = slots[lane % WARPS, 0], slots[lane % WARPS, 1]\n"),
    ),
    mistake("last_warp_left_out", why.OWN_PAIR, ("lane < WARPS:", "lane < WARPS - 1:")),
    mistake("sums_not_scaled", why.UNSCALED, (_SCALED, "d")),
    mistake(
        "scaled_upside_down",
        why.UPSIDE_DOWN,
        (_SCALED, "d * cute.math.exp(origin - m, fastmath=True)"),
    ),
    mistake("minus_inf_minus_itself", why.MINUS_INF, (_ROW_ORIGIN, "origin = row_m")),
    mistake("first_warp_decides", why.OWN_PAIR, ("return row_m, row_d", "return m, d")),
    mistake(
        "lanes_without_a_pair_stay_away",
        why.NEVER_CAME,
        (
            "    row_m = cute.arch.warp_reduction_max(m)\n",
            "    row_m = m\n    if lane < WARPS:\n        row_m = cute.arch.warp_reduction_max(m)\n",
        ),
    ),
    instead(
        "in_pytorch",
        why.LIBRARY,
        "def block_max_and_sum(x):\n"
        "    m = torch.amax(x.float(), -1, keepdim=True)\n"
        "    return m, (x - m).exp().sum(-1, keepdim=True)\n",
        stage="source",
    ),
    instead(
        "no_kernel",
        why.NO_KERNEL,
        "def block_max_and_sum(x):\n"
        "    out = torch.empty(x.shape[0], 1, dtype=torch.float32, device=x.device)\n"
        "    return out, out\n",
        stage="compile",
    ),
)

# --- softmax -------------------------------------------------------------------------------------

_LANES_MAX = "x.reduce(cute.ReductionOp.MAX, -Float32.inf, 0), threads_in_group=lanes"
_RESULT = "y = e * (scale * cute.arch.rcp_approx(d))"
_SCALE = "scale = cute.math.exp(m - row_m, fastmath=True)"
_STORE = "cute.copy(tiled_copy, tXrO, tXgO, pred=tXpX)"

SOFTMAX = (
    mistake("padded_with_zero", why.PADDED_WITH_ZERO, (FILL, "    tXrX.fill(0.0)")),
    mistake("padded_with_a_number", why.PADDED_WITH_A_NUMBER, (FILL, "    tXrX.fill(-1e30)")),
    mistake("not_filled", why.NOT_FILLED, (FILL, "    pass")),
    mistake("load_unguarded", why.OUT_OF_BOUNDS, (LOAD, "cute.copy(tiled_copy, tXgX, tXrX)")),
    mistake("store_unguarded", why.OUT_OF_BOUNDS, (_STORE, "cute.copy(tiled_copy, tXrO, tXgO)")),
    mistake(
        "past_the_rows_lanes", rows.WHOLE_WARP, (_LANES_MAX, _LANES_MAX.replace("=lanes", "=LANES"))
    ),
    mistake(
        "slots_for_rows_of_one_warp",
        rows.WHOLE_WARP,
        ("if const_expr(warps > 1):", "if const_expr(True):"),
    ),
    mistake("no_barrier", why.NO_BARRIER, (_BARRIER, "")),
    mistake("barrier_of_a_warp", why.NO_BARRIER, (_BARRIER, "    cute.arch.sync_warp()\n")),
    mistake(
        "place_is_the_warps_number",
        rows.PLACE_PAST_THE_END,
        ("slots[row, place, 0], slots[row, place, 1]", "slots[row, warp, 0], slots[row, warp, 1]"),
    ),
    mistake(
        "row_and_place_exchanged",
        why.WRONG_PLACE,
        ("row, place = warp // warps, warp % warps", "row, place = warp % warps, warp // warps"),
    ),
    mistake(
        "slots_of_the_first_row",
        rows.SLOTS_OF_ANOTHER_ROW,
        ("slots[row, lane, 0], slots[row, lane, 1]", "slots[0, lane, 0], slots[0, lane, 1]"),
    ),
    mistake("sums_not_scaled", why.UNSCALED, (_SCALED, "d")),
    mistake("elements_not_rescaled", rows.NOT_RESCALED, (_SCALE, "scale = Float32(1.0)")),
    mistake(
        "only_one_warp_knows",
        rows.ONE_WARP_KNOWS,
        (
            "    if lane < warps:\n",
            "    if warp == 0 and lane < warps:\n",
        ),
    ),
    mistake(
        "minus_inf_minus_itself",
        why.MINUS_INF,
        (_ORIGIN, "origin = m"),
    ),
    mistake("no_maximum", why.NO_MAXIMUM, ("exp(x - origin,", "exp(x,")),
    mistake(
        "log_of_the_sum",
        rows.LOST_DIGITS,
        ("    scale = Float32(1.0)\n", "    row_m = m\n"),
        (f"        {_SCALE}", "        pass"),
        (
            _RESULT,
            "y = cute.math.exp(x - (row_m + cute.math.log(d, fastmath=True)), fastmath=True)",
        ),
    ),
    mistake("not_divided", rows.NOT_DIVIDED, (_RESULT, "y = e * scale")),
    mistake(
        "loaded_twice",
        why.LOADED_TWICE,
        (
            f"    {_RESULT}\n",
            f"    {LOAD}\n"
            "    row_m = row_m if const_expr(warps > 1) else m\n"
            "    e = cute.math.exp(tXrX.load().to(Float32) - row_m, fastmath=True)\n"
            "    y = e * cute.arch.rcp_approx(d)\n",
        ),
        stage="codegen",
    ),
    mistake("sum_in_16_bits", why.SIXTEEN_BITS, ("e.reduce(", "e.to(tXrX.element_type).reduce(")),
    mistake("no_store", why.NO_WRITES, (f"    {_STORE}\n", ""), stage="codegen"),
    mistake("stores_zeros", rows.ALL_ZERO, (_RESULT, "y = e * 0.0")),
    mistake(
        "a_block_too_few",
        rows.LAST_ROWS,
        ("grid=(cute.ceil_div(mX.shape[0], rows), 1, 1)", "grid=(mX.shape[0] // rows, 1, 1)"),
    ),
    instead(
        "calls_the_library",
        why.LIBRARY,
        "def softmax(x):\n    return torch.softmax(x, dim=-1)\n",
        stage="source",
    ),
    instead("returns_x", why.NO_KERNEL, "def softmax(x):\n    return x\n", stage="compile"),
)
