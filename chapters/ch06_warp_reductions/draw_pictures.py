"""Draws the lesson's pictures anew: `python chapters/ch06_warp_reductions/draw_pictures.py`."""

from __future__ import annotations

from math import exp
from pathlib import Path

from checkers.lessons.drawings import FAINT, FILLS, INK, Canvas

FOLDER = Path(__file__).parent / "pictures"
MINE, THEIRS, PALE = FILLS[0], FILLS[1], "#f3f5f7"


def arrow(canvas: Canvas, x1: float, y1: float, x2: float, y2: float, color: str) -> None:
    """A thin line with a dot where it ends."""
    canvas.parts.append(
        f"<line x1='{x1:g}' y1='{y1:g}' x2='{x2:g}' y2='{y2:g}' stroke='{color}' "
        f"stroke-width='1.6'/><circle cx='{x2:g}' cy='{y2:g}' r='2.6' fill='{color}'/>"
    )


def butterfly(lane: int = 5) -> str:
    """Whose values one lane's result holds, after each of the five exchanges."""
    side, left, top, pitch = 20, 92, 58, 50
    canvas = Canvas(left + 32 * side + 122, top + 5 * pitch + side + 18)
    canvas.text(
        14,
        20,
        f"blue: lanes whose values lane {lane} has combined; orange: those that its partner has",
        13,
        INK,
        "start",
    )
    for other in range(32):
        canvas.text(left + (other + 0.5) * side, top - 9, str(other), 8.5, FAINT)
    mine = {lane}
    for step, distance in enumerate((16, 8, 4, 2, 1, 0)):
        y, partner = top + step * pitch, lane ^ distance
        theirs = {other ^ distance for other in mine} if distance else set()
        canvas.text(
            14, y + side / 2, "at first" if step == 0 else f"after {step}", 12, INK, "start"
        )
        for other in range(32):
            fill = MINE if other in mine else THEIRS if other in theirs else PALE
            canvas.cell(left + other * side, y, side, side, fill)
        canvas.text(left + (lane + 0.5) * side, y + side / 2, "me", 9.5)
        count = f"{len(mine)} value{'s' if len(mine) > 1 else ''}"
        canvas.text(left + 32 * side + 10, y + side / 2, count, 12, INK, "start")
        if distance:
            begin, end = y + side + 1, y + pitch - 3
            x = left + (lane + 0.5) * side
            arrow(canvas, x, begin, x, end, INK)
            arrow(canvas, left + (partner + 0.5) * side, begin, x, end, "#c77700")
            canvas.text(
                left + 32 * side + 10,
                y + pitch / 2 + side / 2,
                f"{distance} lane{'s' * (distance > 1)} away",
                10.5,
                FAINT,
                "start",
            )
        mine |= theirs
    return canvas.svg()


def pairs() -> str:
    """Four warps' pairs through shared memory: one write, one barrier, and all read everything."""
    given = ((3.0, 2.0), (5.0, 1.5), (1.0, 4.0), (4.0, 3.0))
    largest = max(m for m, _ in given)
    total = sum(d * exp(m - largest) for m, d in given)
    width, gap, left, height = 150, 18, 20, 46
    slots_at, barrier_at, read_at = 130, 214, 246
    canvas = Canvas(left + 4 * (width + gap) + 8, read_at + height + 58)
    canvas.text(
        left, 20, "each warp has reduced its own part of the row, by shuffles", 13, INK, "start"
    )
    for warp, (m, d) in enumerate(given):
        x = left + warp * (width + gap)
        canvas.cell(x, 38, width, height, FILLS[warp])
        canvas.text(x + width / 2, 38 + 15, f"warp {warp}", 11, FAINT)
        canvas.text(x + width / 2, 38 + 32, f"m = {m:g}, d = {d:g}", 13)
        arrow(canvas, x + width / 2, 38 + height + 1, x + width / 2, slots_at - 3, INK)
        canvas.text(x + width / 2 + 8, slots_at - 24, "lane 0 writes", 10, FAINT, "start")
        canvas.cell(x, slots_at, width, 30, FILLS[warp])
        canvas.text(x + width / 2, slots_at + 15, f"slot {warp}: {m:g}, {d:g}", 12)
        canvas.cell(x, read_at, width, height, FILLS[5])
        canvas.text(x + width / 2, read_at + 15, f"warp {warp} reads all slots", 11, FAINT)
        canvas.text(x + width / 2, read_at + 32, f"m = {largest:g}, d = {total:.3f}", 13)
    canvas.text(left, slots_at + 44, "shared memory", 11, FAINT, "start")
    right = left + 4 * (width + gap) - gap
    canvas.line(left, barrier_at, right, barrier_at)
    canvas.text(
        right, barrier_at - 12, "barrier: no warp goes on before all have written", 11, INK, "end"
    )
    terms = " + ".join(f"{d:g}·exp({m:g}-{largest:g})" for m, d in given)
    canvas.text(left, read_at + height + 26, f"d = {terms} = {total:.3f}", 12.5, INK, "start")
    return canvas.svg()


def pictures() -> dict[str, str]:
    """The text of each picture, by file name."""
    return {"butterfly.svg": butterfly(), "pairs.svg": pairs()}


if __name__ == "__main__":
    for name, text in pictures().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
