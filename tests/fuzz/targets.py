"""One target for every decoder: bytes go in, and nothing but BadDatagram may come out.

What does decode must encode back: to the same bytes for packets, which have one form only; to the
same value for frames of a session, where a peer may say the same in two ways.
"""

import contextlib
from collections.abc import Callable
from typing import Any, Final

from groupcomm.clocks.stamp import ViewId
from groupcomm.config.view import Incarnation
from groupcomm.errors import BadDatagram, RemoteProtocolError, SessionError
from groupcomm.events import MemberId
from groupcomm.security.sealing import SUITE_NONE, Opener, Sealer
from groupcomm.session import frames
from groupcomm.session.client import ClientSession
from groupcomm.session.daemon import DaemonSession, SessionLimits
from groupcomm.session.frame_reader import FrameReader
from groupcomm.session.view_frame import decode_view_untrusted, encode_view
from groupcomm.wire import bundle, messages
from groupcomm.wire.control import decode_control_untrusted
from groupcomm.wire.data import decode_data_untrusted
from groupcomm.wire.horizon import decode_horizon_untrusted
from groupcomm.wire.packet import HEAD_BYTES, PacketKind, peek_untrusted
from groupcomm.wire.request import decode_request_untrusted
from groupcomm.wire.resend import decode_resend_untrusted
from groupcomm.wire.rest import decode_rest_untrusted
from groupcomm.wire.token import decode_token_untrusted
from groupcomm.wire.unreliable import decode_unreliable_untrusted

VIEW: Final = ViewId(1, "d", 2)
CLUSTER: Final = 5
OWN: Final = (9, Incarnation(1, 1))
FRAME_LIMIT: Final = 300

PACKETS: Final[dict[int, Callable[[bytes], Any]]] = {
    PacketKind.DATA: decode_data_untrusted,
    PacketKind.UNRELIABLE: decode_unreliable_untrusted,
    PacketKind.TOKEN: decode_token_untrusted,
    PacketKind.REST: decode_rest_untrusted,
    PacketKind.REQUEST: decode_request_untrusted,
    PacketKind.HORIZON: decode_horizon_untrusted,
    PacketKind.RESEND: decode_resend_untrusted,
    PacketKind.CONTROL: decode_control_untrusted,
}


def packet(data: bytes) -> None:
    kind, key = peek_untrusted(data)
    if kind in PACKETS:
        assert PACKETS[kind](data).encode(key) == data


def keyed_packet(data: bytes) -> None:
    """The same without a key to find: the first byte is the kind, the body follows."""
    packet(data[:1] + bytes(HEAD_BYTES - 1) + data[1:])


def datagram(data: bytes) -> None:
    """Open what nobody sealed."""
    Opener(SUITE_NONE, None, CLUSTER, OWN).open_untrusted(data)


def sealed_packet(data: bytes) -> None:
    """A sealed packet of any sender with any counter, its CRC right, for all or for one."""
    sender, counter = int.from_bytes(data[:8]), int.from_bytes(data[8:15])
    content = data[16:]
    sealer = Sealer(SUITE_NONE, None, CLUSTER, sender, Incarnation(0, 0), counter)
    receiver = OWN[0] if data[15:16] == b"\1" else None
    opened = Opener(SUITE_NONE, None, CLUSTER, OWN).open_untrusted(sealer.seal(content, receiver))
    assert (opened.sender, opened.counter, opened.packet) == (sender, counter + 1, content)
    packet(content)


def body(data: bytes) -> None:
    made = bundle.decode_body_untrusted(data)
    payload = bundle.body_payload(data)
    head = (made.kind, made.level, made.flags, made.message, made.groups)
    assert bundle.encode_body(*head, payload, made.index, made.count) == data
    if made.kind == bundle.BundleKind.MESSAGES:
        items = messages.decode_messages_untrusted(payload, made.count)
        assert messages.encode_messages(items) == payload
    elif made.kind == bundle.BundleKind.FRAGMENT:
        assert messages.encode_fragment(*messages.decode_fragment_untrusted(payload)) == payload


