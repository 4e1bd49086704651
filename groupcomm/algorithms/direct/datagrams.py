"""What peers send to each other <-> bytes.

A datagram is two letters, a version, a CRC32C of what follows, and a record (see `values`). The
checksum is against accidents, and the simulator's: nothing here is sealed, and who can reach a
peer's port can claim to be anybody. So peers are for one host, or a network that one trusts.

Incarnations are random numbers of 64 bits, one a peer's start: a datagram for an earlier start at
the same address is not taken for one of this.
"""

from typing import Any, Final, NamedTuple, TypeAlias

import google_crc32c

from groupcomm.algorithms.buffering import Received
from groupcomm.algorithms.direct.settings import MAX_NAME_BYTES
from groupcomm.algorithms.direct.values import Check, Codec, Record, all_are, count, is_a
from groupcomm.algorithms.global_id import NumberStamp
from groupcomm.algorithms.last_sender import CauseStamp
from groupcomm.algorithms.message_history import HistoryStamp, ShortStamp
from groupcomm.algorithms.process import Message, Name
from groupcomm.algorithms.real_time import TimeStamp
from groupcomm.algorithms.schiper_eggli_sandoz import SentStamp
from groupcomm.clocks.vector import VectorClock
from groupcomm.errors import BadDatagram

MARK: Final = b"gp\x01"
HEAD_BYTES: Final = len(MARK) + 4

Address: TypeAlias = str
"""Where datagrams go to; what it looks like is the shell's affair."""


class Contact(NamedTuple):
    """Who can be reached where."""

    name: Name
    address: Address
    incarnation: int


class Hello(NamedTuple):
    """I am here; who are you, and whom do you know?

    Attributes:
        sender, incarnation: who says it.
        algorithm: name of its class.
        founders: members from the beginning, if it is one of them; of a latecomer none.
        known: whom it has met.
    """

    sender: Name
    incarnation: int
    algorithm: str
    founders: tuple[Name, ...]
    known: tuple[Contact, ...]


class Known(NamedTuple):
    """The answer to `Hello`: now we have met; a sponsor's welcome follows, for a latecomer."""

    sender: Name
    incarnation: int
    target: int  # incarnation of whom it is for
    known: tuple[Contact, ...]


class Ask(NamedTuple):
    """The answer to a latecomer's `Hello`: somebody else welcomes here."""

    sender: Name
    target: int
    address: Address


class Refused(NamedTuple):
    """The answer to a `Hello` that cannot be granted."""

    sender: Name
    target: int
    reason: str


class Part(NamedTuple):
    """A part of what was put on a channel.

    Attributes:
        number: of the part, on its channel, from 1.
        place, parts: its place among the parts of the whole, from 0, and how many these are.
        in_order: 1 if the whole waits for all that was put on the channel before it; else 0.
    """

    sender: Name
    incarnation: int
    target: int
    number: int
    place: int
    parts: int
    in_order: int
    data: bytes


class Ack(NamedTuple):
    """What has come on a channel; also a sign of life.

    Attributes:
        upto: all up to this number have come.
        beyond: and these.
    """

    sender: Name
    incarnation: int
    target: int
    upto: int
    beyond: tuple[int, ...]


class Gone(NamedTuple):
    """The answer to whatever comes from somebody who counts as one that has left."""

    sender: Name
    target: int


class Carried(NamedTuple):
    """A packet of the algorithm."""

    message: Message | None
    stamp: Any


class Bye(NamedTuple):
    """A member leaves, its sender or another.

    Attributes:
        name: who.
        messages: how many it has sent in all.
        told: to whom it says so itself, behind all else that goes there.
    """

    name: Name
    messages: int
    told: tuple[Name, ...]


class Done(NamedTuple):
    """Its sender needs nothing more of somebody who leaves."""

    name: Name


class Joined(NamedTuple):
    """Its sender knows of a member: what it sent before this may not be for that one.

    Attributes:
        sponsor: who has welcomed it; "" if it is a founder.
        bye: if it is about to leave.
    """

    contact: Contact
    sponsor: Name
    bye: Bye | None


class Welcoming(NamedTuple):
    """A sponsor's help for a latecomer; see `vector_session.Welcome`.

    Attributes:
        members: all that the clock counts but the sponsor and the latecomer.
    """

    clock: VectorClock[Name]
    buffer: tuple[Received, ...]
    left: tuple[Name, ...]
    members: tuple[Joined, ...]


Datagram: TypeAlias = Hello | Known | Ask | Refused | Part | Ack | Gone
Payload: TypeAlias = Carried | Welcoming | Joined | Bye | Done
"""What is put on channels."""


def _name(value: Any) -> bool:
    return type(value) is str and 0 < len(value.encode()) <= MAX_NAME_BYTES


_text, _anything = is_a(str), lambda value: True
_names, _contacts = all_are(_name), all_are(is_a(Contact))
_clock, _dict = is_a(VectorClock), is_a(dict)
_head: Final = (_name, count, count)

_RECORDS: Final[dict[type[Any], tuple[Check, ...]]] = {
    Contact: (_name, _text, count),
    Hello: (_name, count, _text, _names, _contacts),
    Known: (*_head, _contacts),
    Ask: (_name, count, _text),
    Refused: (_name, count, _text),
    Part: (*_head, count, count, count, count, is_a(bytes)),
    Ack: (*_head, count, all_are(count)),
    Gone: (_name, count),
    Carried: (is_a(Message, type(None)), _anything),
    Joined: (is_a(Contact), _text, is_a(Bye, type(None))),
    Welcoming: (_clock, all_are(is_a(Received)), _names, all_are(is_a(Joined))),
    Bye: (_name, count, _names),
    Done: (_name,),
    Message: (_name, count, _names, is_a(bytes)),
    Received: (is_a(Message), _anything),
    TimeStamp: (count, _name, count),
    NumberStamp: (count, _name),
    CauseStamp: (_name, count, _text, count),
    HistoryStamp: (is_a(tuple), _dict),
    ShortStamp: (_dict,),
    SentStamp: (_clock, _dict),
}

CODEC: Final = Codec([Record(*each) for each in _RECORDS.items()])


def encode_datagram(datagram: Datagram) -> bytes:
    """The bytes of a datagram."""
    body = CODEC.encode(datagram)
    return MARK + _checksum(body) + body


def decode_datagram_untrusted(data: bytes) -> Datagram:
    """The datagram that came as these bytes.

    Raises:
        BadDatagram: it is none. No other exception, whatever the bytes.
    """
    if data[: len(MARK)] != MARK:
        raise BadDatagram("mark", "of another program or version")
    body = data[HEAD_BYTES:]
    if data[len(MARK) : HEAD_BYTES] != _checksum(body):
        raise BadDatagram("checksum")
    found = CODEC.decode_value_untrusted(body)
    if not isinstance(found, Datagram):
        raise BadDatagram("kind", type(found).__name__)
    return found


def _checksum(body: bytes) -> bytes:
    value: int = google_crc32c.value(body)
    return value.to_bytes(4, "big")


def encode_payload(payload: Payload) -> bytes:
    """The bytes of what is put on a channel.

    Raises:
        LocalProtocolError: a stamp is of a kind that has none.
    """
    return CODEC.encode(payload)


def decode_payload_untrusted(data: bytes) -> Payload:
    """What was put on a channel as these bytes.

    Raises:
        BadDatagram: nothing was. No other exception, whatever the bytes.
    """
    found = CODEC.decode_value_untrusted(data)
    if not isinstance(found, Payload):
        raise BadDatagram("kind", type(found).__name__)
    return found
