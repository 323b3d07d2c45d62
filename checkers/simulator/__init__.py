"""Runs the PTX of a kernel on the CPU, and says what is wrong with it.

    result = simulate(launch)          # a Launch, as checkers.simulator.launch catches it
    result.faults, result.counters     # what it did wrong, and what it cost

docs/simulator.md says what is modelled and what is not.
"""

from checkers.simulator.machine.run import BadLaunch, Limits, Result, simulate

__all__ = ["BadLaunch", "Limits", "Result", "simulate"]
