"""Lessons: notebooks built from them, and the magics that grade in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(shell: InteractiveShell) -> None:
    """``%load_ext checkers.lessons``."""
    # Building lessons needs no IPython.
    from checkers.lessons.magic import LadderMagics

    shell.register_magics(LadderMagics)
