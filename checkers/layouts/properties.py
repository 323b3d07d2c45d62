"""What single exercises of the layout chapter ask of a table; each ``judge_*`` is a ``Judge``."""

from __future__ import annotations

import torch

from checkers.layouts import tables
from checkers.layouts.banks import bank_trips
from checkers.layouts.judges import judge_offsets

LINE = 64  # 16-bit elements in a 128-byte line of memory


def judge_same_function(table: torch.Tensor, arguments: tuple) -> str | None:
    """Every index leads where it led before."""
    wanted, got = tables.by_index(*arguments), tables.first_fastest(table)
    if len(wanted) != len(got):
        return f"The result has {len(got)} coordinates; wanted {len(wanted)}."
    return judge_offsets(tables.by_index)(got, arguments)


def judge_fewest_modes(table: torch.Tensor, arguments: tuple) -> str | None:
    """No two modes could be one."""
    fewest = tables.merged(*arguments).dim()
    if table.dim() == fewest:
        return None
    return f"The result is the right function in {table.dim()} modes; {fewest} are enough."


def tile_coordinate(index: tuple[int, ...], arguments: tuple) -> str:
    """ "((i, j), (tm, tn))" for a place and a tile that are counted by one number each."""
    M, _, _, tile_m, _ = arguments
    (place, tile), down = index, M // tile_m
    return f"(({place % tile_m}, {place // tile_m}), ({tile % down}, {tile // down}))"


def judge_counts(table: torch.Tensor, arguments: tuple) -> str | None:
    """Each tile's count is that of its slots inside the matrix."""
    wanted = tables.valid_counts(*arguments)
    if table.shape != wanted.shape:
        got, want = tuple(table.shape), tuple(wanted.shape)
        return (
            f"There are counts for {got[0]} rows of {got[-1]} tiles; wanted {want[0]} of {want[1]}."
        )
    wrong = (table != wanted).nonzero().tolist()
    if not wrong:
        return None
    tile = tuple(wrong[0])
    return (
        f"Tile {tile} has {int(wanted[tile])} elements of the matrix in its "
        f"{arguments[2] * arguments[3]} slots; the answer counts {int(table[tile])}."
    )


def judge_vectors(table: torch.Tensor, arguments: tuple) -> str | None:
    """Each thread's values are 8 neighbours in a row, from a multiple of 16 bytes on."""
    M, _ = arguments
    row, column = table % M, table // M
    start = column[:, :1]
    good = (row == row[:, :1]) & (column == start + torch.arange(8)) & (start % 8 == 0)
    wrong = (~good).nonzero().tolist()
    if not wrong:
        return None
    thread, value = wrong[0]
    first, found = ((int(row[thread, v]), int(column[thread, v])) for v in (0, value))
    return (
        f"Thread {thread}'s value 0 is element {first} and its value {value} is {found}: 8 neighbours "
        "of a row are wanted, the first in a column that is a multiple of 8."
    )


def lines_of_warps(table: torch.Tensor, M: int) -> list[int]:
    """128-byte lines that each warp's loads touch, rows beginning at a line each."""
    line = table[:, 0] % M * (1 << 20) + table[:, 0] // M // LINE
    return [len(warp.unique()) for warp in line.split(32)]


def judge_coalesced(table: torch.Tensor, arguments: tuple) -> str | None:
    """Together the warps touch no more lines than they must."""
    M, N = arguments
    got, enough = lines_of_warps(table, M), lines_of_warps(tables.thread_value(M, N), M)
    if sum(got) <= sum(enough):
        return None
    warp = max(range(len(got)), key=lambda w: got[w] - enough[w])
    return f"The 32 loads of warp {warp} touch {got[warp]} lines of 128 bytes; {enough[warp]} are enough."


def judge_chunks(table: torch.Tensor, arguments: tuple) -> str | None:
    """Every 16 bytes of a row are together, and at a multiple of 16 bytes."""
    chunk = tables.CHUNK_BYTES // arguments[2]
    pieces = table.view(table.shape[0], -1, chunk)
    first = pieces[..., :1]
    wrong = ((pieces != first + torch.arange(chunk)) | (first % chunk != 0)).nonzero().tolist()
    if not wrong:
        return None
    row, piece, _ = wrong[0]
    begins, ends = piece * chunk, (piece + 1) * chunk - 1
    return (
        f"Columns {begins} to {ends} of row {row} are 16 bytes, but lie at offsets "
        f"{pieces[row, piece].tolist()}: one 16-byte access can't fetch them."
    )


def judge_trips(table: torch.Tensor, arguments: tuple) -> str | None:
    """Reading by columns and writing by rows take one trip to the banks each."""
    _, columns, element_bytes = arguments
    chunk = tables.CHUNK_BYTES // element_bytes
    starts = table[:, ::chunk] * element_bytes  # byte address of each 16 bytes, by row and column
    by_columns = {
        f"rows {r} to {r + 7}, column {c * chunk}": starts[r : r + 8, c].tolist()
        for c in range(starts.shape[1])
        for r in range(0, len(starts), 8)
    }
    eights = starts.flatten().split(8)
    by_rows = {
        f"row {8 * n // starts.shape[1]}, from column {8 * n % starts.shape[1] * chunk} on": lanes
        for n, lanes in ((n, eight.tolist()) for n, eight in enumerate(eights))
    }
    for how, accesses in (("Reading", by_columns), ("Writing from", by_rows)):
        trips = {name: bank_trips(lanes, tables.CHUNK_BYTES) for name, lanes in accesses.items()}
        worst = max(trips, key=lambda name: trips[name])
        if trips[worst] > 1:
            return (
                f"{how} {worst}: 8 lanes with 16 bytes each take {trips[worst]} trips to the banks "
                f"({trips[worst]}-way conflict); 1 is wanted."
            )
    return None
