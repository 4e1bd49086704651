"""Session record: all that a daemon keeps of one session, and the state machine of its life.

Pure and without time. The core carries out the requests and pushes what it delivers; a shell
moves bytes: it feeds what it reads while `reading` is True, and writes what `pop_output` gives.

The events of its life are methods, and docs/session.md has the table of what each leads to:
`next_request` (a HELLO, a BYE), `connect` (the user's name is its own), `welcome` (its CONNECT is
ordered), `close` (it has to end), `push` (its client is too slow), `lose_client` (the client's
stream has ended), `finish` (all that came before was looked at) and `disconnect` (its DISCONNECT is
ordered). The core acts on two changes: it orders a CONNECT when the session enters CONNECTING, and
a DISCONNECT when it leaves CONNECTING, OPEN or DRAINING for a state of its end.
"""

import enum
from collections import deque
from collections.abc import Iterator
from typing import Final

import attrs

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.config.core import MAX_MESSAGE_BYTES
from groupcomm.errors import BadDatagram, ConfigError, LocalProtocolError, SessionError
from groupcomm.events import DaemonView, GroupView, MemberId
from groupcomm.level import ServiceLevel
from groupcomm.names import check_user
from groupcomm.session.bundler import TARGET_BYTES
from groupcomm.session.codes import Code
from groupcomm.session.daemon_frames import (
    encode_abort,
    encode_closed,
    encode_ordered,
    encode_transition,
    encode_undeliverable,
    encode_view,
    encode_view_id,
    encode_welcome,
)
from groupcomm.session.frames import (
    BUNDLE_BODY_OFFSET,
    CLIENT_FRAME_BYTES,
    HELLO_FRAME_BYTES,
    MIN_BUNDLE_LIMIT,
    PROTOCOL_VERSION,
    FrameKind,
    FrameReader,
    decode_hello_untrusted,
    decode_query_untrusted,
)
from groupcomm.session.outbox import Outbox, Replies
from groupcomm.session.requests import (
    VIOLATION,
    Bye,
    Hello,
    Numbering,
    Query,
    Request,
    Submit,
    price_of_bundle,
    price_of_frame,
)
from groupcomm.wire.bundle import Bundle, BundleKind, decode_body_untrusted
from groupcomm.wire.raw import Raw

_AGREED: Final = int(ServiceLevel.AGREED)
_BUNDLE: Final = int(FrameKind.BUNDLE)
_FRAGMENT: Final = int(BundleKind.FRAGMENT)
_FROM_CLIENTS: Final = frozenset(
    map(int, (BundleKind.MESSAGES, BundleKind.FRAGMENT, BundleKind.JOIN, BundleKind.LEAVE))
)


@attrs.frozen(kw_only=True)
class SessionLimits:
    """What one client may make its daemon keep, in bytes, and others wait, in seconds."""

    unreliable_drop_bytes: int = 4 * 1024 * 1024  # waiting output; UNRELIABLE is dropped above it
    output_cap_bytes: int = 2 * MAX_MESSAGE_BYTES  # one message with its heads, and a window
    backlog_cap_bytes: int = 1024 * 1024  # bundles without a number; what a visit may take
    block_bytes: int | None = None  # waiting output above which all senders wait; None: never
    block_s: float = 10.0  # a client for which they wait for so long is cut off

    def __attrs_post_init__(self) -> None:
        if self.backlog_cap_bytes < 1:
            raise ConfigError(
                f"sessions: backlog_cap_bytes is {self.backlog_cap_bytes}; it must be at least 1"
            )
        if not 0 <= self.unreliable_drop_bytes <= self.output_cap_bytes:
            raise ConfigError(
                f"sessions: unreliable_drop_bytes is {self.unreliable_drop_bytes}; it must be"
                f" 0 to output_cap_bytes = {self.output_cap_bytes}"
            )


