"""What a client knows of its session, and what its messages go through: filters, and sealing.

A message goes through the filters, and then is sealed if its group has a secret; one that comes
goes the other way. Without either, a sender pays one comparison a message, a receiver one a batch.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from groupcomm.errors import SessionEnded
from groupcomm.events import (
    Closed,
    DaemonView,
    GroupView,
    MemberId,
    Message,
    Refused,
    Transition,
    Undeliverable,
)
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.session.client_session import ClientSession, ClientSessionState
from groupcomm.session.inbox import SEALED
from groupcomm.trace.recorders import SessionTrace
from groupcomm_client.end_to_end.events import KeyChanged, Unreadable, Untrusted
from groupcomm_client.end_to_end.sealing import NO_SECRET, Sealing
from groupcomm_client.filters.factories import Factory
from groupcomm_client.filters.filtering import Filtering
from groupcomm_client.filters.roles import Outgoing, SystemEvent, Unfiltered
from groupcomm_client.pending import Requests

FILTER_BYTES: Final = 65_536
"""What filters may add to a message."""

Received = (
    Message
    | GroupView
    | Undeliverable
    | Refused
    | Transition
    | DaemonView
    | Unfiltered
    | KeyChanged
    | Untrusted
    | Unreadable
)
"""What programs receive; `Unfiltered` only with filters, the last three with groups' secrets."""


class FilteredSession:
    """Part of `groupcomm_client.conversation.Conversation`, which says what the attributes are."""

    def __init__(
        self,
        session: ClientSession,
        filters: Sequence[Factory],
        clock: Callable[[], float],
    ) -> None:
        self._session = session
        self._requests = Requests()
        self._trace: SessionTrace | None = None  # begins once the session has its identity
        self._last_sent = 0
        self.member = MemberId("", 0)
        self.closed: Closed | None = None
        self.events: deque[Received] = deque()
        self.unasked = False
        self.alarm: Callable[[], object] = bool
        self._clock = clock
        self._filtering = Filtering(self, filters, clock) if filters else None
        self._sealing: Sealing | None = None  # once a group was joined with a secret

    @property
    def groups(self) -> dict[str, GroupView]:
        """The latest views of the groups that it is a member of, by name."""
        return self._session.memberships.views

    @property
    def is_open(self) -> bool:
        """Whether it was admitted, and neither side has said goodbye."""
        return self._session.state is ClientSessionState.OPEN

    def check_open(self) -> None:
        """Raise SessionEnded if nothing follows."""
        if self.closed is not None:
            raise SessionEnded(self.closed.code, self.closed.reason)

    @property
    def _is_plain(self) -> bool:
        """Whether messages go to the session as they are."""
        return self._filtering is None and self._sealing is None

    def _send_through(
        self,
        groups: str | Sequence[str],
        data: bytes,
        level: ServiceLevel,
        type: int,
        self_discard: bool,
        ordered: bool,
    ) -> int:
        """Send a message through the filters, and sealed if its group has a secret."""
        names = (groups,) if isinstance(groups, str) else tuple(groups)
        data = data if isinstance(data, bytes) else bytes(memoryview(data))
        size = len(data) + FILTER_BYTES
        self._session.check(names, size, level=level, type=type, ordered=ordered)
        secret = self._sealing is not None and self._sealing.concerns(names)
        ticket = self._requests.ticket() if ordered else 0
        message = Outgoing(
            groups=names,
            data=data,
            level=LEVELS[level],
            type=type,
            self_discard=self_discard,
            ordered=ordered,
            ticket=ticket,
            secret=secret,
        )
        if self._filtering is None:
            self.send_below(message, data)
        else:
            self._filtering.send(message)
            if self._filtering.deadline is not None:
                self._filtering.wake()  # who only sends never waits
                self.alarm()
        self.unasked = False  # whoever sends writes it
        return ticket

    def _take(self, message: Message) -> None:
        """A message has come: for the program, or to be opened and for its filters first."""
        if self._sealing is not None:
            self._sealing.receive(message)
        elif message.data.startswith(SEALED):
            self.events.append(Unreadable(message=message, why=NO_SECRET))
        else:
            self.pass_on(message)

    def pass_on(self, message: Message) -> None:
        """What was opened, or was not sealed, is for the program, or for its filters first."""
        if self._filtering is None:
            self.events.append(message)
        else:
            self._filtering.receive(message)

    def _tell(self, event: SystemEvent) -> None:
        """Tell the program what is no message, and then its filters."""
        sealing = self._sealing
        if (
            sealing is not None
            and isinstance(event, Undeliverable)
            and sealing.is_own(event.number)
        ):
            return
        self.events.append(event)
        if sealing is not None and isinstance(event, GroupView):
            sealing.change_view(event)  # first: what filters send now is for the new view
        if self._filtering is not None:
            self._filtering.told(event)
        if sealing is not None:
            sealing.follow()

    def set_filters(self, filters: Sequence[Factory]) -> None:
        """Have other filters in use from the next view on.

        Raises:
            LocalProtocolError: a bad name, or one twice.
            SessionEnded: the session is over.
        """
        if self._filtering is None:
            self._filtering = Filtering(self, (), self._clock)
        self._filtering.change(filters)  # first: what is wrong with them is so in any session
        self.check_open()

    @property
    def patience_s(self) -> float | None:
        """Seconds until `wake` is to be called, infinity too; None if there are no filters and no
        groups with secrets.
        """
        if self._is_plain:
            return None
        patience_s = math.inf if self._filtering is None else self._filtering.patience_s
        deadline = None if self._sealing is None else self._sealing.deadline
        return (
            patience_s if deadline is None else min(patience_s, max(0.0, deadline - self._clock()))
        )

    def wake(self) -> None:
        """Let time pass for the filters, and for keys."""
        if self.closed is None:
            if self._sealing is not None:
                self._sealing.wake()
            if self._filtering is not None:
                self._filtering.wake()

    def send_below(self, message: Outgoing, data: bytes) -> int:
        """What has gone through the filters: seal it if its group has a secret, and send it.

        Its number; 0 if it waits for the key of its group.
        """
        sealing = self._sealing
        if sealing is not None and (sealing.concerns(message.groups) or message.secret):
            return sealing.send(message, data)
        return self.send_out(message, data)

    def send_out(self, message: Outgoing, data: bytes) -> int:
        """Give the session a message with these data; its number."""
        level, type_, discard = message.level, message.type, message.self_discard
        ordered = message.ordered
        number = self._last_sent = self._session.multicast(
            message.groups, data, level=level, type=type_, self_discard=discard, ordered=ordered
        )
        if message.ticket:
            self._requests.sent_as(message.ticket, number)
        if self._trace is not None:
            to = message.groups
            self._trace.sent(number, level, to, type_, data, discard=discard, ordered=ordered)
        self.unasked = True
        return number

    def give(self, event: Received) -> None:
        """Give the program what has gone through the filters, or is about keys."""
        self.events.append(event)
