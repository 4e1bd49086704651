"""Targets in the core: packets, datagrams and frames, and the machines that accept whole ones.

Packets get past their seal here: a fuzzer cannot forge one.
"""

import contextlib
import zlib
from collections.abc import Callable, Iterator
from math import inf
from typing import Any, Final

import msgspec

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.core import CoreConfig
from groupcomm.config.versions import PACKED, SPOKEN, Versions
from groupcomm.config.view import Incarnation, Start, View
from groupcomm.engine.protection import PlainProtection
from groupcomm.errors import BadDatagram
from groupcomm.events import DaemonView
from groupcomm.groups.announcement import (
    Announcement,
    Announcements,
    cut_announcement,
    decode_rows_untrusted,
)
from groupcomm.groups.groups import Groups
from groupcomm.groups.lines import LineRules, Lines, decode_table_untrusted
from groupcomm.groups.table import GroupTable
from groupcomm.joining import messages as messages_of_joining
from groupcomm.joining.messages import encode
from groupcomm.membership.flood import MAX_UNFINISHED, Flood
from groupcomm.security.keys import KeyRing
from groupcomm.security.layout import (
    HEAD_BYTES,
    MAX_DATAGRAM_BYTES,
    SUITE_NONE,
    Channel,
    ReplayWindow,
)
from groupcomm.security.opening import Opener
from groupcomm.security.plain import PlainOpener, PlainSealer
from groupcomm.security.sealing import Sealer
from groupcomm.session import daemon_frames, frames
from groupcomm.session.client_session import ClientSession
from groupcomm.session.daemon_session import DaemonSession, SessionLimits
from groupcomm.session.differences import decode_difference_untrusted, encode_difference
from groupcomm.session.frames import FrameReader
from groupcomm.wire import (
    bundle,
    columns,
    control,
    data,
    eviction,
    hello,
    horizon,
    joining,
    keys,
    link,
    membership,
    messages,
    packet,
    roster,
    token,
)
from groupcomm.wire.joining import ROOM_BYTES
from groupcomm.wire.segments import SEGMENT_HEAD_BYTES, Cutter, Joiner
from groupcomm_lessons.algorithms.direct.datagrams import (
    CODEC,
    decode_datagram_untrusted,
    decode_payload_untrusted,
    encode_datagram,
    encode_payload,
)
from tests.groupcomm.groups.stage import Audience
from tests.groupcomm.joining.world import Host, joiner
from tests.groupcomm.wire.payloads import decode_messages, encode_messages
from tests.verification.campaigns.fuzz.checks import Target, exact, frame, stable

_VIEW: Final = ViewId(1, "d1", 2)
_DAEMONS: Final = DaemonView(id=_VIEW, daemons=("d1",), majority=None)
_CONFIG: Final = CoreConfig(suite=SUITE_NONE, sites=(("d1", "d2"),))
_STARTS: Final = tuple(Start(name=f"d{n}", incarnation=Incarnation(1, n)) for n in (1, 2))


def _packet(decode: Callable[[bytes], Any]) -> Target:
    return exact(decode, lambda value, raw: value.encode(raw[1 : packet.HEAD_BYTES]))


def _numbered(raw: bytes) -> tuple[int, bytes]:
    """Return a count u32, as a bundle's body has it, and the payload that is said to hold so
    many."""
    return int.from_bytes(raw[:4], "big"), raw[4:]


def _messages(raw: bytes) -> None:
    count, payload = _numbered(raw)
    assert encode_messages(decode_messages(payload, count)) == payload


def _body(value: bundle.Bundle, raw: bytes) -> bytes:
    return bundle.encode_body(
        value.kind,
        value.level,
        value.flags,
        value.message,
        value.groups,
        bundle.body_payload(raw),
        value.index,
        value.count,
    )


def _hello(value: frames.HelloFrame) -> bytes:
    version, capabilities, user, token = value
    if version != frames.PROTOCOL_VERSION:
        raise BadDatagram("version", str(version))  # the rest of another version is unknown
    return frames.encode_hello(user, capabilities, token)


def _opened(raw: bytes) -> None:
    own = (0, Incarnation(0, 0))
    opener = PlainOpener(cluster=0, own=own)
    opened = opener.open_untrusted(raw)
    assert opened.packet in raw


