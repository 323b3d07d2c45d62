"""Every golden case, by family of instructions."""

from __future__ import annotations

from collections.abc import Callable

from .atomics import atomics
from .case import Case
from .cluster import clusters
from .compare import compare
from .control import control
from .convert import conversions
from .copies import copies
from .floating import approximate, floating
from .half import half
from .integer import bits, integer
from .matrix import matrix
from .mbarriers import mbarriers
from .memory import memory
from .tensor_copy import tensor_copies
from .tensor_map import tensor_maps
from .warp import warp
from .wgmma import wgmma

FAMILIES: dict[str, Callable[[], list[Case]]] = {
    "integer": integer,
    "bits": bits,
    "compare": compare,
    "floating": floating,
    "approximate": approximate,
    "half": half,
    "convert": conversions,
    "warp": warp,
    "control": control,
    "memory": memory,
    "atomics": atomics,
    "copies": copies,
    "mbarrier": mbarriers,
    "tma": tensor_copies,
    "tensor_map": tensor_maps,
    "matrix": matrix,
    "wgmma": wgmma,
    "cluster": clusters,
}
