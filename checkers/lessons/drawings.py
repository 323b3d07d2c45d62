"""Pictures of layouts, thread-value layouts and bank conflicts, as SVG text.

``draw_*`` make the text from plain numbers, the same text for the same numbers. ``show_*`` call a
function that returns a CuTe layout and show its picture in a notebook.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import torch

from checkers.layouts.banks import BANKS, bank_words
from checkers.layouts.evaluation import NotALayout, evaluate

LARGEST_PICTURE = 1024  # cells

# Light fills that dark text can be read on, told apart by lightness as well as by hue.
FILLS = (
    "#bcd7f5", "#fbd5a5", "#bfe5c4", "#f3c1c9", "#dccdf0", "#f2ec9f", "#a9dfe0", "#d9d2c5",
)  # fmt: skip
PAPER, INK, FAINT, ALARM = "#ffffff", "#1c2733", "#6b7785", "#c62828"
FONT = "font-family='DejaVu Sans, Verdana, sans-serif'"


@dataclass
class Canvas:
    """An SVG picture under construction, on white paper so that it can be read on any page."""

    width: float
    height: float
    parts: list[str] = field(default_factory=list)

    def cell(
        self, x: float, y: float, w: float, h: float, fill: str, edge: str = "#8b97a5"
    ) -> None:
        self.parts.append(
            f"<rect class='cell' x='{x:g}' y='{y:g}' width='{w:g}' height='{h:g}' "
            f"fill='{fill}' stroke='{edge}' stroke-width='0.8'/>"
        )

    def text(
        self, x: float, y: float, words: str, size: float, color: str = INK, anchor: str = "middle"
    ) -> None:
        """Words centred on height y."""
        self.parts.append(
            f"<text x='{x:g}' y='{y + 0.35 * size:g}' font-size='{size:g}' fill='{color}' "
            f"text-anchor='{anchor}'>{escape(words)}</text>"
        )

    def line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self.parts.append(
            f"<line x1='{x1:g}' y1='{y1:g}' x2='{x2:g}' y2='{y2:g}' stroke='{INK}' "
            "stroke-width='2.2' stroke-linecap='square'/>"
        )

    def svg(self) -> str:
        return (
            f"<svg xmlns='http://www.w3.org/2000/svg' width='{self.width:g}' "
            f"height='{self.height:g}' viewBox='0 0 {self.width:g} {self.height:g}' {FONT}>\n"
            f"<rect width='{self.width:g}' height='{self.height:g}' rx='6' fill='{PAPER}'/>\n"
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


def shade(position: float) -> str:
    """From white (0.0) to a mid blue (1.0): how late in memory an element comes."""
    low, high = (250, 252, 255), (126, 170, 228)
    return "#" + "".join(
        f"{round(a + (b - a) * position):02x}" for a, b in zip(low, high, strict=True)
    )


def draw_layout(
    offsets: torch.Tensor | Sequence, title: str = "", groups: torch.Tensor | Sequence | None = None
) -> str:
    """A grid with each coordinate's offset; the darker, the later in memory.

    offsets: (rows, columns) or (columns,) integers; negative means "no element here".
    groups: integers of the same shape, a colour each, with a line between different ones (tiles).
    Raises ValueError for more than 1024 cells, or more than two dimensions.
    """
    grid = _grid(offsets)
    owners = None if groups is None else _grid(groups)
    rows, columns = len(grid), len(grid[0])
    side, left, top = 34, 40, 58 if title else 36
    canvas = _frame(columns, rows, side, left, top, title)
    last = max(max(row) for row in grid) or 1
    for i, row in enumerate(grid):
        for j, offset in enumerate(row):
            fill = shade(offset / last) if owners is None else FILLS[owners[i][j] % len(FILLS)]
            x, y = left + j * side, top + i * side
            canvas.cell(x, y, side, side, fill if offset >= 0 else "#eceff2")
            words = str(offset) if offset >= 0 else "·"
            canvas.text(x + side / 2, y + side / 2, words, 13 if len(words) < 4 else 10)
    if owners is not None:
        _borders(canvas, owners, side, left, top)
    return canvas.svg()


def draw_tv(
    tile: tuple[int, int], elements: torch.Tensor | Sequence[Sequence[int]], title: str = ""
) -> str:
    """A tile with the owner of each element: thread in large type, value in small.

    tile: (M, N).  elements: (threads, values), the element that each thread's value is, counted
    down the columns: i + j * M. One that several own is red, one that nobody owns is empty.
    Raises ValueError for a tile of more than 1024 elements.
    """
    M, N = tile
    if M * N > LARGEST_PICTURE:
        raise ValueError(f"a tile of {M} x {N} has too many elements for a picture: draw a part")
    owners: dict[int, list[tuple[int, int]]] = {}
    for thread, values in enumerate(torch.as_tensor(elements).tolist()):
        for value, element in enumerate(values):
            owners.setdefault(element, []).append((thread, value))
    side, left, top = 34, 40, 58 if title else 36
    canvas = _frame(N, M, side, left, top, title)
    for i in range(M):
        for j in range(N):
            x, y = left + j * side, top + i * side
            own = owners.get(i + j * M, [])
            if len(own) == 1:
                canvas.cell(x, y, side, side, FILLS[own[0][0] % len(FILLS)])
                canvas.text(x + side / 2, y + 12, f"T{own[0][0]}", 11)
                canvas.text(x + side / 2, y + 25, f"v{own[0][1]}", 9, FAINT)
            else:
                canvas.cell(x, y, side, side, "#f6b4b0" if own else "#eceff2")
                canvas.text(
                    x + side / 2, y + side / 2, f"{len(own)} own" if own else "none", 9, ALARM
                )
    return canvas.svg()


def draw_banks(addresses: Sequence[int], width: int = 4, title: str = "") -> str:
    """One access to shared memory: a column a bank, a row a trip, the lane's number in the cell.

    addresses: byte address of each lane.  width: bytes that each lane reads.
    """
    addresses = [int(address) for address in addresses]
    words = bank_words(addresses, width)
    trips = max((len(asked) for asked in words.values()), default=1)
    reader = {}
    for lane, address in enumerate(addresses):
        for word in range(address // 4, (address + max(width, 1) - 1) // 4 + 1):
            reader.setdefault(word, lane)
    side, left, top = 22, 58, 64
    canvas = Canvas(left + BANKS * side + 14, top + trips * side + 14)
    verdict = (
        "1 trip, no conflict" if trips == 1 else f"{trips} trips, a bank conflict of {trips} ways"
    )
    canvas.text(14, 16, f"{title}: {verdict}" if title else verdict, 13, INK, "start")
    canvas.text(left + BANKS * side / 2, 36, "bank", 10, FAINT)
    for bank in range(BANKS):
        canvas.text(left + (bank + 0.5) * side, top - 10, str(bank), 9, FAINT)
        asked = words.get(bank, [])
        for trip in range(trips):
            x, y = left + bank * side, top + trip * side
            lane = reader[asked[trip]] if trip < len(asked) else None
            canvas.cell(x, y, side, side, "#f4f6f8" if lane is None else FILLS[lane % len(FILLS)])
            if lane is not None:
                canvas.text(x + side / 2, y + side / 2, str(lane), 10)
    for trip in range(trips):
        canvas.text(left - 8, top + (trip + 0.5) * side, f"trip {trip + 1}", 10, FAINT, "end")
    return canvas.svg()


def draw_note(words: str) -> str:
    """One line of text, in a picture's place."""
    canvas = Canvas(max(260, 8 * len(words) + 28), 40)
    canvas.text(14, 20, words, 13, FAINT, "start")
    return canvas.svg()