def _sealed(raw: bytes) -> None:
    """The same with a right checksum: any sender, counter and packet, for all or for one."""
    start = Incarnation(int.from_bytes(raw[:7], "big"), 1)
    sender, counter = int.from_bytes(raw[7:15], "big"), int.from_bytes(raw[15:22], "big")
    receiver = 0 if raw[22:23] == b"\1" else None
    sealer = PlainSealer(0, sender, start, counter)
    opener = PlainOpener(cluster=0, own=(0, Incarnation(0, 0)))
    opened = opener.open_untrusted(sealer.seal(raw[23:], receiver))
    assert (opened.sender, opened.incarnation, opened.counter) == (sender, start, counter + 1)
    assert opened.packet == raw[23:]


def _encrypted(raw: bytes) -> None:
    """Nobody has sealed these bytes; the same sealed come out."""
    ring = KeyRing({1: bytes(32)}, 1)
    opener = Opener(ring, cluster=0, own=(0, Incarnation(0, 0)))
    sealer = Sealer(ring, 0, 1, Incarnation(0, 1))
    opener.trust(1, Incarnation(0, 1), dict.fromkeys(Channel, 0))
    for datagram in (raw, sealer.seal(b"", Channel.LINK)[: raw[0] if raw else 0] + raw):
        with contextlib.suppress(BadDatagram):
            opener.open_untrusted(datagram)
            raise AssertionError("opened what nobody sealed")
    assert opener.open_untrusted(sealer.seal(raw, Channel.RING)).packet == raw


def _introduction(raw: bytes) -> None:
    value, signature = hello.decode_introduction_untrusted(raw)
    assert value.encode() + signature == raw


def _eviction(raw: bytes) -> None:
    value, signature = eviction.decode_eviction_untrusted(raw)
    assert value.encode() + signature == raw


def _gate(raw: bytes) -> None:
    """Process a member's packet, to all or to one; an unsealed one must not be accepted."""
    sender, receiver = (PlainProtection(_CONFIG, start) for start in _STARTS)
    with contextlib.suppress(BadDatagram):
        receiver.open_untrusted(raw)
    opened = receiver.open_untrusted(sender.seal(None if raw[:1] == b"\0" else "d2", raw[1:]))
    assert (opened.sender, opened.packet) == (_STARTS[0].daemon.number, raw[1:])


def _segments(raw: bytes) -> None:
    """Accept segments in pieces whose size the first byte gives: also with the bytes as content.

    However they come, the daemon keeps little, and joins what is whole.
    """
    joined, size = Joiner(), 2 * SEGMENT_HEAD_BYTES + (raw[0] if raw else 0)
    whole = bytes((1, 0)) + bytes(HEAD_BYTES - 2) + raw
    train = Cutter().cut(whole, size) if len(whole) < 255 * SEGMENT_HEAD_BYTES else b""
    for received in (raw[1:], b"\2" + raw[1:], train[size:]):
        for found in joined.accept_untrusted(0, received, size):
            assert len(found) <= MAX_DATAGRAM_BYTES
    assert joined.kept_bytes <= 512 * (len(raw) + len(train) + 1)
    if train:
        assert whole in joined.accept_untrusted(1, train, size)
        assert joined.accept_untrusted(0, train[:size], size) or len(train) <= size


def _control_message(raw: bytes) -> None:
    """Decode a body whose first byte is the kind; it must survive its encoding."""
    kind = raw[0] if raw else 0
    value = membership.decode_message_untrusted(kind, raw[1:])
    again, body = membership.encode_message(value)
    assert again == kind
    assert membership.decode_message_untrusted(kind, body) == value


def _inflated(raw: bytes) -> None:
    """Inflate packets that travel together; what is accepted has few bytes, and each counts."""
    packets = control.inflate_packets_untrusted(raw)
    whole = b"".join(len(each.raw).to_bytes(2) + each.raw for each in packets)
    assert whole == zlib.decompress(raw, -zlib.MAX_WBITS)
    assert len(whole) <= control.MOST_RELAYED
    assert all(each.encode(each.raw[1 : packet.HEAD_BYTES]) == each.raw for each in packets)


