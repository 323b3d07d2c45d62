"""What is missing between two accesses that nothing orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from checkers.simulator.memory.lanes import Lanes, thread_name
from checkers.simulator.memory.rows import CLUSTER_SHIFT, COLUMN_MASK
from checkers.simulator.memory.shadow import TIME_MASK, rows
from checkers.simulator.reports.faults import Kind
from checkers.simulator.reports.places import place_and_opcode

if TYPE_CHECKING:
    from checkers.simulator.memory.races import Target


def barrier(wave: Any, thread: int, who: int) -> str:
    """What should have stood between two threads' accesses."""
    mine, each = int(wave.clocks.who[thread]), wave.warps_per_block * 32
    if who >> int(CLUSTER_SHIFT) != mine >> int(CLUSTER_SHIFT):
        return "no release and acquire orders the two blocks"
    column, own = who & int(COLUMN_MASK), mine & int(COLUMN_MASK)
    if column // each != own // each:
        return "no barrier of the cluster lies between the two"
    if column // 32 == own // 32:
        return "no barrier, not even bar.warp.sync, lies between the two lanes of one warp"
    return "no barrier lies between the two"


def half_waited(wave: Any, target: Target, i: int, who: int, thread: int) -> str:
    """What is missing when somebody did wait for a copy, but not so that ``thread`` knows; "" when
    nobody did."""
    clocks = wave.clocks
    times = rows(target.shadow.time, target.index[i : i + 1], target.count)
    time = int((times & TIME_MASK).max())
    owner, kind = clocks.describe(who)
    if kind == "cp.async" and owner is not None:
        if int(clocks.private(kind).known[owner]) >= time:
            name = thread_name(wave, owner, thread)
            return f"{name} has waited for it, but no barrier after that wait lies between"
        from checkers.simulator.copies.copies import Copies

        return wave.state(Copies).explain(owner, time)
    if kind == "mbarrier":
        from checkers.simulator.waiting.mbarrier_lookup import Mbarriers

        return wave.state(Mbarriers).explain(clocks.by_who[who].key, thread, time)
    return ""


def same_wait(lanes: Lanes, kind: Kind, engine: str, who: int, missing: str) -> tuple[Any, ...]:
    """What two faults have in common that miss the same wait: the instruction before which it is
    missing, in which words, and for copies that signal mbarriers which ones."""
    wave = lanes.wave
    words = "".join(letter for letter in missing if not letter.isdigit())
    barriers: Any = None
    if engine == "mbarrier":
        from checkers.simulator.waiting.mbarrier_lookup import Mbarriers

        signalled = wave.state(Mbarriers).find(*wave.clocks.by_who[who].key[1:3])
        barriers = who if signalled is None else place_and_opcode(signalled.site)
    return kind, place_and_opcode(lanes.group.site), engine, words, barriers
