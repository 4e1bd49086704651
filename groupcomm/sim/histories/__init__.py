"""Valid histories, generated without a core, for tests of the oracles."""

from groupcomm.sim.histories.history import History, make_history

__all__ = ["History", "make_history"]
