"""The live line: which live events of a session are events of the line, and since when all are.

Pure: events of a session in, and those that may be given out. docs/history.md has the table of the
states, and says why a view continues the one before.
"""

from collections import deque
from collections.abc import Collection, Sequence
from typing import Final, TypeAlias

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import (
    Cause,
    DaemonView,
    GroupView,
    MemberId,
    Message,
    Transition,
)
from groupcomm_client.events import Received, Reconnected, Unfiltered, Unreadable
from groupcomm_client.history.places import just_before, place_of

QUEUE_BYTES: Final = 32 * 1024 * 1024
"""The bytes of events that may be queued; beyond that they are read from an archive."""

EVENT_BYTES: Final = 200
"""Approximate memory of an event, besides the data of a message."""

MARK: Final = b"\xffGH\x00"
"""The data of a mark: a SAFE message to oneself."""

MARK_S: Final = 0.05
"""The time from one mark to the next."""

Queued: TypeAlias = tuple[Position, Received, bool]
"""A place, the event, and whether it has this place itself; else it only came behind it."""

_FIRST: Final = Position(ViewId(0, "", 0), 0, 0, 0, 0)


class LiveLine:
    """The live events of one member of groups that are on the line.

    Attributes:
        complete_after: the queue has had all events of the line behind this place; None if that is
            nowhere.
        passed: everything of the line up to this place was queued, and is proven.
        has_mark_in_flight: whether a mark was sent that has not come back.
    """

    def __init__(
        self,
        me: MemberId,
        groups: Collection[str],
        view: DaemonView | None,
        *,
        stable: bool,
        queue_bytes: int = QUEUE_BYTES,
    ) -> None:
        """Begin a session that is a member of none of the groups yet.

        Args:
            me: the session.
            groups: the groups of the line.
            view: the present view of daemons, if it was received already.
            stable: whether an event is proven only once all daemons of the view have it.
            queue_bytes: the bytes of events that may be queued.
        """
        self.me = me
        self.complete_after: Position | None = None
        self.passed: Position | None = None
        self.has_mark_in_flight = False
        self._groups = frozenset(groups)
        self._stable = stable
        self._view = view
        self._joined: set[str] = set()
        self._regular = True
        self._queue: deque[Queued] = deque()
        self._most_bytes = queue_bytes
        self._bytes = 0  # of the queue
        self._proven = _FIRST
        self._latest = _FIRST  # the last place that came

    @property
    def is_on_line(self) -> bool:
        """Return whether the present view is one of the line."""
        return self._view is not None and self._view.majority is not False

    @property
    def wants_mark(self) -> bool:
        """Return whether a mark would prove something."""
        return (
            self._stable
            and self._regular
            and not self.has_mark_in_flight
            and self.complete_after is not None
            and self._latest > self._proven
        )

    def add_group(self, group: str) -> None:
        """Follow another group, before the view with which this member joins it."""
        self._groups |= {group}

    def remove_group(self, group: str) -> None:
        """Follow a group no more."""
        self._groups -= {group}
        self._joined.discard(group)

    # ---- events ----

    def handle(self, event: Received) -> bool:
        """Handle one event of the session; return whether the queue was dropped."""
        match event:
            case Message():
                return self.handle_message(event, event)
            case Unfiltered() | Unreadable():
                return self.handle_message(event.message, event)
            case GroupView() if event.group in self._groups:
                return self._on_group_view(event)
            case Transition():
                self._regular = False
            case DaemonView():
                return self._on_view(event)
            case Reconnected():
                self._begin_session(event.member)
                return True
        return False

    def handle_message(self, message: Message, event: Received) -> bool:
        """Handle a message, which `event` is or holds; see `handle`."""
        if message.data == MARK and message.sender == self.me and message.groups == (self.me.name,):
            self._on_mark(message)
            return False
        if self.complete_after is None or self._groups.isdisjoint(message.groups):
            return False
        place = place_of(message)
        if place is not None:
            return self._put(place, event)
        return self._put(max(self._latest, self.complete_after), event, counts=False)

    def _on_mark(self, mark: Message) -> None:
        self.has_mark_in_flight = False
        if self._regular and self.complete_after is not None:
            assert mark.position is not None, "a mark is SAFE"
            self._prove(mark.position)

    def _on_group_view(self, view: GroupView) -> bool:
        if self.me not in view.members:
            self._joined.discard(view.group)
            if view.own:  # it has left, or must not be a member any more
                return self._drop(None)
        elif view.own and view.cause is Cause.JOIN:
            self._joined.add(view.group)
            if self._joined == self._groups and self.is_on_line and self.complete_after is None:
                self.complete_after = self.passed = just_before(view.id)
        return self._put(view.id, view) if self.complete_after is not None else False

    def _on_view(self, view: DaemonView) -> bool:
        before, self._view = self._view, view
        continues = before is not None and self._continues(before, view)
        self._regular = True
        start = just_before(Position(view.id, 0, 0, 0, 0))
        if continues and self.complete_after is not None:
            self._prove(start)
            return self._put(Position(view.id, 0, 0, 0, 0), view)
        is_whole = self.is_on_line and self._joined == self._groups
        dropped = self._drop(start if is_whole else None)
        if is_whole:
            self._put(Position(view.id, 0, 0, 0, 0), view)
        return dropped

    def _continues(self, before: DaemonView, view: DaemonView) -> bool:
        """Return whether no view of the line can be between these two."""
        if before.majority is False or view.majority is False or self._regular:
            return False
        if view.id.counter == before.id.counter + 1:
            return True
        if view.together is None:
            return False
        together = set(view.together)
        return together.issuperset(before.daemons) or (
            view.majority is True and together.issuperset(view.daemons)
        )

    def _begin_session(self, me: MemberId) -> None:
        self.me = me
        self._view = None
        self._joined = set()
        self._regular = True
        self.has_mark_in_flight = False
        self._drop(None)

    # ---- the queue ----

    def _put(self, place: Position, event: Received, *, counts: bool = True) -> bool:
        self._latest = place
        self._queue.append((place, event, counts))
        self._bytes += _size_of(event)
        if self._bytes > self._most_bytes:
            return self._drop(self._latest)
        if self._regular and not self._stable:
            self._proven = place
        return False

    def _prove(self, place: Position) -> None:
        """Note that everything up to a place is on the line, for good."""
        self._proven = max(self._proven, place)
        self.passed = place

    def _drop(self, complete_after: Position | None) -> bool:
        """Drop the queue; all events of the line behind a place will come."""
        self._queue.clear()
        self._bytes = 0
        self.complete_after = self.passed = complete_after
        self._proven = self._latest = complete_after or _FIRST
        return True

    @property
    def may_drop(self) -> bool:
        """Return whether `drop_all` may be called."""
        return self._regular and self.complete_after is not None

    def drop_all(self, messages: Sequence[Received]) -> None:
        """Drop messages, and the queue, as an archive will have all of them.

        Args:
            messages: messages to groups, in order; no frames and no marks.
        """
        for message in reversed(messages):
            place = place_of(message)
            if place is not None and not self._groups.isdisjoint(getattr(message, "groups", ())):
                self._drop(place)
                return

    def drop_upto(self, place: Position) -> None:
        """Remove the events of the line up to a place: they were given already."""
        queue = self._queue
        while queue and (queue[0][0] < place or (queue[0][0] == place and queue[0][2])):
            self._bytes -= _size_of(queue.popleft()[1])

    def pop(self) -> list[Queued]:
        """Remove and return the events that may be given, in order."""
        queue, proven = self._queue, self._proven
        found: list[Queued] = []
        while queue and queue[0][0] <= proven:
            found.append(queue.popleft())
        self._bytes -= sum([_size_of(event) for _, event, _ in found])
        return found


def _size_of(event: Received) -> int:
    return EVENT_BYTES + (len(event.data) if type(event) is Message else 0)
