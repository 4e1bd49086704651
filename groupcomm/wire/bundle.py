"""Bundles, the units that daemons order: small messages of a session, or part of a large one.

A body is encoded once, by the library of the client that sends it, and forwarded untouched. In a
packet it stands in a record that adds its sender. Network byte order::

    record  length of what follows u32, session u64, user u8 + UTF-8,
            targets u8 + u64 each, body
    body    kind u8, level u8, flags u8, message u64, index u32, count u32,
            length of groups u16, groups (each u8 + UTF-8), payload (the rest)

A *header* of a bundle is its record without groups and payload (docs/pruning.md).
"""

import enum
import struct
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from groupcomm.errors import BadDatagram, LocalProtocolError
from groupcomm.level import LEVELS, ServiceLevel
from groupcomm.names import MAX_NAME_BYTES, check_destination, check_user
from groupcomm.wire.packet import Raw


class BundleKind(enum.IntEnum):
    """The kinds of bundles. CONNECT to DISCONNECT are control bundles, and always AGREED.

    SUBSCRIBE to ROSTER are bundles of daemons themselves.
    """

    MESSAGES = 0  # `count` whole messages, numbered from `message`
    FRAGMENT = 1  # part `index` of `count` of one message
    CONNECT = 2
    JOIN = 3  # the session joins the only group of the bundle
    LEAVE = 4  # the session leaves the only group of the bundle
    DISCONNECT = 5
    STATE = 6  # part `index` of `count` of a daemon's announcement in a new view; always RELIABLE
    SUBSCRIBE = 7  # the daemon wants the messages to this one group; always FIFO
    UNSUBSCRIBE = 8  # the daemon no longer wants them; always FIFO
    KEYS = 9  # the keys that a daemon has, see keys.py; always AGREED
    REPORT = 10  # for operators at other daemons, or a request for them; always AGREED
    ROSTER = 11  # a step of a change of the roster, see roster.py; always AGREED
    WIDE = 12  # from here on in this stream other rings may send to this one name; always FIFO
    NARROW = 13  # from here on they may not; always AGREED
    LINE = 14  # the session goes on with a line, or gives it up, see groups/lines.py; always AGREED


OF_SESSIONS: Final = frozenset(
    kind for kind in BundleKind if kind <= BundleKind.DISCONNECT or kind is BundleKind.LINE
)
"""The kinds of bundles of sessions; the others are of daemons themselves."""

SELF_DISCARD: Final = 1
"""Flag: the sender does not want its own message."""

WITHOUT_VIEWS: Final = 1
"""The flag of a JOIN whose session is to get the group's messages, and to be no member of it."""

SENDS_ONLY: Final = 1
"""The flag of a SUBSCRIBE whose daemon is to send to a name, and to get none of its messages."""

NEEDS_QUORUM: Final = 2
"""The flag of a JOIN in whose group AGREED and SAFE messages wait where there is no quorum."""

LEAVES_WITHOUT_QUORUM: Final = 4
"""The flag of such a JOIN whose session its daemon takes out of the group there."""

GIVES_UP: Final = 1
"""The flag of a LINE whose session needs the line no more: daemons may forget it."""

LINE_BYTES: Final = 16
"""The bytes of a line's id, which are the payload of a LINE."""

BIG_ENDIAN: Final = 2
"""Flag: the program that has sent it writes big-endian; only clients of Spread are asked."""

ASKED_SHIFT: Final = 2
"""Flags: two bits from here on are the level that its sender has asked for, RELIABLE to CAUSAL,
where it is sent at a higher one; 0: it is sent as the sender asked."""

MARKS_SHIFT: Final = 4
"""Flags: three bits from here on are marks that a client of Spread has set for its receivers: the
bits 0x10000000 to 0x40000000 of the type of its message."""

BODY_HEAD_BYTES: Final = 21
_GROUPS_AT: Final = 19  # the length of the groups section, which ends a body's head

