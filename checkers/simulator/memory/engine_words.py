"""What the operations of an engine are called in a fault, and what waits for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from checkers.simulator.ptx.program import Instruction

ENGINES = {
    "mbarrier": ("a TMA copy", "no wait for its mbarrier lies between"),
    "cp.async": ("a cp.async copy", "no cp.async.wait_group that covers it lies between"),
    "bulk": ("a bulk copy", "no cp.async.bulk.wait_group that covers it lies between"),
    "wgmma": ("a wgmma", "no wgmma.wait_group that covers it lies between"),
    "tcgen05": ("a tcgen05 operation", "no wait for its commit lies between"),
    "st.async": ("an st.async", "no wait for its mbarrier lies between"),
}


def engine_words(kind: str, site: Instruction | None) -> tuple[str, str]:
    """("a TMA copy", what is missing when somebody touches its bytes) for a kind of agent, whose
    operation ``site`` started."""
    if kind.startswith("tcgen05"):
        return f"a {kind}", ENGINES["tcgen05"][1]
    if kind not in ENGINES:
        return f"an operation of {kind}", "no wait for it lies between"
    engine, missing = ENGINES[kind]
    if site is not None and kind in ("mbarrier", "bulk"):
        if site.opcode in ("st", "red"):
            engine = f"an {site.opcode}.async" if site.opcode == "st" else "a red.async"
        else:
            engine = "a TMA copy" if "tensor" in site.modifiers else "a bulk copy"
    return engine, missing
