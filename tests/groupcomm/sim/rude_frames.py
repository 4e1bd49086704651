"""Frames that a program without rights may send: every kind, as fast as it is read."""

import struct
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, repeat

from groupcomm.level import ServiceLevel
from groupcomm.session.daemon_session import _FROM_CLIENTS
from groupcomm.session.frames import (
    FrameKind,
    encode_alive,
    encode_bundle_head,
    encode_bye,
    encode_hello,
    encode_query,
)
from groupcomm.wire.bundle import BundleKind, encode_body
from groupcomm.wire.messages import encode_fragment
from tests.groupcomm.wire.payloads import encode_messages

AGREED = ServiceLevel.AGREED
FIRST_FROM_DAEMONS = 16
FRAMES = 128
"""The bytes of one connection that are written at once."""

Stream = Callable[[int], Iterator[bytes]]


def hello(number: int) -> bytes:
    """Return a frame whose name looks random, as every program may have one."""
    return encode_hello(f"u{number:012x}", 2)


def frames_of(number: int, frame: Callable[[int], bytes], at_once: int = FRAMES) -> Iterator[bytes]:
    """Yield a session that says hello, and then the same kind of frame for ever."""
    messages = count(1)
    while True:
        yield hello(number)
        while True:
            yield b"".join(frame(next(messages)) for _ in range(at_once))


def bundle(kind: BundleKind, message: int, groups: tuple[str, ...], payload: bytes) -> bytes:
    many = kind == BundleKind.FRAGMENT
    body = encode_body(kind, AGREED, 0, message, groups, payload, count=2 if many else 1)
    return encode_bundle_head(len(body), False) + body


def messages(number: int, groups: int = 1) -> Iterator[bytes]:
    data = encode_messages([(0, b"")])

    def frame(message: int) -> bytes:
        names = tuple(f"{message % 16:x}{at:02x}" for at in range(groups))
        return bundle(BundleKind.MESSAGES, message, names, data)

    return frames_of(number, frame, FRAMES if groups == 1 else 4)


def fragments(number: int) -> Iterator[bytes]:
    """Yield both fragments of each message."""

    def both(message: int) -> bytes:
        parts = [encode_fragment(0, 20, bytes(10))] * 2
        return b"".join(
            encode_bundle_head(len(body), False) + body
            for body in (
                encode_body(BundleKind.FRAGMENT, AGREED, 0, message, ("g",), part, at, 2)
                for at, part in enumerate(parts)
            )
        )

    return frames_of(number, both)


def control(kind: BundleKind, number: int) -> Iterator[bytes]:
    return frames_of(number, lambda n: bundle(kind, n, (f"g{n}",), b""))


def queries(text: str, number: int) -> Iterator[bytes]:
    return frames_of(number, lambda _: encode_query(text))


def heartbeats(number: int) -> Iterator[bytes]:
    """Yield heartbeats that each say another time, so that none is like the last one."""
    return frames_of(number, lambda at: encode_alive(FrameKind.CLIENT_ALIVE, 10.0 + at))


def comes_and_goes(number: int, last: bytes) -> Iterator[bytes]:
    """Yield a session that says hello and ends at once, again and again."""
    return repeat(hello(number) + last)


def hello_of_another(_number: int) -> Iterator[bytes]:
    """Yield a session that wants a name that is not its own."""
    return repeat(encode_hello("polite", 2))


def line(number: int, at: int) -> bytes:
    """Return a request for a line that nobody else has, or had before."""
    return bundle(BundleKind.LINE, at, (), struct.pack("!QQ", number, at))


def lines(number: int) -> Iterator[bytes]:
    """Yield requests for lines of a program's own, one after the other."""
    return frames_of(number, partial(line, number))


def lines_of_sessions(number: int) -> Iterator[bytes]:
    """Yield sessions that each ask for a line of its own, and end."""
    return (hello(number) + line(number, at) + encode_bye() for at in count(1))


BUNDLES_OF_DAEMONS = [kind for kind in BundleKind if int(kind) not in _FROM_CLIENTS]
FRAMES_OF_DAEMONS = [kind for kind in FrameKind if kind >= FIRST_FROM_DAEMONS]


def bundles_of_daemons(number: int) -> Iterator[bytes]:
    """Yield each connection another kind."""
    return control(BUNDLES_OF_DAEMONS[number % len(BUNDLES_OF_DAEMONS)], number)


def frames_of_daemons(number: int) -> Iterator[bytes]:
    """Yield each connection another kind."""
    kind = FRAMES_OF_DAEMONS[number % len(FRAMES_OF_DAEMONS)]
    return comes_and_goes(number, struct.pack("!IB", 1, kind))


ATTACKS: dict[str, Stream] = {
    "HELLO, BYE": partial(comes_and_goes, last=encode_bye()),
    "HELLO of another": hello_of_another,
    "HELLO, no frame": partial(comes_and_goes, last=b"\xff" * 8),
    "QUERY": partial(queries, "status"),
    "CLIENT_ALIVE": heartbeats,
    "MESSAGES": messages,
    "MESSAGES to 255 groups": partial(messages, groups=255),
    "FRAGMENT": fragments,
    "JOIN": partial(control, BundleKind.JOIN),
    "LEAVE": partial(control, BundleKind.LEAVE),
    "LINE": lines,
    "HELLO, LINE, BYE": lines_of_sessions,
    "bundles of daemons": bundles_of_daemons,
    "frames of daemons": frames_of_daemons,
}
