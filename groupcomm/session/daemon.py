"""The daemon's side of a session: bytes to requests, deliveries to bytes.

Pure and without time. The core carries out the requests and pushes what it delivers; a shell
moves bytes: it feeds what it reads while `reading` is True, and writes what `take` gives.
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
from groupcomm.session.frame_reader import FrameReader
from groupcomm.session.frames import (
    BUNDLE_BODY_OFFSET,
    CLIENT_FRAME_BYTES,
    HELLO_FRAME_BYTES,
    MIN_BUNDLE_LIMIT,
    PROTOCOL_VERSION,
    FrameKind,
    decode_hello_untrusted,
    decode_query_untrusted,
    encode_abort,
    encode_closed,
    encode_ordered,
    encode_transition,
    encode_undeliverable,
    encode_view_id,
    encode_welcome,
)
from groupcomm.session.numbering import Numbering
from groupcomm.session.outbox import Outbox
from groupcomm.session.prices import WRONG, price_of_bundle, price_of_frame
from groupcomm.session.replies import Replies
from groupcomm.session.requests import Bye, Hello, Query, Request, Submit
from groupcomm.session.view_frame import encode_view
from groupcomm.wire.bundle import BundleKind, decode_body_untrusted
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


class State(enum.Enum):
    """How far a session is."""

    NEW = enum.auto()  # nothing but a hello may come
    GREETED = enum.auto()  # the core is to admit or refuse it
    OPEN = enum.auto()
    LEAVING = enum.auto()  # the client said goodbye; what is delivered still goes to it
    CLOSED = enum.auto()


class DaemonSession:
    """The daemon's end of one client's connection.

    Attributes:
        connection: its number at this daemon.
        user: the name asked for in the hello; empty before.
        state: how far it is.
        block_bytes: waiting output above which all senders wait; None: never.
        backlog_bytes: sizes of submitted bundles; the core takes a bundle's size off when it
            numbers or drops it.
        dropped: UNRELIABLE bundles that the client was too slow for.
        price: of the frame that `next_request` has looked at last.
        too_slow: it was closed because its output went above the cap.
        bundle_limit: what WELCOME has told; 0 before.
    """

    __slots__ = (
        "_frames",
        "_heard",
        "_limits",
        "_numbering",
        "_outbox",
        "_reader",
        "_replies",
        "_view",
        "backlog_bytes",
        "block_bytes",
        "bundle_limit",
        "connection",
        "dropped",
        "price",
        "state",
        "too_slow",
        "user",
    )

    def __init__(self, connection: int, *, limits: SessionLimits) -> None:
        self.connection = connection
        self.user = ""
        self.state = State.NEW
        self.backlog_bytes = 0
        self.dropped = 0
        self.too_slow = False
        self.price = WRONG
        self.bundle_limit = 0
        self._limits = limits
        self.block_bytes = limits.block_bytes
        self._reader = FrameReader(HELLO_FRAME_BYTES)
        self._heard: deque[bytes] = deque()  # nobody has looked at it yet
        self._frames: Iterator[bytes] | None = None  # of what is looked at now
        self._outbox = Outbox()
        self._replies = Replies()
        self._view: ViewId | None = None
        self._numbering = Numbering()

    @property
    def closed(self) -> bool:
        """Whether `close` was called; the connection ends once the output is taken."""
        return self.state is State.CLOSED

    @property
    def reading(self) -> bool:
        """Whether the client's bytes should be read: all that it has sent was looked at, and its
        backlog is below the cap.
        """
        return not self.waits and self.backlog_bytes < self._limits.backlog_cap_bytes

    @property
    def waits(self) -> bool:
        """Whether frames may be in what was heard: `next_request` tells."""
        return self._frames is not None or bool(self._heard)

    @property
    def stalled(self) -> bool:
        """Whether nothing is looked at until the client takes what its own frames have brought."""
        return self._replies.are_due(self._outbox.taken)

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
        self.hear(data)
        requests: list[Request] = []
        while (request := self.next_request()) is not None:
            requests.append(request)
        return requests

    def hear(self, data: bytes) -> None:
        """Keep bytes of the client until `next_request` looks at them."""
        if self.state is not State.CLOSED:
            self._heard.append(data)

    def forget_heard(self) -> None:
        """Look at nothing more of what was heard: the session is over."""
        self._heard.clear()
        self._frames = None

    def forget_replies(self) -> None:
        """Wait for replies to be taken no more: the client has gone."""
        self._replies.forget()

    def next_request(self) -> Request | None:
        """Return what the next frame asks for, and set `price`; None if there is no whole frame.

        Raises:
            BadDatagram: the bytes do not decode.
            SessionError: a request breaks a rule. Either way the session must be closed.
        """
        self.price = WRONG
        while self.state is not State.CLOSED:
            if self._frames is None:
                if not self._heard:
                    return None
                self._frames = self._reader.feed(self._heard.popleft())
            frame = next(self._frames, None)
            if frame is not None:
                return self._on_frame(frame)
            self._frames = None
        return None

    def _on_frame(self, frame: bytes) -> Request:
        kind = frame[0]
        if kind == _BUNDLE and self.state is State.OPEN:
            return self._on_bundle(frame)
        if kind == FrameKind.QUERY and self.state is State.OPEN:
            self.price = price_of_frame(frame)
            self._replies.asked = True
            return Query(decode_query_untrusted(frame))
        if self.state is State.NEW:
            return self._on_hello(frame)
        if len(frame) == 1 and kind == FrameKind.BYE and self.state is not State.LEAVING:
            self.price = price_of_frame(frame)
            self.state = State.LEAVING
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
        self.state = State.GREETED
        self.price = price_of_frame(frame)
        return Hello(user, capabilities)

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

    # ---- output ----

    def welcome(self, private_name: str, bundle_limit: int, view: DaemonView) -> None:
        """Admit the client.

        Args:
            private_name: ``#user#daemon``.
            bundle_limit: bytes of a body that fit a packet with the rest of its record; targets
                count 8 bytes each. MIN_BUNDLE_LIMIT at least.
            view: of the positions that follow.
        """
        assert self.state in (State.GREETED, State.LEAVING), self.state
        assert bundle_limit >= MIN_BUNDLE_LIMIT, bundle_limit
        self.bundle_limit = bundle_limit
        self._reader.limit = CLIENT_FRAME_BYTES
        if self.state is State.GREETED:
            self.state = State.OPEN
        self.push(encode_welcome(MemberId(private_name, self.connection), bundle_limit))
        self.announce(view)

    def announce(self, view: DaemonView) -> None:
        """Positions that follow are of this view; once for each new view of the daemons."""
        self._view = view.id
        self.push(encode_view_id(view))

    def transition(self) -> None:
        """The regular part of the view that was announced last is over."""
        self.push(encode_transition())

    def push(self, *frame: Raw, droppable: bool = False) -> bool:
        """Queue a whole frame, which may be shared with other sessions.

        Args:
            frame: its parts, of `encode_delivery` or `encode_view`.
            droppable: it is UNRELIABLE.

        Returns:
            Whether the session is still open; it is closed if its client is too slow.
        """
        if self.state is State.CLOSED:
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

    def replied(self, *, answer: bool = False) -> None:
        """The frame pushed last is the client's own doing: a refusal, or the answer it wants."""
        end = self._outbox.taken + self._outbox.size
        if answer:
            self._replies.answer(end)
        else:
            self._replies.add(end)

    def view(self, view: GroupView) -> None:
        """Tell the members of a group."""
        assert view.id.view == self._view, f"{view.id} is not of the view {self._view}"
        self.push(encode_view(view))

    def ordered(self, number: int, position: Position) -> None:
        """Tell the position of a message that was submitted as ordered."""
        assert position.view == self._view, f"{position} is not of the view {self._view}"
        self.push(encode_ordered(number, position))

    def undeliverable(self, number: int, target: str, position: Position) -> None:
        """Tell that a private message found nobody."""
        assert position.view == self._view, f"{position} is not of the view {self._view}"
        self.push(encode_undeliverable(number, target, position))

    def abort(self, sender: MemberId, number: int) -> None:
        """Tell that the rest of a sender's message will not come; number 0: of any of them."""
        self.push(encode_abort(sender, number))

    def close(self, code: int, reason: str) -> None:
        """Tell why, behind all that waits, and take nothing more; closing twice is allowed."""
        if self.state is not State.CLOSED:
            self.state = State.CLOSED
            self.forget_heard()
            frame = encode_closed(code, reason)
            self._outbox.add((frame,), len(frame))

    @property
    def output_bytes(self) -> int:
        """Bytes that wait for `take`."""
        return self._outbox.size

    @property
    def blocks(self) -> bool:
        """Whether all senders are to wait for this client."""
        most = self.block_bytes
        return most is not None and self._outbox.size > most and self.state is not State.CLOSED

    def close_slow(self, what: str) -> None:
        """End it because its client is too slow; what waits is not kept, but for the reason."""
        self.too_slow = True
        self._outbox.clear()  # it would not be read; other sessions need the memory
        self.close(Code.CONNECTION_CLOSED, f"too slow: {what}; read faster")

    def take(self, limit: int) -> list[Raw]:
        """Parts of whole frames for the client, one frame at least, until `limit` is reached."""
        return self._outbox.take(limit)
