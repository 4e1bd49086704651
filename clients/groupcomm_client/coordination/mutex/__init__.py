"""Mutual exclusion among programs, in three forms."""

from groupcomm_client.coordination.mutex.mutex import (
    DEFAULT_FORM,
    FORMS,
    Mutex,
    MutexLost,
    join_mutex,
)
from groupcomm_client.coordination.mutex.resource import Resource, keep_resource, use

__all__ = [
    "DEFAULT_FORM",
    "FORMS",
    "Mutex",
    "MutexLost",
    "Resource",
    "join_mutex",
    "keep_resource",
    "use",
]
