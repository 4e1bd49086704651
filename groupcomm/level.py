"""Service levels: the promises for a message, chosen for each message by its sender."""

import enum


class ServiceLevel(enum.IntEnum):
    """The six levels, weakest first; each includes the promises of those below it.

    UNRELIABLE may be lost. RELIABLE is not lost and waits for nothing. FIFO keeps the order of
    one sender, CAUSAL the order of causes, AGREED one total order. SAFE is AGREED, delivered
    only once every daemon of the view can deliver it too.
    """

    UNRELIABLE = 0
    RELIABLE = 1
    FIFO = 2
    CAUSAL = 3
    AGREED = 4
    SAFE = 5


LEVELS: tuple[ServiceLevel, ...] = tuple(ServiceLevel)
"""All levels; indexing by the wire's number is faster than calling the enum."""

AGREED_LEVELS = LEVELS[ServiceLevel.AGREED :]
"""The levels with one order of all messages."""
