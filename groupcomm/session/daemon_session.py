"""Session record: everything that a daemon keeps of one session, with the state machine of its
life.

Pure and without time. The core carries out the requests and pushes its deliveries. A shell
moves the bytes: it buffers those that it reads while `reading` is True, and writes those that
`pop_output` returns.

The events of its life are methods, and docs/protocol/session.md has the table of their effects:
`next_request` (a HELLO, a BYE), `connect` (the user's name is free), `welcome` (the CONNECT is
ordered), `close` (the session must end), `push` (the client is too slow), `lose_client` (the
client's stream has ended), `finish` (all earlier input was processed) and `disconnect` (the
DISCONNECT is ordered). The core acts on two changes: it orders a CONNECT when the session enters
CONNECTING, and a DISCONNECT when it leaves CONNECTING, OPEN or DRAINING for a state of its end.
"""

import enum
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

import attrs

from groupcomm.errors import BadDatagram, Code, ConfigError, LocalProtocolError, SessionError
from groupcomm.events import DaemonView, MemberId
from groupcomm.level import ServiceLevel
from groupcomm.names import check_user
from groupcomm.session.bundler import TARGET_BYTES, names_bytes
from groupcomm.session.daemon_frames import (
    encode_closed,
    encode_view_id,
    encode_welcome,
)
from groupcomm.session.frames import (
    BUNDLE_BODY_OFFSET,
    CLIENT_FRAME_BYTES,
    HELLO_FRAME_BYTES,
    MIN_BUNDLE_LIMIT,
    PROTOCOL_VERSION,
    Capability,
    FrameKind,
    FrameReader,
    bundle_bytes,
    decode_alive_untrusted,
    decode_hello_untrusted,
    decode_query_untrusted,
    encode_alive,
)
from groupcomm.session.liveness import PeerWatch
from groupcomm.session.outbox import Outbox, Replies
from groupcomm.session.requests import (
    MEMBERS_A_UNIT,
    NO_WISHES,
    NOTHING,
    RECEIVERS_A_UNIT,
    VIOLATION,
    Alive,
    Bye,
    Hello,
    Numbering,
    Price,
    Query,
    Request,
    Submit,
    price_of_bundle,
    price_of_frame,
    total,
)
from groupcomm.wire.bundle import BODY_HEAD_BYTES, Bundle, BundleKind, decode_body_untrusted
from groupcomm.wire.messages import MAX_MESSAGE_BYTES
from groupcomm.wire.packet import Raw

_AGREED: Final = int(ServiceLevel.AGREED)
_NO_VIEWS: Final = int(Capability.NO_VIEWS)
_VOTES: Final = int(Capability.VOTES)
_UNBROKEN: Final = int(Capability.UNBROKEN)
_BUNDLE: Final = int(FrameKind.BUNDLE)
_FRAGMENT: Final = int(BundleKind.FRAGMENT)
_FROM_CLIENTS: Final = frozenset(
    map(int, (BundleKind.MESSAGES, BundleKind.FRAGMENT, BundleKind.JOIN, BundleKind.LEAVE))
) | {int(BundleKind.LINE)}


MOST_BACKLOG_WORK: Final = 1024
"""The units of work that the requests of a session may be about to cause; its next ones wait."""


@attrs.frozen(kw_only=True)
class SessionLimits:
    """Limits of the memory (bytes) and of the waits of others (seconds) that one client may
    cost."""

    unreliable_drop_bytes: int = 4 * 1024 * 1024  # pending output; UNRELIABLE is dropped above it
    output_cap_bytes: int = 2 * MAX_MESSAGE_BYTES  # one message with its heads, and a window
    backlog_cap_bytes: int = 192 * 1024  # bundles without a number; more would only wait
    block_bytes: int | None = None  # pending output above which all senders wait; None: never
    block_s: float = 10.0  # a client for which senders wait this long is disconnected
    session_timeout_s: float = 10.0  # a client that is silent for this long is gone; 0: never

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
        if self.session_timeout_s and not 1.0 <= self.session_timeout_s <= 86_400.0:
            raise ConfigError(
                f"sessions: session_timeout_s is {self.session_timeout_s}; it must be 1 to 86400"
                " seconds, or 0 for no limit"
            )


