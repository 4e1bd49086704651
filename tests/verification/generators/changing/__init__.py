"""Valid histories with views that change: crashes, starts, partitions, merges."""

from tests.verification.generators.changing.history import ChangingHistory, make_changing_history

__all__ = ["ChangingHistory", "make_changing_history"]