_BODY = struct.Struct("!BBBQIIH")
_RECORD = struct.Struct("!IQB")  # the length, the session, the length of the user's name
_BARE_BYTES: Final = _RECORD.size + 1  # a record without a sender, targets and body
_COUNT = struct.Struct("!H")
_U64 = struct.Struct("!Q")

_OF_JOINS: Final = WITHOUT_VIEWS | NEEDS_QUORUM | LEAVES_WITHOUT_QUORUM
_FRAGMENT: Final = int(BundleKind.FRAGMENT)
_CONNECT: Final = int(BundleKind.CONNECT)
_LEAVE: Final = int(BundleKind.LEAVE)
_STATE: Final = int(BundleKind.STATE)
_SUBSCRIBE: Final = int(BundleKind.SUBSCRIBE)
_KEYS: Final = int(BundleKind.KEYS)
_REPORT: Final = int(BundleKind.REPORT)
_ROSTER: Final = int(BundleKind.ROSTER)
_NARROW: Final = int(BundleKind.NARROW)
_LINE: Final = int(BundleKind.LINE)
_DAEMONS_OWN: Final = frozenset((_STATE, _KEYS, _REPORT, _ROSTER))
_RELIABLE: Final = int(ServiceLevel.RELIABLE)
_FIFO: Final = int(ServiceLevel.FIFO)
_AGREED: Final = int(ServiceLevel.AGREED)
_NO_USER: Final = "daemon"
"""Stands for the session in the bundles of daemons themselves."""

_KINDS: Final = len(BundleKind)
_LEVELS: Final = len(LEVELS)
_MESSAGE_HEAD_BYTES: Final = 6  # see messages.py; a payload has a head for each message
_FRAGMENT_HEAD_BYTES: Final = 10
_MAX_MESSAGE: Final = 2**64 - 1
_SAFE_MESSAGE: Final = 2**63  # a bundle cannot have so many messages that its count ends


class Bundle(msgspec.Struct, eq=False):
    """One bundle with its sender; `body` holds all other fields once more, encoded.

    Attributes:
        session: connection number of the sender at its daemon.
        user: the user part of the sender's private name.
        targets: connection numbers of the private names among `groups`, in their order.
        kind: a BundleKind, as a plain int.
        level: a ServiceLevel, as a plain int.
        flags: SELF_DISCARD, BIG_ENDIAN, and the bits at ASKED_SHIFT and MARKS_SHIFT; of a
            JOIN WITHOUT_VIEWS, NEEDS_QUORUM and LEAVES_WITHOUT_QUORUM, of a LINE GIVES_UP.
        message: the number of its first message in the session's count.
        index: the number of the fragment, from 0; otherwise 0.
        count: the number of messages or fragments; otherwise 1.
        groups: all destinations.
        privates: the number of private names among these.
        body: its encoding without the sender.
        size: bytes of its record in a packet.
        packet: the packet that carries it; set only while it is being ordered.
        released: the order has released it for delivery.
        place: its index in that packet.
        work: the units of work that it is about to cause; see groupcomm/session/requests.py.
    """

    kind: int
    level: int
    flags: int
    message: int
    index: int
    count: int
    groups: tuple[str, ...]
    privates: int
    body: Raw
    size: int
    session: int = 0
    user: str = ""
    targets: tuple[int, ...] = ()
    packet: Any = None
    released: bool = False
    place: int = 0
    work: int = 0

    @property
    def is_notice(self) -> bool:
        """Return whether it is a daemon's own at FIFO: it waits for no agreed one of its daemon."""
        return self.level == _FIFO and not self.session

    def address(self, session: int, user: str, targets: tuple[int, ...]) -> None:
        """Set the sender, and a connection number for each private name among the groups."""
        self.session = session
        self.user = user
        self.targets = targets
        self.size = _RECORD.size + len(user.encode()) + 1 + 8 * len(targets) + len(self.body)

    def ask_for_views(self) -> None:
        """Drop the flag WITHOUT_VIEWS of a JOIN: some daemon of the view does not know it."""
        self.flags &= ~WITHOUT_VIEWS
        flags = self.flags
        self.body = encode_body(self.kind, self.level, flags, self.message, self.groups, b"")

    def record(self) -> tuple[bytes, Raw]:
        """Return the record of this bundle in a packet, `size` bytes, in two parts to join."""
        user = self.user.encode()
        targets = self.targets
        head = _RECORD.pack(self.size - 4, self.session, len(user))
        if not targets:
            return b"%b%b\0" % (head, user), self.body
        numbers = struct.pack(f"!B{len(targets)}Q", len(targets), *targets)
        return b"".join((head, user, numbers)), self.body

    def header(self) -> bytes:
        """Return the record without groups and payload, enough for daemons without recipients."""
        user = self.user.encode()
        size = _RECORD.size + len(user) + 1 + BODY_HEAD_BYTES
        head = _RECORD.pack(size - 4, self.session, len(user))
        return b"%b%b\0%b\0\0" % (head, user, bytes(self.body[:_GROUPS_AT]))

    def __repr__(self) -> str:
        kind = BundleKind(self.kind).name
        return (
            f"<Bundle {kind} of {self.user}/{self.session}: message {self.message},"
            f" {self.index} of {self.count}, {LEVELS[self.level].name} to {self.groups}>"
        )


