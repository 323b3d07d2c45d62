"""Draws the lesson's pictures anew: `python chapters/ch03_cute_layouts/draw_pictures.py`."""

from __future__ import annotations

from pathlib import Path

import torch

from checkers.layouts import tables
from checkers.lessons.drawings import FAINT, FILLS, INK, Canvas, draw_banks, draw_tv

FOLDER = Path(__file__).parent / "pictures"


def matrix_in_memory() -> str:
    """A 3 x 4 matrix with a pitch of 6, above the strip of memory that holds it."""
    M, N, pitch, side, left = 3, 4, 6, 34, 40
    strip = 216
    canvas = Canvas(left + M * pitch * side + 14, strip + side + 40)
    canvas.text(14, 20, "coordinates (i, j) of a 3 x 4 matrix", 13, INK, "start")
    canvas.text(14, strip - 30, "offsets in memory, by (3,4):(6,1)", 13, INK, "start")
    for i in range(M):
        for j in range(N):
            canvas.cell(left + j * side, 40 + i * side, side, side, FILLS[i])
            canvas.text(left + (j + 0.5) * side, 40 + (i + 0.5) * side, f"{i},{j}", 12)
    canvas.text(left + 5 * side, 57, "offset = 6 * i + 1 * j", 13, INK, "start")
    canvas.text(left + 5 * side, 57 + side, "one row down: 6 further", 12, FAINT, "start")
    canvas.text(left + 5 * side, 57 + 1.6 * side, "one column right: 1 further", 12, FAINT, "start")
    for offset in range(M * pitch):
        i, j = divmod(offset, pitch)
        x, real = left + offset * side, j < N
        canvas.cell(x, strip, side, side, FILLS[i] if real else "#eceff2")
        canvas.text(
            x + side / 2, strip + side / 2, f"{i},{j}" if real else "pad", 12 if real else 9
        )
        canvas.text(x + side / 2, strip + side + 12, str(offset), 10, FAINT)
    return canvas.svg()


def bank_pictures() -> dict[str, str]:
    """Eight lanes reading 16 bytes down a column of 16-bit elements, plain and swizzled."""
    lanes = torch.arange(8)
    plain = tables.plain_tile(8, 64, 2)[lanes, 0] * 2
    swizzled = tables.swizzled(8, 64, 3, 3, 3)[lanes, 0] * 2
    return {
        "banks_plain.svg": draw_banks(plain.tolist(), 16, "rows of 128 bytes, plain"),
        "banks_swizzled.svg": draw_banks(swizzled.tolist(), 16, "rows of 128 bytes, Sw<3,3,3>"),
    }


def pictures() -> dict[str, str]:
    """The text of each picture, by file name."""
    return {
        "matrix_in_memory.svg": matrix_in_memory(),
        "thread_values.svg": draw_tv(
            (4, 32), tables.thread_value(4, 32), "who copies what: 16 threads, 8 values each"
        ),
        **bank_pictures(),
    }


if __name__ == "__main__":
    for name, svg in pictures().items():
        (FOLDER / name).write_text(svg, encoding="utf-8")