class DaemonSessionState(enum.IntEnum):
    """The states of a session at its daemon, in the order of its life."""

    NEW = enum.auto()  # only a HELLO may come
    GREETED = enum.auto()  # the HELLO has come, and the session waits for its name
    CONNECTING = enum.auto()  # the CONNECT waits for its place in the order; only BYE may come
    OPEN = enum.auto()  # all daemons know it
    DRAINING = enum.auto()  # the client is gone; its earlier input is processed, nothing is sent
    WITHDRAWING = enum.auto()  # BYE has come in CONNECTING; a DISCONNECT follows
    LEAVING = enum.auto()  # BYE has come in OPEN; the client gets all until the DISCONNECT
    CLOSING = enum.auto()  # CLOSED was queued; the DISCONNECT waits for its place
    GONE = enum.auto()  # the client is gone; the DISCONNECT waits for its place
    CLOSED = enum.auto()  # no daemon knows it; the client may still read its last output


class SessionStatus(NamedTuple):
    """One program's session; a tuple, as there may be thousands, each second.

    Attributes:
        output_bytes: bytes that wait for the program to read them.
        backlog_bytes: bytes that wait for a number.
        backlog_work: units of work that these are about to cause (docs/security.md).
        dropped: UNRELIABLE messages that were dropped because the program did not keep up.
        blocks: whether all senders wait for it.
    """

    connection: int
    user: str
    principal: str
    output_bytes: int
    backlog_bytes: int
    backlog_work: int
    dropped: int
    blocks: bool