def _flood(raw: bytes) -> None:
    """Receive packets of 40 bytes of payload in any order, some of them garbage; the rest is a
    message.

    After all the garbage the message is assembled as it was, and little is kept.
    """
    flood, seen = Flood(_CONFIG, _STARTS[0]), ReplayWindow()
    garbage, body = raw[1 : 1 + 8 * (raw[0] if raw else 0)], raw[1:]
    for start in range(0, len(garbage), 8):
        piece = garbage[start : start + 8].ljust(8, b"\0")
        head = (piece[0], Incarnation(0, piece[1]), piece[2], piece[3])
        for sent in control.cut_message(*head, piece[4:] * piece[4], control_limit(40)):
            if sent[-1] % 2:
                packet = control.decode_control_untrusted(sent)
                flood.assemble(packet, ReplayWindow(), own=sent[-1] % 4 == 1)
    assert len(flood._parts) <= MAX_UNFINISHED
    parts = control.cut_message(2**40, Incarnation(1, 1), 2**40, 2, body, control_limit(40))
    turned = parts[len(raw) % len(parts) :] + parts[: len(raw) % len(parts)]
    for index, sent in enumerate(turned):
        part = control.decode_control_untrusted(sent)
        assert flood.is_new(seen, part, own=True)
        whole = flood.assemble(part, seen, own=True)
        assert whole == (body if index == len(parts) - 1 else None)
        assert index == len(parts) - 1 or not flood.is_new(seen, part, own=True)


def control_limit(payload: int) -> int:
    """Return the packet limit for this number of the message's bytes in each."""
    (packet,) = control.cut_message(0, Incarnation(0, 0), 0, 0, b"", 100)
    return len(packet) + payload


def _announcement(raw: bytes) -> None:
    """Cut the rest in two parts at the last two bytes; a complete value survives another cut."""
    cut = int.from_bytes(raw[-2:], "big") % max(1, len(raw) - 2)
    body = raw[:-2]
    for versions in (Versions(), Versions(highest=PACKED), SPOKEN):
        token = Announcements(1, versions)
        for index, part in ((1, body[cut:]), (0, body[:cut])):
            token.accept(0, bundle.state_bundle(part, index, 2))
        again = Announcements(1, SPOKEN)
        for piece in reversed(cut_announcement(msgspec.msgpack.encode(token.whole[0]), 100)):
            assert piece.size <= 100
            again.accept(0, piece)
        assert again.complete
        assert again.whole == token.whole
        assert again.together(0, [(1, 1)]) == {0}


def _rows(raw: bytes) -> None:
    """A daemon comes with a section of rows: all of it is entered, or nothing."""
    versions = Versions(highest=PACKED)
    view = View(id=_VIEW, daemons=(_STARTS[0].daemon,), rings=((0,),), versions=versions)
    held = Announcements(1, versions)
    held.whole[0] = Announcement(b"", (), 0, (raw,))
    audience, rows = Audience(), decode_rows_untrusted(raw)
    groups = Groups(view, 0, audience)
    groups.begin((GroupTable(0), ()), held, on_table=audience.joins.clear).advance(inf)
    assert len(groups.table.sessions) in (0, 0 if rows is None else len(rows.sessions))


def _line_table(raw: bytes) -> None:
    """A table of lines is announced as it was taken over, and each session has one line."""
    table = decode_table_untrusted(raw)
    view = View(id=_VIEW, daemons=(_STARTS[0].daemon,), rings=((0,),), versions=SPOKEN)
    lines = Lines()
    lines.begin(view, LineRules(majority=False), [((0,), raw), ((), b"")], {})
    assert len(lines.known) == (0 if table is None else len(table.rows))
    again = decode_table_untrusted(lines.announce())
    assert again is not None
    assert [row[:2] for row in again.rows] == [row[:2] for row in (table.rows if table else ())]


def _column(raw: bytes) -> None:
    """A column of a token has one form; before it is here the number of its rows."""
    rows = max(1, *raw[:1], 0)
    numbers, end = columns.decode_column_untrusted(raw, 1, rows, columns.MOST_NUMBER)
    assert len(numbers) == rows
    assert columns.encode_column(numbers) == raw[1:end]


