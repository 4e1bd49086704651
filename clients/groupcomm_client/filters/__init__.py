"""Filters between a program and its session; docs/filters.md is their guide.

::

    async with connect(filters=[filters.causal, filters.compression]) as connection: ...
"""

from groupcomm_client.filters.causal.filter import causal
from groupcomm_client.filters.compression import compression
from groupcomm_client.filters.delay import Way, delay
from groupcomm_client.filters.factories import (
    Factory,
    ReceiveSelector,
    SendSelector,
    default,
    select_received,
    select_sent,
    set_default,
    shared,
)
from groupcomm_client.filters.newcomers import application_of
from groupcomm_client.filters.roles import (
    CannotUndo,
    Filter,
    FilterMessage,
    FilterOutgoing,
    Manager,
    Newcomer,
    Outgoing,
    Path,
    ReceiveFilter,
    SendFilter,
    Stamped,
    SystemEvent,
    Unfiltered,
)
from groupcomm_client.filters.trace import traced

__all__ = [
    "CannotUndo",
    "Factory",
    "Filter",
    "FilterMessage",
    "FilterOutgoing",
    "Manager",
    "Newcomer",
    "Outgoing",
    "Path",
    "ReceiveFilter",
    "ReceiveSelector",
    "SendFilter",
    "SendSelector",
    "Stamped",
    "SystemEvent",
    "Unfiltered",
    "Way",
    "application_of",
    "causal",
    "compression",
    "default",
    "delay",
    "select_received",
    "select_sent",
    "set_default",
    "shared",
    "traced",
]