class DaemonSession:
    """The record of one session at its daemon.

    Attributes:
        connection: its connection number at this daemon.
        principal: its owner; "" if that is unknown.
        user: the name in the HELLO; empty before.
        member: its identity as a member of groups, from CONNECTING on.
        state: its state.
        block_bytes: pending output above which all senders wait; None: never.
        backlog_bytes: the size of submitted bundles without a number; the core subtracts a
            bundle's size when it numbers or drops it.
        backlog_work: the units of work that these are about to cause.
        overdrawn: the units of work that its requests have caused beyond its turns.
        joins_paid_at: the time by which its joins of large groups are paid for (engine/intake.py).
        dropped: the number of UNRELIABLE bundles that the client was too slow for.
        owed: the price of work that was done for it and is not charged yet.
        price: the price of the last frame that `next_request` has processed.
        too_slow: whether it was closed because its output was above the cap.
        bundle_limit: the limit in the WELCOME; 0 before.
        early: frames that were delivered before the WELCOME, and whether each may be dropped.
        asked: its HELLO, which says which frames the client wants.
        hidden: the groups of which it was shown only itself.
        reads: the groups that it has asked to join without views.
        watch: the watch over its client; None if that sends no heartbeats.
        last_principal: the principal of the last delivery's sender, if the client asks for them.
        targets: the connections of the private names of its last message.
        awaited: the messages whose positions it waits for.
        numbered: the fragments of the message whose last fragment has no number.
        allowed, groups, expelled, refused: the notes of access control: destinations that the rules
            allow, groups that it has joined or asked for, groups that it had to leave, and the
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
        "allowed",
        "asked",
        "awaited",
        "backlog_bytes",
        "backlog_work",
        "block_bytes",
        "bundle_limit",
        "connection",
        "dropped",
        "early",
        "expelled",
        "groups",
        "hidden",
        "joins_paid_at",
        "last_principal",
        "member",
        "numbered",
        "overdrawn",
        "owed",
        "price",
        "principal",
        "reads",
        "refused",
        "state",
        "targets",
        "too_slow",
        "user",
        "watch",
    )

    def __init__(self, connection: int, *, limits: SessionLimits, principal: str = "") -> None:
        self.connection = connection
        self.principal = principal
        self.user = ""
        self.member: MemberId | None = None
        self.state = DaemonSessionState.NEW
        self.backlog_bytes = self.backlog_work = self.overdrawn = 0
        self.joins_paid_at = 0.0
        self.dropped = 0
        self.too_slow = False
        self.price = VIOLATION
        self.bundle_limit = 0
        self._limits = limits
        self.block_bytes = limits.block_bytes
        self._reader = FrameReader(HELLO_FRAME_BYTES)
        self._input: deque[bytes] = deque()  # bytes that are not processed yet
        self._frames: Iterator[bytes] | None = None  # of the bytes in process
        self.owed = NOTHING
        self._outbox = Outbox()
        self._replies = Replies()
        self._numbering = Numbering()
        self.numbered: list[Bundle] = []
        self.early: list[tuple[tuple[Raw, ...], bool]] = []
        self.asked = NO_WISHES
        self.hidden: set[str] = set()
        self.reads: set[str] = set()
        self.watch: PeerWatch | None = None
        self.last_principal: str | None = None
        self.targets: tuple[int, ...] = ()
        self.awaited: set[int] = set()
        self.allowed: set[tuple[str, ...]] = set()
        self.groups: set[str] = set()
        self.expelled: set[str] = set()
        self.refused = 0

    def status(self) -> SessionStatus:
        """Return the facts for operators."""
        return SessionStatus(
            self.connection,
            self.user,
            self.principal,
            self.output_bytes,
            self.backlog_bytes,
            self.backlog_work,
            self.dropped,
            self.block_bytes is not None and self.blocks,
        )

    # ---- its life ----

    @property
    def closed(self) -> bool:
        """Return whether nothing more is sent; the connection ends once the output was popped."""
        return self.state >= DaemonSessionState.CLOSING

    @property
    def is_known(self) -> bool:
        """Return whether other daemons know the session, or are about to."""
        return DaemonSessionState.CONNECTING <= self.state <= DaemonSessionState.GONE

    @property
    def has_client(self) -> bool:
        """Return whether the client's stream is open."""
        return (
            self.state is not DaemonSessionState.DRAINING
            and self.state is not DaemonSessionState.GONE
        )

    @property
    def is_served(self) -> bool:
        """Return whether the client is there, and its session has begun and not ended yet."""
        state = self.state
        return (
            DaemonSessionState.CONNECTING <= state <= DaemonSessionState.LEAVING
            and state is not DaemonSessionState.DRAINING
        )

    @property
    def is_notified(self) -> bool:
        """Return whether the client gets views: all daemons know the session, which gets all."""
        return self.state is DaemonSessionState.OPEN or self.state is DaemonSessionState.LEAVING

    @property
    def knows_votes(self) -> bool:
        """Return whether the client understands majorities of votes in VIEWID frames."""
        return bool(self.asked.wishes & _VOTES)

    def connect(self, private_name: str) -> None:
        """Enter CONNECTING: the name was free, and the CONNECT is to be ordered."""
        assert self.state is DaemonSessionState.GREETED, self.state
        self.member = MemberId(private_name, self.connection)
        self.state = DaemonSessionState.CONNECTING

    def welcome(self, bundle_limit: int, view: DaemonView, *, pauses: bool = True) -> bool:
        """Admit the client, as its CONNECT is ordered; return what `push` returns.

        Args:
            bundle_limit: the bytes of a body that fit a packet with the rest of its record; targets
                count 8 bytes each. MIN_BUNDLE_LIMIT at least.
            view: the view of the positions that follow.
            pauses: whether its daemons know joins that need a quorum.
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
        welcome = encode_welcome(self.member, bundle_limit, pauses=pauses)
        # It has no view before.
        return self.push(welcome) and self.push(
            encode_view_id(view, self.asked.wishes & ~_UNBROKEN)
        )

    def close(self, code: int, reason: str) -> None:
        """Queue CLOSED with the reason, and accept nothing more; closing twice is allowed."""
        if self.state is DaemonSessionState.DRAINING:
            self.finish()
        elif self.state < DaemonSessionState.CLOSING:
            self.state = DaemonSessionState.CLOSING if self.is_known else DaemonSessionState.CLOSED
            self.discard_input()
            frame = encode_closed(code, reason)
            self._outbox.add((frame,), len(frame))

    def close_slow(self, what: str) -> None:
        """Close the session because its client is too slow; drop all output but the reason."""
        self.too_slow = True
        self._outbox.clear()  # the client would not read it, and other sessions need the memory
        self.close(Code.CONNECTION_CLOSED, f"too slow: {what}; read faster")

    def lose_client(self) -> None:
        """Send nothing more, as the client's stream has ended; input of an OPEN session counts."""
        self._replies.forget()
        if self.state is DaemonSessionState.OPEN and self.has_input:
            self.state = DaemonSessionState.DRAINING
        else:
            self.finish()

    def finish(self) -> None:
        """Process nothing more: the client's stream has ended, and its input was processed."""
        self.discard_input()
        self._outbox.clear()
        self.state = DaemonSessionState.GONE if self.is_known else DaemonSessionState.CLOSED

    def disconnect(self) -> None:
        """End the session: its DISCONNECT is ordered."""
        self.close(Code.OK, "the session has ended")
        self.numbered.clear()
        self.state = DaemonSessionState.CLOSED

    @property
    def reading(self) -> bool:
        """Return whether to read from the client.

        This holds if all its input was processed, and its backlog is below the cap.
        """
        return not self.has_input and self.backlog_bytes < self._limits.backlog_cap_bytes

    @property
    def has_input(self) -> bool:
        """Return whether there may be a frame, for `next_request`, or a price that is owed."""
        return self._frames is not None or bool(self._input) or self.owed is not NOTHING

    @property
    def stalled(self) -> bool:
        """Return whether input waits until the client has read the replies to its own frames.

        It waits also while its requests that are under way cause as much work as they may.
        """
        return self.backlog_work >= MOST_BACKLOG_WORK or self._replies.are_due(self._outbox.popped)

    # ---- input ----

    def receive(self, data: bytes) -> list[Request]:
        """Process bytes of the client; return all requests in them, in order.

        Raises:
            BadDatagram, SessionError: see `next_request`.
        """
        self.buffer(data)
        requests: list[Request] = []
        while (request := self.next_request()) is not None:
            requests.append(request)
        return requests

    def buffer(self, data: bytes) -> None:
        """Buffer bytes of the client until `next_request` processes them."""
        if self.state < DaemonSessionState.CLOSING:
            self._input.append(data)

    def owe(self, price: Price) -> None:
        """Note work that was done for the client; its next turn pays for it."""
        self.owed = total(self.owed, price)

    def note_heartbeat(self, data: bytes, now: float) -> bool:
        """Process bytes of the client at once if they are the same heartbeat as before.

        That spares the step of the core in which other bytes are processed: an idle session costs
        little more than the read.

        Returns:
            Whether they were.
        """
        watch, is_next = self.watch, self._reader.is_between_frames and not self.has_input
        if watch is None or self.state is not DaemonSessionState.OPEN or not is_next:
            return False
        if watch.wait_s is None or data != encode_alive(FrameKind.CLIENT_ALIVE, watch.wait_s):
            return False
        watch.heard_at = now
        return True

    def discard_input(self) -> None:
        """Drop the buffered input, as the session is over."""
        self._input.clear()
        self._frames, self.owed = None, NOTHING

    def next_request(self) -> Request | None:
        """Return the request in the next frame, and set `price`; None if there is no whole frame.

        Raises:
            BadDatagram: the bytes do not decode.
            SessionError: a request breaks a rule. In both cases the session must be closed.
        """
        self.price = VIOLATION
        while self.state < DaemonSessionState.CLOSING:
            if self._frames is None:
                if not self._input:
                    return None
                self._frames = self._reader.feed(self._input.popleft())
            frame = next(self._frames, None)
            if frame is None:
                self._frames = None
                continue
            if self._reader.is_empty:
                self._frames = None  # the session needs no other turn to find nothing
            return self._on_frame(frame)
        return None

    def _on_frame(self, frame: bytes) -> Request:
        kind = frame[0]
        is_open = self.state is DaemonSessionState.OPEN or self.state is DaemonSessionState.DRAINING
        if kind == _BUNDLE and is_open:
            return self._on_bundle(frame)
        if kind == FrameKind.CLIENT_ALIVE and self.watch is not None and is_open:
            self.price = price_of_frame(frame)
            self.watch.note_wait(decode_alive_untrusted(frame))
            return Alive()
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
            Code.ILLEGAL_SESSION,
            f"a frame of kind {kind} is not allowed in state {self.state.name}",
        )

    def _on_hello(self, frame: bytes) -> Hello:
        if frame[0] != FrameKind.HELLO:
            raise SessionError(Code.ILLEGAL_SESSION, "the first frame must be a HELLO")
        version, capabilities, user, _ = decode_hello_untrusted(frame)
        if version != PROTOCOL_VERSION:
            raise SessionError(
                Code.REJECT_VERSION,
                f"the client speaks version {version} of the protocol, this daemon version"
                f" {PROTOCOL_VERSION}: install matching releases",
            )
        try:
            self.user = check_user(user)
        except LocalProtocolError as error:
            raise SessionError(Code.REJECT_NAME, str(error)) from None
        self.state = DaemonSessionState.GREETED
        self.price = price_of_frame(frame)
        self.asked = Hello(user, capabilities)
        return self.asked

    def _on_bye(self) -> None:
        if self.state is DaemonSessionState.OPEN:
            self.state = DaemonSessionState.LEAVING
        elif self.state is DaemonSessionState.CONNECTING:
            self.state = DaemonSessionState.WITHDRAWING
        else:
            self.close(Code.OK, "the client has left")

    def _on_bundle(self, frame: bytes) -> Submit:
        if len(frame) < BUNDLE_BODY_OFFSET or frame[1] > 1:
            raise BadDatagram("bundle", "its byte for ordered is neither 0 nor 1")
        bundle = decode_body_untrusted(memoryview(frame)[BUNDLE_BODY_OFFSET:])
        if bundle.kind not in _FROM_CLIENTS:
            raise SessionError(
                Code.ILLEGAL_MESSAGE, f"clients must not send bundles of kind {bundle.kind}"
            )
        ordered = frame[1] == 1
        if ordered and (bundle.level < _AGREED or bundle.kind > _FRAGMENT):
            raise SessionError(Code.ILLEGAL_SERVICE, "ordered is for AGREED and SAFE messages only")
        size = len(bundle.body) + TARGET_BYTES * bundle.privates
        if size > self.bundle_limit:
            most = bundle_bytes(self.bundle_limit, BODY_HEAD_BYTES + names_bytes(bundle.groups))
            if size > most:
                raise SessionError(
                    Code.MESSAGE_TOO_LONG, f"a bundle has {size} bytes; the WELCOME allows {most}"
                )
        self._numbering.check(bundle)
        self.price = price_of_bundle(bundle, frame)
        bundle.address(self.connection, self.user, (0,) * bundle.privates)
        self.backlog_bytes += bundle.size
        return Submit(bundle, ordered)

    # ---- views of groups ----

    def note_wish(self, group: str, *, views: bool) -> None:
        """Note that the client asks for a group, with views or without."""
        if views:
            self.reads.discard(group)
        else:
            self.reads.add(group)

    def wants_views(self, group: str) -> bool:
        """Return whether the client wants views of a group besides its own joins and leaves."""
        return not self.asked.wishes & _NO_VIEWS and group not in self.reads

    # ---- numbers ----

    @property
    def last_complete(self) -> int:
        """Return the number of the last message that was processed whole; 0 before the first."""
        return self._numbering.last_complete

    def submit(self, bundle: Bundle, receivers: int) -> None:
        """Note that a bundle is under way, and that it goes to so many sessions."""
        more = receivers // (MEMBERS_A_UNIT if bundle.kind > _FRAGMENT else RECEIVERS_A_UNIT)
        if more:
            self.price = self.price._replace(work=self.price.work + more)
        bundle.work = self.price.work
        self.backlog_work += bundle.work

    def note_left(self, bundle: Bundle) -> None:
        """Note that a submitted bundle does not wait any more."""
        self.backlog_bytes -= bundle.size
        self.backlog_work -= bundle.work

    def note_numbered(self, bundle: Bundle) -> bool:
        """Note that a bundle has its number; return whether the client waits for its position."""
        self.note_left(bundle)
        if bundle.kind == _FRAGMENT:
            self.numbered.append(bundle)
            if bundle.index < bundle.count - 1:
                return False
            self.numbered.clear()
        return bundle.message in self.awaited

    def reclaim(self) -> list[Bundle]:
        """Return the bundles of a message that is numbered only in part: it needs other numbers."""
        bundles, self.numbered = self.numbered, []
        for bundle in bundles:
            bundle.released = False
            self.backlog_bytes += bundle.size
            self.backlog_work += bundle.work
        return bundles

    # ---- output ----

    def push(self, *frame: Raw, droppable: bool = False) -> bool:
        """Queue a whole frame, which may be shared with other sessions.

        Args:
            frame: the frame's parts, as `encode_delivery` or `encode_view` returns them.
            droppable: whether it may be dropped, as it is UNRELIABLE.

        Returns:
            Whether the session is still open; a session whose client is too slow is closed.
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
        """Note that the last frame was a reply to the client's own: a refusal or an answer."""
        end = self._outbox.popped + self._outbox.size
        if answer:
            self._replies.answer(end)
        else:
            self._replies.add(end)

    @property
    def output_bytes(self) -> int:
        """Return the number of bytes that wait for `pop_output`."""
        return self._outbox.size

    @property
    def output_popped(self) -> int:
        """Return the number of bytes that `pop_output` has returned, or that were dropped."""
        return self._outbox.popped

    @property
    def blocks(self) -> bool:
        """Return whether all senders must wait for this client."""
        most = self.block_bytes
        return (
            most is not None
            and self._outbox.size > most
            and self.state < DaemonSessionState.CLOSING
        )

    def pop_output(self, limit: int, now: float = 0.0) -> list[Raw]:
        """Remove and return parts of whole frames, one at least, up to about `limit` bytes.

        At `now`, in seconds, the client is told something.
        """
        parts = self._outbox.pop(limit)
        if parts and self.watch is not None:
            self.watch.sent_at = now
        return parts
