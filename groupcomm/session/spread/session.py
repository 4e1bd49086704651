"""Session of a client of Spread: its messages to our frames, and our frames to its messages.

Pure and without time. Towards the daemon's core this is a client of our own protocol, so the core
knows nothing of Spread. docs/spread-clients.md describes each translation and its reason.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import structs

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.errors import BadDatagram
from groupcomm.events import Cause, GroupView, MemberId, Refused
from groupcomm.level import ServiceLevel
from groupcomm.security.access import Verb
from groupcomm.session.bundler import Bundler
from groupcomm.session.daemon_frames import (
    decode_abort_untrusted,
    decode_closed_untrusted,
    decode_delivery_untrusted,
    decode_origins_untrusted,
    decode_refused_untrusted,
    decode_view_id_untrusted,
    decode_view_untrusted,
    decode_welcome_untrusted,
)
from groupcomm.session.differences import ChangeRun
from groupcomm.session.frames import (
    DAEMON_FRAME_BYTES,
    LENGTH,
    Capability,
    FrameKind,
    FrameReader,
    encode_bundle_head,
    encode_bye,
    encode_hello,
)
from groupcomm.session.group_lists import UNFIT
from groupcomm.session.reassembly import Reassembly
from groupcomm.session.requests import NOTHING, Price, price_of_translation, total
from groupcomm.session.spread import layout
from groupcomm.session.spread.handshake import Handshake
from groupcomm.session.spread.layout import (
    HEAD_BYTES,
    MAX_BODY_BYTES,
    MAX_GROUPS,
    NAME_BYTES,
    SERVICES,
    Head,
    decode_head_untrusted,
    decode_names,
    encode_head,
    encode_names,
)
from groupcomm.session.spread.names import decode_destination, decode_group, encode_name
from groupcomm.session.spread.views import (
    SharedChange,
    SharedChanges,
    encode_own_leave,
    encode_regular,
    encode_transitional,
)
from groupcomm.wire.bundle import (
    ASKED_SHIFT,
    BIG_ENDIAN,
    MARKS_SHIFT,
    SELF_DISCARD,
    Bundle,
    BundleKind,
    body_payload,
    decode_body_untrusted,
    encode_body,
)
from groupcomm.wire.messages import decode_messages_untrusted
from groupcomm.wire.packet import Raw

CARRIED: Final = (
    ServiceLevel.UNRELIABLE,
    ServiceLevel.FIFO,
    ServiceLevel.AGREED,
    ServiceLevel.AGREED,
    ServiceLevel.AGREED,
    ServiceLevel.SAFE,
)
"""For each service of Spread the level at which a message is sent: its programs may rely on it."""

READ_WORK: Final = 256
"""The units of work after which the translation of a client's messages pauses: half a millisecond.

