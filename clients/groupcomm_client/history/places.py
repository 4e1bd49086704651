"""Places in the history of groups, and the progress of a subscriber along them. Pure.

A place is a position. Views have the place of the change that they show; several of them may share
it, so a place alone does not say which of them were given: see `Progress`.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import DaemonView, GroupView, Message
from groupcomm.level import ServiceLevel

Line: TypeAlias = Message | GroupView | DaemonView
"""An event that has a place in the agreed order."""

_AGREED: Final = ServiceLevel.AGREED

NOWHERE: Final = Position(ViewId(0, "", 0), 0, 0, 0, 0)
"""A place before all others."""


def place_of(event: object) -> Position | None:
    """Return the place of an event; None if it has none in the agreed order."""
    if isinstance(event, Message):
        bundle = event.bundle
        if bundle is None or event.level < _AGREED:
            return None
        view, time, ring, place, _ = bundle  # quicker than `Message.position`
        return Position(view, time, ring, place, event.index)
    if isinstance(event, GroupView):
        return event.id
    if isinstance(event, DaemonView):
        return Position(event.id, 0, 0, 0, 0)
    return None


def just_before(place: Position) -> Position:
    """Return a place below another one, and above all that are below that one."""
    return place._replace(message=place.message - 1)


class Progress:
    """The progress of a subscriber: which events of the line it has given.

    Attributes:
        after: everything up to this place was given; None before the first event.
        last: the highest place of which anything was given, which may be above `after`.
    """

    def __init__(self, after: Position | None) -> None:
        self.after = after
        self.last = after
        self._at_last: set[str] = set()  # the groups whose views at `last` were given

    def is_new(self, event: Line, place: Position) -> bool:
        """Return whether an event was not given yet."""
        if self.last is None or place > self.last:
            return True
        return place == self.last != self.after and _part_of(event) not in self._at_last

    def give(self, event: Line, place: Position) -> None:
        """Note that an event is given now; places must not fall."""
        if place != self.last:
            self.after, self.last = self.last, place
            self._at_last = set()
        if isinstance(event, Message):
            self.after = place  # nothing else has the place of a message
        else:
            self._at_last.add(_part_of(event))

    def give_all(self, events: Sequence[object]) -> None:
        """Note that events are given now, in order; those without a place change nothing."""
        start = len(events)
        while start > 0:  # only the last message and what follows it count
            start -= 1
            if isinstance(events[start], Message) and place_of(events[start]) is not None:
                break
        for event in events[start:]:
            place = place_of(event)
            if place is not None and isinstance(event, Line):
                self.give(event, place)

    def complete(self, place: Position) -> None:
        """Note that everything up to a place was given."""
        if self.after is None or place > self.after:
            self.after = place
        if self.last is None or place > self.last:
            self.last = place
            self._at_last = set()


def _part_of(event: Line) -> str:
    """Return which of the events at one place this is."""
    return event.group if isinstance(event, GroupView) else ""
