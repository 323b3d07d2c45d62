"""State spaces, who has synchronised with whom, and what follows: out of bounds, races, waits."""

from checkers.simulator.memory.clocks import Clocks
from checkers.simulator.memory.knowledge import Agent, Knowledge
from checkers.simulator.memory.spaces import Memory

__all__ = ["Agent", "Clocks", "Knowledge", "Memory"]
