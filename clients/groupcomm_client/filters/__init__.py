"""Filters between a program and its session; docs/filters.md is their guide.

::

    async with connect(filters=[filters.causal, filters.compression]) as connection: ...
"""

from groupcomm_client.filters.causal.filter import causal
from groupcomm_client.filters.compression import compression
from groupcomm_client.filters.delay import Way, delay
from groupcomm_client.filters.factories import Factory, default, set_default, shared
from groupcomm_client.filters.roles import (
    CannotUndo,
    Filter,
    FilterMessage,
    FilterOutgoing,
    Manager,
    Outgoing,
    Path,
    ReceiveFilter,
    SendFilter,
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
    "Outgoing",
    "Path",
    "ReceiveFilter",
    "SendFilter",
    "SystemEvent",
    "Unfiltered",
    "Way",
    "causal",
    "compression",
    "default",
    "delay",
    "set_default",
    "shared",
    "traced",
]
