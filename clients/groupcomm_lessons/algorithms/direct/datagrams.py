"""The datagrams between peers, and their encoding.

A datagram is two letters, a version, a CRC32C of the rest, and a record (see `values`). The
checksum protects against accidents and the simulator's faults: nothing here is sealed, and anybody
who can reach a peer's port can pose as any peer. So peers are for one host, or a trusted network.

Incarnations are random numbers of 64 bits, one for each start of a peer: a datagram for an earlier
start at the same address does not count for this start.
"""

from typing import Any, Final, NamedTuple, TypeAlias

import google_crc32c

from groupcomm.clocks.vector import VectorClock
from groupcomm.errors import BadDatagram
from groupcomm_lessons.algorithms.buffering import Received
from groupcomm_lessons.algorithms.direct.settings import MAX_NAME_BYTES
from groupcomm_lessons.algorithms.direct.values import Check, Codec, Record, all_are, count, is_a
from groupcomm_lessons.algorithms.global_id import NumberStamp
from groupcomm_lessons.algorithms.last_sender import CauseStamp
from groupcomm_lessons.algorithms.message_history import HistoryStamp, ShortStamp
from groupcomm_lessons.algorithms.process import Message, Name
from groupcomm_lessons.algorithms.real_time import TimeStamp
from groupcomm_lessons.algorithms.schiper_eggli_sandoz import SentStamp

MARK: Final = b"gp\x01"
HEAD_BYTES: Final = len(MARK) + 4

Address: TypeAlias = str
"""The address of datagrams, whose form only the shell knows."""


class Contact(NamedTuple):
    """The address of a peer."""

    name: Name
    address: Address
    incarnation: int


class Hello(NamedTuple):
    """The greeting of a peer that looks for others.

    Attributes:
        sender, incarnation: the peer.
        algorithm: the name of its algorithm's class.
        founders: the founding members, if it is one of them; empty for a latecomer.
        known: the peers that it has met.
    """

    sender: Name
    incarnation: int
    algorithm: str
    founders: tuple[Name, ...]
    known: tuple[Contact, ...]


class Known(NamedTuple):
    """The answer to `Hello`: both peers know each other now; a latecomer gets a welcome next."""

    sender: Name
    incarnation: int
    target: int  # the incarnation of the receiver
    known: tuple[Contact, ...]


class Ask(NamedTuple):
    """The answer to a latecomer's `Hello`: another member is the sponsor."""

    sender: Name
    target: int
    address: Address


class Refused(NamedTuple):
    """The answer to a `Hello` that cannot be accepted."""

    sender: Name
    target: int
    reason: str


class Part(NamedTuple):
    """A part of an item on a channel.

    Attributes:
        number: the number of the part on its channel, from 1.
        place, parts: its place among the parts of the item, from 0, and the number of parts.
        in_order: 1 if the item waits for all earlier items of the channel; else 0.
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
    """An acknowledgement of parts on a channel; also a sign of life.

    Attributes:
        upto: all parts up to this number have come.
        beyond: further parts that have come.
    """

    sender: Name
    incarnation: int
    target: int
    upto: int
    beyond: tuple[int, ...]


class Gone(NamedTuple):
    """The answer to any datagram from a member that counts as gone."""

    sender: Name
    target: int


class Carried(NamedTuple):
    """A packet of the algorithm."""

    message: Message | None
    stamp: Any


class Bye(NamedTuple):
    """The leave of a member: the sender, or another one.

    Attributes:
        name: the member.
        messages: the number of all its messages.
        told: the members that it notifies itself, after all its other items for them.
    """

    name: Name
    messages: int
    told: tuple[Name, ...]


class Done(NamedTuple):
    """The message that its sender needs nothing more of a member that leaves."""

    name: Name


class Joined(NamedTuple):
    """The message that its sender knows of a member; earlier messages may not be for that one.

    Attributes:
        sponsor: the member that has welcomed it; "" if it is a founder.
        bye: its leave, if it is about to leave.
    """

    contact: Contact
    sponsor: Name
    bye: Bye | None


class Welcoming(NamedTuple):
    """A sponsor's help for a latecomer; see `vector_session.Welcome`.

    Attributes:
        members: all members that the clock counts, except the sponsor and the latecomer.
    """

    clock: VectorClock[Name]
    buffer: tuple[Received, ...]
    left: tuple[Name, ...]
    members: tuple[Joined, ...]


Datagram: TypeAlias = Hello | Known | Ask | Refused | Part | Ack | Gone
Payload: TypeAlias = Carried | Welcoming | Joined | Bye | Done
"""An item of a channel."""


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
    """Return the bytes of a datagram."""
    body = CODEC.encode(datagram)
    return MARK + _checksum(body) + body


def decode_datagram_untrusted(data: bytes) -> Datagram:
    """Return the datagram in these bytes.

    Raises:
        BadDatagram: the bytes are no datagram. No other exception, whatever the bytes.
    """
    if data[: len(MARK)] != MARK:
        raise BadDatagram("mark", "the datagram is of another program or version")
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
    """Return the bytes of an item of a channel.

    Raises:
        LocalProtocolError: a stamp is of a kind that has no encoding.
    """
    return CODEC.encode(payload)


def decode_payload_untrusted(data: bytes) -> Payload:
    """Return the item of a channel in these bytes.

    Raises:
        BadDatagram: the bytes are no item. No other exception, whatever the bytes.
    """
    found = CODEC.decode_value_untrusted(data)
    if not isinstance(found, Payload):
        raise BadDatagram("kind", type(found).__name__)
    return found