def show_layout(function: Callable[..., Any], *arguments: Any, tiles: bool = False) -> Any:
    """Shows the layout that ``function(*arguments)`` returns; its own text is the title.

    tiles: colour by the second mode (which tile), for the result of a divide. The picture then
    has a row a tile and a column a place in it.
    An exercise that is still blank, or returns no layout, gets a note in the picture's place.
    """

    def draw() -> str:
        table = evaluate(lambda: function(*arguments))
        offsets = table.offsets
        if not tiles:
            return draw_layout(offsets, table.text)
        by_tile = offsets.T
        owners = torch.arange(by_tile.shape[0])[:, None].expand_as(by_tile)
        return draw_layout(by_tile, table.text, owners)

    return _display(draw)


def show_tiles(shape: tuple[int, int], function: Callable[..., Any], *arguments: Any) -> Any:
    """Shows which tile each element of a matrix belongs to.

    shape: (M, N) of the matrix, whose offsets are counted along the rows: i * N + j.
    function(*arguments): a layout of two modes, place in the tile and which tile.
    """

    def draw() -> str:
        table = evaluate(lambda: function(*arguments))
        M, N = shape
        owners = torch.full((M * N,), -1, dtype=torch.int64)
        for tile, offsets in enumerate(table.offsets.T):
            inside = offsets[(offsets >= 0) & (offsets < M * N)]
            owners[inside] = tile
        return draw_layout(torch.arange(M * N).view(M, N), table.text, owners.view(M, N))

    return _display(draw)


