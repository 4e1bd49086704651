"""What a client knows of its session, whatever moves its bytes.

The shells (trio, asyncio, blocking) do the same three things: they write what `take` gives, feed
what they have read, and make their callers wait until something is so. All else is here, without
I/O but for the trace.
"""

import json
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

from groupcomm.errors import AccessRefused, SessionEnded
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
    Refused,
    Transition,
    Undeliverable,
)
from groupcomm.level import ServiceLevel
from groupcomm.session.client import ClientSession, State
from groupcomm.trace.session import SessionTrace
from groupcomm_client.pending import Pending, Requests
from groupcommd.trace_file import TraceFile, now_us, trace_session

Received = Message | GroupView | Undeliverable | Refused | Transition | DaemonView
"""What programs receive."""

Ready = Callable[[], bool]
"""Whether what was asked for has come."""


def read_answer(data: bytes) -> dict[str, Any]:
    """What a daemon has answered.

    Raises:
        AccessRefused: that this may not be asked.
    """
    found: dict[str, Any] = json.loads(data)
    if "refused" in found and "error" in found:
        raise AccessRefused(**found["refused"], text=found["error"])
    return found


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

    def __init__(
        self,
        user: str | None,
        trace: Path | None = None,
        *,
        causes: bool = False,
        token: str = "",
    ) -> None:
        """Begin it; nothing has been said yet.

        Args:
            user: its name; None for a random one.
            trace: the folder for a trace of it; None for no trace.
            causes: ask to be told the causes of messages.
            token: proves who this is; "" for none.

        Raises:
            LocalProtocolError: not a user's name.
        """
        self._session = ClientSession(user or random_user(), causes=causes, token=token)
        self._groups: dict[str, GroupView] = {}
        self._requests = Requests()
        self._trace_folder = trace
        self._trace: SessionTrace | None = None  # begins once the session has its identity
        self._trace_file: TraceFile | None = None
        self._greeted = 0
        self._last_sent = self._seen_back = 0
        self._views_waiting = 0  # among the events
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
        return self._last_sent - max(self._seen_back, self._session.heard_back)

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
        return self._requests.change(group, number)

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

    def send_many(
        self,
        groups: str | Sequence[str],
        messages: Sequence[bytes],
        *,
        level: ServiceLevel,
        type: int,
        self_discard: bool,
    ) -> None:
        """Send a part of many messages."""
        self.check_open()
        if self._trace is not None:
            for data in messages:
                self.send(groups, data, level=level, type=type, self_discard=self_discard)
            return
        try:
            self._session.multicast_many(
                groups, messages, level=level, type=type, self_discard=self_discard
            )
        finally:
            self._last_sent = self._session.last_number

    def order_of(self, number: int) -> AbstractContextManager[Pending[Ordered]]:
        """The place of a message that was sent as ordered, for as long as it is waited for.

        Raises:
            OrderUnknown: the session has ended while the block waited.
        """
        return self._requests.order_of(number)

    def ask(self, question: str) -> Pending[bytes]:
        """Ask the daemon about itself; answers come in the order of the questions."""
        self.check_open()
        self._session.ask(question)
        return self._requests.question()

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
        session = self._session
        events = session.receive(data) if data else session.connection_lost()
        if session.only_messages and self._trace is None:
            self.events += cast(list[Message], events)
            return
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
            self._views_waiting -= 1
        return event

    def take_events(self) -> list[Received]:
        """All events that are there."""
        if self._views_waiting:
            return [self.take_event() for _ in range(len(self.events))]
        events = list(self.events)
        self.events.clear()
        return events

    def _on_event(self, event: Event) -> None:
        match event:
            case Message():
                self.events.append(event)
            case GroupView():
                self._note_members(event)
                self.events.append(event)
            case Ordered():
                self._seen_back = max(self._seen_back, event.number)
                self._requests.ordered(event)
            case Answer():
                self._requests.answered(event)
            case Connected():
                self._admitted(event.member)
            case Closed():
                self.closed = event
            case DaemonView():
                self._views_waiting += 1
                self.events.append(event)
            case Refused():
                self._note_refused(event)
                self.events.append(event)
            case Undeliverable() | Transition():
                self.events.append(event)

    def _note_refused(self, event: Refused) -> None:
        if event.number:
            self._seen_back = max(self._seen_back, event.number + event.count - 1)
            self._requests.refused(event)
        if event.verb == "join":
            self.asked.discard(event.group)

    def _note_members(self, view: GroupView) -> None:
        if self.member in view.members:
            self._groups[view.group] = view
        else:
            self._groups.pop(view.group, None)
        if view.own:
            self._seen_back = max(self._seen_back, self._requests.changed(view))

    def _admitted(self, member: MemberId) -> None:
        self.member = member
        if self._trace_folder is not None:
            self._trace_file, self._trace = trace_session(
                self._trace_folder, str(member), self._greeted
            )
