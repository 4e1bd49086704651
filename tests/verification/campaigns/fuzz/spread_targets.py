"""Targets that process the bytes of clients of Spread, and valid inputs for them."""

from collections.abc import Iterator
from typing import Final

from groupcomm.events import MemberId
from groupcomm.session.daemon_frames import decode_origins_untrusted, encode_origins, encode_welcome
from groupcomm.session.frames import FrameReader
from groupcomm.session.spread.handshake import Handshake, State
from groupcomm.session.spread.layout import Head, decode_head_untrusted, encode_head, encode_names
from groupcomm.session.spread.session import SpreadSession
from groupcomm.wire.bundle import decode_body_untrusted
from tests.verification.campaigns.fuzz.checks import Target, frame

_HELLO: Final = b"\x04\x04\x00\x01\x03ann"
_METHODS: Final = b"NULL".ljust(90, b"\0")
_BUNDLE: Final = 2


def _head(raw: bytes) -> None:
    head = decode_head_untrusted(raw)
    assert decode_head_untrusted(encode_head(head)) == head


def _handshake(raw: bytes) -> None:
    handshake = Handshake()
    answer = handshake.receive_untrusted(raw)
    assert handshake.state in (State.VERSION, State.METHODS, State.DONE)
    assert answer in (b"", b"\x05NULL ")


def _session(raw: bytes) -> None:
    """Translate a client's bytes to frames for its daemon; bytes come in pieces of 100."""
    handshake = Handshake()
    handshake.receive_untrusted(_HELLO)
    handshake.receive_untrusted(_METHODS)
    session = SpreadSession(handshake, "ann")
    session.translate(encode_welcome(MemberId("#ann#a", 1), 1300))
    reader = FrameReader(2**20)
    for start in range(0, len(raw), 100):
        for made in reader.feed(session.receive_untrusted(raw[start : start + 100])):
            if made[0] == _BUNDLE:
                decode_body_untrusted(made[2:])


SPREAD_TARGETS: Final[dict[str, Target]] = {
    "session.daemon_frames.origins": frame(decode_origins_untrusted, encode_origins),
    "session.spread.handshake.receive": _handshake,
    "session.spread.layout.head": _head,
    "session.spread.session.receive": _session,
}


def spread_seeds() -> Iterator[tuple[str, bytes]]:
    """Names of targets, and inputs for them."""
    yield "session.daemon_frames.origins", encode_origins({"a": 0, "größe": 1})[4:]
    yield "session.spread.handshake.receive", _HELLO
    yield "session.spread.handshake.receive", _HELLO + _METHODS
    said = b""
    for kind in (0x10000, 0x10, 0x60, 0x20000, 0x40000):
        for big_endian in (False, True):
            head = encode_head(Head(kind, b"#ann#a", 1, 5, big_endian, 3))
            yield "session.spread.layout.head", head
            said += head + encode_names([b"room"]) + b"abc"
            yield "session.spread.session.receive", said