def _pieces(raw: bytes) -> None:
    """However a stream is cut, the same frames come out."""
    cut = raw[0] if raw else 0
    limit = 64
    whole = list(_frames_of([raw[1:]], limit))
    assert list(_frames_of([raw[1 : 1 + cut], raw[1 + cut :]], limit)) == whole


def _frames_of(pieces: list[bytes], limit: int) -> Iterator[bytes]:
    reader = FrameReader(limit)
    with contextlib.suppress(BadDatagram):
        for piece in pieces:
            yield from reader.feed(piece)


def _client(raw: bytes) -> None:
    session = ClientSession("u", reassembly_cap_bytes=4096)
    session.receive(raw)


def _daemon(raw: bytes) -> None:
    session = DaemonSession(1, limits=SessionLimits())
    hello = frames.encode_hello("u")
    session.receive(hello)
    session.connect("#u#d1")
    session.welcome(1000, _DAEMONS)
    session.receive(raw)


def _asked(raw: bytes) -> None:
    """Have the holder of a token ask with these bytes, which are sealed, and a host answer."""
    host = Host()
    asker = joiner(host.invite("b"))
    ((_, opening),) = asker.step(0.0)
    machine = host.machines["a"]
    opened = machine.answer(opening, 0.0)
    assert opened is not None
    asker.receive("a", opened, 0.0)
    assert asker._keys is not None
    machine.answer(raw, 0.0)
    machine.answer(asker._keys.ask(1, raw[: ROOM_BYTES - 2]).encode(), 0.0)
    asker.step(0.0)
    asker.receive("a", asker._keys.reply(1, raw).encode(), 0.0)


