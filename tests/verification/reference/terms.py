"""Small terms that need no trace."""

from groupcomm.trace.events import Release, view_order

RELIABLE, FIFO, CAUSAL, AGREED, SAFE = 1, 2, 3, 4, 5
MESSAGES, FRAGMENT, CONNECT, JOIN, LEAVE, DISCONNECT = range(6)
LINE = 14

NO_VIEW = ""

Name = tuple[str, int]
"""Client and number: an item."""
Place = tuple[int, int, int]
"""Time, ring, bundle."""
Position = tuple[tuple[int, str, int], int, int, int, int]
"""The sort key of positions: the view, then time, ring, bundle, message."""


def name_of(process: str) -> str:
    """Return the name of the daemon that a process is a start of."""
    return process.rpartition("/")[0]


def daemon_of(client: str) -> str:
    """Return the name of the daemon in a client's name."""
    return client.rpartition("/")[0].rpartition("#")[2]


def private_name(client: str) -> str:
    """Return a client's name without its connection number."""
    return client.rpartition("/")[0]


def order_of(view: str) -> tuple[int, str, int]:
    """Return the sort key of a view; NO_VIEW comes first."""
    return (-1, "", 0) if view == NO_VIEW else view_order(view)


def told_position(pos: tuple[str, int, int, int, int]) -> Position:
    """Return a position that a client was told."""
    return (order_of(pos[0]), *pos[1:])


def has_numbers(event: Release) -> bool:
    """Return whether a bundle holds what a client has sent or asked for, with its numbers."""
    return event.kind not in (CONNECT, DISCONNECT) and (event.kind != LINE or event.first > 0)