class DaemonSessionState(enum.IntEnum):
    """How far a session is, in the order of its life."""

    NEW = enum.auto()  # nothing but a HELLO may come
    GREETED = enum.auto()  # its HELLO has come, and it waits for its name
    CONNECTING = enum.auto()  # its CONNECT waits for its place in the order; only BYE may come
    OPEN = enum.auto()  # all daemons know it
    DRAINING = enum.auto()  # its client is gone; what came before is looked at, nothing is told
    WITHDRAWING = enum.auto()  # the client said goodbye in CONNECTING; a DISCONNECT follows
    LEAVING = enum.auto()  # the client said goodbye in OPEN; it is told all until the DISCONNECT
    CLOSING = enum.auto()  # the client was told the end; the DISCONNECT waits for its place
    GONE = enum.auto()  # the client is gone; the DISCONNECT waits for its place
    CLOSED = enum.auto()  # no daemon knows it; the client was told the end, and may still read it


class DaemonSession:
    """The record of one session at its daemon.

    Attributes:
        connection: its number at this daemon.
        principal: whose it is; "" if nobody knows.
        user: the name asked for in the hello; empty before.
        member: who it is for everybody, from CONNECTING on.
        state: how far it is.
        block_bytes: waiting output above which all senders wait; None: never.
        backlog_bytes: sizes of submitted bundles; the core takes a bundle's size off when it
            numbers or drops it.
        dropped: UNRELIABLE bundles that the client was too slow for.
        price: of the frame that `next_request` has looked at last.
        too_slow: it was closed because its output went above the cap.
        bundle_limit: what WELCOME has told; 0 before.
        early: frames that were delivered before the WELCOME, and whether each may be dropped.
        takes_refusals: the client understands REFUSED frames.
        last_principal: of the sender of the last delivery, if the client asks for principals.
        targets: connections that the private names of its last message mean.
        awaited: messages whose positions it waits for.
        numbered: fragments of the message whose last one has no number.
        allowed, groups, expelled, refused: what access control knows of it: destinations that the
            rules allow, groups that it has joined or asked to, those that it had to leave, and the
            message in fragments that was not allowed.
    """

    __slots__ = (
        "_frames",
        "_input",
        "_limits",
        "_numbering",
        "_outbox",
        "_reader",
        "_replies",
        "_view",
        "allowed",
        "awaited",
        "backlog_bytes",
        "block_bytes",
        "bundle_limit",
        "connection",
        "dropped",
        "early",
        "expelled",
        "groups",
        "last_principal",
        "member",
        "numbered",
        "price",
        "principal",
        "refused",
        "state",
        "takes_refusals",
        "targets",
        "too_slow",
        "user",
    )

    def __init__(self, connection: int, *, limits: SessionLimits, principal: str = "") -> None:
        self.connection = connection
        self.principal = principal
        self.user = ""
        self.member: MemberId | None = None
        self.state = DaemonSessionState.NEW
        self.backlog_bytes = 0
        self.dropped = 0
        self.too_slow = False
        self.price = VIOLATION
        self.bundle_limit = 0
        self._limits = limits
        self.block_bytes = limits.block_bytes
        self._reader = FrameReader(HELLO_FRAME_BYTES)
        self._input: deque[bytes] = deque()  # nobody has looked at it yet
        self._frames: Iterator[bytes] | None = None  # of what is looked at now
        self._outbox = Outbox()
        self._replies = Replies()
        self._view: ViewId | None = None
        self._numbering = Numbering()
        self.numbered: list[Bundle] = []
        self.early: list[tuple[tuple[Raw, ...], bool]] = []
        self.takes_refusals = False
        self.last_principal: str | None = None
        self.targets: tuple[int, ...] = ()
        self.awaited: set[int] = set()
        self.allowed: set[tuple[str, ...]] = set()
        self.groups: set[str] = set()
        self.expelled: set[str] = set()
        self.refused = 0

    # ---- its life ----

    @property
    def closed(self) -> bool:
        """Whether nothing more is told; the connection ends once the output is taken."""
        return self.state >= DaemonSessionState.CLOSING

    @property
    def is_known(self) -> bool:
        """Whether it is a session for other daemons, or about to be one."""
        return DaemonSessionState.CONNECTING <= self.state <= DaemonSessionState.GONE

    @property
    def has_client(self) -> bool:
        """Whether its client's stream is there."""
        return (
            self.state is not DaemonSessionState.DRAINING
            and self.state is not DaemonSessionState.GONE
        )

    @property
    def is_notified(self) -> bool:
        """Whether it is to be told of views: all daemons know it, and it is told all."""
        return self.state is DaemonSessionState.OPEN or self.state is DaemonSessionState.LEAVING

    def connect(self, private_name: str) -> None:
        """Enter CONNECTING: the name is its own, and its CONNECT is to be ordered."""
        assert self.state is DaemonSessionState.GREETED, self.state
        self.member = MemberId(private_name, self.connection)
        self.state = DaemonSessionState.CONNECTING

    def welcome(self, bundle_limit: int, view: DaemonView) -> bool:
        """Admit the client: its CONNECT is ordered; return what `push` does.

        Args:
            bundle_limit: bytes of a body that fit a packet with the rest of its record; targets
                count 8 bytes each. MIN_BUNDLE_LIMIT at least.
            view: of the positions that follow.
        """
        assert self.state in (DaemonSessionState.CONNECTING, DaemonSessionState.WITHDRAWING), (
            self.state
        )
        assert bundle_limit >= MIN_BUNDLE_LIMIT, bundle_limit
        assert self.member is not None
        self.bundle_limit = bundle_limit
        self._reader.limit = CLIENT_FRAME_BYTES
        self.state = (
            DaemonSessionState.OPEN
            if self.state is DaemonSessionState.CONNECTING
            else DaemonSessionState.LEAVING
        )
        return self.push(encode_welcome(self.member, bundle_limit)) and self.push_view_id(view)

    def close(self, code: int, reason: str) -> None:
        """Tell why, behind all that waits, and take nothing more; closing twice is allowed."""
        if self.state is DaemonSessionState.DRAINING:
            self.finish()
        elif self.state < DaemonSessionState.CLOSING:
            self.state = DaemonSessionState.CLOSING if self.is_known else DaemonSessionState.CLOSED
            self.discard_input()
            frame = encode_closed(code, reason)
            self._outbox.add((frame,), len(frame))

    def close_slow(self, what: str) -> None:
        """End it because its client is too slow; what waits is not kept, but for the reason."""
        self.too_slow = True
        self._outbox.clear()  # it would not be read; other sessions need the memory
        self.close(Code.CONNECTION_CLOSED, f"too slow: {what}; read faster")

    def lose_client(self) -> None:
        """Tell nothing more: the client's stream has ended. What it has sent of OPEN counts."""
        self._replies.forget()
        if self.state is DaemonSessionState.OPEN and self.has_input:
            self.state = DaemonSessionState.DRAINING
        else:
            self.finish()

    def finish(self) -> None:
        """Look at nothing more: the client's stream has ended, and what came before was taken."""
        self.discard_input()
        self._outbox.clear()
        self.state = DaemonSessionState.GONE if self.is_known else DaemonSessionState.CLOSED

    def disconnect(self) -> None:
        """Be no session any more: its DISCONNECT is ordered."""
        self.close(Code.OK, "the session has ended")
        self.numbered.clear()
        self.state = DaemonSessionState.CLOSED

    @property
    def reading(self) -> bool:
        """Whether the client's bytes should be read: all that it has sent was looked at, and its
        backlog is below the cap.
        """
        return not self.has_input and self.backlog_bytes < self._limits.backlog_cap_bytes

    @property
    def has_input(self) -> bool:
        """Whether frames may be in what was heard: `next_request` tells."""
        return self._frames is not None or bool(self._input)

    @property
    def stalled(self) -> bool:
        """Whether nothing is looked at until the client takes what its own frames have brought."""
        return self._replies.are_due(self._outbox.popped)

    @property
    def unfinished(self) -> int:
        """Number of the message in fragments whose last has not come; 0 if there is none."""
        return self._numbering.unfinished

    # ---- input ----

    def receive(self, data: bytes) -> list[Request]:
        """Take bytes of the client; return all that it asks for, in order.

        Raises:
            BadDatagram, SessionError: see `next_request`.
        """
        self.buffer(data)
        requests: list[Request] = []
        while (request := self.next_request()) is not None:
            requests.append(request)
        return requests

    def buffer(self, data: bytes) -> None:
        """Keep bytes of the client until `next_request` looks at them."""
        if self.state < DaemonSessionState.CLOSING:
            self._input.append(data)

    def discard_input(self) -> None:
        """Look at nothing more of what was heard: the session is over."""
        self._input.clear()
        self._frames = None

    def next_request(self) -> Request | None:
        """Return what the next frame asks for, and set `price`; None if there is no whole frame.

        Raises:
            BadDatagram: the bytes do not decode.
            SessionError: a request breaks a rule. Either way the session must be closed.
        """
        self.price = VIOLATION
        while self.state < DaemonSessionState.CLOSING:
            if self._frames is None:
                if not self._input:
                    return None
                self._frames = self._reader.feed(self._input.popleft())
            frame = next(self._frames, None)
            if frame is not None:
                return self._on_frame(frame)
            self._frames = None
        return None

    def _on_frame(self, frame: bytes) -> Request:
        kind = frame[0]
        is_open = self.state is DaemonSessionState.OPEN or self.state is DaemonSessionState.DRAINING
        if kind == _BUNDLE and is_open:
            return self._on_bundle(frame)
        if kind == FrameKind.QUERY and is_open:
            self.price = price_of_frame(frame)
            self._replies.asked = True
            return Query(decode_query_untrusted(frame))
        if self.state is DaemonSessionState.NEW:
            return self._on_hello(frame)
        if len(frame) == 1 and kind == FrameKind.BYE and self.state <= DaemonSessionState.DRAINING:
            self.price = price_of_frame(frame)
            self._on_bye()
            return Bye()
        raise SessionError(
            Code.ILLEGAL_SESSION, f"a frame of kind {kind} in state {self.state.name}"
        )

    def _on_hello(self, frame: bytes) -> Hello:
        if frame[0] != FrameKind.HELLO:
            raise SessionError(Code.ILLEGAL_SESSION, "the first frame is not a HELLO")
        version, capabilities, user, _ = decode_hello_untrusted(frame)
        if version != PROTOCOL_VERSION:
            raise SessionError(
                Code.REJECT_VERSION,
                f"the client speaks version {version}, this daemon {PROTOCOL_VERSION}:"
                " install matching releases",
            )
        try:
            self.user = check_user(user)
        except LocalProtocolError as error:
            raise SessionError(Code.REJECT_NAME, str(error)) from None
        self.state = DaemonSessionState.GREETED
        self.price = price_of_frame(frame)
        return Hello(user, capabilities)

    def _on_bye(self) -> None:
        if self.state is DaemonSessionState.OPEN:
            self.state = DaemonSessionState.LEAVING
        elif self.state is DaemonSessionState.CONNECTING:
            self.state = DaemonSessionState.WITHDRAWING
        else:
            self.close(Code.OK, "the client has left")

    def _on_bundle(self, frame: bytes) -> Submit:
        if len(frame) < BUNDLE_BODY_OFFSET or frame[1] > 1:
            raise BadDatagram("bundle", "neither ordered nor not")
        bundle = decode_body_untrusted(memoryview(frame)[BUNDLE_BODY_OFFSET:])
        if bundle.kind not in _FROM_CLIENTS:
            raise SessionError(Code.ILLEGAL_MESSAGE, f"clients do not send kind {bundle.kind}")
        ordered = frame[1] == 1
        if ordered and (bundle.level < _AGREED or bundle.kind > _FRAGMENT):
            raise SessionError(Code.ILLEGAL_SERVICE, "ordered is for AGREED and SAFE messages only")
        size = len(bundle.body) + TARGET_BYTES * bundle.privates
        if size > self.bundle_limit:
            raise SessionError(
                Code.MESSAGE_TOO_LONG,
                f"a bundle of {size} bytes; WELCOME allowed {self.bundle_limit}",
            )
        self._numbering.check(bundle)
        self.price = price_of_bundle(bundle, frame)
        bundle.address(self.connection, self.user, (0,) * bundle.privates)
        self.backlog_bytes += bundle.size
        return Submit(bundle, ordered)

    # ---- numbers ----

    def note_numbered(self, bundle: Bundle) -> bool:
        """Note that a bundle of its has its number; True if it waits for the position."""
        self.backlog_bytes -= bundle.size
        if bundle.kind == _FRAGMENT:
            self.numbered.append(bundle)
            if bundle.index < bundle.count - 1:
                return False
            self.numbered.clear()
        return bundle.message in self.awaited

    def reclaim(self) -> list[Bundle]:
        """Return the bundles of a message that has numbers only in part: it needs others."""
        bundles, self.numbered = self.numbered, []
        for bundle in bundles:
            bundle.given = False
            self.backlog_bytes += bundle.size
        return bundles

    # ---- output ----

    def push_view_id(self, view: DaemonView) -> bool:
        """Tell of which view the positions are that follow; return what `push` does."""
        self._view = view.id
        return self.push(encode_view_id(view))

    def push_transition(self) -> bool:
        """Tell that the view announced last has no regular part any more; return as `push`."""
        return self.push(encode_transition())

    def push(self, *frame: Raw, droppable: bool = False) -> bool:
        """Queue a whole frame, which may be shared with other sessions.

        Args:
            frame: its parts, of `encode_delivery` or `encode_view`.
            droppable: it is UNRELIABLE.

        Returns:
            Whether the session is still open; it is closed if its client is too slow.
        """
        if self.state >= DaemonSessionState.CLOSING:
            return False
        size = sum(map(len, frame))
        total = self._outbox.size + size
        if total > self._limits.unreliable_drop_bytes:
            if droppable:
                self.dropped += 1
                return True
            if total > self._limits.output_cap_bytes:
                self.close_slow(f"more than {self._limits.output_cap_bytes} bytes waited")
                return False
        self._outbox.add(frame, size)
        return True

    def note_reply(self, *, answer: bool = False) -> None:
        """The frame pushed last is the client's own doing: a refusal, or the answer it wants."""
        end = self._outbox.popped + self._outbox.size
        if answer:
            self._replies.answer(end)
        else:
            self._replies.add(end)

    def push_view(self, view: GroupView) -> None:
        """Tell the members of a group."""
        assert view.id.view == self._view, f"{view.id} is not of the view {self._view}"
        self.push(encode_view(view))

    def push_ordered(self, number: int, position: Position) -> None:
        """Tell the position of a message that was submitted as ordered."""
        assert position.view == self._view, f"{position} is not of the view {self._view}"
        self.push(encode_ordered(number, position))

    def push_undeliverable(self, number: int, target: str, position: Position) -> None:
        """Tell that a private message found nobody."""
        assert position.view == self._view, f"{position} is not of the view {self._view}"
        self.push(encode_undeliverable(number, target, position))

    def push_abort(self, sender: MemberId, number: int) -> None:
        """Tell that the rest of a sender's message will not come; number 0: of any of them."""
        self.push(encode_abort(sender, number))

    @property
    def output_bytes(self) -> int:
        """Bytes that wait for `pop_output`."""
        return self._outbox.size

    @property
    def blocks(self) -> bool:
        """Whether all senders are to wait for this client."""
        most = self.block_bytes
        return (
            most is not None
            and self._outbox.size > most
            and self.state < DaemonSessionState.CLOSING
        )

    def pop_output(self, limit: int) -> list[Raw]:
        """Parts of whole frames for the client, one frame at least, until `limit` is reached."""
        return self._outbox.pop(limit)
