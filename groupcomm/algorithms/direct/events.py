"""What comes of a call to a peer: datagrams to send, and news for its user, in this order."""

import enum
from typing import TypeAlias

import attrs

from groupcomm.algorithms.concurrency import ConcurrentMessage
from groupcomm.algorithms.direct.datagrams import Address
from groupcomm.algorithms.process import Message, Name


class Cause(enum.Enum):
    """Why somebody is a member no longer."""

    LEFT = "left"  # it said so
    SILENT = "silent"  # nothing was heard of it for too long


@attrs.frozen
class Send:
    """Send a datagram.

    Attributes:
        to: whom it is for, if that is known.
        address: where that is.
    """

    to: Name | None
    address: Address
    data: bytes


@attrs.frozen
class Started:
    """All members are here, or a sponsor has welcomed: messages may be sent."""

    members: tuple[Name, ...]


@attrs.frozen
class Delivered:
    """The algorithm delivers a message."""

    message: Message


@attrs.frozen
class NotDelivered:
    """The algorithm refuses a message, and says why."""

    error: ConcurrentMessage


@attrs.frozen
class MemberJoined:
    """A latecomer is a member now."""

    name: Name


@attrs.frozen
class MemberLeft:
    """Somebody is a member no longer; nothing more of it is delivered in a session."""

    name: Name
    cause: Cause


@attrs.frozen
class Ended:
    """Nothing more comes; `reason` is None if this peer has left by its own will."""

    reason: str | None


News: TypeAlias = Started | Delivered | NotDelivered | MemberJoined | MemberLeft | Ended
Action: TypeAlias = Send | News
