"""The results of a call to a peer, in order: datagrams to send, and news for its user."""

import enum
from typing import TypeAlias

import attrs

from groupcomm_lessons.algorithms.concurrency import ConcurrentMessage
from groupcomm_lessons.algorithms.direct.datagrams import Address
from groupcomm_lessons.algorithms.process import Message, Name


class Cause(enum.Enum):
    """The reason why a member is gone."""

    LEFT = "left"  # the peer has left
    SILENT = "silent"  # the peer was silent for too long


@attrs.frozen
class Send:
    """A datagram to send.

    Attributes:
        to: the receiver, if it is known.
        address: the address of the receiver.
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
    """The algorithm refuses a message, for a reason."""

    error: ConcurrentMessage


@attrs.frozen
class MemberJoined:
    """A latecomer is a member now."""

    name: Name


@attrs.frozen
class MemberLeft:
    """A member is gone; in a session no more of its messages are delivered."""

    name: Name
    cause: Cause


@attrs.frozen
class Ended:
    """The end of all events; `reason` is None if this peer has left of its own will."""

    reason: str | None


News: TypeAlias = Started | Delivered | NotDelivered | MemberJoined | MemberLeft | Ended
Action: TypeAlias = Send | News
