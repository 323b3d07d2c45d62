"""The tables of the layout chapter: those that are right, and those of known misreadings.

All are int64, a dimension a mode, computed with plain tensor arithmetic and without CuTe.
"""

from __future__ import annotations

import math

import torch

Shape = tuple[int, ...]

VECTOR = 8  # 16-bit elements in 16 bytes
CHUNK_BYTES = 16


def strided(shape: Shape, stride: Shape) -> torch.Tensor:
    """The dot product of each coordinate with the strides."""
    table = torch.zeros(shape, dtype=torch.int64)
    for mode, (extent, step) in enumerate(zip(shape, stride, strict=True)):
        along = torch.arange(extent) * step
        table += along.view([-1 if other == mode else 1 for other in range(len(shape))])
    return table


def first_fastest(table: torch.Tensor) -> torch.Tensor:
    """The table in one dimension, its first mode running fastest: CuTe's order."""
    return table.permute(*reversed(range(table.dim()))).reshape(-1)


def nested(shape: tuple, stride: tuple) -> torch.Tensor:
    """As ``strided``, for modes that may be tuples of integers themselves."""
    modes = [
        (s, d) if isinstance(s, tuple) else ((s,), (d,)) for s, d in zip(shape, stride, strict=True)
    ]
    lines = [first_fastest(strided(s, d)) for s, d in modes]
    return strided(tuple(map(len, lines)), (0,) * len(lines)) + sum(
        line.view([-1 if other == mode else 1 for other in range(len(lines))])
        for mode, line in enumerate(lines)
    )


# --- row_major (M, N, pitch) ---------------------------------------------------------------------


def padded(M: int, N: int, pitch: int) -> torch.Tensor:
    return strided((M, N), (pitch, 1))


# --- offset (shape, stride) ----------------------------------------------------------------------


def by_index(shape: Shape, stride: Shape) -> torch.Tensor:
    return first_fastest(strided(shape, stride))


def last_mode_fastest(shape: Shape, stride: Shape) -> torch.Tensor:
    return strided(shape, stride).reshape(-1)


def index_not_passed_on(shape: Shape, stride: Shape) -> torch.Tensor:
    index = torch.arange(math.prod(shape))
    return sum((index % e * s for e, s in zip(shape, stride, strict=True)), torch.zeros_like(index))


def quotient_for_remainder(shape: Shape, stride: Shape) -> torch.Tensor:
    index = torch.arange(math.prod(shape))
    where = torch.zeros_like(index)
    for extent, step in zip(shape, stride, strict=True):
        where += index // extent * step
        index = index % extent
    return where


# --- coalesce (shape, stride) --------------------------------------------------------------------


def merged(shape: Shape, stride: Shape, count_stride: bool = True) -> torch.Tensor:
    """Neighbouring modes merged; without ``count_stride`` by the extent alone, which is wrong."""
    modes: list[tuple[int, int]] = []
    for extent, step in zip(shape, stride, strict=True):
        last_extent, last_step = modes[-1] if modes else (0, 0)
        if extent > 1 and modes and step == last_extent * (last_step if count_stride else 1):
            modes[-1] = (last_extent * extent, last_step)
        elif extent > 1:
            modes.append((extent, step))
    extents, steps = zip(*(modes or [(1, 0)]), strict=True)
    return strided(extents, steps)


def never_merged(shape: Shape, stride: Shape) -> torch.Tensor:
    modes = [(e, s) for e, s in zip(shape, stride, strict=True) if e > 1] or [(1, 0)]
    extents, steps = zip(*modes, strict=True)
    return strided(extents, steps)


def always_merged(shape: Shape, stride: Shape) -> torch.Tensor:
    steps = [s for e, s in zip(shape, stride, strict=True) if e > 1] or [0]
    return torch.arange(math.prod(shape)) * steps[0]


# --- compose (shape, stride, n) ------------------------------------------------------------------


def every_nth(shape: tuple, stride: tuple, n: int) -> torch.Tensor:
    return nested(shape, stride)[:, ::n]


