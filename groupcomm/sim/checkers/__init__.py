"""The checkers: they check a trace event by event, in about the time that it takes to make it."""

from groupcomm.sim.checkers.checkers import Checkers
from groupcomm.sim.checkers.report import Violation

__all__ = ["Checkers", "Violation"]
