"""Where a subscription begins, and what it gives beside the events of a session. Pure."""

import enum
from typing import Final, TypeAlias

import attrs

from groupcomm.clocks.stamp import Position, format_position
from groupcomm_client.events import Received


class Start(enum.Enum):
    """Where a subscription begins."""

    EARLIEST = enum.auto()
    LATEST = enum.auto()


EARLIEST: Final = Start.EARLIEST
"""Begin with the first event that an archive has."""

LATEST: Final = Start.LATEST
"""Begin with the events that happen from now on."""


@attrs.frozen(kw_only=True)
class CaughtUp:
    """All history was given; live events follow.

    Attributes:
        position: everything up to here was given.
    """

    position: Position

    def __str__(self) -> str:
        return f"caught up at {format_position(self.position)}"


@attrs.frozen(kw_only=True)
class Gap:
    """Events may be missing: no archive has those between these two places.

    Attributes:
        after: everything up to here was given; None if nothing was.
        upto: events up to here may be missing; the next ones are behind this place. It is before
            `after` if that is a place of another history, which is ahead of this one.
    """

    after: Position | None
    upto: Position

    def __str__(self) -> str:
        after = None if self.after is None else format_position(self.after)
        upto = format_position(self.upto)
        if self.after is not None and self.upto < self.after:
            return f"gap: {after} is ahead of the history, which goes on behind {upto}"
        return f"gap: events after {after} may be missing, up to {upto}"


@attrs.frozen(kw_only=True)
class Compacted:
    """Only the last message of each key is certain to be given between these two places.

    Attributes:
        after: the place behind which this holds.
        upto: the place up to which it holds; from there on everything is given.
    """

    after: Position
    upto: Position

    def __str__(self) -> str:
        after, upto = format_position(self.after), format_position(self.upto)
        return f"compacted: the last message of each key behind {after}, up to {upto}"


Given: TypeAlias = Received | CaughtUp | Gap | Compacted
"""What a subscription gives: messages and views in order, and where it stands."""
