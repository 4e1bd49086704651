"""Test vectors of control messages, by which daemons agree on views."""

from typing import Final

from msgspec import structs

from groupcomm.config.view import Incarnation
from groupcomm.wire.control import ControlPacket
from groupcomm.wire.membership import (
    Ask,
    Beacon,
    Commit,
    ControlKind,
    ControlMessage,
    Holding,
    Join,
    Leave,
    Links,
    Past,
    Proposal,
    Relayed,
    Repair,
    RosterNotice,
    Seat,
    Settings,
    ShortBeacon,
    ShortCommit,
    ShortJoin,
    digest_of,
    encode_message,
)
from tests.protocol.families import Example, Family
from tests.protocol.packet_vectors import FIFO, read_packet
from tests.protocol.token_examples import KEY, TIME

START: Final = Incarnation(3, 0x1122334455667788)
_SPOKEN: Final = (1, 2, 3)
_JOIN: Final = Join(
    attempt=2,
    name="a",
    digests=bytes(range(16)),
    heard=((11, 12), (21, 22)),
    reading=TIME,
    clock=TIME - 5,
    counter=100,
    mark=200,
    past=Past(
        view=KEY,
        holdings=(
            Holding(forgotten=3, spans=((4, 9), (11, 11)), notices=((9, TIME),), frontier=TIME - 9),
        ),
        obligation=(0,),
    ),
    spoken=_SPOKEN,
)
_SEATS: Final = (
    Seat(number=11, restarts=1, random_id=12, attempt=2, mutual=b"\2"),
    Seat(number=21, restarts=1, random_id=22, attempt=1, mutual=b"\1"),
)
_COMMIT: Final = Commit(
    attempt=2, proposal=Proposal(_SEATS), recovered=False, installed=False, missing=(((5, 6),),)
)


def control(message: ControlMessage, sequence: int = 9, origin: int = 11) -> bytes:
    """Return the packet of a whole message."""
    kind, payload = encode_message(message)
    return ControlPacket(
        origin=origin,
        incarnation=START,
        sequence=sequence,
        kind=kind,
        part=0,
        parts=1,
        payload=payload,
    ).encode()


def _raw_control(kind: int, payload: bytes, part: int = 0, parts: int = 1) -> bytes:
    return ControlPacket(
        origin=11,
        incarnation=START,
        sequence=9,
        kind=kind,
        part=part,
        parts=parts,
        payload=payload,
    ).encode()


_BEACON: Final = Beacon(
    counter=100,
    view=KEY,
    heard=((21, 22),),
    digests=bytes(16),
    used=100,
    mark=200,
    write_us=900,
    spoken=_SPOKEN,
)


def _stored(whole: bytes) -> bytes:
    """Return bytes as raw DEFLATE does that compresses nothing: the same from every library."""
    size = len(whole)
    return b"\1" + size.to_bytes(2, "little") + (size ^ 0xFFFF).to_bytes(2, "little") + whole


def _joined(*packets: bytes) -> bytes:
    return b"".join(len(each).to_bytes(2) + each for each in packets)


_LEAVES: Final = _joined(control(Leave(), 10, 21), control(Leave(), 11, 31))
_DEFLATED: Final = bytes.fromhex(
    "6330e760c00e44a134b3a092b14b685a790794cfc50a24182730e0d4288f432337442300"
)

_BOMB: Final = (
    bytes.fromhex("edc13101000000c2a0f54fed6f06a0") + bytes(253) + bytes.fromhex("00ce00")
)
"""262,145 zeros."""

_PRESENT: Final = digest_of(((11, 12), (21, 22)))

