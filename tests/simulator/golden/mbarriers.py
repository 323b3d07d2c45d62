"""mbarrier objects: what a sequence of operations by one thread makes test_wait say, manual
9.7.13.15."""

from __future__ import annotations

from .case import Buffer, Case, kernel, pointers, zeros

BAR = "[bar]"
# What each step runs. "test P" and "state N" put 1 or 0 in the output, "pending N" a count: N is
# the number of the arrival whose returned state is asked for.
STEPS = {
    "arrive": "mbarrier.arrive.shared::cta.b64 %s{state}, [bar];",
    "arrive_count": "mbarrier.arrive.shared::cta.b64 %s{state}, [bar], {0};",
    "arrive_relaxed": "mbarrier.arrive.relaxed.cta.shared::cta.b64 %s{state}, [bar];",
    "drop": "mbarrier.arrive_drop.shared::cta.b64 %s{state}, [bar];",
    "drop_count": "mbarrier.arrive_drop.shared::cta.b64 %s{state}, [bar], {0};",
    "no_complete": "mbarrier.arrive.noComplete.shared::cta.b64 %s{state}, [bar], {0};",
    "arrive_tx": "mbarrier.arrive.expect_tx.shared::cta.b64 %s{state}, [bar], {0};",
    "drop_tx": "mbarrier.arrive_drop.expect_tx.shared::cta.b64 %s{state}, [bar], {0};",
    "expect": "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], {0};",
    "complete": "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], {0};",
    "test": "mbarrier.test_wait.parity.shared::cta.b64 %p, [bar], {0};",
    "state": "mbarrier.test_wait.shared::cta.b64 %p, [bar], %s{0};",
    "try": "mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], {0}, 32;",
    "pending": "mbarrier.pending_count.b64 %v, %s{0};",
    "inval": "mbarrier.inval.shared::cta.b64 [bar];",
    "init": "mbarrier.init.shared::cta.b64 [bar], {0};",
}
BOTH = "test 0, test 1"
SEQUENCES = {
    "fresh": f"init 1, {BOTH}",
    "phases": f"init 1, arrive, {BOTH}, arrive, {BOTH}, arrive, {BOTH}, try 0",
    "count": f"init 3, arrive, {BOTH}, arrive, {BOTH}, arrive, {BOTH}, pending 0, pending 1, pending 2",
    "count_at_once": f"init 7, arrive_count 3, {BOTH}, pending 0, arrive_count 4, {BOTH}, pending 1",
    "states": "init 2, arrive, state 0, arrive, state 0, state 1, arrive, state 2, arrive, state 2",
    "tx_after": f"init 1, expect 64, arrive, {BOTH}, complete 16, {BOTH}, complete 48, {BOTH}",
    "tx_before": f"init 2, arrive, complete 32, {BOTH}, expect 32, {BOTH}, arrive, {BOTH}",
    "tx_arrive": f"init 1, arrive_tx 128, {BOTH}, complete 128, {BOTH}, arrive_tx 16, complete 16, {BOTH}",
    "tx_zero": f"init 1, arrive_tx 0, {BOTH}, expect 0, {BOTH}",
    "tx_early": f"init 2, complete 8, arrive_tx 8, {BOTH}, arrive, {BOTH}, arrive, {BOTH}",
    "drop": f"init 3, drop, arrive_count 2, {BOTH}, arrive, {BOTH}, arrive, {BOTH}, pending 0",
    "drop_many": f"init 8, drop_count 5, pending 0, arrive_count 3, {BOTH}, arrive_count 3, {BOTH}",
    "drop_tx": f"init 2, drop_tx 16, arrive, {BOTH}, complete 16, {BOTH}, arrive, {BOTH}",
    "no_complete": f"init 4, no_complete 2, pending 0, {BOTH}, arrive_count 2, {BOTH}",
    "relaxed": f"init 1, arrive_relaxed, {BOTH}, arrive_relaxed, {BOTH}",
    "again": f"init 2, arrive, inval, init 1, {BOTH}, arrive, {BOTH}",
    "largest": f"init 1048575, arrive_count 1048574, pending 0, {BOTH}, arrive, {BOTH}",
    "largest_tx": f"init 1, expect 1048575, arrive, {BOTH}, complete 1048575, {BOTH}",
}


def sequence(name: str, text: str) -> Case:
    lines = [
        ".shared .align 8 .b64 bar;",
        ".reg .pred %p;",
        ".reg .b32 %v;",
        ".reg .b64 %o, %s<16>;",
    ]
    lines.append("ld.param.u64 %o, [p0];")
    states, results = 0, 0
    for step in text.split(", "):
        operation, *numbers = step.split()
        lines.append(STEPS[operation].format(*numbers, state=states))
        states += "%s{state}" in STEPS[operation]
        if operation in ("test", "state", "try"):
            lines.append("selp.b32 %v, 1, 0, %p;")
        if operation in ("test", "state", "try", "pending"):
            lines.append(f"st.global.b32 [%o+{4 * results}], %v;")
            results += 1

    def make() -> list[Buffer]:
        return [Buffer(zeros(results, "b32"), True)]

    return Case(
        f"mbarrier.{name}",
        kernel(pointers(1), "\n".join(lines)),
        make,
        (0,),
        block=(1, 1, 1),
        # Both parities are asked about, which no kernel with a plan would do.
        allowed=("phase",),
    )


def mbarriers() -> list[Case]:
    return [sequence(name, text) for name, text in SEQUENCES.items()]
