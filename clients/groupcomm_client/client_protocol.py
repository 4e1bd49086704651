"""The client's side of a session, independent of the way in which its bytes are moved.

The streams of all event loops do the same three things: they write the bytes of `data_to_send`,
pass their input to `receive_data`, and let their callers wait until a condition holds. All other
work is here, without I/O except for the trace.

An outgoing message passes the filters, and is then sealed if its group has a secret; an incoming
message goes the other way. Without filters and secrets, a sender pays one comparison for each
message, and a receiver one for each batch.
"""

import math
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from msgspec.structs import replace

from groupcomm.errors import Code, ForkedSession, LocalProtocolError, SessionEnded
from groupcomm.events import (
    Answer,
    Closed,
    Connected,
    DaemonStopping,
    DaemonView,
    Event,
    GroupView,
    LineGranted,
    MemberId,
    Message,
    Ordered,
    Refused,
    Transition,
    Undeliverable,
)
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.names import check_group
from groupcomm.session.client_session import (
    DAEMON_TIMEOUT_S,
    ClientSession,
    ClientSessionState,
    Minority,
)
from groupcomm.session.inbox import SEALED
from groupcomm_client.doubt import Doubt
from groupcomm_client.events import NO_SECRET, Received, Unreadable
from groupcomm_client.filters import factories
from groupcomm_client.filters.factories import Factory
from groupcomm_client.filters.roles import Outgoing, SystemEvent
from groupcomm_client.line import Line, Sent
from groupcomm_client.line_session import LineSession
from groupcomm_client.requests import Pending, PendingOrder, Requests
from groupcomm_client.without_views import check_secret

if TYPE_CHECKING:
    from groupcomm.host.trace_file import TraceFile
    from groupcomm.trace.recorders import SessionTrace
    from groupcomm_client.end_to_end.credentials import GroupSecret
    from groupcomm_client.end_to_end.sealing import Sealing
    from groupcomm_client.filters.filtering import Filtering

FILTER_BYTES: Final = 65_536
"""The most bytes that filters may add to a message."""

MOST_UNREAD: Final = 1024
"""With more events that the program has not received, nothing is read for it in advance."""

MOST_UNREAD_BYTES: Final = 1_048_576
"""The same for the data of messages among them."""

_ignore: Final[Callable[[], object]] = bool

Ready: TypeAlias = Callable[[], bool]
"""Returns whether the awaited answer or event has come."""


