"""Swizzles and matrix descriptors against the tables and examples of the PTX manual."""

import numpy as np
import pytest

from checkers.simulator.descriptors import PATTERN_BYTES, SWIZZLES, swizzle

# PTX ISA 5.5.7: which 16-byte cell of the source each 128-byte line holds, line by line.
TABLES = {
    "none": ["01234567"],
    "32B": ["01234567", "10325476"],
    "64B": ["01234567", "10325476", "23016745", "32107654"],
    "128B": [
        "01234567", "10325476", "23016745", "32107654",
        "45670123", "54761032", "67452301", "76543210",
    ],
    "128B-32B-atom": ["01234567", "23016745", "45670123", "67452301"],
    "128B-64B-atom": ["01234567", "45670123"],
}  # fmt: skip


@pytest.mark.parametrize("mode", SWIZZLES)
def test_swizzle_is_the_table_of_the_manual(mode):
    lines = TABLES[mode] * 2  # the pattern repeats
    addresses = np.arange(len(lines) * 8, dtype=np.int64) * 16 + 0x4000
    placed = (swizzle(addresses, mode) - 0x4000) // 16
    memory = np.empty(len(placed), dtype=np.int64)
    memory[placed] = np.arange(len(placed)) % 8
    assert ["".join(map(str, line)) for line in memory.reshape(-1, 8)] == lines
    if mode != "none":
        assert PATTERN_BYTES[mode] == 128 * len(TABLES[mode])


@pytest.mark.parametrize("mode", SWIZZLES)
@pytest.mark.parametrize("dtype", [np.int64, np.uint32, np.uint64])
def test_swizzle_is_its_own_inverse_and_keeps_the_low_bits(mode, dtype):
    addresses = np.random.default_rng(0).integers(0, 1 << 18, 4096).astype(dtype)
    there = swizzle(addresses, mode)
    assert there.dtype == dtype
    assert (swizzle(there, mode) == addresses).all()
    assert (there % 16 == addresses % 16).all() and (there >> 10 == addresses >> 10).all()
