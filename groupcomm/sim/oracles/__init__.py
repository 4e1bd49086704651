"""The oracles: judge a trace event by event, in about the time that it takes to make it."""

from groupcomm.sim.oracles.oracles import Oracles
from groupcomm.sim.oracles.report import Violation

__all__ = ["Oracles", "Violation"]
