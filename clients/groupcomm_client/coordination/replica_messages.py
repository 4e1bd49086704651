"""The messages between the replicas of one state machine: commands, claims, pieces, snapshots.

All are AGREED or SAFE messages to the replicas' group, as msgpack with a tag of two letters.
"""

from typing import TypeAlias

import msgspec

from groupcomm.clocks.stamp import Position
from groupcomm.events import MemberId
from groupcomm_client.undecodable import UNDECODABLE


class Command(msgspec.Struct, frozen=True, tag="do", array_like=True, gc=False):
    """A command that every replica applies.

    Attributes:
        number: unique among the commands of its sender.
        data: the command for the state machine.
    """

    number: int
    data: bytes


class Claim(msgspec.Struct, frozen=True, tag="my", array_like=True):
    """A claim: the state that some replicas have in common, sent by the first of them.

    Attributes:
        exchange: the view of the group in which claims are compared.
        holders: the replicas that have exactly this state.
        version: the place of the last message that was applied to it; None if they have no state.
        state: what the state has, if the machine is mergeable; see `MergeableMachine.claim`.
    """

    exchange: Position
    holders: tuple[MemberId, ...]
    version: Position | None
    state: bytes | None = None


class Snapshot(msgspec.Struct, frozen=True, tag="it", array_like=True):
    """The state, for the replicas that lack it.

    Attributes:
        as_of: all messages ordered at or before this place are in it.
        members: the members of the group at that place.
        state: the state of the state machine.
    """

    as_of: Position
    members: tuple[MemberId, ...]
    state: bytes


class NoSnapshot(msgspec.Struct, frozen=True, tag="no", array_like=True):
    """A state that was asked for, and cannot be given.

    Attributes:
        as_of: the place at which it was asked for, as in a `Snapshot`.
        why: the reason, for people.
        is_last: whether no other replica has the state.
    """

    as_of: Position
    why: str
    is_last: bool


class Piece(msgspec.Struct, frozen=True, tag="pc", array_like=True):
    """A piece of a mergeable state that others lack.

    Attributes:
        exchange: the view of the group in which states are compared.
        data: the piece; see `MergeableMachine.missing`.
    """

    exchange: Position
    data: bytes


class Part(msgspec.Struct, frozen=True, tag="pt", array_like=True):
    """A part of a message that is too large to be sent at once.

    Attributes:
        number: the number of the message at its sender.
        index: the place of the part in it, from 0.
        count: the number of its parts.
        data: some of its bytes.
    """

    number: int
    index: int
    count: int
    data: bytes


ReplicaMessage: TypeAlias = Command | Claim | Snapshot | NoSnapshot | Piece | Part

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[ReplicaMessage] = msgspec.msgpack.Decoder(ReplicaMessage)


def encode(message: ReplicaMessage) -> bytes:
    """Return a message as bytes for the group."""
    return _encoder.encode(message)


def decode_untrusted(data: bytes) -> ReplicaMessage | None:
    """Return the message of a replica; None for bytes that no replica has sent."""
    try:
        return _decoder.decode(data)
    except UNDECODABLE:
        return None