# ---- bodies ----


def encode_body(
    kind: int,
    level: int,
    flags: int,
    message: int,
    groups: tuple[str, ...],
    payload: Raw,
    index: int = 0,
    count: int = 1,
) -> bytes:
    """Return a body; the caller has checked the names (at most MAX_GROUPS) and the numbers."""
    return encode_body_head(kind, level, flags, message, groups, index, count) + payload


def encode_body_head(
    kind: int,
    level: int,
    flags: int,
    message: int,
    groups: tuple[str, ...],
    index: int = 0,
    count: int = 1,
) -> bytes:
    """Return a body without its payload."""
    names = encode_groups(groups)
    return _BODY.pack(kind, level, flags, message, index, count, len(names)) + names


def control_bundle(kind: int, principal: str = "") -> Bundle:
    """Return a CONNECT or DISCONNECT, which a daemon sends for a client, without a number.

    A CONNECT names the owner of the session, if it is known.
    """
    return _of_daemon(kind, _AGREED, (), principal.encode())


def leave_bundle(group: str) -> Bundle:
    """Return the LEAVE that a daemon sends for a client that may be in a group no more."""
    return _of_daemon(_LEAVE, _AGREED, (group,), b"")


def line_bundle(line_id: bytes) -> Bundle:
    """Return the LINE that a daemon sends for a client once it goes on with its line."""
    return _of_daemon(_LINE, _AGREED, (), line_id)


def principal_of(bundle: Bundle) -> str:
    """Return the owner of the session that a CONNECT starts; "" if it is unknown."""
    return bytes(body_payload(bundle.body)).decode()


def state_bundle(payload: bytes, index: int, count: int) -> Bundle:
    """Return part `index` of `count` of a daemon's announcement; it belongs to no session."""
    return _of_daemon(_STATE, _RELIABLE, (), payload, index, count)


def subscription_bundle(kind: int, name: str, flags: int = 0) -> Bundle:
    """Return a SUBSCRIBE, UNSUBSCRIBE, WIDE or NARROW; it belongs to no session.

    Args:
        kind: which one.
        name: a group, or a private name unless a SUBSCRIBE is for the messages to it.
        flags: SENDS_ONLY, or 0.
    """
    level = _AGREED if kind == _NARROW else _FIFO
    body = encode_body(kind, level, flags, 0, (name,), b"")
    private = int(name[0] == "#")
    bundle = Bundle(kind, level, flags, 0, 0, 1, (name,), private, body, 0)
    bundle.address(0, _NO_USER, (0,) * private)
    return bundle


def keys_bundle(payload: bytes) -> Bundle:
    """Return a daemon's report of its keys; it belongs to no session."""
    return _own_bundle(_KEYS, payload)


