"""Mutual exclusion among programs, in three forms."""

from groupcomm_client.coordination.mutex.mutex import FORMS, Mutex, MutexLost, join_mutex

__all__ = ["FORMS", "Mutex", "MutexLost", "join_mutex"]
