"""What a fault says about an mbarrier: which one, what came, what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from checkers.simulator.memory.lanes import line_name, thread_name

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
    text += "".join(f"; {words}" for words in outstanding(barrier))
    if wait.first_time and barrier.phase == 0 and parity == 0 and not barrier.arrived_ever:
        text += (
            ". If it says that a buffer is empty: the first wait of a producer must ask for "
            "parity 1, which is true from the start"
        )
    return text


def outstanding(barrier: Mbarrier) -> list[str]:
    """Asynchronous work of its block that should perhaps have signalled it, and can't: what a barrier
    waits for that was never arrived at, or until now by work of this kind."""
    if not barrier.pending or any(a.what == "expect" for a in barrier.history):
        return []
    kind = barrier.last_arrival.opcode if barrier.last_arrival is not None else ""
    found = []
    if kind in ("", "tcgen05"):
        found += _uncommitted(barrier)
    if kind in ("", "cp"):
        found += _untracked(barrier)
    if barrier.raised is not None:
        found.append(
            f"the cp.async.mbarrier.arrive of {line_name(barrier.raised)} first adds to the count "
            "what it then takes: to stand for arrivals that the init counts, it has to be .noinc"
        )
    return found


def _uncommitted(barrier: Mbarrier) -> list[str]:
    """tcgen05 operations after which no commit came. A pair's are issued by one of its two blocks."""
    from checkers.simulator.matrices.tensor_pipe import TensorPipe

    wave, found = barrier.wave, {}
    cluster = barrier.block // wave.cluster_size
    for thread, site in wave.state(TensorPipe).uncommitted.items():
        if int(wave.block_of(np.int64(thread))) // wave.cluster_size == cluster:
            found.setdefault(site, thread)
    first = barrier.block * wave.warps_per_block * 32
    return [
        f"the {site.opcode}.{site.modifiers[0]} of {line_name(site)} "
        f"({thread_name(wave, thread, first)}) was never committed to an mbarrier (tcgen05.commit)"
        for site, thread in found.items()
    ]


def _untracked(barrier: Mbarrier) -> list[str]:
    """cp.async copies after which their threads neither waited nor made an mbarrier wait."""
    from checkers.simulator.copies.copies import Copies

    wave = barrier.wave
    copies, each = wave.state(Copies), wave.warps_per_block * 32
    threads = np.arange(barrier.block * each, (barrier.block + 1) * each)
    threads = threads[[site is not None for site in copies.sites[threads]]]
    if not len(threads):
        return []
    left = copies.untracked(threads)
    if not len(left):
        return []
    many = f" and {len(left) - 1} more threads" if len(left) > 1 else ""
    return [
        f"the cp.async of {line_name(copies.sites[left[0]])} ({thread_name(wave, int(left[0]))}{many}) "
        "was never tied to an mbarrier (cp.async.mbarrier.arrive)"
    ]
