"""Requests and answers of a conversation, and the package that an admitted daemon gets.

All of them are MessagePack arrays, sealed with the keys of the conversation.
"""

from math import inf
from typing import Annotated, Final, TypeAlias

import attrs
import msgspec
from msgspec import Meta

from groupcomm.config.roster import MAX_ADDRESSES, Roster
from groupcomm.config.view import MAX_DAEMONS
from groupcomm.errors import BadDatagram, ConfigError
from groupcomm.security.identity import Roll
from groupcomm.security.keys import KEY_BYTES, KeyRing
from groupcomm.wire.joining import ROOM_BYTES
from groupcomm.wire.roster import decode_roster_untrusted, encode_roster

MAX_PACKAGE_BYTES: Final = 1_000_000
PART_BYTES: Final = ROOM_BYTES - 64
"""The bytes of a package in one answer."""

MAX_REASON: Final = 600

_Text = Annotated[str, Meta(min_length=1, max_length=255)]
_Addresses = Annotated[tuple[_Text, ...], Meta(min_length=1, max_length=MAX_ADDRESSES)]
_Key = Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
_Number = Annotated[int, Meta(ge=0, le=0xFFFF)]


class JoinRequest(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag=1):
    """Admit the daemon of this name, at these addresses."""

    name: _Text
    addresses: _Addresses


class MoveRequest(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag=2):
    """The daemon of this name is at these addresses; with identities it has signed that."""

    name: _Text
    addresses: _Addresses
    signature: Annotated[bytes, Meta(max_length=64)] = b""


class PartRequest(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag=3):
    """Send this part of the package, from 0."""

    part: Annotated[int, Meta(ge=0, le=MAX_PACKAGE_BYTES // PART_BYTES)]


def signed_text(transcript: bytes, request: MoveRequest) -> bytes:
    """Return the bytes that a daemon signs to move itself, in this conversation only."""
    return transcript + encode(MoveRequest(request.name, request.addresses))


Request: TypeAlias = JoinRequest | MoveRequest | PartRequest


class Wait(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag=1):
    """The cluster works at it, or cannot begin yet for this reason: ask again."""

    reason: Annotated[str, Meta(max_length=MAX_REASON)]


class Refused(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag=2):
    """The cluster refuses, for this reason."""

    reason: Annotated[str, Meta(max_length=MAX_REASON)]


class Ready(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag=3):
    """It is done; the package has this size in bytes. After a move it is the roster."""

    size: Annotated[int, Meta(ge=0, le=MAX_PACKAGE_BYTES)]


class Part(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True, tag=4):
    """The part that was asked for."""

    data: Annotated[bytes, Meta(min_length=1, max_length=PART_BYTES)]


Answer: TypeAlias = Wait | Refused | Ready | Part

_requests: Final[msgspec.msgpack.Decoder[Request]] = msgspec.msgpack.Decoder(Request)
_answers: Final[msgspec.msgpack.Decoder[Answer]] = msgspec.msgpack.Decoder(Answer)
_ERRORS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def encode(message: Request | Answer) -> bytes:
    """Return a request or an answer as bytes."""
    return msgspec.msgpack.encode(message)


def decode_request_untrusted(data: bytes) -> Request:
    """Decode a whole request; raise only BadDatagram, whatever the bytes."""
    try:
        return _requests.decode(data)
    except _ERRORS as error:
        raise BadDatagram("request", str(error)) from None


def decode_answer_untrusted(data: bytes) -> Answer:
    """Decode a whole answer; raise only BadDatagram, whatever the bytes."""
    try:
        return _answers.decode(data)
    except _ERRORS as error:
        raise BadDatagram("answer", str(error)) from None


@attrs.frozen(kw_only=True)
class Package:
    """All that a daemon needs to be one of a cluster.

    Attributes:
        cluster: the name of the cluster.
        roster: the roster, with the daemon.
        timing: the timings, in seconds, by name; those of configuration files.
        packet_bytes: the bytes of one datagram before sealing.
        suite: the suite of datagrams, 0 to 2.
        keys: the keys of the cluster; None in suite 0.
        roll: the identities of all daemons; None below suite 2.
        multicast: the multicast address of the daemon's site; None without one.
    """

    cluster: str
    roster: Roster
    timing: dict[str, float]
    packet_bytes: int
    suite: int
    keys: KeyRing | None = attrs.field(repr=False)
    roll: Roll | None = None
    multicast: str | None = None


class _Package(msgspec.Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    cluster: _Text
    roster: bytes
    timing: Annotated[dict[_Text, float], Meta(max_length=64)]
    packet_bytes: Annotated[int, Meta(ge=1, le=0xFFFF)]
    suite: Annotated[int, Meta(ge=0, le=2)]
    keys: Annotated[dict[_Number, _Key], Meta(max_length=1024)]
    active: _Number
    daemons: Annotated[dict[_Text, _Key], Meta(max_length=2 * MAX_DAEMONS)] | None
    evicted: dict[_Key, _Text]
    multicast: _Text | None


_packages: Final = msgspec.msgpack.Decoder(_Package)


def encode_package(package: Package) -> bytes:
    """Return a package as bytes."""
    keys, roll = package.keys, package.roll
    return msgspec.msgpack.encode(
        _Package(
            cluster=package.cluster,
            roster=encode_roster(package.roster),
            timing=package.timing,
            packet_bytes=package.packet_bytes,
            suite=package.suite,
            keys={} if keys is None else dict(keys.keys),
            active=0 if keys is None else keys.active,
            daemons=None if roll is None else dict(roll.daemons),
            evicted={} if roll is None else dict(roll.evicted),
            multicast=package.multicast,
        )
    )


def decode_package_untrusted(data: bytes) -> Package:
    """Decode a whole package; raise only BadDatagram, whatever the bytes."""
    try:
        found = _packages.decode(data)
        if not all(0.0 <= value < inf for value in found.timing.values()):
            raise BadDatagram("package", "a time is no finite number")
        return Package(
            cluster=found.cluster,
            roster=decode_roster_untrusted(found.roster),
            timing=found.timing,
            packet_bytes=found.packet_bytes,
            suite=found.suite,
            keys=KeyRing(found.keys, found.active) if found.keys else None,
            roll=None if found.daemons is None else Roll(found.daemons, found.evicted),
            multicast=found.multicast,
        )
    except (*_ERRORS, ConfigError) as error:
        raise BadDatagram("package", str(error)) from None
