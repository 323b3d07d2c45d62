"""Catches the launches of CuTe DSL and Triton on a machine with no GPU."""

from checkers.simulator.launch.records import Launch, Tensor

__all__ = ["Launch", "Tensor"]
