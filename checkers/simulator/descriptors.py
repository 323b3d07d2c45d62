"""Where a matrix lies in shared memory: swizzles and the matrix descriptors of wgmma and tcgen05.

PTX ISA 5.5.7 (swizzling modes), 9.7.15.5.1.2 (wgmma) and 9.7.16.3, 9.7.16.4.1 (tcgen05). All is in
*cells* of 16 bytes, the unit that no swizzle breaks up. The XOR of a swizzle is taken on the final
absolute shared address, not on the offset from the descriptor's start: kernels step along K inside
a swizzle atom by adding to the start address alone, and only this reading gives them their data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

CELL = 16  # bytes

# mode -> (lowest bit changed, number of bits, distance to the bits that are XORed in)
SWIZZLES = {
    "none": (4, 0, 3),
    "32B": (4, 1, 3),
    "64B": (4, 2, 3),
    "128B": (4, 3, 3),
    "128B-32B-atom": (5, 2, 2),
    "128B-64B-atom": (6, 1, 1),
}
# The bytes after which the pattern of a mode repeats; a start address aligned to it has phase 0.
PATTERN_BYTES = {
    "none": 16,
    "32B": 256,
    "64B": 512,
    "128B": 1024,
    "128B-32B-atom": 512,
    "128B-64B-atom": 256,
}


def swizzle(addresses: np.ndarray, mode: str) -> np.ndarray:
    """The byte addresses at which the bytes of ``addresses`` lie under a swizzling mode (5.5.7).

    addresses: any shape, an integer dtype, absolute shared addresses in bytes; the same shape and
    dtype comes back. mode: a key of SWIZZLES; KeyError otherwise. It is its own inverse.
    """
    base, bits, distance = SWIZZLES[mode]
    if bits == 0:
        return addresses
    addresses = np.asarray(addresses)
    mask = addresses.dtype.type(((1 << bits) - 1) << base)
    return addresses ^ ((addresses >> addresses.dtype.type(distance)) & mask)
