"""What a client knows of its session, whatever moves its bytes.

The shells (trio, asyncio, blocking) do the same three things: they write what `take` gives, feed
what they have read, and make their callers wait until something is so. All else is here, without
I/O but for the trace.
"""

import secrets
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

from groupcomm.errors import OrderUnknown, SessionEnded
from groupcomm.events import (
    Answer,
    Closed,
    Connected,
    DaemonView,
    Event,
    GroupView,
    MemberId,
    Message,
    Ordered,
    Transition,
    Undeliverable,
)
from groupcomm.level import ServiceLevel
from groupcomm.session.client import ClientSession, State
from groupcomm.trace.session import SessionTrace
from groupcommd.trace_file import TraceFile, now_us, trace_session

Received = Message | GroupView | Undeliverable | Transition | DaemonView
"""What programs receive."""

Ready = Callable[[], bool]
"""Whether what was asked for has come."""

_Value = TypeVar("_Value")


class Pending(Generic[_Value]):
    """An answer that is waited for.

    Attributes:
        value: None until it has come.
    """

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: _Value | None = None

    def has_come(self) -> bool:
        """Whether it is there."""
        return self.value is not None

    @property
    def come(self) -> _Value:
        """It, which must be there."""
        assert self.value is not None
        return self.value


def random_user() -> str:
    """A name for a program that does not care for its own."""
    return f"u{secrets.token_hex(6)}"


