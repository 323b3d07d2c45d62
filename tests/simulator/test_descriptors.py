"""Swizzles and matrix descriptors against the tables and examples of the PTX manual."""

import numpy as np
import pytest

from checkers.simulator.matrices.descriptors import (
    PATTERN_BYTES,
    SWIZZLES,
    MatrixDescriptor,
    locate,
    swizzle,
    tcgen05_descriptor,
    wgmma_descriptor,
)

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


def pack(start, leading, stride, code, bits=62, version=0):
    """A descriptor's 64 bits, offsets in bytes."""
    fields = (start >> 4) | (leading >> 4) << 16 | (stride >> 4) << 32
    return fields | version << 46 | code << bits


def cute(shape, stride, row, column):
    """CuTe's layout function for a (rows, columns) layout of nested modes, in elements."""

    def mode(sizes, strides, index):
        offset = 0
        for size, step in zip(sizes, strides, strict=True):
            offset, index = offset + index % size * step, index // size
        return offset

    return mode(shape[0], stride[0], row) + mode(shape[1], stride[1], column)


# The "exact layouts" of 9.7.15.5.1.2.1.3: name, mn_major, mode, element bytes, shape, stride and
# the offsets that the manual gives for them, in elements.
EXAMPLES = [
    ("K none tf32", False, "none", 4, ((8, 2), (4, 4)), ((4, 32), (1, 64)), 64, 32),
    ("K 32B tf32", False, "32B", 4, ((8, 2), (4, 4)), ((8, 64), (1, 4)), 0, 64),
    ("MN none bf16", True, "none", 2, ((8, 1, 2), (8, 2)), ((1, 8, 64), (8, 128)), 128, 64),
    ("MN 32B bf16", True, "32B", 2, ((8, 2, 2), (8, 2)), ((1, 8, 128), (16, 256)), 128, 256),
    ("MN 64B bf16", True, "64B", 2, ((8, 4, 2), (8, 2)), ((1, 8, 256), (32, 512)), 256, 512),
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e[0])
def test_operands_lie_as_in_the_examples_of_the_manual(example):
    _, mn_major, mode, size, shape, stride, leading, sbo = example
    extent, depth = np.prod(shape[0]), np.prod(shape[1])
    if mode == "32B" and not mn_major:
        depth = 8  # a swizzle atom of 32 bytes; the example goes on into the next one by hand
    code = {"none": 0, "64B": 2, "32B": 3}[mode]
    found = wgmma_descriptor(pack(0x2000, leading * size, sbo * size, code))
    assert found == MatrixDescriptor(0x2000, leading * size, sbo * size, mode)
    tile = locate(found, int(extent), int(depth), size, mn_major)
    assert tile.problem == ""
    for mn in range(extent):
        for k in range(depth):
            where = np.int64(0x2000 + size * cute(shape, stride, mn, k))
            row, along = (k, mn) if mn_major else (mn, k)
            cell, within = divmod(along * size, 16)
            assert tile.cells[row, cell] + within == swizzle(where, mode)


@pytest.mark.parametrize("mode", ["32B", "64B", "128B"])
def test_stepping_along_k_by_the_start_address_stays_in_the_pattern(mode):
    """What kernels do: k16 slices of one swizzle atom, 32 bytes apart."""
    span = {"32B": 32, "64B": 64, "128B": 128}[mode]
    code = {"128B": 1, "64B": 2, "32B": 3}[mode]
    rows = np.arange(64)[:, None]
    whole = swizzle(0x4000 + rows * span + np.arange(span)[None, :], mode)
    for step in range(0, span, 32):
        tile = locate(wgmma_descriptor(pack(0x4000 + step, 16, 8 * span, code)), 64, 16, 2, False)
        assert (tile.cells == whole[:, step : step + 32 : 16]).all()


def test_blackwell_names_its_swizzles_by_other_codes():
    for code, mode in {0: "none", 1: "128B-32B-atom", 2: "128B", 4: "64B", 6: "32B"}.items():
        found = tcgen05_descriptor(pack(0x400, 256, 512, code, bits=61, version=1))
        assert (found.mode, found.malformed) == (mode, "")
    atom = tcgen05_descriptor(pack(0x400, 2048, 512, 1, bits=61, version=1))
    tile = locate(atom, 64, 8, 4, True)  # tf32, MN-major: lines of 32 elements, four k an atom
    where = 0x400 + np.arange(8)[:, None] % 4 * 128 + np.arange(8)[:, None] // 4 * 512
    where = where + np.arange(16) % 8 * 16 + np.arange(16) // 8 * 2048
    assert (tile.cells == swizzle(where, "128B-32B-atom")).all() and tile.problem == ""


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (wgmma_descriptor(pack(0x400, 16, 1024, 1, version=1)), "tcgen05"),
        (wgmma_descriptor(pack(0x400, 16, 1024, 1) | 3 << 49), "base offset is 3"),
        (wgmma_descriptor(pack(0x480, 16, 1024, 1)), "no multiple of 1024 bytes"),
        (wgmma_descriptor(pack(0x500, 16, 512, 2)), "no multiple of 512 bytes"),
        (wgmma_descriptor(pack(0x400, 16, 0, 1)), "at one address"),
        (wgmma_descriptor(pack(0x400, 128, 128, 0)), "at one address"),
        (tcgen05_descriptor(pack(0x400, 16, 1024, 2, bits=61)), "wgmma"),
        (tcgen05_descriptor(pack(0x400, 16, 1024, 3, bits=61, version=1)), "no swizzling mode"),
        (tcgen05_descriptor(pack(0x400, 16, 1024, 1, bits=61, version=1)), "32-bit elements"),
        (tcgen05_descriptor(pack(0x400, 16, 1024, 2, 61, 1) | 1 << 52), "absolute address"),
    ],
)
def test_a_descriptor_that_cannot_be_right_says_why(found, words):
    assert words in locate(found, 64, 16, 2, False).problem
    good = wgmma_descriptor(pack(0x400, 16, 1024, 1))
    assert locate(good, 64, 16, 2, False).problem == ""
