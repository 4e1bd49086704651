"""Fencing tokens: the place of a grant in the agreed order, as one number.

A program that was cut off may act until it knows of it. A resource that remembers the highest token
it has seen, and refuses lower ones, admits nobody after a later holder.

Pure. Tokens rise because positions do: within a view everything is in one order, so a grant comes
behind the release or the loss of the one before it. Two views that each have a majority of the
daemons share one of these, whose counters rise through all its starts (`membership.reservation`).
The view comes first in a token, so the clocks of daemons do not matter from view to view.

Source: Burrows, "The Chubby lock service for loosely-coupled distributed systems", OSDI 2006,
section 2.4, whose sequencers have a counter of the lock service in place of a position.
"""

from typing import Final

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import DaemonView, GroupView
from groupcomm_client.events import Received

COUNTER_BITS: Final = 53
"""Of the view's counter, and of the time: microseconds of physical time until the year 2255."""

RING_BITS: Final = 8
BUNDLE_BITS: Final = 12
"""More bundles than one packet can have."""

TOKEN_BITS: Final = 2 * COUNTER_BITS + RING_BITS + BUNDLE_BITS
"""A token is below ``2**126``: 32 hexadecimal digits, or 38 decimal ones. No 64 bits can hold the
counter of a view and the time within it."""

NOWHERE: Final = Position(ViewId(0, "", 0), 0, 0, 0, 0)


def token_of(position: Position) -> int:
    """Return the token of a grant at this position, 0 to ``2**126 - 1``."""
    counter, time = position.view.counter, position.time
    assert max(counter, time).bit_length() <= COUNTER_BITS, "no clock shows such a time"
    token = counter << COUNTER_BITS | time
    token = token << RING_BITS | position.ring
    return token << BUNDLE_BITS | position.bundle


class Latest:
    """The highest position that a session has received.

    Attributes:
        position: that position.
    """

    def __init__(self) -> None:
        self.position = NOWHERE

    def note(self, event: Received) -> None:
        """Note the position of an event; that of a view of daemons precedes all others of it."""
        at: Position | None
        if isinstance(event, DaemonView):
            at = Position(event.id, 0, 0, 0, 0)
        elif isinstance(event, GroupView):
            at = event.id
        else:
            at = getattr(event, "position", None)
        if at is not None and at > self.position:
            self.position = at