CONTROL: Final = Family(
    file="control",
    about="Control packets, with the messages by which daemons agree on views.",
    read=read_packet,
    good=[
        Example("beacon", "A daemon of a view that hears another one.", control(_BEACON)),
        Example(
            "join",
            "The second attempt of a daemon that comes from a view of one ring.",
            control(_JOIN),
        ),
        Example(
            "join of a new start",
            "It comes from no view.",
            control(Join(1, "größe", bytes(16), (), TIME, 0, 0, 10, None, (1, 2, 3, 99))),
        ),
        Example(
            "commit", "Two members hear each other; packets 5 and 6 are lacking.", control(_COMMIT)
        ),
        Example(
            "commit of a daemon that has recovered",
            "It has an obligation.",
            control(Commit(2, Proposal(_SEATS), True, False, ())),
        ),
        Example(
            "short beacon",
            "Both of two daemons are there; the digest stands for them.",
            control(ShortBeacon(b"\3", _PRESENT, structs.replace(_BEACON, heard=()))),
        ),
        Example(
            "short join",
            "The same daemons, heard by one that comes from a view.",
            control(ShortJoin(b"\3", _PRESENT, structs.replace(_JOIN, heard=()))),
        ),
        Example(
            "short commit",
            "The digest is that of the proposal of the commit above.",
            control(ShortCommit(2, digest_of(Proposal(_SEATS)), True, False, ())),
        ),
        Example("ask", "For a JOIN in full.", control(Ask(ControlKind.JOIN))),
        Example("repair", "A packet of the old view.", control(Repair(KEY, FIFO.raw))),
        Example("leave", "It has no fields.", control(Leave())),
        Example("links", "One link is lost.", control(Links(KEY, ((0, 2),)))),
        Example(
            "settings",
            "Some that must be equal, one that should.",
            control(
                Settings(
                    "a",
                    bytes(16),
                    (("packet_bytes", ("1340",)),),
                    (("windows.visit_bytes", ("262144",)),),
                )
            ),
        ),
        Example(
            "roster",
            "One that counts; the bytes are no real ones.",
            control(RosterNotice("a", True, b"roster")),
        ),
        Example(
            "relayed",
            "Two packets, in one block of DEFLATE that is stored.",
            control(Relayed(_stored(_joined(control(Leave(), 10, 21), control(_COMMIT, 11, 31))))),
        ),
        Example(
            "relayed and compressed",
            "Two packets, with fixed codes. An encoder may choose other ones.",
            control(Relayed(_DEFLATED)),
        ),
        Example(
            "a part",
            "The second of three parts of a JOIN.",
            _raw_control(ControlKind.JOIN, b"\x01\x02", 1, 3),
        ),
    ],
    bad=[
        Example("part 3 of 3", "Parts count from 0.", _raw_control(ControlKind.JOIN, b"", 3, 3)),
        Example("1,025 parts", "1,024 are allowed.", _raw_control(ControlKind.JOIN, b"", 0, 1025)),
        Example(
            "an unknown kind", "A daemon passes it on, and ignores it.", _raw_control(15, b"\x90")
        ),
        Example(
            "no MessagePack", "A leave is an empty array.", _raw_control(ControlKind.LEAVE, b"\xc1")
        ),
        Example(
            "a field too many", "A leave has none.", _raw_control(ControlKind.LEAVE, b"\x91\1")
        ),
        Example(
            "a field too few",
            "A repair has two.",
            _raw_control(ControlKind.REPAIR, b"\x91\1"),
        ),
        Example(
            "bytes behind the array",
            "It ends the message.",
            _raw_control(ControlKind.LEAVE, b"\x90\0"),
        ),
        Example(
            "packets without the end of DEFLATE",
            "The last block is marked as such.",
            control(Relayed(_DEFLATED[:-1])),
        ),
        Example(
            "a byte behind the end of DEFLATE",
            "It ends the packets.",
            control(Relayed(_DEFLATED + b"\0")),
        ),
        Example(
            "relayed packets that end early",
            "The last packet is shorter than its length.",
            control(Relayed(_stored(_LEAVES[:-1]))),
        ),
        Example(
            "too many bytes of relayed packets",
            "262,144 are allowed.",
            control(Relayed(_BOMB)),
        ),
        Example(
            "seats out of order",
            "They stand by rising number.",
            control(Commit(2, Proposal(_SEATS[::-1]), False, False, ())),
        ),
        Example(
            "bits that do not fit the seats",
            "Two seats have one byte of bits.",
            control(Commit(2, Proposal((Seat(11, 1, 12, 2, b"\0\0"),)), False, False, ())),
        ),
        Example(
            "spans that overlap",
            "Each begins above the one before.",
            control(Commit(2, Proposal(_SEATS), False, False, (((5, 6), (6, 7)),))),
        ),
        Example(
            "a counter near its end",
            "It could not be raised any more.",
            control(Join(1, "a", bytes(16), (), TIME, 0, 2**64 - 1, 10, None, (1, 1, 0))),
        ),
        Example(
            "no version",
            "The lowest is not above the highest.",
            control(Join(1, "a", bytes(16), (), TIME, 0, 0, 10, None, (3, 2, 0))),
        ),
        Example(
            "a daemon's name with a #",
            "It would be no part of a private name.",
            control(Join(1, "a#b", bytes(16), (), TIME, 0, 0, 10, None, _SPOKEN)),
        ),
    ],
)
