"""The client's side of a session: turns requests into bytes, and bytes into events.

Pure. ``now`` is in seconds. A shell moves the bytes: it writes those that `pop_output` returns,
feeds those that it reads to `receive`, and makes its caller wait while `writable` is False. It
calls `look` whenever the time `look_at` has come, whatever its caller does.
"""

import enum
import re
from collections.abc import Mapping, Sequence
from math import inf
from typing import Final, Literal, TypeAlias

from msgspec import structs
from msgspec.structs import force_setattr

from groupcomm.errors import BadDatagram, Code, LocalProtocolError
from groupcomm.events import (
    Closed,
    DaemonView,
    Event,
    GroupView,
    Transition,
)
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.names import check_group, check_user
from groupcomm.security.access import Verb
from groupcomm.session.bundler import Bundler, names_bytes
from groupcomm.session.daemon_frames import (
    EVENTS,
    decode_abort_untrusted,
    decode_accepted_untrusted,
    decode_closed_untrusted,
    decode_ordered_untrusted,
    decode_origins_untrusted,
    decode_refused_untrusted,
    decode_undeliverable_untrusted,
    decode_view_id_untrusted,
    decode_view_untrusted,
    decode_welcome_untrusted,
)
from groupcomm.session.differences import decode_difference_untrusted
from groupcomm.session.frames import (
    ALWAYS,
    CLIENT_FRAME_BYTES,
    DAEMON_FRAME_BYTES,
    Capability,
    FrameKind,
    FrameReader,
    decode_alive_untrusted,
    encode_alive,
    encode_bundle_head,
    encode_bye,
    encode_hello,
    encode_query,
)
from groupcomm.session.group_lists import UNFIT, GroupLists
from groupcomm.session.inbox import Inbox
from groupcomm.session.liveness import PeerWatch
from groupcomm.session.memberships import Memberships
from groupcomm.wire.bundle import (
    GIVES_UP,
    LEAVES_WITHOUT_QUORUM,
    NEEDS_QUORUM,
    SELF_DISCARD,
    WITHOUT_VIEWS,
    BundleKind,
    encode_body,
)
from groupcomm.wire.messages import MAX_MESSAGE_BYTES

OUTPUT_CAP_BYTES: Final = 1024 * 1024
"""Pending bytes above which a sender must wait."""

REASSEMBLY_CAP_BYTES: Final = 256 * 1024 * 1024
"""Bytes of unfinished large messages: the messages of four senders at the limit."""

DAEMON_TIMEOUT_S: Final = 10.0
"""The silence of a daemon after which its client ends the session, unless it is told otherwise."""

Minority: TypeAlias = Literal["deliver", "pause", "leave"]
"""What a session asks for in a group where there is no quorum; see `Connection.join`."""

MINORITY_FLAGS: Final[Mapping[str, int]] = {
    "deliver": 0,
    "pause": NEEDS_QUORUM,
    "leave": NEEDS_QUORUM | LEAVES_WITHOUT_QUORUM,
}
"""The flags of a JOIN for each `Minority`."""

_AGREED: Final = ServiceLevel.AGREED
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_LEVEL_COUNT: Final = len(LEVELS)
_MESSAGES: Final = int(BundleKind.MESSAGES)
_FRAGMENT: Final = int(BundleKind.FRAGMENT)
_DELIVER: Final = int(FrameKind.DELIVER)
_ABOUT_DELIVERIES: Final = frozenset((FrameKind.CAUSES, FrameKind.PRINCIPAL))
_NOTES: Final = frozenset((FrameKind.ACCEPTED, FrameKind.DAEMON_ALIVE))
_VIEWS: Final = frozenset((FrameKind.VIEW, FrameKind.DIFFERENCE, FrameKind.CONTINUED))
_ENDS_OF_VIEWS: Final = frozenset((FrameKind.ORIGINS, FrameKind.TRANSITION))
_FATES: Final = frozenset((FrameKind.ORDERED, FrameKind.UNDELIVERABLE, FrameKind.REFUSED))


class ClientSessionState(enum.Enum):
    """The state of a session at its client."""

    GREETING = enum.auto()  # the HELLO was sent, and the WELCOME has not come
    OPEN = enum.auto()
    CLOSING = enum.auto()  # the client has sent BYE
    CLOSED = enum.auto()


