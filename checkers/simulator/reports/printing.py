"""printf in a kernel: CUDA's vprintf gets a format and a buffer of arguments, 8 bytes each for
doubles and 64-bit integers, 4 for others, aligned to their size."""

from __future__ import annotations

import re
import struct

import numpy as np

from checkers.simulator.machine.group import Group

_FIELD = re.compile(r"%([-+ #0]*)(\d*)(\.\d+)?(hh|h|ll|l|z|j|t)?([diouxXeEfFgGaAcsp%])")
MOST = 4096  # characters of a string


def _bytes_at(group: Group, address: int, count: int) -> bytes:
    """``count`` bytes that the first lane of ``group``, of one lane, loads from ``address``."""
    out = bytearray()
    for at in range(count):
        where = np.full((group.n, 32), address + at, np.uint64)
        raw = group.wave.memory.load(group, "generic", where, 1, 1)[0]
        out.append(int(group.lanes(raw)[0]) & 0xFF)
    return bytes(out)


def text_at(group: Group, address: int) -> str:
    """The zero-terminated string at a generic address."""
    out = bytearray()
    while len(out) < MOST:
        byte = _bytes_at(group, address + len(out), 1)
        if byte == b"\0":
            break
        out += byte
    return out.decode(errors="replace")


def format_printf(group: Group, layout: str, buffer: int) -> str:
    """What printf(layout, ...) writes, the arguments lying at ``buffer``."""
    at = 0

    def argument(match: re.Match[str]) -> str:
        nonlocal at
        flags, width, precision, length, kind = match.groups()
        if kind == "%":
            return "%"
        wide = kind in "eEfFgGaAsp" or length in ("l", "ll", "z", "j", "t")
        size = 8 if wide else 4
        at = -(-at // size) * size
        raw = _bytes_at(group, buffer + at, size)
        at += size
        spec = f"%{flags}{width}{precision or ''}"
        if kind in "eEfFgG":
            return (spec + kind) % struct.unpack("<d", raw)[0]
        if kind in "aA":
            return struct.unpack("<d", raw)[0].hex()
        number = int.from_bytes(raw, "little", signed=kind in "di")
        if kind == "s":
            return (spec + "s") % text_at(group, number)
        if kind == "c":
            return (spec + "c") % chr(number & 0xFF)
        if kind == "p":
            return (spec + "s") % hex(number)
        return (spec + ("d" if kind in "diu" else kind)) % number

    return _FIELD.sub(argument, layout)