def report_bundle(payload: bytes) -> Bundle:
    """Return a daemon's report to operators at other daemons; it belongs to no session."""
    return _own_bundle(_REPORT, payload)


def roster_bundle(payload: bytes) -> Bundle:
    """Return a step of a change of the roster; it belongs to no session."""
    return _own_bundle(_ROSTER, payload)


def _own_bundle(kind: int, payload: bytes) -> Bundle:
    bundle = _of_daemon(kind, _AGREED, (), payload)
    bundle.address(0, _NO_USER, ())
    return bundle


def _of_daemon(
    kind: int, level: int, groups: tuple[str, ...], payload: bytes, index: int = 0, count: int = 1
) -> Bundle:
    body = encode_body(kind, level, 0, 0, groups, payload, index, count)
    return Bundle(kind, level, 0, 0, index, count, groups, 0, body, _BARE_BYTES + len(body))


def decode_body_untrusted(body: Raw, *, header: bool = False) -> Bundle:
    """Decode a body, or its header, to a bundle without a sender, which refers to the body.

    Raises:
        BadDatagram: the body breaks a rule of its kind. No other exception, whatever the bytes.
    """
    size = len(body)
    if size < BODY_HEAD_BYTES:
        raise BadDatagram("short", f"a bundle body of {size} bytes")
    kind, level, flags, message, index, count, names = _BODY.unpack_from(body)
    start = BODY_HEAD_BYTES + names
    if start > size:
        raise BadDatagram("short", "the groups of a bundle end after its body")
    encoded = bytes(body[BODY_HEAD_BYTES:start])
    groups, privates = _groups_cache.get(encoded) or decode_groups_untrusted(encoded)
    if kind >= _KINDS or level >= _LEVELS or index >= count:
        raise BadDatagram(
            "bundle", f"kind {kind}, level {level}, flags {flags}, {index} of {count}"
        )
    bundle = Bundle(
        kind, level, flags, message, index, count, groups, privates, body, _BARE_BYTES + size
    )
    is_usual = kind < _FRAGMENT and groups and not (header or index or message > _SAFE_MESSAGE)
    if is_usual and count * _MESSAGE_HEAD_BYTES <= size - start:
        return bundle  # whole messages
    if header:
        _check_header(bundle, size - start)
    elif kind in _DAEMONS_OWN:
        _check_own(bundle)
    elif kind == _LINE:
        _check_line(bundle, size - start)
    elif kind >= _SUBSCRIBE:
        _check_subscription(bundle, size - start)
    elif kind > _FRAGMENT:
        _check_control(bundle, size - start)
    else:
        _check_payload(bundle, size - start)
    return bundle


def body_payload(body: Raw) -> Raw:
    """Return the payload of a body that `decode_body_untrusted` has accepted."""
    return body[BODY_HEAD_BYTES + (body[_GROUPS_AT] << 8 | body[_GROUPS_AT + 1]) :]


def _check_payload(bundle: Bundle, size: int) -> None:
    count = bundle.count
    if not bundle.groups:
        raise BadDatagram("bundle", "messages to no group")
    if bundle.kind == _FRAGMENT:
        if size < _FRAGMENT_HEAD_BYTES:
            raise BadDatagram("short", f"a fragment of {size} bytes")
    elif bundle.index or count * _MESSAGE_HEAD_BYTES > size:
        raise BadDatagram("bundle", f"{count} messages in {size} bytes, index {bundle.index}")
    elif bundle.message + count - 1 > _MAX_MESSAGE:
        raise BadDatagram("bundle", f"{count} messages from {bundle.message}: the count ends")


def _check_own(bundle: Bundle) -> None:
    level = _RELIABLE if bundle.kind == _STATE else _AGREED
    if bundle.level != level or bundle.flags or bundle.message or bundle.groups:
        raise BadDatagram("bundle", f"{bundle!r} is no bundle that a daemon sends")
    if bundle.kind != _STATE and bundle.count != 1:
        raise BadDatagram("bundle", f"{bundle!r}: reports are whole")