def first_columns(shape: tuple, stride: tuple, n: int) -> torch.Tensor:
    matrix = nested(shape, stride)
    return matrix[:, : matrix.shape[1] // n]


def every_nth_row(shape: tuple, stride: tuple, n: int) -> torch.Tensor:
    return nested(shape, stride)[::n]


def always_compact(shape: tuple, stride: tuple, n: int) -> torch.Tensor:
    M, N = nested(shape, stride).shape
    return strided((M, N // n), (N, n))


def one_number_for_both(shape: tuple, stride: tuple, n: int) -> torch.Tensor:
    """Row i taken as number i of the whole matrix, column c as number n * c of it."""
    matrix = nested(shape, stride)
    M, N = matrix.shape
    numbered = first_fastest(matrix)
    return numbered[:M, None] + numbered[: N // n * n : n]


# --- tile (M, N, pitch, tile_m, tile_n) ----------------------------------------------------------


def tiles(M: int, N: int, pitch: int, tile_m: int, tile_n: int) -> torch.Tensor:
    return nested(
        ((tile_m, tile_n), (M // tile_m, N // tile_n)),
        ((pitch, 1), (pitch * tile_m, tile_n)),
    )


def tiles_first(M: int, N: int, pitch: int, tile_m: int, tile_n: int) -> torch.Tensor:
    return tiles(M, N, pitch, tile_m, tile_n).T


def rows_then_columns(M: int, N: int, pitch: int, tile_m: int, tile_n: int) -> torch.Tensor:
    return strided((M, N), (pitch, 1))


def tiles_a_step_apart(M: int, N: int, pitch: int, tile_m: int, tile_n: int) -> torch.Tensor:
    return nested(((tile_m, tile_n), (M // tile_m, N // tile_n)), ((pitch, 1), (pitch, 1)))


def tiles_one_after_another(M: int, N: int, pitch: int, tile_m: int, tile_n: int) -> torch.Tensor:
    size = tile_m * tile_n
    return nested(
        ((tile_m, tile_n), (M // tile_m, N // tile_n)),
        ((tile_n, 1), (size * (N // tile_n), size)),
    )


def no_padding(M: int, N: int, pitch: int, tile_m: int, tile_n: int) -> torch.Tensor:
    return tiles(M, N, N, tile_m, tile_n)


# --- ragged_tile (M, N, tile_m, tile_n) ----------------------------------------------------------


def _counts(M: int, N: int, tile_m: int, tile_n: int, valid: torch.Tensor) -> torch.Tensor:
    down, across = -(-M // tile_m), -(-N // tile_n)
    return valid.view(down, tile_m, across, tile_n).sum((1, 3))


def _slots(M: int, N: int, tile_m: int, tile_n: int) -> tuple[torch.Tensor, torch.Tensor]:
    rows, columns = -(-M // tile_m) * tile_m, -(-N // tile_n) * tile_n
    return (
        torch.arange(rows)[:, None].expand(rows, columns),
        torch.arange(columns).expand(rows, columns),
    )


def valid_counts(M: int, N: int, tile_m: int, tile_n: int) -> torch.Tensor:
    i, j = _slots(M, N, tile_m, tile_n)
    return _counts(M, N, tile_m, tile_n, (i < M) & (j < N))


def all_slots(M: int, N: int, tile_m: int, tile_n: int) -> torch.Tensor:
    i, _ = _slots(M, N, tile_m, tile_n)
    return _counts(M, N, tile_m, tile_n, i >= 0)


def by_flat_number(M: int, N: int, tile_m: int, tile_n: int) -> torch.Tensor:
    i, j = _slots(M, N, tile_m, tile_n)
    return _counts(M, N, tile_m, tile_n, i * N + j < M * N)


def rows_only(M: int, N: int, tile_m: int, tile_n: int) -> torch.Tensor:
    i, _ = _slots(M, N, tile_m, tile_n)
    return _counts(M, N, tile_m, tile_n, i < M)


def columns_only(M: int, N: int, tile_m: int, tile_n: int) -> torch.Tensor:
    _, j = _slots(M, N, tile_m, tile_n)
    return _counts(M, N, tile_m, tile_n, j < N)


def one_too_many(M: int, N: int, tile_m: int, tile_n: int) -> torch.Tensor:
    i, j = _slots(M, N, tile_m, tile_n)
    return _counts(M, N, tile_m, tile_n, (i <= M) & (j <= N))


# --- tv_layout (M, N) ----------------------------------------------------------------------------


def thread_value(M: int, N: int) -> torch.Tensor:
    return nested(((N // VECTOR, M), VECTOR), ((VECTOR * M, 1), M))


def value_thread(M: int, N: int) -> torch.Tensor:
    return thread_value(M, N).T


def numbered_by_rows(M: int, N: int) -> torch.Tensor:
    return strided((M * N // VECTOR, VECTOR), (VECTOR, 1))


def threads_down_first(M: int, N: int) -> torch.Tensor:
    return nested(((M, N // VECTOR), VECTOR), ((1, VECTOR * M), M))


def values_far_apart(M: int, N: int) -> torch.Tensor:
    """Value v of thread t is the (t + v * threads)th element of the tile, by rows."""
    threads = M * N // VECTOR
    by_rows = strided((threads, VECTOR), (1, threads))
    return by_rows // N + by_rows % N * M


# --- swizzle (rows, columns, element_bytes) ------------------------------------------------------


def swizzled(rows: int, columns: int, bits: int, base: int, shift: int) -> torch.Tensor:
    """The row-major tile behind Sw<bits, base, shift>: bits base, base + 1, ... of the offset are
    XORed with those ``shift`` above them."""
    plain = strided((rows, columns), (columns, 1))
    return plain ^ ((plain >> shift) & (((1 << bits) - 1) << base))


def plain_tile(rows: int, columns: int, element_bytes: int) -> torch.Tensor:
    return strided((rows, columns), (columns, 1))


def padded_tile(rows: int, columns: int, element_bytes: int) -> torch.Tensor:
    return strided((rows, columns), (columns + CHUNK_BYTES // element_bytes, 1))


def counted_in_bytes(rows: int, columns: int, element_bytes: int) -> torch.Tensor:
    bits, shift = _bits_and_shift(columns * element_bytes // CHUNK_BYTES)
    return swizzled(rows, columns, bits, 4, shift)


def single_elements_moved(rows: int, columns: int, element_bytes: int) -> torch.Tensor:
    bits, shift = _bits_and_shift(columns * element_bytes // CHUNK_BYTES)
    return swizzled(rows, columns, bits, 0, shift)


def always_3_3_3(rows: int, columns: int, element_bytes: int) -> torch.Tensor:
    return swizzled(rows, columns, 3, 3, 3)


def chunks_by_column(rows: int, columns: int, element_bytes: int) -> torch.Tensor:
    chunk = CHUNK_BYTES // element_bytes
    return nested((rows, (chunk, columns // chunk)), (chunk, (1, rows * chunk)))


def _bits_and_shift(chunks_per_row: int) -> tuple[int, int]:
    return min(chunks_per_row, 8).bit_length() - 1, max(chunks_per_row, 8).bit_length() - 1
