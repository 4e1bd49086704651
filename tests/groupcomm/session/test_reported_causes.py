"""A session that asks for causes, and the client's decoding of them."""

import pytest

from groupcomm.clocks.stamp import Stamp
from groupcomm.events import CausalContext, Closed, MemberId, Message
from groupcomm.level import ServiceLevel
from groupcomm.session.client_session import ClientSession
from groupcomm.session.daemon_frames import encode_causes, encode_view_id, encode_welcome
from groupcomm.session.daemon_session import DaemonSession, SessionLimits
from groupcomm.session.frames import Capability, encode_hello
from groupcomm.session.requests import Hello
from groupcomm.wire.bundle import BundleKind, encode_body
from groupcomm.wire.messages import encode_fragment
from tests.groupcomm.session.pair import DAEMONS, PLENTY, whole_delivery
from tests.groupcomm.wire.payloads import encode_messages

UNRELIABLE, RELIABLE, _, CAUSAL, _, _ = ServiceLevel
BOB = MemberId("#bob#d2", 7)
FIRST = CausalContext(5, Stamp(80, 1), (4, 9))
LATER = CausalContext(6, None, ())


def open_client() -> ClientSession:
    client = ClientSession("ann", causes=True)
    client.receive(encode_welcome(MemberId("#ann#d1", 1), 1000) + encode_view_id(DAEMONS))
    return client


def delivery(number: int, *messages: bytes, level: int = CAUSAL) -> bytes:
    payload = encode_messages([(0, data) for data in messages])
    body = encode_body(BundleKind.MESSAGES, level, 0, number, ("g",), payload, 0, len(messages))
    place = None if level == UNRELIABLE else (90 + number, 0, 0)
    return whole_delivery(BOB.name, BOB.connection, place, body)


def fragment(index: int) -> bytes:
    payload = encode_fragment(0, 4, b"ab")
    body = encode_body(BundleKind.FRAGMENT, RELIABLE, 0, 1, ("g",), payload, index, 2)
    return whole_delivery(BOB.name, BOB.connection, (90 + index, 0, 0), body)


def told(client: ClientSession, *frames: bytes) -> list[tuple[int, CausalContext | None]]:
    events = client.receive(b"".join(frames))
    assert client.only_messages
    return [(event.number, event.causes) for event in events if isinstance(event, Message)]


@pytest.mark.parametrize(
    ("bits", "asked"),
    [(0, False), (Capability.CAUSES, True), (2**32 - 2, False), (2**32 - 1, True)],
)
def test_a_daemon_knows_who_asks_and_ignores_bits_that_it_does_not_know(
    bits: int, asked: bool
) -> None:
    (hello,) = DaemonSession(1, limits=SessionLimits()).receive(encode_hello("ann", bits))
    assert isinstance(hello, Hello)
    assert (hello.user, bool(hello.wishes & Capability.CAUSES)) == ("ann", asked)


@pytest.mark.parametrize("asked", [False, True])
def test_a_client_asks_by_its_hello(asked: bool) -> None:
    bits = Capability.REFUSALS | Capability.STOPPING | Capability.BOUNDS | Capability.ACCEPTED
    bits |= Capability.DIFFERENCES | Capability.CONTINUED | Capability.VOTES
    bits |= Capability.UNBROKEN
    bits |= Capability.CAUSES if asked else 0
    assert ClientSession("ann", causes=asked).pop_output(PLENTY) == encode_hello("ann", bits)


def test_messages_have_the_causes_that_stand_before_their_bundle() -> None:
    client = open_client()
    first, later = encode_causes(FIRST), encode_causes(LATER)
    frames = (first, delivery(1, b"a", b"b"), later, delivery(3, b"c"), first, delivery(4, b"d"))
    expected = [(1, FIRST), (2, FIRST), (3, LATER), (4, FIRST)]
    assert told(client, *frames) == expected


def test_who_learns_none_has_none() -> None:
    """Like frames of a daemon of an older release, with UNRELIABLE messages in between."""
    client = open_client()
    assert told(client, delivery(1, b"a")) == [(1, None)]
    unreliable = delivery(3, b"c", level=UNRELIABLE)
    frames = (encode_causes(FIRST), delivery(2, b"b"), unreliable, delivery(4, b"d"))
    assert told(client, *frames) == [(2, FIRST), (3, None), (4, None)]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_message_in_fragments_has_the_causes_of_its_last_one(order: tuple[int, int]) -> None:
    client = open_client()
    contexts = (CausalContext(7, None, ()), CausalContext(8, None, ()))
    frames = [encode_causes(contexts[index]) + fragment(index) for index in order]
    assert told(client, *frames) == [(1, contexts[1])]


def test_causes_that_do_not_decode_end_the_session() -> None:
    client = open_client()
    (closed,) = client.receive(b"\0\0\0\x02\x1a\0")
    assert isinstance(closed, Closed)
    assert "a CAUSES frame of 2 bytes" in closed.reason
