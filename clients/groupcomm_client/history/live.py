"""The live line: which live events of a session are events of the line, and since when all are.

Pure: events of a session in, and those that may be given out. docs/history.md has the table of the
states, and says why a view continues the one before.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

import attrs

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.events import (
    Cause,
    DaemonView,
    GroupView,
    MemberId,
    Message,
    Transition,
)
from groupcomm.level import ServiceLevel
from groupcomm_client.continuity import continues
from groupcomm_client.events import Received, Reconnected, Unfiltered, Unreadable
from groupcomm_client.history.given_queue import QUEUE_BYTES, memory_of
from groupcomm_client.history.places import just_before, place_of

MARK: Final = b"\xffGH\x00"
"""The data of a mark: a SAFE message to oneself."""

MARK_S: Final = 0.05
"""The time from one mark to the next."""

HURRIED_MARK_S: Final = 0.005
"""The same behind a SAFE message: its sender may wait until archives keep it. The message itself
proves nothing, as a site delivers its own SAFE messages without the others."""


@attrs.frozen
class Queued:
    """Messages of one bundle, or one other event.

    Attributes:
        first, last: the places of the first and of the last one.
        events: what it holds.
        counts: whether they have these places themselves; else they only came behind them.
    """

    first: Position
    last: Position
    events: Sequence[Received]
    counts: bool

    @property
    def size(self) -> int:
        """Return its memory in bytes."""
        return memory_of(self.events)

    def behind(self, place: Position) -> "Queued":
        """Return what is behind a place of the same bundle."""
        count = place.message - self.first.message + 1
        first = place._replace(message=place.message + 1)
        return Queued(first, self.last, self.events[count:], self.counts)

    def upto(self, place: Position) -> "Queued":
        """Return what is up to a place of the same bundle."""
        count = place.message - self.first.message + 1
        return Queued(self.first, place, self.events[:count], self.counts)


_BUNDLE: Final = attrgetter("bundle")
_SAFE: Final = ServiceLevel.SAFE
_FIRST: Final = Position(ViewId(0, "", 0), 0, 0, 0, 0)


class LiveLine:
    """The live events of one member of groups that are on the line.

    Attributes:
        complete_after: the queue has had all events of the line behind this place; None if that is
            nowhere.
        passed: everything of the line up to this place was queued, and is proven.
        has_mark_in_flight: whether a mark was sent that has not come back.
        needs_mark: whether a mark is wanted although nothing waits for one.
        marked: the place of the last mark of this session that has come back in a view of the line.
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
        self.has_mark_in_flight = self.needs_mark = False
        self.marked: Position | None = None
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
        self._safe_upto = _FIRST  # the last place of a SAFE message

    @property
    def is_on_line(self) -> bool:
        """Return whether the present view is one of the line."""
        return self._view is not None and self._view.majority is not False

    @property
    def wants_mark(self) -> bool:
        """Return whether a mark would prove something."""
        return (
            self._regular
            and not self.has_mark_in_flight
            and self.complete_after is not None
            and (self.needs_mark or (self._stable and self._latest > self._proven))
        )

    @property
    def mark_after_s(self) -> float:
        """Return the least time between two marks: whoever sends SAFE may wait for what is kept."""
        return HURRIED_MARK_S if self._safe_upto > self._proven else MARK_S

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
            case _:
                pass
        return False

    def handle_message(self, message: Message, event: Received) -> bool:
        """Handle a message, which `event` is or holds; see `handle`."""
        if message.data == MARK and message.sender == self.me and message.groups == (self.me.name,):
            self._on_mark(message)
            return False
        if self.complete_after is None or self._groups.isdisjoint(message.groups):
            return False
        return self._put_messages([event], message, message)

    def handle_run(self, messages: Sequence[Message]) -> bool:
        """Handle messages of one bundle, which are no marks; see `handle`."""
        if self.complete_after is None or self._groups.isdisjoint(messages[0].groups):
            return False
        return self._put_messages(messages, messages[0], messages[-1])

    def _put_messages(self, events: Sequence[Received], first: Message, last: Message) -> bool:
        assert self.complete_after is not None, "checked by the caller"
        place = place_of(first)
        if place is not None:
            upto = place._replace(message=last.index)
            if first.level is _SAFE:
                self._safe_upto = upto
            return self._put(place, upto, events)
        came_behind = max(self._latest, self.complete_after)
        return self._put(came_behind, came_behind, events, counts=False)

    def _on_mark(self, mark: Message) -> None:
        self.has_mark_in_flight = False
        if self._regular and self.complete_after is not None:
            assert mark.position is not None, "a mark is SAFE"
            self.marked = mark.position
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
        return self._put(view.id, view.id, [view]) if self.complete_after is not None else False

    def _on_view(self, view: DaemonView) -> bool:
        before, self._view = self._view, view
        goes_on = before is not None and not self._regular and continues(before, view)
        self._regular = True
        start = just_before(Position(view.id, 0, 0, 0, 0))
        if goes_on and self.complete_after is not None:
            self._prove(start)
            return self._put_view(view)
        is_whole = self.is_on_line and self._joined == self._groups
        dropped = self._drop(start if is_whole else None)
        if is_whole:
            self._put_view(view)
        return dropped

    def _begin_session(self, me: MemberId) -> None:
        self.me = me
        self._view = None
        self._joined = set()
        self._regular = True
        self.has_mark_in_flight = False
        self.marked = None
        self._drop(None)

    # ---- the queue ----

    def _put_view(self, view: DaemonView) -> bool:
        place = Position(view.id, 0, 0, 0, 0)
        return self._put(place, place, [view])

    def _put(
        self, first: Position, last: Position, events: Sequence[Received], *, counts: bool = True
    ) -> bool:
        self._latest = last
        queued = Queued(first, last, events, counts)
        self._queue.append(queued)
        self._bytes += queued.size
        if self._bytes > self._most_bytes:
            return self._drop(self._latest)
        if self._regular and not self._stable:
            self._proven = last
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
        while queue and (queue[0].last < place or (queue[0].last == place and queue[0].counts)):
            self._bytes -= queue.popleft().size
        if queue and queue[0].counts and queue[0].first <= place < queue[0].last:
            self._bytes -= queue[0].size
            queue[0] = queue[0].behind(place)
            self._bytes += queue[0].size

    def pop(self) -> list[Queued]:
        """Remove and return the events that may be given, in order."""
        queue, proven = self._queue, self._proven
        found: list[Queued] = []
        while queue and queue[0].last <= proven:
            found.append(queue.popleft())
        if queue and queue[0].first <= proven:
            found.append(queue[0].upto(proven))
            queue[0] = queue[0].behind(proven)
        self._bytes -= sum([each.size for each in found])
        return found


def runs_of(events: Iterable[Received]) -> Iterator[list[Received]]:
    """Yield the messages of each bundle together, and each other event by itself."""
    for kind, part in groupby(events, type):
        if kind is not Message:
            yield from ([event] for event in part)
            continue
        for bundle, run in groupby(part, _BUNDLE):
            if bundle is None:
                yield from ([event] for event in run)
            else:
                yield list(run)
