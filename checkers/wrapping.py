"""Text for a terminal, from the standard library alone: ``ladder doctor`` has nothing else."""

from __future__ import annotations

import textwrap


def wrap(lead: str, text: str, width: int) -> list[str]:
    """``text`` after ``lead``, its further lines indented alike; no word is broken: a command that
    is can't be copied. No lines for no text."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=False,
        break_on_hyphens=False,
    )