CORE_TARGETS: Final[dict[str, Target]] = {
    "wire.packet.peek": exact(
        packet.peek_untrusted,
        lambda value, raw: b"%c%b%b" % (*value, raw[packet.HEAD_BYTES :]),
    ),
    "lessons.algorithms.direct.values.value": exact(
        CODEC.decode_value_untrusted, lambda value, _: CODEC.encode(value)
    ),
    "lessons.algorithms.direct.datagrams.datagram": exact(
        decode_datagram_untrusted, lambda value, _: encode_datagram(value)
    ),
    "lessons.algorithms.direct.datagrams.payload": exact(
        decode_payload_untrusted, lambda value, _: encode_payload(value)
    ),
    "wire.data.data": _packet(data.decode_data_untrusted),
    "wire.data.unreliable": _packet(data.decode_unreliable_untrusted),
    "wire.token.token": _packet(token.decode_token_untrusted),
    "wire.columns.column": _column,
    "wire.token.rest": _packet(token.decode_rest_untrusted),
    "wire.token.held": _packet(token.decode_held_untrusted),
    "wire.token.request": _packet(token.decode_request_untrusted),
    "wire.bundle.user": exact(bundle.decode_user_untrusted, lambda user, _: user.encode()),
    "wire.bundle.groups": exact(
        bundle.decode_groups_untrusted, lambda value, _: bundle.encode_groups(value[0])
    ),
    "wire.data.headers": _packet(data.decode_headers_untrusted),
    "wire.horizon.horizon": _packet(horizon.decode_horizon_untrusted),
    "wire.link.resend": _packet(link.decode_resend_untrusted),
    "wire.link.link": _packet(link.decode_link_untrusted),
    "wire.link.with_key": exact(
        lambda raw: link.with_key_untrusted(raw, bytes(packet.KEY_BYTES)),
        lambda value, _: link.without_key(value),
    ),
    "wire.link.ack": _packet(link.decode_ack_untrusted),
    "wire.segments.accept": _segments,
    "wire.control.control": _packet(control.decode_control_untrusted),
    "wire.control.inflate_packets": _inflated,
    "wire.hello.hello": _packet(hello.decode_hello_untrusted),
    "wire.keys.key_report": exact(
        keys.decode_key_report_untrusted, lambda value, _: value.encode()
    ),
    "wire.joining.joining": exact(
        joining.decode_joining_untrusted, lambda value, _: value.encode()
    ),
    "joining.messages.request": stable(messages_of_joining.decode_request_untrusted, encode),
    "joining.messages.answer": stable(messages_of_joining.decode_answer_untrusted, encode),
    "joining.messages.package": stable(
        messages_of_joining.decode_package_untrusted, messages_of_joining.encode_package
    ),
    "joining.host": _asked,
    "wire.roster.step": exact(roster.decode_step_untrusted, lambda value, _: value.encode()),
    "wire.roster.roster": stable(roster.decode_roster_untrusted, roster.encode_roster),
    "wire.membership.message": _control_message,
    "membership.flood": _flood,
    "groups.announcement.announcement": _announcement,
    "groups.announcement.rows": _rows,
    "groups.lines.table": _line_table,
    "wire.bundle.body": exact(bundle.decode_body_untrusted, _body),
    "wire.bundle.bundles": exact(
        lambda raw: bundle.decode_bundles_untrusted(raw, 0),
        lambda value, _: bundle.encode_bundles(b"", value),
    ),
    "wire.messages.messages": _messages,
    "wire.messages.fragment": exact(
        messages.decode_fragment_untrusted, lambda value, _: messages.encode_fragment(*value)
    ),
    "security.plain.open": _opened,
    "security.plain.sealed": _sealed,
    "wire.hello.introduction": _introduction,
    "wire.eviction.eviction": _eviction,
    "security.opening.open": _encrypted,
    "engine.protection.open": _gate,
    "session.frames.hello": frame(frames.decode_hello_untrusted, _hello),
    "session.frames.query": frame(frames.decode_query_untrusted, frames.encode_query),
    "session.frames.alive": frame(
        frames.decode_alive_untrusted,
        lambda wait_s: frames.encode_alive(frames.FrameKind.CLIENT_ALIVE, wait_s),
    ),
    "session.daemon_frames.accepted": frame(
        daemon_frames.decode_accepted_untrusted, daemon_frames.encode_accepted
    ),
    "session.daemon_frames.welcome": frame(
        daemon_frames.decode_welcome_untrusted,
        lambda value: daemon_frames.encode_welcome(
            value.member,
            value.bundle_limit,
            readers=value.readers,
            lines=value.lines,
            pauses=value.pauses,
        ),
    ),
    "session.daemon_frames.view_id": frame(
        daemon_frames.decode_view_id_untrusted, daemon_frames.encode_view_id
    ),
    "session.daemon_frames.delivery": frame(
        daemon_frames.decode_delivery_untrusted,
        lambda value: b"".join(
            daemon_frames.encode_delivery(value[0].name, value[0].connection, *value[1:])
        ),
    ),
    "session.daemon_frames.ordered": frame(
        lambda raw: daemon_frames.decode_ordered_untrusted(raw, _VIEW),
        lambda value: daemon_frames.encode_ordered(
            value.number, value.position, value.transitional
        ),
    ),
    "session.daemon_frames.undeliverable": frame(
        lambda raw: daemon_frames.decode_undeliverable_untrusted(raw, _VIEW),
        lambda value: daemon_frames.encode_undeliverable(
            value.number, value.target, value.position
        ),
    ),
    "session.daemon_frames.abort": frame(
        daemon_frames.decode_abort_untrusted, lambda value: daemon_frames.encode_abort(*value)
    ),
    "session.daemon_frames.closed": frame(
        daemon_frames.decode_closed_untrusted,
        lambda value: daemon_frames.encode_closed(value.code, value.reason),
    ),
    "session.daemon_frames.view": frame(
        lambda raw: daemon_frames.decode_view_untrusted(raw, _VIEW), daemon_frames.encode_view
    ),
    "session.differences.difference": frame(
        lambda raw: decode_difference_untrusted(raw, _VIEW), encode_difference
    ),
    "session.daemon_frames.causes": frame(
        daemon_frames.decode_causes_untrusted, daemon_frames.encode_causes
    ),
    "session.daemon_frames.principal": frame(
        daemon_frames.decode_principal_untrusted, daemon_frames.encode_principal
    ),
    "session.daemon_frames.refused": frame(
        daemon_frames.decode_refused_untrusted, daemon_frames.encode_refused
    ),
    "session.daemon_frames.line": frame(
        daemon_frames.decode_line_untrusted, daemon_frames.encode_line
    ),
    "session.daemon_frames.stopping": frame(
        daemon_frames.decode_stopping_untrusted, daemon_frames.encode_stopping
    ),
    "session.frame_reader": _pieces,
    "session.client": _client,
    "session.daemon": _daemon,
}
