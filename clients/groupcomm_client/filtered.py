"""What a client knows of its session, and the filters through which its messages go.

Without filters all of this costs a sender one comparison a message, and a receiver one a batch.
"""

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
    Transition,
    Undeliverable,
)
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.session.client import ClientSession, State
from groupcomm.trace.session import SessionTrace
from groupcomm_client.filters.factories import Factory
from groupcomm_client.filters.filtering import Filtering
from groupcomm_client.filters.roles import Outgoing, SystemEvent, Unfiltered
from groupcomm_client.pending import Requests

FILTER_BYTES: Final = 65_536
"""What filters may add to a message."""

Received = Message | GroupView | Undeliverable | Transition | DaemonView | Unfiltered
"""What programs receive; the last only of connections with filters."""


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
        self._groups: dict[str, GroupView] = {}
        self._last_sent = 0
        self.member = MemberId("", 0)
        self.closed: Closed | None = None
        self.events: deque[Received] = deque()
        self.unasked = False
        self.alarm: Callable[[], object] = bool
        self._clock = clock
        self._filtering = Filtering(self, filters, clock) if filters else None

    @property
    def groups(self) -> dict[str, GroupView]:
        """The latest views of the groups that it is a member of, by name."""
        return self._groups

    @property
    def is_open(self) -> bool:
        """Whether it was admitted, and neither side has said goodbye."""
        return self._session.state is State.OPEN

    def check_open(self) -> None:
        """Raise SessionEnded if nothing follows."""
        if self.closed is not None:
            raise SessionEnded(self.closed.code, self.closed.reason)

    def _filter(
        self,
        groups: str | Sequence[str],
        data: bytes,
        level: ServiceLevel,
        type: int,
        self_discard: bool,
        ordered: bool,
    ) -> int:
        """Send a message through the filters."""
        assert self._filtering is not None
        names = (groups,) if isinstance(groups, str) else tuple(groups)
        data = data if isinstance(data, bytes) else bytes(memoryview(data))
        size = len(data) + FILTER_BYTES
        self._session.check(names, size, level=level, type=type, ordered=ordered)
        ticket = self._requests.ticket() if ordered else 0
        message = Outgoing(
            groups=names,
            data=data,
            level=LEVELS[level],
            type=type,
            self_discard=self_discard,
            ordered=ordered,
            ticket=ticket,
        )
        self._filtering.send(message)
        if self._filtering.deadline is not None:
            self._filtering.wake()  # who only sends never waits
            self.alarm()
        self.unasked = False  # whoever sends writes it
        return ticket

    def _take(self, message: Message) -> None:
        """A message has come: for the program, or for its filters first."""
        if self._filtering is None:
            self.events.append(message)
        else:
            self._filtering.receive(message)

    def _tell(self, event: SystemEvent) -> None:
        """Tell the program what is no message, and then its filters."""
        self.events.append(event)
        if self._filtering is not None:
            self._filtering.told(event)

    def set_filters(self, filters: Sequence[Factory]) -> None:
        """Have other filters in use from the next view on.

        Raises:
            LocalProtocolError: a bad name, or one twice.
            SessionEnded: the session is over.
        """
        self.check_open()
        if self._filtering is None:
            self._filtering = Filtering(self, (), self._clock)
        self._filtering.change(filters)

    @property
    def patience_s(self) -> float | None:
        """Seconds until `wake` is to be called, infinity too; None if there are no filters."""
        return None if self._filtering is None else self._filtering.patience_s

    def wake(self) -> None:
        """Let time pass for the filters."""
        if self._filtering is not None and self.closed is None:
            self._filtering.wake()

    def send_below(self, message: Outgoing, data: bytes) -> int:
        """Give the session what has gone through the filters; its number."""
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

    def give(self, event: Message | Unfiltered) -> None:
        """Give the program what has gone through the filters."""
        self.events.append(event)
