"""Factories: what makes the filters of a connection, and the default of a process."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from groupcomm_client.filters.roles import Filter

Factory: TypeAlias = Callable[[], Filter]
"""Makes a filter; it is called once for each connection."""

_default: tuple[Factory, ...] = ()


def shared(filter_: Filter) -> Factory:
    """A factory that gives all connections the same filter.

    Connections of several threads ask it at once: what it keeps is for it to guard.
    """
    return lambda: filter_


def set_default(filters: Sequence[Factory]) -> None:
    """Give all connections of this process that are opened from now on these filters.

    Those that are opened with ``filters`` of their own, also none, keep to that.
    """
    global _default  # noqa: PLW0603 - a default of the process is what it is
    _default = tuple(filters)


def default() -> tuple[Factory, ...]:
    """What was set by `set_default`; nothing at first."""
    return _default
