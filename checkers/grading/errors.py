"""Other people's exceptions, as a Finding that a learner can act on."""

from __future__ import annotations

from checkers.exercise import Finding


def explain(exception: BaseException, source: str, filename: str, first_line: int = 1) -> Finding:
    """What an exception says, where in the learner's source, and what to do.

    source: the text of ``filename``, which is the name the code was compiled under.
    first_line: the line of it that the learner knows as line 1 (setup cell above).
    """
    raise NotImplementedError


def error_text(exception: BaseException) -> str:
    """ "TypeName: text" (with the diagnostic's code, if it has one) for Evidence.error."""
    raise NotImplementedError
