"""Draws the lesson's pictures anew: `python chapters/ch05_async_copies/draw_pictures.py`."""

from __future__ import annotations

from pathlib import Path

from checkers.lessons.drawings import FAINT, FILLS, INK, PAPER, Canvas

FOLDER = Path(__file__).parent / "pictures"
READ, COMES, IDLE = FILLS[2], FILLS[0], "#eceff2"


def arrow(canvas: Canvas, x1: float, y1: float, x2: float, y2: float, color: str = INK) -> None:
    """A thin level or upright arrow from (x1, y1) to (x2, y2)."""
    canvas.parts.append(
        f"<line x1='{x1:g}' y1='{y1:g}' x2='{x2:g}' y2='{y2:g}' stroke='{color}' stroke-width='1.4'/>"
    )
    dx, dy = (x2 > x1) - (x2 < x1), (y2 > y1) - (y2 < y1)
    back_x, back_y = x2 - 8 * dx, y2 - 8 * dy
    canvas.parts.append(
        f"<polygon points='{x2:g},{y2:g} {back_x - 4 * dy:g},{back_y - 4 * dx:g} "
        f"{back_x + 4 * dy:g},{back_y + 4 * dx:g}' fill='{color}'/>"
    )


def stages(ring: int = 3, rounds: int = 8) -> str:
    """What each stage holds in each round of the loop: tile r is read in round r."""
    width, height, left, top = 72, 34, 74, 66
    canvas = Canvas(left + rounds * width + 16, top + ring * height + 62)
    canvas.text(
        14, 20, f"A ring of {ring} stages: what each holds, round by round", 14, INK, "start"
    )
    for r in range(rounds):
        x = left + r * width
        canvas.text(x + width / 2, top - 12, f"round {r}", 11, FAINT)
        for stage in range(ring):
            tile = r + (stage - r) % ring
            y = top + stage * height
            canvas.cell(x, y, width, height, READ if tile == r else COMES)
            starts = tile == r + ring - 1
            words = f"read {tile}" if tile == r else f"{tile} starts" if starts else f"{tile} comes"
            canvas.text(x + width / 2, y + height / 2, words, 12)
    for stage in range(ring):
        canvas.text(left - 8, top + (stage + 0.5) * height, f"stage {stage}", 11, FAINT, "end")
    below = top + ring * height + 22
    canvas.cell(left, below - 8, 16, 16, COMES)
    canvas.text(left + 22, below, f"{ring - 1} tiles on their way, always", 12, INK, "start")
    canvas.cell(left + 250, below - 8, 16, 16, READ)
    canvas.text(left + 272, below, "the tile of this round: it has landed", 12, INK, "start")
    canvas.text(
        left,
        below + 24,
        f"Round r waits for tile r, reads it, and starts tile r + {ring - 1} in the stage of round r - 1.",
        12,
        FAINT,
        "start",
    )
    return canvas.svg()


def phases() -> str:
    """The phases of one barrier that is in phase 1, and what each wait does."""
    width, left, top = 128, 24, 58
    canvas = Canvas(left + 4 * width + 24, 196)
    canvas.text(14, 20, "One mbarrier, now in phase 1", 14, INK, "start")
    names = ("before init", "phase 0", "phase 1", "phase 2")
    notes = ("counts as over", "over: all arrived", "under way", "not yet begun")
    for i, (name, note) in enumerate(zip(names, notes, strict=True)):
        x = left + i * width
        canvas.cell(x, top, width, 46, (IDLE, READ, COMES, PAPER)[i])
        canvas.text(x + width / 2, top + 15, name, 13)
        canvas.text(x + width / 2, top + 33, note, 11, FAINT)
        canvas.text(x + width / 2, top - 12, f"parity {(i + 1) % 2}", 11, FAINT)
    over, now = left + 1.5 * width, left + 2.5 * width
    arrow(canvas, over, top + 78, over, top + 50)
    canvas.text(over, top + 92, "wait(0): goes on at once", 12)
    arrow(canvas, now, top + 110, now, top + 50)
    canvas.text(now, top + 124, "wait(1): waits until phase 1 is over", 12)
    return canvas.svg()


def ring(count: int = 3, consumers: int = 4) -> str:
    """The producer, the stages with their two barriers, and the consumers."""
    left, top, width, height = 216, 74, 196, 52
    canvas = Canvas(640, top + count * (height + 10) + 76)
    canvas.text(14, 20, "One warp fills the stages, four empty them", 14, INK, "start")
    bottom = top + count * (height + 10) - 10
    canvas.cell(20, top, 104, bottom - top, FILLS[1])
    canvas.text(72, top + 40, "producer", 13)
    canvas.text(72, top + 60, "1 warp", 11, FAINT)
    canvas.cell(504, top, 116, bottom - top, FILLS[4])
    canvas.text(562, top + 40, "consumers", 13)
    canvas.text(562, top + 60, f"{consumers} warps", 11, FAINT)
    for stage in range(count):
        y = top + stage * (height + 10)
        kind = 0 if stage == 0 else 2 if stage == count - 1 else 1
        fill = (READ, COMES, IDLE)[kind]
        state = ("full: being read", "TMA writes", "empty")[kind]
        canvas.cell(left, y, width, height, fill)
        canvas.text(left + width / 2, y + 16, f"stage {stage}", 13)
        canvas.text(left + width / 2, y + 35, state, 11, FAINT)
    for (x1, x2), label, y in (
        ((124, left), "TMA copy", top + 26),
        ((left + width, 504), "read", top + 26),
        ((504, left + width), "give back", bottom - 22),
        ((left, 124), "empty again", bottom - 22),
    ):
        arrow(canvas, x1, y, x2, y)
        canvas.text((x1 + x2) / 2, y - 11, label, 11)
    canvas.text(
        320, bottom + 24, "full: 1 arrival of the producer, and the bytes of the tile", 12, INK
    )
    canvas.text(
        320, bottom + 46, f"empty: {consumers} arrivals, one lane of each consumer warp", 12, INK
    )
    return canvas.svg()


def pictures() -> dict[str, str]:
    """The text of each picture, by file name."""
    return {"stages.svg": stages(), "phases.svg": phases(), "ring.svg": ring()}


if __name__ == "__main__":
    for name, svg in pictures().items():
        (FOLDER / name).write_text(svg, encoding="utf-8")
