"""What a connection receives that resumes: the line of its groups over all sessions, and the rest.

Pure: events of sessions in, events for the program and messages to archives out. A `Subscriber`
gives the events of the line; everything else is passed on as it comes. docs/history.md has what is
promised.
"""

from collections import deque
from collections.abc import Collection, Sequence
from typing import Final

from groupcomm.clocks.stamp import Position
from groupcomm.events import Cause, DaemonView, GroupView, MemberId, Message, Refused, Undeliverable
from groupcomm.level import ServiceLevel
from groupcomm_client.events import Received, Reconnected, Unfiltered, Unreadable
from groupcomm_client.history.frames import HEAD, Channel, Offer, Part, Piece, decode_untrusted
from groupcomm_client.history.given import CaughtUp, Gap, Given
from groupcomm_client.history.live import MARK
from groupcomm_client.history.places import just_before, place_of
from groupcomm_client.history.refusals import Refusal, is_refusal
from groupcomm_client.history.subscriber import Send, State, Subscriber

ALONE_S: Final = 10.0
"""The time in which an archive must answer, and one that is away come back; then live events follow
behind a gap."""

NUMBER_BITS: Final = 24
"""The bits of the numbers of questions of one subscriber."""

BEGUN_BITS: Final = 32
"""The bits of the numbers of subscribers."""

_AGREED: Final = ServiceLevel.AGREED


