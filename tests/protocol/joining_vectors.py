"""Test vectors of datagrams for joining."""

from typing import Final

import attrs

from groupcomm.wire import joining
from tests.protocol.families import Example, Family, Fields


def read_joining(raw: bytes) -> tuple[Fields, bytes]:
    """Read a datagram for joining; see Family."""
    found = joining.decode_joining_untrusted(raw)
    names = [field.name for field in attrs.fields(type(found))]
    fields: Fields = {"datagram": type(found).__name__.upper()}
    return fields | {name: getattr(found, name) for name in names}, found.encode()


_SALT: Final = bytes(range(16))
_OPEN: Final = joining.Open(
    salt=_SALT,
    cluster=0x0102030405060708,
    key_id=1,
    role=joining.Role.TOKEN,
    credential=bytes(range(8)),
    public=bytes(range(32)),
    proof=bytes(range(16)),
).encode()

JOINING: Final = Family(
    file="joining",
    about="Datagrams of a daemon that asks for admission, and answers; proofs are no real ones.",
    read=read_joining,
    good=[
        Example("open", "A daemon with a token begins to ask.", _OPEN),
        Example(
            "opened",
            "A host can be asked.",
            joining.Opened(salt=_SALT, public=bytes(32), proof=bytes(16)).encode(),
        ),
        Example(
            "denied", "The token is unknown.", joining.Denied(salt=_SALT, proof=bytes(16)).encode()
        ),
        Example(
            "ask",
            "The first request.",
            joining.Ask(
                salt=_SALT, counter=1, sealed=bytes(joining.ROOM_BYTES + joining.TAG_BYTES)
            ).encode(),
        ),
        Example(
            "reply", "Its answer.", joining.Reply(salt=_SALT, counter=1, sealed=bytes(20)).encode()
        ),
    ],
    bad=[
        Example("another first byte", "0x6a begins all.", b"\1" + _OPEN[1:]),
        Example("kind 6", "1 to 5.", b"\x6a\6" + _OPEN[2:]),
        Example("a short request", "Requests have 1,200 bytes.", _OPEN[:-1]),
        Example("something in the padding", "Zeros.", _OPEN[:-1] + b"\1"),
        Example("role 3", "1 or 2.", _OPEN[:28] + b"\3" + _OPEN[29:]),
    ],
)
