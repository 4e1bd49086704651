"""Factories: what makes the filters of a connection, and the defaults of a process.

A process chooses defaults in one of two ways. `set_default` takes factories of whole filters. The
two *selectors* choose what is asked of sent messages and of received messages apart: each is set
before a connection is made, and by itself chooses a filter that forwards.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from groupcomm_client.filters.roles import Filter, ReceiveFilter, SendFilter

Factory: TypeAlias = Callable[[], Filter]
"""Makes a filter; it is called once for each connection."""

SendSelector: TypeAlias = Callable[[], SendFilter]
ReceiveSelector: TypeAlias = Callable[[], ReceiveFilter]
"""Chooses the filter of a connection that is being made; called once for each."""

_default: tuple[Factory, ...] = ()
_select_sent: SendSelector = SendFilter
_select_received: ReceiveSelector = ReceiveFilter


def shared(filter_: Filter) -> Factory:
    """Return a factory that gives all connections the same filter.

    Connections of several threads ask it at once: what it keeps is for it to guard.
    """
    return lambda: filter_


def set_default(filters: Sequence[Factory]) -> None:
    """Give all connections of this process that are opened from now on these filters.

    Those that are opened with ``filters`` of their own, also none, keep to that.
    """
    global _default  # noqa: PLW0603 - a default of the process is what it is
    _default = tuple(filters)


def select_sent(selector: SendSelector = SendFilter) -> None:
    """Have the sent messages of connections that are opened from now on pass the chosen filters.

    Args:
        selector: without it, filters that forward.
    """
    global _select_sent  # noqa: PLW0603 - a default of the process is what it is
    _select_sent = selector


def select_received(selector: ReceiveSelector = ReceiveFilter) -> None:
    """Have the received messages of such connections pass the chosen filters.

    Args:
        selector: without it, filters that forward.
    """
    global _select_received  # noqa: PLW0603 - a default of the process is what it is
    _select_received = selector


def selected() -> Filter:
    """Make the filter that the two selectors choose; it puts nothing around messages.

    So it stands behind other filters, and receivers must select the filter that undoes what the
    senders' one does.
    """
    return Filter("selected", _select_sent(), _select_received())


def default() -> tuple[Factory, ...]:
    """Return the factories that were set, and `selected` behind them if a selector was set."""
    chosen = _select_sent is not SendFilter or _select_received is not ReceiveFilter
    return (*_default, selected) if chosen else _default