The last message may take more."""

READ_WASTE: Final = 64
"""Those of them that may be spent on messages that ask for nothing."""

HELD_BYTES: Final = 16 * 1024 * 1024
"""The most large messages of our own clients that have come in part; what is more is skipped."""

PIECE_BYTES: Final = 32 * 1024
"""The bytes of frames of the daemon that are translated in one go, some 5 ms at most."""

PIECE_PARTS: Final = 32
"""The parts for the client after which a piece is over, too: each may be a list of members."""

_ASKED_MASK: Final = 0b11
_MARKS_DOWN: Final = 28 - MARKS_SHIFT
"""Between the place of the marks in a type and in the flags of a bundle."""

_MOST_SKIPPED: Final = 1024
_DELIVER: Final = int(FrameKind.DELIVER)
_DIFFERENCE: Final = int(FrameKind.DIFFERENCE)
_FRAGMENT: Final = int(BundleKind.FRAGMENT)
_ALL: Final = 2**62
_NETWORK: Final = Cause.NETWORK
_JOIN: Final = Cause.JOIN
_LEAVE: Final = Cause.LEAVE
_DISCONNECT: Final = Cause.DISCONNECT
_ABOUT_VIEWS: Final = frozenset(
    (
        FrameKind.VIEW,
        FrameKind.VIEWID,
        FrameKind.ORIGINS,
        FrameKind.TRANSITION,
        FrameKind.CONTINUED,
    )
)
_CONTROLS: Final = frozenset((layout.JOIN, layout.LEAVE, layout.KILL))
_KINDS: Final = sum(SERVICES) | sum(_CONTROLS)
"""The bits of type of which a client sets one."""

_OPTIONS: Final = layout.SELF_DISCARD | layout.MARKS
"""The bits that it may set besides; all others are left out."""


class _Sent(NamedTuple):
    """A message of the client, as it goes to the daemon; its destinations are those that can be."""

    head: Head
    groups: tuple[str, ...]
    level: ServiceLevel
    flags: int


class SpreadSession:
    """The translation of one session.

    Args:
        handshake: DONE, of this client.
        user: its name, which the client may have left to the daemon.
        shared: the changes that it shares with others; by itself without.

    Attributes:
        ahead: whether messages may wait here whole, for the next call of `receive_untrusted`.
        name: its private name, once it is admitted; empty before.
        read: the number of messages that have come whole.
        ended: the client has said goodbye, or the daemon has ended the session.
        malformed: bundles of other clients that were dropped because they do not decode.
        skipped: messages of other clients that were too large, with the others that came in part.
        skipped_from: the sender of the last one of them.
    """

    __slots__ = (
        "_asked",
        "_begin",
        "_bundler",
        "_handshake",
        "_head",
        "_heard",
        "_held",
        "_is_transitional",
        "_last",
        "_losing",
        "_me",
        "_number",
        "_origins",
        "_reader",
        "_reassembly",
        "_shared",
        "_skipped",
        "_spent",
        "_user",
        "_view",
        "_views",
        "ahead",
        "ended",
        "malformed",
        "name",
        "read",
        "skipped",
        "skipped_from",
    )

    def __init__(
        self, handshake: Handshake, user: str, shared: SharedChanges | None = None
    ) -> None:
        self._handshake = handshake
        self._shared = SharedChanges() if shared is None else shared
        self._user = user
        self._bundler = Bundler()
        self._reader = FrameReader(DAEMON_FRAME_BYTES)
        self._reassembly = Reassembly(HELD_BYTES)
        self._asked: set[str] = set()  # groups that the client is in once all requests are answered
        self._held: dict[str, GroupView] = {}  # the last view of each group that the client is in
        self._views: dict[str, GroupView] = {}  # the last one of each that it was told
        self._losing: set[str] = set()  # groups that lose members to the old view
        self._heard = bytearray()
        self._head: Head | None = None  # the head of a message that has come in part
        self._last: _Sent | None = None  # the last message, if there was no other request since
        self._begin = b""  # its head and names, if they came in one piece
        self._number = 0
        self._me: MemberId | None = None
        self._view: ViewId | None = None
        self._origins: dict[str, int] = {}
        self._is_transitional = False  # from a TRANSITION to the next view of the daemons
        self._spent = NOTHING  # the price of the messages that were read and not charged yet
        self.name = b""
        self.ahead = self.ended = False
        self.malformed = self.skipped = self.read = 0
        self.skipped_from: MemberId | None = None
        self._skipped: dict[tuple[MemberId, int], None] = {}  # the last ones

    def hello(self) -> bytes:
        """Return the frame with which it asks the daemon to be admitted."""
        wishes = Capability.REFUSALS | Capability.DIFFERENCES | Capability.CONTINUED
        wishes |= Capability.VOTES
        wishes |= Capability.ORIGINS if self._handshake.wants_views else Capability.NO_VIEWS
        return encode_hello(self._user, wishes)

    # ---- from the client ----

    def receive_untrusted(self, data: bytes) -> bytes:
        """Accept bytes of the client; return frames for the daemon.

        This does READ_WORK units of work until `pop_spent` is called; what it leaves is `ahead`.

        Raises:
            BadDatagram: the client breaks the protocol, and its session has to end. Its earlier
                requests count. No other exception, whatever the bytes.
        """
        if self.ended:
            return b""
        if not self.name:
            raise BadDatagram("early", "a request before the handshake is over")
        self._heard += data
        self.ahead = False
        self._last = None  # names may stand for others than at the last call
        at = 0
        with memoryview(self._heard) as heard:
            while not self.ended:
                if self._spent.work >= READ_WORK or self._spent.wasted >= READ_WASTE:
                    self.ahead = True
                    break
                size = self._read_equal(heard, at) or self._read_one(heard, at)
                if not size:
                    break
                at += size
        del self._heard[:at]
        return self._bundler.pop(_ALL)

    def _read_one(self, heard: memoryview, at: int) -> int:
        """Read a message or its head; return its size, 0 if it has not come yet."""
        head, names_at = self._head, at
        if head is None:
            if len(heard) - at < HEAD_BYTES:
                return 0
            names_at = at + HEAD_BYTES
            head = self._head = self._accept_head(bytes(heard[at:names_at]))
        end = names_at + head.rest
        if len(heard) < end:
            return names_at - at
        self._head = self._last = None
        self.read += 1
        data_at = names_at + NAME_BYTES * head.groups
        names = decode_names(bytes(heard[names_at:data_at]))
        is_void = not self._on_request(head, names, bytes(heard[data_at:end]))
        price = price_of_translation(head.groups, HEAD_BYTES + head.rest, is_void=is_void)
        self._spent = total(self._spent, price)
        if self._last is not None:
            self._begin = bytes(heard[at:data_at]) if names_at > at else b""
        return end - at

    def _read_equal(self, heard: memoryview, at: int) -> int:
        """Read messages with the head and the names of the last one; return their size.

        Most messages are such, and to translate each by itself takes many times as long.
        """
        last, begin = self._last, self._begin
        if last is None or not begin or self._head is not None:
            return 0
        start, whole = len(begin), len(begin) + last.head.size
        price = price_of_translation(last.head.groups, whole, is_void=False)
        most = min((len(heard) - at) // whole, -(-(READ_WORK - self._spent.work) // price.work))
        end, messages = at, list[bytes]()
        while len(messages) < most and heard[end : end + start] == begin:
            messages.append(bytes(heard[end + start : end + whole]))
            end += whole
        self._send(last, messages)
        self.read += len(messages)
        self._spent = total(self._spent, Price(price.work * len(messages)))
        return end - at

    def pop_spent(self) -> Price:
        """Return the price of the messages that were read since the last call."""
        spent, self._spent = self._spent, NOTHING
        return spent

    def drop_input(self) -> None:
        """Drop the messages that were not translated: the session is about to end."""
        self._heard.clear()
        self._head, self.ahead = None, False

    @property
    def held_bytes(self) -> int:
        """Return the bytes of messages that are not translated: they have come in part."""
        return len(self._heard)

    def _accept_head(self, raw: bytes) -> Head:
        head = decode_head_untrusted(raw)
        if head.type & ~(_KINDS | _OPTIONS):
            head = head._replace(type=head.type & (_KINDS | _OPTIONS))
        kind = head.type & _KINDS
        if kind not in SERVICES and kind not in _CONTROLS:
            raise BadDatagram("type", f"a message of type {head.type:#x}")
        if head.name != self.name:
            raise BadDatagram("sender", f"the name of another session, {head.name!r}")
        if head.groups > MAX_GROUPS or head.rest > MAX_BODY_BYTES:
            raise BadDatagram(
                "long",
                f"{head.groups} groups and {head.size} bytes of data; {MAX_GROUPS} groups and"
                f" {MAX_BODY_BYTES} bytes of both are allowed",
            )
        return head

    def _on_request(self, head: Head, names: list[bytes], data: bytes) -> bool:
        """Translate a message; return whether it asks for anything."""
        kind = head.type & ~_OPTIONS
        if kind == layout.KILL:
            self.ended = True
            self._bundler.add_frame(encode_bye())
        elif kind in _CONTROLS:
            group = decode_group(names[0]) if names else None
            return group is not None and self._change(kind, group)
        else:
            found = [decode_destination(name) for name in names]
            groups = tuple(name for name in found if name is not None)
            if not groups:
                return False
            self._multicast(head, groups, data)
        return True

    def _change(self, kind: int, group: str) -> bool:
        """Join or leave a group; return whether that changes anything.

        Otherwise the request is ignored, as by Spread's daemon.
        """
        joins = kind == layout.JOIN
        if joins == (group in self._asked):
            return False
        self._asked ^= {group}
        self._number += 1
        bundle = BundleKind.JOIN if joins else BundleKind.LEAVE
        body = encode_body(bundle, ServiceLevel.AGREED, 0, self._number, (group,), b"")
        self._bundler.add_frame(encode_bundle_head(len(body), False) + body)
        return True

    def _multicast(self, head: Head, groups: tuple[str, ...], data: bytes) -> None:
        asked = SERVICES.index(head.type & ~_OPTIONS)
        level = CARRIED[asked]
        flags = SELF_DISCARD if head.type & layout.SELF_DISCARD else 0
        flags |= BIG_ENDIAN if head.big_endian else 0
        flags |= asked << ASKED_SHIFT if asked != level else 0
        flags |= (head.type & layout.MARKS) >> _MARKS_DOWN
        self._last = _Sent(head, groups, level, flags)
        self._send(self._last, [data])

    def _send(self, sent: _Sent, messages: list[bytes]) -> None:
        """Send messages with one head."""
        done, tag = 0, sent.head.tag
        while done < len(messages):
            added = self._bundler.add_more(tag, messages, done) if done else 0
            if not added:
                number = self._number + done + 1
                self._bundler.add_message(
                    number, tag, messages[done], sent.groups, sent.level, sent.flags, False
                )
                added = 1
            done += added
        self._number += done

    # ---- from the daemon ----

    def translate(self, data: bytes) -> bytes:
        """Accept frames of the daemon; return bytes for the client.

        Raises:
            BadDatagram: the due notice has no form for the client; its session has to end.
        """
        told: list[bytes] = []
        self._read(data, told)
        return b"".join(told)

    def translate_piece(self, frames: deque[Raw]) -> list[bytes]:
        """Take parts of whole frames of the daemon from a queue, one at least and not too many.

        Returns:
            bytes for the client as parts, which may be shared with other sessions.

        Raises:
            BadDatagram: see `translate`.
        """
        told: list[bytes] = []
        taken = 0
        while frames and taken < PIECE_BYTES and len(told) < PIECE_PARTS:
            part = frames.popleft()
            taken += len(part)
            if isinstance(part, ChangeRun):
                self._change_views(part, told)
                continue
            plain = [part]
            while frames and taken < PIECE_BYTES and not isinstance(frames[0], ChangeRun):
                plain.append(frames.popleft())
                taken += len(plain[-1])
            self._read(b"".join(plain), told)
        return told

    def _read(self, data: bytes, told: list[bytes]) -> None:
        for frame in self._reader.feed(data):
            if frame[0] == _DELIVER:
                self._deliver(frame, told)
            elif frame[0] == _DIFFERENCE:
                self._change_views(ChangeRun(LENGTH.pack(len(frame)) + frame), told)
            else:
                self._on_frame(frame, told)

    def _on_frame(self, frame: bytes, told: list[bytes]) -> None:
        kind = frame[0]
        if kind in _ABOUT_VIEWS:
            self._on_view_frame(frame, told)
        elif kind == FrameKind.ABORT:
            self._reassembly.drop(*decode_abort_untrusted(frame))
        elif kind == FrameKind.REFUSED:
            self._refuse(decode_refused_untrusted(frame), told)
        elif kind == FrameKind.WELCOME:
            told.append(self._on_welcome(frame))
        elif kind == FrameKind.CLOSED:
            self.ended = True
            if not self.name:
                told.append(self._handshake.reject(decode_closed_untrusted(frame).code))

    def _on_view_frame(self, frame: bytes, told: list[bytes]) -> None:
        kind = frame[0]
        if kind == FrameKind.VIEW:
            self._show(decode_view_untrusted(frame, self._announced), told)
        elif kind == FrameKind.VIEWID:
            self._view, self._origins = decode_view_id_untrusted(frame).id, {}
            self._is_transitional = False
        elif kind == FrameKind.ORIGINS:
            self._origins = decode_origins_untrusted(frame)
        elif kind == FrameKind.CONTINUED:
            self._go_on(told)
        else:
            self._end_views(told)

    def _on_welcome(self, frame: bytes) -> bytes:
        connected = decode_welcome_untrusted(frame)
        self._bundler.bundle_limit = connected.bundle_limit
        self._me = connected.member
        self.name = encode_name(connected.member.name)
        return self._handshake.accept(self.name)

    @property
    def _announced(self) -> ViewId:
        if self._view is None:
            raise BadDatagram("view", "a position before any VIEWID")
        return self._view

    def _end_views(self, told: list[bytes]) -> None:
        """Notify the client of its groups that lose members as the view of the daemons ends.

        In the others nobody can lack a message that this client gets.
        """
        self._is_transitional = True
        for _, view in sorted(self._views.items()):
            self._end_view(view, view.members, told)

    def _end_view(self, view: GroupView, members: Sequence[MemberId], told: list[bytes]) -> None:
        """Notify the client of a group that is about to lose one of these members, once."""
        homes = {member.daemon for member in members}
        if view.group in self._losing or homes <= self._origins.keys():
            return
        self._losing.add(view.group)
        if self._handshake.wants_views:
            told.append(encode_transitional(view))

    def _end_losing(self, view: GroupView, told: list[bytes]) -> None:
        """Note a group's view in a new view of the daemons.

        Daemons that were to go on together may have parted again since the TRANSITION. Nobody lacks
        a message then, but Spread's programs learn of each loss by a transitional message.
        """
        before = self._views.get(view.group)
        is_lost = before is not None and len(view.vs_set) < len(before.members)
        if is_lost and view.group not in self._losing and self._handshake.wants_views:
            assert before is not None
            told.append(encode_transitional(before))
        self._losing.discard(view.group)

    def _change_views(self, run: ChangeRun, told: list[bytes]) -> None:
        """Send the client changes of its groups; others get the same with the same run."""
        for shared in self._shared.apply(run, self._held, self._announced, self._origins):
            held = self._held.get(shared.view.group)
            if held is None or held.id != shared.before:
                text = f"a change of {shared.view.group!r} follows another view"
                raise BadDatagram(UNFIT, text)
            self._change_view(shared, told)

    def _change_view(self, shared: SharedChange, told: list[bytes]) -> None:
        """Send the client a change of one of its groups.

        None is due if the group has come through a change of daemons whole, and nobody has come.
        All members compute the same: they have received everything that the group was sent
        together.
        """
        view, group, cause = shared.view, shared.view.group, shared.view.cause
        self._held[group] = view
        if cause is _NETWORK:
            if view.unchanged and group not in self._losing:
                return
            self._end_losing(view, told)
        elif cause is _LEAVE and view.changed[0] == self._me:
            self._leave(group, told)
            return
        elif cause is _DISCONNECT:
            self._forget_ended(view)
        self._views[group] = view
        told.append(shared.regular)
        if self._is_transitional and cause is _JOIN:  # a member of a lost daemon has come last
            self._end_view(view, view.changed, told)

    def _go_on(self, told: list[bytes]) -> None:
        """Note that all groups without a view since the daemons' view began go on as they were."""
        start = Position(self._announced, 0, 0, 0, 0)
        for group, before in sorted(self._held.items()):
            if before.id.view != start.view:
                view = structs.replace(
                    before, id=start, cause=_NETWORK, changed=(), vs_set=before.members, own=False
                )
                self._held[group] = view
                if group in self._losing:
                    self._losing.discard(group)
                    self._views[group] = view
                    told.append(self._shared.regular(view, len(view.members)))

    def _show(self, view: GroupView, told: list[bytes]) -> None:
        """Send the client a whole view of one of its groups."""
        assert self._me is not None, "a view comes before the WELCOME"
        self._held[view.group] = view
        if self._is_unchanged(view):
            return
        if view.cause is _DISCONNECT:
            self._forget_ended(view)
        if not view.includes(self._me):
            self._leave(view.group, told)
            return
        if view.cause is Cause.NETWORK:
            self._end_losing(view, told)
        self._views[view.group] = view
        if not self._handshake.wants_views:
            return
        if view.cause is Cause.NETWORK:
            told.append(encode_regular(view, self._origins))
        elif view.changed:
            told.append(self._shared.regular(view, len(view.members)))
            # otherwise another member has come or gone, which this client may not see
        if self._is_transitional and view.cause is Cause.JOIN:
            self._end_view(view, view.members, told)

    def _is_unchanged(self, view: GroupView) -> bool:
        """Return whether a group has come through a change of daemons as in `_change_view`."""
        before = self._views.get(view.group)
        if view.cause is not Cause.NETWORK or before is None or view.group in self._losing:
            return False
        return set(before.members) == set(view.members) == set(view.vs_set)

    def _forget_ended(self, view: GroupView) -> None:
        """Forget the messages that a session that has ended has sent in part."""
        for member in view.changed:
            self._reassembly.drop(member, 0)

    def _leave(self, group: str, told: list[bytes]) -> None:
        """Note that the client is in a group no more."""
        self._views.pop(group, None)
        self._held.pop(group, None)
        self._losing.discard(group)
        if self._handshake.wants_views:
            told.append(encode_own_leave(group))

    def _refuse(self, refused: Refused, told: list[bytes]) -> None:
        """Refuse a request of the client: return its head, marked as rejected."""
        joins = refused.verb == Verb.JOIN.word
        if joins:
            self._asked.discard(refused.group)
        if refused.number == 0:
            return  # the client's own leave follows
        old = layout.CAUSED_BY_JOIN if joins else SERVICES[refused.level]
        names = encode_names((encode_name(refused.group), self.name))
        head = encode_head(Head(layout.REJECT, self.name, 2, 0, False, 0))
        told += [head + old.to_bytes(4, "little") + names] * refused.count

    def _deliver(self, frame: bytes, told: list[bytes]) -> None:
        sender, _, body = decode_delivery_untrusted(frame)
        bundle = decode_body_untrusted(body)
        try:
            if bundle.kind == _FRAGMENT:
                self._deliver_part(sender, bundle, body_payload(memoryview(body)), told)
            else:
                types, data = decode_messages_untrusted(body_payload(body), bundle.count)
                told.append(b"".join(_regular(sender, bundle, types, data)))
        except BadDatagram:  # the sender's fault: daemons do not decode payloads that they forward
            self.malformed += 1

    def _deliver_part(
        self, sender: MemberId, bundle: Bundle, payload: Raw, told: list[bytes]
    ) -> None:
        """Keep a part of a large message; deliver the message once it is whole.

        One for which there is no room is skipped: it must not end the session of whoever gets it.
        """
        key = sender, bundle.message
        if key in self._skipped:
            return
        message = self._reassembly.add(sender, bundle, payload, None)
        if message is not None:
            told += _regular(sender, bundle, [message.type], [message.data])
        elif self._reassembly.held_bytes > HELD_BYTES:
            self._reassembly.drop(*key)
            self.skipped += 1
            self.skipped_from = sender
            self._skipped[key] = None
            if len(self._skipped) > _MOST_SKIPPED:
                del self._skipped[next(iter(self._skipped))]


def _type_bits(bundle: Bundle) -> int:
    """Return the bits of type with which a message reaches clients: those that its sender set."""
    asked = bundle.flags >> ASKED_SHIFT & _ASKED_MASK
    bits = SERVICES[asked or bundle.level] | bundle.flags << _MARKS_DOWN & layout.MARKS
    return bits | layout.SELF_DISCARD if bundle.flags & SELF_DISCARD else bits


def _regular(
    sender: MemberId, bundle: Bundle, types: Sequence[int], messages: Sequence[bytes]
) -> list[bytes]:
    """Return the messages of a bundle as clients of Spread get them, in parts to join."""
    name, groups = encode_name(sender.name), [*map(encode_name, bundle.groups)]
    names, bits = encode_names(groups), _type_bits(bundle)
    big_endian = bool(bundle.flags & BIG_ENDIAN)
    parts: list[bytes] = []
    for tag, data in zip(types, messages, strict=True):
        head = Head(bits, name, len(groups), tag, big_endian, len(data))
        parts += (encode_head(head), names, data)
    return parts