def _check_header(bundle: Bundle, size: int) -> None:
    last = bundle.message + (bundle.count - 1 if bundle.kind != _FRAGMENT else 0)
    if bundle.kind > _FRAGMENT or bundle.groups or size or last > _MAX_MESSAGE:
        raise BadDatagram("bundle", f"{bundle!r} is no header, payload {size} bytes")


def _check_subscription(bundle: Bundle, size: int) -> None:
    kind, flags = bundle.kind, bundle.flags
    level = _AGREED if kind == _NARROW else _FIFO
    plain = bundle.level == level and not (bundle.message or size)
    sends = kind == _SUBSCRIBE and flags == SENDS_ONLY
    named = len(bundle.groups) == 1 and (sends or kind != _SUBSCRIBE or not bundle.privates)
    if not (plain and named and bundle.count == 1 and (sends or not flags)):
        raise BadDatagram("bundle", f"{bundle!r} is no subscription, payload {size} bytes")


def _check_line(bundle: Bundle, size: int) -> None:
    plain = bundle.level == _AGREED and bundle.flags <= GIVES_UP and not bundle.groups
    if not plain or bundle.count != 1 or size != LINE_BYTES:
        raise BadDatagram("bundle", f"{bundle!r} is no line, payload {size} bytes")


def _check_control(bundle: Bundle, size: int) -> None:
    if bundle.kind == _CONNECT and size:
        _check_principal(bundle, size)
        size = 0
    flags = bundle.flags & ~_OF_JOINS if bundle.kind == BundleKind.JOIN else bundle.flags
    if bundle.level != _AGREED or flags or bundle.count != 1 or size:
        raise BadDatagram("bundle", f"{bundle!r} is no control bundle, payload {size} bytes")
    groups = bundle.groups
    named = bundle.kind in (BundleKind.JOIN, BundleKind.LEAVE)
    if len(groups) != named or (named and groups[0][0] == "#"):
        raise BadDatagram("bundle", f"control of kind {bundle.kind} with the groups {groups}")


def _check_principal(bundle: Bundle, size: int) -> None:
    if size > MAX_NAME_BYTES:
        raise BadDatagram("bundle", f"a principal of {size} bytes")
    try:
        principal_of(bundle)
    except UnicodeDecodeError:
        raise BadDatagram("name", "a principal that is not UTF-8") from None


# ---- records ----


def encode_bundles(head: bytes, bundles: Sequence[Bundle], *, headers: bool = False) -> bytes:
    """Return a whole packet of bundles or headers: the head, their count u16, their records."""
    parts: list[Raw] = [head, _COUNT.pack(len(bundles))]
    for bundle in bundles:
        parts += (bundle.header(),) if headers else bundle.record()
    return b"".join(parts)


def decode_bundles_untrusted(packet: bytes, offset: int, *, headers: bool = False) -> list[Bundle]:
    """Decode the count at `offset` and the records after it, to the end of the packet.

    The bodies are not copied: each is a view of the packet. With `headers` the packet has headers
    only.

    Raises:
        BadDatagram: a record breaks a rule, or bytes are missing or left over.
    """
    if len(packet) < offset + 2:
        raise BadDatagram("short", "no count of bundles")
    (count,) = _COUNT.unpack_from(packet, offset)
    offset += 2
    bundles: list[Bundle] = []
    view = memoryview(packet)
    for _ in range(count):
        bundle = _decode_record(view, offset, headers)
        offset += bundle.size
        bundles.append(bundle)
    if offset != len(packet):
        raise BadDatagram("trailing", f"{len(packet) - offset} bytes after the last bundle")
    return bundles


