"""The pictures of chapter 7, as SVG text: who sends what where, and when.

``python -m checkers.lessons.drawings_ch07`` writes them beside the lesson.
"""

from __future__ import annotations

from pathlib import Path

from checkers.lessons.drawings import ALARM, FAINT, FILLS, INK, Canvas

FOLDER = Path(__file__).parents[2] / "chapters" / "ch07_cluster_reductions" / "pictures"
BLOCKS, WARPS = 4, 2
LEFT, BLOCK_WIDTH, BLOCK_STEP = 30, 150, 175
SLOT = 17.0


def arrow(canvas: Canvas, x1: float, y1: float, x2: float, y2: float, color: str = INK) -> None:
    """A line with a head, that ends a little before (x2, y2)."""
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    x2, y2 = x2 - 2 * dx, y2 - 2 * dy
    left = (x2 - 7 * dx - 3.5 * dy, y2 - 7 * dy + 3.5 * dx)
    right = (x2 - 7 * dx + 3.5 * dy, y2 - 7 * dy - 3.5 * dx)
    canvas.parts.append(
        f"<path d='M{x1:.1f} {y1:.1f} L{x2:.1f} {y2:.1f}' stroke='{color}' stroke-width='1.3' "
        f"fill='none'/><path d='M{x2:.1f} {y2:.1f} L{left[0]:.1f} {left[1]:.1f} "
        f"L{right[0]:.1f} {right[1]:.1f} Z' fill='{color}'/>"
    )


def draw_exchange() -> str:
    """A cluster of four blocks of two warps: all pairs meet in every block."""
    canvas = Canvas(LEFT + BLOCKS * BLOCK_STEP + 5, 356)
    canvas.text(LEFT, 22, "one row, a quarter of it in each block of the cluster", 13, INK, "start")
    slots_y, mbar_y = 236, 292
    for rank in range(BLOCKS):
        x = LEFT + rank * BLOCK_STEP
        canvas.cell(x, 40, BLOCK_WIDTH, 24, FILLS[rank])
        canvas.text(x + BLOCK_WIDTH / 2, 52, f"N/4 elements, block {rank}", 11)
        canvas.cell(x, 84, BLOCK_WIDTH, 250, "#fafbfc")
        for warp in range(WARPS):
            wx = x + 12 + warp * 68
            canvas.cell(wx, 96, 58, 40, FILLS[rank])
            canvas.text(wx + 29, 108, f"warp {warp}", 10)
            canvas.text(wx + 29, 124, "(m, d)", 11)
        canvas.text(x + 8, slots_y + 38, "slots, shared memory", 9, FAINT, "start")
        for pair in range(BLOCKS * WARPS):
            canvas.cell(x + 7 + pair * SLOT, slots_y, SLOT, 26, FILLS[pair // WARPS])
            words = f"{pair // WARPS}.{pair % WARPS}"
            canvas.text(x + 7 + (pair + 0.5) * SLOT, slots_y + 13, words, 8)
        canvas.cell(x + 7, mbar_y, BLOCKS * WARPS * SLOT, 26, "#ffffff")
        canvas.text(x + BLOCK_WIDTH / 2 - 1, mbar_y + 13, "mbarrier: 8 pairs, 64 bytes", 9)
    sender = 1
    for warp in range(WARPS):
        for rank in range(BLOCKS):
            slot = sender * WARPS + warp
            arrow(
                canvas,
                LEFT + sender * BLOCK_STEP + 12 + warp * 68 + 29,
                136,
                LEFT + rank * BLOCK_STEP + 7 + (slot + 0.5) * SLOT,
                slots_y,
            )
    canvas.text(
        LEFT + BLOCKS * BLOCK_STEP - 25,
        345,
        "arrows: the sends of block 1; the other blocks do the same",
        10,
        FAINT,
        "end",
    )
    return canvas.svg()


# What one block does, in the order of time: (words, left, right, row, colour number).
STEPS = (
    ("mbarrier_init, fence", 0.0, 1.45, 0, 1),
    ("arrive", 1.5, 2.0, 0, 1),
    ("loads of the row's part: the long way to memory", 1.5, 5.6, 1, 0),
    ("m, d of each warp", 5.65, 6.8, 1, 2),
    ("expect bytes", 6.85, 7.75, 1, 4),
    ("cluster_wait", 7.8, 8.7, 0, 1),
    ("sends", 8.75, 9.4, 1, 3),
    ("mbarrier_wait", 9.45, 10.5, 0, 4),
    ("combine, scale, store", 10.55, 12.0, 1, 2),
)


def draw_order() -> str:
    """One block's steps along time: what is early, what is late, and what hides what."""
    left, unit, top, height = 20, 60, 50, 30
    canvas = Canvas(left * 2 + 12 * unit, 200)
    canvas.text(left, 22, "one block of the cluster, time to the right", 13, INK, "start")
    for words, start, stop, row, color in STEPS:
        x, y, width = left + start * unit, top + row * 44, (stop - start) * unit
        canvas.cell(x, y, width, height, FILLS[color])
        size = 9 if len(words) * 5.2 < width else 7
        canvas.text(x + width / 2, y + height / 2, words, size)
    arrived, waited = left + 2.0 * unit, left + 7.8 * unit
    arrow(canvas, arrived, top + 15, waited, top + 15, FAINT)
    middle = (arrived + waited) / 2
    canvas.text(middle, top + 4, "the peers have all this time to initialise theirs", 9, FAINT)
    notes = (
        (9.1, "sends: not before cluster_wait, for the peer's mbarrier must exist", ALARM),
        (
            7.3,
            "expect: the one arrival; until then the phase stays open, whatever has landed",
            FAINT,
        ),
    )
    for line, (at, words, color) in enumerate(notes):
        canvas.text(left + at * unit, top + 96 + 18 * line, words, 9, color)
    return canvas.svg()


def pictures() -> dict[str, str]:
    """File name and text of each."""
    return {"exchange.svg": draw_exchange(), "order.svg": draw_order()}


def main() -> None:
    """Writes the pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, svg in pictures().items():
        (FOLDER / name).write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
