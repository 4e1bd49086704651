"""What a client knows of its session, whatever moves its bytes.

The shells (trio, asyncio, blocking) do the same three things: they write what `take` gives, feed
what they have read, and make their callers wait until something is so. All else is here, without
I/O but for the trace.
"""

import json
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

from groupcomm.errors import AccessRefused, LocalProtocolError
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
from groupcomm.host.trace_file import TraceFile, now_us, trace_session
from groupcomm.level import ServiceLevel
from groupcomm.session.client_session import ClientSession, ClientSessionState
from groupcomm_client.end_to_end.credentials import GroupSecret
from groupcomm_client.end_to_end.sealing import Sealing
from groupcomm_client.filtered import FilteredSession, Received
from groupcomm_client.filters import factories
from groupcomm_client.filters.factories import Factory
from groupcomm_client.pending import Pending

__all__ = ["Conversation", "Ready", "Received", "random_user"]

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


class Conversation(FilteredSession):
    """One session, from its hello to its end.

    Attributes:
        member: the identity of this session.
        view: the daemons' view that the events taken last belong to.
        closed: why nothing follows; None while something may.
        events: what has come and was not taken yet.
        unasked: something waits to be written that no caller has just sent; the shell writes it.
        alarm: set by the shell; called when `patience_s` may have become less while it waits.
    """

    def __init__(
        self,
        user: str | None,
        trace: Path | None = None,
        *,
        causes: bool = False,
        principals: bool = False,
        token: str = "",
        filters: Sequence[Factory] | None = None,
        secrets: dict[str, GroupSecret] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin it; nothing has been said yet.

        Args:
            user: its name; None for a random one.
            trace: the folder for a trace of it; None for no trace.
            causes: ask to be told the causes of messages.
            principals: ask to be told whose sessions messages come from.
            token: proves who this is; "" for none.
            filters: make the filters that all messages go through; None for the default ones.
            secrets: of groups that the program joined last with one, by name; kept up to date.
                None for a program whose first session it is.
            clock: of the filters.

        Raises:
            LocalProtocolError: not a user's name, or not a filter's.
        """
        session = ClientSession(
            user or random_user(), causes=causes, principals=principals, token=token
        )
        super().__init__(session, factories.default() if filters is None else filters, clock)
        self._secrets = {} if secrets is None else secrets
        if self._secrets:
            self._sealing = Sealing(self, clock, self._secrets)
        self._trace_folder = trace
        self._trace_file: TraceFile | None = None
        self._greeted = 0
        self._seen_back = 0
        self._views_waiting = 0  # among the events
        self.view: DaemonView | None = None

    # ---- what is known ----

    @property
    def writable(self) -> bool:
        """Whether a sender should go on."""
        return self._session.writable

    @property
    def in_doubt(self) -> int:
        """At most so many of the messages sent last may never have reached the daemon.

        It is shown to have taken those before by giving one back, or its place in the order.
        """
        return self._last_sent - max(self._seen_back, self._session.last_returned)

    # ---- what is asked for; each returns what has to become so ----

    def greet(self) -> Ready:
        """Its hello waits to be written already."""
        self._greeted = now_us()
        return lambda: self.is_open

    def join(self, group: str, secret: GroupSecret | None = None) -> Pending[GroupView]:
        """Ask to become a member; the first view is the answer."""
        self.check_open()
        number = self._session.join(group)
        if secret is not None and self._sealing is None:
            self._sealing = Sealing(self, self._clock, self._secrets)
        if self._sealing is not None:
            self._sealing.join(group, secret)
        return self._asked_to("join", group, number)

    def leave(self, group: str) -> Pending[GroupView]:
        """Ask to be a member no longer; a view without this session is the answer."""
        self.check_open()
        number = self._session.leave(group)
        return self._asked_to("leave", group, number)

    def _asked_to(self, what: str, group: str, number: int) -> Pending[GroupView]:
        if self._trace is not None:
            self._trace.requested(what, group, number)
        return self._requests.change(group, number, join=what == "join")

    def has_asked(self, group: str) -> bool:
        """Return whether it is a member once all that it has asked for is answered."""
        return group in self._session.memberships.asked

    def may_send(self, groups: str | Sequence[str]) -> bool:
        """Whether a message can go out now; if not, it can once its group has a key.

        Raises:
            LocalProtocolError: it must not go out.
        """
        if self._sealing is None:
            return True
        self.check_open()
        names = (groups,) if isinstance(groups, str) else groups
        return self._sealing.may_send(names, self._session.memberships.asked)

    def rekey(self, group: str) -> Ready:
        """Ask for another key of a group with a secret.

        Raises:
            LocalProtocolError: the session has not joined it with a secret.
        """
        self.check_open()
        if self._sealing is None:
            raise LocalProtocolError(f"this session has not joined {group!r} with a secret")
        return self._sealing.rekey(group)

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
        """Send a message; its number, or what `order_of` takes for it while filters hold it."""
        self.check_open()
        if not self._is_plain:
            return self._send_through(groups, data, level, type, self_discard, ordered)
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
        if self._trace is not None or not self._is_plain:
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
        if self.closed is not None or self._session.state is ClientSessionState.CLOSED:
            return False
        if self._filtering is not None and self.is_open:
            self._filtering.finish()
        self._session.close()
        if self._trace is not None:
            self._trace.requested("disconnect")
        return True

    def broken_off(self) -> None:
        """The shell has closed the connection: what was not written is lost."""
        if self._trace is not None and self.closed is None and self.is_open:
            self._trace.requested("crash")
        if self._trace_file is not None:
            self._trace_file.close()
        if self._filtering is not None:
            self._filtering.end()

    # ---- bytes ----

    @property
    def pending_bytes(self) -> int:
        """Bytes that wait for `take`."""
        return self._session.pending_bytes

    def take(self, limit: int) -> bytes:
        """What is to be written, about so much."""
        self._flush_trace()
        self.unasked = False
        return self._session.pop_output(limit)

    def feed(self, data: bytes) -> None:
        """Take what was read; nothing (b"") at the end of the stream."""
        session = self._session
        events = session.receive(data) if data else session.connection_lost()
        if session.only_messages and self._trace is None and self._is_plain:
            self.events += cast(list[Message], events)
            return
        for event in events:
            if self._trace is not None:
                self._trace.received(event)
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
                self._take(event)
            case GroupView():
                self._note_members(event)
                self._tell(event)
            case Ordered():
                self._seen_back = max(self._seen_back, event.number)
                self._requests.ordered(event)
            case Answer():
                self._requests.answered(event)
            case Connected():
                self._admitted(event.member)
            case Closed():
                self._end(event)
            case DaemonView():
                self._views_waiting += 1
                self._tell(event)
            case Undeliverable() | Transition() | Refused():
                self._note_refused(event)
                self._tell(event)

    def _end(self, closed: Closed) -> None:
        if self._sealing is not None:
            self._sealing.finish()
        if self._filtering is not None:
            self._filtering.finish()
        self.closed = closed

    def _note_refused(self, event: Event) -> None:
        if not isinstance(event, Refused):
            return
        if event.number:
            self._seen_back = max(self._seen_back, event.number + event.count - 1)
            self._requests.refused(event)

    def _note_members(self, view: GroupView) -> None:
        joined = self._session.memberships.update(view, self.member)
        if view.own:
            self._seen_back = max(self._seen_back, self._requests.changed(view, joined=joined))

    def _admitted(self, member: MemberId) -> None:
        self.member = member
        if self._trace_folder is not None:
            self._trace_file, self._trace = trace_session(
                self._trace_folder, str(member), self._greeted
            )
        if self._filtering is not None:
            self._filtering.start()