def _decode_record(packet: memoryview, offset: int, header: bool) -> Bundle:
    user_start = offset + _RECORD.size
    if user_start >= len(packet):
        raise BadDatagram("short", "the head of a record")
    length, session, user_size = _RECORD.unpack_from(packet, offset)
    end = offset + 4 + length
    targets_start = user_start + user_size
    if end > len(packet) or targets_start >= end:
        raise BadDatagram("short", f"a record of {length} bytes")
    count = packet[targets_start]
    body_start = targets_start + 1 + 8 * count
    if body_start > end:
        raise BadDatagram("short", f"a record with {count} targets")
    bundle = decode_body_untrusted(packet[body_start:end], header=header)
    if count != bundle.privates:
        raise BadDatagram("bundle", f"{count} targets for {bundle.privates} private names")
    if count:
        bundle.targets = struct.unpack_from(f"!{count}Q", packet, targets_start + 1)
    bundle.session = session
    encoded = bytes(packet[user_start:targets_start])
    bundle.user = _users_cache.get(encoded) or decode_user_untrusted(encoded)
    bundle.size = end - offset
    return bundle


# ---- names ----

# The same names come in every bundle, so decoded names are kept in caches of bounded size.

MAX_GROUPS: Final = 255

_CACHED_NAMES: Final = 4096
_CACHED_BYTES: Final = 512  # longer lists of groups are decoded each time
_groups_cache: dict[bytes, tuple[tuple[str, ...], int]] = {}
_encoded_cache: dict[tuple[str, ...], bytes] = {}
_users_cache: dict[bytes, str] = {}


def encode_groups(groups: tuple[str, ...]) -> bytes:
    """Return the groups section of a body."""
    names = _encoded_cache.get(groups)
    if names is None:
        names = b"".join(_short_text(name) for name in groups)
        if len(names) <= _CACHED_BYTES:
            if len(_encoded_cache) >= _CACHED_NAMES:
                _encoded_cache.clear()
            _encoded_cache[groups] = names
    return names


def _short_text(text: str) -> bytes:
    raw = text.encode()
    return bytes((len(raw),)) + raw


def decode_user_untrusted(raw: bytes) -> str:
    """Return the user part of a private name; raise only BadDatagram."""
    user = _users_cache.get(raw)
    if user is None:
        user = _decode_name(raw)
        try:
            check_user(user)
        except LocalProtocolError as error:
            raise BadDatagram("name", str(error)) from None
        if len(_users_cache) >= _CACHED_NAMES:
            _users_cache.clear()
        _users_cache[raw] = user
    return user


def decode_groups_untrusted(raw: bytes) -> tuple[tuple[str, ...], int]:
    """Return the names of a groups section, and the number of private ones; raise only
    BadDatagram."""
    known = _groups_cache.get(raw)
    if known is None:
        known = _split_groups(raw)
        if len(raw) <= _CACHED_BYTES:
            if len(_groups_cache) >= _CACHED_NAMES:
                _groups_cache.clear()
            _groups_cache[raw] = known
    return known


def _split_groups(raw: bytes) -> tuple[tuple[str, ...], int]:
    groups: list[str] = []
    offset = 0
    while offset < len(raw):
        end = offset + 1 + raw[offset]
        if end > len(raw):
            raise BadDatagram("short", "a group's name ends after its section")
        groups.append(_decode_name(raw[offset + 1 : end]))
        offset = end
    if len(groups) > MAX_GROUPS:
        raise BadDatagram("bundle", f"{len(groups)} groups; at most {MAX_GROUPS} are allowed")
    try:
        privates = _check_all(groups)
    except LocalProtocolError as error:
        raise BadDatagram("name", str(error)) from None
    return tuple(groups), privates


def _check_all(groups: list[str]) -> int:
    """Return the number of private names; raise LocalProtocolError if a name is invalid."""
    if (text := "".join(groups)).isascii() and text.isprintable():
        # All characters are valid, so only the bounds of a name must still be checked.
        suspects = [name for name in groups if not name or name[0] == "#"]
    else:
        suspects = groups
    return sum(check_destination(name)[0] == "#" for name in suspects)


def _decode_name(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise BadDatagram("name", "not UTF-8") from None
