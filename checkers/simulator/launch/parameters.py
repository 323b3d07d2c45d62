"""The parameters and launch bounds that a kernel's PTX declares, and the bytes that a launch gave.

PTX ISA 5.1.6.1 (kernel function parameters), 11.4 (performance-tuning directives), 11.5 (cluster
directives).
"""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from checkers.simulator.ptx.program import TYPE_BITS

_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+\d+\s+)?\.(?P<type>\w+)\s+(?:\.ptr\s+(?:\.\w+\s+)?(?:\.align\s+\d+\s+)?)?"
    r"(?P<name>[\w$%]+)(?:\[(?P<count>\d+)\])?"
)
_TARGET = re.compile(r"^\s*\.target\s+(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Header:
    """sizes: bytes of each parameter.  cluster: .reqnctapercluster, where it is there."""

    sizes: tuple[int, ...]
    cluster: tuple[int, int, int] | None


@lru_cache(maxsize=256)
def header(ptx: str, kernel: str) -> Header:
    """What the .entry of ``kernel`` declares. Raises KeyError where there is none."""
    found = re.search(
        rf"\.entry\s+{re.escape(kernel)}(?![\w$%])\s*(?:\((?P<parameters>[^)]*)\))?(?P<rest>[^{{;]*)[{{;]",
        ptx,
    )
    if found is None:
        raise KeyError(f"the PTX has no kernel {kernel!r}")
    sizes = tuple(
        TYPE_BITS[match["type"]] // 8 * int(match["count"] or 1)
        for match in _PARAMETER.finditer(found["parameters"] or "")
    )
    cluster = re.search(r"\.reqnctapercluster\s+([\d,\s]+)", found["rest"])
    return Header(sizes, _three(cluster[1]) if cluster else None)


def module_with(modules: Iterable[str], kernel: str) -> str:
    """The PTX that has the kernel. Raises KeyError where none has."""
    for ptx in modules:
        with contextlib.suppress(KeyError):
            header(ptx, kernel)
            return ptx
    raise KeyError(f"no PTX was kept that has a kernel {kernel!r}")


def target(ptx: str) -> str:
    """ "sm_90a"."""
    found = _TARGET.search(ptx)
    if found is None:
        raise ValueError("the PTX names no .target")
    return found[1]


def read(ptx: str, kernel: str, pointers: int) -> list[bytes]:
    """The bytes of each parameter. ``pointers``: the address of an array of pointers to them, as
    cuLaunchKernel takes it."""
    sizes = header(ptx, kernel).sizes
    if not sizes:
        return []
    addresses = (ctypes.c_void_p * len(sizes)).from_address(pointers)
    return [ctypes.string_at(address, size) for address, size in zip(addresses, sizes, strict=True)]


def _three(text: str) -> tuple[int, int, int]:
    sizes = [int(part) for part in text.replace(" ", "").strip(",\n").split(",") if part.strip()]
    x, y, z = (*sizes, 1, 1, 1)[:3]
    return (x, y, z)
