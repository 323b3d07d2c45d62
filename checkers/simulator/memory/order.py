"""What an instruction asks of memory, apart from where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# PTX ISA 8.5. The strength of an instruction: 0 weak, else the number of its scope.
SCOPES = {"cta": 1, "cluster": 2, "gpu": 3, "sys": 3}
WIDEST_SCOPE = 3
SCOPE_NAMES = {1: ".cta", 2: ".cluster", 3: ".gpu"}

# update(memory, index, operands, is_global) -> what was there. See Memory.atomic.
Update = Callable[[np.ndarray, np.ndarray, list[np.ndarray], bool], np.ndarray]


@dataclass(frozen=True)
class Order:
    """bytes_each, count: of the elements of one lane.  semantics: "weak", "volatile", "relaxed",
    "acquire", "release", "acq_rel", "mmio".  strength: see SCOPES.  space: as written.
    coherent: False for ld.global.nc.  returns: False for red.
    """

    space: str
    bytes_each: int
    count: int
    semantics: str = "weak"
    strength: int = 0
    coherent: bool = True
    returns: bool = True

    @property
    def width(self) -> int:
        """Bytes of one lane."""
        return self.bytes_each * self.count

    @property
    def acquires(self) -> bool:
        return self.semantics in ("acquire", "acq_rel")

    @property
    def releases(self) -> bool:
        return self.semantics in ("release", "acq_rel")


def order_of(
    space: str,
    bytes_each: int,
    count: int,
    semantics: str,
    scope: str,
    coherent: bool = True,
    returns: bool = True,
) -> Order:
    """Volatile and mmio accesses count as relaxed.sys (PTX ISA 8.4)."""
    if semantics == "weak":
        strength = 0
    elif semantics in ("volatile", "mmio"):
        strength = SCOPES["sys"]
    else:
        strength = SCOPES[scope]
    return Order(space, bytes_each, count, semantics, strength, coherent, returns)