def show_tv(tile: tuple[int, int], function: Callable[..., Any], *arguments: Any) -> Any:
    """Shows who owns each element of a tile (M, N), for the thread-value layout that
    ``function(*arguments)`` returns."""

    def draw() -> str:
        table = evaluate(lambda: function(*arguments))
        return draw_tv(tile, table.offsets, table.text)

    return _display(draw)


def show_banks(
    function: Callable[..., Any],
    *arguments: Any,
    lanes: Sequence[tuple[int, int]],
    element_bytes: int,
    width: int = 4,
) -> Any:
    """Shows the bank conflicts of one access to a tile in shared memory.

    function(*arguments): the tile's layout.  lanes: the coordinate that each lane reads from.
    width: bytes that each lane reads from there on.
    """

    def draw() -> str:
        table = evaluate(lambda: function(*arguments))
        addresses = [int(table.offsets[at]) * element_bytes for at in lanes]
        return draw_banks(addresses, width, table.text)

    return _display(draw)


def _display(draw: Callable[[], str]) -> Any:
    from IPython.display import SVG

    try:
        return SVG(draw())
    except NotImplementedError:
        return SVG(draw_note("Not solved yet: run this again once the exercise is filled in."))
    except NotALayout as wrong:
        return SVG(draw_note(str(wrong)))


def _grid(numbers: torch.Tensor | Sequence) -> list[list[int]]:
    grid = torch.as_tensor(numbers)
    if grid.dim() not in (1, 2):
        raise ValueError(f"a picture has one or two dimensions, not {grid.dim()}")
    if not 0 < grid.numel() <= LARGEST_PICTURE:
        raise ValueError(f"a picture has 1 to {LARGEST_PICTURE} cells, not {grid.numel()}")
    return grid.reshape(-1, grid.shape[-1]).tolist()


def _frame(columns: int, rows: int, side: int, left: int, top: int, title: str) -> Canvas:
    """A canvas with the title and the numbers of rows (i) and columns (j)."""
    width = max(left + columns * side + 14, 8.2 * len(title) + 28)
    canvas = Canvas(width, top + rows * side + 14)
    if title:
        canvas.text(14, 20, title, 13, INK, "start")
    for j in range(columns):
        canvas.text(left + (j + 0.5) * side, top - 10, str(j), 10, FAINT)
    for i in range(rows):
        canvas.text(left - 8, top + (i + 0.5) * side, str(i), 10, FAINT, "end")
    return canvas


def _borders(canvas: Canvas, owners: list[list[int]], side: int, left: int, top: int) -> None:
    """A line wherever two neighbours have different owners."""
    for i, row in enumerate(owners):
        for j, owner in enumerate(row):
            x, y = left + j * side, top + i * side
            if j and row[j - 1] != owner:
                canvas.line(x, y, x, y + side)
            if i and owners[i - 1][j] != owner:
                canvas.line(x, y, x + side, y)
