"""Filters between a program and its session; docs/filters.md is their guide.

::

    options = ConnectOptions(filters=[filters.causal, filters.compression])
    async with connect(options=options) as connection: ...
"""

from typing import TYPE_CHECKING, Final

from groupcomm_client.lazy import lazy_names

if TYPE_CHECKING:
    from groupcomm_client.events import Unfiltered
    from groupcomm_client.filters.causal_order.filter import causal
    from groupcomm_client.filters.compressing import compression
    from groupcomm_client.filters.delaying import Way, delay
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

_HOMES: Final = {
    "groupcomm_client.events": ("Unfiltered",),
    "groupcomm_client.filters.causal_order.filter": ("causal",),
    "groupcomm_client.filters.compressing": ("compression",),
    "groupcomm_client.filters.delaying": ("Way", "delay"),
    "groupcomm_client.filters.factories": (
        *("Factory", "ReceiveSelector", "SendSelector", "default"),
        *("select_received", "select_sent", "set_default", "shared"),
    ),
    "groupcomm_client.filters.newcomers": ("application_of",),
    "groupcomm_client.filters.roles": (
        *("CannotUndo", "Filter", "FilterMessage", "FilterOutgoing", "Manager", "Newcomer"),
        *("Outgoing", "Path", "ReceiveFilter", "SendFilter", "Stamped", "SystemEvent"),
    ),
    "groupcomm_client.filters.trace": ("traced",),
}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(
        __name__, {name: home for home, names in _HOMES.items() for name in names}
    )
