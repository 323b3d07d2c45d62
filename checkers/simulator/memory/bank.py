"""A memory's bytes, and access to them at every width."""

from __future__ import annotations

import numpy as np

_ELEMENT = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.uint64}


class Bank:
    """``data``: flat uint8, its length a multiple of 32 and its first byte at an address that is
    one too (or counted as one)."""

    def __init__(self, data: np.ndarray) -> None:
        self.data = data
        self._views: dict[tuple[int, int], np.ndarray] = {}

    def view(self, bytes_each: int, count: int) -> np.ndarray:
        """(accesses, count) of unsigned elements; (accesses, count, 2) uint64 for 16-byte ones."""
        view = self._views.get((bytes_each, count))
        if view is None:
            flat = self.data.view(_ELEMENT[bytes_each])
            shape = (-1, count, 2) if bytes_each == 16 else (-1, count)
            view = self._views[bytes_each, count] = flat.reshape(shape)
        return view

    def take(self, position: np.ndarray, bytes_each: int, count: int) -> np.ndarray:
        """Loads: (k, count) elements at byte ``position`` (k,), each aligned to the whole width."""
        width = bytes_each * count
        return self.view(bytes_each, count).take(position // width, axis=0)

    def give(self, position: np.ndarray, values: np.ndarray, bytes_each: int, count: int) -> None:
        """Stores (k, count) elements; of two at one place the later lane's stays."""
        view, index = self.view(bytes_each, count), position // (bytes_each * count)
        if count == 1 or bytes_each == 16:
            view[index] = values
            return
        values = np.ascontiguousarray(values)
        width = bytes_each * count
        if width == 8:
            view.view(np.uint64)[index, 0] = values.view(np.uint64)[:, 0]
        elif width % 16 == 0 and view.shape[1] == count:
            # As one wide number a row is stored ten times as quickly.
            wide = view.view(np.complex128)
            wide[index] = values.view(np.complex128)
        else:
            view[index] = values

    def bytes_at(self, position: np.ndarray, width: int) -> np.ndarray:
        """(k, width) bytes at ``position``, aligned to ``width`` or not."""
        if len(position) and width & (width - 1) == 0 and not (position % width).any():
            return self.data.reshape(-1, width).take(position // width, axis=0)
        return self.data[position[:, None] + np.arange(width)]

    def set_bytes(self, position: np.ndarray, data: np.ndarray) -> None:
        """Stores (k, width) bytes at ``position``."""
        width = data.shape[1]
        if len(position) and width & (width - 1) == 0 and not (position % width).any():
            self.data.reshape(-1, width)[position // width] = data
            return
        self.data[position[:, None] + np.arange(width)] = data
