"""The producer's ring in ch05: wrong answers that prove its diagnoses."""

from __future__ import annotations

from checkers.exercise import Mistake

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
READS_FROM = FILLS_FROM.replace(EMPTY_WAITS, FULL_WAITS)
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
        "gives_back_then_meets",
        "run",
        "let the warp meet first",
        replace=((MEETS_WARP, ""), (ARRIVES, ARRIVES + MEETS_WARP)),
    ),
    Mistake(
        "one_warp_gives_back",
        "run",
        "one lane of each consumer warp at `empty`",
        replace=((ELECTS + ARRIVES, "            if tidx == 0:\n" + ARRIVES),),
    ),
    Mistake(
        "the_block_meets",
        "run",
        "the other role never comes",
        replace=((MEETS_WARP, "            cute.arch.barrier()\n"),),
    ),
    Mistake(
        "first_parities_swapped",
        "run",
        "go on before the first tile has come",
        replace=(
            (f"{START}cutlass.Int32(1)", f"{START}cutlass.Int32(2)"),
            (f"{START}cutlass.Int32(0)", f"{START}cutlass.Int32(1)"),
            (f"{START}cutlass.Int32(2)", f"{START}cutlass.Int32(0)"),
        ),
    ),
    Mistake(
        "initialises_one_stage",
        "run",
        "Only the barriers of one stage are initialised",
        replace=(
            (
                "        for stage in cutlass.range_constexpr(RING_STAGES):\n"
                "            cute.arch.mbarrier_init(full + stage, 1)",
                "        cute.arch.mbarrier_init(full, 1)",
            ),
            (f"            cute.arch.{CONSUMERS}", "        cute.arch.mbarrier_init(empty, 4)"),
        ),
    ),
    Mistake(
        "expects_at_empty",
        "run",
        "The bytes are announced at `empty`",
        replace=((EXPECTS, EXPECTS.replace("full", "empty")),),
    ),
    Mistake(
        "signals_stage_0",
        "run",
        "Every copy signals the barrier of stage 0",
        replace=((COPIES, COPIES.replace("full + stage", "full")),),
    ),
    Mistake(
        "expects_and_nobody_arrives",
        "run",
        "nobody arrives at `full`",
        replace=((EXPECTS, EXPECTS.replace("arrive_and_", "")),),
    ),
    Mistake(
        "fills_one_stage",
        "run",
        "All tiles are copied into one stage",
        replace=((COPIES, COPIES.replace("tTsX[None, stage]", "tTsX[None, 0]")),),
    ),
    Mistake(
        "producer_stays_in_its_stage",
        "run",
        "never leave their stage",
        replace=((COPIES + NEXT, COPIES),),
    ),
    Mistake(
        "consumers_skip_the_first",
        "run",
        "A stage is filled that no consumer waits for",
        replace=((READS_FROM, READS_FROM.replace("range(bidx,", "range(bidx + grid,")),),
    ),
    Mistake("never_reads", "run", "stored without anything in it", replace=((READS, ""),)),
    Mistake("never_stores", "run", "Nothing is stored", replace=((STORES, ""),)),
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
