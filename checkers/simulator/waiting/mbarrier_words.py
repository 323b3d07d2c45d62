"""What a fault says about an mbarrier: which one, what came, what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkers.simulator.memory.lanes import line_name

if TYPE_CHECKING:
    from checkers.simulator.waiting.mbarriers import Mbarrier, PhaseWait


def name_of(barrier: Mbarrier) -> str:
    """ "the mbarrier full[1]", or by its place in shared memory."""
    at = barrier.offset
    for name, variable in barrier.wave.kernel.shared_variables.items():
        start = barrier.wave.kernel.shared_offsets.get(name)
        if start is None or not start <= at < start + variable.bytes:
            continue
        index = f"[{(at - start) // 8}]" if variable.bytes > 8 else ""
        return f"the mbarrier {name}{index}"
    return f"the mbarrier at byte {at - barrier.wave.kernel.dynamic_shared_start} of shared memory"


def arrivals_of(barrier: Mbarrier) -> str:
    """ "1 of 2 arrivals came"."""
    came = barrier.expected - barrier.pending
    if barrier.expected == 1:
        return "its one arrival came" if came else "its one arrival is missing"
    return f"{came} of {barrier.expected} arrivals came"


def bytes_of(barrier: Mbarrier) -> str:
    """ "it expects 16384 bytes, 8192 arrived"; "" when no bytes are concerned."""
    told = sum(a.amount for a in barrier.history if a.what == "expect")
    came = sum(a.amount for a in barrier.history if a.what == "complete")
    if not told and not came and not barrier.tx:
        return ""
    came += told - came - barrier.tx  # bytes that came before this phase began count as well
    if not told:
        return f"nobody told it to expect bytes, yet {came} arrived"
    return f"it expects {told} bytes, {came} arrived"


def why_not(barrier: Mbarrier, wait: PhaseWait) -> str:
    """Why those who wait wait for ever."""
    parity = wait.phase & 1
    text = f"waits for phase {wait.phase} (parity {parity}) of {barrier.name}"
    text += f" (initialised with count {barrier.expected}, {line_name(barrier.site)})"
    parts = [arrivals_of(barrier), bytes_of(barrier)]
    text += ": " + "; ".join(part for part in parts if part)
    arrivals = [a for a in barrier.history if a.what == "arrive"]
    if arrivals:
        text += f"; last, an arrive at {line_name(arrivals[-1].site)}"
    elif not barrier.arrived_ever:
        text += "; nobody has ever arrived at it"
    if wait.first_time and barrier.phase == 0 and parity == 0 and not barrier.arrived_ever:
        text += (
            ". If it says that a buffer is empty: the first wait of a producer must ask for "
            "parity 1, which is true from the start"
        )
    return text