class Resumption:
    """The events of all sessions of a connection; call `handle_all` for them, in order.

    Attributes:
        given: the events for the program, in order; whoever removes some calls `taken`.
    """

    def __init__(
        self,
        me: MemberId,
        groups: Collection[str] | None,
        view: DaemonView | None,
        *,
        begun: int = 0,
    ) -> None:
        """Begin with a session that has joined no group.

        Args:
            me: the session.
            groups: the groups whose history is given; None for all that are joined.
            view: the present view of daemons, if it was received already.
            begun: the subscribers of earlier programs of this name; see `first_number`.
        """
        self.given: deque[Given] = deque()
        self._me = me
        self._chosen = groups
        self._view = view
        self._since: dict[str, Position] = {}  # the joined groups, and where that was
        self._subscriber: Subscriber | None = None  # while there are any
        self._begun = begun
        self._is_behind = False  # whether events may come from an archive
        self._has_ended = False  # whether a session has ended since the last CaughtUp
        self._refused_by: set[str] = set()  # archives whose refusals the program knows
        self._asked: set[str] = set()  # archives that messages were sent to
        self._outgoing: deque[Send] = deque()

    @property
    def deadline(self) -> float | None:
        """Return when to call `wake`; None for never."""
        return None if self._subscriber is None else self._subscriber.deadline

    # ---- events ----

    def handle_all(self, events: Sequence[Received], joined: Collection[str], now: float) -> None:
        """Handle events of a session, in order.

        Args:
            events: the events.
            joined: the groups that the program wants to be in, and the next session joins.
            now: the time in seconds.
        """
        line: list[Received] = []
        for event in events:
            if isinstance(event, Reconnected):
                self._pass_on(line, now)
                self._begin_session(event, joined, now)
            elif isinstance(event, GroupView) and event.own:
                self._pass_on(line, now)
                self._on_own_view(event, now)
            elif isinstance(event, DaemonView):
                self._view = event
                if self._subscriber is not None:
                    line.append(event)
                if self._subscriber is None or event.majority is False:
                    self._pass_on(line, now)
                    self.given.append(event)
            elif self._is_mark(event) or self._is_of_line(event):
                line.append(event)
            elif (refusal := self._refusal_in(event)) is not None:
                self._pass_on(line, now)
                self.given.append(refusal)
            else:
                self._pass_on(line, now)
                self.given.append(event)
        self._pass_on(line, now)

    def _is_mark(self, event: Received) -> bool:
        """Return whether an event is a mark, which is not for the program."""
        return (
            isinstance(event, Message)
            and event.data == MARK
            and event.sender == self._me
            and event.groups == (self._me.name,)
        )

    def _is_of_line(self, event: Received) -> bool:
        """Return whether the subscriber gives an event, or needs it."""
        if self._subscriber is None:
            return False
        if isinstance(event, Undeliverable):
            return event.target in self._asked
        if isinstance(event, GroupView):
            return event.group in self._since
        message = event.message if isinstance(event, Unfiltered | Unreadable) else event
        if not isinstance(message, Message):
            return False
        if message.level >= _AGREED and not self._since.keys().isdisjoint(message.groups):
            return True
        return (
            message.data.startswith(HEAD)
            and message.groups == (self._me.name,)
            and isinstance(decode_untrusted(message.data), Offer | Piece | Part | Channel)
        )

    def _refusal_in(self, event: Received) -> Refused | None:
        """Return that the rules do not allow to read history, if an archive says so."""
        if not isinstance(event, Message) or event.groups != (self._me.name,):
            return None
        frame = decode_untrusted(event.data) if is_refusal(event.data, HEAD) else None
        if not isinstance(frame, Refusal) or event.sender.name in self._refused_by:
            return None
        self._refused_by.add(event.sender.name)
        return Refused(
            number=0, count=1, verb="read-history", group=frame.group, principal=frame.principal
        )

    def _begin_session(self, event: Reconnected, joined: Collection[str], now: float) -> None:
        self._me = event.member
        self._view = None
        for group in self._since.keys() - set(joined):
            self._remove(group)  # the program has left it, or may not join it any more
        self.given.append(event)
        self._has_ended = True
        self._refused_by.clear()
        if self._subscriber is not None:
            self._pass_on([event], now)

    def _on_own_view(self, view: GroupView, now: float) -> None:
        """Begin or end to give the line of a group."""
        is_member = self._me in view.members
        is_chosen = self._chosen is None or view.group in self._chosen
        is_new = is_member and view.cause is Cause.JOIN and view.group not in self._since
        if is_chosen and is_new:
            self._add(view, now)
        if view.group not in self._since:
            self.given.append(view)
            return
        if is_member:
            self._pass_on([view], now)
        else:
            self._remove(view.group)
            self.given.append(view)

    def _add(self, view: GroupView, now: float) -> None:
        start = just_before(view.id)
        self._since[view.group] = start
        if self._subscriber is not None:
            self._subscriber.add_group(view.group, now)
            return
        self._begun += 1
        self._subscriber = Subscriber(
            *(self._me, (view.group,), start),
            now=now,
            view=self._view,
            first_number=self._begun << NUMBER_BITS,  # answers to the one before count nothing
            alone_s=ALONE_S,
            gap_wait_s=ALONE_S,
        )
        self._is_behind = self._has_ended = False

    def _remove(self, group: str) -> None:
        del self._since[group]
        if self._subscriber is not None:
            self._subscriber.remove_group(group)
        if not self._since:
            self._subscriber = None

    # ---- the line ----

    def _pass_on(self, line: list[Received], now: float) -> None:
        """Pass events on to the subscriber, and what it gives to the program; clear the list."""
        if line and self._subscriber is not None:
            self._subscriber.handle_all(line, now)
            self._drain()
        line.clear()

    def _drain(self) -> None:
        subscriber = self._subscriber
        if subscriber is None:
            return
        for action in subscriber.pop_actions():
            if isinstance(action, Send):
                if action.to.startswith("#"):
                    self._asked.add(action.to)
                self._outgoing.append(action)
        for gap in [each for each in subscriber.waiting if isinstance(each, Gap)]:
            self._is_behind = True
            # If it goes back, what follows is behind no place at which a group was joined before.
            self._since = {group: min(place, gap.upto) for group, place in self._since.items()}
        if subscriber.state is not State.LIVE:
            self._is_behind = True
        if self._is_behind:
            self.given += [event for event in subscriber.waiting.pop() if self._is_wanted(event)]
        else:
            self.given += [e for e in subscriber.waiting.pop() if type(e) is not CaughtUp]

    def _is_wanted(self, event: Given) -> bool:
        """Return whether the program gets an event, of those that an archive may have sent."""
        if isinstance(event, CaughtUp):
            has_ended, self._has_ended, self._is_behind = self._has_ended, False, False
            return has_ended
        place = place_of(event)
        if isinstance(event, Gap | DaemonView) or place is None:
            return True
        groups = event.groups if isinstance(event, Message) else [getattr(event, "group", "")]
        return any(self._since[g] < place for g in groups if g in self._since)

    # ---- time and messages ----

    def wake(self, now: float) -> None:
        """Let time pass."""
        if self._subscriber is not None:
            self._subscriber.wake(now)
            self._drain()

    def taken(self, now: float) -> None:
        """Note that the program has taken events; archives may send more."""
        if self._subscriber is not None:
            self._subscriber.taken(now)
            self._drain()

    def next_action(self) -> Send | None:
        """Return the next message to send; None if there is none. See `sent`."""
        return self._outgoing[0] if self._outgoing else None

    def sent(self, action: Send) -> None:
        """Note that a message was sent."""
        if self._outgoing and self._outgoing[0] is action:
            self._outgoing.popleft()
