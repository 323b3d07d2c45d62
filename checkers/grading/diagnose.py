"""From what the stages found out to the one sentence that helps."""

from __future__ import annotations

from checkers.exercise import Evidence, Exercise, Finding


def diagnose(exercise: Exercise, evidence: Evidence, finding: Finding) -> Finding:
    """The finding with ``probable`` and ``reread`` filled in."""
    return finding