def bundles(data: bytes) -> None:
    assert bundle.encode_bundles(bundle.decode_bundles_untrusted(data, 0)) == data


def payload_of_messages(data: bytes) -> None:
    count = int.from_bytes(data[:4])
    if count:
        made = messages.decode_messages_untrusted(data[4:], count)
        assert messages.encode_messages(made) == data[4:]


def payload_of_fragment(data: bytes) -> None:
    assert messages.encode_fragment(*messages.decode_fragment_untrusted(data)) == data


def reader(data: bytes) -> None:
    """A stream in two pieces, cut by the first byte, gives the frames of the whole."""
    cut = data[0] if data else 0
    whole, pieces = FrameReader(FRAME_LIMIT), FrameReader(FRAME_LIMIT)
    found = list(whole.feed(data))
    assert [*pieces.feed(data[:cut]), *pieces.feed(data[cut:])] == found


def daemon_session(data: bytes) -> None:
    """What a client sends, before and after its HELLO."""
    session = DaemonSession(1, limits=SessionLimits())
    if data[:1] != b"\0":  # the length of a frame that is not refused begins with 0
        session.receive(frames.encode_hello("ann"))
        session.welcome("#ann#d", 1000, VIEW)
    with contextlib.suppress(SessionError):
        session.receive(data[1:])


def client_session(data: bytes) -> None:
    """What a daemon sends behind its WELCOME; the client's side raises nothing at all."""
    session = ClientSession("ann")
    session.receive(frames.encode_welcome(MemberId("#ann#d", 1), 1000))
    try:
        session.receive(frames.encode_view_id(VIEW) + data)
    except RemoteProtocolError as error:
        raise AssertionError("the client's side must end with Closed") from error


def frame(
    decode: Callable[[bytes], Any], encode: Callable[[Any], bytes]
) -> Callable[[bytes], None]:
    """A target for frames of one kind, which the caller of the decoder has looked at."""

    def target(data: bytes) -> None:
        if data:
            value = decode(data)
            assert decode(encode(value)[4:]) == value

    return target


TARGETS: Final[tuple[Callable[[bytes], None], ...]] = (
    packet,
    keyed_packet,
    datagram,
    sealed_packet,
    body,
    bundles,
    payload_of_messages,
    payload_of_fragment,
    reader,
    daemon_session,
    client_session,
    frame(
        lambda data: frames.decode_hello_untrusted(data)[1],
        frames.encode_hello,
    ),
    frame(
        frames.decode_welcome_untrusted,
        lambda told: frames.encode_welcome(told.member, told.bundle_limit),
    ),
    frame(frames.decode_view_id_untrusted, frames.encode_view_id),
    frame(
        frames.decode_delivery_untrusted,
        lambda told: frames.encode_delivery(told[0].name, told[0].connection, *told[1:]),
    ),
    frame(
        lambda data: decode_view_untrusted(data, VIEW),
        encode_view,
    ),
    frame(
        lambda data: frames.decode_ordered_untrusted(data, VIEW),
        lambda told: frames.encode_ordered(told.number, told.position),
    ),
    frame(
        lambda data: frames.decode_undeliverable_untrusted(data, VIEW),
        lambda told: frames.encode_undeliverable(told.number, told.target, told.position),
    ),
    frame(frames.decode_abort_untrusted, lambda told: frames.encode_abort(*told)),
    frame(
        frames.decode_closed_untrusted,
        lambda told: frames.encode_closed(told.code, told.reason),
    ),
)


def run(data: bytes) -> None:
    """Give all but the first byte to the target that the first byte chooses."""
    if data:
        with contextlib.suppress(BadDatagram):
            TARGETS[data[0] % len(TARGETS)](data[1:])
