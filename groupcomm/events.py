"""What a client is told: messages, group views, and the fate of what it sent."""

import enum
from typing import TypeAlias

import attrs

from groupcomm.clocks.stamp import Position, ViewId
from groupcomm.level import ServiceLevel


class Cause(enum.Enum):
    """Why a group view differs from the one before."""

    JOIN = 0
    LEAVE = 1
    DISCONNECT = 2
    NETWORK = 3  # the view of daemons changed


@attrs.frozen(order=True)
class MemberId:
    """The identity of one session, never used again.

    Attributes:
        name: its private name, ``#user#daemon``; free for others after it has disconnected.
        connection: its number at its daemon.
    """

    name: str
    connection: int

    def __str__(self) -> str:
        return f"{self.name}/{self.connection}"


@attrs.frozen(kw_only=True)
class Connected:
    """The daemon has admitted this session, and every daemon knows of it."""

    member: MemberId
    bundle_limit: int  # bytes of one encoded bundle body that the daemon takes


@attrs.frozen(kw_only=True)
class Message:
    """One delivered message.

    Attributes:
        sender: who sent it.
        number: its sender's count of messages; with `sender` it names the message.
        groups: all destinations, as the sender gave them.
        type: the sender's 16-bit tag.
        position: its key in the agreed order; None for UNRELIABLE.
    """

    sender: MemberId
    number: int
    groups: tuple[str, ...]
    level: ServiceLevel
    type: int
    data: bytes
    position: Position | None


@attrs.frozen(kw_only=True)
class GroupView:
    """The members of one group from this position of the agreed order on.

    Attributes:
        group: the group's name.
        id: the position of the change; the same at every member.
        members: in the order in which they joined.
        cause: why it changed.
        changed: who joined, left or disconnected; empty for NETWORK.
        vs_set: the members that come from the same earlier view of the group as this one does.
        own: whether the receiver itself has joined or left.
    """

    group: str
    id: Position
    members: tuple[MemberId, ...]
    cause: Cause
    changed: tuple[MemberId, ...]
    vs_set: tuple[MemberId, ...]
    own: bool


@attrs.frozen(kw_only=True)
class Ordered:
    """A message sent with ``ordered=True``: nothing lower can still come anywhere it matters."""

    number: int
    position: Position


@attrs.frozen(kw_only=True)
class Undeliverable:
    """A private message was ordered after its receiver had gone, or no such name existed."""

    number: int
    target: str
    position: Position


@attrs.frozen(kw_only=True)
class Closed:
    """The session has ended; nothing follows.

    Attributes:
        code: 0 after an orderly end, else the error's number.
        reason: a sentence for the user.
    """

    code: int
    reason: str


Event: TypeAlias = Connected | Message | GroupView | Ordered | Undeliverable | Closed

__all__ = [
    "Cause",
    "Closed",
    "Connected",
    "Event",
    "GroupView",
    "MemberId",
    "Message",
    "Ordered",
    "Position",
    "Undeliverable",
    "ViewId",
]