_CLOSED: Final = ClientSessionState.CLOSED


class ClientSession:
    """One session with a daemon.

    Attributes:
        user: the user's name; the private name is ``#user#daemon``.
        state: calls other than `receive` and `pop_output` need OPEN.
        memberships: the groups of the session.
        only_messages: whether the last `receive` has returned messages alone, none of them sealed.
        accepted: a crash of the daemon cannot lose own messages up to this number; None if the
            daemon does not tell.
        knows_lines: whether the daemon knows lines.
        was_silent: whether the session has ended because its daemon was silent.
        knows_pauses: whether all daemons knew joins that need a quorum when it began.
        lacks_quorum: whether its daemon's view is known to have no quorum.
    """

    __slots__ = (
        "_bundler",
        "_inbox",
        "_knows_readers",
        "_lists",
        "_number",
        "_reader",
        "_timeout_s",
        "_together",
        "_watch",
        "accepted",
        "knows_lines",
        "knows_pauses",
        "lacks_quorum",
        "memberships",
        "only_messages",
        "state",
        "user",
        "was_silent",
    )

    def __init__(
        self,
        user: str,
        *,
        start_message: int = 0,
        causes: bool = False,
        principals: bool = False,
        origins: bool = False,
        token: str = "",
        reassembly_cap_bytes: int = REASSEMBLY_CAP_BYTES,
        daemon_timeout_s: float | None = None,
        accepted: bool = True,
        differences: bool = True,
        own_views_only: bool = False,
    ) -> None:
        """Queue the HELLO.

        Args:
            user: 1 to 255 bytes of UTF-8 without ``#``.
            start_message: the number before that of the first message.
            causes: ask for the causes of messages; an older daemon sends none.
            principals: ask for the owners of the sessions that messages come from.
            origins: ask which daemons go on together at the end of a view.
            token: authenticates the client to the daemon; only ever over TLS.
            reassembly_cap_bytes: the most bytes of unfinished messages; above it the session ends,
                as it could keep no promise.
            daemon_timeout_s: the silence of the daemon that ends the session; 0 for none. With
                None the session sends no heartbeats, and asks for none: for a shell that does not
                call `look`.
            accepted: ask which messages a crash of the daemon cannot lose any more.
            differences: ask for changes of groups in place of whole lists; an older daemon sends
                whole lists.
            own_views_only: ask for no views of groups but those of own joins and leaves.

        Raises:
            LocalProtocolError: the user's name is invalid.
        """
        self.user = check_user(user)
        self.state = ClientSessionState.GREETING
        self.only_messages = False
        self._number = start_message
        self.memberships = Memberships()
        self._reader, self._bundler = FrameReader(DAEMON_FRAME_BYTES), Bundler()
        self._inbox = Inbox(reassembly_cap_bytes)
        self._lists = GroupLists()
        self._together: tuple[str, ...] | None = None  # in front of a TRANSITION: who goes along
        self._timeout_s = daemon_timeout_s or 0.0
        self._watch: PeerWatch | None = None  # made once the daemon has sent a heartbeat
        self._knows_readers = self.knows_lines = self.knows_pauses = False
        self.lacks_quorum = self.was_silent = False
        self.accepted: int | None = None
        capabilities = ALWAYS
        capabilities |= Capability.ACCEPTED if accepted else 0
        capabilities |= (Capability.DIFFERENCES | Capability.CONTINUED) if differences else 0
        capabilities |= Capability.NO_VIEWS if own_views_only else 0
        capabilities |= Capability.HEARTBEATS if daemon_timeout_s is not None else 0
        capabilities |= Capability.CAUSES if causes else 0
        capabilities |= Capability.PRINCIPALS if principals else 0
        capabilities |= Capability.ORIGINS if origins else 0
        self._bundler.add_frame(encode_hello(user, capabilities, token))

    @property
    def last_number(self) -> int:
        """Return the number of the last request: messages, joins and leaves share one count."""
        return self._number

    @property
    def last_returned(self) -> int:
        """Return the highest number of an own message that was received; 0 before the first."""
        return self._inbox.last_returned

    # ---- requests ----

    def multicast(
        self,
        groups: str | Sequence[str],
        data: bytes | bytearray | memoryview,
        *,
        level: ServiceLevel,
        type: int = 0,
        self_discard: bool = False,
        ordered: bool = False,
    ) -> int:
        """Queue a message and return its number.

        Args:
            groups: one destination, or up to 255: groups and private names.
            data: up to MAX_MESSAGE_BYTES; data of any other type than bytes is copied.
            level: the service level.
            type: a tag for the receivers, 0 to 65,535.
            self_discard: do not deliver the message to the sender, member or not.
            ordered: ask for an Ordered event with its position; AGREED and SAFE only.

        Raises:
            LocalProtocolError: the session is not open, or an argument is out of its range.
            TypeError: an argument is of another type.
        """
        if self.state is not ClientSessionState.OPEN:
            raise self._not_open()
        if not isinstance(data, bytes):
            data = bytes(memoryview(data))
        names = (groups,) if isinstance(groups, str) else tuple(groups)
        if not (
            type & 0xFFFF == type  # a TypeError for 1.5, which would fail only when it is packed
            and level & 7 == level < _LEVEL_COUNT
            and len(data) <= MAX_MESSAGE_BYTES
            and (level >= _AGREED or not ordered)
        ):
            raise bad_argument(len(data), level, type)
        number = self._number + 1
        flags = SELF_DISCARD if self_discard else 0
        self._bundler.add_message(number, type, data, names, level, flags, ordered)
        self._number = number
        return number

    def check(
        self,
        groups: tuple[str, ...],
        size: int,
        *,
        level: ServiceLevel,
        type: int,
        ordered: bool,
        more: int = 0,
    ) -> None:
        """Raise the errors of `multicast` for a message of `size` bytes, to which `more` may be
        added; queue nothing."""
        if self.state is not ClientSessionState.OPEN:
            raise self._not_open()
        if not (
            type & 0xFFFF == type
            and level & 7 == level < _LEVEL_COUNT
            and size <= MAX_MESSAGE_BYTES - more
            and (level >= _AGREED or not ordered)
        ):
            raise bad_argument(size, level, type, MAX_MESSAGE_BYTES - more)
        names_bytes(groups)

    def multicast_many(
        self,
        groups: str | Sequence[str],
        messages: Sequence[bytes],
        *,
        level: ServiceLevel,
        type: int = 0,
        self_discard: bool = False,
    ) -> None:
        """Queue several messages with consecutive numbers.

        Args:
            groups, level, type, self_discard: see `multicast`.
            messages: a part of messages, as `in_parts` yields it.

        Raises:
            LocalProtocolError: see `multicast`; the messages before the wrong one are queued.
        """
        at = 0
        while at < len(messages):
            self.multicast(groups, messages[at], level=level, type=type, self_discard=self_discard)
            at += 1
            if at < len(messages):
                more = self._bundler.add_more(type, messages, at)
                self._number += more
                at += more

    def join(self, group: str, *, views: bool = True, minority: Minority = "deliver") -> int:
        """Ask to become a member; a GroupView with `own` follows. Return the request's number.

        For `minority` see `Connection.join`.

        Without `views` the session gets the messages of the group, is no member, and gets only the
        view that answers this request, with nobody but itself. A daemon of an earlier release makes
        it a member, and sends views.

        Raises:
            LocalProtocolError: the name or `minority` is invalid, some daemon of the view does not
                know it, the session is not open, or it has joined the group already, or asked to:
                a second request would get no answer.
        """
        flags = MINORITY_FLAGS.get(minority)
        if flags is None:
            known = ", ".join(map(repr, MINORITY_FLAGS))
            raise LocalProtocolError(f"minority is {minority!r}; it must be one of {known}")
        if flags and self.state is ClientSessionState.OPEN and not self.knows_pauses:
            raise LocalProtocolError(
                f"minority is {minority!r}, which some daemon of an earlier release does not know:"
                " update all daemons, then connect again"
            )
        return self._control(BundleKind.JOIN, group, views=views, flags=flags)

    def leave(self, group: str) -> int:
        """Ask to leave a group; a GroupView with `own` follows. Return the request's number.

        Raises:
            LocalProtocolError: the name is invalid, the session is not open, or it has not joined
                the group.
        """
        return self._control(BundleKind.LEAVE, group)

    def go_on_with(self, line: bytes) -> None:
        """Ask to go on with a line; a LineGranted follows, and no message before it.

        Args:
            line: its id, 16 bytes.

        Raises:
            LocalProtocolError: the session is not open.
        """
        self._change_line(line, 0)

    def give_up(self, line: bytes) -> None:
        """Say that the session needs its line no more; raise LocalProtocolError if it is over."""
        self._change_line(line, GIVES_UP)

    def _change_line(self, line: bytes, flags: int) -> None:
        if self.state is not ClientSessionState.OPEN:
            raise self._not_open()
        self._number += 1
        body = encode_body(BundleKind.LINE, _AGREED, flags, self._number, (), line)
        self._bundler.add_frame(encode_bundle_head(len(body), False) + body)

    def count_from(self, number: int) -> None:
        """Give the next message of the line the number behind this one."""
        self._number = number
        self._bundler.end_bundle()

    def ask(self, text: str) -> None:
        """Ask the daemon about itself; Answers follow in the order of the questions.

        Raises:
            LocalProtocolError: the session is not open, or the question is too long, or no text.
        """
        if self.state is not ClientSessionState.OPEN:
            raise self._not_open()
        if not isinstance(text, str) or _SURROGATE.search(text):
            raise LocalProtocolError(f"a question is {text!r}; write a text, such as 'status'")
        size, most = len(text.encode()), CLIENT_FRAME_BYTES - 1
        if size > most:
            raise LocalProtocolError(
                f"a question has {size} bytes; at most {most} are allowed: ask for less at a time"
            )
        self._bundler.add_frame(encode_query(text))

    def close(self) -> None:
        """Queue a BYE after all pending output; a Closed event follows."""
        if self.state in (ClientSessionState.GREETING, ClientSessionState.OPEN):
            self.state = ClientSessionState.CLOSING
            self._bundler.add_frame(encode_bye())

    def _control(self, kind: BundleKind, group: str, *, views: bool = True, flags: int = 0) -> int:
        if self.state is not ClientSessionState.OPEN:
            raise self._not_open()
        check_group(group)
        if kind == BundleKind.JOIN:
            self.memberships.join(group, views=views, needs_quorum=flags > 0)
        else:
            self.memberships.leave(group)
        self._number += 1
        flags |= 0 if views or not self._knows_readers else WITHOUT_VIEWS
        body = encode_body(kind, _AGREED, flags, self._number, (group,), b"")
        self._bundler.add_frame(encode_bundle_head(len(body), False) + body)
        return self._number

    def _not_open(self) -> LocalProtocolError:
        if self.state is ClientSessionState.GREETING:
            return LocalProtocolError("the session is not open yet: wait for Connected")
        return LocalProtocolError("the session is closed: open another one")

    # ---- output ----

    def pop_output(self, limit: int) -> bytes:
        """Remove and return whole frames, one at least if any waits, up to about `limit` bytes."""
        return self._bundler.pop(limit)

    @property
    def pending_bytes(self) -> int:
        """Return the number of bytes that wait for `pop_output`."""
        return self._bundler.pending_bytes

    @property
    def writable(self) -> bool:
        """Return whether another message should be submitted now; it is queued in any case."""
        return self._bundler.pending_bytes < OUTPUT_CAP_BYTES

    # ---- liveness ----

    @property
    def look_at(self) -> float:
        """Return the time at which `look` is due; -inf for at once, inf while it is not needed."""
        if self._watch is None or self.state is not ClientSessionState.OPEN:
            return inf
        return self._watch.due

    def note_heard(self, now: float) -> None:
        """Note that bytes of the daemon were read."""
        if self._watch is not None:
            self._watch.heard_at = now

    def note_sent(self, now: float) -> None:
        """Note that bytes were written."""
        if self._watch is not None:
            self._watch.sent_at = now

    def look(self, now: float, *, reads: bool) -> list[Event]:
        """Queue a heartbeat if one is due; end the session if its daemon is silent.

        Args:
            now: seconds.
            reads: whether all bytes that have arrived were passed to `receive`. If not, as the
                program is slow, the daemon's silence counts from now on.

        Returns:
            Closed, if the session has ended.
        """
        watch, events = self._watch, list[Event]()
        if watch is None or self.state is not ClientSessionState.OPEN:
            return events
        is_first = watch.due < 0
        if is_first:
            watch.heard_at = watch.sent_at = watch.due = now
        if watch.is_silent(now, reads=reads):
            self.was_silent = True
            text = (
                f"nothing has come from the daemon for {watch.timeout_s:g} s: it has stopped, or"
                " the connection to its host is broken"
            )
            self._end(Closed(code=Code.CONNECTION_CLOSED, reason=text), events)
        elif is_first or watch.owes(now):
            if not self._bundler.pending_bytes:
                self._bundler.add_frame(encode_alive(FrameKind.CLIENT_ALIVE, watch.timeout_s))
            watch.note_sent(now)
        return events

    def _note(self, frame: bytes) -> None:
        """Note what a frame says that the program gets no event for."""
        if frame[0] == FrameKind.ACCEPTED:
            self.accepted = max(self.accepted or 0, decode_accepted_untrusted(frame))
            return
        if self._watch is None:
            self._watch = PeerWatch(self._timeout_s, -inf)
        self._watch.note_wait(decode_alive_untrusted(frame))

    # ---- input ----

    @property
    def closed(self) -> bool:
        """Return whether `receive` has returned Closed."""
        return self.state is ClientSessionState.CLOSED

    @property
    def malformed(self) -> int:
        """Return the number of other clients' bundles that were dropped, as they do not decode."""
        return self._inbox.malformed

    def receive(self, data: bytes) -> list[Event]:
        """Process bytes of the daemon; return the events in them, in order. Raise nothing.

        Bytes that do not decode end the session with Closed, and no event follows that.
        """
        events: list[Event] = []
        if self.state is _CLOSED:
            self.only_messages = False
            return events
        self.only_messages = True
        try:
            for frame in self._reader.feed(data):
                if frame[0] == _DELIVER:
                    self._inbox.deliver(frame, events)
                elif frame[0] in _ABOUT_DELIVERIES:
                    self._inbox.accept_context(frame)
                elif frame[0] in _NOTES:
                    self._note(frame)
                else:
                    self._on_frame(frame, events)
                if self.closed or self._inbox.overfull:
                    break
        except BadDatagram as error:
            self._end(Closed(code=Code.NET_ERROR, reason=_why_broken(error)), events)
        if self._inbox.overfull:
            text = "unfinished large messages exceed reassembly_cap_bytes: raise it, connect again"
            self._end(Closed(code=Code.MESSAGE_TOO_LONG, reason=text), events)
        if self._inbox.sealed:
            self._inbox.sealed = self.only_messages = False
        return events

    def connection_lost(self) -> list[Event]:
        """End the session, as the daemon's stream has ended; return Closed unless it has come."""
        events: list[Event] = []
        if not self.closed:
            text = "the connection to the daemon was lost"
            self._end(Closed(code=Code.CONNECTION_CLOSED, reason=text), events)
        return events

    def _on_frame(self, frame: bytes, events: list[Event]) -> None:
        self.only_messages = False
        kind = frame[0]
        if kind in _VIEWS:
            events += self._views(frame)
        elif kind in _FATES:
            events.append(self._fate(frame))
        elif kind == FrameKind.ABORT:
            self._inbox.drop(*decode_abort_untrusted(frame))
        elif kind == FrameKind.VIEWID:
            begun = decode_view_id_untrusted(frame)
            self.lacks_quorum = begun.majority is False
            self._inbox.view, self._lists.others = begun.id, ()
            events.append(begun)
        elif kind in _ENDS_OF_VIEWS:
            self._end_view(frame, events)
        elif (decode := EVENTS.get(kind)) is not None:
            events.append(decode(frame))
            if kind == FrameKind.LINE:
                self.accepted = 0  # from here on it counts the messages of the line
        elif kind == FrameKind.WELCOME:
            self._on_welcome(frame, events)
        elif kind == FrameKind.CLOSED:
            self._end(decode_closed_untrusted(frame), events)
        else:
            raise BadDatagram("kind", f"a frame of the unknown kind {kind}")

    def _views(self, frame: bytes) -> list[GroupView]:
        """Decode a view of a group, which comes whole or as a difference, or those of all others.

        CONTINUED stands for the views with which groups go on in a new view of the daemons.
        """
        self._together = None  # an ORIGINS frame in front was about the view that begins
        announced, me = self._inbox.announced, self._inbox.me
        if frame[0] == FrameKind.VIEW:
            views = [self._lists.hold(decode_view_untrusted(frame, announced), me)]
        elif frame[0] == FrameKind.DIFFERENCE:
            views = [self._lists.apply(decode_difference_untrusted(frame, announced), me)]
        elif len(frame) == 1:
            views = self._lists.go_on(announced)
        else:
            raise BadDatagram("kind", f"a CONTINUED frame of {len(frame)} bytes")
        for view in views:
            self._inbox.group_changed(view)
            if self.lacks_quorum and view.group in self.memberships.need_quorum:
                force_setattr(view, "paused", True)  # it was made just now, and only for this
        return views

    def _end_view(self, frame: bytes, events: list[Event]) -> None:
        if frame[0] == FrameKind.ORIGINS:
            origins = decode_origins_untrusted(frame)
            self._together = tuple(sorted(origins))
            last, along = events[-1] if events else None, self._came_along(origins)
            if isinstance(last, DaemonView) and last.together is None:
                events[-1] = structs.replace(last, together=along)
        elif len(frame) == 1:
            events.append(Transition(self._inbox.announced, self._together))
        else:
            raise BadDatagram("kind", f"a TRANSITION frame of {len(frame)} bytes")

    def _came_along(self, origins: Mapping[str, int]) -> tuple[str, ...] | None:
        """Return the daemons that have come into a view with that of this session."""
        me, parts = self._inbox.me, dict[int, list[str]]()
        for daemon, number in sorted(origins.items()):
            parts.setdefault(number, []).append(daemon)
        own = None if me is None else parts.pop(origins.get(me.daemon, -1), None)
        self._lists.others = tuple(map(tuple, parts.values()))
        return None if own is None else tuple(own)

    def _fate(self, frame: bytes) -> Event:
        """Decode the outcome of a request."""
        if frame[0] == FrameKind.ORDERED:
            return decode_ordered_untrusted(frame, self._inbox.announced)
        if frame[0] == FrameKind.UNDELIVERABLE:
            return decode_undeliverable_untrusted(frame, self._inbox.announced)
        refused = decode_refused_untrusted(frame)
        if refused.verb == Verb.JOIN.word:
            self.memberships.refuse(refused.group)
        return refused

    def _on_welcome(self, frame: bytes, events: list[Event]) -> None:
        connected = decode_welcome_untrusted(frame)
        if self._bundler.bundle_limit:
            raise BadDatagram("kind", "a second WELCOME")
        self._bundler.bundle_limit = connected.bundle_limit
        self._inbox.me = connected.member
        self._knows_readers, self.knows_lines = connected.readers, connected.lines
        self.knows_pauses = connected.pauses
        if self.state is ClientSessionState.GREETING:
            self.state = ClientSessionState.OPEN
        events.append(connected)

    def _end(self, closed: Closed, events: list[Event]) -> None:
        self.only_messages = False
        self.state = ClientSessionState.CLOSED
        self._bundler = Bundler()
        last_returned = self._inbox.last_returned
        self._inbox, self._lists = Inbox(0), GroupLists()
        self._inbox.last_returned = last_returned
        events.append(closed)


def _why_broken(error: BadDatagram) -> str:
    """Return why a session ends whose daemon has sent such bytes."""
    if error.reason == UNFIT:
        return (
            f"the daemon's views of a group do not follow each other ({error.detail}): one was"
            " lost or repeated; connect again"
        )
    return f"the daemon has sent bytes that do not decode ({error}): connect again"


def bad_argument(
    size: int, level: int, type_: int, most: int = MAX_MESSAGE_BYTES
) -> LocalProtocolError:
    """Return the error of a message of `size` bytes with a wrong size, level or type."""
    if size > most:
        return LocalProtocolError(
            f"a message has {size} bytes; at most {most} are allowed: send several"
        )
    if not 0 <= type_ <= 65535:
        return LocalProtocolError(f"type is {type_}; it must be 0 to 65535")
    if not 0 <= level < len(LEVELS):
        return LocalProtocolError(
            f"level is {level}; it must be a ServiceLevel, 0 to {len(LEVELS) - 1}"
        )
    return LocalProtocolError(
        f"ordered=True at {LEVELS[level].name}: only AGREED and SAFE messages have an order"
        " to wait for"
    )
