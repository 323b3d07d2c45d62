"""A small picture, in text, of where an answer is wrong."""

from __future__ import annotations

import torch

from checkers.grading.poison import poisoned

RIGHT, WRONG, NAN, UNWRITTEN = ".", "#", "N", "U"
MEANING = {RIGHT: "right", WRONG: "wrong", NAN: "nan", UNWRITTEN: "never written"}
PART = {RIGHT: "all ", WRONG: "some ", NAN: "", UNWRITTEN: ""}


def draw(
    wrong_mask: torch.Tensor,
    got: torch.Tensor | None = None,
    unwritten: torch.Tensor | None = None,
    width: int = 64,
    height: int = 12,
) -> str:
    """Lines of '.' (right), '#' (wrong), 'N' (wrong, NaN) and 'U' (never written).

    A character stands for a rectangle of elements and shows the worst in it. Below the picture
    stand the axes, the scale and what the characters mean. The last dimension runs to the right, all others
    together run down; a tensor of one dimension is broken into lines.

    wrong_mask: bool, any shape.  got: the answer, same shape; without it no N is drawn.
    unwritten: bool, same shape; None: where ``got`` still holds poison.
    """
    layers = [(WRONG, wrong_mask)]
    if got is not None:
        layers.append((NAN, wrong_mask & got.isnan()))
        unwritten = poisoned(got) if unwritten is None else unwritten
    if unwritten is not None:
        layers.append((UNWRITTEN, wrong_mask & unwritten))

    shape = wrong_mask.shape
    if len(shape) < 2:
        return _draw_line([(mark, layer.flatten()) for mark, layer in layers], width, height)
    columns = shape[-1]
    rows = shape[:-1].numel()
    cell_rows, cell_columns = -(-rows // height), -(-columns // width)
    grids = [
        (mark, _cells(layer.reshape(rows, columns), cell_rows, cell_columns))
        for mark, layer in layers
    ]
    lines = _paint(grids)
    labels = [str(row * cell_rows) for row in range(len(lines))]
    down = "row" if len(shape) == 2 else f"rows ({' x '.join(map(str, shape[:-1]))} together)"
    return _framed(
        lines, labels, columns, f"{down} down, column to the right", cell_rows, cell_columns
    )


def _draw_line(layers: list[tuple[str, torch.Tensor]], width: int, height: int) -> str:
    length = layers[0][1].numel()
    cell = -(-length // (width * height))
    cells = -(-length // cell) if length else 0
    across = min(width, cells)
    marks = "".join(
        _paint([(mark, _cells(layer.reshape(1, -1), 1, cell)) for mark, layer in layers])
    )
    lines = [marks[start : start + across] for start in range(0, cells, max(1, across))]
    labels = [str(line * across * cell) for line in range(len(lines))]
    return _framed(lines, labels, min(length, across * cell), "index, line by line", 1, cell)


def _cells(layer: torch.Tensor, cell_rows: int, cell_columns: int) -> torch.Tensor:
    """(rows, columns) bool -> whether anything is set in each cell_rows x cell_columns piece."""
    rows, columns = layer.shape
    padded = torch.nn.functional.pad(layer, (0, -columns % cell_columns, 0, -rows % cell_rows))
    tall, wide = padded.shape[0] // cell_rows, padded.shape[1] // cell_columns
    return padded.reshape(tall, cell_rows, wide, cell_columns).any(dim=3).any(dim=1).cpu()


def _paint(grids: list[tuple[str, torch.Tensor]]) -> list[str]:
    """Later grids cover earlier ones."""
    rows, columns = grids[0][1].shape
    canvas = [[RIGHT] * columns for _ in range(rows)]
    for mark, grid in grids:
        for row, column in grid.nonzero().tolist():
            canvas[row][column] = mark
    return ["".join(row) for row in canvas]


def _framed(
    lines: list[str], labels: list[str], columns: int, axes: str, cell_rows: int, cell_columns: int
) -> str:
    margin = max((len(label) for label in labels), default=1)
    drawn = len(lines[0]) if lines else 0
    last = str(columns - 1)
    ruler = "0" + last.rjust(drawn - 1) if drawn > len(last) + 1 else "0"
    alone = cell_rows == cell_columns == 1
    scale = (
        "one element a character" if alone else f"{cell_rows} x {cell_columns} elements a character"
    )
    marks = [mark for mark in MEANING if any(mark in line for line in lines)]
    legend = ", ".join(f"{mark} {'' if alone else PART[mark]}{MEANING[mark]}" for mark in marks)
    body = [f"{label.rjust(margin)} {line}" for label, line in zip(labels, lines, strict=True)]
    return "\n".join([f"{' ' * margin} {ruler}", *body, axes, f"{scale}: {legend}"])
