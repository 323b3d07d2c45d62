"""``python -m checkers`` is the ``ladder`` command."""

from checkers.cli import main

main()
