"""Eight layout puzzles: from a matrix's rows to a swizzle without bank conflicts.

A layout is a function from coordinates to offsets, written as shape:stride. Each answer here is such
a function; read them in order, every one is a few lines. The functions that call ``cute`` must run
while a ``@cute.jit`` function is traced: ``checkers.layouts.evaluate`` does that.
Source of the algebra: CUTLASS documentation, "CuTe layouts" and "CuTe layout algebra".
"""

# %% setup
import cutlass.cute as cute

# %% exercise ch03.row_major


def padded_row_major(M: int, N: int, pitch: int) -> cute.Layout:
    """The layout of an M x N matrix stored row by row, with a row beginning every ``pitch`` elements.

    Coordinate (i, j) is row i, column j. pitch >= N; what is between is padding.
    """
    ### BEGIN SOLUTION return the layout: its shape, and a stride for each mode (1 line)
    return cute.make_layout((M, N), stride=(pitch, 1))
    ### END SOLUTION


# %% exercise ch03.offset


def offset(index: int, shape: tuple[int, ...], stride: tuple[int, ...]) -> int:
    """Where the element that a single number names lies in memory, in elements.

    index: 0 .. size - 1. It counts the coordinates with the FIRST mode running fastest.
    shape, stride: one integer a mode.
    """
    where = 0
    for extent, step in zip(shape, stride, strict=True):
        ### BEGIN SOLUTION add this mode's part to `where`; leave in `index` what the next modes get (2 lines)
        where += index % extent * step
        index //= extent
        ### END SOLUTION
    return where


# %% exercise ch03.coalesce


def coalesce(
    shape: tuple[int, ...], stride: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The same offset for every index, with the fewest modes; returns (shape, stride).

    shape, stride: one integer a mode, the first mode fastest.
    """
    modes: list[tuple[int, int]] = []  # (extent, step), merged as far as possible
    for extent, step in zip(shape, stride, strict=True):
        if extent == 1:  # its coordinate is always 0, so its step is never taken
            continue
        ### BEGIN SOLUTION grow modes[-1] where this mode carries straight on from it, else append (4 lines)
        if modes and step == modes[-1][0] * modes[-1][1]:
            modes[-1] = (modes[-1][0] * extent, modes[-1][1])
        else:
            modes.append((extent, step))
        ### END SOLUTION
    modes = modes or [(1, 0)]
    return tuple(extent for extent, _ in modes), tuple(step for _, step in modes)


# %% exercise ch03.compose


def every_nth_column(matrix: cute.Layout, n: int) -> cute.Layout:
    """The view of a matrix that keeps columns 0, n, 2n, ... and all rows.

    matrix: a layout of two modes (M, N), with any strides, and N a multiple of n.
    Returns the layout of the M x (N / n) view: no element moves.
    """
    M, N = cute.size(matrix, mode=[0]), cute.size(matrix, mode=[1])
    ### BEGIN SOLUTION compose `matrix` with a layout that picks its rows, and one that picks its columns (1 to 3 lines)
    rows = cute.make_layout(M, stride=1)
    columns = cute.make_layout(N // n, stride=n)
    return cute.composition(matrix, (rows, columns))
    ### END SOLUTION


# %% exercise ch03.tile


def tiled(M: int, N: int, pitch: int, tile_m: int, tile_n: int) -> cute.Layout:
    """A row-major matrix cut into tiles: coordinate ((i, j), (tm, tn)) is row i, column j of the
    tile in row tm and column tn of tiles.

    M, N: multiples of tile_m, tile_n.  pitch: elements from one row's beginning to the next's.
    Returns the layout with shape ((tile_m, tile_n), (M / tile_m, N / tile_n)).
    """
    ### BEGIN SOLUTION return the layout of two modes: place in the tile, and which tile (1 to 4 lines)
    return cute.make_layout(
        ((tile_m, tile_n), (M // tile_m, N // tile_n)),
        stride=((pitch, 1), (tile_m * pitch, tile_n)),
    )
    ### END SOLUTION


# %% exercise ch03.ragged_tile


def valid_elements(M: int, N: int, tile_m: int, tile_n: int) -> list[list[int]]:
    """How many slots of each tile hold an element of the M x N matrix; tiles may hang over its edges.

    Returns a list a row of tiles, with a number for each tile of that row.
    """
    coordinates = cute.zipped_divide(cute.make_identity_layout((M, N)), (tile_m, tile_n))
    tiles_m, tiles_n = coordinates.shape[1]
    counts = [[0] * tiles_n for _ in range(tiles_m)]
    for tm in range(tiles_m):
        for tn in range(tiles_n):
            for slot in range(tile_m * tile_n):
                i, j = coordinates((slot, (tm, tn)))  # row and column in the matrix
                ### BEGIN SOLUTION count the slot, in counts[tm][tn], if its element exists (2 lines)
                if i < M and j < N:
                    counts[tm][tn] += 1
                ### END SOLUTION
    return counts


# %% exercise ch03.tv_layout


def thread_value_layout(M: int, N: int) -> cute.Layout:
    """Who copies what of an M x N row-major tile of 16-bit elements: (thread, value) -> element.

    Every thread has 8 values, next to each other in a row: one load of 16 bytes. Neighbouring
    threads load neighbouring pieces. N is a multiple of 8; there are M * N / 8 threads.
    Element (i, j) of the tile is the number i + j * M: the first mode runs fastest.
    Returns a layout of two modes, (threads, 8); the first may be a tuple.
    """
    threads_per_row = N // 8
    ### BEGIN SOLUTION return the layout: (thread's place in its row, thread's row) and value, each with its step (1 to 4 lines)
    return cute.make_layout(
        ((threads_per_row, M), 8),
        stride=((8 * M, 1), M),
    )
    ### END SOLUTION


# %% exercise ch03.swizzle


def conflict_free(rows: int, columns: int, element_bytes: int) -> cute.ComposedLayout:
    """A tile in shared memory that is read by columns and written by rows without a bank conflict.

    By columns: 8 lanes take 16 bytes each, from 8 consecutive rows (the first a multiple of 8) at
    the same column. By rows: 8 lanes take 16 bytes each, next to each other along the rows.
    rows, columns, element_bytes: powers of two; rows >= 8, and a row has 32 to 512 bytes.
    The tile uses no more memory than its elements need, and keeps every 16 bytes of a row together.
    """
    plain = cute.make_layout((rows, columns), stride=(columns, 1))
    chunk = 16 // element_bytes  # elements in 16 bytes
    chunks_per_row = columns // chunk
    ### BEGIN SOLUTION return `plain` behind a swizzle: how many bits, from which on, and how far away the others are (2 to 5 lines)
    bits = min(chunks_per_row, 8).bit_length() - 1  # 8 chunks of 16 bytes fill the 32 banks
    base = chunk.bit_length() - 1  # the bits below count inside a chunk: leave them alone
    shift = max(chunks_per_row, 8).bit_length() - 1  # up to the first bit that tells rows apart
    return cute.make_composed_layout(cute.make_swizzle(bits, base, shift), 0, plain)
    ### END SOLUTION
