"""Valid histories, generated without a core, for tests of the checkers."""

from tests.verification.generators.changing import ChangingHistory, make_changing_history
from tests.verification.generators.history import History, make_history

__all__ = ["ChangingHistory", "History", "make_changing_history", "make_history"]
