"""Valid histories, generated without a core, for tests of the oracles."""

from groupcomm.sim.histories.changing import ChangingHistory, make_changing_history
from groupcomm.sim.histories.history import History, make_history

__all__ = ["ChangingHistory", "History", "make_changing_history", "make_history"]