class Conversation:
    """One session, from its hello to its end.

    Attributes:
        member: the identity of this session.
        view: the daemons' view that the events taken last belong to.
        closed: why nothing follows; None while something may.
        events: what has come and was not taken yet.
        asked: what it will be a member of once all that it has asked for is answered.
    """

    def __init__(self, user: str | None, trace: Path | None = None) -> None:
        """Begin it; nothing has been said yet.

        Args:
            user: its name; None for a random one.
            trace: the folder for a trace of it; None for no trace.

        Raises:
            LocalProtocolError: not a user's name.
        """
        self._session = ClientSession(user or random_user())
        self._groups: dict[str, GroupView] = {}
        # Joins and leaves that have no answer yet, with their numbers. The daemon answers those of
        # one group in their order, also when nobody waits any more.
        self._changes: dict[str, deque[tuple[int, Pending[GroupView]]]] = {}
        self._orders: dict[int, Pending[Ordered]] = {}
        self._answers: deque[Pending[bytes]] = deque()
        self._trace_folder = trace
        self._trace: SessionTrace | None = None  # begins once the session has its identity
        self._trace_file: TraceFile | None = None
        self._greeted = 0
        self._last_sent = self._seen_back = 0
        self.member = MemberId("", 0)
        self.view: DaemonView | None = None
        self.closed: Closed | None = None
        self.events: deque[Received] = deque()
        self.asked: set[str] = set()

    # ---- what is known ----

    @property
    def groups(self) -> dict[str, GroupView]:
        """The latest views of the groups that it is a member of, by name."""
        return self._groups

    @property
    def is_open(self) -> bool:
        """Whether it was admitted, and neither side has said goodbye."""
        return self._session.state is State.OPEN

    @property
    def writable(self) -> bool:
        """Whether a sender should go on."""
        return self._session.writable

    @property
    def in_doubt(self) -> int:
        """At most so many of the messages sent last may never have reached the daemon.

        It is shown to have taken those before by giving one back, or its place in the order.
        """
        return self._last_sent - self._seen_back

    def check_open(self) -> None:
        """Raise SessionEnded if nothing follows."""
        if self.closed is not None:
            raise SessionEnded(self.closed.code, self.closed.reason)

    # ---- what is asked for; each returns what has to become so ----

    def greet(self) -> Ready:
        """Its hello waits to be written already."""
        self._greeted = now_us()
        return lambda: self.is_open

    def join(self, group: str) -> Pending[GroupView]:
        """Ask to become a member; the first view is the answer."""
        self.check_open()
        number = self._session.join(group)
        self.asked.add(group)
        return self._asked_to("join", group, number)

    def leave(self, group: str) -> Pending[GroupView]:
        """Ask to be a member no longer; a view without this session is the answer."""
        self.check_open()
        number = self._session.leave(group)
        self.asked.discard(group)
        return self._asked_to("leave", group, number)

    def _asked_to(self, what: str, group: str, number: int) -> Pending[GroupView]:
        if self._trace is not None:
            self._trace.asked(what, group, number)
        pending = Pending[GroupView]()
        self._changes.setdefault(group, deque()).append((number, pending))
        return pending

    def send(
        self,
        groups: str | Sequence[str],
        data: bytes,
        *,
        level: ServiceLevel,
        type: int,
        self_discard: bool,
        ordered: bool = False,
    ) -> int:
        """Send a message; its number."""
        self.check_open()
        number = self._session.multicast(
            groups, data, level=level, type=type, self_discard=self_discard, ordered=ordered
        )
        self._last_sent = number
        if self._trace is not None:
            to = (groups,) if isinstance(groups, str) else groups
            self._trace.sent(number, level, to, type, data, discard=self_discard, ordered=ordered)
        return number

    @contextmanager
    def order_of(self, number: int) -> Iterator[Pending[Ordered]]:
        """The place of a message that was sent as ordered, for as long as it is waited for.

        Raises:
            OrderUnknown: the session has ended while the block waited.
        """
        self._orders[number] = pending = Pending[Ordered]()
        try:
            yield pending
        except SessionEnded as error:
            text = f"the order of a message is unknown: {error}"
            raise OrderUnknown(error.code, text) from None
        finally:
            del self._orders[number]

    def ask(self, question: str) -> Pending[bytes]:
        """Ask the daemon about itself; answers come in the order of the questions."""
        self.check_open()
        self._session.ask(question)
        pending = Pending[bytes]()
        self._answers.append(pending)
        return pending

    def say_goodbye(self) -> bool:
        """Ask for an orderly end; False if it is over already."""
        if self.closed is not None or self._session.state is State.CLOSED:
            return False
        self._session.close()
        if self._trace is not None:
            self._trace.asked("disconnect")
        return True

    def broken_off(self) -> None:
        """The shell has closed the connection: what was not written is lost."""
        if self._trace is not None and self.closed is None and self.is_open:
            self._trace.asked("crash")
        if self._trace_file is not None:
            self._trace_file.close()

    # ---- bytes ----

    @property
    def pending_bytes(self) -> int:
        """Bytes that wait for `take`."""
        return self._session.pending_bytes

    def take(self, limit: int) -> bytes:
        """What is to be written, about so much."""
        self._flush_trace()
        return self._session.take(limit)

    def feed(self, data: bytes) -> None:
        """Take what was read; nothing (b"") at the end of the stream."""
        events = self._session.receive(data) if data else self._session.connection_lost()
        for event in events:
            if self._trace is not None:
                self._trace.told(event)
            self._on_event(event)
        self._flush_trace()

    def _flush_trace(self) -> None:
        if self._trace_file is not None:
            self._trace_file.flush()

    # ---- events ----

    def take_event(self) -> Received:
        """The next event, which must be there."""
        event = self.events.popleft()
        if type(event) is DaemonView:
            self.view = event
        return event

    def take_events(self) -> list[Received]:
        """All events that are there."""
        return [self.take_event() for _ in range(len(self.events))]

    def _on_event(self, event: Event) -> None:
        match event:
            case Message():
                if event.sender == self.member:
                    self._seen_back = max(self._seen_back, event.number)
                self.events.append(event)
            case GroupView():
                self._note_members(event)
                self.events.append(event)
            case Ordered() | Answer():
                self._answered(event)
            case Connected():
                self._admitted(event.member)
            case Closed():
                self.closed = event
            case Undeliverable() | Transition() | DaemonView():
                self.events.append(event)

    def _answered(self, event: Ordered | Answer) -> None:
        if isinstance(event, Ordered):
            self._seen_back = max(self._seen_back, event.number)
            if event.number in self._orders:  # else nobody waits any more
                self._orders[event.number].value = event
        elif self._answers:
            self._answers.popleft().value = event.data

    def _note_members(self, view: GroupView) -> None:
        if self.member in view.members:
            self._groups[view.group] = view
        else:
            self._groups.pop(view.group, None)
        if view.own and view.group in self._changes:
            number, pending = self._changes[view.group].popleft()
            if not self._changes[view.group]:
                del self._changes[view.group]
            self._seen_back = max(self._seen_back, number)
            pending.value = view

    def _admitted(self, member: MemberId) -> None:
        self.member = member
        if self._trace_folder is not None:
            self._trace_file, self._trace = trace_session(
                self._trace_folder, str(member), self._greeted
            )


class Facts:
    """What all kinds of connections tell about their session; `conversation` holds it."""

    conversation: Conversation

    def __repr__(self) -> str:
        return f"<groupcomm connection {self.member.name or 'not admitted yet'}>"

    @property
    def member(self) -> MemberId:
        """The identity of this session."""
        return self.conversation.member

    @property
    def name(self) -> str:
        """The private name, under which others reach this session: ``#user#daemon``."""
        return self.conversation.member.name

    @property
    def view(self) -> DaemonView | None:
        """The daemons' view that the events given last belong to."""
        return self.conversation.view

    @property
    def groups(self) -> dict[str, GroupView]:
        """The latest views of the groups that this session is a member of, by name."""
        return dict(self.conversation.groups)

    @property
    def in_doubt(self) -> int:
        """At most so many of the messages sent last may never have reached the daemon."""
        return self.conversation.in_doubt
