"""Factories of the filters of a connection, and the defaults of a process.

A process chooses defaults in one of two ways. `set_default` takes factories of whole filters. The
two *selectors* choose the filters of sent and of received messages separately: each is set before a
connection is made, and by default chooses a filter that forwards.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from groupcomm.errors import ConfigError
from groupcomm_client.filters.roles import Filter, ReceiveFilter, SendFilter

Factory: TypeAlias = Callable[[], Filter]
"""Makes a filter; it is called once for each connection."""

SendSelector: TypeAlias = Callable[[], SendFilter]
"""Chooses the filter for sending of a connection that is being made; called once for each."""

ReceiveSelector: TypeAlias = Callable[[], ReceiveFilter]
"""Chooses the filter for receiving of a connection that is being made; called once for each."""

_default: tuple[Factory, ...] = ()
_select_sent: SendSelector = SendFilter
_select_received: ReceiveSelector = ReceiveFilter


def check_filters(filters: Sequence[Factory]) -> None:
    """Raise ConfigError unless these are functions that make filters."""
    if not isinstance(filters, Sequence) or not all(callable(each) for each in filters):
        raise ConfigError(
            f"filters is {filters!r}; it must be a list of factories, such as filters.compression"
        )


def make_filters(filters: Sequence[Factory]) -> list[Filter]:
    """Call factories; return their filters.

    Raises:
        ConfigError: one is no factory, or has made something else.
        Exception: the factory's own.
    """
    check_filters(filters)
    made = [make() for make in filters]
    for each in made:
        if not isinstance(each, Filter):
            raise ConfigError(f"a factory of filters has made {each!r}; it must return a Filter")
    return made


def shared(filter_: Filter) -> Factory:
    """Return a factory that gives all connections the same filter.

    Connections of several threads call it at the same time, so it must protect its state itself.
    """
    return lambda: filter_


def set_default(filters: Sequence[Factory]) -> None:
    """Set the filters of all connections of this process that are opened from now on.

    Connections that are opened with ``filters``, even with none, use those instead.

    Raises:
        ConfigError: one of them is no function.
    """
    check_filters(filters)
    global _default  # noqa: PLW0603 - a default of the process is what it is
    _default = tuple(filters)


def select_sent(selector: SendSelector = SendFilter) -> None:
    """Set the selector of the filters for sent messages of connections opened from now on.

    Args:
        selector: without it, filters that forward.
    """
    global _select_sent  # noqa: PLW0603 - a default of the process is what it is
    _select_sent = selector


def select_received(selector: ReceiveSelector = ReceiveFilter) -> None:
    """Set the selector of the filters for received messages of connections opened from now on.

    Args:
        selector: without it, filters that forward.
    """
    global _select_received  # noqa: PLW0603 - a default of the process is what it is
    _select_received = selector


def selected() -> Filter:
    """Return the filter that the two selectors choose; it adds nothing to messages.

    So it stands behind other filters, and receivers must select the filter that undoes the senders'
    work.
    """
    return Filter("selected", _select_sent(), _select_received())


def default() -> tuple[Factory, ...]:
    """Return the default factories, with `selected` after them if a selector was set."""
    chosen = _select_sent is not SendFilter or _select_received is not ReceiveFilter
    return (*_default, selected) if chosen else _default