class ClientProtocol:
    """One session, from its HELLO to its end.

    Attributes:
        member: the identity of this session.
        view: the view of daemons to which the events popped last belong.
        closed: the reason why no event follows; None while events may follow.
        is_parting: whether the program moves to another daemon, and sends no more here.
        stopping: the latest notice that the daemon is about to stop; None without one.
        inputs: the number of times that bytes have arrived.
        owner: the process that the session belongs to, if it has forked this one; else 0.
        events: the events that have arrived and were not popped yet.
        line: the line whose messages are sent in the session; None for none.
        needs_flush: whether output waits that no caller has just sent; the stream writes it.
        views: whether groups are joined with views, unless a join says otherwise.
        on_watched: set by the stream; called when `look_in_s` has become less.
        on_earlier_wake: the same for `wake_in_s`, and when filters have released events.
    """

    inputs = owner = _greeted_us = _views_waiting = 0
    is_parting = needs_flush = _said_goodbye = False
    member = MemberId("", 0)
    view: DaemonView | None = None
    closed: Closed | None = None
    stopping: DaemonStopping | None = None
    line: LineSession | None = None

    def __init__(
        self,
        user: str,
        trace: Path | None = None,
        *,
        causes: bool = False,
        principals: bool = False,
        token: str = "",
        filters: Sequence[Factory] | None = None,
        secrets: "dict[str, GroupSecret] | None" = None,
        clock: Callable[[], float] = time.monotonic,
        daemon_timeout_s: float | None = DAEMON_TIMEOUT_S,
        views: bool = True,
        own_views_only: bool = False,
    ) -> None:
        """Begin the session; nothing has been sent yet.

        Args:
            user: the name of the session.
            trace: the folder for its trace; None for no trace.
            causes, principals, token, daemon_timeout_s, own_views_only: see `ClientSession`.
            filters: factories of the filters that all messages pass; None for the default ones.
            secrets: the secrets of the groups that the program joined with one, by name; kept up to
                date. None in the first session of a program.
            clock: the clock of filters and keys, in seconds.
            views: whether groups are joined with views, unless a join says otherwise.

        Raises:
            LocalProtocolError: the name of the user or of a filter is invalid.
        """
        self._session = ClientSession(
            user,
            causes=causes,
            principals=principals,
            origins=True,
            token=token,
            daemon_timeout_s=daemon_timeout_s,
            own_views_only=own_views_only,
        )
        self.views = views
        self.events: deque[Received] = deque()
        self.on_earlier_wake = self.on_watched = _ignore
        self._look_at = math.inf  # the time that the stream knows
        self._requests = Requests()
        self._clock = clock
        self._filtering: Filtering | None = None
        self._sealing: Sealing | None = None  # made once a group is joined with a secret
        self._secrets = {} if secrets is None else secrets
        if self._secrets:
            self._seal()
        if chosen := factories.default() if filters is None else filters:
            self._filter(chosen)
        self._trace_folder = trace
        self._trace_file: TraceFile | None = None
        self._trace: SessionTrace | None = None  # made once the session has its identity
        self._doubt = Doubt()

    def _filter(self, filters: Sequence[Factory]) -> "Filtering":
        from groupcomm_client.filters.filtering import Filtering  # noqa: PLC0415 - few need it

        self._filtering = Filtering(self, filters, self._clock)
        return self._filtering

    def _seal(self) -> "Sealing":
        from groupcomm_client.end_to_end.sealing import Sealing  # noqa: PLC0415 - few need it

        self._sealing = Sealing(self, self._clock, self._secrets)
        return self._sealing

    # ---- state ----

    @property
    def groups(self) -> dict[str, GroupView]:
        """Return the latest view of each group that the session is a member of, by name."""
        return self._session.memberships.views

    @property
    def is_open(self) -> bool:
        """Return whether the session was admitted, and neither side has said goodbye."""
        return self._session.state is ClientSessionState.OPEN and not self.owner

    def forsake(self) -> None:
        """See `groupcomm.host.forks`: the session goes on in the process that it belongs to."""
        self.owner = os.getppid()
        self.closed = Closed(code=Code.CONNECTION_CLOSED, reason="it belongs to another process")
        self.stopping = None
        self.events.clear()

    def check_open(self) -> None:
        """Raise SessionEnded if no event follows, ForkedSession in a process that was forked."""
        self.check_own()
        if self.closed is not None:
            raise SessionEnded(self.closed.code, self.closed.reason)

    def check_own(self) -> None:
        """Raise ForkedSession in a process that was forked."""
        if self.owner:
            raise ForkedSession("this session", self.owner)

    def check_sending(self) -> None:
        """Raise SessionEnded if the session accepts no request of the program any more."""
        if self.is_parting and not self.owner:
            raise SessionEnded(Code.CONNECTION_CLOSED, "this program moves to another daemon")
        self.check_open()

    def stop_sending(self) -> None:
        """Accept no more requests, as the program moves to another daemon."""
        self.is_parting = True

    def is_quiet(self) -> bool:
        """Return whether all requests have their answers, and no message waits for a key."""
        unsealed = self._sealing is not None and self._sealing.has_unsealed
        return self._requests.is_empty and not unsealed

    @property
    def is_plain(self) -> bool:
        """Return whether messages pass the session unchanged: without filters and secrets."""
        return self._filtering is None and self._sealing is None

    @property
    def in_doubt(self) -> int:
        """Return the most messages, of those sent last, that a crash of the daemon may lose."""
        return self._doubt.count(self._session.accepted, self._session.last_returned)

    @property
    def was_silent(self) -> bool:
        """Return whether the session has ended because its daemon was silent."""
        return self._session.was_silent

    @property
    def lacks_quorum(self) -> bool:
        """Return whether its daemon's view is known to have no quorum."""
        return self._session.lacks_quorum

    # ---- requests ----

    def greet(self) -> Ready:
        """Queue the HELLO; return whether the session was admitted."""
        self._greeted_us = time.monotonic_ns() // 1000  # the clock of traces
        return lambda: self.is_open

    def join(
        self,
        group: str,
        secret: "GroupSecret | None" = None,
        *,
        views: bool = True,
        minority: Minority = "deliver",
    ) -> Pending[GroupView]:
        """Ask to become a member of a group, or without views to read it; a view answers."""
        self.check_sending()
        views = views and self.views
        check_secret(group, secret, views=views)
        number = self._session.join(group, views=views, minority=minority)
        sealing = self._seal() if secret is not None and self._sealing is None else self._sealing
        if sealing is not None:
            sealing.join(group, secret)
        what = "join" if views else "read"
        return self._change(what, group, number, needs_quorum=minority != "deliver")

    def leave(self, group: str) -> Pending[GroupView]:
        """Ask to end the membership; a view without this session is the answer."""
        self.check_sending()
        return self._change("leave", group, self._session.leave(group))

    def request_membership(self, group: str, *, join: bool) -> None:
        """Ask to join or to leave, unless the session has asked for it already."""
        self.check_sending()
        check_group(group)
        if (group in self._session.memberships.asked) == join:
            return
        (self.join if join else self.leave)(group)

    def _change(
        self, verb: str, group: str, number: int, *, needs_quorum: bool = False
    ) -> Pending[GroupView]:
        self._doubt.note_change(number, self._session.accepted, self._session.last_returned)
        if self._trace is not None:
            self._trace.requested(verb, group, number, needs_quorum=needs_quorum)
        return self._requests.change(group, number, join=verb != "leave")

    def may_send(self, groups: tuple[str, ...]) -> bool:
        """Return whether a message can be sent now; if not, it can once its group has a key.

        Raises:
            LocalProtocolError: the message must not be sent.
        """
        if self._sealing is None:
            return True
        self.check_sending()
        return self._sealing.may_send(groups, self._session.memberships.asked)

    def rekey(self, group: str) -> Ready:
        """Ask for another key of a group with a secret.

        Raises:
            LocalProtocolError: the session has not joined it with a secret.
        """
        self.check_sending()
        if self._sealing is None or not isinstance(group, str):
            raise LocalProtocolError(f"this session has not joined {group!r} with a secret")
        return self._sealing.rekey(group)

    def set_filters(self, filters: Sequence[Factory]) -> None:
        """Use other filters from the next view on.

        Raises:
            LocalProtocolError: a name is invalid, or occurs twice.
            SessionEnded: the session is over.
        """
        filtering = self._filter(()) if self._filtering is None else self._filtering
        filtering.change(filters)  # first, as invalid filters are invalid in any session
        self.check_sending()

    def send(self, message: Outgoing) -> None:
        """Send a message."""
        self.check_sending()
        if self.is_plain:
            self._multicast(message, message.data)
        else:
            self._send_through(message)

    def send_ordered(self, message: Outgoing) -> PendingOrder:
        """Send a message whose place in the order its caller waits for; see `forget_order`."""
        self.check_sending()
        if self.is_plain:
            return self._requests.expect_order(self._multicast(message, message.data))
        order = self._requests.expect_order(self._requests.next_ticket())
        try:
            self._send_through(message, order.number)
        except BaseException:
            self.forget_order(order)
            raise
        return order

    def forget_order(self, order: PendingOrder) -> None:
        """Stop waiting for the place of a message."""
        self._requests.forget_order(order)

    def _multicast(self, message: Outgoing, data: bytes) -> int:
        """Pass a message with these data to the session; return its number."""
        if self.line is None:
            return self.put(message, data)
        if message.level == ServiceLevel.RELIABLE:  # so that what was delivered has no gap
            message = replace(message, level=ServiceLevel.FIFO)
        number = self.put(message, data)
        self.line.keep(number, message)
        return number

    def put(self, message: Outgoing | Sent, data: bytes) -> int:
        """Pass a message with these data to the session as it is; return its number."""
        number = self._doubt.last_sent = self._session.multicast(
            message.groups,
            data,
            level=message.level,
            type=message.type,
            self_discard=message.self_discard,
            ordered=message.ordered,
        )
        if self._trace is not None:
            what = (message.level, message.groups, message.type, data)
            discard, ordered = message.self_discard, message.ordered
            self._trace.sent(number, *what, discard=discard, ordered=ordered)
        return number

    def send_many(self, alike: Outgoing, messages: Sequence[bytes]) -> None:
        """Send some of many messages, which are like one but for their data."""
        self.check_sending()
        if self._trace is not None or not self.is_plain or self.line is not None:
            for data in messages:
                self.send(replace(alike, data=data))
            return
        try:
            self._session.multicast_many(
                alike.groups,
                messages,
                level=alike.level,
                type=alike.type,
                self_discard=alike.self_discard,
            )
        finally:
            self._doubt.last_sent = self._session.last_number

    def go_on_with(self, line: Line) -> LineSession | None:
        """Send all messages in a line from now on; return None if the daemon knows no lines."""
        self.check_sending()
        if self._session.knows_lines:
            self.line = LineSession(line, self, self._session, self._requests, self._trace)
        return self.line

    def ask(self, question: str) -> Pending[bytes]:
        """Ask the daemon a question; answers come in the order of the questions."""
        self.check_sending()
        self._session.ask(question)
        return self._requests.question()

    def say_goodbye(self) -> bool:
        """Ask for an orderly end; return False if the session is over already."""
        if self.closed is not None or self._session.state is ClientSessionState.CLOSED:
            return False
        if self._filtering is not None and self.is_open:
            self._filtering.finish()
        self._session.close()
        self._said_goodbye = True
        if self._trace is not None:
            self._trace.requested("disconnect")
        return True

    def break_off(self) -> None:
        """End the session: its socket was closed, and output that was not written is lost."""
        if self._trace is not None and self.closed is None and self.is_open:
            self._trace.requested("crash")
        if self._trace_file is not None:
            self._trace_file.close()
        if self._filtering is not None:
            self._filtering.end()
        self.receive_data(b"")  # tasks that still wait learn of the end

    # ---- bytes ----

    @property
    def pending_bytes(self) -> int:
        """Return the number of bytes that wait for `data_to_send`."""
        return self._session.pending_bytes

    def data_to_send(self, limit: int) -> bytes:
        """Return the next bytes to write, about `limit` of them."""
        if self._trace_file is not None:
            self._trace_file.flush()
        self.needs_flush = False
        self._session.note_sent(time.monotonic())
        return self._session.pop_output(limit)

    def receive_data(self, data: bytes) -> None:
        """Process input; b"" stands for the end of the stream."""
        session = self._session
        events = session.receive(data) if data else session.connection_lost()
        session.note_heard(time.monotonic())
        self.inputs += 1
        if session.look_at < self._look_at:
            self.on_watched()
        if session.only_messages and self._trace is None and self.is_plain:
            self.events += cast(list[Message], events)
            return
        for event in events:
            if self._trace is not None:
                self._trace.received(event)
            self._on_event(event)
        if self._trace_file is not None:
            self._trace_file.flush()

    # ---- liveness ----

    @property
    def look_in_s(self) -> float:
        """Return the seconds until `look` is to be called; inf once it is not needed any more."""
        self._look_at = self._session.look_at
        return max(0.0, self._look_at - time.monotonic())

    @property
    def may_read_ahead(self) -> bool:
        """Return whether input may be read early: few events wait, and no program's code runs."""
        return (
            len(self.events) < MOST_UNREAD
            and self.is_plain
            and self._trace_folder is None
            and sum(len(each.data) for each in self.events if type(each) is Message)
            < MOST_UNREAD_BYTES
        )

    def look(self, *, reads: bool) -> None:
        """Queue a heartbeat if one is due; end the session if its daemon is silent.

        Args:
            reads: whether all input that has arrived was read.
        """
        for event in self._session.look(time.monotonic(), reads=reads):
            if self._trace is not None:
                self._trace.received(event)
            self._on_event(event)

    # ---- events ----

    def has_events(self) -> bool:
        """Return whether `pop_event` has an event to return."""
        return bool(self.events)

    def pop_event(self) -> Received | None:
        """Remove and return the next event; None if there is none."""
        if not self.events:
            return None
        event = self.events.popleft()
        if type(event) is DaemonView:
            self.view = event
            self._views_waiting -= 1
        return event

    def pop_events(self) -> list[Received]:
        """Remove and return all waiting events."""
        events = list(self.events)
        self.events.clear()
        if self._views_waiting:
            self.view = [event for event in events if isinstance(event, DaemonView)][-1]
            self._views_waiting = 0
        return events

    @property
    def has_view_waiting(self) -> bool:
        """Return whether a view of daemons is among the events that wait."""
        return self._views_waiting > 0

    def put_before(self, events: Sequence[Received]) -> None:
        """Queue some events before those that wait."""
        self.events.extendleft(reversed(events))
        self._views_waiting += sum(isinstance(event, DaemonView) for event in events)

    def _on_event(self, event: Event) -> None:
        match event:
            case Message():
                self._accept(event)
            case GroupView():
                self._accept_view(event)
            case Ordered() | Answer():
                self._note_answer(event)
            case Connected() | LineGranted():
                self._begin(event)
            case Closed():
                self._end(event)
            case DaemonView():
                self._views_waiting += 1
                self._notify(event)
            case Refused():
                self._note_refused(event)
                self._notify(event)
            case Undeliverable() | Transition():
                self._notify(event)
            case _:  # what filters are not notified of
                if isinstance(event, DaemonStopping):
                    self.stopping = event
                self.events.append(event)

    def _accept(self, message: Message) -> None:
        """Process an incoming message: queue it for the program, or open and filter it first."""
        if self._sealing is not None:
            self._sealing.receive(message)
        elif message.data.startswith(SEALED):
            self.events.append(Unreadable(message=message, why=NO_SECRET))
        else:
            self.pass_on(message)

    def _notify(self, event: SystemEvent) -> None:
        """Queue an event that is no message, and then notify the filters of it."""
        sealing = self._sealing
        if (
            sealing is not None
            and isinstance(event, Undeliverable)
            and sealing.is_own(event.number)
        ):
            return
        self.events.append(event)
        if sealing is not None and isinstance(event, GroupView):
            sealing.change_view(event)  # first, as filters now send messages for the new view
        if self._filtering is not None:
            self._filtering.notified(event)
        if sealing is not None:
            sealing.follow()

    def _end(self, closed: Closed) -> None:
        if self._sealing is not None:
            self._sealing.finish()
        if self._filtering is not None:
            self._filtering.finish()
        if self.line is not None:
            self.line.note_answers()
        if self._said_goodbye and closed.code == Code.OK:
            self._doubt.end()
        self.closed = closed

    def _note_answer(self, event: Ordered | Answer) -> None:
        if isinstance(event, Answer):
            self._requests.answered(event)
        else:
            self._doubt.note_shown(event.number)
            self._requests.ordered(event)

    def _note_refused(self, event: Refused) -> None:
        if event.number:
            self._doubt.note_shown(event.number + event.count - 1)
            self._requests.refused(event)

    def _accept_view(self, view: GroupView) -> None:
        """Process a view; of a group that it only reads the program gets none."""
        reads = view.group in self._session.memberships.reads
        joined = self._session.memberships.update(view, self.member)
        if view.own:
            self._doubt.note_shown(self._requests.changed(view, joined=joined))
        if not reads:
            self._notify(view)

    def _begin(self, event: Connected | LineGranted) -> None:
        """Begin the session, or go on with its line."""
        if isinstance(event, LineGranted):
            if self.line is not None:
                self.line.begin(event)
            return
        self.member = event.member
        if self._trace_folder is not None:
            from groupcomm.host.trace_file import trace_session  # noqa: PLC0415 - few need it

            self._trace_file, self._trace = trace_session(
                self._trace_folder, str(self.member), self._greeted_us
            )
        if self._filtering is not None:
            self._filtering.start()

    # ---- filters and secrets, between the program and the session ----

    def _send_through(self, message: Outgoing, ticket: int = 0) -> None:
        """Send a message through the filters, and sealed if its group has a secret.

        Args:
            message: the message as the program has given it.
            ticket: below 0 if a caller waits for its place in the order, see `Requests`; else 0.
        """
        data = message.data
        data = data if isinstance(data, bytes) else bytes(memoryview(data))
        self._session.check(
            message.groups,
            len(data),
            level=message.level,
            type=message.type,
            ordered=message.ordered,
            more=FILTER_BYTES,
        )
        secret = self._sealing is not None and self._sealing.concerns(message.groups)
        level = LEVELS[message.level]
        message = replace(message, data=data, level=level, ticket=ticket, secret=secret)
        if self._filtering is None:
            self.send_below(message, data)
        else:
            self._filtering.send(message)
            if self._filtering.deadline is not None:
                self._filtering.wake()  # a program that only sends never waits
                self.on_earlier_wake()
        self.needs_flush = False  # the sending call writes the output

    def send_below(self, message: Outgoing, data: bytes) -> int:
        """Send what has passed the filters; return its number, 0 while it waits for a key."""
        sealing = self._sealing
        if sealing is not None and (sealing.concerns(message.groups) or message.secret):
            return sealing.send(message, data)
        return self.send_out(message, data)

    def send_out(self, message: Outgoing, data: bytes) -> int:
        """Pass a message with these data to the session; return its number."""
        number = self._multicast(message, data)
        if message.ticket:
            self._requests.sent_as(message.ticket, number)
        self.needs_flush = True
        return number

    def pass_on(self, message: Message) -> None:
        """Pass on a message that was opened, or was not sealed: to the program, or its filters."""
        if self._filtering is None:
            self.events.append(message)
        else:
            self._filtering.receive(message)

    def give(self, event: Received) -> None:
        """Queue an event for the program: a filtered message, or news about keys."""
        self.events.append(event)

    @property
    def wake_in_s(self) -> float | None:
        """Return the seconds until `wake`, perhaps infinity; None without filters and secrets."""
        if self.is_plain:
            return None
        wake_in_s = math.inf if self._filtering is None else self._filtering.wake_in_s
        if self._sealing is None or self._sealing.deadline is None:
            return wake_in_s
        return min(wake_in_s, max(0.0, self._sealing.deadline - self._clock()))

    @property
    def wait_left_s(self) -> float | None:
        """Return the seconds for which a waiting task may still wait: 0 once there are events."""
        return 0.0 if self.events else self.wake_in_s

    def wake(self) -> None:
        """Let time pass for the filters, and for keys."""
        if self.closed is None:
            if self._sealing is not None:
                self._sealing.wake()
            if self._filtering is not None:
                self._filtering.wake()
