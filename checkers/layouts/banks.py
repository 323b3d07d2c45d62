"""Shared memory's banks, and how many trips an access needs because of them."""

from __future__ import annotations

from collections.abc import Sequence

BANKS, WORD = 32, 4  # each bank is 4 bytes wide


def bank_words(addresses: Sequence[int], width: int = WORD) -> dict[int, list[int]]:
    """What one shared-memory access asks of each bank: {bank: the different words in it}.

    addresses: byte address of each lane.  width: bytes that each lane reads, a multiple of 4 (or
    less than 4: the word that holds them). A word that several lanes ask for is served once.
    """
    words: dict[int, list[int]] = {}
    for address in addresses:
        for word in range(address // WORD, (address + max(width, 1) - 1) // WORD + 1):
            asked = words.setdefault(word % BANKS, [])
            if word not in asked:
                asked.append(word)
    return words


def bank_trips(addresses: Sequence[int], width: int = WORD) -> int:
    """How many trips to shared memory one access takes: 1 when no bank has two words to serve.

    The hardware serves at most 128 bytes a trip, so pass the lanes that share one: 32 lanes of
    4 bytes, 16 of 8, 8 of 16.
    """
    return max((len(words) for words in bank_words(addresses, width).values()), default=0)
